"""Progress on standard error: one bar a stage, silent where nobody watches."""

from __future__ import annotations

import sys
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
)

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

    def report(stage: str, completed: float, total: float) -> None:
        if completed >= total and stage not in finished:
            finished.add(stage)
            print(f"  {stage}", file=sys.stderr, flush=True)

    return report
