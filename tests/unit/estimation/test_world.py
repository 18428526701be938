"""Real records on the whole way: no truth, a split by complaints, estimates that may fail."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.conftest import tiny_tables, write_folder
from tests.unit.report.made_up_blocks import make_block

from parity311.errors import EstimationError, InputError
from parity311.estimation import correction
from parity311.estimation.correction import Correction, correct, incident_draws
from parity311.estimation.world import (
    AS_RECORDED,
    World,
    first_test_day,
    make_world,
    params_for,
    rows_used,
    scenario_of,
    split_date,
)
from parity311.evaluation.comparison_statistics import gap_ranges
from parity311.pipelines.run import RunConfig, run_pipeline
from parity311.records.store import MANIFEST, Records, open_records
from parity311.report import findings
from parity311.reporting.calibration import Calibration, calibrate
from parity311.storage.hashes import seal

pytestmark = pytest.mark.slow


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """The tiny folder, as an import would have written it."""
    return open_records(write_folder(tmp_path / "records", tiny_tables()))


def test_real_records_have_no_scenario(records: Records) -> None:
    assert records.is_real
    assert scenario_of(records).words == AS_RECORDED
    city = Records(
        records.folder, {**records.manifest, "kind": "city", "participation": "strong",
                         "capacity": "scarce"},
    )  # fmt: skip
    assert scenario_of(city).words == "strong participation, scarce capacity"
    last = city.window[1]
    assert first_test_day(city, "heat") == date(last.year - 1, last.month, last.day)


class Asked:
    """Stands for a domain; remembers what was asked of it."""

    slug = "heat"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def estimate(self, records: Records, calibration: Calibration, date_to: date) -> str:
        self.calls.append(("estimate", calibration.estimator, date_to))
        return f"{calibration.estimator} before {date_to}"

    def truth(self, folder: Path, date_from: date) -> str:
        self.calls.append(("truth", date_from))
        return f"true from {date_from}"


def world_of(records: Records, **options: Any) -> tuple[World, Asked]:
    domain = Asked()
    options = {"estimators": ("raw", "as_published"), **options}
    return make_world(cast(Any, domain), records, **options), domain


def test_a_world_is_made_when_asked_for_and_once(records: Records) -> None:
    world, domain = world_of(records)
    day = split_date(records, "heat")
    assert domain.calls == [], "nothing is estimated before somebody asks"
    assert (world.date_from, world.date_to, world.test_from) == (records.window[0], day, day)
    assert world.estimated == world.estimated == f"raw before {day}"
    assert world.others == {"as_published": f"as_published before {day}"}
    names = ["raw", "as_published"]
    assert domain.calls == [("estimate", name, day) for name in names], "no truth to who trains"


def test_a_city_is_scored_in_its_truth_and_real_records_in_all_of_themselves(
    records: Records,
) -> None:
    last = records.window[1]
    world, domain = world_of(records)
    assert world.scored == f"raw before {last}"
    assert domain.calls == [("estimate", "raw", last)]
    city = Records(records.folder, {**records.manifest, "kind": "city"})
    later = date(2024, 2, 1)
    world, domain = world_of(city, date_to=later)
    assert world.scored == world.true == f"true from {later}"
    assert domain.calls == [("truth", later)], "read once"
    world, domain = world_of(city, date_to=last, test_from=later)
    assert world.estimated == f"raw before {last}"
    assert world.true == f"true from {later}", "a random split learns and scores in the same days"


def test_an_estimator_that_fails_ends_it_or_leaves_the_others(records: Records) -> None:
    told: list[tuple[int, int]] = []
    tell = lambda done, total: told.append((done, total))  # noqa: E731
    asked = ("exposure_rate", "raw")
    with pytest.raises(EstimationError, match="second time"):
        world_of(records, estimators=asked, tell=tell)
    assert told == []
    world, _ = world_of(records, estimators=asked, may_fail=True, tell=tell)
    assert world.correction.used == "raw"
    assert told == [(1, 2), (2, 2)]
    world, _ = world_of(records, may_fail=True, chosen="as_published")
    assert world.correction.used == "as_published"


def test_params_are_learned_within_the_records(records: Records) -> None:
    domain = Asked()
    first, last = records.window
    made = partial(params_for, cast(Any, domain), records.folder)
    assert made(None, "raw") == made(last, "raw") == f"raw before {last}"
    with pytest.raises(InputError, match="choose one between them"):
        made(first, "raw")


def test_the_last_fifth_of_complaints_is_for_testing(records: Records) -> None:
    day = split_date(records, "heat")
    received = records.table("complaints", "heat")["received_at"].to_pylist()
    before = sum(at.date() < day for at in received)
    assert 0.7 <= before / len(received) <= 0.8
    with pytest.raises(EstimationError, match="no complaint of 'crane'"):
        split_date(records, "crane")


def test_what_cannot_be_estimated_leaves_the_rest(records: Records) -> None:
    first, last = records.window
    correction = correct(records, "heat", ("exposure_rate", "raw"), first, last)
    assert "raw" in correction.calibrations
    assert all(correction.failed.values())
    assert set(correction.calibrations) | set(correction.failed) == {"exposure_rate", "raw"}
    assert "exposure_rate" in correction.failed, "the tiny folder links no duplicates"
    draws, why = incident_draws(records, "heat", first, seed=0)
    assert draws is None
    assert "second time" in why


def test_complaints_stand_in_where_the_rate_fails_and_never_the_published_estimator(
    records: Records,
) -> None:
    """Whatever else could be fitted, and in whatever order it was asked for."""
    first, last = records.window
    asked = ("as_published", "exposure_rate", "raw")
    correction = correct(records, "heat", asked, first, last)
    assert "as_published" in correction.calibrations
    assert next(iter(correction.calibrations)) == "as_published"
    assert correction.used == "raw"
    assert correction.calibration.estimator == "raw"
    kept = correction.describe()
    assert kept["estimator"] == "raw"
    assert kept["failed_estimators"] == correction.failed
    assert kept["incidents_per_28_days"]["upper"] is None
    rate = Correction({"raw": correction.calibration, "exposure_rate": correction.calibration}, {})
    assert rate.used == "exposure_rate"


def test_without_rate_and_complaints_nothing_else_is_used(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, estimator: str, **options: Any) -> Any:
        if estimator != "as_published":
            raise EstimationError(f"{estimator} fails")
        return calibrate(*args, estimator=estimator, **options)

    monkeypatch.setattr(correction, "calibrate", fails)
    with pytest.raises(EstimationError, match="raw fails"):
        correct(records, "heat", ("as_published",), *records.window)


def with_draws(calibration: Calibration, draws: np.ndarray) -> Correction:
    """The same calibration with other joint draws, used as if it had been fitted."""
    denominators = np.median(draws, axis=0)
    again = replace(calibration, draws=draws, denominators=denominators)
    return Correction({"exposure_rate": again}, {})


def test_what_is_known_within_a_factor_is_told_from_what_is_known(records: Records) -> None:
    found = correct(records, "heat", ("raw",), *records.window)
    rng = np.random.default_rng(0)
    sharp = with_draws(found.calibration, 20.0 * rng.lognormal(0.0, 0.1, (400, 6)))
    assert sharp.spread < 3.0
    assert not sharp.describe()["is_wide"]
    wide = with_draws(found.calibration, 20.0 * rng.lognormal(0.0, 1.0, (400, 6)))
    assert wide.describe()["is_wide"]
    # One quintile is enough: the gap divides by it.
    draws = 20.0 * rng.lognormal(0.0, 0.1, (400, 6))
    draws[:, 0] = 20.0 * rng.lognormal(0.0, 1.0, 400)
    assert with_draws(found.calibration, draws).describe()["is_wide"]
    # Draws may all lie above the estimate; its interval holds it all the same.
    above = replace(wide.calibration, denominators=np.full(6, 0.1))
    total = Correction({"exposure_rate": above}, {}).describe()["incidents_per_28_days"]
    assert total["lower"] <= total["value"] <= total["upper"]
    nothing = np.zeros((400, 6))
    assert with_draws(found.calibration, nothing).describe()["incidents_known_within"] is None


def test_the_range_of_a_gap_follows_the_estimate(records: Records) -> None:
    found = correct(records, "heat", ("raw",), *records.window)
    policies = make_block()["policies"]
    rng = np.random.default_rng(0)
    known = with_draws(found.calibration, np.full((400, 6), 20.0))
    wide = with_draws(found.calibration, 20.0 * rng.lognormal(0.0, 0.8, (400, 6)))
    for row in policies:
        name, gap = row["policy"], row["coverage_gap"]
        sure, unsure = gap_ranges(policies, known)[name], gap_ranges(policies, wide)[name]
        assert sure["lower"] == pytest.approx(gap["lower"])
        assert unsure["lower"] <= gap["value"] <= unsure["upper"] <= 1.0
        assert unsure["upper"] > sure["upper"] + 0.1


def test_rows_used_are_those_of_the_domain(records: Records) -> None:
    day = split_date(records, "heat")
    rows = rows_used(records, "heat", day)
    received = sorted(
        at.date() for at in records.table("complaints", "heat")["received_at"].to_pylist()
    )
    assert rows["learned"]["complaints"] + rows["tested"]["complaints"] == len(received)
    assert rows["learned"]["first"] == str(received[0])
    assert rows["learned"]["last"] < str(day) <= rows["tested"]["first"]
    assert rows["tested"]["last"] == str(received[-1])
    later = Records(records.folder, {**records.manifest, "date_from": "2024-02-01"})
    found = rows_used(later, "heat", day)
    assert found["learned"] == rows["learned"], "what is learned from does not stop at the window"
    assert 0 < found["corrected"]["complaints"] < found["learned"]["complaints"]
    said = findings.say_rows({"rows": found})
    assert f"{found['corrected']['complaints']} of them, from 2024-02" in said
    assert "of them" not in findings.say_rows({"rows": rows})
    assert rows_used(records, "crane", day)["learned"] == {"complaints": 0, "first": "", "last": ""}


def test_a_synthetic_city_is_no_import(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "city", tiny_tables())
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(seal({**manifest, "kind": "city"})))
    config = RunConfig(records=str(folder), domains=("heat",))
    with pytest.raises(InputError, match="is a synthetic city"):
        run_pipeline(config, runs=tmp_path, cities=tmp_path, progress=lambda *_: None)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("2")]
