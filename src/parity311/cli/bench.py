"""The bench commands: speed and error rates, side by side with others or with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parity311.cli.off_policy import bench_off_policy_command
from parity311.cli.options import (
    Address,
    Cities,
    EngineName,
    Json,
    Preset,
    Runs,
    Seconds,
    Seed,
    ShardOption,
    Workers,
    print_figures,
    print_json,
    within,
)
from parity311.limits import MOST_AGENTS, MOST_STEPS

bench_app = typer.Typer(help="Measure speed and error rates, side by side.", no_args_is_help=True)
bench_app.command("off-policy")(bench_off_policy_command)


@bench_app.command("train")
def bench_train_command(
    steps: Annotated[
        int, typer.Option(help="Steps each library learns for.", callback=within(500, MOST_STEPS))
    ] = 3000,
    rounds: Annotated[
        int, typer.Option(help="Rounds; the median counts.", callback=within(1, 1000))
    ] = 3,
    as_json: Json = False,
) -> None:
    """Training speed, against stable-baselines3, d3rlpy and tianshou in their environments."""
    from parity311.bench.training import bench_train

    print_figures(bench_train(steps, rounds), as_json)


@bench_app.command("quality")
def bench_quality_command(
    folder: Annotated[
        Path,
        typer.Option(help="Folder of params, measured parts and results.", file_okay=False),
    ] = Path("runs/quality"),
    domains: Annotated[
        list[str] | None,
        typer.Option(help="A domain or setting; may be repeated. All if not given."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Agents trained in every city.", callback=within(2, MOST_AGENTS))
    ] = 5,
    city_seeds: Annotated[str, typer.Option(help="Seeds of the cities.")] = "871,872,873,874,875",
    cities: Cities = Path("cities"),
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only estimate the params; training can travel.")
    ] = False,
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    slice_seconds: Seconds = float("inf"),
    as_json: Json = False,
) -> None:
    """How far agents get: learned in the estimated process, scored under the truth (hours)."""
    from parity311.jobs.choose import choose_engine
    from parity311.training.train_run import keep_to_one_thread

    where = choose_engine(engine, address, workers, shard)
    keep_to_one_thread()
    from parity311.studies.quality.report import bench_quality

    found = bench_quality(
        folder,
        cities,
        settings=domains,
        n_agents=seeds,
        city_seeds=city_seeds,
        only_prepare=prepare,
        where=where,
        stop_after_s=slice_seconds,
        tell=lambda line: typer.echo(line, err=True),
    )
    if as_json or prepare:
        print_json(found)
    else:
        from parity311.studies.quality.report import verdict_lines

        typer.echo("\n".join(verdict_lines(found)))


@bench_app.command("frontier")
def bench_frontier_command(
    steps: Annotated[
        int, typer.Option(help="Updates of every agent.", callback=within(500, MOST_STEPS))
    ] = 10_000,
    seeds: Annotated[int, typer.Option(help="Seeds of both.", callback=within(1, MOST_AGENTS))] = 3,
    as_json: Json = False,
) -> None:
    """One conditioned network for 128 boiler settings, against agents trained one by one."""
    from parity311.training.train_run import keep_to_one_thread

    keep_to_one_thread()
    from parity311.bench.frontier import bench_frontier

    print_figures(bench_frontier(steps, seeds), as_json)


@bench_app.command("records")
def bench_records_command(
    rows: Annotated[
        int,
        typer.Option(help="Complaints to generate and import.", callback=within(1, 1_000_000_000)),
    ] = 1_000_000,
    out_of_core: Annotated[
        bool,
        typer.Option(
            "--out-of-core", help="Instead: queries over more rows than memory holds, on one disk."
        ),
    ] = False,
    memory_gb: Annotated[
        float, typer.Option(help="Memory for these queries.", callback=within(0.1, 4096.0))
    ] = 4.0,
    as_json: Json = False,
) -> None:
    """Import and features of 311 rows, against pandas."""
    if out_of_core:
        from parity311.bench.records import bench_out_of_core

        print_figures(bench_out_of_core(rows, memory_gb), as_json)
        return
    from parity311.bench.records import bench_records

    print_figures(bench_records(rows), as_json)


@bench_app.command("audit")
def bench_audit_command(as_json: Json = False) -> None:
    """How often the audit errs, on simulated cities whose gap is known."""
    from parity311.bench.audit import bench_audit

    print_figures(bench_audit(), as_json)


@bench_app.command("reporting")
def bench_reporting_command(
    incidents: Annotated[
        int, typer.Option(help="Reported incidents, at most.", callback=within(1000, 1_000_000_000))
    ] = 1_000_000,
    as_json: Json = False,
) -> None:
    """The default correction for under-reporting: seconds by number of incidents."""
    from parity311.bench.audit import bench_reporting

    print_figures(bench_reporting(incidents), as_json)


@bench_app.command("shapley")
def bench_shapley_command(as_json: Json = False) -> None:
    """Exact Shapley values, against shap's exact explainer."""
    from parity311.bench.audit import bench_shapley

    print_figures(bench_shapley(), as_json)


