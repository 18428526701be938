"""Which normative assumption moves the frontier most.

Every constant that somebody chose is halved and doubled, and the reporting estimator is exchanged;
policies are learned and prices set under the changed assumption, and scored as before, in the same
true process and the same units. A weight can be read off the conditioned network; everything else
is learned again, because a coverage price is part of the state that is learned from. How far the
frontier moves with nothing changed but the seed stands beside it.

A frontier as plain numbers: one record a point, the rules, the curve of the price of equity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity311.engines.heuristics import CaseTable
from parity311.evaluation.ceiling import bayes_chances, least_price
from parity311.evaluation.compare import DUAL
from parity311.evaluation.frontier import (
    GAP_LEVELS,
    TARGET_GAP,
    Frontier,
    Outcomes,
    cheapest_at,
    find_best,
    find_knee,
    is_near_today,
    measure_epsilon,
    measure_volume,
    near_today,
    play_frontier,
    price_of_equity,
    read_at,
    summarise_values,
)
from parity311.mdp.contract import EQUITY, N_REWARDS, REWARD_NAMES
from parity311.mdp.equity import PRICE_CAP
from parity311.mdp.harness import Harness
from parity311.resampling import ANY, SHARE
from parity311.training import agent_for
from parity311.training.frontier import read_off_all, spread_preferences, train_conditioned
from parity311.training.loop import Trained

FIGURES = ("speed", "cost", "gap", "recall", "visits")
SHARES = ("gap", "recall", "visits")


class PriceFloor:
    """Least price of a gap at a number of visits, under the truth; None where it is not known."""

    def __init__(self, harness: Harness, flow: CaseTable | None) -> None:
        self._flow = flow
        self._chances = None if flow is None else bayes_chances(flow, harness)

    def at(self, visits: float, gap: float) -> float | None:
        """Share of correct escalations that `gap` costs with these visits per complaint."""
        if self._flow is None or self._chances is None or not 0.0 < visits < 1.0:
            return None
        flow = self._flow
        n_visits = visits * len(self._chances)
        _, price = least_price(self._chances, flow.stratum, flow.need, n_visits, max(gap, 0.0))
        return float(price) if np.isfinite(price) else None


def summarise_frontier(frontier: Frontier, floor: PriceFloor) -> dict[str, Any]:
    """Everything the page, the tables and the JSON show."""
    price = price_of_equity(frontier)
    is_best = find_best(frontier)
    knee = find_knee(frontier, is_best)
    target = cheapest_at(frontier, price, TARGET_GAP)
    return {
        "points": [
            _point(frontier, price, place, bool(is_best[place]), place == knee, floor)
            for place in range(len(frontier.menu))
        ],
        "rules": [
            {"name": name, **_figures(frontier.rules, place)}
            for place, name in enumerate(frontier.rule_names)
        ],
        "reference": dict(zip(("speed", "cost", "minus_gap"), frontier.reference, strict=True)),
        "ideal": dict(zip(("speed", "cost", "minus_gap"), frontier.ideal, strict=True)),
        "hypervolume": summarise_values(measure_volume(frontier), SHARE),
        "additive_epsilon": summarise_values(measure_epsilon(frontier)),
        "n_best": int(is_best.sum()),
        "knee": knee,
        "cheapest_at_target": target,
        "price_at_target": None if target is None else _at(frontier, price, TARGET_GAP)["price"],
        "floor_at_target": floor.at(_visits_today(frontier), TARGET_GAP),
        "price_curve": _curve(frontier, price, floor),
        "n_near_today": int(near_today(frontier).sum()),
        "has_near_today": bool(is_near_today(frontier).any()),
    }


def _visits_today(frontier: Frontier) -> float:
    return float(frontier.rules.visits[frontier.today].mean())


def _figures(outcomes: Outcomes, place: int) -> dict[str, Any]:
    return {
        name: summarise_values(getattr(outcomes, name)[place], SHARE if name in SHARES else ANY)
        for name in FIGURES
    }


def _point(
    frontier: Frontier,
    price: np.ndarray,
    place: int,
    is_best: bool,
    is_knee: bool,
    floor: PriceFloor,
) -> dict[str, Any]:
    learned = frontier.learned
    weights = frontier.menu[place]
    gap, visits = float(learned.gap[place].mean()), float(learned.visits[place].mean())
    return {
        "place": place,
        "preference": dict(zip(REWARD_NAMES, (float(x) for x in weights), strict=True)),
        **_figures(learned, place),
        "price": summarise_values(price[place]),
        # The floor is that of a gap on purpose; without a weight on equity there is none.
        "floor": floor.at(visits, gap) if weights[EQUITY] > 0 else None,
        "is_best": is_best,
        "is_knee": is_knee,
    }


def _curve(frontier: Frontier, price: np.ndarray, floor: PriceFloor) -> list[dict[str, Any]]:
    """Least price of every gap at about today's visits, beside its floor, gap by gap."""
    visits = _visits_today(frontier)
    rows = []
    for level in GAP_LEVELS:
        place = cheapest_at(frontier, price, level)
        read = (
            {"reached_gap": None, "price": None} if place is None else _at(frontier, price, level)
        )
        rows.append({"gap": level, "place": place, **read, "floor": floor.at(visits, level)})
    return rows


def _at(frontier: Frontier, price: np.ndarray, gap: float) -> dict[str, Any]:
    prices, gaps = read_at(frontier, price, gap)
    return {"reached_gap": summarise_values(gaps, SHARE), "price": summarise_values(prices)}


def price_of_rule(frontier: Frontier, name: str = DUAL) -> dict[str, Any] | None:
    """Gap and price of a rule, against the rule without equity at about the same visits."""
    if name not in frontier.rule_names or "score" not in frontier.rule_names:
        return None
    own, other = frontier.rule_names.index(name), frontier.rule_names.index("score")
    rules = frontier.rules
    per_visit = rules.correct / np.maximum(rules.visits, 1e-12)
    return {
        "name": name,
        "gap": summarise_values(rules.gap[own]),
        "price": summarise_values(1.0 - per_visit[own] / np.maximum(per_visit[other], 1e-12)),
    }


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
