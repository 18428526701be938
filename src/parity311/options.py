"""Options that commands of several packages share, with what each allows.

A value outside what is allowed is refused when the command line is read, before any work.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

LARGEST_SEED = 1_000_000_000
"""Seeds of agents and episodes are made by counting up from the one given, and JAX takes what fits
into 31 bits."""
MOST_AGENTS = 10_000
"""Seeds of one training: at 0.2 MB an agent, what a machine can hold."""
MOST_STEPS = 1_000_000_000
"""Steps of one training: days at the fastest pace measured."""
MOST_WORKERS = 1024
"""Processes side by side."""


def within(low: float, high: float) -> Callable[[float | None], float | None]:
    """Check of an option's number: what was given, and what is allowed."""

    def check(value: float | None) -> float | None:
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"{value:,} was given; allowed is {low:,} to {high:,}.")
        return value

    return check


def longer_than_nothing(seconds: float) -> float:
    """Check of an option's seconds; without limit is allowed."""
    if not seconds > 0:
        raise typer.BadParameter(f"{seconds:g} seconds were given; allowed is more than 0.")
    return seconds


def folder_of_its_own(folder: Path) -> Path:
    """Check of a folder that is written whole: not the current one, nor one around it."""
    if Path.cwd().resolve().is_relative_to(folder.resolve()):
        raise typer.BadParameter(
            f"{folder} is the current folder or lies around it, and would be written whole; name a "
            "folder of its own, such as cities/small."
        )
    return folder


def seed_option(about: str) -> typer.models.OptionInfo:
    """A seed, with what it is for."""
    return typer.Option(
        help=f"{about} A whole number from 0 to {LARGEST_SEED:,}.",
        callback=within(0, LARGEST_SEED),
    )


Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Runs = Annotated[
    Path, typer.Option("--runs", help="Folder that runs are written to.", file_okay=False)
]
Cities = Annotated[Path, typer.Option(help="Folder that cities are kept in.", file_okay=False)]
Seed = Annotated[int, seed_option("Same seed, same result on the same machine.")]
Steps = Annotated[int, typer.Option(help="Steps per environment.", callback=within(1, MOST_STEPS))]
Workers = Annotated[
    int, typer.Option(help="Processes; 0: one a core.", callback=within(0, MOST_WORKERS))
]
Seconds = Annotated[
    float,
    typer.Option(
        help="Stop after so many seconds; the same command goes on.", callback=longer_than_nothing
    ),
]
