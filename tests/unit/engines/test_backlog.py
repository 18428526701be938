"""The backlog of counts: nothing is lost, nobody jumps the line, time passes as it should."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import elevator
from parity311.domains.elevator.crews import LEVELS, WIDTHS, Orders, load_worth, send_crews
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.params import make_backlog_params
from parity311.errors import InputError

SHAPE = engine.BacklogShape(steps_per_day=4, bin_steps=3, n_ages=5, max_steps=20, most_arrivals=6)
N_PLACES = 3


def values(**changed: Any) -> dict[str, Any]:
    """A small sound backlog as arrays."""
    rng = np.random.default_rng(0)
    mix = np.eye(6)[[0, 2, 4]]
    given = {
        "cases_per_day": rng.uniform(0.5, 2.0, (N_PLACES, 4)),
        "week": np.ones(28),
        "season": np.ones(12),
        "repeats_per_day": 0.1,
        "mix": mix,
        "unreported_per_day": np.full((N_PLACES, 4), 0.5),
        "unreported_mix": mix,
        "unreported_incidents": np.ones(6),
        "chance": np.tile([0.5, 0.4, 0.3, 0.2], (N_PLACES, 1)),
        "there": np.exp(-np.arange(5) / 10.0),
        "access": np.array([0.9, 0.6, 1.0]),
        "returns": 0.5,
        "put_away_per_day": 0.2,
        "lifetime_days": 20.0,
        "n_addresses": np.full(N_PLACES, 100.0),
        "start_waiting": rng.poisson(2.0, (7, N_PLACES, 20)),
        "start_slot": np.zeros(7),
        "start_month": np.zeros(7),
    }
    return {**given, **changed}


PARAMS = make_backlog_params(N_PLACES, SHAPE, **values())


def in_order(counts: np.ndarray, score: np.ndarray, n_visits: float) -> np.ndarray:
    """The same by sorting."""
    taken = np.zeros(len(counts))
    for cell in np.argsort(-score, kind="stable"):
        taken[cell] = min(counts[cell], n_visits - taken.sum())
    return taken


@pytest.mark.parametrize("n_visits", [0.0, 1.0, 7.0, 500.0])
def test_cases_are_taken_in_order(n_visits: float) -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(1.0, 40).astype(np.float32)
    # Few values, so that there are ties.
    score = rng.integers(0, 6, 40).astype(np.float32)
    taken = engine.take_in_order(jnp.asarray(counts), jnp.asarray(score), jnp.float32(n_visits))
    np.testing.assert_allclose(taken, in_order(counts, score, n_visits), atol=1e-5)


def test_the_order_matters_to_the_check() -> None:
    counts, score = np.ones(4, np.float32), np.array([1.0, 3.0, 2.0, 0.0], np.float32)
    taken = engine.take_in_order(jnp.asarray(counts), jnp.asarray(score), jnp.float32(2.0))
    assert not np.allclose(taken, in_order(counts, -score, 2.0))


def test_groups_are_served_by_score_and_the_oldest_first() -> None:
    cells = jnp.asarray([[3.0, 1.0, 2.0], [1.0, 1.0, 4.0]])
    taken = engine.take_by_group(cells, jnp.asarray([0.0, 1.0]), jnp.float32(8.0))
    np.testing.assert_array_equal(taken, [[0.0, 0.0, 2.0], [1.0, 1.0, 4.0]])


def test_serving_closes_what_it_takes_off_the_line() -> None:
    backlog, _ = engine.start(PARAMS, jnp.float32(0.4))
    visited = jnp.floor(backlog.waiting / 2)
    for chance in (0.0, 0.5, 0.99):
        after, service = engine.serve(PARAMS, backlog, visited, jnp.float32(chance), SHAPE)
        closed = float(service.closed.sum())
        assert float(backlog.waiting.sum() - after.waiting.sum()) == pytest.approx(closed)
        assert float(service.outcomes.sum()) == pytest.approx(closed, rel=1e-5)
        assert (np.asarray(service.outcomes) >= -1e-4).all()
        assert (np.asarray(service.correct) <= np.asarray(visited.sum(1) @ PARAMS.mix)).all()
        # What nobody got in to see is still open, and in nobody's line.
        assert float(after.hidden.sum()) >= float(backlog.hidden.sum())


def test_some_cases_without_access_stay_in_line() -> None:
    backlog, _ = engine.start(PARAMS, jnp.float32(0.4))
    visited = backlog.waiting
    keep = jax.vmap(
        lambda chance: engine.serve(PARAMS, backlog, visited, chance, SHAPE)[0].waiting.sum(axis=1)
    )((jnp.arange(2000) + 0.5) / 2000)
    expected = np.asarray(visited.sum(axis=1)) * 0.5 * (1 - np.array([0.9, 0.6, 1.0]))
    np.testing.assert_allclose(np.asarray(keep).mean(axis=0), expected, rtol=0.02, atol=0.02)


def test_ages_move_on_together_and_nobody_is_lost() -> None:
    backlog, _ = engine.start(PARAMS, jnp.float32(0.1))
    chance = jnp.full((N_PLACES, 4), 0.999)
    n_put_away = 0.0
    for _ in range(9):
        before = float(backlog.waiting.sum())
        backlog, leaving = engine.grow_older(PARAMS, backlog, chance, SHAPE)
        n_put_away += float(leaving.sum())
        assert float(backlog.waiting.sum()) == before - float(leaving.sum())
    cells = np.asarray(backlog.waiting).reshape(N_PLACES, 4, 5)
    # Three ticks have passed: the three youngest ages are empty.
    assert not cells[:, :, :3].any()
    assert n_put_away > 0
    assert int(backlog.slot) == 9
    assert not np.asarray(backlog.stock).any()


def waiting_steps(
    first_step: int, age: int, put_away: float, max_steps: int
) -> tuple[float, float]:
    """Steps one case waits, and waits in the last age, by following it."""
    total = late = 0.0
    still = 1.0
    for step in range(first_step, max_steps):
        if age == SHAPE.n_ages - 1:
            still *= 1.0 - put_away / SHAPE.steps_per_day
        if (step + 1) % SHAPE.bin_steps == 0:
            age = min(age + 1, SHAPE.n_ages - 1)
        total += still
        late += still * (age == SHAPE.n_ages - 1)
    return total, late


@pytest.mark.parametrize("put_away", [0.0, 0.4])
@pytest.mark.parametrize("first_step", [0, 1, 2, 7, 19])
def test_steps_ahead_are_those_a_case_waits(put_away: float, first_step: int) -> None:
    params = PARAMS._replace(put_away_per_day=jnp.float32(put_away))
    ahead, late = engine.steps_ahead(params, jnp.int32(first_step), SHAPE)
    expected = [waiting_steps(first_step, age, put_away, 20) for age in range(5)]
    np.testing.assert_allclose(np.stack([ahead, late], 1), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("first_step", [0, 2, 7])
def test_lasting_steps_follow_the_chance_of_every_age(first_step: int) -> None:
    found = engine.lasting_steps(PARAMS, jnp.int32(first_step), SHAPE)
    there = np.asarray(PARAMS.there)
    for age in range(5):
        total, now = 0.0, age
        for step in range(first_step, 20):
            if (step + 1) % 3 == 0:
                now = min(now + 1, 4)
            total += there[now]
        assert float(found[age]) == pytest.approx(total / there[age], rel=1e-4)


def test_random_numbers_have_the_law_they_should() -> None:
    chance = jax.random.uniform(jax.random.key(0), (40_000,))
    drawn = np.asarray(engine.poisson(chance, jnp.full(40_000, 0.8), 8))
    assert drawn.mean() == pytest.approx(0.8, abs=0.02)
    assert drawn.var() == pytest.approx(0.8, abs=0.03)
    whole = np.asarray(engine.rounded(jnp.full(40_000, 1.3), chance))
    assert set(np.unique(whole)) == {1.0, 2.0}
    assert whole.mean() == pytest.approx(1.3, abs=0.01)


def test_a_canvass_finds_what_is_there_and_no_more() -> None:
    backlog, _ = engine.start(PARAMS, jnp.float32(0.0))
    here = jnp.arange(N_PLACES) == 1
    after, found, visits = engine.canvass(PARAMS, backlog, here, jnp.float32(10.0))
    rate = float(backlog.hidden[1].sum()) / 100.0 * 0.6
    assert float(found.sum()) == pytest.approx(10.0 * rate, rel=1e-4)
    assert float(visits[2]) == pytest.approx(10.0)
    np.testing.assert_allclose(after.hidden, backlog.hidden - found, rtol=1e-6)
    _, all_of_it, _ = engine.canvass(PARAMS, backlog, here, jnp.float32(1e6))
    assert float(all_of_it.sum()) == pytest.approx(float(backlog.hidden[1].sum()), rel=1e-5)


def test_the_stock_keeps_the_reported_share() -> None:
    backlog, row = engine.start(PARAMS, jnp.float32(0.9))
    reported, unreported = (np.asarray(need) for need in engine.needs_by_stratum(PARAMS))
    stock = np.asarray(backlog.stock)
    known = [0, 2, 4]
    np.testing.assert_allclose(
        stock[0][known] / stock.sum(axis=0)[known],
        reported[known] / (reported + unreported)[known],
        rtol=1e-5,
    )
    np.testing.assert_allclose(stock[0], np.asarray(PARAMS.start_actionable)[int(row)])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mix": np.full((N_PLACES, 6), 0.1)}, "sum to 1"),
        ({"chance": np.full((N_PLACES, 4), 1.2)}, "at most 1"),
        ({"access": np.ones(2)}, "has shape"),
        ({"cases_per_day": np.full((N_PLACES, 4), -1.0)}, "at least 0"),
        ({"there": np.full(5, np.nan)}, "missing"),
    ],
)
def test_params_that_cannot_be_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_backlog_params(N_PLACES, SHAPE, **values(**changed))


def orders(**changed: Any) -> Orders:
    """Orders for two crews that choose by worth."""
    given = {
        "worth": jnp.asarray(LEVELS[[2, 9, 15]]),
        "place_factor": jnp.ones(4),
        "n_visits": jnp.tile(jnp.float32([6.0, 5.0]), (2, 1)),
        "load": jnp.float32([6.0, 5.0]),
        "fixed_place": jnp.full(2, -1),
        "most_at_place": 4,
    }
    return Orders(**{**given, **changed})


WAITING = jnp.asarray([[9.0, 0, 0], [0, 9.0, 0], [0, 0, 7.0], [20.0, 0, 0]])
send = jax.jit(send_crews)


def test_the_worth_of_a_load_is_that_of_its_best_cases() -> None:
    worth = np.asarray(LEVELS)[[2, 9, 15]]
    counts = np.array([4.0, 2.0, 1.0])
    above = jnp.asarray([(counts * (worth >= level)).sum() for level in LEVELS])
    best = in_order(counts, worth, 4.0)
    # Levels stand in the middle of their slabs, so a case is worth all up to its slab's top.
    tops = np.cumsum(WIDTHS)[[2, 9, 15]]
    assert float(load_worth(above, jnp.float32(4.0))) == pytest.approx(float(best @ tops), rel=1e-4)


def test_crews_go_where_their_load_is_worth_most() -> None:
    sent = send(WAITING, jnp.int32([2, 0]), orders())
    # The first stays for the best six; what is left there is worth less than the second board.
    np.testing.assert_array_equal(sent.places, [2, 1])
    np.testing.assert_array_equal(sent.visited.sum(axis=1), [0.0, 5.0, 6.0, 0.0])
    assert int(sent.n_moves) == 1


def test_crews_never_take_a_case_twice_nor_crowd_a_board() -> None:
    one = jnp.zeros((4, 3)).at[1].set(jnp.float32([2.0, 3.0, 2.0]))
    sent = send(one, jnp.int32([1, 1]), orders())
    np.testing.assert_array_equal(sent.visited, one)
    alone = send(one, jnp.int32([1, 1]), orders(most_at_place=1))
    assert float(alone.visited.sum()) == 6.0


def test_crews_off_duty_stay_where_they_are() -> None:
    idle = orders(n_visits=jnp.zeros((2, 2)))
    sent = send(WAITING, jnp.int32([3, 0]), idle)
    np.testing.assert_array_equal(sent.places, [3, 0])
    assert not np.asarray(sent.visited).any()


@pytest.mark.slow
def test_the_way_costs_a_sixth_of_the_visits() -> None:
    visits = np.asarray(elevator.example().visits)
    assert visits[1] / visits[0] == pytest.approx(5 / 6)
    free = np.asarray(elevator.example(changeover_lost=0.0).visits)
    assert free[0] == free[1] == pytest.approx(visits[0])
