"""The paper's equity term (its Eq. 8 to 11), against its formulas worked out by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import make_domain

from parity311.domains import boiler, crane, elevator, heat
from parity311.domains.scaffold import DOMAIN as SCAFFOLD
from parity311.errors import InputError
from parity311.mdp.contract import Domain
from parity311.mdp.equity import (
    FORMS,
    PUBLISHED_TERM,
    EquityParams,
    EquityState,
    EquityTerm,
    count_step,
    equity_params,
    get_mode,
    hear_complaints,
    initial_equity,
    need_in_window,
    reports_in_window,
)
from parity311.mdp.harness import Harness, usual_reports

PER_STEP = get_mode("per_step", "two_strata")
USUAL = np.array([2, 2, 2, 2, 2, 2], np.float32)
"""Complaints a day, from every stratum"""
PER_COMPLAINT = np.array([3, 3, 2, 1, 1, 1], np.float32)
"""Incidents behind a complaint: 1/ρ̂ by stratum"""


def params_of(steps_per_day: float = 1.0) -> EquityParams:
    per_step = USUAL / np.float32(steps_per_day)
    return equity_params(
        jnp.asarray(per_step * PER_COMPLAINT), steps_per_day=steps_per_day, usual_reports=per_step
    )


def listen(params: EquityParams, heard: list[np.ndarray]) -> EquityState:
    state = initial_equity(params, n_days=PER_STEP.n_days)
    for complaints in heard:
        state = hear_complaints(params, state, jnp.asarray(complaints))
    return state


class TestTheWindowOfFourWeeksThatEndsAtTheStep:
    """N̂_t = C_t / ρ̂ over the last 28 days."""

    def test_before_anything_is_heard_it_is_as_estimated(self) -> None:
        found = need_in_window(params_of(), listen(params_of(), []))
        # 28 days of 2 complaints with 3, 3, 2, 1, 1, 1 incidents behind each.
        np.testing.assert_allclose(found, [168, 168, 112, 56, 56, 56], rtol=1e-5)

    def test_a_day_of_thirty_complaints_counts_for_exactly_four_weeks(self) -> None:
        params, many = params_of(), USUAL.copy()
        many[0] = 30.0
        at_once = need_in_window(params, listen(params, [many]))
        # 27 days of 2 and one of 30 are 84 complaints, 252 incidents; the others as usual.
        np.testing.assert_allclose(at_once, [252, 168, 112, 56, 56, 56], rtol=1e-5)
        last_day = need_in_window(params, listen(params, [many, *[USUAL] * 27]))
        assert float(last_day[0]) == pytest.approx(252.0, rel=1e-5)
        day_after = need_in_window(params, listen(params, [many, *[USUAL] * 28]))
        assert float(day_after[0]) == pytest.approx(168.0, rel=1e-5)

    def test_within_a_day_the_first_day_counts_in_part(self) -> None:
        params, first = params_of(2.0), np.array([9, 1, 1, 1, 1, 1], np.float32)
        # Half a day of 9, and of the 28 days before it all but half a day: 27.5 days of 2 a day.
        found = reports_in_window(params, listen(params, [first]))
        np.testing.assert_allclose(found, [64, 56, 56, 56, 56, 56], rtol=1e-5)

    def test_a_step_may_be_longer_than_a_day(self) -> None:
        params = params_of(0.25)
        as_usual = np.full(6, 8.0, np.float32)
        heard = [np.array([9, 8, 8, 8, 8, 8], np.float32), *[as_usual] * 6]
        # Seven steps of four days: 9 and six times 8, which the next step's 8 replaces.
        assert float(reports_in_window(params, listen(params, heard))[0]) == pytest.approx(57.0)
        later = listen(params, [*heard, as_usual])
        assert float(reports_in_window(params, later)[0]) == pytest.approx(56.0)

    def test_silence_for_four_weeks_counts_as_one_complaint(self) -> None:
        params, silent = params_of(), np.array([0, 2, 2, 2, 2, 2], np.float32)
        found = need_in_window(params, listen(params, [silent] * 28))
        np.testing.assert_allclose(found, [3, 168, 112, 56, 56, 56], rtol=1e-5)

    @pytest.mark.parametrize("how", ["forgetting", "disjoint windows", "as estimated"])
    def test_other_windows_give_other_numbers(self, how: str) -> None:
        """The broken twins: each reading the review found fails the day after the window."""
        n_days = 29
        heard = np.array([30.0, *[2.0] * (n_days - 1)])
        keep = np.exp(-1.0 / 28.0)
        wrong = {
            "forgetting": 3 * (56 * keep**n_days + heard @ keep ** np.arange(n_days)[::-1]),
            "disjoint windows": 3 * heard[:28].sum(),
            "as estimated": 168.0,
        }[how]
        many = USUAL.copy()
        many[0] = 30.0
        last_day = need_in_window(params_of(), listen(params_of(), [many, *[USUAL] * 27]))
        day_after = need_in_window(params_of(), listen(params_of(), [many, *[USUAL] * 28]))
        right = last_day if how == "as estimated" else day_after
        assert abs(float(right[0]) - wrong) > 10.0

    def test_counters_without_days_are_refused(self) -> None:
        with pytest.raises(ValueError, match="n_days"):
            PER_STEP.reward(params_of(), initial_equity(params_of()), jnp.zeros(6))


class TestTheRewardOfOneStep:
    ESCALATED = jnp.array([1, 1, 1, 0, 1, 4], np.float32)

    def test_eq_9_by_hand(self) -> None:
        state = listen(params_of(), [])
        # low: (1 + 1) / (168 + 168); high: (0 + 1) / (56 + 56). |1/112 − 1/168| = 1/336, times
        # the mean need of a known stratum in four weeks, 112: −1/3.
        got = float(PER_STEP.reward(params_of(), state, self.ESCALATED))
        assert got == pytest.approx(-1.0 / 3.0, rel=1e-5)

    def test_eq_8_by_hand(self) -> None:
        """With raw counts for incidents the low strata look better served than they are."""
        raw = equity_params(jnp.asarray(USUAL), usual_reports=USUAL)
        state = initial_equity(raw, n_days=PER_STEP.n_days)
        # (1 + 1) / 112 against (0 + 1) / 112: 1/112, times 56.
        assert float(PER_STEP.reward(raw, state, self.ESCALATED)) == pytest.approx(-0.5, rel=1e-5)

    def test_eq_10_and_11_by_hand(self) -> None:
        state = listen(params_of(), [])
        rates = np.array([1 / 168, 1 / 168, 1 / 112, 0.0, 1 / 56])
        largest = get_mode("per_step", "max_gap").reward(params_of(), state, self.ESCALATED)
        assert float(largest) == pytest.approx(-112 / 56, rel=1e-5)
        spread = get_mode("per_step", "variance").reward(params_of(), state, self.ESCALATED)
        by_hand = ((rates - rates.mean()) ** 2).sum() / 5
        assert by_hand == pytest.approx(3.4014e-5, rel=1e-3)
        assert float(spread) == pytest.approx(-112 * by_hand, rel=1e-4)

    def test_what_a_step_brought_is_in_its_window(self) -> None:
        harness = Harness(boiler.DOMAIN, **vars(PUBLISHED_TERM))
        params = boiler.DOMAIN.play.example()
        equity = harness.equity_params(params)
        running, _ = harness.reset(jax.random.key(0), params, equity)
        moved = jax.jit(harness.step)(jax.random.key(1), params, equity, running, jnp.int32(1))
        heard = hear_complaints(equity, running.equity, moved.tally.complaints)
        need = need_in_window(equity, heard)
        credit = boiler.DOMAIN.play.transition(
            jax.random.split(jax.random.key(1))[0],
            params,
            running.state,
            jnp.int32(1),
            jnp.zeros(6),
        ).credit
        unit = float(equity.denominators[:5].mean() * equity.window_steps)
        by_hand = -float(FORMS["two_strata"](credit, need)) * unit
        assert float(moved.reward[2]) == pytest.approx(by_hand, rel=1e-4)


class TestTheVariance:
    """The paper's sentence says population-weighted, its Eq. 11 has 1/K."""

    CORRECT = jnp.array([3, 1, 2, 1, 0, 5], np.float32)
    NEED = jnp.array([300, 100, 100, 60, 40, 10], np.float32)
    RATES = np.array([0.01, 0.01, 0.02, 1 / 60, 0.0])

    def weighted(self, weights: np.ndarray) -> float:
        mean = weights @ self.RATES
        return float(weights @ (self.RATES - mean) ** 2)

    def test_strata_of_a_fifth_of_the_households_each_make_both_the_same(self) -> None:
        found = float(FORMS["variance"](self.CORRECT, self.NEED))
        households = np.full(5, 20_000.0)
        assert found == pytest.approx(self.weighted(households / households.sum()), rel=1e-4)
        assert found == pytest.approx(4.7111e-5, rel=1e-3)

    def test_weights_by_incidents_would_be_another_number(self) -> None:
        need = np.asarray(self.NEED[:5], np.float64)
        wrong = self.weighted(need / need.sum())
        assert abs(wrong - float(FORMS["variance"](self.CORRECT, self.NEED))) > 1e-5


