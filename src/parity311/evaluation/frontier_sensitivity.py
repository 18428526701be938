"""Which normative assumption moves the frontier most.

Every constant that somebody chose is halved and doubled, and the reporting estimator is exchanged;
policies are learned and prices set under the changed assumption, and scored as before, in the same
true process and the same units. A weight can be read off the conditioned network; everything else
is learned again, because a coverage price is part of the state that is learned from. How far the
frontier moves with nothing changed but the seed stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity311.evaluation.frontier import (
    TARGET_GAP,
    Frontier,
    measure_volume,
    play_frontier,
    price_of_equity,
    read_at,
    summarise_values,
)
from parity311.mdp.contract import N_REWARDS, REWARD_NAMES
from parity311.mdp.equity import PRICE_CAP
from parity311.mdp.harness import Harness
from parity311.training import agent_for
from parity311.training.frontier import read_off_all, spread_preferences, train_conditioned
from parity311.training.loop import Trained

FACTORS = {"halved": 0.5, "doubled": 2.0}
N_PREFERENCES = 32
"""Preferences of the menu that is moved: enough for a volume, few enough to be played often"""
MOST_SEEDS = 3
DOLLARS = "_dollars"
"""How the Params of a domain name what it takes an outcome to be worth"""
SHADOW = "visit_price_dollars"
"""A price that follows from the capacity: nobody chose it"""
NOTHING = "nothing but the seed"


@dataclass(frozen=True)
class Assumption:
    """One thing that could have been chosen otherwise."""

    name: str
    change: str
    scales: np.ndarray = field(default_factory=lambda: np.ones(N_REWARDS))
    """(4,) factors on the weights of a preference"""
    options: Mapping[str, float] = field(default_factory=dict)
    """settings of the equity term"""
    estimated: Any = None
    """another estimated process"""
    first_seed: int = 0

    @property
    def is_read_off(self) -> bool:
        """Whether the network that is there already knows the answer."""
        return self.estimated is None and not self.options and not self.first_seed


def list_assumptions(
    harness: Harness, estimated: Any, by_estimator: Mapping[str, Any]
) -> Iterator[Assumption]:
    """Weights, the domain's dollars, the equity term's constants, and the estimator."""
    yield Assumption(NOTHING, "other seeds", first_seed=MOST_SEEDS)
    for change, factor in FACTORS.items():
        for place, name in enumerate(REWARD_NAMES):
            if harness.domain.preference[place] > 0 or name in ("cost", "equity"):
                scales = np.where(np.arange(N_REWARDS) == place, factor, 1.0)
                yield Assumption(f"weight of {name}", change, scales)
        for name in getattr(estimated, "_fields", ()):
            if name.endswith(DOLLARS) and name != SHADOW:
                other = estimated._replace(**{name: factor * getattr(estimated, name)})
                words = name.removesuffix(DOLLARS)
                yield Assumption(f"dollars of a {words}", change, estimated=other)
        yield Assumption(
            "cap on coverage prices", change, options={"price_cap": factor * PRICE_CAP}
        )
        step = factor * harness.domain.price_step
        yield Assumption("step of coverage prices", change, options={"step_size": step})
    yield Assumption("gap left open on purpose", "0.05", options={"target_gap": TARGET_GAP})
    for name, other in by_estimator.items():
        yield Assumption("reporting estimator", name, estimated=other)


def measure_sensitivity(
    harness: Harness,
    estimated: Any,
    true: Any,
    by_estimator: Mapping[str, Any],
    *,
    n_seeds: int,
    steps: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row for every assumption, the one that moves the frontier most first.

    Parameters
    ----------
    by_estimator
        Name of another reporting estimator -> params estimated with it.
    n_seeds
        At most `MOST_SEEDS` are used; every change is paired with the same seeds unchanged.
    """
    menu = spread_preferences(harness.domain.preference, N_PREFERENCES)
    seeds = list(range(min(n_seeds, MOST_SEEDS)))
    agent = agent_for(harness, "conditioned", steps, settings)

    def learn(assumption: Assumption) -> Trained:
        process = estimated if assumption.estimated is None else assumption.estimated
        return train_conditioned(
            harness, process, agent, [assumption.first_seed + one for one in seeds], steps,
            n_environments=8, equity_options=dict(assumption.options),
        )  # fmt: skip

    def play(assumption: Assumption, trained: Trained) -> Frontier:
        weights = menu * assumption.scales
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        process = estimated if assumption.estimated is None else assumption.estimated
        return play_frontier(
            harness, process, true, weights, read_off_all(trained, weights),
            seed=seed, equity_options=assumption.options,
        )  # fmt: skip

    as_is = Assumption("as it is", "")
    kept = learn(as_is)
    base = play(as_is, kept)
    assumptions = list(list_assumptions(harness, estimated, by_estimator))
    rows = []
    for number, one in enumerate(assumptions):
        rows.append(_row(one, play(one, kept if one.is_read_off else learn(one)), base))
        if progress is not None:
            progress(number + 1, len(assumptions))
    return sorted(rows, key=lambda row: -row["moves"])


def _row(assumption: Assumption, moved: Frontier, base: Frontier) -> dict[str, Any]:
    volumes = [measure_volume(one, base) for one in (base, moved)]
    change = volumes[1] / np.maximum(volumes[0], 1e-12) - 1.0
    prices = [_price_at_target(one) for one in (base, moved)]
    rise = None if prices[0] is None or prices[1] is None else prices[1] - prices[0]
    box = np.where(base.ideal > base.reference, base.ideal - base.reference, 1.0)
    shifts = np.abs(moved.learned.points - base.learned.points) / box
    # Nobody can buy a gap that is out of reach: no price is far enough from the old one.
    is_lost = prices[0] is not None and prices[1] is None
    moves = [abs(float(change.mean())), 1.0 if is_lost else 0.0]
    if rise is not None and np.isfinite(rise).any():
        moves.append(abs(float(np.nanmean(rise))))
    return {
        "assumption": assumption.name,
        "change": assumption.change,
        "is_read_off": assumption.is_read_off,
        "moves": max(moves),
        "volume_change": summarise_values(change),
        "price_at_target": None if prices[1] is None else summarise_values(prices[1]),
        "price_change": None if rise is None else summarise_values(rise),
        "is_target_lost": is_lost,
        "least_gap": summarise_values(moved.learned.gap.min(axis=0)),
        "point_shift": summarise_values(shifts.max(axis=2).mean(axis=1)),
        "seeds": volumes[0].size,
    }


def _price_at_target(frontier: Frontier) -> np.ndarray | None:
    """Price (seeds,) of the cheapest preference that reaches the target gap; None if none does."""
    prices, _ = read_at(frontier, price_of_equity(frontier), TARGET_GAP)
    return prices if np.isfinite(prices).any() else None


def name_most_moving(rows: Sequence[Mapping[str, Any]]) -> str:
    """The assumption that moves the frontier most, in words; none if the seed moves it further."""
    luck = next(row["moves"] for row in rows if row["assumption"] == NOTHING)
    first = next(row for row in rows if row["assumption"] != NOTHING)
    if first["moves"] <= luck:
        return "none of them by more than another seed does"
    return f"{first['assumption']} ({first['change']})"
