"""A day in office: who decides, who looks on, what is left to today's rule and what is kept."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from tests.conftest import write_folder
from tests.served import PRICES, save_package
from tests.unit.lifecycle.offices import WHO, Office, audit_row, busy_tables, write_audit

from parity311.errors import RegistryError
from parity311.lifecycle.office import (
    POLICY_ARM,
    TODAY_ARM,
    leave_to_today,
    read_decisions,
    recommend_in_office,
)
from parity311.lifecycle.outcomes import compare_shadow
from parity311.records.journal import Journal
from parity311.records.journal_reader import read_journal
from parity311.records.store import Records, open_records

MOMENT = datetime(2024, 3, 1)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return open_records(write_folder(tmp_path / "records", busy_tables()))


@pytest.fixture
def journal(records: Records) -> Journal:
    return read_journal(records, "heat", MOMENT)


def propose(office: Office, rule: str) -> str:
    """A rule of heat as a version with a good audit."""
    prices = PRICES if rule == "dual_threshold" else None
    folder = save_package(office.folder / rule, "heat", rule, prices=prices)
    audit = write_audit(office.folder / f"{rule}.json", audit_row("PASS", rule))
    return office.registry.propose(folder, audit, **WHO)


def test_who_is_in_office_decides_and_shadows_look_on(office: Office, journal: Journal) -> None:
    first, second = propose(office, "dual_threshold"), propose(office, "index")
    office.registry.act("release", first, **WHO)
    office.registry.act("shadow", second, **WHO)
    day = recommend_in_office(office.registry, "heat", journal, capacity=2)
    assert (day.version, day.shadows) == (first, (second,))
    assert day.found.policy.manifest["agent"] == "dual_threshold"
    kept = [*read_decisions(office.registry, first), *read_decisions(office.registry, second)]
    assert len(kept) == day.n_kept > 0
    assert {row.role for row in kept} == {"office", "shadow"}
    # The same moment is kept once.
    again = recommend_in_office(office.registry, "heat", journal, capacity=2)
    assert again.n_kept == 0
    assert office.registry.verify().problems == ()


def test_today_decides_where_nobody_does(office: Office, journal: Journal) -> None:
    with pytest.raises(RegistryError, match="no package that carries it"):
        recommend_in_office(office.registry, "heat", journal)
    version = propose(office, "dual_threshold")
    office.registry.act("release", version, **WHO)
    office.registry.act("suspend", "heat", **WHO)
    day = recommend_in_office(office.registry, "heat", journal, capacity=2)
    assert day.version is None
    assert day.found.policy.is_todays_rule
    reached = np.flatnonzero(day.found.is_reached)
    assert set(reached) == set(np.flatnonzero(day.found.today_reaches))


def test_what_is_kept_cannot_be_changed(office: Office, journal: Journal) -> None:
    version = propose(office, "dual_threshold")
    office.registry.act("release", version, **WHO)
    assert recommend_in_office(office.registry, "heat", journal, capacity=2).n_kept
    for act in ("UPDATE decisions SET arm = 'policy'", "DELETE FROM decisions"):
        with (
            pytest.raises(RegistryError, match="only takes new rows"),
            office.registry.database.writing() as session,
        ):
            session.execute(text(act))


def test_visits_are_left_to_todays_rule_by_chance(on_file: Office, journal: Journal) -> None:
    version = propose(on_file, "dual_threshold")
    found = on_file.registry.load(version).recommend(journal, capacity=3)
    n_left = n_made = 0
    for number in range(400):
        left, arm = leave_to_today(found, 0.25, f"day {number}")
        n_left += int((arm == TODAY_ARM).sum())
        n_made += int((arm != "").sum())
        assert sorted(left.choice.place) == list(range(len(found)))
        assert set(np.flatnonzero(left.is_reached)) == set(np.flatnonzero(arm != ""))
    assert n_made <= 3 * 400
    assert n_left / (3 * 400) == pytest.approx(0.25, abs=0.06)
    same, arm = leave_to_today(found, 0.0, "day")
    np.testing.assert_array_equal(same.is_reached, found.is_reached)
    assert set(arm) <= {"", POLICY_ARM}
    todays, arm = leave_to_today(found, 1.0, "day")
    np.testing.assert_array_equal(todays.is_reached, found.today_reaches)


def test_a_shadow_is_compared_by_what_was_found(
    office: Office, records: Records, journal: Journal
) -> None:
    version = propose(office, "index")
    office.registry.act("shadow", version, **WHO)
    recommend_in_office(office.registry, "heat", journal, capacity=1)
    found = compare_shadow(office.registry, records, version)
    assert found["moments"] == 1
    assert sum(row["decisions"] for row in found["rows"]) == found["decisions"]
    visited = [row for row in found["rows"] if row["visited"]]
    assert visited  # every case of these records is visited nine days after it came in
    for row in visited:
        assert row["lower"] <= row["found_share"] <= row["upper"]
