"""A race: policies made from the estimated process of cities, scored under the truth, and a table.

A part is what is measured at once (the rules with the ceiling, an agent) and is kept at its
address; parts of a lane play the same episodes, so that they are paired. The table sets one lane
after the other, best first, with intervals over cities.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.city.ensure import open_or_build
from parity311.engines.heuristics import CaseTable
from parity311.errors import EstimationError, InputError
from parity311.estimation.world import World, make_world
from parity311.evaluation.compare import (
    agent_contenders,
    best_contender,
    hold_contender,
    is_exact,
    later_flow,
    rule_contenders,
)
from parity311.evaluation.rollout import Contender, evaluate
from parity311.evaluation.titles import TODAY, TODAY_TITLE, policy_title
from parity311.mdp.harness import Harness
from parity311.resampling import mean_interval
from parity311.storage.aside import write_text_aside
from parity311.studies.leaderboard.guests import Guest
from parity311.studies.leaderboard.lanes import (
    CAPACITY,
    PARTICIPATION,
    RESERVED,
    RULES,
    Lane,
    RaceBudget,
    part_path,
)
from parity311.training import train

CEILING, BEST_KNOWN = "ceiling", "best_known"
PURPOSES = ("score", "validate", "search")
N_VALIDATING = 16
"""Episodes of the estimated process on which the best rule of a city is chosen."""
N_SEARCHING = 16
"""Episodes under the truth on which a best known rule is searched for; others than are scored."""
CAPACITY_SLACK = 1.05
"""Visits, against those there are, beyond which a row is marked."""

MakeEnvironment = Callable[[str, Any, str], Any]
"""(domain, params, observation set) -> a Gymnasium environment."""
BEST_RULE = "best_rule"
TITLES = {
    TODAY: TODAY_TITLE,
    BEST_RULE: "best rule",
    CEILING: "ceiling",
    BEST_KNOWN: "best known",
    "plan": "plan",
}
TOPS = (CEILING, BEST_KNOWN)


@dataclass(frozen=True)
class Course:
    """Where a lane is raced: one city, opened and estimated when something is missing."""

    lane: Lane
    seed: int
    cities: Path
    budget: RaceBudget

    @cached_property
    def world(self) -> World:
        """The domain in its city; built with this domain alone."""
        domain = self.lane.domain
        records = open_or_build(
            self.cities / f"race-{domain.slug}-{self.seed}", [domain.process],
            preset="small", seed=self.seed, participation=PARTICIPATION, capacity=CAPACITY,
        )  # fmt: skip
        return make_world(domain, records)

    @cached_property
    def harness(self) -> Harness:
        """What policies of the lane see and may do."""
        return Harness(self.lane.domain, observation_set=self.lane.observation_set)

    @property
    def preference(self) -> np.ndarray:
        """Weights of the published reward."""
        return np.asarray(self.lane.domain.preference)

    def keys(self, purpose: str, n: int) -> jax.Array:
        """Keys of the episodes for one purpose: the same for every part."""
        own = jax.random.fold_in(jax.random.key(self.seed), PURPOSES.index(purpose))
        return jax.random.split(own, n)

    def flow(self, is_true: bool) -> CaseTable | None:
        """Cases that capacity binds on, where steps are independent."""
        scored = self.world.true if is_true else self.world.estimated
        return later_flow(self.harness, self.world.estimated, scored)


def score(course: Course, contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """Published reward of every policy under the truth, and its visits."""
    flow = course.flow(True)
    held = [hold_contender(course.harness, flow, one) for one in contenders]
    keys = course.keys("score", course.budget.episodes)
    played = evaluate(course.harness, course.world.true, held, keys, with_saved=False)
    reward = np.asarray(played.tally.published_reward, np.float64) @ course.preference
    visits = np.asarray(played.tally.visits, np.float64).sum(axis=(1, 2))
    complaints = np.asarray(played.tally.complaints, np.float64).sum(axis=(1, 2))
    share = visits / np.maximum(complaints, 1.0)
    limit = np.inf if flow is None else CAPACITY_SLACK * flow.capacity_share
    return [
        {
            "policy": one.name,
            "reward": float(reward[i].mean()),
            "visits_per_complaint": float(share[i]),
            "is_within_capacity": bool(share[i] <= limit),
        }
        for i, one in enumerate(held)
    ]


def measure_rules(course: Course) -> list[dict[str, Any]]:
    """Rules made from the estimate, with what they promise there, and the ceiling."""
    harness, world = course.harness, course.world
    # Without a weight on equity nobody is paid by coverage prices.
    rules = [one for one in rule_contenders(harness, world.estimated) if not one.is_priced]
    flow = course.flow(False)
    held = [hold_contender(harness, flow, one) for one in rules]
    keys = course.keys("validate", N_VALIDATING)
    tried = evaluate(harness, world.estimated, held, keys, with_saved=False)
    promised = np.asarray(tried.tally.published_reward).mean(axis=1) @ course.preference
    found = best_contender(
        harness,
        course.flow(True),
        world.true,
        course.keys("search", N_SEARCHING),
        course.preference,
    )
    best = replace(found, name=CEILING if is_exact(harness) else BEST_KNOWN)
    rows = score(course, [*rules, best])
    for row, value in zip(rows, promised, strict=False):
        row["promised"] = float(value)
    return rows


def measure_agent(course: Course, agent: str) -> list[dict[str, Any]]:
    """One agent that learned in the estimated process, or planned in it."""
    trained = train(
        course.lane.domain, course.world.estimated, agent, [course.lane.domain.preference],
        [100 * course.seed], course.budget.steps, observation_set=course.lane.observation_set,
    )  # fmt: skip
    return score(course, agent_contenders(course.harness, [trained]))


def measure_guest(
    course: Course, guest: Guest, make_environment: MakeEnvironment
) -> list[dict[str, Any]]:
    """A policy of somebody else; a learner learns in the estimated process, never in the truth."""

    def learning() -> Any:
        lane = course.lane
        return make_environment(lane.slug, course.world.estimated, lane.observation_set)

    return score(course, [guest.enter(course.lane, course.harness, learning)])


def parts_of(lane: Lane, agents: Sequence[str]) -> list[str]:
    """What is measured apart in a lane: the rules, the plan where there is one, every agent."""
    planners = ["plan"] if lane.domain.play.solve is not None else []
    return [RULES, *planners, *agents]


def read_city(
    folder: Path, lane: Lane, seed: int, agents: Sequence[str], budget: RaceBudget
) -> list[dict[str, Any]] | None:
    """The rows that are kept of a lane in one city; None where a part of them is missing."""
    paths = [part_path(folder, lane, seed, name, budget) for name in parts_of(lane, agents)]
    if not all(path.exists() for path in paths):
        return None
    return [row for path in paths for row in json.loads(path.read_text())]


def race_city(
    folder: Path,
    course: Course,
    agents: Sequence[str],
    guest: Guest | None,
    make_environment: MakeEnvironment,
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All rows of a lane in one city; a part that is kept at its address is read."""
    rows = []
    for name in parts_of(course.lane, agents):
        path = part_path(folder, course.lane, course.seed, name, course.budget)
        if not path.exists():
            place = f"{course.lane.slug}, {course.lane.features}, city {course.seed}: {name}"
            try:
                found = measure_rules(course) if name == RULES else measure_agent(course, name)
            except EstimationError as error:
                # A plan that does not settle in one city is no reason to lose the others.
                if name == RULES:
                    raise
                found = []
                place += f" could not be made and is left out of the lane ({error})"
            write_text_aside(path, json.dumps(found) + "\n")
            tell(place)
        rows += json.loads(path.read_text())
    if guest is not None:
        # Nobody knows what a function of others depends on: it is played every time.
        rows += [
            {**row, "is_guest": True} for row in measure_guest(course, guest, make_environment)
        ]
        tell(f"{course.lane.slug}, {course.lane.features}, city {course.seed}: {guest.name}")
    return rows


