"""The office: complaints are conserved, capacity holds, duplicates of the served earn nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import get_domain, heat
from parity311.domains.heat import office as engine
from parity311.domains.heat.arrivals import choose, poisson
from parity311.engines import heuristics
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.usefixtures("optimized")  # its episodes are long

HARNESS = Harness(get_domain("heat"))


@cache
def played() -> dict[str, Any]:
    """One year under several rules, every step kept."""
    params = heat.example()
    equity = HARNESS.equity_params(params)
    policies = {
        "inspect": heuristics.always(0),
        "batch": heuristics.always(1),
        "random": heuristics.at_random(np.ones(3)),
    }

    @jax.jit
    def year(policy: Any, key: jax.Array) -> Any:
        key_start, key_steps = jax.random.split(key)
        running, observation = HARNESS.reset(key_start, params, equity)

        def body(carry: Any, key: jax.Array) -> Any:
            running, observation = carry
            key_policy, key_step = jax.random.split(key)
            action = policy(key_policy, observation)
            step = HARNESS.step(key_step, params, equity, running, action)
            office = step.running.state.office
            kept = (step.tally, step.reward, office.n_open.sum(), office.n_turned_away)
            return (step.running, step.observation), kept

        keys = jax.random.split(key_steps, HARNESS.horizon - 1)
        return jax.lax.scan(body, (running, observation), keys)[1]

    return {
        name: jax.tree.map(np.asarray, year(policy, jax.random.key(7)))
        for name, policy in policies.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["inspect", "batch", "random"])
def test_complaints_are_conserved(rule: str) -> None:
    tally, _, n_open, n_turned_away = played()[rule]
    arrived = np.cumsum(tally.complaints.sum(axis=1))
    closed = np.cumsum(tally.outcomes.sum(axis=1))
    np.testing.assert_array_equal(arrived, closed + n_open)
    assert n_turned_away[-1] == 0


@pytest.mark.parametrize("rule", ["inspect", "batch", "random"])
def test_capacity_is_never_exceeded(rule: str) -> None:
    tally = played()[rule][0]
    capacity = np.asarray(heat.example().office.capacity)
    days = (np.arange(len(tally.hours)) / heat.SLOTS_PER_DAY + 1e-3).astype(int)
    month = heat.MONTH_OF_DAY[(days + heat.START_DAY) % heat.N_DAYS]
    could = np.cumsum(capacity[month] / heat.SLOTS_PER_DAY)
    used = np.cumsum(tally.hours)
    assert (used <= could + 1e-3).all()
    # From any day on, at most a day's visits can have been saved up before.
    saved_up = np.maximum(capacity, 1.0).max()
    for start in range(0, len(used), 97):
        assert (used[start:] - used[start] <= could[start:] - could[start] + saved_up + 1e-3).all()


def test_a_visit_takes_an_hour_and_a_shared_trip_less() -> None:
    alone, shared = played()["inspect"][0], played()["batch"][0]
    assert alone.hours.sum() == pytest.approx(alone.visits.sum())
    assert shared.hours.sum() == pytest.approx(engine.SHARED_TIME * shared.visits.sum(), rel=0.05)


@pytest.mark.slow
def test_what_trains_adds_up_to_what_is_published() -> None:
    """What the actions saved, against the difference in backlog to doing nothing."""
    contenders = [
        Contender("inspect", heuristics.always(0)),
        Contender("batch", heuristics.always(1)),
        Contender("never", heuristics.always(2)),
    ]
    keys = jax.random.split(jax.random.key(3), 64)
    episodes = evaluate(HARNESS, heat.example(), contenders, keys)
    published = np.asarray(episodes.tally.published_reward)
    trained = np.asarray(episodes.reward)
    for place in (0, 1):
        for part in (0, 3):
            saved = published[place, :, part] - published[2, :, part]
            difference = trained[place, :, part] - saved
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            assert abs(difference.mean()) < 3 * error + 0.03 * saved.mean()
        hours = published[place, :, 1].mean()
        assert trained[place, :, 1].mean() == pytest.approx(hours, rel=0.03)
    assert not trained[2].any()


def _office(**fields: Any) -> engine.Office:
    """An office with one row in use."""
    office = engine.empty_office()._replace(now=jnp.float32(2.0), allowance=jnp.float32(1.0))
    return office._replace(
        **{name: getattr(office, name).at[3].set(value) for name, value in fields.items()}
    )


@pytest.mark.slow
def test_visiting_a_duplicate_of_a_served_incident_costs_and_earns_nothing() -> None:
    params = heat.example().office
    office = _office(status=engine.SERVED, n_extra=1, n_open=1, actionable=True, ends=9.0)
    after, work = engine.visit_next(params, office, engine.no_work(), jnp.float32(0.0))
    assert float(work.hours) == 1.0
    assert float(work.correct.sum()) == 0.0
    assert float(work.days_avoided.sum()) == 0.0
    assert float(work.outcomes[engine.DUPLICATE]) == 1.0
    assert int(after.n_extra[3]) == 0


def test_a_correct_visit_counts_once_and_ends_the_incident() -> None:
    params = heat.example().office
    office = _office(
        status=engine.QUEUED, n_open=2, actionable=True, ends=9.0, chance=0.5, urgency=1
    )
    after, work = engine.visit_next(params, office, engine.no_work(), jnp.float32(0.0))
    assert float(work.correct[0]) == 1.0
    assert float(work.outcomes[engine.VIOLATION]) == 2.0
    assert float(work.days_avoided[3]) == pytest.approx(9.0 - 3.0)
    assert int(after.status[3]) == engine.SERVED
    _, again = engine.visit_next(params, after, engine.no_work(), jnp.float32(0.0))
    assert float(again.visits.sum()) == 0.0


def test_no_access_is_no_service() -> None:
    params = heat.example().office
    office = _office(status=engine.QUEUED, n_open=1, actionable=True, ends=9.0)
    after, work = engine.visit_next(params, office, engine.no_work(), jnp.float32(0.999))
    assert float(work.correct.sum()) == 0.0
    assert float(work.outcomes[engine.NO_ACCESS]) == 1.0
    assert int(after.status[3]) == engine.UNREPORTED


def test_a_late_visit_to_an_emergency_does_not_count() -> None:
    params = heat.example().office
    office = _office(status=engine.QUEUED, n_open=1, actionable=True, ends=99.0, urgency=0)
    late = office._replace(now=jnp.float32(10.0))
    _, work = engine.visit_next(params, late, engine.no_work(), jnp.float32(0.0))
    assert float(work.correct.sum()) == 0.0
    assert float(work.outcomes[engine.VIOLATION]) == 1.0


@pytest.mark.slow
def test_a_deferred_case_comes_back_after_a_week_or_a_report() -> None:
    params = heat.example().office
    office = _office(status=engine.INTAKE, n_open=1, ends=99.0, next_report=engine.NEVER)
    office, _ = engine.classify(params, office, jnp.int32(2), 7.0)
    assert int(office.status[3]) == engine.DEFERRED
    none = jnp.ones(engine.N_ROWS)
    waiting, _ = engine.pass_time(params, office, 6.0, none)
    assert int(waiting.status[3]) == engine.DEFERRED
    back, _ = engine.pass_time(params, waiting, 1.0, none)
    assert int(back.status[3]) == engine.INTAKE
    called = office._replace(next_report=office.next_report.at[3].set(1.0), n_reports=jnp.ones(64))
    heard, *_ = engine.receive_reports(params, called, none, none)
    assert int(heard.status[3]) == engine.INTAKE


def test_the_graver_code_is_served_first() -> None:
    office = engine.empty_office()._replace(now=jnp.float32(5.0), allowance=jnp.float32(1.0))
    office = office._replace(
        status=office.status.at[jnp.array([1, 2])].set(engine.QUEUED),
        urgency=office.urgency.at[jnp.array([1, 2])].set(jnp.array([2, 0])),
        stratum=office.stratum.at[jnp.array([1, 2])].set(jnp.array([1, 4])),
        since=office.since.at[jnp.array([1, 2])].set(jnp.array([1.0, 4.0])),
    )
    _, work = engine.visit_next(heat.example().office, office, engine.no_work(), jnp.float32(0.0))
    assert float(work.visits[4]) == 1.0


@pytest.mark.slow
def test_random_numbers_have_the_law_they_should() -> None:
    uniform = jax.random.uniform(jax.random.key(0), (20_000,))
    counts = np.asarray(jax.vmap(lambda u: poisson(u, jnp.float32(1.2)))(uniform))
    assert counts.mean() == pytest.approx(1.2, abs=0.03)
    assert counts.var() == pytest.approx(1.2, abs=0.06)
    chosen = np.asarray(choose(uniform, jnp.cumsum(jnp.float32([0.2, 0.0, 0.5, 0.3]))[None]))
    shares = np.bincount(chosen, minlength=4) / len(chosen)
    np.testing.assert_allclose(shares, [0.2, 0.0, 0.5, 0.3], atol=0.015)
