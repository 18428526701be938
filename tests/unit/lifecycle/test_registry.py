"""The registry's acts on SQLite and on PostgreSQL: who is in office, by whose word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.unit.lifecycle.offices import WHO, Office

from parity311.desk import tables as desk_tables
from parity311.errors import Parity311Error, RegistryError
from parity311.lifecycle.database import Database
from parity311.lifecycle.migrations.v0001_registry import down_revision, revision, upgrade
from parity311.lifecycle.states import ACTS
from parity311.lifecycle.tables import Base


def test_a_policy_goes_the_whole_way(office: Office) -> None:
    registry = office.registry
    first, second = office.propose(), office.propose()
    assert (first, second) == ("heat-1", "heat-2")
    registry.act("shadow", first, **WHO)
    registry.act("release", first, **WHO)
    assert registry.deciding("heat") == first
    registry.act("watch", "heat", **WHO)
    assert registry.deciding("heat") == first
    registry.act("suspend", "heat", **WHO)
    assert registry.deciding("heat") is None
    registry.act("resume", "heat", **WHO)
    registry.act("release", second, **WHO)
    assert office.states == {first: "RETIRED", second: "LIVE"}
    entry = registry.act("rollback", "heat", by="B. Silva", reason="complaints of staff")
    assert office.states == {first: "LIVE", second: "RETIRED"}
    assert (entry.actor, entry.reason) == ("B. Silva", "complaints of staff")
    registry.act("rollback", "heat", **WHO)
    assert registry.deciding("heat") is None
    found = registry.verify()
    assert found.problems == ()
    assert found.n_entries == 10
    assert registry.verify(head=entry.hash).problems == ()
    assert registry.verify(head="ab" * 32).problems


def test_domains_do_not_touch_each_other(office: Office) -> None:
    heat, snad = office.released("heat"), office.released("snad")
    office.registry.act("suspend", "heat", **WHO)
    assert (office.registry.deciding("heat"), office.registry.deciding("snad")) == (None, snad)
    assert office.states == {heat: "SUSPENDED", snad: "LIVE"}


def test_what_is_retired_by_name_does_not_come_back(office: Office) -> None:
    first, second = office.released(), office.released()
    third = office.released()
    office.registry.act("rollback", "heat", **WHO)
    assert office.registry.deciding("heat") == second
    office.registry.act("retire", second, **WHO)
    assert office.registry.deciding("heat") is None
    assert set(office.states.values()) == {"RETIRED"}
    with pytest.raises(RegistryError, match="No policy is in office in 'heat', today's rule"):
        office.registry.act("rollback", "heat", **WHO)
    fourth = office.released()
    office.registry.act("rollback", "heat", **WHO)
    assert office.states == {first: "LIVE", second: "RETIRED", third: "RETIRED", fourth: "RETIRED"}


@pytest.mark.parametrize("action", [name for name, act in ACTS.items() if not act.by_domain])
def test_an_act_the_state_does_not_allow_is_refused(office: Office, action: str) -> None:
    version = office.released()
    office.registry.act("retire", version, **WHO)
    with pytest.raises(RegistryError, match=f"{version} is RETIRED; {action} is allowed from"):
        office.registry.act(action, version, **WHO)


def test_the_database_itself_refuses_a_second_in_office(office: Office) -> None:
    """With all of our own checks left out."""
    office.released()
    second = office.propose()
    for state in ("LIVE", "WATCH", "SUSPENDED"):
        change = text("UPDATE states SET state = :state WHERE version = :version")
        with (
            pytest.raises(RegistryError, match="The database refused the act"),
            office.registry.database.writing() as session,
        ):
            session.execute(change, {"state": state, "version": second})
    assert office.registry.verify().problems == ()


CHANGES = {
    "a word in the log": "UPDATE log SET reason = 'other' WHERE seq = 2",
    "an entry removed": "DELETE FROM log WHERE seq = 2",
    "a verdict": "UPDATE versions SET verdict = 'PASS'",
    "a version removed": "DELETE FROM versions",
    "a package": "UPDATE packages SET weights = manifest",
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_database_itself_takes_new_rows_only(office: Office, name: str) -> None:
    office.released()
    with (
        pytest.raises(Parity311Error, match="only takes new rows here"),
        office.registry.database.writing() as session,
    ):
        session.execute(text(CHANGES[name]))
    assert office.registry.verify().problems == ()


def without_triggers(office: Office) -> None:
    """What somebody who owns the database can do."""
    is_file = office.registry.database.is_file
    with office.registry.database.writing() as session:
        for table in ("log", "versions", "packages"):
            if is_file:
                for event in ("update", "delete"):
                    session.execute(text(f"DROP TRIGGER {table}_no_{event}"))
            else:
                session.execute(text(f"DROP TRIGGER {table}_append_only ON {table}"))


def stored_states(office: Office) -> list[Any]:
    """What the table says, whatever the log does."""
    with office.registry.database.reading() as session:
        return sorted(map(tuple, session.execute(text("SELECT version, state FROM states"))))


TAMPERED = {
    **{name: (sql, "") for name, sql in CHANGES.items()},
    "an entry's line": ("UPDATE log SET payload = replace(payload, 'yearly', 'daily')", "entry 1"),
    "a hash": (f"UPDATE log SET hash = '{'ab' * 32}' WHERE seq = 3", "entry 3"),
    "the end of the log": ("DELETE FROM log WHERE seq = 4", "missing from the log"),
    "a state": ("UPDATE states SET state = 'WATCH' WHERE version = 'heat-2'", "heat-2 stands as"),
    "a state of nothing": ("INSERT INTO states VALUES ('x-1', 'x', 'LIVE')", "x-1"),
    "a package is gone": ("DELETE FROM packages", "is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found_and_nothing_is_released(office: Office, name: str) -> None:
    office.propose("INSUFFICIENT")
    office.released()
    third = office.propose()
    without_triggers(office)
    statement, expected = TAMPERED[name]
    assert office.registry.verify().problems == ()
    with office.registry.database.writing() as session:
        session.execute(text(statement))
    problems = office.registry.verify().problems
    assert problems
    assert any(expected in one for one in problems), problems
    before = stored_states(office)
    with pytest.raises(RegistryError, match="tampered with"):
        office.registry.act("release", third, **WHO)
    assert stored_states(office) == before


def test_a_clock_that_jumped_back_is_refused(office: Office) -> None:
    version = office.released()
    other = office.propose()
    office.now -= timedelta(hours=1)
    with pytest.raises(RegistryError, match="jumped back"):
        office.registry.act("release", other, **WHO)
    assert office.registry.deciding("heat") == version
    assert office.registry.verify().problems == ()


def test_a_log_that_is_ahead_does_not_keep_a_policy_in_office(office: Office) -> None:
    """Once a clock was a year ahead, and the policy must be stopped today."""
    office.now += timedelta(days=365)
    version = office.released()
    office.now -= timedelta(days=365)
    with pytest.raises(RegistryError, match="take --clock-because"):
        office.registry.act("suspend", "heat", **WHO)
    why = "the server stood at 2027"
    entry = office.registry.act("suspend", "heat", **WHO, clock_because=why)
    assert office.states == {version: "SUSPENDED"}
    assert entry.at == office.registry.log()[-2].at
    assert entry.details["clock_because"] == why
    assert entry.details["machine_clock"].startswith("2026-01-05")
    # Said once is enough, until that clock jumps back itself.
    other = office.propose()
    assert office.registry.log()[-1].details["clock_because"] == why
    office.now -= timedelta(days=1)
    with pytest.raises(RegistryError, match="logged at 2026-01-05"):
        office.registry.act("release", other, **WHO)
    office.now += timedelta(days=367)
    entry = office.registry.act("release", other, **WHO)
    assert "clock_because" not in entry.details
    assert office.registry.verify().problems == ()


def test_clocks_that_differ_by_a_moment_share_a_log(office: Office) -> None:
    version = office.propose()
    office.now -= timedelta(minutes=1, seconds=1)
    entry = office.registry.act("release", version, **WHO)
    assert entry.at == office.registry.log()[0].at


def test_of_two_releases_at_once_one_wins_and_the_other_is_told(office: Office) -> None:
    versions = [office.propose() for _ in range(6)]
    registries = [office.open() for _ in versions]
    told: list[str] = []
    barrier = threading.Barrier(len(versions))

    def release(place: int) -> None:
        registry = registries[place]
        seen = registry.seen("heat")
        barrier.wait()
        try:
            registry.act("release", versions[place], by=f"person {place}", reason="now", seen=seen)
        except Parity311Error as error:
            told.append(str(error))

    threads = [threading.Thread(target=release, args=(place,)) for place in range(len(versions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(office.states.values()) == ["LIVE", *["PROPOSED"] * 5]
    assert len(told) == 5
    assert all("did release heat-" in one and "nothing was changed" in one for one in told), told
    assert office.registry.verify().problems == ()


def test_what_was_decided_on_an_earlier_entry_is_refused(on_file: Office) -> None:
    """Somebody who read a list, and acts after somebody else did."""
    first, second = on_file.propose(), on_file.propose()
    registry = on_file.registry
    read = len(registry.log())
    registry.act("release", first, by="B. Silva", reason="first")
    with pytest.raises(RegistryError, match="B. Silva did release heat-1"):
        registry.act("release", second, **WHO, seen=registry.seen(second, read))
    assert on_file.states == {first: "LIVE", second: "PROPOSED"}
    # What others propose, or do elsewhere, is no reason to decide again.
    on_file.propose()
    on_file.released("snad")
    registry.act("release", second, **WHO, seen=registry.seen(second, read + 1))
    assert registry.deciding("heat") == second
    for entry in (-1, 99):
        with pytest.raises(RegistryError, match="`parity311 policies list` tells the last"):
            registry.seen(second, entry)


def test_a_log_cut_off_with_its_states_is_told_by_the_kept_hash_alone(office: Office) -> None:
    """Who owns the database can take back the last act and what it changed."""
    version = office.released()
    entry = office.registry.act("suspend", "heat", **WHO)
    without_triggers(office)
    with office.registry.database.writing() as session:
        session.execute(text("DELETE FROM log WHERE seq = 3"))
    assert any(f"{version} stands as SUSPENDED" in one for one in office.registry.verify().problems)
    with office.registry.database.writing() as session:
        session.execute(text("UPDATE states SET state = 'LIVE'"))
    assert office.registry.verify().problems == ()
    kept = office.registry.verify(head=entry.hash).problems
    assert [one for one in kept if "does not hold the entry" in one] == list(kept) != []


def test_the_layout_is_what_the_tables_say(office: Office) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    assert (revision, down_revision, upgrade.__module__[-8:]) == ("0001", None, "registry")
    assert desk_tables.CaseRow.metadata is Base.metadata  # the desk's tables are part of it
    with office.registry.database.reading() as session:
        context = MigrationContext.configure(session.connection())
        assert compare_metadata(context, Base.metadata) == []


def test_two_that_make_the_same_registry(office: Office) -> None:
    """Opening again changes nothing, and a later layout is refused."""
    office.released()
    Database(office.address, makes=True)
    assert office.registry.verify().problems == ()
    with office.registry.database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for makes in (True, False):
        with pytest.raises(RegistryError, match="has layout 9999; this version knows 0006, 0005"):
            Database(office.address, makes=makes)


BAD_ADDRESSES: dict[str, Callable[[Path], str]] = {
    "mysql://x:secret@y/z": lambda folder: "mysql://x:secret@y/z",
    "memory": lambda folder: "sqlite://",
    "no file": lambda folder: str(folder / "nowhere.db"),
    "a folder": lambda folder: str(folder),
    "no database": lambda folder: str(folder / "words.db"),
    "an empty one": lambda folder: str(folder / "empty.db"),
    "nobody there": lambda folder: f"postgresql://u:secret@/x?host={folder}",
}


@pytest.mark.parametrize("name", BAD_ADDRESSES)
def test_an_address_without_a_registry_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "words.db").write_text("these are words, and not a database of any kind at all")
    (tmp_path / "empty.db").touch()
    with pytest.raises(RegistryError) as told:
        Database(BAD_ADDRESSES[name](tmp_path))
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)
