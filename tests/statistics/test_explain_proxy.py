"""Which feature stands in for the group: simulated complaints whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.explain.exact import exact_shapley
from parity311.explain.gap_parts import GapParts, split_gap
from parity311.explain.policy import take_out

pytestmark = pytest.mark.slow

NAMES = ("zip_freq_24h", "hazard_level", "backlog", "new")
N_TRACTS = 80


def make_complaints(seed: int, *, separation: float, per_tract: int = 12):
    """Half of the tracts are poor; ZIP frequency is higher in the others by ``separation`` sd."""
    rng = np.random.default_rng(seed)
    tract = np.repeat(np.arange(N_TRACTS), per_tract)
    is_poor = tract % 2 == 0
    zip_frequency = rng.standard_normal(N_TRACTS)[tract] - separation * is_poor
    severity = rng.integers(0, 3, len(tract))
    others = rng.standard_normal((len(tract), 2))
    rows = np.column_stack(
        [zip_frequency, severity + others[:, 0] * 0.3, others[:, 1], is_poor * 0]
    )
    return rows, tract, is_poor, severity


def policy(rows: np.ndarray) -> np.ndarray:
    """Sends inspectors where ZIP frequency and hazard are high."""
    escalate = np.tanh(rows[:, 0]) + 0.8 * rows[:, 1]
    return np.column_stack([np.zeros(len(rows)), escalate])


def split(seed: int, separation: float, score=policy) -> GapParts:
    rows, tract, is_poor, severity = make_complaints(seed, separation=separation)
    found = exact_shapley(score, rows, rows[::16])
    return split_gap(
        found,
        rows,
        action=1,
        action_name="Inspect",
        in_group=is_poor,
        in_reference=~is_poor,
        group="low income",
        reference="high income",
        tract=tract,
        severity=severity,
        feature_names=NAMES,
        geographic=("zip_freq_24h",),
        n_draws=200,
    )


def test_the_parts_sum_to_the_gap_and_the_bands_hold_it() -> None:
    found = split(0, separation=1.5)
    assert sum(part.gap_part for part in found.features) == pytest.approx(found.gap)
    assert found.lower <= found.gap <= found.upper
    assert found.gap < -0.3


def test_zip_frequency_is_flagged_and_nothing_else_is() -> None:
    found = split(0, separation=1.5)
    top = found.features[0]
    assert top.feature == "zip_freq_24h"
    assert top.is_flagged
    assert top.is_proxy
    assert top.is_geographic
    assert top.proxy_lower <= top.proxy_score <= top.proxy_upper
    assert not any(part.is_flagged for part in found.features[1:])


def test_equal_groups_flag_nothing() -> None:
    """The group differs from no feature: whatever is flagged would be noise."""
    flagged = [any(part.is_proxy for part in split(seed, 0.0).features) for seed in range(12)]
    assert sum(flagged) <= 1


def test_a_policy_without_it_is_not_flagged() -> None:
    """The feature still tells the groups apart, but carries nothing of the gap."""
    found = split(0, 1.5, score=lambda rows: policy(rows * np.array([0, 1, 1, 1])))
    share = {part.feature: part for part in found.features}["zip_freq_24h"]
    assert share.predictability > 0.3
    assert share.gap_part == pytest.approx(0, abs=1e-12)
    assert not share.is_flagged


def test_a_feature_without_variance_says_so() -> None:
    share = {part.feature: part for part in split(0, 1.5).features}["new"]
    assert share.note == "does not vary"
    assert (share.proxy_score, share.predictability) == (0, 0)
    assert abs(share.gap_part) < 1e-12


def test_the_twin_without_correction_for_noise_finds_a_proxy_in_noise() -> None:
    from parity311.explain import gap_parts

    rows, tract, is_poor, severity = make_complaints(1, separation=0.0)
    ones = np.ones((1, N_TRACTS))
    arguments = (is_poor, ~is_poor, tract, severity, ones)
    edges = np.quantile(rows[:, 0], np.linspace(0, 1, 11)[1:-1])
    raw = gap_parts._variation(np.searchsorted(edges, rows[:, 0]), *arguments)[0]
    corrected = gap_parts.tell_apart(rows[:, 0], *arguments)[0]
    assert raw > 0.15
    assert corrected < 0.08


def test_taking_the_proxy_out_closes_the_gap() -> None:
    rows, _tract, is_poor, _severity = make_complaints(0, separation=1.5)
    found = take_out(
        policy,
        rows,
        rows[::16],
        action=1,
        in_group=is_poor,
        in_reference=~is_poor,
        feature_names=NAMES,
    )
    without = {one.feature: one for one in found}
    assert abs(without["zip_freq_24h"].gap_without) < 0.1 * abs(without["zip_freq_24h"].gap)
    assert without["backlog"].gap_without == pytest.approx(without["backlog"].gap)
