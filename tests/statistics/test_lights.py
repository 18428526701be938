"""Two hundred years without a fault, and faults that must be seen within the stated delay."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from parity311.audit.betting import N_STARTS, capital
from parity311.errors import InputError
from parity311.lifecycle.lights import (
    AMBER,
    GREEN,
    GREY,
    RED,
    Light,
    LightSpec,
    Slots,
    days_of_year,
    detection_light,
    disparity_light,
    follow,
    friction_light,
    worst,
)

SINCE = date(2025, 1, 1)
N_DAYS, N_MONTHS, N_TRACTS = 364, 12, 60
SPEC = LightSpec()
MONTHS = [date(2025, month, 1) for month in range(1, 13)]
BASELINE = 0.05
N_VISITS = 20
"""visits a day, a tenth of them left to today's rule"""


def disparity(rng: np.random.Generator, gap: float, from_month: int = 0) -> Light:
    """A year of months whose poorest fifth is behind by a gap from a month on."""
    stratum = np.arange(N_TRACTS) % 5
    cases = rng.poisson(12.0, (N_MONTHS, N_TRACTS)).astype(float)
    rate = np.full((N_MONTHS, N_TRACTS), 0.45)
    now = np.where(np.arange(N_MONTHS) >= from_month, gap, BASELINE)
    rate -= np.where(stratum == 0, now[:, None], 0.0)
    served = rng.binomial(cases.astype(int), rate).astype(float)
    return disparity_light(served, cases, stratum, baseline=BASELINE, months=MONTHS, spec=SPEC)


def detection(
    rng: np.random.Generator, share: float, from_day: int = 0, left: float = 0.1
) -> Light:
    """A year of visits: three in ten find something, the policy's another share from a day on."""
    day = np.repeat(np.arange(N_DAYS), N_VISITS)
    todays = rng.random(len(day)) < left
    chance = np.where(todays, left, 1.0 - left)
    p = np.where(todays | (day < from_day), 0.3, share)
    slots = Slots(day, todays, chance, rng.random(len(day)) < p)
    return detection_light(slots, since=SINCE, n_days=N_DAYS, spec=SPEC)


def friction(rng: np.random.Generator, share: float, from_day: int = 0) -> Light:
    """A year of recommendations of which a share is set aside; a fifth before a day."""
    p = np.where(np.arange(N_DAYS) < from_day, 0.2, share)
    decided = rng.poisson(N_VISITS, N_DAYS)
    overridden = rng.binomial(decided, p).astype(float)
    survey_day = np.arange(0, N_DAYS, 28)
    survey = np.clip(rng.normal(0.4, 0.15, len(survey_day)), 0, 1)
    return friction_light(
        overridden, decided, survey=survey, survey_day=survey_day, since=SINCE, spec=SPEC
    )


def survey(rng: np.random.Generator, mean: float, from_day: int = 0) -> Light:
    """A year in which five of the staff answer every week; 0.4 on average before a day."""
    day = np.repeat(np.arange(0, N_DAYS, 7), 5)
    answers = np.clip(rng.normal(np.where(day < from_day, 0.4, mean), 0.15), 0, 1)
    nobody = np.zeros(N_DAYS)
    return friction_light(
        nobody, nobody, survey=answers, survey_day=day, since=SINCE, spec=SPEC
    )  # fmt: skip


