"""What a hidden reason behind the agency's visits could overturn, on logs whose answer is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from parity311.domains import get_domain
from parity311.resampling import Figure
from parity311.studies.reproduction.claims.claim import percent
from parity311.studies.reproduction.claims.selection import (
    MODERATE,
    decide_more_sensitive,
    decide_robust,
)
from parity311.studies.reproduction.selection import (
    DecisionLog,
    Sensitivity,
    load_decisions,
    read_decisions,
    save_decisions,
    weigh_hidden_reasons,
)
from parity311.studies.reproduction.verdicts import FAILS, HOLDS, UNTESTED

N = 3000


def made_log(seed: int = 0, found_low: float = 0.3) -> DecisionLog:
    """Visits by lot to half of the cases; those seen as 1 are worth a visit, the others cost."""
    rng = np.random.default_rng(seed)
    is_worth = rng.integers(0, 2, N)
    stratum = rng.integers(0, 5, N)
    went = rng.integers(0, 2, N)
    rate = np.where(stratum < 2, found_low, 0.6)
    found = went * is_worth * (rng.uniform(size=N) < rate)
    seen = np.column_stack([is_worth, np.zeros(N)]).astype(float)
    return DecisionLog(seen[:, :1], seen, went, 2.0 * found - 0.3 * went, found, stratum)


def target_of(chance: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - chance, chance])[None, :, None, :]


def test_visiting_what_is_worth_it_is_a_gain_that_some_hidden_reason_overturns() -> None:
    log = made_log()
    advantage, _ = weigh_hidden_reasons(log, target_of(log.seen[:, 0]))
    assert advantage.is_gain
    # Half are worth a visit: 2 × 0.48 − 0.3 each; by lot the same, less 0.3 for the other half.
    expected = 0.5 * (2 * 0.48 - 0.3) - 0.5 * (0.5 * 2 * 0.48 - 0.3)
    assert advantage.change == pytest.approx(expected, abs=0.05)
    assert 1.2 < advantage.gamma < 20.0


def test_the_twin_a_policy_by_lot_has_no_advantage() -> None:
    log = made_log()
    advantage, narrowing = weigh_hidden_reasons(log, target_of(np.full(N, 0.5)))
    assert not advantage.is_gain
    assert not narrowing.is_gain
    assert advantage.gamma == 1.0


def test_seeing_to_the_low_side_narrows_the_gap() -> None:
    log = made_log()
    low = (log.stratum < 2).astype(float)
    _, narrowing = weigh_hidden_reasons(log, target_of(low))
    assert narrowing.is_gain
    assert narrowing.gamma > 1.0
    _, widening = weigh_hidden_reasons(log, target_of(1.0 - low))
    assert widening.upper < 0.0


def test_verdicts_on_selection() -> None:
    gain = lambda gamma: Sensitivity(0.2, 0.1, 0.3, gamma)  # noqa: E731
    none = Sensitivity(0.0, -0.1, 0.1, 1.0)
    assert decide_robust(gain(MODERATE + 0.1)).verdict == HOLDS
    assert decide_robust(gain(math.inf)).verdict == HOLDS
    assert decide_robust(gain(MODERATE - 0.1)).verdict == FAILS
    assert decide_robust(none).verdict == UNTESTED
    assert decide_more_sensitive(gain(1.2), gain(1.6)).verdict == HOLDS
    assert decide_more_sensitive(gain(1.6), gain(1.2)).verdict == FAILS
    assert decide_more_sensitive(none, gain(1.2)).verdict == UNTESTED


def test_a_log_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "measured-heat.npz"
    path.parent.mkdir()
    assert load_decisions(path) is None
    log = made_log()
    save_decisions(path, log)
    found = load_decisions(path)
    assert found is not None
    assert found.reason == ""
    np.testing.assert_array_equal(found.went, log.went)
    path.write_bytes(path.read_bytes()[:-20])
    assert load_decisions(path) is None


def test_agents_that_see_what_is_known_later_are_not_valued() -> None:
    """The published boiler features hold two late fees; no record is opened."""
    window = cast(Any, (None, None))
    log = read_decisions(get_domain("boiler"), cast(Any, None), None, window, "published")
    assert "has_lff_45, has_lff_180" in log.reason
    assert len(log.went) == 0


def test_intervals_end_where_their_figure_does() -> None:
    """A price above 100 %, a loss of more than everything: neither can be."""
    price = percent(Figure(0.768, 0.517, 1.063, error=0.1), most=1.0)
    assert (price.lower, price.upper) == (0.517, 1.0)
    assert "to 100.0" in price.words
    lost = percent(Figure(-0.87, -1.04, -0.705, error=0.1), signed=True, least=-1.0)
    assert lost.lower == -1.0
    assert lost.is_sound
    share = percent(Figure(0.9, -0.1, 1.2, error=0.1), is_share=True)
    assert (share.lower, share.upper) == (0.0, 1.0)
