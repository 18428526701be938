"""Accounts and logins: argon2 passwords, tokens of 256 bits of which only the hash is stored.

No account has a password that anybody could know before: those of a demonstration are drawn when
the desk is first started.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from parity311.desk.permissions import Role
from parity311.desk.refusals import (
    DeskRefusal,
    NoLoginError,
    NothingThereError,
    OvertakenError,
    TooManyError,
)
from parity311.desk.tables import AccountRow, LoginRow
from parity311.errors import unknown_name

NAME = re.compile(r"[^\W_][\w.@+-]{0,59}")
LOGIN_HOURS = 12
IDLE_MINUTES = 60
"""A login ends after so long without a request (WCAG 2.2.1: what was typed is not lost, the page
says so and the form comes back after logging in)."""
SHORTEST_PASSWORD = 10
HASHES_AT_ONCE, HASH_WAIT_SECONDS = 2, 10.0
"""A hash takes 64 MB and a core on purpose: many who try at once must not take them all."""
SAMPLE_ACCOUNTS = {
    "intake": Role.INTAKE,
    "supervisor": Role.SUPERVISOR,
    "auditor": Role.AUDITOR,
    "administrator": Role.ADMINISTRATOR,
}


@dataclass(frozen=True)
class Actor:
    """Who asks; the public has no name."""

    name: str = ""
    role: Role = Role.PUBLIC


_hashing = BoundedSemaphore(HASHES_AT_ONCE)


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


def utc_now() -> str:
    """The time as the desk stores what people do."""
    return _stamp(datetime.now(UTC))


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def draw_password() -> str:
    """A password that can be copied from a terminal: 72 bits."""
    return secrets.token_urlsafe(9)


def make_account(session: Session, name: str, role: str, password_hash: str) -> None:
    """Make an account, or refuse a name that is taken; without a hash no password opens it."""
    _check_role(role)
    if not NAME.fullmatch(name):
        raise DeskRefusal(
            f"The name {name[:60]!r} was given; allowed are up to 60 letters, digits, dots, dashes "
            "and what an e-mail address has."
        )
    if session.get(AccountRow, name) is not None:
        raise DeskRefusal(f"There is an account {name!r}; choose another name.")
    session.add(AccountRow(name=name, role=role, password_hash=password_hash, made_at=utc_now()))


def check_own_password(session: Session, name: str, password: str) -> str:
    """The stored hash of who knows their password; hashing takes long, so no turn is held."""
    row = session.get(AccountRow, name)
    if row is None or not _is_right(row.password_hash, password):
        raise DeskRefusal("The present password is another; nothing was changed.")
    return row.password_hash


def set_password(
    session: Session, name: str, password_hash: str, before: str | None = None
) -> None:
    """Give an account another password and end all its logins, in one go.

    `before` is the stored hash that was checked; who changed it meanwhile was first.
    """
    row = _find(session, name)
    if before is not None and row.password_hash != before:
        raise OvertakenError("The password was changed meanwhile; log in with the new one.")
    row.password_hash = password_hash
    end_logins(session, name)


def change_account(session: Session, name: str, role: str, is_active: bool) -> None:
    """Give an account another role, or close it; whoever is logged in with it no longer is."""
    row = _find(session, name)
    _check_role(role)
    if row.role == Role.ADMINISTRATOR and row.is_active:
        others = select(func.count()).where(
            AccountRow.role == Role.ADMINISTRATOR, AccountRow.is_active, AccountRow.name != name
        )
        if (role != Role.ADMINISTRATOR or not is_active) and not session.scalar(others):
            raise DeskRefusal(
                f"{name} is the last administrator, and nobody could manage accounts without; "
                "make another one first."
            )
    row.role, row.is_active = role, is_active
    end_logins(session, name)


def _check_role(role: str) -> None:
    if role not in tuple(Role) or role == Role.PUBLIC:
        raise unknown_name("role", role, [one for one in Role if one != Role.PUBLIC])


def _find(session: Session, name: str) -> AccountRow:
    row = session.get(AccountRow, name)
    if row is None:
        raise NothingThereError(f"There is no account {name[:60]!r}; the list has those there are.")
    return row


def hash_password(password: str) -> str:
    """What is stored of a password; one that is too short or too long is refused."""
    if not SHORTEST_PASSWORD <= len(password) <= 200:
        raise DeskRefusal(
            f"A password of {len(password)} characters was given; allowed are "
            f"{SHORTEST_PASSWORD} to 200."
        )
    with _one_of_few():
        return _hasher().hash(password)


def _is_right(password_hash: str, password: str) -> bool:
    try:
        with _one_of_few():
            return _hasher().verify(password_hash or _nobodys_hash(), password)
    except (VerificationError, InvalidHashError):
        return False


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Hash beside few others at most."""
    if not _hashing.acquire(timeout=HASH_WAIT_SECONDS):
        raise TooManyError("Too many people are logging in at this moment; try again in a minute.")
    try:
        yield
    finally:
        _hashing.release()


