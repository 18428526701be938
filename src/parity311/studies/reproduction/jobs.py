"""What is trained: agents by part and scenario, with their budgets, as plain data.

The list is made once, by `prepare`, and travels as JSON to whatever machine trains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.studies.reproduction.programme import OURS, Programme, paper_settings, plain_term
from parity311.studies.reproduction.protocols import EQUITY_DOMAINS, Part, parts_of
from parity311.training import with_equity

PLAN = "plan.json"
PLAN_VERSION = 1
EQUITY_WEIGHT = 0.5
"""α₃ of the agents that are paid for coverage (as in `parity311 run`)."""
EQUITY_WEIGHTS = (0.1, 0.25, EQUITY_WEIGHT, 0.75, 0.9)
"""α₃ by which the price of parity is followed: the paper says α₃ > 0 and no more."""
FOLLOWED = ("boiler", "heat")
"""Domains in which it is followed (RQ3): one decides by the case, one by the queue."""
HEAT_EPISODES = 20
"""Training episodes of the paper's REINFORCE in heat, of 365 days each."""
DAYS = 365
ROLLOUT = 168
MOST_ROLLOUT = 400
"""Steps of a rollout: an episode where it is short, else the paper's 168."""


@dataclass(frozen=True)
class Budget:
    """How much is trained and played; small must end in 25 minutes on two cores."""

    n_seeds: int
    case_steps: int
    """updates of an agent whose steps are single complaints"""
    office_steps: int
    """updates where a step is a whole office: dearer to play"""
    case_rollouts: int
    """rollouts of REINFORCE, each followed by one update"""
    office_rollouts: int
    grid_steps: int
    """updates of each of the 128 boiler settings"""
    n_grid_seeds: int
    n_episodes: int
    """test episodes every policy plays"""


BUDGETS = {
    "small": Budget(3, 8_000, 4_000, 600, 120, 3_000, 1, 40),
    "nyc": Budget(5, 20_000, 15_000, 2_000, 600, 10_000, 5, 64),
}
PAPER_BUDGETS = {
    "small": Budget(5, 20_000, 20_000, 600, 120, 12_000, 1, 40),
    "nyc": Budget(5, 50_000, 50_000, 2_000, 600, 20_000, 5, 64),
}
"""Of the paper's programme: five seeds (Table 4), and past the 10,000 steps over which ε falls."""
OFFICES = ("elevator", "housing", "heat", "drone", "ert")
"""Domains in which a step decides about a whole queue: dearer to play."""


@dataclass(frozen=True)
class TrainingJob:
    """One batch of agents: preferences × seeds of one kind in one process."""

    name: str
    """scenario/part/label: also the name of its file"""
    scenario: str
    part: str
    domain: str
    agent: str
    label: str
    """what the report calls it; an agent can appear with other features or settings"""
    preferences: list[list[float]]
    seeds: list[int]
    steps: int
    observation_set: str = ""
    n_environments: int = 8
    settings: dict[str, Any] = field(default_factory=dict)
    term: dict[str, str] = field(default_factory=dict)
    """the equity term by name; empty: the usual one"""
    pays_all: bool = False
    """whether it learns from the whole reward, not from what an action saves"""

    @property
    def params_file(self) -> str:
        """Its process, below the folder of params."""
        return f"{self.scenario}-{self.part}.safetensors"

    @property
    def file(self) -> str:
        """Where its agents are kept."""
        return self.name.replace("/", "-") + ".safetensors"


def budget_of(preset: str, programme: Programme = OURS) -> Budget:
    """How much a programme trains and plays with a preset."""
    return (PAPER_BUDGETS if programme.is_published else BUDGETS)[preset]


def make_jobs(
    domains: Sequence[str],
    preset: str,
    seed: int,
    budget: Budget | None = None,
    programme: Programme = OURS,
) -> list[TrainingJob]:
    """Every job of a programme; those that share a compiled program stand side by side."""
    chosen = budget or budget_of(preset, programme)
    seeds = [seed + number for number in range(chosen.n_seeds)]
    found = []
    for slug in domains:
        for part in parts_of(slug, programme):
            found += _jobs_of_part(part, chosen, seeds, programme)
    return sorted(found, key=lambda job: (job.domain, job.agent, job.label, job.part, job.scenario))


def _jobs_of_part(
    part: Part, budget: Budget, seeds: list[int], programme: Programme
) -> list[TrainingJob]:
    plain = list(get_domain(part.domain).preference)
    both = [plain, list(with_equity(plain, EQUITY_WEIGHT))]
    all_weights = [plain, *(list(with_equity(plain, weight)) for weight in EQUITY_WEIGHTS)]
    steps = budget.office_steps if part.domain in OFFICES else budget.case_steps
    found = []

    def add(scenario: str, agent: str, preferences: list[list[float]], **other: Any) -> None:
        label = other.pop("label", agent)
        if programme.is_published:
            other = {**_as_published(part.domain, agent, budget, programme), **other}
        elif agent == "reinforce":
            other = {**_rollouts(part.domain, budget), **other}
        given = {"seeds": seeds, "steps": steps, **other}
        found.append(
            TrainingJob(
                name=f"{scenario}/{part.name}/{label}", scenario=scenario, part=part.name,
                domain=part.domain, agent=agent, label=label, preferences=preferences, **given,
            )
        )  # fmt: skip

    for scenario in part.scenarios:
        if not part.has_capacity:
            _add_boiler_table(add, scenario, part, budget, seeds, programme)
            continue
        is_equity = part.domain in EQUITY_DOMAINS
        # The paper's is paid for equity only where it links tracts to income.
        pays_dqn = is_equity or not (programme.is_published or part.name != part.domain)
        follows = scenario == "strong" and part.name in FOLLOWED
        paid = all_weights if follows else both
        add(scenario, "dqn", paid if pays_dqn else [plain])
        add(scenario, "reinforce", paid if is_equity else [plain])
        if scenario == "measured" and programme.is_published:
            for agent in NAMED.get(part.domain, ()):
                add(scenario, agent, [plain])
        elif scenario == "measured":
            _add_named(add, scenario, part.domain, plain)
    return found


