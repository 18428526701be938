"""The gap between groups, split into features, and which of them stand in for the group.

Mean scores of two groups differ exactly by the sum over features of the groups' mean Shapley
values. A feature that carries much of that difference and also tells the groups apart is a proxy in
effect; whether it is a legitimate one is not for a number to say. Small values prove nothing:
features that say the same share their credit, so the gap with a feature taken out stands beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.explain.exact import Attribution
from parity311.resampling import exponential_weights

N_BINS = 10
"""Quantile bins in which two groups' distributions of a feature are compared."""
N_DRAWS = 500
FLAGGED_SCORE = 0.1
"""A proxy score whose lower end is beyond this is flagged: the feature carries, say, a third of
the gap and tells a third of the two groups apart."""
NOT_USED = 1e-9
"""A feature whose largest value is below this share of the largest of all is not looked at."""
SAYS_WHERE = "says where the complaint comes from"
STANDS_IN = "stands in for the group"


@dataclass(frozen=True)
class FeatureShare:
    """One feature's part in the gap between two groups."""

    feature: str
    is_geographic: bool
    mean_value: float
    """Mean absolute Shapley value over all rows: how much it matters at all."""
    gap_part: float
    """Difference of the groups' mean values; parts sum to the gap."""
    gap_part_lower: float
    gap_part_upper: float
    gap_share: float
    """Its part of the sum of absolute parts, 0 … 1."""
    predictability: float
    """How far the feature tells the two groups apart given severity, 0 … 1."""
    proxy_score: float
    """Predictability × share of the gap."""
    proxy_lower: float
    proxy_upper: float
    is_proxy: bool
    """Whether the lower end of its proxy score is beyond `FLAGGED_SCORE`."""
    is_flagged: bool
    """Whether it is a proxy, or says where a complaint comes from and the policy looks at it."""
    note: str
    """Why it is flagged, or why it cannot matter."""


@dataclass(frozen=True)
class GapParts:
    """The gap of one action's score between two groups, by feature."""

    action: str
    group: str
    reference: str
    gap: float
    """Mean score of `group` less that of `reference`."""
    lower: float
    upper: float
    features: tuple[FeatureShare, ...]
    """Largest proxy score first."""


