"""What `parity311 reporting` prints for people, from the same values that ``--json`` prints."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDEST = 1000
"""Characters of the widest table that is measured."""


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
        if row["n_areas"] == 0:
            continue
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
    _print_whole(console, table)
    console.print(result["assumption"])
    if result["sensitivity"]:
        console.print(result["sensitivity"])
    if result["coefficients"]:
        console.print(_coefficients(result["coefficients"]))
        likelihood = result["details"]["log_likelihood"]
        console.print(f"Log likelihood {likelihood:,.2f}, priors and effects of areas apart.")
    for note in result["notes"]:
        console.print(note)
    for reason, n in result["left_out"].items():
        console.print(f"Left out, {n} rows: {reason}.")
    console.print(f"Report: {result['report']}", soft_wrap=True)


def _coefficients(rows: list[dict[str, Any]]) -> Table:
    """Coefficients of the log reporting rate with their standard errors."""
    table = _compact("Log reporting rate: slopes per standard deviation, drawn towards 0 by priors")
    for heading in ("term", "coefficient", "se"):
        table.add_column(heading, justify="left" if heading == "term" else "right")
    for row in rows:
        table.add_row(row["name"], f"{row['coefficient']:+.3f}", f"{row['se']:.3f}")
    return table


def print_regression(result: dict[str, Any]) -> None:
    """Print the coefficients of a plain regression with their errors, and its likelihood."""
    console = Console()
    words = {"poisson": "Poisson", "zero_inflated": "Zero-inflated Poisson"}[result["model"]]
    table = _compact(f"{words} regression of further reports per day, log scale, no pooling")
    for heading in ("term", "level", "coefficient", "se", "95 % interval", "per unit"):
        left = heading in ("term", "level")
        table.add_column(heading, justify="left" if left else "right")
    for row in result["coefficients"]:
        is_slope = not row["level"] and row["term"] != "intercept"
        table.add_row(
            row["term"],
            row["level"],
            f"{row['coefficient']:+.4f}",
            f"{row['se']:.4f}",
            f"{row['lower']:+.3f} to {row['upper']:+.3f}",
            f"{row['per_unit']:+.3g}" if is_slope else "",
        )
    console.print(table)
    if result["silent_share"] is not None:
        error = result["silent_share_se"]
        told = f"standard error {error:.4f}" if error is not None else "at its bound"
        console.print(f"Share silent after the first report: {result['silent_share']:.4f}, {told}.")
    console.print(
        f"{result['n_incidents']:,} incidents with {result['n_further_reports']:,} further "
        f"reports; log likelihood {result['log_likelihood']:,.3f}. Factor effects sum to zero; "
        "slopes are per standard deviation, and per unit in the last column."
    )
    for note in result["notes"]:
        console.print(note)
    for reason, n in result["left_out"].items():
        console.print(f"Left out, {n} rows: {reason}.")


def print_comparison(result: dict[str, Any]) -> None:
    """Print every estimator's strata totals side by side, and how far apart they are."""
    shown = [row for row in result["estimators"] if row["strata"] is not None]
    table = _compact("Estimated incidents per 28 days by stratum")
    table.add_column("estimator", no_wrap=True)
    for part in shown[0]["strata"] if shown else []:
        table.add_column(part["stratum"], justify="right", no_wrap=True)
    table.add_column("first/last", justify="right")
    table.add_column("moved", justify="right")
    for row in shown:
        values = [_number(part["estimated_incidents"]) for part in row["strata"]]
        ratio = "–" if row["first_to_last"] is None else f"{row['first_to_last']:.2f}"
        table.add_row(row["estimator"], *values, ratio, _percent(row["moved_share"]).lstrip("+"))
    console = Console()
    _print_whole(console, table)
    console.print(
        "moved: share of all incidents that the estimator gives to other strata than "
        f"{result['compared_with']} does."
    )
    for row in result["estimators"]:
        if row["strata"] is None:
            console.print(f"{row['estimator']}: {row['reason']}")
    for note in result["notes"]:
        console.print(note)
    most, least = result["largest_ratio"], result["smallest_ratio"]
    if most and least:
        console.print(
            f"First to last stratum: {most['first_to_last']:.2f} by {most['estimator']}, "
            f"{least['first_to_last']:.2f} by {least['estimator']}."
        )
    console.print(f"Report: {result['report']}", soft_wrap=True)


def _print_whole(console: Console, table: Table) -> None:
    """Print a table with every column whole: where the screen is narrower, its lines run on."""
    options = console.options.update(max_width=WIDEST)
    needed = Measurement.get(console, options, table).maximum
    wide = Console(file=console.file, width=max(console.width, needed))
    wide.print(table)


def _compact(title: str) -> Table:
    return Table(title=title, box=None, padding=(0, 1), title_justify="left")


