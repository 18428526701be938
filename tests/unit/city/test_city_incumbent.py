import numpy as np
import pytest

from parity311.city.incumbent import WaitingCases, choose_visits, severity_then_first_in
from parity311.city.randomness import named_generator, named_seed


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


def test_todays_rule_is_code_then_age() -> None:
    severity = np.array([2, 0, 1, 1], dtype=np.int8)
    age = np.array([50.0, 0.2, 3.0, 9.0])
    zeros = np.zeros(4, dtype=np.int32)
    waiting = WaitingCases(
        day=0,
        severity=severity,
        age_days=age,
        category=zeros.astype(np.int8),
        tract=zeros,
        stratum=zeros.astype(np.int8),
        units=zeros,
        n_attempts=zeros.astype(np.int16),
        n_prior_cases=zeros,
        n_prior_violations=zeros,
        flags=np.zeros((4, 0), dtype=np.bool_),
    )
    assert np.argsort(-severity_then_first_in(waiting)).tolist() == [1, 3, 2, 0]
    assert waiting.n == 4


def test_streams_are_independent_by_name() -> None:
    first = named_generator(7, "heat", "reports", 2024, 1).random(5)
    np.testing.assert_array_equal(first, named_generator(7, "heat", "reports", 2024, 1).random(5))
    for other in ((7, "heat", "reports", 2024, 2), (7, "crane", "reports", 2024, 1), (8, "heat")):
        assert not np.array_equal(first, named_generator(other[0], *other[1:]).random(5))
    assert named_seed(7, "heat").entropy != named_seed(7, "hea", "t").entropy
