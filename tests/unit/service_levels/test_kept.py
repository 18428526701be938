"""What was kept of promises, counted by hand: forty complaints, each visited after nine days."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import InputError, RecordsError
from parity311.records.store import Records, open_records
from parity311.service_levels.kept import count_kept, due_dates
from parity311.service_levels.levels import CellPromise, ServiceLevels
from parity311.service_levels.monitor import ALARM, band_at_all_times
from parity311.service_levels.requests import name_districts

FIRST = date(2024, 1, 1)


def promised(days: int | None, district: str = "Bronx", **more: object) -> ServiceLevels:
    """Days for all of one district."""
    cells = (CellPromise(district, "*", days),)
    return ServiceLevels("heat", "borough", 0.8, 0.9, cells, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return open_records(write_folder(tmp_path_factory.mktemp("kept") / "records", tiny_tables()))


@pytest.mark.parametrize(("days", "kept"), [(9, True), (8, False)])
def test_a_visit_on_the_last_day_keeps_it(records: Records, days: int, kept: bool) -> None:
    found = count_kept([promised(days)], records, since=FIRST)
    (cell,) = found.cells
    assert cell.n_due == 40
    assert cell.n_kept == (40 if kept else 0)
    assert cell.kept_share == float(kept)
    assert cell.is_broken == (not kept)
    assert cell.n_overdue == 0
    assert (cell.evidence >= ALARM) == (not kept)
    assert cell.lower is not None
    assert cell.lower <= float(kept) <= (cell.upper or 0.0)
    assert found.whole.n_due == 40


def test_open_ones_count_once_their_day_has_passed(records: Records) -> None:
    """On the sixth of March the fourteenth, of that day, waits; those from the 26th on do too."""
    found = count_kept([promised(3)], records, since=date(2024, 2, 20), until=date(2024, 3, 6))
    # Received on 20 and 25 February and 1 March: due on 23 and 28 February and 4 March.
    assert (found.whole.n_due, found.whole.n_kept) == (3, 0)
    assert found.whole.n_overdue == 1  # that of 20 February was visited on the 29th, of 25 on 5
    assert found.whole.kept_share is None  # fewer than ten are not shown


def test_who_was_promised_nothing_counts_nowhere(records: Records) -> None:
    later = promised(9, valid_from=date(2024, 5, 1))
    found = count_kept([later], records, since=FIRST)
    assert found.n_without == 25  # every five days from 1 January on, before 1 May
    assert found.whole.n_due == 15
    both = count_kept([promised(8), later], records, since=FIRST)
    assert (both.n_without, both.whole.n_due, both.whole.n_kept) == (0, 40, 15)


def test_the_clock_of_the_desk_is_the_promised_day(records: Records) -> None:
    due = due_dates([promised(9, valid_from=date(2024, 5, 1))], records)
    assert due["c025"] == date(2024, 5, 14)
    assert "c024" not in due
    assert due_dates([promised(None)], records) == {}


def test_categories_that_a_file_does_not_name_are_pooled() -> None:
    cells = (CellPromise("Bronx", "NO HEAT", 3), CellPromise("Bronx", "other", 7))
    levels = ServiceLevels("heat", "borough", 0.8, 0.9, cells)
    assert levels.due(FIRST, "Bronx", "NO HEAT") == date(2024, 1, 4)
    assert levels.due(FIRST, "Bronx", "RARE THING") == date(2024, 1, 8)


def test_levels_that_leave_a_district_out_are_refused(records: Records) -> None:
    with pytest.raises(InputError, match="nothing of district 'Bronx'"):
        count_kept([promised(9, "Queens")], records, since=FIRST)


def test_bands_hold_at_all_times_at_once() -> None:
    """A plain 95 % interval of every week, looked at for a year, misses far more often."""
    rng = np.random.default_rng(2)
    missed, plainly, low, high = 0, 0, np.zeros(1), np.ones(1)
    for _ in range(200):
        weeks = rng.binomial(30, 0.8, 52) / 30
        low, high = band_at_all_times(weeks)
        missed += bool(((low > 0.8) | (high < 0.8)).any())
        n = np.arange(1, 53)
        far = np.abs(weeks.cumsum() / n - 0.8) > 1.96 * np.sqrt(0.16 / (30 * n))
        plainly += bool(far.any())
    assert missed <= 10
    assert plainly > 20
    assert high[-1] - low[-1] < 0.15


def test_records_whose_clocks_run_backwards_are_refused(tmp_path: Path) -> None:
    tables = tiny_tables()
    rows = tables["outcomes"].to_pylist()
    for row in rows:
        row["first_visit_at"] -= timedelta(days=30)
    tables["outcomes"] = tables["outcomes"].from_pylist(rows, schema=tables["outcomes"].schema)
    late = open_records(write_folder(tmp_path / "records", tables))
    with pytest.raises(RecordsError, match="40 of 40 visits came before the first report"):
        count_kept([promised(9)], late, since=FIRST)


def test_districts_that_do_not_cover_the_city_are_refused(records: Records) -> None:
    with pytest.raises(RecordsError, match="do not cover the city"):
        name_districts(records, "borough", np.array(["36005000001", "36005999999"]))
    with pytest.raises(InputError, match="Unknown districts 'ward'"):
        name_districts(records, "ward", np.array(["36005000001"]))
