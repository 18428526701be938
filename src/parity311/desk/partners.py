"""Other systems: those that are told of every decision, and those that are asked for complaints.

A message is the log's entry, signed; it is sent again until it was taken, in the log's order, so
that who receives it counts by its number. A source is asked again and again for what is new;
a complaint that comes twice is taken once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk import ledger
from parity311.desk.accounts import utc_now
from parity311.desk.desk import Desk
from parity311.desk.georeport import city_time
from parity311.desk.intake import NewComplaint, nearest_tract, record_closing, take_in
from parity311.desk.refusals import DeskRefusal, NothingThereError
from parity311.desk.tables import CLOSED, ClosingRow, HookRow, ReportRow, SourceRow
from parity311.errors import InputError, Parity311Error
from parity311.lifecycle.chain import LogEntry
from parity311.storage.strict_json import to_json

SIGNATURE = "X-Parity311-Signature"
ANSWER_SECONDS = 5.0
AGAIN_SECONDS = 30.0
"""Wait after a system did not answer."""
MOST_SENT, MOST_READ = 100, 1000
LARGEST_ANSWER = 20_000_000
DAYS_BACK = 7
"""Days that a source is asked for when it is asked first."""
KINDS = ("georeport", "socrata")
TOLD = ("chosen", "recommended", "role", "arm", "propensity", "city_time", "into", "takes_back")
FIELDS = {
    "georeport": ("service_request_id", "requested_datetime", "service_code", "lat", "long"),
    "socrata": ("unique_key", "created_date", "complaint_type", "latitude", "longitude"),
}
"""Where a source's rows have number, time, code and place."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any, **more: Any) -> None:
        """Go nowhere else than where the administrator said."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def check_address(address: str) -> str:
    """An address of the web, or a refusal."""
    parts = urlsplit(address.strip())
    if parts.scheme not in ("http", "https") or not parts.netloc or not address.isprintable():
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


def add_source(
    session: Session, desk: Desk, name: str, kind: str, address: str, codes: str, minutes: float,
    by: str,
) -> None:  # fmt: skip
    """Ask a system for complaints every so many minutes."""
    if session.get(SourceRow, name) is not None:
        raise DeskRefusal(f"There is a source {name!r} already; choose another name.")
    if kind not in KINDS:
        raise DeskRefusal(f"{kind[:40]!r} was given; allowed is {' or '.join(KINDS)}.")
    read_codes(desk, codes)
    session.add(
        SourceRow(
            name=name, kind=kind, address=check_address(address), codes=codes, minutes=minutes,
            made_by=by, made_at=utc_now(),
        )
    )  # fmt: skip


def read_codes(desk: Desk, text: str) -> dict[str, tuple[str, str]]:
    """Lines `their code = domain / category` -> domain and category."""
    found: dict[str, tuple[str, str]] = {}
    for line in filter(str.strip, text.splitlines()):
        theirs, is_pair, ours = line.rpartition("=")
        domain, _, category = (one.strip() for one in ours.partition("/"))
        if not is_pair or not theirs.strip() or domain not in desk.offices:
            raise DeskRefusal(
                f"{line[:60]!r} was given; write one line a code, as Heat = heat / HEAT ONLY. "
                f"Served here: {', '.join(desk.offices)}."
            )
        codes = desk.office(domain).codes
        category = category or next(iter(codes))
        if category not in codes:
            raise DeskRefusal(
                f"{category[:60]!r} is no category of {domain}; allowed: {', '.join(codes)}."
            )
        found[theirs.strip()] = (domain, category)
    if not found:
        raise DeskRefusal("No code was given; write one line a code, as Heat = heat / HEAT ONLY.")
    return found


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
    return sum(_tell(desk, one) for one in hooks if _is_time(desk, f"hook {one.name}"))


def _tell(desk: Desk, hook: HookRow) -> int:
    with desk.database.reading() as session:
        entries = ledger.read_after(session, hook.sent_seq, MOST_SENT)
    sent, problem = 0, ""
    for entry in entries:
        problem = _send(hook, entry)
        if problem:
            _wait(desk, f"hook {hook.name}", AGAIN_SECONDS)
            break
        sent += 1
    if sent or problem != hook.problem:
        with desk.database.writing() as session:
            row = session.get_one(HookRow, hook.name)
            row.problem = problem
            if sent:
                row.sent_seq = entries[sent - 1].seq
    return sent


def _send(hook: HookRow, entry: LogEntry) -> str:
    """Send one entry; why it was not taken, or nothing."""
    details = entry.details
    message = {
        "entry": entry.seq, "at": entry.at, "act": entry.action, "domain": entry.domain,
        "version": entry.version, "complaint_id": details.get("case", ""), "hash": entry.hash,
        **{name: details[name] for name in TOLD if name in details},
    }  # fmt: skip
    body = to_json(message).encode()
    signed = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", SIGNATURE: f"sha256={signed}"}
    return _ask(urllib.request.Request(hook.address, body, headers))[1]


def ask_sources(desk: Desk) -> int:
    """Ask every source that is due for what is new; how many complaints were new."""
    with desk.database.reading() as session:
        sources = session.scalars(select(SourceRow).where(SourceRow.ended_at == "")).all()
        session.expunge_all()
    n = 0
    for one in sources:
        if _is_time(desk, f"source {one.name}"):
            _wait(desk, f"source {one.name}", 60.0 * one.minutes)
            n += ask_source(desk, one)
    return n


def ask_source(desk: Desk, source: SourceRow) -> int:
    """Ask one source; how many complaints were new. What it answers wrongly is told on its page."""
    now = desk.clock.now()
    began = datetime.fromisoformat(source.read_to) if source.read_to else now - timedelta(DAYS_BACK)
    body, problem = _ask(urllib.request.Request(_query(source, began)))
    n, read_to = 0, source.read_to
    if not problem:
        try:
            rows = json.loads(body)
            if not isinstance(rows, list):
                raise ValueError("the answer is no list")
            n, read_to, problem = _take_rows(desk, source, rows)
        except (ValueError, RecursionError) as error:
            problem = f"its answer cannot be read ({error})"
    with desk.database.writing() as session:
        row = session.get_one(SourceRow, source.name)
        row.problem, row.read_to = problem[:300], read_to
    return n


def _query(source: SourceRow, began: datetime) -> str:
    """Where the rows since a moment are."""
    stamp = began.isoformat(timespec="seconds")
    if source.kind == "georeport":
        return f"{source.address}/requests.json?{urlencode({'start_date': stamp + 'Z'})}"
    asked = {
        "$where": f"created_date >= '{stamp}'",
        "$order": "created_date",
        "$limit": str(MOST_READ),
    }
    return f"{source.address}?{urlencode(asked)}"


def _take_rows(desk: Desk, source: SourceRow, rows: list[Any]) -> tuple[int, str, str]:
    """Take a source's rows in; how many were new, how far it was read, what was left out."""
    codes = read_codes(desk, source.codes)
    left_out: dict[str, int] = {}
    n, last = 0, source.read_to
    for row in rows:
        try:
            one = _read_row(desk, source, codes, row)
        except (Parity311Error, ValueError, TypeError, KeyError) as error:
            why = str(error) if isinstance(error, Parity311Error) else "a row cannot be read"
            left_out[why] = left_out.get(why, 0) + 1
            continue
        office = desk.office(one.domain)
        with desk.database.writing() as session:
            is_known = session.get(ReportRow, one.complaint_id) is not None
            take_in(session, office, [one], desk.clock.now(), desk.blind_share)
            if row.get("status", "").lower() == CLOSED:
                _close(session, one, row)
        n += not is_known
        last = max(last, one.received_at.isoformat(timespec="seconds"))
    words = "; ".join(f"{times} left out: {why}" for why, times in left_out.items())
    return n, last, words


