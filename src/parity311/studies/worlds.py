"""Estimates of incidents tried where their assumptions are false, in many cities of every world.

An estimator that is right in the generator's own form may be far off in another. Every world of
`parity311.city.departures` is built with the same seeds, the reports are corrected as an agency
could, and the result is held against the truth, by income quintile. Cities are the sample: what is
told is a mean over cities and how often an interval held.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.build import Progress, build_city
from parity311.city.departures import WORLDS, get_departure
from parity311.city.process import ComplaintProcess
from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.jobs.choose import HERE, Workplace
from parity311.jobs.drive import Outcome, check_done
from parity311.jobs.job import Job, Task
from parity311.reporting.validation import (
    INSPECTED_SHARE,
    N_QUINTILES,
    Refusal,
    Score,
    Trial,
    case_from_city,
    score_trials,
)
from parity311.resampling import mean_interval
from parity311.storage.folders import holds_own
from parity311.storage.locks import one_writer
from parity311.storage.strict_json import read_json, write_json

RESERVED = "unseen"
"""World that nobody tuned on: tried only when it is asked for by name."""
PARTICIPATION, CAPACITY = "strong", "scarce"
"""Where correcting matters most."""
TRIALS = (
    Trial("exposure_rate", "estimated"),
    Trial("exposure_rate", "estimated", INSPECTED_SHARE),
)
BIAS, RATIO, HELD = 0.10, 0.10, 0.85
"""What is asked with a twentieth of the tracts inspected: the mean relative error of every
quintile, that of the ratio of the outer two, the share of 90 % intervals that hold the truth."""


def try_worlds(
    domain: str,
    seeds: Sequence[int],
    folder: Path,
    *,
    worlds: Sequence[str] = (),
    where: Workplace = HERE,
    progress: Progress,
) -> dict[str, Any]:
    """Score the default estimator in cities of every world.

    Parameters
    ----------
    folder
        Holds a file a city and world; what is there is not done again.
    worlds
        Names of `departures`; all but the reserved one if empty.
    where
        Who builds and scores the cities; each is a job.
    """
    process = get_domain(domain).process
    if not isinstance(process, ComplaintProcess):
        raise InputError(
            f"The records of {domain!r} are filings, which nobody reports; choose a domain with "
            "complaints, e.g. heat."
        )
    names = list(worlds) or [name for name in WORLDS if name != RESERVED]
    for name in names:
        get_departure(name)
    holds_own(folder, ("*-*-*.json",), "cities of many worlds")
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        (name, seed): folder / f"{domain}-{name}-{seed}.json" for seed in seeds for name in names
    }
    missing = [job for job, part in parts.items() if not part.exists()]
    _score_cities(domain, missing, folder, where, progress)
    rows = [row for part in parts.values() for row in read_json(part)]
    found = summarise(rows)
    return {
        "domain": domain,
        "seeds": list(seeds),
        "worlds": {name: WORLDS[name].says for name in names},
        "rows": found,
        "bars": check_bars(found),
    }


def _score_cities(
    domain: str,
    missing: list[tuple[str, int]],
    folder: Path,
    where: Workplace,
    progress: Progress,
) -> None:
    """Score worlds and seeds, each a job; each is kept as soon as it is done."""
    jobs = [
        Job(
            "parity311.studies.worlds:score_city",
            {"domain": domain, "world": world, "seed": seed},
            name=f"{domain}-{world}-{seed}",
        )
        for world, seed in missing
    ]

    def keep(ended: int, total: int, outcome: Outcome) -> None:
        if outcome.is_there:
            write_json(folder / f"{outcome.job.name}.json", outcome.result)
        progress(f"{domain}: cities", ended, total)

    with one_writer(folder):
        progress(f"{domain}: cities", 0, len(jobs))
        done = where.run(jobs, tell=keep)
    check_done(done, len(jobs))


def score_city(task: Task) -> list[dict[str, Any]]:
    """Build a city aside, score every trial, and leave nothing of the city, in whatever process."""
    domain, world, seed = (task.spec[name] for name in ("domain", "world", "seed"))
    process = get_domain(domain).process
    assert isinstance(process, ComplaintProcess)
    city = build_city(
        [process], "small", seed, PARTICIPATION, CAPACITY,
        out=task.out / "city", world=world, workers=1,
    )  # fmt: skip
    case = case_from_city(city, process.slug)
    found = score_trials(case, list(TRIALS), seed)
    shutil.rmtree(task.out / "city")
    return [_describe(row, world, seed) for row in found]


def _describe(row: Score | Refusal, world: str, seed: int) -> dict[str, Any]:
    base = {"world": world, "seed": seed, "inspections": row.inspections}
    if isinstance(row, Refusal):
        return base | {"refused": row.reason}
    ends = row.band_by_quintile or row.interval_by_quintile
    return base | {
        "bias": list(row.bias_by_quintile),
        "ratio": row.ratio_error,
        "ends": [list(pair) for pair in ends],
        "holds": [bool(low <= 1.0 <= high) for low, high in ends],
        "area_coverage": row.coverage,
    }


def summarise(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a world and what was told: means over cities with 95 % intervals between them."""
    keys = dict.fromkeys((row["world"], row["inspections"]) for row in rows)
    found = []
    for world, inspections in keys:
        own = [r for r in rows if (r["world"], r["inspections"]) == (world, inspections)]
        known = [row for row in own if "refused" not in row]
        entry: dict[str, Any] = {
            "world": world,
            "inspections": inspections,
            "n_cities": len(own),
            "n_refused": len(own) - len(known),
        }
        if known:
            bias = np.array([row["bias"] for row in known])
            ratio = np.array([row["ratio"] for row in known])
            entry |= {
                "bias": bias.mean(axis=0).tolist(),
                "bias_interval": [mean_interval(bias[:, place]) for place in range(N_QUINTILES)],
                "ratio": float(ratio.mean()),
                "ratio_interval": mean_interval(ratio),
                "held": float(np.mean([row["holds"] for row in known])),
                "area_coverage": float(np.mean([row["area_coverage"] for row in known])),
            }
        found.append(entry)
    return found


def check_bars(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked with tracts inspected, world by world; a refusal misses every bar."""
    bars = []
    for row in rows:
        if not row["inspections"]:
            continue
        has_all = row["n_refused"] == 0
        worst = max((abs(one) for one in row["bias"]), default=np.inf) if has_all else None
        asked = {
            "largest mean bias of a quintile": (worst, worst is not None and worst <= BIAS),
            "mean error of the ratio of outer quintiles": (
                row.get("ratio"),
                has_all and abs(row["ratio"]) <= RATIO,
            ),
            "share of intervals that hold the truth": (
                row.get("held"),
                has_all and row["held"] >= HELD,
            ),
        }
        bars += [
            {"world": row["world"], "asked": name, "value": value, "holds": bool(holds)}
            for name, (value, holds) in asked.items()
        ]
    return bars
