"""A small desk: the tiny records' heat cases, a day in March replayed, four accounts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from tests.conftest import write_folder
from tests.postgres import Server, running_server, what_is_lacking
from tests.unit.desk.staff import START, SmallDesk
from tests.unit.lifecycle.offices import busy_tables

from parity311.desk import accounts
from parity311.desk.serve import ServeConfig, open_desk

_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _quick_hashes() -> Iterator[None]:
    """Passwords hashed at little cost: what argon2 costs is not what is tested."""
    before = accounts._hasher
    accounts._hasher = cache(lambda: PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    yield
    accounts._hasher = before


@pytest.fixture(scope="session")
def desk_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heat complaints every five days, four at a time, each closed ten days later."""
    return write_folder(tmp_path_factory.mktemp("desk") / "records", busy_tables())


@pytest.fixture(scope="session")
def desk_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with today's rule, made once."""
    return tmp_path_factory.mktemp("desk-files")


@pytest.fixture(scope="session")
def desk_server() -> Iterator[Server]:
    """PostgreSQL, started once."""
    lacking = what_is_lacking()
    if lacking:
        pytest.skip(lacking)
    with running_server() as found:
        yield found


def open_small(
    records: Path, files: Path, address: str, day: datetime = START, levels: tuple[Path, ...] = ()
) -> SmallDesk:
    """A desk on an address, with its replay not yet begun."""
    config = ServeConfig(
        records=records, folder=files, database=address, domains=("heat",), day=day, days=20,
        speed=0.001, levels=levels,
    )  # fmt: skip
    desk, replay, made = open_desk(config)
    assert replay is not None
    return SmallDesk(desk, replay, dict(made))


@pytest.fixture
def small(desk_records: Path, desk_files: Path, tmp_path: Path) -> SmallDesk:
    """A desk on SQLite, where nobody is in office."""
    return open_small(desk_records, desk_files, str(tmp_path / "desk.db"))


@pytest.fixture(params=["sqlite", "postgresql"])
def either(
    request: pytest.FixtureRequest, desk_records: Path, desk_files: Path, tmp_path: Path
) -> SmallDesk:
    """The same on each of the two databases."""
    address = str(tmp_path / "desk.db")
    if request.param == "postgresql":
        server = request.getfixturevalue("desk_server")
        name = f"desk{next(_numbers)}"
        server.do(f"CREATE DATABASE {name}")
        address = server.address(name)
    return open_small(desk_records, desk_files, address)
