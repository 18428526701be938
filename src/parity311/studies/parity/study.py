"""Parity and its price in one world: chosen on validation, scored over test years under the truth.

    python -m parity311.studies.parity.study FOLDER [FOLDER ...] --out FILE

Each folder is a prepared world (`parity311 parity DOMAIN --city CITY --prepare FOLDER`); jax,
numpy and safetensors are all it needs. The policy without equity, the rule with dual thresholds,
static thresholds and a learned policy play the same years at the same capacity, beside the floor
of the price; the same with the published estimator and with raw counts as denominators; with other
numbers of inspectors; and with visits to where nobody called.

The floor of the price of parity in a queue, as a frontier over the gap.

Score and capacity are fixed and the process is known: what is sought are prices by stratum that
reach a gap at the least loss of correct escalations. Candidates are prices that settle within
bands of several widths under the truth, random ones around them, and online rules with true
denominators. Whoever alternates between two of them reaches every gap and price between: the
floor is the lower convex hull. The least of many noisy prices is too low, so the corners of the
hull are chosen on one half of the years and measured on the other, both ways.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.errors import InputError
from parity311.jobs.choose import HERE, Workplace
from parity311.jobs.drive import Outcome, Tell, check_done
from parity311.jobs.job import Input, Job, Task
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.mdp.harness import Harness
from parity311.studies.parity import learned, policies
from parity311.studies.parity.band_prices import PlayedPolicy, Span, settle_band, with_prices
from parity311.studies.parity.long_run import (
    Years,
    divide,
    gap_of,
    interval,
    limit_used,
    measure_gap,
    measure_ratio,
    pooled_coverage,
    price_samples,
    resample_years,
    years_of,
)
from parity311.studies.parity.policies import (
    AGENT,
    DUAL,
    LEARNED,
    PLAIN_AGENT,
    PLAIN_RULE,
    TARGET,
    Policy,
    entry_in_truth,
    make_rule,
    scaled,
    study_canvass,
)
from parity311.studies.parity.world import ESTIMATORS, ParityWorld, read_world

GAPS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08)
"""Widths of the bands in which candidates settle."""
N_AROUND = 4
SPREAD = 0.1
"""Candidates around each settled one, and the sd of their prices, in log odds of the score."""


def candidates_around(
    entry: PlayedPolicy, settled: Sequence[np.ndarray], n_around: int = N_AROUND, seed: int = 0
) -> list[PlayedPolicy]:
    """Entries at the settled prices (6,) each, around them, and online.

    Online from the first of them and from none; where others are sought around, also from none
    towards each of the gaps, and from both at four times the pace and with prices posted once in
    a window or in one and a half.
    """
    rng = np.random.default_rng(seed)
    moving = replace(entry.contender, prices=None, is_priced=True, price_step=None)
    found = [replace(entry, contender=one) for one in (replace(moving, prices=settled[0]), moving)]
    if n_around:
        for gap in GAPS[1:]:
            equity = entry.equity._replace(target_gap=jnp.float32(gap))
            found.append(replace(entry, contender=moving, equity=equity))
        quick = 4.0 * float(entry.equity.step_size)
        for one in found[:2]:
            found.append(replace(one, contender=replace(one.contender, price_step=quick)))
            for factor in (1.0, 1.5):
                steps = factor * entry.equity.window_steps
                found.append(replace(one, equity=entry.equity._replace(posting_steps=steps)))
    for prices in settled:
        own = prices[:N_KNOWN_STRATA]
        noise = SPREAD * rng.standard_normal((n_around, N_KNOWN_STRATA))
        shifted = [own, *(own + shift - shift.mean() for shift in noise)]
        found += [replace(entry, contender=with_prices(entry.contender, one)) for one in shifted]
    return [replace(one, contender=replace(one.contender, name="floor")) for one in found]


def hull_corners(gaps: np.ndarray, prices: np.ndarray) -> list[int]:
    """Which candidates are corners of the least price at each gap: falling, convex."""
    corners: list[int] = []
    for place in np.lexsort((prices, gaps)):
        if corners and prices[place] >= prices[corners[-1]]:
            continue
        while len(corners) > 1 and _is_above(gaps, prices, corners[-2], corners[-1], place):
            corners.pop()
        corners.append(int(place))
    return corners


def _is_above(gaps: np.ndarray, prices: np.ndarray, first: int, middle: int, last: int) -> bool:
    """Whether the middle corner lies on or above the line from the first to the last."""
    run = gaps[last] - gaps[first]
    line = prices[first] + (prices[last] - prices[first]) * (gaps[middle] - gaps[first]) / run
    return bool(prices[middle] >= line)


def floor_at(gap: float, gaps: np.ndarray, prices: np.ndarray) -> float:
    """Least price of a gap; at gaps smaller than any that was reached, that of the smallest."""
    corners = hull_corners(gaps, prices)
    return float(np.interp(gap, gaps[corners], prices[corners]))


def measure_candidates(
    candidates: Sequence[Years], reference: Years, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gap and price of every candidate in every resample, (candidates, samples) each."""
    gaps = np.stack([gap_of(pooled_coverage(one, weights)) for one in candidates])
    return gaps, np.stack([price_samples(one, reference, weights) for one in candidates])