def _read_row(
    desk: Desk, source: SourceRow, codes: Mapping[str, tuple[str, str]], row: Mapping[str, Any]
) -> NewComplaint:
    number, at, code, lat, long = (row.get(name) for name in FIELDS[source.kind])
    if str(code) not in codes:
        raise InputError(f"their code {str(code)[:40]!r} is not among those that were named")
    domain, category = codes[str(code)]
    tract = nearest_tract(desk, float(str(lat)), float(str(long)))
    if tract is None:
        raise InputError("its place lies outside of the city served here")
    received = min(city_time(str(at)), desk.clock.now())
    return NewComplaint(
        complaint_id=f"{source.name}-{str(number)[:80]}",
        domain=domain,
        category=category,
        severity=desk.office(domain).codes[category],
        received_at=received,
        tract=tract,
        building_id=str(row.get("address_id") or ""),
        source=source.kind,
    )


def _close(session: Session, one: NewComplaint, row: Mapping[str, Any]) -> None:
    """A case that the source says is closed; what came of it is not told."""
    at = row.get("updated_datetime") or row.get("closed_date")
    closed = city_time(str(at)) if at else one.received_at
    record_closing(
        session,
        ClosingRow(
            complaint_id=one.complaint_id,
            domain=one.domain,
            closed_at=max(closed, one.received_at).isoformat(timespec="seconds"),
            disposition="other",
        ),
    )


def _ask(request: urllib.request.Request) -> tuple[bytes, str]:
    """What a system answered, or why it did not."""
    try:
        with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
            body = answer.read(LARGEST_ANSWER + 1)
    except urllib.error.HTTPError as error:
        return b"", f"it answered {error.code}"
    except (OSError, ValueError) as error:
        return b"", f"it cannot be reached ({getattr(error, 'reason', error)})"
    if len(body) > LARGEST_ANSWER:
        return b"", f"its answer is larger than {LARGEST_ANSWER:,} bytes"
    return body, ""


def _is_time(desk: Desk, name: str) -> bool:
    return time.monotonic() >= desk.more.setdefault("partners", {}).get(name, 0.0)


def _wait(desk: Desk, name: str, seconds: float) -> None:
    desk.more.setdefault("partners", {})[name] = time.monotonic() + seconds
