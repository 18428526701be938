"""Income quintiles and race strata."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.records.strata import income_quintiles, race_strata


def test_each_quintile_holds_a_fifth_of_the_households() -> None:
    rng = np.random.default_rng(3)
    income = rng.lognormal(11.3, 0.5, 3000)
    households = rng.integers(50, 3000, 3000)
    quintile = income_quintiles(income, households)
    held = np.bincount(quintile, households, minlength=6) / households.sum()
    np.testing.assert_allclose(held, [0, 0.2, 0.2, 0.2, 0.2, 0.2], atol=0.002)
    assert all(income[quintile == q].max() < income[quintile == q + 1].min() for q in range(1, 5))


def test_weights_matter() -> None:
    income = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    assert income_quintiles(income, np.ones(5)).tolist() == [1, 2, 3, 4, 5]
    assert income_quintiles(income, np.array([1, 1, 1, 1, 6])).tolist() == [1, 1, 2, 2, 4]


def test_unpublished_income_is_quintile_0_and_equal_incomes_share_one() -> None:
    income = np.array([np.nan, 1.0, 1.0, 1.0, 2.0, 250_001.0, 250_001.0])
    quintile = income_quintiles(income, np.array([9, 1, 1, 1, 1, 1, np.nan]))
    assert quintile[0] == 0
    assert len(set(quintile[1:4].tolist())) == 1
    assert quintile[5] == quintile[6] == 5
    assert income_quintiles(np.full(3, np.nan), np.ones(3)).tolist() == [0, 0, 0]


def test_race_strata() -> None:
    white = np.array([0.50, 0.10, 0.30, np.nan, 0.0, 0.05])
    black = np.array([0.10, 0.80, 0.30, np.nan, 0.1, 0.05])
    hispanic = np.array([0.20, 0.05, 0.30, np.nan, 0.8, 0.1])
    asian = np.array([0.10, 0.00, 0.10, np.nan, 0.1, 0.75])
    strata = race_strata(white, black, hispanic, asian, np.ones(6))
    majority = ["white", "black", "mixed", "unknown", "hispanic", "asian"]
    assert strata.majority_group.tolist() == majority
    assert strata.black_hispanic_quintile.tolist() == [2, 4, 3, 0, 5, 1]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        income_quintiles(np.ones(3), np.ones(4))
    with pytest.raises(InputError, match="-666666666"):
        income_quintiles(np.ones(3), np.array([1, -666666666, 1]))
    with pytest.raises(InputError, match="percentages"):
        race_strata([50.0], [20.0], [20.0], [10.0], [100])