def print_worlds(found: dict[str, Any]) -> None:
    """Print how far the default estimator is off in every world, over cities."""
    console = Console()
    table = _compact(f"{found['domain']}: relative error by quintile, {len(found['seeds'])} cities")
    table.add_column("a city where", overflow="fold")
    table.add_column("told", no_wrap=True)
    for heading in ("1", "2", "3", "4", "5", "1/5", "held"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found["rows"]:
        told = f"{row['inspections']:.0%} inspected" if row["inspections"] else "reports"
        says = found["worlds"][row["world"]]
        if "bias" not in row:
            table.add_row(says, told, *["–"] * 7)
            continue
        errors = [_percent(value) for value in (*row["bias"], row["ratio"])]
        table.add_row(says, told, *errors, f"{row['held']:.0%}")
    _print_whole(console, table)
    console.print(
        "1/5: error of the ratio of the outer quintiles; held: share of sensitivity bands "
        "(reports) and 90 % intervals (inspected) that hold the truth."
    )
    for bar in found["bars"]:
        if not bar["holds"]:
            value = "none" if bar["value"] is None else f"{bar['value']:.3f}"
            console.print(f"Missed: {bar['world']}, {bar['asked']}: {value}.")


def print_validation(result: dict[str, Any]) -> None:
    """Print how far every estimator is from the truth, scenario by scenario."""
    console = Console()
    for name, meaning in result["scenarios"].items():
        rows = [row for row in result["estimators"] if row["scenario"] == name]
        if not rows:
            continue
        table = _compact(f"{name}: {meaning}")
        table.add_column("estimator", no_wrap=True)
        table.add_column("lifetime", no_wrap=True)
        for heading in ("1", "2", "3", "4", "5", "1/5"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("cover", justify="right")
        for row in rows:
            told = f"{row['inspections']:.0%} inspected" if row["inspections"] else row["lifetime"]
            errors = [*row["bias_by_quintile"], row["ratio_error"]]
            cover = f"{row['coverage']:.2f}"
            table.add_row(row["estimator"], told, *(_percent(value) for value in errors), cover)
        _print_whole(console, table)
        console.print()
    console.print(
        "Relative error of estimated incidents by income quintile and of the ratio of the outer "
        "two; cover: share of areas whose 90 % interval holds the truth. With lifetimes estimated "
        f"and tracts inspected, {result['inspections']}."
    )
    for row in result["refusals"]:
        console.print(f"No estimate: {row['scenario']}, {row['estimator']}: {row['reason']}")
    for bar in result["bars"]:
        if not bar["holds"]:
            value = "none" if bar["value"] is None else f"{bar['value']:.3f}"
            console.print(f"Missed: {bar['scenario']}, {bar['lifetime']}, {bar['asked']}: {value}.")
    console.print(f"{sum(bar['holds'] for bar in result['bars'])} of {len(result['bars'])} hold.")
    print_duplicates(console, result["duplicate_detection"])
    console.print(f"Report: {result['report']}", soft_wrap=True)


def print_duplicates(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print precision and recall of duplicate detection by rule."""
    table = _compact("Duplicates found without marks, over pairs of reports")
    for heading in ("rule", "precision", "recall", "incidents", "true"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for row in rows:
        rule = row["rule"]
        words = row["how"]
        if rule:
            words = f"same building, {rule['max_days']:g} days"
            words += ", same problem" if rule["same_problem"] else ", any problem"
            words += ", while open" if rule["until_closed"] else ""
        counts = (f"{row['n_incidents']:,}", f"{row['n_true_incidents']:,}")
        table.add_row(words, f"{row['precision']:.2f}", f"{row['recall']:.2f}", *counts)
    _print_whole(console, table)


def print_spatial(result: dict[str, Any]) -> None:
    """Print how well the spatial model ranks areas, and what it says about reporting."""
    console = Console()
    if result["scores"]:
        table = _compact("Chance that an area with a later report ranks above one without (AUC)")
        for heading in ("score", "AUC", "90 % interval", "areas without an early report"):
            table.add_column(heading, justify="left" if heading == "score" else "right")
        for row in result["scores"]:
            ends = f"{row['auc_lower']:.3f} to {row['auc_upper']:.3f}"
            rest = f"{row['auc_without_early_report']:.3f}"
            table.add_row(row["score"], f"{row['auc']:.3f}", ends, rest)
        _print_whole(console, table)
    slopes = _compact("Slope of reporting per standard deviation (logit)")
    for heading in ("covariate", "mean", "90 % interval"):
        slopes.add_column(heading, justify="left" if heading == "covariate" else "right")
    for row in result["slopes"]:
        ends = f"{row['lower']:+.2f} to {row['upper']:+.2f}"
        slopes.add_row(row["covariate"], f"{row['mean']:+.2f}", ends)
    console.print(slopes)
    console.print(result["convergence"]["verdict"])
    console.print(result["not_identified"])
    if "choice" in result:
        console.print(result["choice"])
    console.print(f"Report: {result['report']}", soft_wrap=True)
