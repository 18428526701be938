"""The registry's database: a SQLite file, or PostgreSQL by its address.

Writers take turns: SQLite's `BEGIN IMMEDIATE`, an advisory lock in PostgreSQL. Readers see one
moment. What a database refuses, and one that goes away, is one line; a write that was cut off is
undone by the database, whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    SQLAlchemyError,
)
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, QueuePool

from parity311.errors import BusyError, RegistryError, UnreachableError

WAIT_SECONDS = 10
"""How long a writer waits for another."""
CONNECT_SECONDS = 5
MOST_CONNECTIONS = 60
"""Beside those that are kept, of one server at once."""
FILE = "parity311_file"
"""Which file a kept connection is to."""
LOCK_KEY = 311_019
"""Number of the advisory lock that writers of a PostgreSQL registry take."""
WRITES = "parity311_writes"
"""Execution option of a connection that means to write."""
MIGRATIONS = Path(__file__).parent / "migrations"


def read_address(given: str | Path) -> URL:
    """An address: `postgresql://…`, `sqlite:///FILE`, or the path of a SQLite file."""
    words = str(given)
    try:
        url = make_url(words) if "://" in words else URL.create("sqlite", database=words)
    except ArgumentError:
        url = URL.create("")
    kind = url.drivername.split("+")[0]
    if kind == "postgres" or kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return url.set(drivername="sqlite")
    # What was given may hold a password.
    raise RegistryError(
        f"The database's address begins with {words.split(':')[0][:20]!r}; allowed are "
        "postgresql://USER@HOST/NAME and the path of a SQLite file, such as registry/policies.db."
    )


class Database:
    """One registry's database; `writing` and `reading` give sessions on it.

    A connection lasts as long as its session: none is left to close, or to be shared by a fork. A
    server keeps some (`kept_open`).
    """

    def __init__(self, address: str | Path, *, makes: bool = False) -> None:
        self.url = read_address(address)
        self.is_file = self.url.drivername == "sqlite"
        self._lock = Lock()
        with self._telling():
            self._engine = self._make_engine(makes)
            if makes:
                self._migrate()
            self._check_layout()

    @property
    def where(self) -> str:
        """The address without its password."""
        if self.is_file:
            return str(self.url.database)
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one moment."""
        engine = self._engine
        if not self.is_file:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._telling(), Session(engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that writes alone; all of it is kept, or nothing where anything fails."""
        engine = self._engine.execution_options(**{WRITES: True})
        with (
            self._telling(),
            self._turn(),
            Session(engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            if not self.is_file:
                _take_turn(session.connection())
            yield session

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The turn among threads of this process: SQLite lets who waits for it sleep too long."""
        if not self.is_file:
            yield
            return
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise BusyError(
                f"Another thread has been writing {self.where} for {WAIT_SECONDS} seconds; try "
                "again. Nothing was changed."
            )
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Let sessions use connections that are kept, for a server that does not fork.

        One stays open from the beginning: the last connection to a file that closes brings the
        whole log of writes into it, which takes longer than a write.
        """
        before = self._engine
        with self._telling():
            self._engine = self._make_engine(makes=False, keeps=True)
            try:
                with self._engine.connect():
                    pass
                yield
            finally:
                self._engine.dispose()
                self._engine = before

    def _make_engine(self, makes: bool, keeps: bool = False) -> Engine:
        pool: dict[str, Any] = {"poolclass": NullPool}
        if keeps:
            pool = {"poolclass": QueuePool, "max_overflow": MOST_CONNECTIONS}
        if not self.is_file:
            options = {"connect_timeout": CONNECT_SECONDS, "application_name": "parity311"}
            return create_engine(
                self.url, connect_args=options, pool_pre_ping=keeps, hide_parameters=True, **pool
            )
        path = Path(str(self.url.database))
        if makes:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Of its owner alone: what residents and staff wrote comes to lie in it.
            path.touch(mode=0o600)
        elif not path.is_file():
            raise self._nothing_there()
        # A file that goes away is missed, not made anew.
        name = f"file:{quote(str(path))}?mode=rw"
        connect = partial(
            sqlite3.connect, name, uri=True, timeout=WAIT_SECONDS, check_same_thread=not keeps
        )
        # What a person wrote is a parameter, and must not get into an error's words.
        engine = create_engine("sqlite://", creator=connect, hide_parameters=True, **pool)
        event.listen(engine, "connect", _set_up_file)
        event.listen(engine, "begin", _begin_on_file)
        if keeps:
            event.listen(engine, "connect", partial(_note_file, path))
            event.listen(engine, "checkout", partial(_miss_file, path))
        return engine

    def _nothing_there(self) -> RegistryError:
        return RegistryError(
            f"There is no registry at {self.where}; `parity311 policies propose` makes one, or "
            "name another with --database."
        )

    def _migrate(self) -> None:
        """Bring the layout up to date, one process at a time."""
        script = ScriptDirectory(str(MIGRATIONS), version_locations=[str(MIGRATIONS)])
        engine = self._engine.execution_options(**{WRITES: True})
        with engine.connect() as connection, connection.begin():
            if not self.is_file:
                _take_turn(connection)

            def steps(revision: Any, _: MigrationContext) -> Any:
                return script._upgrade_revs("head", revision)

            context = MigrationContext.configure(
                connection, opts={"fn": steps, "script": script, "render_as_batch": True}
            )
            self._refuse_later(context.get_current_revision(), script)
            with Operations.context(context):
                context.run_migrations()

    def _check_layout(self) -> None:
        """Refuse a database without a registry, or with one of another version."""
        script = ScriptDirectory(str(MIGRATIONS), version_locations=[str(MIGRATIONS)])
        with self._engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                raise self._nothing_there()
            current = MigrationContext.configure(connection).get_current_revision()
        self._refuse_later(current, script)
        if current != script.get_current_head():
            raise RegistryError(
                f"The registry at {self.where} has layout {current}, this version works with "
                f"{script.get_current_head()}; the next `policies propose` brings it up to date."
            )

    def _refuse_later(self, current: str | None, script: ScriptDirectory) -> None:
        known = [one.revision for one in script.walk_revisions()]
        if current is not None and current not in known:
            raise RegistryError(
                f"The registry at {self.where} has layout {current}; this version knows "
                f"{', '.join(known)}. Use the version of parity311 that wrote it, or a later one."
            )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn what a database says into one line."""
        try:
            yield
        except IntegrityError as error:
            raise RegistryError(
                f"The database refused the act ({_first_line(error)}); nothing was changed. "
                "`parity311 policies list` has what there is."
            ) from error
        except DBAPIError as error:
            if "locked" in str(error) or "lock timeout" in str(error):
                raise BusyError(
                    f"Another process has been writing {self.where} for {WAIT_SECONDS} seconds; "
                    "wait until it has ended. Nothing was changed."
                ) from error
            raise UnreachableError(
                f"The database at {self.where} does not do what was asked ({_first_line(error)}). "
                "An act that was cut off is undone whole: look with `parity311 policies list`, "
                "then try again."
            ) from error
        except ModuleNotFoundError as error:
            raise RegistryError(
                f"PostgreSQL needs the package {error.name}; install it with `pip install "
                "'parity311[postgres]'`."
            ) from error
        except SQLAlchemyError as error:
            raise RegistryError(
                f"The database at {self.where} cannot be used ({_first_line(error)}); name another "
                "with --database."
            ) from error


def _set_up_file(connection: sqlite3.Connection, _: Any) -> None:
    """Settings of a connection to a file; transactions begin by `_begin_on_file` alone."""
    connection.isolation_level = None
    for line in (
        f"PRAGMA busy_timeout = {1000 * WAIT_SECONDS}",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
    ):
        connection.execute(line)


def _note_file(path: Path, _: Any, record: Any) -> None:
    """Remember which file a kept connection is to."""
    record.info[FILE] = _file_of(path)


def _miss_file(path: Path, _: Any, record: Any, __: Any) -> None:
    """Refuse a kept connection to a file that is no longer there: what it took would be lost."""
    if record.info.get(FILE) != _file_of(path):
        raise DisconnectionError(f"{path} is another file now")


def _file_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begin_on_file(connection: Connection) -> None:
    is_writer = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


def _take_turn(connection: Connection) -> None:
    """Wait for other writers of a PostgreSQL registry; the lock goes with the transaction."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})


def _first_line(error: Exception) -> str:
    said = getattr(error, "orig", None) or error
    return (str(said).strip().splitlines() or [type(said).__name__])[0].rstrip(".")