@bench_app.command("env")
def bench_env_command(
    domains: Annotated[str, typer.Option(help="Domains, comma-separated; all if empty.")] = "",
    as_json: Json = False,
) -> None:
    """Environment steps per second: the pure step, and through the adapters."""
    from parity311.bench.environments import measure_domains

    chosen = tuple(name.strip() for name in domains.split(",") if name.strip())
    print_figures({"domains": measure_domains(chosen)}, as_json)


@bench_app.command("recommend")
def bench_recommend_command(
    records: Annotated[
        Path | None,
        typer.Option(help="Records folder, or a city; the one of `parity311 run` if not given."),
    ] = None,
    cases: Annotated[
        int,
        typer.Option(help="Open cases of the long queue.", callback=within(100, 10_000_000)),
    ] = 100_000,
    complaints: Annotated[
        int, typer.Option(help="New complaints, one by one.", callback=within(10, 1_000_000))
    ] = 1000,
    cities: Cities = Path("cities"),
    as_json: Json = False,
) -> None:
    """Recommendations: one complaint, a long queue, the start; against SB3's predict in a loop."""
    from parity311.bench.recommend import bench_recommend

    found = bench_recommend(records, cities, n_cases=cases, n_complaints=complaints)
    print_figures(found, as_json)


@bench_app.command("desk")
def bench_desk_command(
    records: Annotated[
        Path | None,
        typer.Option(help="Records folder, or a city; the one of `parity311 serve` if not given."),
    ] = None,
    open_cases: Annotated[
        int, typer.Option("--open", help="Open cases of the queue.", callback=within(1, 1_000_000))
    ] = 10_000,
    complaints: Annotated[
        int,
        typer.Option(
            help="Complaints that are taken in before, for memory.", callback=within(1, 10_000_000)
        ),
    ] = 100_000,
    rate: Annotated[
        float, typer.Option(help="Complaints filed a second.", callback=within(1, 100_000))
    ] = 200.0,
    seconds: Annotated[float, typer.Option(help="For how long.", callback=within(1, 3600))] = 60.0,
    as_json: Json = False,
) -> None:
    """The desk under load: filing at a steady rate, a long queue, memory (ten minutes)."""
    from parity311.bench.desk import bench_desk
    from parity311.cli.desk import demo_city

    found = bench_desk(
        records or demo_city(("heat", "elevator")), n_open=open_cases, n_complaints=complaints,
        rate=rate, seconds=seconds,
    )  # fmt: skip
    print_figures(found, as_json)


@bench_app.command("run")
def bench_run_command(
    preset: Preset = "small",
    seed: Seed = 7,
    runs: Runs = Path("runs"),
    cities: Cities = Path("cities"),
    as_json: Json = False,
) -> None:
    """Where the time of `parity311 run` goes: seconds by part, and how many are compilation."""
    from parity311.arrays import compile_lightly

    compile_lightly()
    from parity311.bench.whole_way import bench_run
    from parity311.pipelines.progress import progress_bars

    with progress_bars() as progress:
        found = bench_run(preset, seed, runs=runs, cities=cities, progress=progress)
    print_figures(found, as_json)


@bench_app.command("sla")
def bench_sla_command(
    designs: Annotated[
        int, typer.Option(help="Designs side by side.", callback=within(1, 100_000))
    ] = 256,
    threads: Annotated[int, typer.Option(help="Threads.", callback=within(1, 1024))] = 2,
    as_json: Json = False,
) -> None:
    """Service-level designs simulated a second, against a plain simulation of the same rules."""
    from parity311.bench.service_levels import bench_service_levels

    print_figures(bench_service_levels(designs, threads), as_json)


@bench_app.command("scale")
def bench_scale_command(
    pieces: Annotated[
        int, typer.Option(help="Trainings to share out.", callback=within(2, 10_000))
    ] = 4,
    steps: Annotated[
        int, typer.Option(help="Updates of each training.", callback=within(500, MOST_STEPS))
    ] = 200_000,
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Jobs on an engine: overhead a job, efficiency against one worker, memory a worker."""
    from parity311.jobs.choose import choose_engine

    where = choose_engine(engine, address, workers, "")
    from parity311.bench.scale import bench_scale

    print_figures(bench_scale(where, pieces, steps), as_json)
