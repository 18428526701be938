"""Policies of a parity study in the city itself, as the packages that a clerk would be served by.

A parity study scores in the stylised process under the truth. Here the same policies take the
place of today's rule in the generator, day by day, on the code that serves them, and both scores
stand side by side. Nothing is chosen: prices settle at parity in the estimated process and then
move with what visits find, at the pace that validation chose in nearly every city before. In the
process denominators stay those of the years before too, as they do in service.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.city.incumbent import EXPLORATION_SHARE
from parity311.city.played import PlayedFigures
from parity311.city.replay import open_replay
from parity311.errors import InputError
from parity311.estimation.world import World, make_world
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.mdp.harness import Harness
from parity311.pipelines.evaluate import play_year
from parity311.records.store import open_records
from parity311.serving.policy import LoadedPolicy, load_policy
from parity311.studies.parity import learned, policies
from parity311.studies.parity.long_run import gap_of, years_of
from parity311.studies.parity.policies import AGENT, DUAL, PLAIN_AGENT, STATIC, Policy
from parity311.studies.parity.world import OURS, ParityWorld, split_canvass
from parity311.training.loop import Trained
from parity311.training.saving import origin_of, save_policy, save_rule

PACE = 4.0
"""Factor on the step of prices: of the paces that are tried, the one that validation chose for the
learned policy in 18 to 20 of the cities 1302 to 1321, in each of the four domains."""
N_NOISE = 400
"""Draws from which it is known what gap noise alone would show."""


@dataclass(frozen=True)
class PlayConfig:
    """How much is played."""

    n_years: int = 4
    """Test years in the city: its own, then others drawn anew there"""
    n_process_years: int = 0
    """Test years in the stylised process; 0: 16 where outcomes are counted as chances, 128 where
    one by one"""
    n_settling: int = 0
    """Plays of a settling round; 0: 8 and 32"""
    n_agent_steps: int = 8_000
    """Updates of each agent"""
    n_days: float = policies.DAYS_A_YEAR
    """Days of a year in the process; fewer only to try things out"""
    seed: int = 0


def play_in_city(slug: str, city: Path, config: PlayConfig) -> dict[str, Any]:
    """Make a domain's policies from a city's first years and score them in both of its truths."""
    domain, _ = split_canvass(slug)
    if domain.play.cases is not None:
        raise InputError(
            f"In {slug!r} a policy is scored with a threshold that holds it to the visits there "
            "are, which it is not served with; play it with `parity311 evaluate`."
        )
    records = open_records(city)
    world = make_world(domain, records)
    study = ParityWorld(
        domain=domain,
        canvassing=None,
        name=f"{records.manifest['preset']}-{records.manifest['seed']}",
        estimated={OURS: world.estimated},
        true=world.true,
        denominator_draws=np.ones((1, N_KNOWN_STRATA)),
    )
    harness = Harness(domain, action_set="extended", carries_on=True)
    is_chance = domain.play.carry_on is not None
    config = replace(
        config,
        n_process_years=config.n_process_years or (16 if is_chance else 128),
        n_settling=config.n_settling or (8 if is_chance else 32),
    )
    years, rounds = policies.spans_of(
        domain, study.true, config.n_process_years, config.n_settling, config.n_days
    )
    key_settle, key_score = jax.random.split(jax.random.key(config.seed))
    trained = learned.train_agents_of(study, harness, config.n_agent_steps, 1)
    plain, paid = learned.policies_of(study, harness, trained)
    asked = [
        replace(paid, target_gap=0.0),
        Policy(STATIC, policies.make_rule(study, harness, DUAL), target_gap=0.0),
    ]
    settled = policies.settle_asked(study, harness, asked, rounds, key_settle)
    players = [
        Policy("balanced", policies.make_rule(study, harness, "balanced")),
        plain,
        *(move(one, PACE * domain.price_step) for one in settled),
    ]
    entries = [policies.entry_in_truth(study, harness, one) for one in players]
    played = years.play(harness, entries, key_score)
    in_process = {
        one.family: describe_counts(
            *(
                getattr(years_of(played, place), name)
                for name in ("correct", "actionable", "visits")
            )
        )
        for place, one in enumerate(players)
    }
    with tempfile.TemporaryDirectory() as folder:
        packed = pack(Path(folder), world, trained, players[2:])
        in_city = play_packed(slug, city, world, packed, config.n_years)
    return {
        "domain": slug,
        "city": study.name,
        "config": asdict(config),
        "process": in_process,
        "in_city": in_city,
    }


def move(one: Policy, step: float) -> Policy:
    """A settled policy whose prices move with what is found."""
    family = DUAL if one.family == STATIC else one.family
    return replace(one, family=family, contender=replace(one.contender, price_step=step))


def pack(
    folder: Path, world: World, trained: Trained, priced: Sequence[Policy]
) -> dict[str, LoadedPolicy]:
    """The agents, and the rule with prices, as packages that begin with the prices that settled."""
    agent, rule = priced
    params, origin = world.estimated, origin_of(world)
    harness = replace(trained.harness, carries_on=True)
    save_policy(folder / PLAIN_AGENT, trained, 0, params=params, origin=origin)
    save_policy(folder / AGENT, trained, 1, params=params, origin=origin)
    save_rule(
        folder / DUAL, harness, DUAL, params, preference=trained.preferences[1], origin=origin
    )
    settled = {AGENT: agent, DUAL: rule}
    return {
        name: with_settled(load_policy(folder / name), settled.get(name))
        for name in (PLAIN_AGENT, AGENT, DUAL)
    }


def with_settled(policy: LoadedPolicy, settled: Policy | None) -> LoadedPolicy:
    """The package with the prices that settled, which move on at the quicker pace."""
    if settled is None:
        return policy
    prices = np.asarray(settled.contender.prices, np.float64).tolist()
    step = PACE * policy.manifest["price_step"]
    changed = {**policy.manifest, "prices": prices, "price_step": step}
    return replace(policy, package=replace(policy.package, manifest=changed))


def play_packed(
    slug: str, city: Path, world: World, packed: dict[str, LoadedPolicy], n_years: int
) -> dict[str, Any]:
    """What today's rule, the freshest first and the packages come to in the city."""
    replay = open_replay(city, [world.domain.process])
    start = {slug: replay.start(slug, world.test_from)}
    years = [
        play_year(start, slug, packed, number, EXPLORATION_SHARE, is_shared=False)
        for number in range(n_years)
    ]
    found = {}
    for name in years[0].figures:
        own: list[PlayedFigures] = [year.figures[name] for year in years]
        counts = (
            np.stack([getattr(one, key) for one in own])
            for key in ("n_correct", "n_actionable", "n_visits")
        )
        fallback = float(np.mean([year.fallbacks.get(name, 0.0) for year in years]))
        found[name] = {**describe_counts(*counts), "fallback_share": fallback}
    return found


