"""Accounts and logins: argon2 passwords, tokens of 256 bits of which only the hash is stored.

No account has a password that anybody could know before: those of a demonstration are drawn when
the desk is first started.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from parity311.desk.permissions import Role
from parity311.desk.refusals import DeskRefusal, NoLoginError, NothingThereError
from parity311.desk.tables import AccountRow, LoginRow
from parity311.errors import unknown_name

LOGIN_HOURS = 12
IDLE_MINUTES = 60
"""A login ends after so long without a request (WCAG 2.2.1: what was typed is not lost, the page
says so and the form comes back after logging in)."""
SHORTEST_PASSWORD = 10
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


def make_account(session: Session, name: str, role: str, password: str) -> None:
    """Make an account, or refuse a name that is taken or a password that is short."""
    if role not in tuple(Role) or role == Role.PUBLIC:
        raise unknown_name("role", role, [one for one in Role if one != Role.PUBLIC])
    if not name.replace("-", "").replace(".", "").isalnum() or len(name) > 60:
        raise DeskRefusal(
            f"The name {name[:60]!r} was given; allowed are up to 60 letters, digits, dots and "
            "dashes."
        )
    if session.get(AccountRow, name) is not None:
        raise DeskRefusal(f"There is an account {name!r}; choose another name.")
    session.add(AccountRow(name=name, role=role, password_hash=_hash(password), made_at=utc_now()))


def change_password(session: Session, name: str, old: str, new: str) -> None:
    """Change one's password and end all of one's logins, in one go."""
    row = session.get(AccountRow, name)
    if row is None or not _is_right(row.password_hash, old):
        raise DeskRefusal("The present password is another; nothing was changed.")
    row.password_hash = _hash(new)
    end_logins(session, name)


def change_account(session: Session, name: str, role: str, is_active: bool) -> None:
    """Give an account another role, or close it; whoever is logged in with it no longer is."""
    row = session.get(AccountRow, name)
    if row is None:
        raise NothingThereError(f"There is no account {name!r}; the list has those there are.")
    if role not in tuple(Role) or role == Role.PUBLIC:
        raise unknown_name("role", role, [one for one in Role if one != Role.PUBLIC])
    row.role, row.is_active = role, is_active
    end_logins(session, name)


def _hash(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= 200:
        raise DeskRefusal(
            f"A password of {len(password)} characters was given; allowed are "
            f"{SHORTEST_PASSWORD} to 200."
        )
    return _hasher().hash(password)


def _is_right(password_hash: str, password: str) -> bool:
    try:
        return _hasher().verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys_hash() -> str:
    """A hash to check against where there is no account: names cannot be found out by timing."""
    return _hasher().hash(secrets.token_hex(16))


def find_account(session: Session, name: str, password: str) -> Actor:
    """Who has this name and password; the same refusal whichever is wrong."""
    row = session.get(AccountRow, name)
    is_right = _is_right(row.password_hash if row else _nobodys_hash(), password)
    if row is None or not is_right or not row.is_active:
        raise NoLoginError(
            "No account has this name and password; try again, or ask the administrator."
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
