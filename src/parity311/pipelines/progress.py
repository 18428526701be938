"""Progress on standard error: a bar a stage with the time left; without a terminal, a line each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from parity311.number_text import format_seconds

Report = Callable[[str, float, float], None]
"""(stage, done so far, total): what a long piece of work calls to say how far it is."""


@contextmanager
def progress_bars() -> Iterator[Report]:
    """Give a function that draws bars; without a terminal it prints one line a finished stage."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_reporter()
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(compact=True),
    )  # fmt: skip
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, completed: float, total: float) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=completed, total=total)

        yield report


def _line_reporter() -> Report:
    finished: set[str] = set()
    begun = time.perf_counter()

    def report(stage: str, completed: float, total: float) -> None:
        if completed >= total and stage not in finished:
            finished.add(stage)
            so_far = format_seconds(time.perf_counter() - begun)
            print(f"  {stage} ({so_far})", file=sys.stderr, flush=True)

    return report