def race(
    lanes: Sequence[Lane],
    seeds: Sequence[int],
    agents: Sequence[str],
    *,
    folder: Path,
    cities: Path,
    budget: RaceBudget,
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
                folder, Course(lane, seed, cities, budget), agents, guest, make_environment, tell
            )
            for seed in seeds
        }
        found.append(gather(lane, by_city))
    return describe(found, budget)


def read_board(
    folder: Path,
    lanes: Sequence[Lane],
    seeds: Sequence[int],
    agents: Sequence[str],
    budget: RaceBudget,
) -> dict[str, Any]:
    """The table of what is kept in a folder: lanes with at least one whole city, others not."""
    found = []
    for lane in lanes:
        kept = {seed: read_city(folder, lane, seed, agents, budget) for seed in seeds}
        whole = {seed: rows for seed, rows in kept.items() if rows is not None}
        found += [gather(lane, whole)] if whole else []
    return describe(found, budget)


def describe(lanes: list[dict[str, Any]], budget: RaceBudget) -> dict[str, Any]:
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
    would choose it; which that was is told. Who could not be made in a city is left out, and named.
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
    left_out = sorted(name for name, values in rewards.items() if len(values) < len(by_city))
    rewards = {name: values for name, values in rewards.items() if name not in left_out}
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
    # Whoever makes more visits than there are is shown, and not placed.
    rows.sort(key=lambda row: (not row["is_within_capacity"], -row["reward"]["value"]))
    return {
        "domain": lane.slug,
        "version": lane.domain.version,
        "features": lane.features,
        "observation_set": lane.observation_set,
        "cities": list(by_city),
        "best_rules": dict(Counter(chosen).most_common()),
        "left_out": left_out,
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
    is_placed = row["is_within_capacity"] and row["policy"] not in (*TOPS, TODAY)
    return [
        row["title"] + ("" if row["is_within_capacity"] else " (more visits than there are)"),
        show_interval(row["reward"]),
        "–" if row["policy"] == TODAY else show_interval(row["lead"], sign="+"),
        f"{100 * share:.0f} %" if is_placed and share is not None else "–",
    ]
