"""The command line: parse, call, print. Nothing heavy is imported before a command needs it.

Figures go to standard output (as JSON with ``--json``), progress and errors to standard error. An
error a user can cause is one line and exit code 2, without a traceback.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, NoReturn

# Matrices here are small: threads of NumPy's linear algebra only wait for each other, and take the
# cores from all else while they do. It has to be said before NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from parity311.agents import list_agents
from parity311.cli.audit import audit_command, documents_command, explain_command
from parity311.cli.bench import bench_app
from parity311.cli.cycle import (
    cycle_command,
    feedback_command,
    watch_command,
    weigh_command,
)
from parity311.cli.desk import (
    backup_command,
    desk_export_command,
    restore_command,
    serve_command,
)
from parity311.cli.leaderboard import leaderboard_command
from parity311.cli.lifecycle import policies_app
from parity311.cli.off_policy import backtest_command
from parity311.cli.options import (
    Cities,
    Denominator,
    EquityForm,
    EquityMode,
    Json,
    Preset,
    RewardStrata,
    Runs,
    Seed,
    folder_of_its_own,
    print_json,
)
from parity311.cli.records import fetch_app, records_app
from parity311.cli.reporting import app as reporting_app
from parity311.cli.runs import open_command, runs_app
from parity311.cli.service_levels import sla_app
from parity311.cli.serving import (
    evaluate_command,
    print_recommendations,
    recommend_command,
)
from parity311.cli.studies import parity_command, reproduce_command
from parity311.cli.training import frontier_command, sweep_command, train_command
from parity311.errors import Parity311Error
from parity311.mdp.equity import EquityTerm
from parity311.records.strata import INCOME
from parity311.storage.disk import disk_error
from parity311.version import __version__

app = typer.Typer(
    name="parity311",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
city_app = typer.Typer(
    help="Build and describe a synthetic city with known truth.", no_args_is_help=True
)
app.add_typer(city_app, name="city")
app.add_typer(fetch_app, name="fetch")
app.add_typer(records_app, name="records")
app.add_typer(reporting_app, name="reporting")
app.add_typer(bench_app, name="bench")
app.add_typer(policies_app, name="policies")
app.add_typer(sla_app, name="sla")
app.add_typer(runs_app, name="runs")
app.command("open")(open_command)
app.command("audit")(audit_command)
app.command("backtest")(backtest_command)
app.command("cycle")(cycle_command)
app.command("watch")(watch_command)
app.command("feedback")(feedback_command)
app.command("weigh")(weigh_command)
app.command("explain")(explain_command)
app.command("frontier")(frontier_command)
app.command("documents")(documents_command)
app.command("reproduce")(reproduce_command)
app.command("parity")(parity_command)
app.command("leaderboard")(leaderboard_command)
app.command("recommend")(recommend_command)
app.command("evaluate")(evaluate_command)
app.command("serve")(serve_command)
app.command("backup")(backup_command)
app.command("desk-export")(desk_export_command)
app.command("restore")(restore_command)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Route municipal complaints with equitable coverage as an objective of its own."""


@city_app.command("build")
def build_command(
    out: Annotated[
        Path,
        typer.Option(
            help="Folder to write the city to.", file_okay=False, callback=folder_of_its_own
        ),
    ] = Path("cities/small"),
    preset: Preset = "small",
    seed: Seed = 7,
    participation: Annotated[str, typer.Option(help="measured or strong.")] = "measured",
    capacity: Annotated[str, typer.Option(help="calibrated or scarce.")] = "calibrated",
    world: Annotated[
        str,
        typer.Option(
            help="How the city departs from what estimators assume, e.g. gamma lifetimes; any "
            "other word lists the names."
        ),
    ] = "default",
    date_from: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First day.")
    ] = None,
    date_to: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Day after the last.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the synthetic city there.")] = False,
    as_json: Json = False,
) -> None:
    """Build a synthetic city: records an agency would have, and apart from them the truth."""
    from parity311.city.build import build_city
    from parity311.domains import all_domains
    from parity311.pipelines.progress import progress_bars
    from parity311.records.store import read_manifest

    with progress_bars() as progress:
        folder = build_city(
            tuple(domain.process for domain in all_domains().values()),
            preset=preset,
            seed=seed,
            participation=participation,
            capacity=capacity,
            world=world,
            date_from=date_from.date() if date_from else None,
            date_to=date_to.date() if date_to else None,
            out=out,
            overwrite=overwrite,
            progress=progress,
        )
    manifest = read_manifest(folder)
    rows = sum(
        entry["rows"] for name, entry in manifest["files"].items() if name.startswith("complaints/")
    )
    if as_json:
        print_json(
            {"city": str(folder), "complaints": rows, "fingerprint": manifest["fingerprint"]}
        )
    else:
        typer.echo(f"{rows:,} complaints in {folder} (fingerprint {manifest['fingerprint'][:12]})")
        typer.echo(f"Next: parity311 city describe {folder}")


