"""Options of the commands that build and learn, and how commands print figures."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

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
PolicyFolder = Annotated[
    Path, typer.Option(help="Folder for policies and checkpoints.", file_okay=False)
]
ObservationSet = Annotated[
    str, typer.Option(help="Features a policy sees; the domain's own choice if empty.")
]
ActionSet = Annotated[
    str, typer.Option(help="published: the paper's actions; extended: those and ours.")
]


def print_json(value: Any) -> None:
    """Print figures as strict JSON: what is not a number is null, never NaN."""
    from parity311.runs.strict_json import to_json

    typer.echo(to_json(value), nl=False)


def print_figures(figures: dict[str, Any], as_json: bool) -> None:
    """Print figures as JSON, or one a line."""
    if as_json:
        print_json(figures)
        return
    for name, value in figures.items():
        typer.echo(f"{name}: {value}")
