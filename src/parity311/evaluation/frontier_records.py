"""A frontier as plain numbers: one record a point, the rules, the curve of the price of equity."""

from __future__ import annotations

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
    price_of_equity,
    read_at,
    summarise_values,
)
from parity311.mdp.contract import EQUITY, REWARD_NAMES
from parity311.mdp.harness import Harness
from parity311.resampling import ANY, SHARE

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
