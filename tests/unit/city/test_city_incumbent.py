from collections.abc import Callable

import numpy as np
import pytest

from parity311.city.incumbent import (
    WaitingCases,
    ask_rule,
    choose_visits,
    severity_then_first_in,
)
from parity311.city.randomness import ServiceDraws, case_uniform, named_generator, named_seed
from parity311.errors import InputError


def propensities_are_exact(propensity: np.ndarray, frequency: np.ndarray, n_draws: int) -> bool:
    """Whether logged chances match how often each case was chosen."""
    error = np.sqrt(np.maximum(propensity * (1 - propensity), 1e-9) / n_draws)
    return bool((np.abs(propensity - frequency) < 4.5 * error + 1e-9).all())


def draw_many(priority: np.ndarray, n_slots: int, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    chosen, logged = np.zeros(len(priority)), np.full(len(priority), np.nan)
    generator = np.random.default_rng(0)
    for _ in range(n_draws):
        choice = choose_visits(generator, priority, n_slots)
        assert len(np.unique(choice.position)) == n_slots
        chosen[choice.position] += 1
        logged[choice.position] = choice.propensity
    return chosen / n_draws, logged


@pytest.mark.slow
def test_logged_propensities_are_the_chances() -> None:
    priority = np.array([5.0, 1.0, 3.0, 9.0, 2.0, 8.0, 7.0, 0.0, 4.0, 6.0, 2.5, 1.5])
    for n_slots in (4, 7, 10):
        frequency, logged = draw_many(priority, n_slots, 6_000)
        assert propensities_are_exact(logged, frequency, 6_000)
        assert abs(logged.sum() - n_slots) < 1e-9, "chances of all cases add up to the slots"
        naive = np.full(len(priority), n_slots / len(priority))
        assert not propensities_are_exact(naive, frequency, 6_000)


def test_everyone_is_visited_where_slots_suffice_and_nobody_without() -> None:
    generator = np.random.default_rng(0)
    choice = choose_visits(generator, np.array([1.0, 2.0]), 5)
    assert sorted(choice.position) == [0, 1]
    assert (choice.propensity == 1.0).all()
    assert len(choose_visits(generator, np.array([1.0, 2.0]), 0).position) == 0


def test_equal_priorities_go_in_order_of_arrival() -> None:
    generator = np.random.default_rng(0)
    choice = choose_visits(generator, np.zeros(100), 20, exploration=0.0)
    assert choice.position.tolist() == list(range(20))


def test_todays_rule_is_code_then_age(waiting_by_hand: Callable[..., WaitingCases]) -> None:
    waiting = waiting_by_hand([2, 0, 1, 1], [50.0, 0.2, 3.0, 9.0])
    assert np.argsort(-severity_then_first_in(waiting)).tolist() == [1, 3, 2, 0]
    assert waiting.n == 4


def test_cases_at_minus_infinity_are_left_out_of_everything() -> None:
    priority = np.array([3.0, -np.inf, 1.0, -np.inf, 2.0, 5.0])
    for n_slots, chosen in ((10, {0, 2, 4, 5}), (4, {0, 2, 4, 5})):
        choice = choose_visits(np.random.default_rng(0), priority, n_slots)
        assert set(choice.position) == chosen
        assert (choice.propensity == 1.0).all()
    draws = [choose_visits(np.random.default_rng(i), priority, 2, 0.5) for i in range(60)]
    asked = [
        choose_visits(np.random.default_rng(i), priority[[0, 2, 4, 5]], 2, 0.5) for i in range(60)
    ]
    everyone = np.concatenate([choice.position for choice in draws])
    assert set(everyone) == {0, 2, 4, 5}, "the random draw leaves them out too"
    for one, other in zip(draws, asked, strict=True):
        np.testing.assert_array_equal(one.position, np.array([0, 2, 4, 5])[other.position])
        np.testing.assert_array_equal(one.propensity, other.propensity)
    nobody = choose_visits(np.random.default_rng(0), np.full(3, -np.inf), 2)
    assert len(nobody.position) == 0


@pytest.mark.parametrize("given", [np.zeros(3), np.array([0.0, np.nan]), 0.0])
def test_priorities_of_the_wrong_number_or_none_are_refused(
    waiting_by_hand: Callable[..., WaitingCases], given: np.ndarray
) -> None:
    with pytest.raises(InputError, match="2 waiting cases"):
        ask_rule(lambda waiting: given, waiting_by_hand([0, 1]))


def test_nobody_is_asked_where_nothing_waits(
    waiting_by_hand: Callable[..., WaitingCases],
) -> None:
    def never(waiting: WaitingCases) -> np.ndarray:
        raise AssertionError

    assert len(ask_rule(never, waiting_by_hand([]))) == 0


def test_streams_are_independent_by_name() -> None:
    first = named_generator(7, "heat", "reports", 2024, 1).random(5)
    np.testing.assert_array_equal(first, named_generator(7, "heat", "reports", 2024, 1).random(5))
    for other in ((7, "heat", "reports", 2024, 2), (7, "crane", "reports", 2024, 1), (8, "heat")):
        assert not np.array_equal(first, named_generator(other[0], *other[1:]).random(5))
    assert named_seed(7, "heat").entropy != named_seed(7, "hea", "t").entropy


def looks_uniform(drawn: np.ndarray) -> bool:
    """Whether 100,000 draws lie as evenly as uniform ones nearly always do (Kolmogorov)."""
    even = (np.arange(len(drawn)) + 0.5) / len(drawn)
    return bool(np.abs(np.sort(drawn) - even).max() < 2.2 / np.sqrt(len(drawn)))


def test_draws_by_case_are_uniform_and_independent() -> None:
    case = np.arange(100_000)
    zeros = np.zeros(len(case))
    drawn = case_uniform(7, "door", case, zeros)
    assert looks_uniform(drawn)
    assert not looks_uniform(drawn**1.05), "the check must see a slight lean"
    others = (
        case_uniform(8, "door", case, zeros),
        case_uniform(7, "hour", case, zeros),
        case_uniform(7, "door", case, zeros + 1),
        case_uniform(7, "door", case + 1, zeros),
    )
    for other in others:
        assert looks_uniform(other)
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 4.5 / np.sqrt(len(case))
    np.testing.assert_array_equal(drawn[5:9], case_uniform(7, "door", case[5:9], zeros[5:9]))


def test_draws_by_case_have_the_distributions_of_the_stream() -> None:
    case = np.arange(50_000)
    for draws in (
        ServiceDraws(np.random.default_rng(0)),
        ServiceDraws(np.random.default_rng(0), 3),
    ):
        normal = draws.normal("lead", case, np.zeros(len(case)))
        assert abs(normal.mean()) < 0.02
        assert normal.std() == pytest.approx(1.0, abs=0.02)
        assert draws.exponential("call", case, np.zeros(len(case))).mean() == pytest.approx(
            1.0, abs=0.02
        )
        number = draws.number("inspector", 5, case, np.zeros(len(case)))
        assert np.bincount(number) == pytest.approx(np.full(5, 10_000), rel=0.05)
