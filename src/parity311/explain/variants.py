"""What a gap becomes without a feature: taken out of this policy, or out of its training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from parity311.errors import InputError
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


@dataclass(frozen=True)
class Variant:
    """A policy trained without some features, beside the one trained with all."""

    name: str
    dropped: tuple[str, ...]
    figures: dict[str, float]
    """What `evaluate` said of it."""
    change: dict[str, float]
    """Its figures less those of the policy trained with all features."""


def drop_and_retrain(
    retrain: Callable[[tuple[str, ...]], Policy],
    evaluate: Callable[[Policy, tuple[str, ...]], dict[str, float]],
    feature_names: Sequence[str],
    variants: dict[str, tuple[str, ...]],
) -> tuple[Variant, ...]:
    """Train again without features and show what that costs and gains.

    Parameters
    ----------
    retrain
        Kept feature names -> policy over those features.
    evaluate
        Policy, kept feature names -> figures (reward, gap …), on later dates.
    variants
        Name -> features to drop, e.g. ``{"without zip_freq_24h": ("zip_freq_24h",)}``.
    """
    unknown = {f for dropped in variants.values() for f in dropped} - set(feature_names)
    if unknown:
        raise InputError(
            f"Cannot drop {', '.join(sorted(unknown))}: the policy observes "
            f"{', '.join(feature_names)}."
        )
    found: list[Variant] = []
    for name, dropped in {"all features": (), **variants}.items():
        kept = tuple(feature for feature in feature_names if feature not in dropped)
        if not kept:
            raise InputError(f"Variant {name!r} drops every feature; keep at least one.")
        figures = evaluate(retrain(kept), kept)
        first = found[0].figures if found else figures
        change = {key: value - first.get(key, np.nan) for key, value in figures.items()}
        found.append(Variant(name, dropped, figures, change))
    return tuple(found)
