"""What a gap becomes without a feature, taken out of this policy without training again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parity311.explain.games import Policy, check_rows, score_rows


@dataclass(frozen=True)
class WithoutFeature:
    """The gap between two groups with and without a feature."""

    feature: str
    gap: float
    gap_without: float
    """With the feature drawn from the background for everybody."""
    mean_change: float
    """Mean absolute change of the score: what taking it out costs in sharpness."""


def take_out(
    policy: Policy,
    rows: np.ndarray,
    background: np.ndarray,
    *,
    action: int,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    feature_names: Sequence[str],
) -> tuple[WithoutFeature, ...]:
    """Take each feature out of the policy in hand, one at a time, without training again."""
    rows, background = check_rows(rows, background)
    scores = score_rows(policy, rows)[:, action]
    gap = float(scores[in_group].mean() - scores[in_reference].mean())
    found = []
    for i, name in enumerate(feature_names):
        mixed = np.repeat(rows[:, None], len(background), axis=1)
        mixed[:, :, i] = background[None, :, i]
        without = score_rows(policy, mixed.reshape(-1, rows.shape[1]))[:, action]
        without = without.reshape(len(rows), -1).mean(axis=1)
        found.append(
            WithoutFeature(
                name,
                gap,
                float(without[in_group].mean() - without[in_reference].mean()),
                float(np.abs(without - scores).mean()),
            )
        )
    return tuple(found)
