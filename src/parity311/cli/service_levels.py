"""`parity311 sla …`: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import (
    DEFAULT_DATABASE,
    KEPT_JOBS,
    Address,
    DatabaseOption,
    EngineName,
    Json,
    ReportingEstimator,
    Runs,
    Seed,
    ShardOption,
    Workers,
    print_json,
    within,
)
from parity311.errors import InputError
from parity311.number_text import in_days

sla_app = typer.Typer(
    help="Service levels: what is kept, what can be promised, how it could be designed.",
    no_args_is_help=True,
)
VERSION = re.compile(r"[a-z_]+-[0-9]+")
"""A version of the registry, as heat-3."""
Districts = Annotated[str, typer.Option(help="What a district is: borough or community_board.")]
RecordsFolder = Annotated[Path, typer.Option("--records", help="Records folder, or a city.")]
Share = Annotated[
    float,
    typer.Option(help="Share of ALL requests that is promised.", callback=within(0.01, 0.99)),
]
Confidence = Annotated[
    float, typer.Option(help="Chance that a year keeps it.", callback=within(0.5, 0.99))
]
Out = Annotated[
    Path | None,
    typer.Option(help="File of service levels to write (TOML), beside the run's.", dir_okay=False),
]
Fewest = Annotated[
    int,
    typer.Option(
        help="Requests below which a category is pooled.", callback=within(10, 10_000_000)
    ),
]


@sla_app.command("measure")
def measure_command(
    records: RecordsFolder,
    domains: Annotated[str | None, typer.Option(help="Comma-separated; all if not given.")] = None,
    districts: Districts = "borough",
    date_from: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First day of receipt.")
    ] = None,
    date_to: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Day after the last.")
    ] = None,
    fewest: Fewest = 100,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say what is promised and what is kept today, over all requests, as a page."""
    from parity311.pipelines.measure_levels import measure_levels

    found = measure_levels(
        records,
        domains=domains.split(",") if domains else None,
        districts=districts,
        date_from=date_from.date() if date_from else None,
        date_to=date_to.date() if date_to else None,
        fewest=fewest,
        root=runs,
    )
    if as_json:
        print_json(found)
        return
    for one in found["domains"]:
        _print_measured(one)
    typer.echo(f"Page: {found['page']}")


