"""Losses against a hand's computation: the worked example, censored and never-served requests."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.service_levels.losses import (
    Need,
    charged_days,
    least_visited,
    literature_losses,
    median_of_visited,
    promise_losses,
    served_only_inequity,
    share_within,
    spread,
)

N = np.array([[400, 900], [600, 1100]])
VISITED = np.array([[0.95, 0.60], [0.85, 0.20]])[..., None]
DELAY = np.array([[2.0, 40.0], [4.0, 10.0]])[..., None]
WEIGHTS = np.array([10.0, 4.0])
ALL = Need(np.ones((1, 1)), ("all",), np.ones((1, 1, 1)))


def test_the_worked_example_to_the_last_digit() -> None:
    """Districts North and South, hazard and prune (facts of issue 23)."""
    found = literature_losses(N, VISITED, DELAY, WEIGHTS)
    assert found.cost[0] == pytest.approx(729_200, abs=1e-9)
    assert found.inequity[0] == pytest.approx(187, abs=1e-9)
    assert found.waited[0] + found.never[0] == pytest.approx(729_200, abs=1e-9)
    assert served_only_inequity(N, DELAY, WEIGHTS)[0] == pytest.approx(140, abs=1e-9)
    longer = literature_losses(N, VISITED, DELAY, WEIGHTS, never_days=200.0)
    assert longer.cost[0] == pytest.approx(1_335_200, abs=1e-9)
    assert longer.inequity[0] == pytest.approx(447, abs=1e-9)


def test_abandoning_a_category_looks_equitable_in_the_literature_alone() -> None:
    visited, delay = VISITED.copy(), DELAY.copy()
    visited[:, 1], delay[:, 1] = 0.0, np.nan
    found = literature_losses(N, visited, delay, WEIGHTS)
    assert found.cost[0] == pytest.approx(938_000, abs=1e-9)
    assert found.inequity[0] == pytest.approx(115, abs=1e-9)


def test_burdens_one_by_one() -> None:
    """B = 69, 184, 256, 328."""
    for cell, expected in (((0, 0), 69), ((1, 0), 184), ((0, 1), 256), ((1, 1), 328)):
        one = literature_losses(
            np.ones((1, 1)), VISITED[cell][None, None], DELAY[cell][None, None], WEIGHTS[[cell[1]]]
        )
        assert one.cost[0] == pytest.approx(expected, abs=1e-9)


def waits(days: list[float], n_ages: int = 11) -> np.ndarray:
    """Counts (1, 1, A, 1) of visits after at least so many days; infinite waits are none."""
    return np.array([[[[sum(age <= d < np.inf for d in days)] for age in range(n_ages)]]], float)


def test_waits_of_all_requests_by_hand() -> None:
    """Four requests, followed 10 days: visited after 1 and 4 days, two never.

    Waited 1 + 4 + 10 + 10 = 25, a quarter of it each; D = 100 for two of four is 50.
    """
    at_least, n = waits([1, 4, np.inf, np.inf]), np.array([[4]])
    waited, never = charged_days(at_least, n)
    assert waited[0, 0, 0] == 6.25
    assert never[0, 0, 0] == 50.0
    assert median_of_visited(at_least)[0, 0, 0] == 1
    assert share_within(at_least, n, 3)[0, 0, 0] == 0.25
    assert share_within(at_least, n, 4)[0, 0, 0] == 0.5
    assert least_visited(at_least, n)[0] == 0.5
    found = promise_losses(at_least, n, np.array([2.0]), ALL)
    assert found.cost[0] == pytest.approx(2 * 4 * 56.25)


def test_dropping_the_slow_improves_the_median_and_not_ours() -> None:
    """The median of the visited falls from 1 to 0 days when two are dropped; our loss rises."""
    n, weight = np.array([[3]]), np.array([1.0])
    kept, dropped = waits([0, 1, 9]), waits([0, np.inf, np.inf])
    assert median_of_visited(kept)[0, 0, 0] == 1
    assert median_of_visited(dropped)[0, 0, 0] == 0
    ours = [promise_losses(one, n, weight, ALL).cost[0] for one in (kept, dropped)]
    assert ours[0] < ours[1]


def test_unreported_incidents_are_charged_like_those_never_visited() -> None:
    """Two districts, each request visited at once; in one every second incident is unreported.

    It is charged 10 days and D, half of that for each incident there; the other district nothing.
    """
    need = Need(np.array([[0.5], [1.0]]), ("all",), np.ones((2, 1, 1)))
    at_least = np.concatenate([waits([0]), waits([0])])
    found = promise_losses(at_least, np.array([[1], [1]]), np.array([1.0]), need)
    assert found.inequity[0] == pytest.approx(55.0)
    assert found.cost[0] == 0.0


def test_strata_mix_the_districts_they_live_in() -> None:
    """Waits of 9 and 0 days; Q1 lives in the slow district, a third of Q2 does: 9 against 3."""
    at_least = np.concatenate([waits([9.0] * 4), waits([0.0] * 4)])
    need = Need(np.ones((2, 1)), ("Q1", "Q2"), np.array([[[0.5, 0.5]], [[0.0, 1.0]]]))
    n = np.array([[4], [4]])
    by_district = promise_losses(at_least, n, np.array([1.0]), need)
    by_stratum = promise_losses(at_least, n, np.array([1.0]), need, by="stratum")
    assert by_district.inequity[0] == pytest.approx(9.0)
    assert by_stratum.inequity[0] == pytest.approx(6.0)


def test_a_district_without_requests_is_not_compared() -> None:
    burden = np.array([[[5.0]], [[9.0]], [[1.0]]])
    assert spread(burden, np.array([[1], [1], [0]]))[0] == 4.0
    assert spread(burden, np.array([[0], [0], [0]]))[0] == 0.0


def test_a_share_reported_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="outside 0 to 1"):
        Need(np.zeros((1, 1)), ("all",), np.ones((1, 1, 1)))