def cross_floors(
    own_gaps: np.ndarray, candidates: Sequence[Years], reference: Years, weights: np.ndarray
) -> np.ndarray:
    """Least price of a gap (samples,) in every resample; corners chosen and measured apart."""
    is_even = np.arange(weights.shape[1]) % 2 == 0
    halves = [
        measure_candidates(candidates, reference, weights * side) for side in (is_even, ~is_even)
    ]
    found = np.zeros(len(weights))
    for chosen, measured in (halves, halves[::-1]):
        for i, gap in enumerate(own_gaps):
            corners = hull_corners(chosen[0][:, i], chosen[1][:, i])
            found[i] += floor_at(gap, measured[0][corners, i], measured[1][corners, i]) / 2.0
    return found


def compare_with_floor(
    years: Years,
    reference: Years,
    candidates: Sequence[Years],
    candidate_reference: Years,
    weights: np.ndarray,
) -> dict[str, dict[str, float]]:
    """A policy's price less the floor at its gap, in every resample of the same years."""
    own_gap = gap_of(pooled_coverage(years, weights))
    own_price = price_samples(years, reference, weights)
    floors = cross_floors(own_gap, candidates, candidate_reference, weights)
    return {"floor": interval(floors), "above_floor": interval(own_price - floors)}


SHOWN_GAPS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08)


def show_floor(candidates: Sequence[Years], reference: Years) -> dict[str, object]:
    """The frontier at round gaps, from the smallest that any candidate reached."""
    smallest = float(min(gap_of(one.coverage) for one in candidates))
    shown = np.array([gap for gap in SHOWN_GAPS if gap >= smallest])
    once = np.ones((len(shown), len(reference.correct)))
    prices = cross_floors(shown, candidates, reference, once)
    corners = [{"gap": float(g), "price": float(p)} for g, p in zip(shown, prices, strict=True)]
    return {"smallest_gap": smallest, "corners": corners}


@dataclass(frozen=True)
class StudyConfig:
    """How much is played."""

    n_years: int = 0
    """Scored years; 0: 64 where outcomes are counted as chances, 1,024 where one by one"""
    n_settling: int = 0
    """Plays of a settling round; 0: half as many, at least 32"""
    n_days: float = 364.0
    """Days of a year; fewer only to try things out"""
    n_rounds: int = 6
    """Rounds in which prices settle"""
    n_agent_steps: int = 8_000
    """Updates of each agent; 0 leaves agents out"""
    n_agent_seeds: int = 2
    estimators: tuple[str, ...] = ESTIMATORS
    """Of what nobody reported; ours comes first"""
    has_floor: bool = True
    """Whether the floor of the price is sought too"""
    factors: tuple[float, ...] = (0.25, 0.5, 2.0, 4.0)
    """On the inspectors, beside 1"""
    canvass_shares: tuple[float, ...] = (0.1, 0.3, 1.0)
    """Chance of a canvass in a step; empty leaves it out"""
    seed: int = 0