class TestAllIncidentsAsDenominators:
    def test_boiler_years_by_hand(self) -> None:
        example = boiler.DOMAIN.play.example()
        n = example.stratum.shape[0]
        few = np.zeros(n, np.int32)
        few[:4] = [0, 0, 1, 4]
        chance = np.zeros(n, np.float32)
        chance[:4] = [0.5, 0.5, 0.25, 1.0]
        params = example._replace(
            stratum=jnp.asarray(few), chance=jnp.asarray(chance), n_rows=jnp.int32(4),
            filed_share=jnp.array([0.5, 0.25, 1, 1, 1, 1], np.float32),
        )  # fmt: skip
        every = Harness(boiler.DOMAIN, denominator="all").need_per_step(params)
        # Of four filings two are of stratum 0, where half is filed: (2/4) / 0.5.
        np.testing.assert_allclose(every, [1.0, 1.0, 0, 0, 0.25, 0], rtol=1e-6)
        actionable = Harness(boiler.DOMAIN).need_per_step(params)
        np.testing.assert_allclose(actionable, [0.5, 0.25, 0, 0, 0.25, 0], rtol=1e-6)

    def test_complaints_over_the_reported_share(self) -> None:
        params = crane.DOMAIN.play.example()
        every = np.asarray(crane.DOMAIN.play.incidents_per_step(params))  # type: ignore[misc]
        share = np.asarray(params.reported_share)
        groups = np.asarray(params.cells) % 6
        weight = 1.0 / np.asarray(params.days_per_step)
        seasons = np.stack([np.bincount(row, minlength=6) / len(row) for row in groups])
        np.testing.assert_allclose(every, (weight / weight.sum()) @ seasons / share, rtol=1e-4)

    @pytest.mark.slow
    def test_what_begins_in_the_heat_office(self) -> None:
        params = heat.DOMAIN.play.example()
        every = np.asarray(heat.DOMAIN.play.incidents_per_step(params))  # type: ignore[misc]
        begun = _incidents_begun(heat.DOMAIN, params)
        np.testing.assert_allclose(begun.sum(), every.sum(), rtol=0.05)

    def test_a_site_is_complained_about_once_and_then_at_its_rate(self) -> None:
        params = SCAFFOLD.play.example()
        every = np.asarray(SCAFFOLD.play.incidents_per_step(params))  # type: ignore[misc]
        first = np.diff(np.asarray(params.cases), prepend=0.0).reshape(6, 4).sum(axis=1)
        hidden = np.asarray(params.hidden_incidents)
        by_hand = first * (1 / 168 + float(params.incident_rate)) * (1 + hidden)
        np.testing.assert_allclose(every, by_hand, rtol=1e-4)

    def test_elevator_counts_what_nobody_reported(self) -> None:
        params = elevator.DOMAIN.play.example()
        every = np.asarray(elevator.DOMAIN.play.incidents_per_step(params))  # type: ignore[misc]
        backlog = params.backlog
        cases = np.asarray(backlog.cases_per_day).sum(axis=1) @ np.asarray(backlog.mix)
        hidden = np.asarray(backlog.unreported_incidents)
        np.testing.assert_allclose(every * 6.0, cases + hidden, rtol=1e-4)

    def test_a_domain_that_does_not_say_is_told(self) -> None:
        harness = Harness(make_domain(incidents_per_step=None), denominator="all")
        with pytest.raises(InputError, match="only how many are actionable"):
            harness.need_per_step(harness.domain.play.example())
        with pytest.raises(InputError, match="actionable"):
            Harness(make_domain(), denominator="everything").need_per_step(None)


