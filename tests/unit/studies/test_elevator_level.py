"""Why the elevator table's level is not ours: what its rows imply, by hand and played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parity311.domains.elevator import example
from parity311.studies.reproduction.claims.elevator import (
    LEVEL_TOLERANCE,
    implied_stock,
    implied_visits,
    level_words,
    measure_offices,
    why_level,
    with_enforced,
    with_stock,
)
from parity311.studies.reproduction.scoring import play_rules


def test_what_the_table_implies_by_hand() -> None:
    """103,598 complaints in six years are 47.27 a day; half of four weeks are 14 days."""
    least, most = implied_stock()
    assert most == 2371.8
    assert least == pytest.approx(2371.8 - 47.2726 * 14, abs=0.01)
    assert implied_visits() == pytest.approx((2371.8 - 1403.5) / 14)
    assert "69 a day where 47 come" in why_level()


def test_only_the_last_age_is_scaled() -> None:
    before = example()
    after = with_stock(before, 3.0)
    old, new = (
        np.asarray(one.backlog.start_waiting).reshape(-1, 59, 4, 16) for one in (before, after)
    )
    assert np.allclose(new[..., :-1], old[..., :-1])
    assert np.allclose(new[..., -1], 3.0 * old[..., -1])


def test_a_fifth_of_the_cases_is_enforced() -> None:
    backlog = with_enforced(example(), 0.2).backlog
    share = (backlog.cases_per_day * backlog.chance).sum() / backlog.cases_per_day.sum()
    assert float(share) == pytest.approx(0.2, rel=1e-5)


def test_with_what_its_rows_imply_the_published_level_comes_back() -> None:
    """An office with a fifth of the stock and thrice the chances: each cause moves its column."""
    city = with_enforced(with_stock(example(), 0.2), 0.6)
    evidence = SimpleNamespace(
        true=lambda *_: city,
        play_rules=lambda slug, params, rules: play_rules(
            slug, params, rules, n_episodes=2, seed=5
        ),
    )
    found = measure_offices(cast(Any, evidence))
    here, stock, share, visits = found.values()
    assert here.late < 0.5 * 1423.2 < stock.late
    assert here.severe < stock.severe
    assert stock.acted == pytest.approx(here.acted, abs=0.1)
    assert share.acted == pytest.approx(0.15, abs=0.06)
    assert here.acted > 0.4
    assert visits.visits_per_day == pytest.approx(implied_visits(), rel=0.1)
    assert visits.late == pytest.approx(1423.2, rel=LEVEL_TOLERANCE)
    assert visits.severe == pytest.approx(532.7, rel=2 * LEVEL_TOLERANCE)
    assert "this city: A30" in level_words(found)
