"""Where the time of `parity311 run` goes: seconds by part, and how much of it is compilation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from parity311.pipelines.progress import Report as Progress
from parity311.pipelines.run import RunConfig, run_pipeline
from parity311.report.folder import open_run

COMPILED = "/jax/core/compile/backend_compile_duration"
"""What JAX calls the seconds that one program took to compile."""
MOST_NAMES = 12
"""Parts, and programs, that are named; the longest of each."""


def bench_run(
    preset: str, seed: int, *, runs: Path, cities: Path, progress: Progress, **changes: Any
) -> dict[str, Any]:
    """Make a run and say where its time went; the run is kept like any other.

    Parts are wall seconds as the run itself kept them, of domains that are taken side by side: they
    add up to more than the whole. The processor's seconds count every thread,
    so that a machine with other work to do shows as wall seconds alone.
    """
    config = RunConfig(preset=preset, seed=seed, **changes)
    wall, processor = time.perf_counter(), time.process_time()
    with _counting_compilations() as compiled:
        found = run_pipeline(config, runs=runs, cities=cities, progress=progress)
    stages = open_run(found["run"], runs).info["stages"]
    return {
        "run": found["run"],
        "seconds": round(time.perf_counter() - wall, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
        "programs_compiled": len(compiled),
        "seconds_compiling": round(sum(seconds for _, seconds in compiled), 1),
        "longest_compiled": _add_up(compiled),
        "by_part": _by_part(stages),
        "parts": stages,
    }


def _by_part(stages: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of the same part over all settings, most first."""
    return _add_up(
        (one["name"].partition(": ")[2] or one["name"].partition(",")[0], one["seconds"])
        for one in stages
    )


def _add_up(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by name, the longest first."""
    sums: dict[str, float] = {}
    for name, seconds in pairs:
        sums[name] = sums.get(name, 0.0) + seconds
    longest = sorted(sums.items(), key=lambda pair: -pair[1])[:MOST_NAMES]
    return {name: round(seconds, 1) for name, seconds in longest}


@contextmanager
def _counting_compilations() -> Iterator[list[tuple[str, float]]]:
    """Name and seconds of every program compiled meanwhile."""
    found: list[tuple[str, float]] = []

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == COMPILED:
            found.append((kwargs.get("fun_name", "other"), duration_secs))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