def _incidents_begun(domain: Domain, params: object) -> np.ndarray:
    """Incidents a step (6,) in episodes where nobody is sent."""
    harness = Harness(domain)
    equity = harness.equity_params(params)
    actions = harness.domain.actions
    idle = next(i for i, action in enumerate(actions) if not action.escalates)

    def episode(key: jax.Array) -> jax.Array:
        def body(running: object, key_step: jax.Array) -> tuple[object, jax.Array]:
            moved = harness.advance(key_step, params, equity, running, jnp.int32(idle))  # type: ignore[arg-type]
            return moved.running, moved.tally.incidents

        start, _ = harness.reset(key, params, equity)
        return jax.lax.scan(body, start, jax.random.split(key, harness.horizon))[1].mean(axis=0)

    return np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(2), 64))).mean(0)


def test_usual_reports_are_those_of_the_process() -> None:
    params = boiler.DOMAIN.play.example()
    found = usual_reports(Harness(boiler.DOMAIN), params)
    n = int(params.n_rows)
    shares = np.bincount(np.asarray(params.stratum)[:n], minlength=6) / n
    np.testing.assert_allclose(found, shares, atol=0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        {"equity_mode": "duel"},
        {"equity_form": "ratio"},
        {"denominator": "al"},
        {"strata": "income"},
    ],
)
def test_an_unknown_term_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong.values()))):
        EquityTerm(**wrong)


def test_coverage_counters_still_forget() -> None:
    """Only the published mode counts days; the others forget a little at every step."""
    params = params_of()
    state = count_step(params, listen(params, [USUAL]), jnp.zeros(6))
    assert float(state.unserved[0]) == pytest.approx(168 * np.exp(-1 / 28) + 6, rel=1e-5)
