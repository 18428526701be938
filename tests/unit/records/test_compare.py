"""Two folders side by side: the same rows agree, other rows do not, few rows say nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import InputError
from parity311.records.compare import compare_records, wilson
from parity311.records.store import open_records


def with_outcomes(classes: list[str]) -> dict[str, pa.Table]:
    tables = tiny_tables()
    outcomes = tables["outcomes"]
    at = outcomes.column_names.index("disposition_class")
    tables["outcomes"] = outcomes.set_column(at, "disposition_class", pa.array(classes))
    return tables


def test_the_same_rows_agree(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    rows = compare_records(records, records)
    assert {row["agrees"] for row in rows} == {True}
    violation = next(row for row in rows if row["figure"] == "outcome violation")
    assert (violation["value"], violation["n"]) == (0.25, 40)
    assert violation["lower"] < 0.25 < violation["upper"]


def test_other_rows_differ(tiny_records: Path, tmp_path: Path) -> None:
    other = write_folder(tmp_path / "other", with_outcomes(["violation"] * 36 + ["no_access"] * 4))
    rows = compare_records(open_records(tiny_records), open_records(other))
    said = {row["figure"]: row["agrees"] for row in rows}
    assert said["outcome violation"] is False
    assert said["borough Bronx"] is True


def test_few_rows_say_nothing(tiny_records: Path, tmp_path: Path) -> None:
    tables = with_outcomes(["violation"] * 9 + ["pending"] * 31)
    other = write_folder(tmp_path / "other", tables)
    rows = compare_records(open_records(tiny_records), open_records(other))
    said = {row["figure"]: row["agrees"] for row in rows}
    assert said["outcome violation"] is None


def test_an_unknown_domain_is_refused(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    with pytest.raises(InputError, match="both have heat"):
        compare_records(records, records, ("boiler",))


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (5, 10), (300, 1000)])
def test_wilson_covers_the_share_and_stays_inside(k: int, n: int) -> None:
    lower, upper = wilson(k, n)
    assert 0 <= lower <= k / n <= upper <= 1