NAMED = {"elevator": ("cql", "td"), "heat": ("hdqn",)}
"""Agents that the paper names for one domain only."""


def _as_published(slug: str, agent: str, budget: Budget, programme: Programme) -> dict[str, Any]:
    """What every job of the paper's programme has; REINFORCE learns once an episode."""
    found: dict[str, Any] = {
        "observation_set": programme.observation_set, "term": plain_term(programme.term),
        "pays_all": True, "n_environments": 1, "settings": paper_settings(agent, slug),
    }  # fmt: skip
    if agent == "reinforce":
        ours = _rollouts(slug, budget)
        length = ours["settings"]["episode_length"]
        if slug == "heat":
            length = get_domain(slug).max_steps
            ours["steps"] = HEAT_EPISODES * length
            found["settings"]["updates_per_block"] = 1
        found["settings"]["episode_length"] = length
        found["steps"] = ours["steps"]
    return found


def _rollouts(slug: str, budget: Budget) -> dict[str, Any]:
    """Steps of REINFORCE, which learns once a rollout: few episodes side by side, more updates."""
    n = budget.office_rollouts if slug in OFFICES else budget.case_rollouts
    horizon = get_domain(slug).max_steps
    length = horizon if horizon <= MOST_ROLLOUT else ROLLOUT
    return {"steps": n * length, "n_environments": 4, "settings": {"episode_length": length}}


def _add_named(add: Any, scenario: str, domain: str, plain: list[float]) -> None:
    """Agents that the paper names for one domain only, with our settings."""
    if domain == "elevator":
        add(scenario, "cql", [plain])
        add(scenario, "td", [plain], settings={"n_rows": 16_384})
        # The attributions by community board need the published features.
        add(scenario, "reinforce", [plain], label="reinforce_boards", observation_set="published")
    if domain == "heat":
        add(scenario, "hdqn", [plain])
        slots = get_domain("heat").max_steps // DAYS
        add(
            scenario, "reinforce", [plain], label="reinforce_20_episodes",
            steps=HEAT_EPISODES * DAYS * slots, n_environments=1,
            settings={
                "learning_rate": 1e-4, "baseline_learning_rate": 1e-4, "discount": 0.99,
                "hidden": [256, 256], "baseline_hidden": [256, 256],
                "episode_length": DAYS * slots, "updates_per_block": 1,
            },
        )  # fmt: skip


def _add_boiler_table(
    add: Any, scenario: str, part: Part, budget: Budget, seeds: list[int], programme: Programme
) -> None:
    """The two agents of the paper's table, ours also without late fees, and the 128 settings."""
    from parity311.training.frontier import boiler_settings

    plain = [list(get_domain("boiler").preference)]
    for features in ("published",) if programme.is_published else ("published", "leak_free"):
        for agent in ("dqn", "reinforce"):
            add(scenario, agent, plain, label=f"{agent}_{features}", observation_set=features)
    if part.split == "random":
        small = {} if programme.is_published else {"settings": {"buffer_size": 10_000}}
        add(
            scenario, "dqn", boiler_settings().astype(float).tolist(), label="grid",
            observation_set="published", seeds=seeds[: budget.n_grid_seeds],
            steps=budget.grid_steps, **small,
        )  # fmt: skip


def write_plan(folder: Path, jobs: Sequence[TrainingJob], **about: Any) -> Path:
    """Write what is to be trained, aside and then in place."""
    path = folder / PLAN
    plain = {"plan_version": PLAN_VERSION, **about, "jobs": [asdict(job) for job in jobs]}
    with telling_disk_errors(path):
        return write_text_aside(path, json.dumps(plain, indent=1) + "\n")


def read_plan(folder: Path) -> tuple[dict[str, Any], list[TrainingJob]]:
    """What a folder is about, and its jobs."""
    try:
        plain = json.loads((folder / PLAN).read_text())
        jobs = [TrainingJob(**job) for job in plain.pop("jobs")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder} holds no plan of a reproduction ({error}); make one with `parity311 "
            "reproduce --stage prepare`."
        ) from error
    if plain.get("plan_version") != PLAN_VERSION:
        raise InputError(
            f"{folder} was prepared in format {plain.get('plan_version')}, this version reads "
            f"{PLAN_VERSION}; prepare it again."
        )
    return plain, jobs