def rough_year(rng: np.random.Generator, gap: float) -> list[Light]:
    """A year without a fault as cities have them: seasons, tracts and days that differ."""
    season = 1.0 + 0.7 * np.cos(2 * np.pi * np.arange(N_MONTHS) / 12)
    size = rng.lognormal(0.0, 0.6, N_TRACTS)
    cases = rng.poisson(12.0 * season[:, None] * size / size.mean()).astype(float)
    stratum = np.arange(N_TRACTS) % 5
    own = rng.normal(0.0, 0.08, N_TRACTS)
    # Tracts differ within a quintile; the quintiles differ by the gap.
    for one in range(5):
        mine = stratum == one
        own[mine] -= np.average(own[mine], weights=size[mine])
    rate = 0.45 + own + rng.normal(0.0, 0.05, cases.shape) - gap * (stratum == 0)
    served = rng.binomial(cases.astype(int), np.clip(rate, 0.02, 0.98)).astype(float)
    day = np.repeat(np.arange(N_DAYS), N_VISITS)
    todays = rng.random(len(day)) < 0.1
    p = 0.3 + 0.1 * np.sin(2 * np.pi * day / N_DAYS) + rng.normal(0.0, 0.05, N_DAYS)[day]
    slots = Slots(day, todays, np.where(todays, 0.1, 0.9), rng.random(len(day)) < p)
    decided = rng.poisson(N_VISITS, N_DAYS)
    overridden = rng.binomial(decided, rng.beta(5.0, 15.0, N_DAYS)).astype(float)
    return [
        disparity_light(served, cases, stratum, baseline=BASELINE, months=MONTHS, spec=SPEC),
        detection_light(slots, since=SINCE, n_days=N_DAYS, spec=SPEC),
        friction_light(overridden, decided, since=SINCE, spec=SPEC),
    ]


def test_rough_years_without_a_fault_trip_as_rarely() -> None:
    """At the margin itself too: the gap is as large as it may be."""
    rng = np.random.default_rng(314)
    tripped = [worst(rough_year(rng, BASELINE + SPEC.gap_margin)) == RED for _ in range(60)]
    assert np.mean(tripped) <= SPEC.alpha


def test_two_hundred_years_without_a_fault() -> None:
    rng = np.random.default_rng(311)
    tripped = 0
    for _ in range(200):
        lights = [disparity(rng, BASELINE), detection(rng, 0.3), friction(rng, 0.25)]
        tripped += worst(lights) == RED
    assert tripped <= 0.05 * 200


def test_a_policy_at_the_very_limit_trips_as_rarely() -> None:
    """Staff set aside exactly what they may, and both orders find the same."""
    rng = np.random.default_rng(312)
    over = [friction(rng, SPEC.most_overrides).state == RED for _ in range(200)]
    found = [detection(rng, 0.3).state == RED for _ in range(200)]
    assert np.mean(over) <= SPEC.alpha
    assert np.mean(found) <= SPEC.alpha


@pytest.mark.parametrize("seed", range(5))
def test_each_fault_is_seen_within_its_delay(seed: int) -> None:
    """The delays that docs/how-to/watch-a-policy.md states."""
    rng = np.random.default_rng(seed)
    unequal = disparity(rng, 0.3, from_month=4)
    assert unequal.state == RED
    assert unequal.tripped_on is not None
    assert MONTHS[4] <= unequal.tripped_on <= MONTHS[7]
    began = SINCE + timedelta(days=120)
    for left, delay in ((0.1, 120), (0.25, 60)):
        blind = detection(rng, 0.1, from_day=120, left=left)
        assert blind.state == RED
        assert blind.tripped_on is not None
        assert began <= blind.tripped_on <= began + timedelta(days=delay)
    refused = friction(rng, 0.6, from_day=120)
    assert refused.state == RED
    assert refused.tripped_on is not None
    assert began <= refused.tripped_on <= began + timedelta(days=28)
    disliked = survey(rng, 0.8, from_day=120)
    assert disliked.tripped_on is not None
    assert began <= disliked.tripped_on <= began + timedelta(days=56)


def test_repeated_plain_tests_would_alarm() -> None:
    """The broken twin: a 5 % test of every day's running mean trips in many sound years."""
    rng = np.random.default_rng(313)
    alarms = 0
    for _ in range(200):
        share = rng.binomial(20, 0.3, N_DAYS) / 20
        n = np.arange(1, N_DAYS + 1)
        score = (share.cumsum() / n - 0.3) / np.sqrt(0.3 * 0.7 / (20 * n))
        alarms += bool((score > 1.645).any())
    assert alarms / 200 > 0.15


