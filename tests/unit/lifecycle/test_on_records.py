"""Real records on the whole way: no truth, a split by complaints, estimates that may fail."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import EstimationError, InputError
from parity311.lifecycle.on_records import (
    SETTING,
    calibrate_what_can_be,
    first_test_day,
    incident_draws,
    is_real,
    setting_of,
    split_date,
)
from parity311.lifecycle.whole_way import WholeWayConfig, run_whole_way
from parity311.records.store import MANIFEST, Records, open_records
from parity311.storage.hashes import seal


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """The tiny folder, as an import would have written it."""
    return open_records(write_folder(tmp_path / "records", tiny_tables()))


def test_real_records_have_no_scenario(records: Records) -> None:
    assert is_real(records)
    assert setting_of(records).words == SETTING
    city = Records(
        records.folder, {**records.manifest, "kind": "city", "participation": "strong",
                         "capacity": "scarce"},
    )  # fmt: skip
    assert setting_of(city).words == "strong participation, scarce capacity"
    last = city.window[1]
    assert first_test_day(city, "heat") == date(last.year - 1, last.month, last.day)


def test_the_last_fifth_of_complaints_is_for_testing(records: Records) -> None:
    day = split_date(records, "heat")
    received = records.table("complaints", "heat")["received_at"].to_pylist()
    before = sum(at.date() < day for at in received)
    assert 0.7 <= before / len(received) <= 0.8
    with pytest.raises(EstimationError, match="no complaint of 'crane'"):
        split_date(records, "crane")


def test_what_cannot_be_estimated_leaves_the_rest(records: Records) -> None:
    first, last = records.window
    found, failed = calibrate_what_can_be(records, "heat", ("exposure_rate", "raw"), first, last)
    assert "raw" in found
    assert all(failed.values())
    assert set(found) | set(failed) == {"exposure_rate", "raw"}
    if "exposure_rate" in failed:
        assert incident_draws(records, "heat", first, seed=0) is None


def test_a_synthetic_city_is_no_import(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "city", tiny_tables())
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(seal({**manifest, "kind": "city"})))
    config = WholeWayConfig(records=str(folder), domains=("heat",))
    with pytest.raises(InputError, match="is a synthetic city"):
        run_whole_way(config, runs=tmp_path, cities=tmp_path, progress=lambda *_: None)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("2")]
