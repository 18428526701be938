"""Other systems that are told of every decision.

A message is the log's entry, signed; it is sent again until it was taken, in the log's order, so
that who receives it counts by its number. Those that are asked for complaints: `sources.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
import urllib.request
from urllib.parse import urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk import ledger
from parity311.desk.accounts import utc_now
from parity311.desk.desk import Desk
from parity311.desk.outside import ask
from parity311.desk.refusals import DeskRefusal, NothingThereError
from parity311.desk.tables import HookRow, SourceRow
from parity311.lifecycle.chain import LogEntry
from parity311.storage.strict_json import to_json

SIGNATURE = "X-Parity311-Signature"
AGAIN_SECONDS = 30.0
"""Wait after a system did not answer."""
MOST_SENT = 100
TOLD = ("chosen", "recommended", "role", "arm", "propensity", "city_time", "into", "takes_back")


def check_address(address: str) -> str:
    """An address of the web without a password in it, which the page would show, or a refusal."""
    try:
        parts = urlsplit(address.strip())
        is_plain = bool(parts.hostname) and "@" not in parts.netloc and (parts.port or 1) > 0
    except ValueError:
        parts, is_plain = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not is_plain or not address.isprintable():
        raise DeskRefusal(
            f"{address[:80]!r} was given; write an address such as https://311.example.org/open311."
        )
    return address.strip().rstrip("/")


def add_hook(session: Session, name: str, address: str, by: str) -> str:
    """Tell a system of every decision from now on; the secret that messages are signed with."""
    if session.get(HookRow, name) is not None:
        raise DeskRefusal(f"There is a system {name!r} already; choose another name.")
    secret = secrets.token_urlsafe(32)
    session.add(
        HookRow(
            name=name, address=check_address(address), secret=secret, made_by=by,
            made_at=utc_now(), sent_seq=ledger.head_of(session)[0],
        )
    )  # fmt: skip
    return secret


def end_partner(session: Session, table: type[HookRow] | type[SourceRow], name: str) -> None:
    """Tell or ask a system no more."""
    row = session.get(table, name)
    if row is None or row.ended_at:
        raise NothingThereError(f"{name[:60]!r} is not in use; the list has those there are.")
    row.ended_at = utc_now()


def tell_partners(desk: Desk) -> int:
    """Send what is new in the log to every system that is told; how many messages were taken."""
    with desk.database.reading() as session:
        hooks = session.scalars(select(HookRow).where(HookRow.ended_at == "")).all()
        session.expunge_all()
    return sum(_tell(desk, one) for one in hooks if is_time(desk, f"hook {one.name}"))


def _tell(desk: Desk, hook: HookRow) -> int:
    with desk.database.reading() as session:
        entries = ledger.read_after(session, hook.sent_seq, MOST_SENT)
    sent, problem = 0, ""
    for entry in entries:
        problem = _send(desk, hook, entry)
        if problem:
            wait(desk, f"hook {hook.name}", AGAIN_SECONDS)
            break
        sent += 1
    if sent or problem != hook.problem:
        with desk.database.writing() as session:
            row = session.get_one(HookRow, hook.name)
            row.problem = problem
            if sent:
                row.sent_seq = entries[sent - 1].seq
    return sent


def _send(desk: Desk, hook: HookRow, entry: LogEntry) -> str:
    """Send one entry; why it was not taken, or nothing."""
    details = ledger.details_of(entry)
    message = {
        "entry": entry.seq, "at": entry.at, "act": entry.action, "domain": entry.domain,
        "version": entry.version, "complaint_id": details.get("case", ""), "hash": entry.hash,
        **{name: details[name] for name in TOLD if name in details},
    }  # fmt: skip
    body = to_json(message).encode()
    signed = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", SIGNATURE: f"sha256={signed}"}
    request = urllib.request.Request(hook.address, body, headers)
    return ask(request, loopback=desk.own_machine)[1]


def is_time(desk: Desk, name: str) -> bool:
    """Whether a system may be spoken to again."""
    return time.monotonic() >= desk.more.setdefault("partners", {}).get(name, 0.0)


def wait(desk: Desk, name: str, seconds: float) -> None:
    """Do not speak to a system for so long."""
    desk.more.setdefault("partners", {})[name] = time.monotonic() + seconds
