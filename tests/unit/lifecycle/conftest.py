"""A registry on each of the two databases, and packages and audits to propose."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import Server, running_server, what_is_lacking
from tests.unit.lifecycle.offices import Office

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """PostgreSQL, started once."""
    lacking = what_is_lacking()
    if lacking:
        pytest.skip(lacking)
    with running_server() as found:
        yield found


def fresh_database(server: Server) -> str:
    """Address of an empty database."""
    name = f"registry{next(_numbers)}"
    server.do(f"CREATE DATABASE {name}")
    return server.address(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Office:
    """A folder with policies and an address for their registry."""
    if request.param == "sqlite":
        address = str(tmp_path / "registry" / "policies.db")
    else:
        address = fresh_database(request.getfixturevalue("server"))
    return Office(tmp_path, address)


@pytest.fixture
def on_file(tmp_path: Path) -> Office:
    """The same on SQLite alone, for what has nothing to do with the database."""
    return Office(tmp_path, str(tmp_path / "registry" / "policies.db"))


@pytest.fixture
def on_server(server: Server, tmp_path: Path) -> Office:
    """The same on PostgreSQL alone."""
    return Office(tmp_path, fresh_database(server))
