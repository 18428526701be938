"""Estimates of incidents tried where their assumptions are false, in many cities of every world.

An estimator that is right in the generator's own form may be far off in another. Every world of
`parity311.city.departures` is built with the same seeds, the reports are corrected as an agency
could, and the result is held against the truth, by income quintile. Cities are the sample: what is
told is a mean over cities and how often an interval held.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity311.city.build import Progress, build_city
from parity311.city.departures import WORLDS, get_departure
from parity311.city.process import ComplaintProcess
from parity311.domains import get_domain
from parity311.errors import InputError
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
    n_workers: int = 1,
    progress: Progress,
) -> dict[str, Any]:
    """Score the default estimator in cities of every world.

    Parameters
    ----------
    folder
        Holds a file a city and world; what is there is not done again.
    worlds
        Names of `departures`; all but the reserved one if empty.
    n_workers
        Cities at once, each in a process and on a core of its own.
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
    _score_cities(domain, missing, folder, n_workers, partial(progress, f"{domain}: cities"))
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
    domain: str, jobs: list[tuple[str, int]], folder: Path, n_workers: int, progress: Any
) -> None:
    """Score worlds and seeds, some at once; each is kept as soon as it is done."""

    def keep(done: int, job: tuple[str, int], rows: list[dict[str, Any]]) -> None:
        write_json(folder / f"{domain}-{job[0]}-{job[1]}.json", rows)
        progress(done, len(jobs))

    progress(0, len(jobs))
    n_workers = min(n_workers, len(jobs))
    if n_workers <= 1:
        for done, job in enumerate(jobs, 1):
            keep(done, job, score_city(domain, *job, folder))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, context, _take_core, (context.Value("i", 0),)) as pool:
        waiting = {pool.submit(score_city, domain, *job, folder): job for job in jobs}
        for done, future in enumerate(as_completed(waiting), 1):
            keep(done, waiting[future], future.result())


def _take_core(counter: Any) -> None:
    """Keep a process on a core of its own, so that it starts no threads beside the others."""
    if not hasattr(os, "sched_setaffinity"):
        return
    with counter.get_lock():
        place, counter.value = counter.value, counter.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[place % len(cores)]})


def score_city(domain: str, world: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Build a city aside in a folder, score every trial, and leave nothing of it."""
    process = get_domain(domain).process
    assert isinstance(process, ComplaintProcess)
    with TemporaryDirectory(dir=folder, prefix=".city-") as aside:
        city = build_city(
            [process], "small", seed, PARTICIPATION, CAPACITY,
            out=Path(aside) / "city", world=world, workers=1,
        )  # fmt: skip
        case = case_from_city(city, process.slug)
        found = score_trials(case, list(TRIALS), seed)
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