@sla_app.command("promise")
def promise_command(
    policy: Annotated[
        str,
        typer.Argument(
            help="Folder of a saved policy, a version of the registry, or today: today's rule."
        ),
    ],
    city: Annotated[
        Path | None, typer.Option(help="Synthetic city whose test year is played.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(help="Records, imported too, that years are drawn from instead."),
    ] = None,
    domain: Annotated[str, typer.Option(help="Domain, where today's rule is asked for.")] = "",
    districts: Districts = "borough",
    share: Share = 0.8,
    confidence: Confidence = 0.9,
    years: Annotated[
        int, typer.Option(help="Years played to promise from.", callback=within(1, 1000))
    ] = 19,
    check_years: Annotated[
        int, typer.Option(help="Further years to check on.", callback=within(0, 1000))
    ] = 10,
    levels: Annotated[
        Path | None, typer.Option(help="Designed service levels to check against (TOML).")
    ] = None,
    fewest: Fewest = 100,
    out: Out = None,
    runs: Runs = Path("runs"),
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Say what a policy can promise by category and district, and what contradicts it."""
    from parity311.pipelines.progress import progress_bars
    from parity311.pipelines.promise_levels import PromiseConfig, promise_levels
    from parity311.report.promise_page import CHECKS

    folder = city or records
    if folder is None or (city and records):
        raise InputError(
            "Name a city to play in with --city, or --records to draw years from; one."
        )
    config = PromiseConfig(
        policy=policy,
        city=str(folder),
        domain=domain,
        districts=districts,
        share=share,
        confidence=confidence,
        years=years,
        check_years=check_years,
        levels=str(levels) if levels else "",
        fewest=fewest,
        is_drawn=records is not None,
    )
    with progress_bars() as progress:
        options = {"root": runs, "out": out, "progress": progress}
        if VERSION.fullmatch(policy) and not Path(policy).exists():
            from parity311.lifecycle.promised import promise_of
            from parity311.lifecycle.registry import Registry

            found = promise_of(Registry(database), policy, config, **options)
        else:
            found = promise_levels(config, **options)
    if as_json:
        print_json(found)
        return
    for row in found["cells"]:
        days = "nothing" if row["days"] is None else in_days(row["days"])
        note = f" ({row['reason']})" if row["reason"] else ""
        typer.echo(f"{row['verdict']:<12} {row['category']}, {row['district']}: {days}{note}")
    for name, check in found["checks"].items():
        if check["checked"]:
            typer.echo(f"Kept in further years, {CHECKS[name]}: {check['kept_share']:.0%} of cells")
    typer.echo(f"{len(found['conflicts'])} conflicts between routing and promises")
    typer.echo(f"Service levels: {found['levels']}")
    typer.echo(f"Page: {found['page']}")


@sla_app.command("design")
def design_command(
    records: RecordsFolder,
    domain: Annotated[str, typer.Option(help="Domain, as `parity311 domains` lists them.")],
    districts: Districts = "borough",
    scope: Annotated[
        str, typer.Option(help="district: visits are split between districts first; city: not.")
    ] = "district",
    losses: Annotated[
        str, typer.Option(help="What is made small: promise, strata or literature.")
    ] = "promise",
    floor: Annotated[
        float,
        typer.Option(help="Least visited share of every cell.", callback=within(0.0, 0.99)),
    ] = 0.2,
    capacity: Annotated[
        float, typer.Option(help="Visits, times those recorded.", callback=within(0.01, 100.0))
    ] = 1.0,
    review_every: Annotated[
        int | None,
        typer.Option(
            help="Days between reviews of a backlog; as fits the waits on record, if not given.",
            callback=within(1, 3650),
        ),
    ] = None,
    share: Share = 0.8,
    confidence: Confidence = 0.9,
    target: Annotated[
        list[str] | None,
        typer.Option(help="CATEGORY=DAYS within which the share must be visited; repeatable."),
    ] = None,
    choice: Annotated[
        str, typer.Option(help="Which to write: efficient, balanced or equitable.")
    ] = "balanced",
    generations: Annotated[
        int, typer.Option(help="Generations of the search.", callback=within(1, 100_000))
    ] = 60,
    population: Annotated[
        int, typer.Option(help="Designs of a generation.", callback=within(8, 10_000))
    ] = 64,
    seed: Seed = 0,
    fewest: Fewest = 100,
    estimator: ReportingEstimator = "exposure_rate",
    out: Out = None,
    runs: Runs = Path("runs"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Search budgets, priorities and reviews that lose little in cost and in equity."""
    from parity311.jobs.choose import choose_engine
    from parity311.pipelines.design_levels import design_levels
    from parity311.pipelines.design_task import DesignConfig
    from parity311.pipelines.progress import progress_bars

    config = DesignConfig(
        records=str(records),
        domain=domain,
        districts=districts,
        scope=scope,
        losses=losses,
        floor=floor,
        capacity_factor=capacity,
        review_every=review_every,
        share=share,
        confidence=confidence,
        generations=generations,
        population=population,
        seed=seed,
        targets=tuple(_target(text) for text in target or ()),
        fewest=fewest,
        estimator=estimator,
    )
    where = choose_engine(engine, address, workers, shard)
    with progress_bars() as progress:
        found = design_levels(
            config, root=runs, out=out, choice=choice, progress=progress, where=where,
            kept=runs / KEPT_JOBS,
        )  # fmt: skip
    if as_json:
        print_json(found)
        return
    for name in found["chosen"]:
        cost, inequity = found["relative"][name]
        typer.echo(
            f"{name}: cost {100 * (cost['value'] - 1):+.0f} %, inequity "
            f"{100 * (inequity['value'] - 1):+.0f} % against today's rule on later years; better "
            f"in both in {found['beats_today'][name]:.0%} of them"
        )
    typer.echo(f"Service levels: {found['levels']}")
    typer.echo(f"Page: {found['page']}")


def _target(text: str) -> tuple[str, int]:
    category, _, days = text.rpartition("=")
    if not category or not days.strip().lstrip("-").isdigit():
        raise InputError(f"The target {text!r} was given; write it as CATEGORY=DAYS, 'NO HEAT=7'.")
    return category, int(days)


def _print_measured(one: dict[str, Any]) -> None:
    whole = one["whole"]
    kept = "–" if whole["kept"] is None else f"{whole['kept']:.0%}"
    typer.echo(
        f"{one['domain']}: {whole['n']:,} requests, {whole['visited']:.0%} visited within "
        f"{one['longest_days']} days, half within {whole['median']}; in time by code {kept}"
    )
    for row in one["rows"]["district"]:
        if row["visited"] is not None:
            typer.echo(
                f"  {row['name']}: {row['visited']:.0%} visited, half within {row['median']}, in "
                f"time {'–' if row['kept'] is None else format(row['kept'], '.0%')}"
            )