def study_world(world: ParityWorld, config: StudyConfig) -> dict[str, Any]:
    """Choose on validation, score under the truth, and set everything beside the floor."""
    harness = Harness(world.domain, action_set="extended", carries_on=True)
    n_years = config.n_years or (64 if world.domain.play.carry_on is not None else 1024)
    n_settling = config.n_settling or max(n_years // 2, 32)
    years, rounds = policies.spans_of(world.domain, world.true, n_years, n_settling, config.n_days)
    rounds = replace(rounds, n_rounds=config.n_rounds)
    keys = jax.random.split(jax.random.key(config.seed), 6)
    world = policies.hear_usual_reports(world, harness, rounds, keys[5])
    agents = learned.train_family(world, harness, config.n_agent_steps, config.n_agent_seeds)
    settled = policies.settle_policies(
        world, harness, learned.ask_prices(agents), config.estimators, config.factors, rounds,
        keys[0],
    )  # fmt: skip
    step = world.domain.price_step
    moving = [*policies.go_online(settled, step), *learned.follow_outcomes(settled, step)]
    tried = [*settled, *moving]
    whole_years = replace(years, n_plays=n_settling)
    checked = policies.validate(world, harness, tried, whole_years, keys[1])
    scored = [*_without_equity(world, harness, agents, config.factors)]
    for name in config.estimators:
        scored += policies.choose_families(checked, name, 1.0)
    scored += learned.choose_learned(checked)
    for factor in config.factors:
        scored += policies.choose_families(checked, policies.OURS, factor)
    rows, floor = _score(world, harness, scored, years, rounds, (keys[2], keys[3]), config)
    result = {
        "domain": world.domain.slug,
        "city": world.name,
        "config": {**asdict(config), "n_years": n_years, "n_settling": n_settling},
        "days_a_year": years.n_steps / float(world.domain.play.steps_per_day(world.true)),
        "need_ratio": compare_needs(world),
        "policies": rows,
        "floor": floor,
        "validation_days": years.n_steps / float(world.domain.play.steps_per_day(world.true)),
        "floor_years": "corners chosen on one half, measured on the other",
        "canvass": [],
    }
    if config.canvass_shares and world.canvassing is not None:
        capacities = sorted({1.0, max((1.0, *config.factors))})
        result["canvass"] = study_canvass(
            world, config.canvass_shares, capacities, (rounds, years), keys[4]
        )
    return result


def compare_needs(world: ParityWorld) -> dict[str, list[float]]:
    """Each stratum's estimated need over the true one of the test years, mean 1, by estimator."""
    need_of = world.domain.play.need_per_step
    true = np.asarray(need_of(world.true), np.float64)[:5]
    found = {}
    for name, params in world.estimated.items():
        ratio = np.asarray(need_of(params), np.float64)[:5] / np.maximum(true, 1e-12)
        found[name] = (ratio / ratio.mean()).tolist()
    return found


def _without_equity(
    world: ParityWorld, harness: Harness, agents: Sequence[Policy], factors: Sequence[float]
) -> list[Policy]:
    """What parity is compared with: today's rule, the score and index alone, the unpaid agents."""
    names = [name for name in ("balanced", PLAIN_RULE, "index") if name in world.domain.heuristics]
    rules = [Policy(name, make_rule(world, harness, name)) for name in names]
    score = next(one for one in rules if one.family == PLAIN_RULE)
    unpaid = [one for one in agents if one.family == PLAIN_AGENT]
    return [*rules, *unpaid, *(replace(score, capacity=factor) for factor in factors)]


def _score(
    world: ParityWorld,
    harness: Harness,
    scored: Sequence[Policy],
    years: Span,
    rounds: Span,
    keys: tuple[jax.Array, jax.Array],
    config: StudyConfig,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Play all policies and the floor's candidates through the same years, under the truth."""
    capacities = (1.0, *config.factors) if config.has_floor else ()
    known = [scaled(world, world.true, factor) for factor in capacities]
    rule = make_rule(world, harness, DUAL)
    bases = [PlayedPolicy(rule, params, harness.equity_params(params)) for params in known]
    asked = [base for base in bases for _ in GAPS]
    found = settle_band(harness, asked, GAPS * len(bases), rounds, keys[0]) if asked else []
    groups = []
    for n, base in enumerate(bases):
        settled = [np.asarray(one.prices) for one in found[n * len(GAPS) : (n + 1) * len(GAPS)]]
        groups.append(candidates_around(base, settled, N_AROUND if n == 0 else 0))
    entries = [entry_in_truth(world, harness, one) for one in scored]
    played = years.play(harness, [*entries, *(one for group in groups for one in group)], keys[1])
    totals = [years_of(played, place) for place in range(len(played.reward))]
    candidates, start = {}, len(entries)
    for factor, group in zip(capacities, groups, strict=True):
        candidates[factor] = totals[start : start + len(group)]
        start += len(group)
    weights = resample_years(years.n_plays)
    return _rows(scored, totals[: len(entries)], candidates, weights)


def _rows(
    scored: Sequence[Policy],
    totals: Sequence[Years],
    candidates: dict[float, list[Years]],
    weights: np.ndarray,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row a policy, and the floor's corners at every capacity."""

    def find(family: str, one: Policy) -> Years:
        for other, years in zip(scored, totals, strict=True):
            same_seed = family != PLAIN_AGENT or other.seed == one.seed
            is_own = other.estimator == one.estimator or family == PLAIN_RULE
            if other.family == family and other.capacity == one.capacity and same_seed and is_own:
                return years
        raise LookupError(f"{family} was not scored at capacity {one.capacity}")

    rows = []
    for one, years in zip(scored, totals, strict=True):
        plain = find(PLAIN_RULE, one)
        is_learned = one.family in (AGENT, LEARNED, PLAIN_AGENT)
        reference = find(PLAIN_AGENT, one) if is_learned else plain
        row = describe(one, years, reference, weights)
        if candidates:
            row |= compare_with_floor(years, reference, candidates[one.capacity], plain, weights)
        if any(other.family == DUAL and other.capacity == one.capacity for other in scored):
            own = price_samples(years, reference, weights)
            other = price_samples(find(DUAL, one), plain, weights)
            row["against_dual"] = interval(own - other)
            # More correct escalations than the chosen thresholds make, as a share of theirs.
            row["against_chosen"] = interval(-price_samples(years, find(TARGET, one), weights))
        rows.append(row)
    floor = []
    for factor, members in candidates.items():
        plain = find(PLAIN_RULE, replace(scored[0], capacity=factor))
        floor.append({"capacity": factor, **show_floor(members, plain)})
    return rows, floor


def describe(one: Policy, years: Years, reference: Years, weights: np.ndarray) -> dict[str, Any]:
    """Figures of one policy: coverage, gap, throughput, price."""
    shares = divide(years.reported.sum(axis=0), years.actionable.sum(axis=0))
    return {
        "policy": one.family,
        "estimator": one.estimator,
        "weight": one.weight,
        "seed": one.seed,
        "capacity": one.capacity,
        "target_gap": one.target_gap,
        "is_online": one.contender.is_priced and one.contender.price_step != 0.0,
        "pace": list(one.pace),
        "follows": one.follows,
        "validation": one.validation,
        "prices": None if one.contender.prices is None else one.contender.prices[:5].tolist(),
        "coverage": years.coverage.tolist(),
        "reported_share": shares[:5].tolist(),
        "actionable_a_year": (years.actionable.mean(axis=0)[:5]).tolist(),
        "visits_per_complaint": float(years.visits.sum() / years.complaints.sum()),
        "correct_a_year": years.throughput,
        "gap": measure_gap(years, weights),
        "ratio": measure_ratio(years, weights),
        "limit_used": float(limit_used(years.coverage)),
        "price": interval(price_samples(years, reference, weights)),
    }


MOST_CAPACITY = 1000.0
"""Largest factor on the inspectors: beyond it everybody is visited at once, many times over."""


def parse_factors(text: str) -> tuple[float, ...]:
    """Factors from 'number,number'; each above 0."""
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (0.0,)
    if any(not 0.0 < factor <= MOST_CAPACITY for factor in found):
        raise InputError(
            f"Factors {text!r} were given; write numbers above 0 and at most {MOST_CAPACITY:g}, as "
            "in --factors 0.5,2."
        )
    return found


def study_worlds(
    folders: Sequence[Path],
    config: StudyConfig,
    where: Workplace = HERE,
    kept: Path | None = None,
    tell: Tell | None = None,
) -> list[dict[str, Any]]:
    """Study prepared worlds, each a job; with a folder for what is kept, none is studied twice."""
    jobs = [
        Job(
            "parity311.studies.parity.study:study_job",
            asdict(config),
            {path.name: Input.of(path) for path in sorted(folder.iterdir()) if path.is_file()},
            name=f"parity-{folder.name}",
            program="parity",
            memory_mb=WORLD_MB,
        )
        for folder in folders
    ]
    done = where.run(jobs, folder=kept, tell=tell)
    check_done(done, len(jobs), kept)
    return [one.result for one in done]


def study_job(task: Task) -> dict[str, Any]:
    """Study one prepared world, in whatever process."""
    folder = next(iter(task.inputs.values())).parent
    lists = {name: tuple(one) for name, one in task.spec.items() if isinstance(one, list)}
    config = StudyConfig(**{**task.spec, **lists})
    return study_world(read_world(folder), config)


WORLD_MB = 2_000
"""Memory of a study: thousands of years are played side by side."""


def main(arguments: Sequence[str]) -> int:
    """Study the prepared worlds one after the other; keep each at once, skip what is kept."""
    parser = argparse.ArgumentParser(prog="python -m parity311.studies.parity.study")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="JSON file, one record a line")
    for name in ("n_years", "n_settling", "n_days", "n_rounds", "n_agent_steps", "n_agent_seeds"):
        option = f"--{name.removeprefix('n_').replace('_', '-')}"
        parser.add_argument(option, dest=name, type=int)
    parser.add_argument("--factors", type=parse_factors)
    parser.add_argument("--workers", type=int, default=1, help="worlds side by side (1)")
    chosen = vars(parser.parse_args(arguments))
    folders, out = chosen.pop("folders"), chosen.pop("out")
    n_workers = chosen.pop("workers")
    config = StudyConfig(**{name: value for name, value in chosen.items() if value is not None})
    lines = out.read_text().splitlines() if out.exists() else []
    kept = {(one["domain"], one["city"]) for one in map(json.loads, lines)}
    worlds = {folder: read_world(folder) for folder in folders}
    left = [one for one in folders if (worlds[one].domain.slug, worlds[one].name) not in kept]

    def keep(ended: int, total: int, outcome: Outcome) -> None:
        if outcome.is_there:
            with out.open("a") as file:
                file.write(json.dumps(outcome.result) + "\n")
        name, seconds = outcome.job.name, outcome.seconds
        print(f"{name}: {seconds:.0f} s ({ended} of {total})", file=sys.stderr, flush=True)

    study_worlds(left, config, Workplace(n_workers=n_workers), tell=keep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
