"""Policies judged where they would work: they play a city's test year in the place of today's rule.

Complaints arrive, the policy is asked each day by the very code that serves it, finite inspectors
go out, incidents end or go on, people report again. What it gains there over today's rule stands
beside what it was expected to gain in the estimated process; the rest is the model's error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.city.build import Progress
from parity311.city.incumbent import (
    EXPLORATION_SHARE,
    Rule,
    severity_then_first_in,
    severity_then_last_in,
)
from parity311.city.played import PlayedFigures, measure_played
from parity311.city.replay import Snapshot, open_replay, play_together
from parity311.domains import all_domains
from parity311.errors import InputError
from parity311.estimation.world import World, make_world
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.contract import N_KNOWN_STRATA, TODAYS_RULE, Policy
from parity311.mdp.equity import term_of
from parity311.mdp.harness import Harness
from parity311.resampling import mean_interval
from parity311.serving.playing import AskedPolicy, play_by
from parity311.serving.policy import LoadedPolicy, load_policy

TODAY, FRESH = "today's rule", "freshest first"
RULES: dict[str, Rule] = {TODAY: severity_then_first_in, FRESH: severity_then_last_in}
"""Rules that play beside the policies: what the agency does now, and the same codes with the newer
case first, so that what is only freshness shows."""
FIGURES = ("coverage", "gap", "recall", "mean_delay_days", "visited_share", "n_visits", "n_correct")
"""What is told of a played year; gap over the known strata, the rest over all of them."""
N_EPISODES = 64
"""Episodes of the estimated process in which each policy is scored, the same for all."""
N_IN_LINE = 8
"""Of those, how many follow each other where the line outlives an episode. What waits at the start
of one alone belongs to its coverage, though it began before: over a year that would count it again
and again. One more is played ahead of them and not counted."""


def evaluate_policies(
    folders: Sequence[Path],
    city: Path,
    *,
    n_replicates: int = 5,
    exploration: float = EXPLORATION_SHARE,
    is_shared: bool = False,
    players: Mapping[str, Policy] | None = None,
    known: Mapping[str, World] | None = None,
    progress: Progress,
) -> dict[str, Any]:
    """Let policies play the test year of a city, each against today's rule on the same draws.

    Parameters
    ----------
    n_replicates
        Years played: the city's own, then others drawn anew in the same city.
    is_shared
        Whether all domains share one staff; those without a policy then follow today's rule.
    players
        The same policies by the name of their folder, as they are before they are packed: what is
        expected of them is then computed without asking the package at every step.
    known
        Worlds that were estimated already, by domain; the others are estimated here.
    """
    policies = _open_policies(folders)
    processes = [domain.process for domain in all_domains().values()]
    replay = open_replay(city, processes)
    found: dict[str, Any] = {"city": city.name, "replicates": n_replicates, "domains": []}
    snapshots: dict[str, Snapshot] = {}
    worlds = dict(known or {})
    asked = list(dict.fromkeys(policy.domain.slug for policy in policies.values()))
    played = list(replay.processes) if is_shared else asked
    for number, slug in enumerate(played):
        progress("to the first test day", number, len(played))
        if slug not in worlds:
            worlds[slug] = make_world(all_domains()[slug], replay.records)
        snapshots[slug] = replay.start(slug, worlds[slug].test_from)
    progress("to the first test day", 1, 1)
    for slug in asked:
        own = {name: policy for name, policy in policies.items() if policy.domain.slug == slug}
        years: dict[str, list[PlayedFigures]] = {name: [] for name in (*RULES, *own)}
        fallbacks: dict[str, list[float]] = {name: [] for name in own}
        total = len(years) * n_replicates
        for replicate in range(n_replicates):
            for name in years:
                # A rule begins every year with its package's prices.
                rule = play_by(own[name]) if name in own else RULES[name]
                done = sum(len(one) for one in years.values())
                progress(f"{slug}: years played", done, total)
                years[name].append(_play(snapshots, slug, rule, replicate, exploration, is_shared))
                if isinstance(rule, AskedPolicy):
                    fallbacks[name].append(rule.fallback_share)
        progress(f"{slug}: years played", total, total)
        expected = expect_figures(worlds[slug], own, players or {})
        rows = [describe(name, years, expected) for name in years]
        for row in rows:
            row["fallback_share"] = float(np.mean(fallbacks.get(row["policy"], [0.0])))
        found["domains"].append({"domain": slug, "policies": rows})
    return found


def _open_policies(folders: Sequence[Path]) -> dict[str, LoadedPolicy]:
    """Policies by the name of their folder; today's rule plays beside them anyway."""
    policies: dict[str, LoadedPolicy] = {}
    for folder in folders:
        policy = load_policy(folder)
        _ = policy.sight
        if folder.name in policies:
            raise InputError(
                f"Two policies lie in folders called {folder.name!r}; rename one of them."
            )
        policies[folder.name] = policy
    return policies


