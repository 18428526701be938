"""`parity311 reporting`: parse, call, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parity311.cli.options import (
    Address,
    DayFirst,
    EngineName,
    Json,
    Runs,
    Seed,
    Workers,
    print_json,
    seed_option,
    within,
)
from parity311.cli.reporting_tables import (
    print_comparison,
    print_estimate,
    print_regression,
    print_spatial,
    print_validation,
    print_worlds,
)
from parity311.errors import InputError

if TYPE_CHECKING:
    from parity311.jobs.choose import Workplace

app = typer.Typer(
    help="From complaints to estimated incidents, with intervals.", no_args_is_help=True
)

Records = Annotated[Path | None, typer.Option(help="Folder of records (a city or an import).")]
OwnCsv = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="Your own reports: incident_id, reported_at, area, … (see docs/how-to)."
    ),
]
OwnAreas = Annotated[
    Path | None,
    typer.Option("--areas", help="With --csv: the areas, one row each, with their covariates."),
]
Inspections = Annotated[
    Path | None,
    typer.Option(help="CSV of random inspections: area, n_found, n_reported. Narrows lifetimes."),
]
Domain = Annotated[str, typer.Option(help="Domain of the records.")]
LifetimeText = Annotated[
    str, typer.Option("--lifetime", help="estimated, exponential:DAYS or fixed:DAYS.")
]
StrataKind = Annotated[str, typer.Option(help="income5, income2, race or majority.")]
Window = Annotated[str, typer.Option(help="Length of a window, e.g. 28d or 4w.")]
Day = datetime | None
From = Annotated[Day, typer.Option("--from", formats=["%Y-%m-%d"], help="First day.")]
To = Annotated[Day, typer.Option("--to", formats=["%Y-%m-%d"], help="Day after the last.")]
Draws = Annotated[
    int,
    typer.Option("--draws", help="Joint draws behind every interval.", callback=within(2, 100_000)),
]


@app.command("estimate")
def estimate_command(
    records: Records = None,
    csv: OwnCsv = None,
    areas: OwnAreas = None,
    inspections: Inspections = None,
    domain: Domain = "heat",
    estimator: Annotated[str, typer.Option(help="Which estimator to use.")] = "exposure_rate",
    lifetime: LifetimeText = "estimated",
    window: Window = "28d",
    strata: StrataKind = "income5",
    date_from: From = None,
    date_to: To = None,
    day_first: DayFirst = None,
    draws: Draws = 200,
    seed: Seed = 0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Estimate incidents per tract, window and stratum, with intervals and pictures."""
    from parity311.pipelines.reporting import run_estimate

    source = (records, csv, areas, domain)
    dates, sampling = (date_from, date_to, day_first), (draws, seed)
    config = _config(source, estimator, lifetime, window, strata, dates, sampling, inspections)
    result = run_estimate(config, runs)
    if as_json:
        print_json(result)
        return
    print_estimate(result)