def describe_counts(
    correct: np.ndarray, actionable: np.ndarray, visits: np.ndarray
) -> dict[str, Any]:
    """Coverage and its disparity from counts (years, 6), beside what noise alone would show.

    The largest difference is too large where counts are few; that of the outer quintiles is not.
    """
    known = slice(None, N_KNOWN_STRATA)
    found, need = correct.sum(axis=0), actionable.sum(axis=0)
    coverage = found[known] / np.maximum(need[known], 1e-9)
    rng = np.random.default_rng(0)
    level = float(np.clip(found.sum() / max(need.sum(), 1e-9), 0.0, 1.0))
    size = np.maximum(np.rint(need[known]).astype(np.int64), 1)
    alike = rng.binomial(size, level, (N_NOISE, N_KNOWN_STRATA)) / size
    return {
        "coverage": coverage.tolist(),
        "overall": level,
        "gap": float(gap_of(coverage)),
        "noise": float(gap_of(alike).mean()),
        "outer": float(coverage[-1] - coverage[0]),
        "ratio": float(coverage.min() / max(coverage.max(), 1e-9)),
        "correct_a_year": float(found.sum() / len(correct)),
        "visits_a_year": float(visits.sum() / len(correct)),
        "actionable_a_year": float(need.sum() / len(correct)),
    }