def _play(
    snapshots: Mapping[str, Snapshot],
    slug: str,
    rule: Rule,
    replicate: int,
    exploration: float,
    is_shared: bool,
) -> PlayedFigures:
    if not is_shared:
        played = snapshots[slug].play(rule, replicate=replicate, exploration=exploration)
        return measure_played(played)
    together = play_together(
        list(snapshots.values()), {slug: rule}, replicate=replicate, exploration=exploration
    )
    return measure_played(together[slug])


def expect_figures(
    world: World, policies: Mapping[str, LoadedPolicy], players: Mapping[str, Policy]
) -> dict[str, dict[str, float]]:
    """Coverage, gap, recall and visits of each policy in the estimated process, and of today's."""
    groups: dict[Harness, list[str]] = {}
    for name, policy in policies.items():
        manifest = policy.manifest
        harness = Harness(
            world.domain,
            observation_set=manifest["observation_set"],
            action_set=manifest["action_set"],
            **asdict(term_of(manifest)),
            carries_on=world.domain.play.carry_on is not None,
        )
        groups.setdefault(harness, []).append(name)
    found: dict[str, dict[str, float]] = {}
    for harness, names in groups.items():
        n_runs = N_EPISODES // N_IN_LINE if harness.carries_on else N_EPISODES
        keys = jax.random.split(jax.random.key(0), n_runs)
        length = harness.horizon * N_IN_LINE if harness.carries_on else harness.horizon
        n_warm = harness.horizon if harness.carries_on else 0
        contenders = [
            Contender(TODAY, world.domain.heuristics[TODAYS_RULE](world.estimated, harness))
        ]
        contenders += [
            Contender(
                name,
                players[name] if name in players else _ask(policies[name]),
                prices=policies[name].prices,
                is_priced=policies[name].is_priced,
            )
            for name in names
        ]
        played = evaluate(harness, world.estimated, contenders, keys, n_steps=length, n_warm=n_warm)
        tally = played.tally
        for place, one in enumerate(contenders):
            found.setdefault(one.name, _figures_of(tally, place))
    return found


def _ask(policy: LoadedPolicy) -> Policy:
    """The served policy itself as one that can be played in a process."""
    answer = jax.ShapeDtypeStruct((), np.int32)

    def look_up(observation: np.ndarray) -> np.ndarray:
        return np.asarray(policy.decide(np.asarray(observation)), np.int32)

    def decide(nothing: jax.Array, key: jax.Array, observation: jax.Array) -> jax.Array:
        del nothing, key
        return jax.pure_callback(look_up, answer, observation, vmap_method="broadcast_all")

    # Policies that are played side by side are told apart by their numbers: it needs one.
    return jax.tree_util.Partial(decide, np.zeros(()))


def _figures_of(tally: Any, place: int) -> dict[str, float]:
    """Figures of one policy from the sums of its episodes."""
    total = lambda name: np.asarray(getattr(tally, name), np.float64)[place].sum(axis=0)  # noqa: E731
    correct, actionable = total("correct"), total("actionable")
    by_stratum = correct / np.maximum(actionable, 1e-9)
    known = by_stratum[:N_KNOWN_STRATA][actionable[:N_KNOWN_STRATA] > 0]
    return {
        "coverage": float(correct.sum() / max(actionable.sum(), 1e-9)),
        "gap": float(known.max() - known.min()) if len(known) > 1 else float("nan"),
        "recall": float(correct.sum() / max(total("reported_actionable").sum(), 1e-9)),
        "visits_per_complaint": float(total("visits").sum() / max(total("complaints").sum(), 1e-9)),
    }


def describe(
    name: str, years: Mapping[str, Sequence[PlayedFigures]], expected: Mapping[str, Any]
) -> dict[str, Any]:
    """One policy's figures over the years, its lead over today's rule, and what was expected."""
    own = [year.overall for year in years[name]]
    today = [year.overall for year in years[TODAY]]
    row: dict[str, Any] = {"policy": name}
    for figure in FIGURES:
        values = np.array([year[figure] for year in own])
        lead = values - np.array([year[figure] for year in today])
        row[figure] = _with_interval(values)
        row[f"{figure}_over_today"] = _with_interval(lead)
    row["coverage_by_stratum"] = np.mean([year.coverage for year in years[name]], axis=0).tolist()
    if name in expected and TODAY in expected:
        believed, base = expected[name], expected[TODAY]
        row["expected"] = believed
        row["expected_over_today"] = {key: believed[key] - base[key] for key in believed}
        row["model_error"] = {
            key: row[f"{key}_over_today"]["value"] - row["expected_over_today"][key]
            for key in ("coverage", "gap", "recall")
        }
    return row


def _with_interval(values: np.ndarray) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else float("nan")
    return {"value": mean, "interval": mean_interval(known)}