@app.command("compare")
def compare_command(
    records: Records = None,
    csv: OwnCsv = None,
    areas: OwnAreas = None,
    domain: Domain = "heat",
    lifetime: LifetimeText = "estimated",
    window: Window = "28d",
    strata: StrataKind = "income5",
    date_from: From = None,
    date_to: To = None,
    day_first: DayFirst = None,
    draws: Draws = 200,
    seed: Seed = 0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run every estimator on the same reports and say how far apart they are."""
    from parity311.pipelines.reporting import run_compare

    source = (records, csv, areas, domain)
    dates, sampling = (date_from, date_to, day_first), (draws, seed)
    config = _config(source, "raw", lifetime, window, strata, dates, sampling)
    result = run_compare(config, runs)
    if as_json:
        print_json(result)
        return
    print_comparison(result)


@app.command("regress")
def regress_command(
    records: Records = None,
    csv: OwnCsv = None,
    areas: OwnAreas = None,
    domain: Domain = "heat",
    model: Annotated[str, typer.Option(help="poisson or zero_inflated.")] = "poisson",
    covariates: Annotated[
        str, typer.Option(help="Comma-separated; with --csv all of its numbers if empty.")
    ] = "",
    area_effects: Annotated[
        bool, typer.Option(help="An effect for every area, where they are few.")
    ] = False,
    date_from: From = None,
    date_to: To = None,
    day_first: DayFirst = None,
    as_json: Json = False,
) -> None:
    """Fit a plain published regression of further reports: coefficients, errors, likelihood."""
    from parity311.pipelines.reporting import run_regression

    source = (records, csv, areas, domain)
    dates = (date_from, date_to, day_first)
    config = _config(source, "raw", "estimated", "28d", "income5", dates, (2, 0))
    names = tuple(name.strip() for name in covariates.split(",") if name.strip())
    result = run_regression(config, model, names, area_effects)
    if as_json:
        print_json(result)
        return
    print_regression(result)


@app.command("validate")
def validate_command(
    city: Annotated[Path | None, typer.Option(help="Folder of a synthetic city.")] = None,
    domain: Domain = "heat",
    scenarios: Annotated[
        bool, typer.Option(help="Also score the default under changed assumptions.")
    ] = True,
    is_worlds: Annotated[
        bool,
        typer.Option(
            "--worlds",
            help="Score the default in cities whose assumptions are false, built for it, instead.",
        ),
    ] = False,
    world: Annotated[
        list[str] | None, typer.Option(help="With --worlds: only this one; may be repeated.")
    ] = None,
    cities: Annotated[
        int, typer.Option(help="With --worlds: cities of each.", callback=within(1, 1000))
    ] = 20,
    first_seed: Annotated[int, seed_option("With --worlds: of the first city.")] = 7,
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    seed: Seed = 0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Score every estimator against the truth of a synthetic city, or one in many worlds."""
    from parity311.jobs.choose import choose_engine

    if world and not is_worlds:
        raise InputError(f"--world {world[0]} was given without --worlds; it goes with it.")
    if is_worlds == (city is not None):
        raise InputError("Give one of the two: --city DIR, or --worlds to have cities built.")
    if city is None:
        seeds = range(first_seed, first_seed + cities)
        where = choose_engine(engine, address, workers, "")
        found = _try_worlds(domain, seeds, runs, world or [], where)
        if as_json:
            print_json(found)
        else:
            print_worlds(found)
        return
    from parity311.pipelines.reporting import run_validate

    result = run_validate(city, domain, runs, scenarios=scenarios, seed=seed)
    if as_json:
        print_json(result)
        return
    print_validation(result)


def _try_worlds(
    domain: str, seeds: range, runs: Path, worlds: list[str], where: Workplace
) -> dict[str, Any]:
    from parity311.pipelines.progress import progress_bars
    from parity311.studies.worlds import try_worlds

    with progress_bars() as progress:
        return try_worlds(
            domain,
            seeds,
            runs / "worlds",
            worlds=worlds,
            where=where,
            progress=progress,
        )


@app.command("spatial")
def spatial_command(
    tracts: Annotated[
        Path, typer.Option(help="CSV of areas: node, GEOID, T_train, T_test, population, …")
    ],
    edges: Annotated[Path, typer.Option(help="CSV of neighbours: node_a, node_b.")],
    seed: Seed = 0,
    chains: Annotated[int, typer.Option(help="Chains of the sampler.", callback=within(2, 64))] = 4,
    warm: Annotated[
        int, typer.Option(help="Draws to tune each chain with.", callback=within(50, 100_000))
    ] = 500,
    draws: Annotated[
        int, typer.Option(help="Draws of each chain that are kept.", callback=within(50, 100_000))
    ] = 500,
    folds: Annotated[
        int,
        typer.Option(
            help="Parts of the areas, each held out once, by which a continuous field, a binary "
            "one or their mean is chosen; 0 takes the continuous one.",
            callback=within(0, 20),
        ),
    ] = 4,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Binary reports of one event on the neighbour graph: where it happened, who reports."""
    from parity311.pipelines.spatial import SpatialConfig, run_spatial

    config = SpatialConfig(
        tracts, edges, seed, n_chains=chains, n_warm=warm, n_draws=draws, n_folds=folds
    )

    def tell(done: int, of: int) -> None:
        typer.echo(f"  choosing the field: {done} of {of} parts held out", err=True)

    result = run_spatial(config, runs, tell)
    if as_json:
        print_json(result)
        return
    print_spatial(result)


def _config(
    source: tuple[Path | None, Path | None, Path | None, str],
    estimator: str,
    lifetime: str,
    window: str,
    strata: str,
    dates: tuple[datetime | None, datetime | None, bool | None],
    sampling: tuple[int, int],
    inspections: Path | None = None,
) -> Any:
    """Resolve the options of `estimate` and `compare`."""
    from parity311.errors import unknown_name
    from parity311.pipelines.reporting import EstimateConfig, parse_window
    from parity311.reporting.estimate import ALL_ESTIMATORS
    from parity311.reporting.strata import STRATA

    if estimator not in ALL_ESTIMATORS:
        raise unknown_name("estimator", estimator, ALL_ESTIMATORS)
    if strata not in STRATA:
        raise unknown_name("strata", strata, STRATA)
    records, csv, areas, domain = source
    date_from, date_to = (day.date() if day else None for day in dates[:2])
    draws, seed = sampling
    return EstimateConfig(
        records=records,
        csv=csv,
        areas=areas,
        inspections=inspections,
        domain=domain,
        estimator=estimator,
        lifetime=lifetime,
        window_days=parse_window(window),
        strata=strata,
        date_from=date_from,
        date_to=date_to,
        n_draws=draws,
        seed=seed,
        day_first=dates[2],
    )
