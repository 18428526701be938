"""What an engine costs, and what more workers gain: overhead a job, efficiency, memory.

Three kinds of jobs: empty ones, whose time is all overhead; sleeping ones, whose wall time says how
well workers are kept fed on any machine, however busy; and trainings of a boiler agent, whose
CPU-seconds say what one more worker costs beyond the work itself: what it loads and compiles before
its first piece, and how much slower a piece is while the other works too.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Engine, Outcome, check_done, run_jobs
from parity311.jobs.job import Job, Task, numerics
from parity311.jobs.local import LocalEngine

N_EMPTY = 100
LONG_S = 20.0
"""Length of a job beside which the overhead is told."""
SLEEP_S = 1.0
REST, TRAIN = "parity311.bench.scale:rest", "parity311.bench.scale:train_piece"
"""What the pieces do, by name."""


def bench_scale(where: Workplace, n_pieces: int, steps: int) -> dict[str, Any]:
    """Figures of an engine with so many workers, beside one worker of this machine."""
    n_workers = where.n_workers or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        empty = _time(_jobs(REST, N_EMPTY, seconds=0.0), where, root / "empty")
        overhead_s = (empty["until_last"] - empty["until_first"]) / (N_EMPTY - 1) * n_workers
        n_sleeps = 8 * n_workers
        asleep = _time(_jobs(REST, n_sleeps, seconds=SLEEP_S), where, root / "asleep")
        slept = asleep["until_last"] - asleep["until_first"] + SLEEP_S
        # Once for whoever compiles first, so that both find the same programs on disk.
        trainings = _jobs(TRAIN, n_pieces, steps=steps)
        cache = root / "compiled"
        run_jobs(trainings[:1], LocalEngine(1, cache=cache, spawns=True), folder=root / "warm")
        alone = _run(trainings, LocalEngine(1, cache=cache, spawns=True), root / "one")
        many = _run(trainings, where.open(cache), root / "many")
        same = [a.result == b.result for a, b in zip(alone["done"], many["done"], strict=True)]
    one, more = alone["cpu_seconds"], many["cpu_seconds"]
    return {
        "engine": where.engine,
        "workers": n_workers,
        "cores": os.cpu_count(),
        "numerics": numerics(),
        "start_s": empty["until_first"],
        "overhead_ms_a_job": 1000 * overhead_s,
        "overhead_share_of_20_s": overhead_s / LONG_S,
        "efficiency_asleep": n_sleeps * SLEEP_S / (slept * n_workers),
        "pieces": n_pieces,
        "cpu_seconds_1_worker": one,
        "cpu_seconds_n_workers": more,
        "efficiency_cpu_seconds": one / more,
        "cpu_seconds_quickest_piece_1_worker": alone["quickest"],
        "cpu_seconds_quickest_piece_n_workers": many["quickest"],
        "cpu_seconds_to_load_1_worker": one - n_pieces * alone["quickest"],
        "cpu_seconds_to_load_each_of_n": (more - n_pieces * many["quickest"]) / n_workers,
        "wall_seconds_1_worker": alone["seconds"],
        "wall_seconds_n_workers": many["seconds"],
        "speed_up": alone["seconds"] / many["seconds"],
        "memory_mb_a_worker": many["memory_mb"],
        "same_results": all(same),
    }


def _jobs(function: str, n: int, **spec: Any) -> list[Job]:
    return [Job(function, {**spec, "seed": k}, name=f"{k}", program=function) for k in range(n)]


def _time(jobs: list[Job], where: Workplace, folder: Path) -> dict[str, float]:
    """Seconds until the first job and until the last had ended."""
    began = time.monotonic()
    ended: list[float] = []

    def note(*_: Any) -> None:
        ended.append(time.monotonic() - began)

    done = where.run(jobs, folder=folder, tell=note)
    check_done(done, len(jobs))
    return {"until_first": ended[0], "until_last": ended[-1]}


def _run(jobs: list[Job], engine: Engine, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    done: list[Outcome] = run_jobs(jobs, engine, folder=folder)
    check_done(done, len(jobs))
    return {
        "done": done,
        "seconds": time.monotonic() - began,
        "cpu_seconds": sum(one.cpu_seconds for one in done),
        "quickest": min(one.cpu_seconds for one in done),
        "memory_mb": max(one.memory_mb for one in done),
    }


def rest(task: Task) -> dict[str, Any]:
    """Wait for so long, and compute nothing."""
    time.sleep(task.spec["seconds"])
    return {}


def train_piece(task: Task) -> dict[str, Any]:
    """Train one small boiler agent in the domain's example."""
    from parity311.domains import get_domain
    from parity311.training import train

    domain = get_domain("boiler")
    params = domain.play.example()
    seeds = [2 * task.spec["seed"], 2 * task.spec["seed"] + 1]
    trained = train(
        domain, params, "dqn", [domain.preference], seeds, task.spec["steps"],
        settings={"buffer_size": 2000},
    )  # fmt: skip
    return {"bias": np.asarray(trained.policies["bias_0"]).tolist()}
