"""Intervals hold the truth as often as they say, and inspections tell lifetimes from reporting."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import EstimationError
from parity311.reporting import validation
from parity311.reporting.simulation import make_areas
from parity311.reporting.validation import (
    KnownReports,
    Refusal,
    Score,
    Trial,
    case_from_scenario,
    check_bars,
    score_trials,
)

pytestmark = pytest.mark.slow

N_AREAS = 600


def scores_of(name: str, *trials: Trial, seed: int = 3) -> list[Score]:
    areas = make_areas(N_AREAS, np.random.default_rng(seed))
    found = score_trials(case_from_scenario(name, areas, seed), list(trials), seed)
    scores = [row for row in found if isinstance(row, Score)]
    assert len(scores) == len(trials), found
    return scores


@pytest.mark.parametrize("name", ["service_lags", "sparse"])
def test_intervals_cover_and_raw_counts_do_not(name: str) -> None:
    ours, raw = scores_of(name, Trial("exposure_rate"), Trial("raw"))
    # Nominal 0.90; with 600 areas four standard errors are 0.05.
    assert 0.85 <= ours.coverage <= 0.95
    assert 0.85 <= ours.coverage_by_window <= 0.96
    assert raw.coverage < 0.2
    assert max(map(abs, ours.bias_by_quintile)) < 0.08
    assert raw.ratio_error < -0.3


def test_a_rate_that_varies_between_incidents_is_told() -> None:
    ours, even = scores_of("heavy_tailed", Trial("exposure_rate"), Trial("exposure_rate_even"))
    assert max(map(abs, ours.bias_by_quintile)) < 0.12
    assert max(even.bias_by_quintile) < -0.2


def test_inspections_tell_lifetimes_that_differ_by_income() -> None:
    trial = Trial("exposure_rate", "estimated", 0.05)
    inspected, blind = scores_of("closing_by_income", trial, Trial("exposure_rate", "estimated"))
    assert abs(inspected.ratio_error) < 0.08
    # All areas share their draws, so one city's share varies more than the number of areas says.
    others = [scores_of("closing_by_income", trial, seed=seed)[0] for seed in (4, 5)]
    assert 0.85 <= np.mean([one.coverage for one in (inspected, *others)]) <= 0.95
    assert blind.ratio_error > 0.2
    assert blind.band_holds_truth


def test_the_bars_notice_what_does_not_hold() -> None:
    """The broken twin of `check_bars`: the scores of a model that is off by a fifth."""
    good = scores_of("service_lags", Trial("exposure_rate"))
    bars = check_bars(good)
    assert {bar["asked"] for bar in bars} == {"largest bias of a quintile", "coverage"}
    wrong = [
        Score(**{**vars(row), "bias_by_quintile": (0.2,) * 5, "coverage": 0.7}) for row in good
    ]
    assert not any(bar["holds"] for bar in check_bars(wrong))


def test_an_estimator_that_gives_no_estimate_is_named_and_misses_its_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EstimationError("too few reports")

    monkeypatch.setattr(validation, "estimate", refuse)
    areas = make_areas(50, np.random.default_rng(0))
    found = score_trials(case_from_scenario("sparse", areas, 0), [Trial("exposure_rate")], 0)
    assert [row.reason for row in found if isinstance(row, Refusal)] == ["too few reports"]
    assert [bar["holds"] for bar in check_bars(found)] == [False]


def test_inspections_are_drawn_at_random_from_the_truth() -> None:
    areas = make_areas(N_AREAS, np.random.default_rng(0))
    case: KnownReports = case_from_scenario("sparse", areas, 0)
    sample = case.inspect(0.05, seed=1)
    assert len(sample.area) == 30
    np.testing.assert_array_equal(sample.n_found, case.true_totals[sample.area])
    assert (sample.n_reported <= sample.n_found).all()
    assert not np.array_equal(sample.area, case.inspect(0.05, seed=2).area)