@city_app.command("describe")
def describe_command(
    city: Annotated[Path, typer.Argument(help="Folder of a synthetic city.")],
    show_all: Annotated[
        bool, typer.Option("--all", help="Print every figure with its source, not what is off.")
    ] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Set the city's figures beside their targets from the records, and draw them."""
    from parity311.report.describe import describe_and_draw

    description = describe_and_draw(city, runs)
    if as_json:
        print_json(description)
        return
    from parity311.cli.printing import print_calibration

    print_calibration(description, show_all)


@city_app.command("export")
def export_command(
    city: Annotated[Path, typer.Argument(help="Folder of a synthetic city.")],
    shape: Annotated[
        str, typer.Option("--as", help="Portal: nyc_311, nyc_dob, nyc_hpd, chicago_311 …")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder to write the files to.", file_okay=False, callback=folder_of_its_own
        ),
    ],
    domains: Annotated[
        str, typer.Option(help="Comma-separated domains; all the portal has if empty.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write a city's complaints as a portal would publish them, to import them again."""
    from parity311.city.export import export_city

    chosen = [name.strip() for name in domains.split(",") if name.strip()]
    found = export_city(city, shape, out, chosen or None)
    if as_json:
        print_json(found)
        return
    for domain, rows in found["rows"].items():
        typer.echo(f"{domain:<20} {rows:>9,} rows")
    for domain, rows in found["left_out"].items():
        typer.echo(f"{domain:<20} {rows:>9,} rows that this portal does not publish")
    typer.echo(f"Next: parity311 records import {out}/* --map {shape} --out records/{shape}")


@app.command("run")
def run_command(
    preset: Preset = "small",
    seed: Seed = 7,
    domains: Annotated[str, typer.Option(help="Domains to take the whole way.")] = "heat,boiler",
    agent: Annotated[
        str, typer.Option(help=f"Agent that learns: {list_agents(lambda entry: entry.acts)}.")
    ] = "priced",
    runs: Runs = Path("runs"),
    cities: Cities = Path("cities"),
    records: Annotated[
        Path | None,
        typer.Option(
            help="Imported records to use instead of synthetic cities.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="How complaints become incidents, as `reporting estimate`; the usual way if empty."
        ),
    ] = "",
    equity_mode: EquityMode = "dual",
    equity_form: EquityForm = "max_gap",
    denominator: Denominator = "actionable",
    strata: RewardStrata = INCOME,
    as_json: Json = False,
) -> None:
    """Take domains the whole way: records, correction, learning, comparison, audit, report."""
    from parity311.arrays import compile_lightly

    compile_lightly()
    from parity311.pipelines.progress import progress_bars
    from parity311.pipelines.run import RunConfig, run_pipeline

    config = RunConfig(
        preset=preset,
        seed=seed,
        domains=tuple(domains.split(",")),
        agent=agent,
        records=str(records) if records else "",
        estimator=estimator,
        term=EquityTerm(equity_mode, equity_form, denominator, strata),
    )
    with progress_bars() as progress:
        result = run_pipeline(config, runs=runs, cities=cities, progress=progress)
    if as_json:
        print_json(result)
        return
    from parity311.cli.printing import print_comparison

    print_comparison(result)
    routed = result["recommendations"]
    if routed:
        print_recommendations(routed["summary"], routed["first"])
        typer.echo(f"Recommendations of the last day: {routed['file']}")
        typer.echo(f"Next: parity311 recommend {routed['policy']} --records {routed['records']}")


app.command("train")(train_command)
app.command("sweep")(sweep_command)


@app.command("domains")
def domains_command(as_json: Json = False) -> None:
    """List the domains: what is decided, who waits, where the data comes from."""
    from parity311.cli.printing import domain_cards, print_domains

    cards = domain_cards()
    if as_json:
        print_json({"domains": cards})
    else:
        print_domains(cards)


@app.command("report")
def report_command(
    run: Annotated[str, typer.Argument(help="A run's id or folder.")],
    runs: Runs = Path("runs"),
) -> None:
    """Render a run's report again from its folder."""
    from parity311.report.page import render_report
    from parity311.report.store import open_run

    typer.echo(str(render_report(open_run(run, runs).path)))


REFUSALS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
    }
)
"""What a disk refuses wherever a command writes."""


def main() -> None:
    """Entry point: run a command; print a user's error as one line and exit with 2."""
    try:
        code = app(prog_name="parity311", standalone_mode=False)
    except Parity311Error as error:
        _fail(str(error))
    except typer.Abort:
        sys.exit(1)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        _fail(str(disk_error(error, Path("the output"))))
    except Exception as error:
        # What the parser of the command line raises has no public common class.
        say = getattr(error, "format_message", None)
        if say is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            getattr(error, "show")()  # noqa: B009
            sys.exit(2)
        _fail(f"{say().rstrip('.')}; `{_asked_for(error)} --help` has what is allowed.")
    sys.exit(code if isinstance(code, int) else 0)


def _asked_for(error: Exception) -> str:
    """The command that an error of the parser is about."""
    context = getattr(error, "ctx", None)
    return context.command_path if context else "parity311"


def _fail(text: str) -> NoReturn:
    message = " ".join(text.split())
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": message}))
    typer.echo(f"error: {message}", err=True)
    sys.exit(2)
