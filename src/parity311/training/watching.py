"""A live bar for a training: steps, reward, and how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from parity311.training.blocks import Progress as Told


@contextmanager
def training_bar(title: str) -> Iterator[Told]:
    """Give a function that draws the bar; without a terminal it prints a line every tenth."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_reporter(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[reward]:+.4f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(title, total=None, reward=0.0)

        def report(taken: int, total: int, figures: dict[str, float]) -> None:
            bars.update(task, completed=taken, total=total, reward=figures.get("reward", 0.0))

        yield report


def _line_reporter(title: str) -> Told:
    told: set[int] = set()

    def report(taken: int, total: int, figures: dict[str, float]) -> None:
        tenth = 10 * taken // max(total, 1)
        if tenth not in told:
            told.add(tenth)
            reward = figures.get("reward", 0.0)
            print(
                f"  {title}: {taken:,} of {total:,} steps, reward {reward:+.4f}",
                file=sys.stderr,
                flush=True,
            )

    return report
