"""A copy of registry and desk as one file, and back into an empty database of either kind.

All tables are read in one transaction, so that a copy is of one moment while work goes on.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import MetaData, Table, func, insert, select
from sqlalchemy.orm import Session

from parity311.errors import RegistryError
from parity311.lifecycle.database import Database

LAYOUT = "alembic_version"
ROWS_AT_ONCE = 1000


def back_up(address: str, out: Path) -> int:
    """Write a copy to a new SQLite file; how many rows."""
    if out.exists():
        raise RegistryError(f"{out} is there; a backup is never written over one. Name another.")
    source = Database(address)
    aside = out.with_name(f".{out.name}.writing")
    aside.unlink(missing_ok=True)
    try:
        n_rows = _copy(source, Database(aside, makes=True))
        # Whole, or not there; what SQLite kept beside it goes first.
        _settle(aside)
        aside.rename(out)
    finally:
        for name in ("", "-wal", "-shm"):
            aside.with_name(aside.name + name).unlink(missing_ok=True)
    return n_rows


def restore(backup: Path, address: str) -> int:
    """Put a copy into a database without anything in it; how many rows."""
    if not backup.is_file():
        raise RegistryError(f"There is no backup {backup}; `parity311 backup` writes one.")
    source = Database(backup)
    return _copy(source, Database(address, makes=True))


def _copy(source: Database, target: Database) -> int:
    n_rows = 0
    with source.reading() as read, target.writing() as write:
        layout = MetaData()
        layout.reflect(bind=read.connection())
        tables = [one for one in layout.sorted_tables if one.name != LAYOUT]
        for table in tables:
            if write.scalar(select(func.count()).select_from(table)):
                raise RegistryError(
                    f"{target.where} holds something already; restore into an empty database."
                )
        for table in tables:
            for some in read.execute(select(table)).mappings().partitions(ROWS_AT_ONCE):
                write.execute(insert(table), [dict(row) for row in some])
                n_rows += len(some)
        if not target.is_file:
            for table in tables:
                _count_on(write, table)
    return n_rows


def _count_on(session: Session, table: Table) -> None:
    """Let PostgreSQL number new rows after those that were copied."""
    if [one.name for one in table.primary_key.columns] != ["number"]:
        return
    last = session.scalar(select(func.max(table.c.number))) or 0
    sequence = func.pg_get_serial_sequence(table.name, "number")
    session.execute(select(func.setval(sequence, last + 1, False)))


def _settle(path: Path) -> None:
    """Bring what SQLite wrote beside the file into it."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()