class TestCapital:
    def test_a_fair_bet_does_not_grow(self) -> None:
        rng = np.random.default_rng(5)
        days = np.arange(N_DAYS)
        ends = [
            capital((rng.random(N_DAYS) < 0.4).astype(float), days, mean=0.4, low=0, n_days=N_DAYS)
            for _ in range(400)
        ]
        assert np.mean([path[-1] for path in ends]) == pytest.approx(1.0, abs=0.6)
        assert np.mean([path.max() >= 20 for path in ends]) <= 0.05

    def test_what_has_not_begun_is_kept_back(self) -> None:
        path = capital(np.ones(10), np.arange(10), mean=0.5, low=0.0, n_days=10)
        first = np.exp(np.log1p(np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7]))).mean()
        assert path[0] == pytest.approx((first + N_STARTS - 1) / N_STARTS)

    def test_a_day_without_values_says_nothing(self) -> None:
        path = capital(np.array([1.0]), np.array([3]), mean=0.5, low=0.0, n_days=8)
        np.testing.assert_array_equal(path[:3], 1.0)
        np.testing.assert_array_equal(path[3:], path[3])


class TestHysteresis:
    HOLDS = np.ones(6, bool)

    def test_amber_goes_out_only_when_the_evidence_is_gone(self) -> None:
        high, between = SPEC.warns + 1, (SPEC.warns + 2) / 2
        assert follow(np.array([1, high, between]), self.HOLDS[:3], SPEC) == (AMBER, None)
        assert follow(np.array([1, between]), self.HOLDS[:2], SPEC) == (GREEN, None)
        assert follow(np.array([1, high, 1.5]), self.HOLDS[:3], SPEC) == (GREEN, None)

    def test_red_stays(self) -> None:
        path = np.array([1, SPEC.limit + 1, 0.1, 0.1])
        assert follow(path, self.HOLDS[:4], SPEC) == (RED, 1)

    def test_evidence_of_a_time_long_gone_does_not_trip(self) -> None:
        path = np.array([1, SPEC.limit + 1])
        assert follow(path, np.array([True, False]), SPEC) == (GREEN, None)


def test_what_cannot_be_judged_is_grey() -> None:
    nobody = np.zeros(0, int)
    slots = Slots(nobody, nobody.astype(bool), np.zeros(0), nobody.astype(bool))
    assert detection_light(slots, since=SINCE, n_days=10, spec=SPEC).state == GREY
    nothing = np.zeros(10)
    assert friction_light(nothing, nothing, since=SINCE, spec=SPEC).state == GREY
    few = disparity_light(
        np.zeros((1, 5)), np.ones((1, 5)), np.arange(5), baseline=0.0, months=MONTHS[:1], spec=SPEC
    )
    assert few.state == GREY
    assert worst([few]) == GREEN


def test_a_year_of_evidence_begins_anew() -> None:
    first, n_days = days_of_year(SINCE, SINCE + timedelta(days=400))
    assert (first, n_days) == (SINCE + timedelta(days=365), 35)
    assert days_of_year(SINCE, SINCE + timedelta(days=366)) == (SINCE + timedelta(days=365), 1)


def test_a_whole_year_is_looked_at_before_the_next_begins() -> None:
    assert days_of_year(SINCE, SINCE + timedelta(days=365)) == (SINCE, 365)
    slots = Slots(np.array([0, 364]), np.array([True, False]), np.array([0.1, 0.9]), np.ones(2))
    found = detection_light(slots, since=SINCE, n_days=365, spec=SPEC)
    assert found.path[-1][1] > 0
    assert "the lead is" in found.words


def test_no_lead_is_told_of_days_without_a_drawn_visit() -> None:
    slots = Slots(np.array([0, 1]), np.array([True, False]), np.array([0.1, 0.9]), np.ones(2))
    found = detection_light(slots, since=SINCE, n_days=200, spec=SPEC)
    assert np.isnan(found.value)
    assert "no visit was drawn" in found.words


@pytest.mark.parametrize("bad", [{"alpha": 0.0}, {"gap_margin": 2.0}, {"most_overrides": -1}])
def test_thresholds_outside_what_is_allowed_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match="allowed is"):
        LightSpec(**bad)
