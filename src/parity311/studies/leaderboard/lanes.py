"""What is raced: a domain with what policies see, in cities of given seeds, with a budget."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from parity311.agents import all_agents
from parity311.domains import all_domains, get_domain
from parity311.errors import InputError, unknown_name
from parity311.limits import LARGEST_SEED
from parity311.mdp.contract import Domain

FEATURES = ("published", "ours")
"""What policies see: the paper's features, or those a domain uses unless told otherwise."""
RESERVED = range(2001, 2021)
"""Seeds of the cities in which policies of others are scored; nothing of ours is played there but
beside one of those (docs/seeds.toml)."""
USUAL_SEEDS = "2101-2103"
"""Cities of our own rows: nothing was tuned or chosen there."""
PARTICIPATION, CAPACITY = "measured", "calibrated"
USUAL_AGENTS = ("dqn", "reinforce")
RULES = "rules"
"""The part of a city that holds its rules and its ceiling."""
N_STEPS = 8_000
N_EPISODES = 64


@dataclass(frozen=True)
class Lane:
    """A domain with what policies see; rows of one lane can be compared."""

    slug: str
    features: str

    @property
    def domain(self) -> Domain:
        """The domain itself."""
        return get_domain(self.slug)

    @property
    def observation_set(self) -> str:
        """The domain's name for these features."""
        return "published" if self.features == "published" else self.domain.default_observation_set


@dataclass(frozen=True)
class RaceBudget:
    """How much is spent on every row."""

    steps: int = N_STEPS
    """updates of every agent"""
    episodes: int = N_EPISODES
    """paired episodes a city, under the truth"""


def choose_lanes(domains: str, features: str) -> list[Lane]:
    """Lanes of these domains (all if empty), with both sets of features if empty."""
    slugs = [part.strip() for part in domains.split(",") if part.strip()] or list(all_domains())
    kinds = [part.strip() for part in features.split(",") if part.strip()] or list(FEATURES)
    for slug in slugs:
        get_domain(slug)
    for kind in kinds:
        if kind not in FEATURES:
            raise unknown_name("set of features", kind, FEATURES)
    found = [Lane(slug, kind) for slug in slugs for kind in kinds]
    return [one for one in found if one.features == "published" or _differs(one)]


def _differs(lane: Lane) -> bool:
    return lane.domain.default_observation_set != "published"


def choose_agents(text: str) -> list[str]:
    """Names of agents that learn by acting, from a text with commas; empty: none."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    allowed = [name for name, entry in all_agents().items() if entry.acts]
    for name in names:
        if name not in allowed:
            raise unknown_name("agent that learns by acting", name, allowed)
    return names


def choose_seeds(text: str, has_guest: bool) -> list[int]:
    """Seeds from a text such as 501-503,507; the reserved ones only where a guest is scored."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= min(LARGEST_SEED, first + 999):
            raise InputError(
                f"City seeds {text!r} were given; write whole numbers and ranges of at most 1,000, "
                "as in 501-503,507."
            )
        found += range(first, last + 1)
    taken = sorted(set(found) & set(RESERVED))
    if taken and not has_guest:
        raise InputError(
            f"City {taken[0]} is reserved for policies of others, and nobody looks at it without "
            f"one; give --policy or --learner, or other seeds than {RESERVED[0]} to {RESERVED[-1]}."
        )
    return list(dict.fromkeys(found))


def part_path(folder: Path, lane: Lane, seed: int, name: str, budget: RaceBudget) -> Path:
    """Where a measured part lies: its address is all that its figures depend on."""
    spent = asdict(budget)
    if name == RULES:
        # Rules do not learn.
        spent["steps"] = 0
    about = {
        "domain": lane.slug, "version": lane.domain.version, "seed": seed, "name": name,
        "observation_set": lane.observation_set, "scenario": [PARTICIPATION, CAPACITY],
        "budget": spent,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
    return folder / "parts" / f"{lane.slug}-{lane.features}-{seed}-{name}-{digest}.json"