def split_gap(
    attribution: Attribution,
    rows: np.ndarray,
    *,
    action: int,
    action_name: str,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    group: str,
    reference: str,
    tract: np.ndarray,
    severity: np.ndarray,
    feature_names: tuple[str, ...],
    geographic: tuple[str, ...] = (),
    level: float = 0.95,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> GapParts:
    """Split a gap and score every feature as a proxy.

    Parameters
    ----------
    attribution, rows
        Shapley values (n, d, n_actions) and the observations (n, d) they explain.
    in_group, in_reference
        (n,) bool: rows of the two groups.
    tract, severity
        (n,) index of each row's tract (resampled whole) and severity layer.
    """
    rng = np.random.default_rng(seed)
    places, tract = np.unique(tract, return_inverse=True)
    weights = np.vstack([np.ones(len(places)), exponential_weights(len(places), n_draws, rng)])
    values = attribution.values[:, :, action]
    parts = _mean_by_tract(values, in_group, tract, weights)
    parts -= _mean_by_tract(values, in_reference, tract, weights)
    shares = np.abs(parts) / np.maximum(np.abs(parts).sum(axis=1, keepdims=True), 1e-300)
    told = np.column_stack(
        [
            tell_apart(rows[:, i], in_group, in_reference, tract, severity, weights)
            for i in range(rows.shape[1])
        ]
    )
    scores = told * shares
    tail = [(1 - level) / 2, (1 + level) / 2]
    part_ends, score_ends = (np.quantile(x[1:], tail, axis=0) for x in (parts, scores))
    gap = parts.sum(axis=1)
    features = [
        FeatureShare(
            feature=name,
            is_geographic=name in geographic,
            mean_value=float(np.abs(values[:, i]).mean()),
            gap_part=float(parts[0, i]),
            gap_part_lower=float(part_ends[0, i]),
            gap_part_upper=float(part_ends[1, i]),
            gap_share=float(shares[0, i]),
            predictability=float(told[0, i]),
            proxy_score=float(scores[0, i]),
            proxy_lower=float(score_ends[0, i]),
            proxy_upper=float(score_ends[1, i]),
            **_flag(
                rows[:, i],
                is_geographic=name in geographic,
                is_used=bool(np.abs(values[:, i]).max() > NOT_USED * np.abs(values).max()),
                is_proxy=bool(score_ends[0, i] > FLAGGED_SCORE),
            ),
        )
        for i, name in enumerate(feature_names)
    ]
    ends = np.quantile(gap[1:], tail)
    return GapParts(
        action_name,
        group,
        reference,
        float(gap[0]),
        float(ends[0]),
        float(ends[1]),
        tuple(sorted(features, key=lambda feature: -feature.proxy_score)),
    )


def _flag(
    column: np.ndarray, *, is_geographic: bool, is_used: bool, is_proxy: bool
) -> dict[str, Any]:
    """Whether a feature is flagged, and why; one that does not vary tells nobody apart."""
    varies = bool(np.ptp(column) > 0)
    reasons = [STANDS_IN] if is_proxy and varies else []
    if is_geographic:
        reasons.append(SAYS_WHERE)
    if not varies:
        reasons.append("does not vary")
    return {
        "is_proxy": is_proxy and varies,
        "is_flagged": varies and is_used and (is_proxy or is_geographic),
        "note": "; ".join(reasons),
    }


def _mean_by_tract(
    values: np.ndarray, use: np.ndarray, tract: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """(draws, d) weighted means over the rows of a group; NaN where it has none."""
    n_tracts = weights.shape[1]
    sums = np.column_stack([np.bincount(tract[use], column, n_tracts) for column in values[use].T])
    counts = np.bincount(tract[use], minlength=n_tracts).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (weights @ sums) / (weights @ counts)[:, None]


def tell_apart(
    column: np.ndarray,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    tract: np.ndarray,
    severity: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """(draws,) total variation between two groups' distributions of a feature, given severity.

    0: the feature says nothing about the group; 1: it gives it away. Measured within severity
    layers, averaged by their rows, less what tracts put at random into two groups of the same
    sizes would show, so that noise does not look like a proxy.
    """
    edges = np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, column, side="left")
    observed = _variation(bins, in_group, in_reference, tract, severity, weights)
    shuffled = _at_random(bins, in_group, in_reference, tract, severity)
    return np.clip((observed - shuffled) / max(1 - shuffled, 1e-9), 0.0, 1.0)


def _variation(
    bins: np.ndarray,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    tract: np.ndarray,
    severity: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    n_bins, n_tracts = int(bins.max()) + 1, weights.shape[1]
    total = np.zeros(len(weights))
    rows = 0.0
    for layer in np.unique(severity):
        shapes = []
        for use in (in_group & (severity == layer), in_reference & (severity == layer)):
            flat = np.bincount(tract[use] * n_bins + bins[use], minlength=n_tracts * n_bins)
            counts = weights @ flat.reshape(n_tracts, n_bins)
            shapes.append((counts, use.sum()))
        (a, n_a), (b, n_b) = shapes
        if min(n_a, n_b) == 0:
            continue
        distance = 0.5 * np.abs(
            a / a.sum(axis=1, keepdims=True) - b / b.sum(axis=1, keepdims=True)
        ).sum(axis=1)
        total += distance * (n_a + n_b)
        rows += n_a + n_b
    return total / rows if rows else total


N_SHUFFLES = 20


def _at_random(
    bins: np.ndarray,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    tract: np.ndarray,
    severity: np.ndarray,
) -> float:
    """Mean variation when the two groups' tracts are dealt out at random."""
    rng = np.random.default_rng(0)
    either = in_group | in_reference
    tracts = np.unique(tract[either])
    of_group = np.unique(tract[in_group])
    ones = np.ones((1, int(tract.max()) + 1))
    found = []
    for _ in range(N_SHUFFLES):
        dealt = rng.permutation(tracts)[: len(of_group)]
        mine = either & np.isin(tract, dealt)
        found.append(_variation(bins, mine, either & ~mine, tract, severity, ones)[0])
    return float(np.mean(found))
