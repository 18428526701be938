"""The audit of a domain: what it holds, and what unusual data get."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.audit.audit_city import make_inputs

from parity311.audit.assess import assess_domain, assess_domains, audit_to_plain
from parity311.audit.compare import compare_strata
from parity311.audit.gap import measure_gap
from parity311.audit.joins import audit_overrides, join_coverage
from parity311.audit.resample import draw_rates
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import income_quintiles, make_grouping
from parity311.errors import InputError
from parity311.pipelines.audit import published_gate
from parity311.resampling import exponential_weights
from parity311.storage.strict_json import to_json

SPEC = AuditSpec(
    n_draws=300,
    strata=("income5", "race5", "race_majority", "language", "channel"),
    denominators=("complaints", "incidents", "actionable", "dwellings"),
)


def verdicts(audit) -> dict[tuple[str, str], object]:
    return {(v.strata, v.denominator): v.comparison for v in audit.verdicts}


def test_every_grouping_and_denominator_has_a_verdict_with_intervals() -> None:
    audits = assess_domains([make_inputs(0, n_months=12)], SPEC)
    plain = audit_to_plain(audits, SPEC)
    rows = plain["domains"][0]["verdicts"]
    by_place = [row for row in rows if row["strata"] in ("income5", "race5", "race_majority")]
    assert len(by_place) == 3 * 5
    assert len(rows) == 15 + 2 * 2
    for row in rows:
        assert row["verdict"] in ("PASS", "FAIL", "INSUFFICIENT")
        assert row["gap_lower"] <= row["gap"] <= row["gap_upper"]
        assert row["ratio_lower"] <= row["ratio"] <= row["ratio_upper"]
    assert plain["spec_sha256"] == SPEC.sha256
    assert '"domain": "heat"' in to_json(plain)


def test_the_same_inputs_give_the_same_figures() -> None:
    first, second = (
        to_json(audit_to_plain(assess_domains([make_inputs(0)], SPEC), SPEC)) for _ in "ab"
    )
    assert first == second


def test_a_rate_per_actionable_incident_is_higher_than_per_incident() -> None:
    """Four in ten visits find something, so 40 % of incidents are actionable."""
    found = verdicts(assess_domain(make_inputs(0), SPEC))
    ratio = found["income5", "incidents"].mean_rate / found["income5", "actionable"].mean_rate
    assert ratio == pytest.approx(0.4, rel=0.05)


def test_without_an_estimate_of_incidents_the_reason_is_said() -> None:
    inputs = replace(make_inputs(0), incident_draws=None)
    comparison = verdicts(assess_domain(inputs, SPEC))["income5", "incidents"]
    assert comparison.verdict == "INSUFFICIENT"
    assert comparison.reason == "no estimate of incidents was given"


def only(inputs, rows: np.ndarray):
    """The same inputs with these cells only."""
    return replace(inputs, cells=inputs.cells.take(rows))


def test_a_stratum_without_complaints_is_left_out_and_nothing_passes() -> None:
    inputs = make_inputs(0, n_tracts=300)
    quintile = inputs.places.income_quintile[inputs.cells.tract]
    comparison = verdicts(assess_domain(only(inputs, quintile != 3), SPEC))["income5", "dwellings"]
    assert comparison.left_out == ()
    assert comparison.verdict == "FAIL"  # nobody of Q3 is served, whatever the reason
    cases = verdicts(assess_domain(only(inputs, quintile != 3), SPEC))["income5", "complaints"]
    assert "Q3" not in (cases.worst_off, cases.best_off)


def test_one_tract_only_is_insufficient_with_its_reason() -> None:
    inputs = make_inputs(0)
    audit = assess_domain(only(inputs, inputs.cells.tract == 7), SPEC)
    assert {v.comparison.verdict for v in audit.verdicts if v.denominator == "complaints"} == {
        "INSUFFICIENT"
    }
    assert all(trend.test.reason for trend in audit.trends)


def test_a_small_stratum_turns_pass_into_insufficient_but_not_fail() -> None:
    rng = np.random.default_rng(0)
    n_tracts, n_strata = 60, 3
    member = np.eye(n_strata)[np.repeat([0, 1, 2], [29, 29, 2])]
    weights = exponential_weights(n_tracts, 400, rng)
    labels = ("a", "b", "small")
    for rates, expected in (((0.5, 0.5, 0.5), "INSUFFICIENT"), ((0.3, 0.6, 0.5), "FAIL")):
        cases = 400 * member
        served = rng.binomial(400, member @ np.array(rates))[:, None] * member
        drawn = draw_rates(served, cases, weights, rng)
        comparison = compare_strata(drawn, labels, SPEC)
        assert comparison.verdict == expected
        assert comparison.left_out == ("small",)
        assert "small has under" in comparison.reason


def test_a_stratum_whose_estimated_incidents_vanish_is_left_out() -> None:
    """Draws of a denominator that reach zero say nothing about a rate; they must not pass."""
    inputs = make_inputs(0, tract_sd=0.0, n_tracts=400)
    assert inputs.incident_draws is not None
    draws = inputs.incident_draws.copy()
    draws[::3, inputs.places.income_quintile == 2] = 0.0
    in_second = inputs.places.income_quintile[inputs.cells.tract] == 2
    few = np.where(in_second, 0.0, inputs.cells.n_served)
    changed = replace(inputs, incident_draws=draws, cells=replace(inputs.cells, n_served=few))
    comparison = verdicts(assess_domain(changed, SPEC))["income5", "incidents"]
    assert comparison.left_out == ("Q2",)
    assert comparison.verdict != "PASS"


def test_a_group_that_is_never_served_fails_with_a_finite_band() -> None:
    inputs = make_inputs(0)
    quintile = inputs.places.income_quintile[inputs.cells.tract]
    served = np.where(quintile == 1, 0.0, inputs.cells.n_served)
    cells = replace(inputs.cells, n_served=served)
    comparison = verdicts(assess_domain(replace(inputs, cells=cells), SPEC))[
        "income5", "complaints"
    ]
    assert comparison.verdict == "FAIL"
    assert comparison.worst_off.startswith("Q1")
    assert np.isfinite([comparison.gap.upper, comparison.ratio.upper]).all()
    assert comparison.ratio.estimate == 0.0


def test_missing_acs_values_are_a_group_of_their_own() -> None:
    inputs = make_inputs(0)
    nothing = {race: np.full(200, np.nan) for race in inputs.places.shares}
    places = replace(inputs.places, income_quintile=np.zeros(200, int), shares=nothing)
    audit = assess_domain(replace(inputs, places=places), SPEC)
    rates = [r for r in audit.rates if r.strata == "income5" and r.denominator == "complaints"]
    assert [r.stratum for r in rates if np.isfinite(r.rate)] == ["unknown"]
    assert verdicts(audit)["race5", "complaints"].verdict == "INSUFFICIENT"


def test_a_burden_names_the_highest_as_worst_off() -> None:
    inputs = make_inputs(0, slope=0.3)
    benefit = verdicts(assess_domain(inputs, SPEC))["income5", "complaints"]
    burden = verdicts(assess_domain(inputs, replace(SPEC, polarity="burden")))
    assert benefit.worst_off.startswith("Q1")
    assert burden["income5", "complaints"].worst_off.startswith("Q5")


def test_small_cells_are_not_published() -> None:
    inputs = make_inputs(0)
    language = inputs.cells.language.copy()
    language[np.flatnonzero(inputs.cells.n_cases == 1)[:3]] = "ru"
    cells = replace(inputs.cells, language=language)
    audit = assess_domain(replace(inputs, cells=cells), SPEC)
    row = next(r for r in audit.rates if r.stratum == "ru")
    assert (row.served, row.out_of) == (None, None)
    assert np.isnan(row.rate)
    assert row.note == "insufficient: fewer than 10 to count"
    assert verdicts(audit)["language", "cases"].verdict != "PASS"


def test_join_coverage_shows_who_is_lost() -> None:
    inputs = make_inputs(0)
    lost = inputs.cells.channel == "ONLINE"
    cells = replace(inputs.cells, tract=np.where(lost, -1, inputs.cells.tract))
    rows = {(r.group, r.value): r for r in join_coverage(replace(inputs, cells=cells), 10)}
    assert rows["channel", "ONLINE"].share_with_tract == 0
    assert rows["channel", "PHONE"].share_with_tract == 1
    assert rows["channel", "PHONE"].share_with_building == pytest.approx(0.9, abs=0.03)
    assert rows["borough", "unknown"].share_with_income == 0


def test_overrides_that_fall_on_one_group_fail() -> None:
    inputs = make_inputs(0, n_tracts=300)
    grouping = income_quintiles(inputs.places)
    rng = np.random.default_rng(1)
    tract = rng.integers(0, 300, 6000)
    recommended = rng.random(6000) < 0.5
    chance = np.where(inputs.places.income_quintile[tract] == 1, 0.6, 0.2)
    is_override = rng.random(6000) < chance
    taken = recommended ^ is_override
    audit = audit_overrides(tract, recommended, taken, is_override, grouping, SPEC, n_tracts=300)
    assert audit.comparison.verdict == "FAIL"
    assert audit.downgraded_comparison.worst_off.startswith("Q1")


def test_the_published_gate_by_hand() -> None:
    member = np.eye(2)[np.repeat([0, 1], 10)]
    complaints = np.full(20, 100.0)
    duplicates = np.repeat([20.0, 60.0], 10)
    gate = published_gate(np.full(20, 10.0), complaints, duplicates, np.ones((20, 1)), member)
    # rho = 0.8 and 0.4, N = 125 and 250 a tract: 0.08 against 0.04, within tau.
    assert gate.largest_gap == pytest.approx(0.04)
    assert not gate.is_suspended
    assert 0 < gate.lower <= gate.largest_gap <= gate.upper
    with pytest.raises(InputError, match="between 0 and 1"):
        published_gate(complaints, complaints, duplicates, np.ones((20, 1)), member, tau=1.0)


@pytest.mark.parametrize(
    ("n_duplicates", "need"),
    [
        # Nine: the proxy, here 1 - (20 + 60 + 9) / 230 of all three tracts.
        (9.0, 30 / (141 / 230)),
        # Ten: the tract's own 1 - 10 / 30.
        (10.0, 30 / (20 / 30)),
    ],
)
def test_the_published_gate_falls_back_to_its_proxy(n_duplicates: float, need: float) -> None:
    complaints = np.array([100.0, 100.0, 30.0])
    repeats = np.array([20.0, 60.0, n_duplicates])
    member = np.eye(2)[[0, 1, 1]]
    gate = published_gate(np.full(3, 10.0), complaints, repeats, np.ones((3, 1)), member)
    # 10 of 100 / 0.8 in the first stratum; 20 of 100 / 0.4 and the third tract in the second.
    assert gate.largest_gap == pytest.approx(10 / 125 - 20 / (250 + need), rel=1e-4)


def test_the_published_gate_without_complaints_says_nothing() -> None:
    nothing = np.zeros(2)
    gate = published_gate(nothing, nothing, nothing, np.ones((2, 1)), np.eye(2))
    assert np.isnan(gate.largest_gap)
    assert not gate.is_suspended


def test_the_published_propensity_points_the_wrong_way() -> None:
    """Equal need and equal service; the second group reports three times as often."""
    rng = np.random.default_rng(0)
    reports = rng.poisson(np.repeat([0.43, 1.29], 50)[:, None], (100, 400))
    complaints, reported = reports.sum(axis=1), (reports > 0).sum(axis=1)
    served = np.full(100, 40.0)
    member = np.eye(2)[np.repeat([0, 1], 50)]
    repeats = (complaints - reported).astype(float)
    gate = published_gate(served, complaints.astype(float), repeats, np.ones((100, 1)), member)
    assert gate.largest_gap > 0.05
    assert gate.is_suspended


def test_languages_beyond_the_frequent_ones_are_one_group() -> None:
    inputs = make_inputs(0)
    codes = np.array([f"l{i % 9}" for i in range(900)], dtype=object)
    grouping = make_grouping("language", inputs.places, codes)
    assert len(grouping.labels) == 6 + 2
    assert grouping.labels[-2:] == ("other language", "unknown")


def test_a_band_past_a_hundred_points_bounds_nothing() -> None:
    rates = np.array([0.1, 0.5])
    wide = np.random.default_rng(0).normal(rates, [0.01, 2.0], (400, 2))
    gap = measure_gap(rates, wide)
    assert gap.upper > 1.0
    assert gap.verdict == "INSUFFICIENT"
    assert "nothing bounds the gap from above" in gap.reason
    assert "lies between" in measure_gap(rates, rates + (wide - rates) / [1.0, 10.0]).reason
