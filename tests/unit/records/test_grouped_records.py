"""Records whose tracts are grouped by race: one column, the same wherever it is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import table_of, tiny_tables, write_folder

from parity311.errors import InputError
from parity311.records.cases import STRATUM
from parity311.records.resampled import resample
from parity311.records.sql import Connection
from parity311.records.store import Records, open_records
from parity311.reporting.areas import areas_from_records

SHARES = (0.9, 0.1)
"""Black and Hispanic share of the two tracts, of equal households. The middle of the smaller one's
households lies at a quarter of all, of the larger one's at three quarters: quintiles 2 and 4."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = tiny_tables()
    tracts = tables["tracts"].to_pylist()
    for row, share in zip(tracts, SHARES, strict=True):
        row |= {"share_black": share / 2, "share_hispanic": share / 2}
        row |= {"share_white": 1 - share, "share_asian": 0.0}
    tables["tracts"] = table_of("tracts", tracts)
    return write_folder(tmp_path / "records", tables)


def ways_of_reading(records: Records) -> list[list[int]]:
    """Quintiles of the two tracts by every way in which something reads them."""
    query = f"SELECT 1 + {STRATUM} AS quintile FROM tracts t ORDER BY geoid"
    some = records.table("tracts", columns=["geoid", "income_quintile"])
    return [
        records.table("tracts")["income_quintile"].to_pylist(),
        some["income_quintile"].to_pylist(),
        records.sql(query)["quintile"].to_pylist(),
        areas_from_records(records).income_quintile.tolist(),
    ]


def test_by_income_and_by_race(folder: Path) -> None:
    assert ways_of_reading(open_records(folder)) == [[1, 2]] * 4
    assert ways_of_reading(open_records(folder, "race5")) == [[4, 2]] * 4


def test_types_stay_as_they_are(folder: Path) -> None:
    plain, grouped = open_records(folder), open_records(folder, "race5")
    assert plain.table("tracts").schema == grouped.table("tracts").schema
    assert plain.sql("FROM tracts").schema.field("income_quintile").type == pa.int8()
    assert grouped.sql("FROM tracts").schema.field("income_quintile").type == pa.int8()


def test_what_is_open_can_be_grouped_anew(folder: Path) -> None:
    opened = open_records(folder, "race5")
    assert open_records(opened) is opened
    assert ways_of_reading(open_records(opened, "income5"))[0] == [1, 2]


def test_tracts_drawn_anew_keep_their_groups(folder: Path) -> None:
    drawn = resample(open_records(folder, "race5"), "heat", 3)
    assert drawn.strata == "race5"
    found = drawn.sql("SELECT DISTINCT income_quintile AS q FROM tracts")["q"].to_pylist()
    assert set(found) <= {2, 4}


@dataclass(frozen=True)
class _SqlAsItWas(Records):
    """A broken twin: tables are grouped by race, SQL still reads the file."""

    def connect(self, others: object = None) -> Connection:
        return open_records(self.folder).connect()


def test_the_check_finds_a_way_that_was_forgotten(folder: Path) -> None:
    broken = _SqlAsItWas(folder, open_records(folder).manifest, strata="race5")
    assert len({tuple(found) for found in ways_of_reading(broken)}) == 2


def test_unknown_shares_are_the_unknown_stratum(tmp_path: Path) -> None:
    records = open_records(write_folder(tmp_path / "records", tiny_tables()), "race5")
    np.testing.assert_array_equal(ways_of_reading(records)[0], [0, 0])


def test_an_unknown_grouping_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="race5"):
        open_records(folder, "race")
