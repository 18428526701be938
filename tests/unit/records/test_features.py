"""Features are point in time: rows from the future change nothing."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import InputError
from parity311.records.features import FEATURES, STRICTLY_BEFORE, complaint_features
from parity311.records.store import open_records

SEES_THE_FUTURE = "INTERVAL 3650 DAY FOLLOWING"
MOMENT = datetime(2024, 4, 1)


def with_planted_future(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The same records, and fifty more complaints with violations after `MOMENT`."""
    rows = [number % 2 for number in range(50)]
    complaints = tables["complaints"].take(rows).to_pylist()
    outcomes = tables["outcomes"].take(rows).to_pylist()
    for number, (complaint, outcome) in enumerate(zip(complaints, outcomes, strict=True)):
        received = MOMENT + timedelta(hours=number)
        complaint |= {"complaint_id": f"f{number:03d}", "received_at": received}
        outcome |= {
            "complaint_id": f"f{number:03d}",
            "disposition_class": "violation",
            "first_visit_at": received,
            "closed_at": received,
        }
    planted = dict(tables)
    for name, rows in (("complaints", complaints), ("outcomes", outcomes)):
        extra = pa.Table.from_pylist(rows, schema=tables[name].schema)
        planted[name] = pa.concat_tables([tables[name], extra])
    return planted


def features_before_moment(folder: Path, cut_off: str) -> pa.Table:
    features = complaint_features(open_records(folder), "heat", cut_off=cut_off)
    return features.filter(pc.less(features["received_at"], pa.scalar(MOMENT)))


def future_leaks(tmp_path: Path, cut_off: str) -> bool:
    """The check: do features of earlier complaints change when the future does?"""
    plain = write_folder(tmp_path / "plain", tiny_tables())
    planted = write_folder(tmp_path / "planted", with_planted_future(tiny_tables()))
    return not features_before_moment(plain, cut_off).equals(
        features_before_moment(planted, cut_off)
    )


def test_planted_future_changes_nothing(tmp_path: Path) -> None:
    assert not future_leaks(tmp_path, STRICTLY_BEFORE)


def test_the_check_rejects_features_without_the_cut_off(tmp_path: Path) -> None:
    assert future_leaks(tmp_path, SEES_THE_FUTURE)


def test_values_by_hand(tiny_records: Path) -> None:
    rows = complaint_features(open_records(tiny_records), "heat").to_pylist()
    first, third, sixth = rows[0], rows[2], rows[6]
    assert first["building_reports_365d"] == 0
    assert first["days_since_last_report"] is None
    # Complaint 2 (day 10) follows complaint 0 (day 0) in its building; 0 closed within a day of it.
    assert third["building_reports_365d"] == 1
    assert third["days_since_last_report"] == pytest.approx(10, abs=0.4)
    # Complaint 6 (day 30): 0 (violation, closed day 10) and 2 (none, closed day 20) are known; 4,
    # a violation, is closed on day 30 as well and counts only if it closed before 6 came in.
    assert sixth["building_reports_365d"] == 3
    assert sixth["building_violations_3y"] in (1, 2)
    assert sixth["tract_findings_3y"] in (2, 3)
    assert all(feature.name in first for feature in FEATURES)


def test_own_outcome_is_never_a_feature(tmp_path: Path) -> None:
    """Even an outcome recorded at the very second of the report stays out."""
    tables = tiny_tables()
    received = tables["complaints"]["received_at"]
    outcomes = tables["outcomes"]
    for column in ("closed_at", "first_visit_at"):
        outcomes = outcomes.set_column(outcomes.column_names.index(column), column, received)
    folder = write_folder(tmp_path / "records", tables | {"outcomes": outcomes})
    rows = complaint_features(open_records(folder), "heat").to_pylist()
    assert rows[0]["building_violations_3y"] == 0
    assert rows[4]["building_violations_3y"] == 1


def test_before_cuts_complaints_and_outcomes(tiny_records: Path) -> None:
    cut = complaint_features(open_records(tiny_records), "heat", before=date(2024, 3, 1))
    assert max(cut["received_at"].to_pylist()) < datetime(2024, 3, 1)


def test_unknown_domain_names_those_there(tiny_records: Path) -> None:
    with pytest.raises(InputError, match="it has heat"):
        complaint_features(open_records(tiny_records), "boiler")
