"""What the reporting commands print for people, from the same values that ``--json`` prints."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def _number(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:,.1f}"


def _percent(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:+.1%}"


def print_estimate(result: dict[str, Any]) -> None:
    """Print the strata totals, what was assumed, and where the page lies."""
    has_band = "band_lower" in result["strata"][0]
    table = Table(title=f"{result['estimator']}: {result['unit']}")
    headings = ["stratum", "complaints", "reported", "estimated", "90 % interval"]
    for heading in [*headings, "over lifetimes"] if has_band else headings:
        table.add_column(heading, justify="left" if heading == "stratum" else "right")
    for row in result["strata"]:
        cells = [
            row["stratum"],
            _number(row["complaints"]),
            _number(row["reported_incidents"]),
            _number(row["estimated_incidents"]),
            f"{_number(row['lower'])} to {_number(row['upper'])}",
        ]
        if has_band:
            cells.append(f"{_number(row['band_lower'])} to {_number(row['band_upper'])}")
        table.add_row(*cells)
    console = Console()
    console.print(table)
    console.print(result["assumption"])
    if result["sensitivity"]:
        console.print(result["sensitivity"])
    for reason, n in result["left_out"].items():
        console.print(f"Left out, {n} rows: {reason}.")
    console.print(f"Report: {result['report']}", soft_wrap=True)


def print_comparison(result: dict[str, Any]) -> None:
    """Print every estimator's strata totals side by side."""
    shown = [row for row in result["estimators"] if row["strata"] is not None]
    table = Table(title="Estimated incidents per 28 days by stratum")
    table.add_column("estimator")
    for part in shown[0]["strata"] if shown else []:
        table.add_column(part["stratum"], justify="right")
    table.add_column("first / last", justify="right")
    for row in shown:
        values = [_number(part["estimated_incidents"]) for part in row["strata"]]
        table.add_row(row["estimator"], *values, f"{row['first_to_last'] or float('nan'):.2f}")
    console = Console()
    console.print(table)
    for row in result["estimators"]:
        if row["strata"] is None:
            console.print(f"{row['estimator']}: {row['reason']}")
    most, least = result["largest_ratio"], result["smallest_ratio"]
    if most and least:
        console.print(
            f"First to last stratum: {most['first_to_last']:.2f} by {most['estimator']}, "
            f"{least['first_to_last']:.2f} by {least['estimator']}."
        )
    console.print(f"Report: {result['report']}", soft_wrap=True)


def print_validation(result: dict[str, Any]) -> None:
    """Print how far every estimator is from the truth."""
    table = Table(title=f"Relative error by income quintile, {result['domain']}")
    for heading in ("scenario", "estimator", "lifetime", "inspected", "1", "2", "3", "4", "5"):
        table.add_column(heading)
    for heading in ("low share", "true", "coverage", "seconds"):
        table.add_column(heading, justify="right")
    for row in result["estimators"]:
        table.add_row(
            row["scenario"],
            row["estimator"],
            row["lifetime"],
            f"{row['inspections']:.0%}",
            *(_percent(value) for value in row["bias_by_quintile"]),
            f"{row['low_share_at_parity']:.3f}",
            f"{row['true_low_share']:.3f}",
            f"{row['coverage']:.2f}",
            f"{row['seconds']:.1f}",
        )
    console = Console()
    console.print(table)
    links = result["duplicate_detection"]
    console.print(
        f"Duplicates found without marks: precision {links['precision']:.2f}, recall "
        f"{links['recall']:.2f}."
    )
    console.print(f"Report: {result['report']}", soft_wrap=True)
