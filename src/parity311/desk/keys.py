"""Keys of other systems: 256 bits, shown once, stored as a hash."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk.accounts import utc_now
from parity311.desk.refusals import NotAllowedError, NothingThereError
from parity311.desk.tables import KeyRow


def make_key(session: Session, name: str, by: str) -> str:
    """A new key for a system of this name."""
    key = secrets.token_urlsafe(32)
    session.add(KeyRow(key_hash=_hash(key), name=name, made_by=by, made_at=utc_now()))
    return key


def check_key(session: Session, key: str) -> str:
    """Name of the system that has a key; refused without a valid one."""
    row = session.get(KeyRow, _hash(key)) if key else None
    if row is None or row.ended_at:
        raise NotAllowedError("The api_key is missing or not valid; ask the administrator for one.")
    return row.name


def end_key(session: Session, name: str) -> None:
    """End the keys of a system."""
    rows = session.scalars(select(KeyRow).where(KeyRow.name == name, KeyRow.ended_at == "")).all()
    if not rows:
        raise NothingThereError(f"No key of {name[:60]!r} is in use; the list has those there are.")
    for row in rows:
        row.ended_at = utc_now()


def list_keys(session: Session) -> list[dict[str, str]]:
    """All keys by name, without anything secret."""
    rows = session.scalars(select(KeyRow).order_by(KeyRow.made_at))
    return [
        {"name": one.name, "made_by": one.made_by, "made_at": one.made_at, "ended_at": one.ended_at}
        for one in rows
    ]


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
