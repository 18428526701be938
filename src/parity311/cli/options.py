"""Options that commands share, with what each allows, and how commands print figures.

A value outside what is allowed is refused when the command line is read, before any work.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.errors import RegistryError
from parity311.limits import LARGEST_SEED, MOST_STEPS, MOST_WORKERS


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
    int,
    typer.Option(
        help="Workers, of one core each; 0: one a core, as far as memory goes.",
        callback=within(0, MOST_WORKERS),
    ),
]
KEPT_JOBS = "jobs"
"""Folder below the runs in which finished pieces are kept."""
EngineName = Annotated[
    str, typer.Option("--engine", help="Where the pieces are done: local (this machine) or ray.")
]
Address = Annotated[
    str,
    typer.Option(
        help="Of a Ray cluster: HOST:PORT, or auto on one of its machines; empty: one is started."
    ),
]
ShardOption = Annotated[
    str,
    typer.Option(
        "--shard", help="Do this part of the pieces alone, as in 0/4 to 3/4; for job arrays."
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        help="Stop after so many seconds; the same command goes on.", callback=longer_than_nothing
    ),
]
Preset = Annotated[str, typer.Option(help="small (200 tracts, 2023-2025) or nyc (2,325 tracts).")]
Until = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="Learn from records before this day only."),
]
ReportingEstimator = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="How complaints become incidents: exposure_rate, raw … as in `reporting estimate`.",
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first",
        help="How to read dates like 03/04/2024; asked for where no date in the file tells.",
        show_default=False,
    ),
]
PolicyFolder = Annotated[
    Path, typer.Option(help="Folder for policies and checkpoints.", file_okay=False)
]
ObservationSet = Annotated[
    str,
    typer.Option(
        "--observation-set",
        "--features",
        help="Features a policy sees: published, or another set; the domain's own if empty.",
    ),
]
ActionSet = Annotated[
    str, typer.Option(help="published: the paper's actions; extended: those and ours.")
]


EquityMode = Annotated[
    str,
    typer.Option(
        help="How equity is paid: dual (coverage prices), potential, windowed, or per_step, as "
        "published."
    ),
]
EquityForm = Annotated[
    str,
    typer.Option(
        help="Disparity that modes other than dual pay for: max_gap, variance or two_strata."
    ),
]
Denominator = Annotated[
    str,
    typer.Option(help="Escalations are per actionable incident, or per incident (all: published)."),
]
RewardStrata = Annotated[
    str,
    typer.Option(
        "--strata", help="Groups whose coverage is compared: income5, or race5 (told with it)."
    ),
]


NEEDS = ("sqlalchemy", "alembic")
DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="PARITY311_DATABASE",
        help="postgresql://USER@HOST/NAME, or the path of a SQLite file.",
    ),
]
DEFAULT_DATABASE = "registry/policies.db"


def check_packages() -> None:
    """Refuse where the packages that a registry needs are not installed."""
    absent = [name for name in NEEDS if find_spec(name) is None]
    if absent:
        raise RegistryError(
            f"The registry needs the packages {', '.join(absent)}; install them with `pip install "
            "'parity311[registry]'`."
        )


def print_json(value: Any) -> None:
    """Print figures as strict JSON: what is not a number is null, never NaN."""
    from parity311.storage.strict_json import to_json

    typer.echo(to_json(value), nl=False)


def print_figures(figures: dict[str, Any], as_json: bool) -> None:
    """Print figures as JSON, or one a line."""
    if as_json:
        print_json(figures)
        return
    for name, value in figures.items():
        typer.echo(f"{name}: {value}")
