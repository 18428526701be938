"""The table: one lane after the other, best first, with intervals over cities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.evaluation.titles import TODAY, TODAY_TITLE, policy_title
from parity311.resampling import mean_interval
from parity311.studies.leaderboard.guests import Guest
from parity311.studies.leaderboard.lanes import CAPACITY, PARTICIPATION, RESERVED, Budget, Lane
from parity311.studies.leaderboard.measure import (
    BEST_KNOWN,
    CEILING,
    MakeEnvironment,
    Place,
    race_city,
    read_city,
)

BEST_RULE = "best_rule"
TITLES = {
    TODAY: TODAY_TITLE,
    BEST_RULE: "best rule",
    CEILING: "ceiling",
    BEST_KNOWN: "best known",
    "plan": "plan",
}
TOPS = (CEILING, BEST_KNOWN)


def race(
    lanes: Sequence[Lane],
    seeds: Sequence[int],
    agents: Sequence[str],
    *,
    folder: Path,
    cities: Path,
    budget: Budget,
    make_environment: MakeEnvironment,
    guest: Guest | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure what is missing, and set every lane's policies side by side."""
    if guest is not None and guest.decide is not None and len({one.slug for one in lanes}) > 1:
        raise InputError(
            f"{guest.name} decides in one domain, and {len(lanes)} were asked for; name it with "
            "--domains."
        )
    found = []
    for lane in lanes:
        by_city = {
            seed: race_city(
                folder, Place(lane, seed, cities, budget), agents, guest, make_environment, tell
            )
            for seed in seeds
        }
        found.append(gather(lane, by_city))
    return describe(found, budget)


def read_board(
    folder: Path, lanes: Sequence[Lane], seeds: Sequence[int], agents: Sequence[str], budget: Budget
) -> dict[str, Any]:
    """The table of what is kept in a folder: lanes with at least one whole city, others not."""
    found = []
    for lane in lanes:
        kept = {seed: read_city(folder, lane, seed, agents, budget) for seed in seeds}
        whole = {seed: rows for seed, rows in kept.items() if rows is not None}
        found += [gather(lane, whole)] if whole else []
    return describe(found, budget)


def describe(lanes: list[dict[str, Any]], budget: Budget) -> dict[str, Any]:
    """The lanes with what they have in common."""
    seeds = {seed for lane in lanes for seed in lane["cities"]}
    return {
        "scenario": f"{PARTICIPATION}, {CAPACITY}",
        "is_reserved": seeds <= set(RESERVED),
        "steps": budget.steps,
        "episodes": budget.episodes,
        "lanes": lanes,
    }


def gather(lane: Lane, by_city: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows of a lane over its cities, best first.

    The best rule is the one that promised most in the estimated process of each city, as an agency
    would choose it; which that was is told.
    """
    chosen: list[str] = []
    rewards: dict[str, list[float]] = {}
    excess: set[str] = set()
    guests: set[str] = set()
    for rows in by_city.values():
        rules = [row for row in rows if "promised" in row and row["is_within_capacity"]]
        best = max(rules, key=lambda row: row["promised"])
        chosen.append(best["policy"])
        shown = [row for row in rows if "promised" not in row or row["policy"] == TODAY]
        for row in [*shown, {**best, "policy": BEST_RULE}]:
            rewards.setdefault(row["policy"], []).append(row["reward"])
            excess |= set() if row["is_within_capacity"] else {row["policy"]}
            guests |= {row["policy"]} if row.get("is_guest") else set()
    today = np.array(rewards[TODAY])
    top = np.array(next(rewards[name] for name in TOPS if name in rewards))
    rows = [
        {
            **_figures(np.array(values), today, top),
            "policy": name,
            "title": name if name in guests else TITLES.get(name, policy_title(name)),
            "is_within_capacity": name not in excess,
            "is_guest": name in guests,
        }
        for name, values in rewards.items()
    ]
    rows.sort(key=lambda row: -row["reward"]["value"])
    return {
        "domain": lane.slug,
        "version": lane.domain.version,
        "features": lane.features,
        "observation_set": lane.observation_set,
        "cities": list(by_city),
        "best_rules": dict(Counter(chosen).most_common()),
        "rows": rows,
    }


def _figures(values: np.ndarray, today: np.ndarray, top: np.ndarray) -> dict[str, Any]:
    """Reward and lead over today's rule with intervals, and the share of the way to the top."""
    lead = values - today
    room = float((top - today).mean())
    interval = mean_interval(top - today)
    has_room = room > 0 and (interval is None or interval[0] > 0)
    return {
        "reward": _interval(values),
        "lead": _interval(lead),
        "share_of_way": float(lead.mean()) / room if has_room else None,
        "by_city": [round(float(value), 6) for value in values],
    }


def _interval(values: np.ndarray) -> dict[str, float | None]:
    lower, upper = mean_interval(values) or (None, None)
    return {"value": float(values.mean()), "lower": lower, "upper": upper}


def show_interval(figure: dict[str, Any], digits: int = 3, sign: str = "") -> str:
    """A figure with its interval; one city alone has none."""
    text = f"{figure['value']:{sign}.{digits}f}"
    if figure["lower"] is None:
        return text
    return f"{text} [{figure['lower']:{sign}.{digits}f}, {figure['upper']:{sign}.{digits}f}]"


def row_cells(row: dict[str, Any]) -> list[str]:
    """Cells of a row, for a screen or a page."""
    share = row["share_of_way"]
    is_top = row["policy"] in TOPS
    return [
        row["title"] + ("" if row["is_within_capacity"] else " (more visits than there are)"),
        show_interval(row["reward"]),
        "–" if row["policy"] == TODAY else show_interval(row["lead"], sign="+"),
        "–" if share is None or is_top or row["policy"] == TODAY else f"{100 * share:.0f} %",
    ]