@cache
def _nobodys_hash() -> str:
    """A hash to check against where there is no account: names cannot be found out by timing."""
    return _hasher().hash(secrets.token_hex(16))


def find_account(session: Session, name: str, password: str) -> Actor:
    """Who has this name and password; the same refusal whichever is wrong."""
    row = session.get(AccountRow, name)
    is_right = _is_right(row.password_hash if row else "", password)
    if row is None or not is_right or not row.is_active:
        raise NoLoginError(
            "No account has this name and password; try again, or ask the administrator."
        )
    return Actor(row.name, Role(row.role))


def known_account(session: Session, name: str) -> Actor:
    """The account of somebody whom an identity provider vouched for."""
    row = session.get(AccountRow, name)
    if row is None or not row.is_active:
        raise NoLoginError(
            "You are known to the identity provider, but have no account here; ask the "
            "administrator for one."
        )
    return Actor(row.name, Role(row.role))


def start_login(session: Session, actor: Actor) -> str:
    """A new token for somebody; expired ones are removed."""
    now = datetime.now(UTC)
    session.execute(delete(LoginRow).where(LoginRow.ends_at < _stamp(now)))
    token = secrets.token_urlsafe(32)
    session.add(
        LoginRow(
            token_hash=_token_hash(token),
            account=actor.name,
            made_at=_stamp(now),
            seen_at=_stamp(now),
            ends_at=_stamp(now + timedelta(hours=LOGIN_HOURS)),
        )
    )
    return token


def who_is(session: Session, token: str) -> tuple[Actor, bool]:
    """Who holds a token, and whether it is time to note that they were seen."""
    row = session.get(LoginRow, _token_hash(token)) if token else None
    if row is None:
        return Actor(), False
    now = datetime.now(UTC)
    seen = datetime.fromisoformat(row.seen_at)
    account = session.get(AccountRow, row.account)
    is_over = _stamp(now) >= row.ends_at or now - seen > timedelta(minutes=IDLE_MINUTES)
    if is_over or account is None or not account.is_active:
        return Actor(), False
    return Actor(account.name, Role(account.role)), now - seen > timedelta(minutes=1)


def note_seen(session: Session, token: str) -> None:
    """Remember that a login was used."""
    row = session.get(LoginRow, _token_hash(token))
    if row is not None:
        row.seen_at = utc_now()


def end_login(session: Session, token: str) -> None:
    """Log out."""
    session.execute(delete(LoginRow).where(LoginRow.token_hash == _token_hash(token)))


def end_logins(session: Session, name: str) -> None:
    """Log somebody out everywhere."""
    session.execute(delete(LoginRow).where(LoginRow.account == name))


def list_accounts(session: Session) -> list[dict[str, object]]:
    """All accounts, without anything secret."""
    rows = session.scalars(select(AccountRow).order_by(AccountRow.name))
    return [
        {"name": one.name, "role": one.role, "is_active": one.is_active, "made_at": one.made_at}
        for one in rows
    ]


def _token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
