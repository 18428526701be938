"""Policies judged where they would work: they play a city's test year in the place of today's rule.

Complaints arrive, the policy is asked each day by the very code that serves it, finite inspectors
go out, incidents end or go on, people report again. What it gains there over today's rule stands
beside what it was expected to gain in the estimated process; the rest is the model's error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import check_done
from parity311.jobs.job import Input, Job, Task
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
    where: Workplace | None = None,
    kept: Path | None = None,
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
    where, kept
        Who plays the years as jobs, one a domain and year, and the folder that keeps them; without
        it they are played here, one after the other.
    """
    policies = _open_policies(folders)
    if where is not None:
        return _evaluate_apart(
            policies, folders, city, n_replicates, exploration, is_shared, where, kept, progress
        )
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
        years = []
        for replicate in range(n_replicates):
            progress(f"{slug}: years played", replicate, n_replicates)
            years.append(play_year(snapshots, slug, own, replicate, exploration, is_shared))
        progress(f"{slug}: years played", n_replicates, n_replicates)
        expected = expect_figures(worlds[slug], own, players or {})
        found["domains"].append(_describe_domain(slug, years, expected))
    return found


class PlayedYear(NamedTuple):
    """One test year as each rule and policy of a domain played it."""

    figures: dict[str, PlayedFigures]
    fallbacks: dict[str, float]
    """share of the cases that a policy left to today's rule"""


def play_year(
    snapshots: Mapping[str, Snapshot],
    slug: str,
    own: Mapping[str, LoadedPolicy],
    replicate: int,
    exploration: float,
    is_shared: bool,
) -> PlayedYear:
    """Play one year by every rule and policy of a domain, on the same draws."""
    played = PlayedYear({}, {})
    for name in (*RULES, *own):
        # A rule begins every year with its package's prices.
        rule = play_by(own[name]) if name in own else RULES[name]
        played.figures[name] = _play(snapshots, slug, rule, replicate, exploration, is_shared)
        if isinstance(rule, AskedPolicy):
            played.fallbacks[name] = rule.fallback_share
    return played


def _describe_domain(
    slug: str, years: Sequence[PlayedYear], expected: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows of a domain's policies over all years."""
    by_name = {name: [year.figures[name] for year in years] for name in years[0].figures}
    rows = [describe(name, by_name, expected) for name in by_name]
    for row in rows:
        shares = [year.fallbacks.get(row["policy"], 0.0) for year in years]
        row["fallback_share"] = float(np.mean(shares))
    return {"domain": slug, "policies": rows}


def _evaluate_apart(
    policies: Mapping[str, LoadedPolicy],
    folders: Sequence[Path],
    city: Path,
    n_replicates: int,
    exploration: float,
    is_shared: bool,
    where: Workplace,
    kept: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """The same with a job a domain and year, and one a domain for what is expected there."""
    slugs = list(dict.fromkeys(policy.domain.slug for policy in policies.values()))
    opened = open_replay(city, [domain.process for domain in all_domains().values()])
    inputs = {"city": Input(str(city.resolve()), opened.records.fingerprint)}
    jobs = []
    for slug in slugs:
        own = [one for one in folders if policies[one.name].domain.slug == slug]
        files = {
            f"{one.name}/{path.name}": Input.of(path)
            for one in own
            for path in sorted(one.iterdir())
            if path.is_file()
        }
        spec = {
            "slug": slug,
            "policies": [one.name for one in own],
            "exploration": exploration,
            "is_shared": is_shared,
        }
        for replicate in (*range(n_replicates), None):
            jobs.append(
                Job(
                    "parity311.pipelines.evaluate:evaluate_job",
                    {**spec, "replicate": replicate},
                    {**inputs, **files},
                    name=f"evaluate-{slug}-{'expected' if replicate is None else replicate}",
                    program=f"evaluate-{slug}",
                )
            )
    told = lambda ended, total, _: progress("years played", ended, total)  # noqa: E731
    done = where.run(jobs, folder=kept, tell=told)
    check_done(done, len(jobs), kept)
    found: dict[str, Any] = {"city": city.name, "replicates": n_replicates, "domains": []}
    for slug in slugs:
        mine = [one for one in done if one.job.spec["slug"] == slug]
        years = [_read_year(one.result) for one in mine if one.job.spec["replicate"] is not None]
        expected = next(one.result for one in mine if one.job.spec["replicate"] is None)
        found["domains"].append(_describe_domain(slug, years, _as_numbers(expected)))
    return found


def evaluate_job(task: Task) -> dict[str, Any]:
    """Play one year of one domain, or say what is expected there, in whatever process."""
    spec = task.spec
    folders = {name.split("/")[0]: one.parent for name, one in task.inputs.items() if "/" in name}
    own = _open_policies([folders[name] for name in spec["policies"]])
    snapshots, world = _first_day(str(task.inputs["city"]), spec["slug"], spec["is_shared"])
    if spec["replicate"] is None:
        return expect_figures(world, own, {})
    played = play_year(
        snapshots, spec["slug"], own, spec["replicate"], spec["exploration"], spec["is_shared"]
    )
    return {
        "figures": {name: asdict(one) for name, one in played.figures.items()},
        "fallbacks": played.fallbacks,
    }


@lru_cache(maxsize=2)
def _first_day(city: str, slug: str, is_shared: bool) -> tuple[dict[str, Snapshot], World]:
    """A city on its first test day; a worker that plays several years reads it once."""
    replay = open_replay(Path(city), [domain.process for domain in all_domains().values()])
    worlds = {
        one: make_world(all_domains()[one], replay.records)
        for one in (list(replay.processes) if is_shared else [slug])
    }
    return {one: replay.start(one, worlds[one].test_from) for one in worlds}, worlds[slug]


def _read_year(plain: dict[str, Any]) -> PlayedYear:
    figures = {
        name: PlayedFigures(**{
            key: np.asarray(value) if isinstance(value, list) else value
            for key, value in _as_numbers(one).items()
        })
        for name, one in plain["figures"].items()
    }  # fmt: skip
    return PlayedYear(figures, plain["fallbacks"])


def _as_numbers(plain: Any) -> Any:
    """The same with what is undefined as NaN, which JSON does not have."""
    if isinstance(plain, dict):
        return {name: _as_numbers(one) for name, one in plain.items()}
    if isinstance(plain, list):
        return [_as_numbers(one) for one in plain]
    return float("nan") if plain is None else plain


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
        played = evaluate(
            harness,
            world.estimated,
            contenders,
            keys,
            n_steps=length,
            n_warm=n_warm,
            with_saved=False,
        )
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
