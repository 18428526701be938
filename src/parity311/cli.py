"""The command line: parse, call, print. Nothing heavy is imported before a command needs it.

Figures go to standard output (as JSON with ``--json``), progress and errors to standard error. An
error a user can cause is one line and exit code 2, without a traceback.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311 import __version__
from parity311.audit.commands import audit_command
from parity311.errors import InputError, Parity311Error
from parity311.evaluation.off_policy.commands import backtest_command, bench_off_policy_command
from parity311.evaluation.parity_commands import parity_command
from parity311.explain.commands import documents_command, explain_command
from parity311.feeds.commands import fetch_app, records_app
from parity311.lifecycle.frontier_commands import frontier_command
from parity311.reporting.commands import app as reporting_app
from parity311.reproduction.commands import reproduce_command

app = typer.Typer(
    name="parity311",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
city_app = typer.Typer(
    help="Build and describe a synthetic city with known truth.", no_args_is_help=True
)
bench_app = typer.Typer(help="Measure speed and error rates, side by side.", no_args_is_help=True)
app.add_typer(city_app, name="city")
app.add_typer(fetch_app, name="fetch")
app.add_typer(records_app, name="records")
app.add_typer(reporting_app, name="reporting")
app.add_typer(bench_app, name="bench")
app.command("audit")(audit_command)
app.command("backtest")(backtest_command)
bench_app.command("off-policy")(bench_off_policy_command)
app.command("explain")(explain_command)
app.command("frontier")(frontier_command)
app.command("documents")(documents_command)
app.command("reproduce")(reproduce_command)
app.command("parity")(parity_command)

Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Seed = Annotated[int, typer.Option(help="Same seed, same result, byte for byte.")]
Preset = Annotated[str, typer.Option(help="small (200 tracts, 2023-2025) or nyc (2,325 tracts).")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that runs are written to.")]
Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])]


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


def print_json(value: Any) -> None:
    """Print figures as strict JSON: what is not a number is null, never NaN."""
    from parity311.runs.strict_json import to_json

    typer.echo(to_json(value), nl=False)


@city_app.command("build")
def build_command(
    out: Annotated[Path, typer.Option(help="Folder to write the city to.")] = Path("cities/small"),
    preset: Preset = "small",
    seed: Seed = 7,
    participation: Annotated[str, typer.Option(help="measured or strong.")] = "measured",
    capacity: Annotated[str, typer.Option(help="calibrated or scarce.")] = "calibrated",
    date_from: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First day.")
    ] = None,
    date_to: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Day after the last.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the folder if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Build a synthetic city: records an agency would have, and apart from them the truth."""
    from parity311.city.build import build_city
    from parity311.domains import all_domains
    from parity311.lifecycle.progress import progress_bars
    from parity311.records.store import read_manifest

    with progress_bars() as progress:
        folder = build_city(
            tuple(domain.process for domain in all_domains().values()),
            preset=preset,
            seed=seed,
            participation=participation,
            capacity=capacity,
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
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Set the city's figures beside their targets from the records, and draw them."""
    from parity311.lifecycle.describe import describe_and_draw

    description = describe_and_draw(city, runs)
    if as_json:
        print_json(description)
        return
    from parity311.lifecycle.printing import print_calibration

    print_calibration(description)


@app.command("run")
def run_command(
    preset: Preset = "small",
    seed: Seed = 7,
    domains: Annotated[str, typer.Option(help="Domains to take the whole way.")] = "boiler,heat",
    runs: Runs = Path("runs"),
    cities: Annotated[Path, typer.Option(help="Folder that cities are kept in.")] = Path("cities"),
    records: Annotated[
        Path | None, typer.Option(help="Imported records to use instead of synthetic cities.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take domains the whole way: records, correction, learning, comparison, audit, report."""
    from parity311.lifecycle.progress import progress_bars
    from parity311.lifecycle.whole_way import WholeWayConfig, run_whole_way

    config = WholeWayConfig(
        preset=preset,
        seed=seed,
        domains=tuple(domains.split(",")),
        records=str(records) if records else "",
    )
    with progress_bars() as progress:
        result = run_whole_way(config, runs=runs, cities=cities, progress=progress)
    if as_json:
        print_json(result)
        return
    from parity311.lifecycle.printing import print_comparison

    print_comparison(result)


@app.command("train")
def train_command(
    domain: Annotated[str, typer.Argument(help="A domain's name; `parity311 domains` has them.")],
    agent: Annotated[
        str, typer.Option(help="dqn, cql, reinforce, hdqn, td, conditioned, bc or bcq.")
    ] = "dqn",
    preference: Annotated[
        str, typer.Option(help="Weights of speed,cost,equity,retention; the domain's if empty.")
    ] = "",
    seeds: Annotated[int, typer.Option(help="Agents to train, with seeds 0, 1, 2 …", min=1)] = 1,
    records: Annotated[
        Path | None, typer.Option(help="Folder of records to estimate the process from.")
    ] = None,
    example: Annotated[bool, typer.Option(help="Train in the domain's small example.")] = False,
    until: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Learn from records before this day only."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps per environment.", min=1)] = 20_000,
    out: Annotated[Path, typer.Option(help="Folder for policies and checkpoints.")] = Path(
        "runs/training"
    ),
    resume: Annotated[bool, typer.Option(help="Go on from the folder's checkpoint.")] = False,
    slice_seconds: Annotated[
        float, typer.Option(help="Stop after so many seconds, to go on later with --resume.")
    ] = float("inf"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter, as in discount=0.9; may be repeated."),
    ] = None,
    observation_set: Annotated[
        str, typer.Option(help="Features a policy sees; the domain's own choice if empty.")
    ] = "",
    action_set: Annotated[
        str, typer.Option(help="published: the paper's actions; extended: those and ours.")
    ] = "published",
    help_settings: Annotated[
        bool, typer.Option(help="Say what hyper-parameters the agent has, and stop.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train agents in a domain; policies are saved, and can decide without JAX."""
    from parity311.agents import AGENTS, explain_settings
    from parity311.training.train_run import (
        keep_to_one_thread,
        parse_preference,
        parse_settings,
        run_training,
    )

    keep_to_one_thread()
    if help_settings:
        _print_settings(explain_settings(agent), as_json)
        return
    if (records is None) != example:
        raise InputError(
            "Say what to train in: --records FOLDER for a process estimated from records, or "
            "--example for the domain's small one, and not both."
        )
    from parity311.domains import get_domain
    from parity311.training.watching import training_bar

    found = get_domain(domain)
    weights = parse_preference(preference)
    decisions = None
    if agent in AGENTS and AGENTS[agent].needs_log:
        decisions = _log_todays_rule(domain, records, weights, observation_set, action_set)
    with training_bar(f"{agent} in {domain}") as progress:
        summary = run_training(
            found,
            agent,
            out=out,
            preference=weights,
            seeds=range(seeds),
            steps=steps,
            records=records,
            until=until.date() if until else None,
            decisions=decisions,
            resume=resume,
            stop_after_s=slice_seconds,
            settings=parse_settings(settings or []),
            observation_set=observation_set,
            action_set=action_set,
            progress=progress,
        )
    if as_json:
        print_json(summary)
    elif summary["is_whole"]:
        rewards = ", ".join(f"{reward:+.4f}" for reward in summary["reward"])
        typer.echo(f"{len(summary['policies'])} policies in {out}; reward a step {rewards}")
    else:
        typer.echo(f"Stopped at step {summary['steps']:,}; go on with --resume.")


def _log_todays_rule(
    domain: str, records: Path | None, weights: Any, observation_set: str, action_set: str
) -> Any:
    """Decisions of today's rule with a little randomness: what an offline agent learns from."""
    from parity311.adapters.datasets import log_decisions
    from parity311.adapters.setting import make_setting

    setting = make_setting(
        domain,
        records=records,
        preference=weights,
        observation_set=observation_set,
        action_set=action_set,
    )
    rule = setting.harness.domain.heuristics["balanced"](setting.params, setting.harness)
    n_episodes = max(20_000 // setting.harness.horizon, 4)
    return log_decisions(setting, rule, n_episodes=n_episodes)


def _print_settings(settings: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"settings": settings})
        return
    for name, about in settings.items():
        typer.echo(f"{name} = {about['default']}\n    {about['help']}")


@app.command("sweep")
def sweep_command(
    domain: Annotated[str, typer.Argument(help="A domain's name.")],
    agent: Annotated[str, typer.Option(help="dqn, cql, reinforce, hdqn or td.")] = "dqn",
    preferences: Annotated[int, typer.Option(help="Preferences to train.", min=1)] = 128,
    seeds: Annotated[int, typer.Option(help="Seeds for each.", min=1)] = 5,
    steps: Annotated[int, typer.Option(help="Steps per environment.", min=1)] = 20_000,
    records: Annotated[
        Path | None, typer.Option(help="Folder of records; the domain's example if not given.")
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Learn from records before this day only."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for policies and checkpoints.")] = Path(
        "runs/sweep"
    ),
    chunk: Annotated[
        int, typer.Option(help="Agents that learn side by side; 0 lets memory and cores decide.")
    ] = 0,
    resume: Annotated[bool, typer.Option(help="Go on from the folder's checkpoints.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A hyper-parameter, as in discount=0.9.")
    ] = None,
    observation_set: Annotated[
        str, typer.Option(help="Features a policy sees; the domain's own choice if empty.")
    ] = "",
    action_set: Annotated[
        str, typer.Option(help="published: the paper's actions; extended: those and ours.")
    ] = "published",
    as_json: Json = False,
) -> None:
    """Train a whole frontier: many preferences, several seeds each, on whatever device is there."""
    from parity311.training.train_run import keep_to_one_thread, parse_settings

    keep_to_one_thread()
    from parity311.domains import get_domain
    from parity311.training.frontier import spread_preferences
    from parity311.training.sweep import run_sweep
    from parity311.training.watching import training_bar

    grid = spread_preferences(get_domain(domain).preference, preferences)
    with training_bar(f"{agent} in {domain}, {len(grid)} × {seeds}") as progress:
        summary = run_sweep(
            domain,
            agent,
            grid,
            range(seeds),
            steps,
            out=out,
            records=records,
            until=until.date() if until else None,
            settings=parse_settings(settings or []),
            observation_set=observation_set,
            action_set=action_set,
            chunk=chunk,
            resume=resume,
            progress=progress,
            tell=lambda line: typer.echo(line, err=True),
        )
    if as_json:
        print_json(summary)
    else:
        typer.echo(
            f"{summary['agents']} agents in {out}, {summary['agent_steps_per_s']:,.0f} agent-steps "
            "a second"
        )


@bench_app.command("train")
def bench_train_command(
    steps: Annotated[int, typer.Option(help="Steps each library learns for.", min=500)] = 3000,
    rounds: Annotated[int, typer.Option(help="Rounds; the median counts.", min=1)] = 3,
    as_json: Json = False,
) -> None:
    """Training speed, against stable-baselines3, d3rlpy and tianshou in their environments."""
    from parity311.training.benchmark import bench_train

    _print_figures(bench_train(steps, rounds), as_json)


@bench_app.command("quality")
def bench_quality_command(
    folder: Annotated[Path, typer.Option(help="Folder of params, measured parts and results.")] = (
        Path("runs/quality")
    ),
    domains: Annotated[
        list[str] | None,
        typer.Option(help="A domain or setting; may be repeated. All if not given."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Agents trained in every city.", min=2)] = 5,
    city_seeds: Annotated[str, typer.Option(help="Seeds of the cities.")] = "871,872,873,874,875",
    cities: Annotated[Path, typer.Option(help="Where cities are, or will be.")] = Path("cities"),
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only estimate the params; training can travel.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.", min=0)] = 0,
    slice_seconds: Annotated[
        float, typer.Option(help="Stop after so many seconds; the same command goes on.")
    ] = float("inf"),
    as_json: Json = False,
) -> None:
    """How far agents get: learned in the estimated process, scored under the truth (hours)."""
    from parity311.training.train_run import keep_to_one_thread

    keep_to_one_thread()
    from parity311.evaluation.quality_bench import bench_quality

    found = bench_quality(
        folder,
        cities,
        settings=domains,
        n_agents=seeds,
        city_seeds=city_seeds,
        only_prepare=prepare,
        n_workers=workers,
        stop_after_s=slice_seconds,
        tell=lambda line: typer.echo(line, err=True),
    )
    if as_json or prepare:
        print_json(found)
    else:
        from parity311.evaluation.quality_bench import verdict_lines

        typer.echo("\n".join(verdict_lines(found)))


@bench_app.command("frontier")
def bench_frontier_command(
    steps: Annotated[int, typer.Option(help="Updates of every agent.", min=500)] = 10_000,
    seeds: Annotated[int, typer.Option(help="Seeds of both.", min=1)] = 3,
    as_json: Json = False,
) -> None:
    """One conditioned network for 128 boiler settings, against agents trained one by one."""
    from parity311.training.train_run import keep_to_one_thread

    keep_to_one_thread()
    from parity311.training.frontier_benchmark import bench_frontier

    _print_figures(bench_frontier(steps, seeds), as_json)


@bench_app.command("records")
def bench_records_command(
    rows: Annotated[int, typer.Option(help="Complaints to generate and import.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Import and features of 311 rows, against pandas."""
    from parity311.feeds.benchmark import bench_records

    _print_figures(bench_records(rows), as_json)


@bench_app.command("audit")
def bench_audit_command(as_json: Json = False) -> None:
    """How often the audit errs, on simulated cities whose gap is known."""
    from parity311.audit.benchmark import bench_audit

    _print_figures(bench_audit(), as_json)


@bench_app.command("reporting")
def bench_reporting_command(
    incidents: Annotated[int, typer.Option(help="Reported incidents, at most.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """The default correction for under-reporting: seconds by number of incidents."""
    from parity311.reporting.benchmark import bench_reporting

    _print_figures(bench_reporting(incidents), as_json)


@bench_app.command("shapley")
def bench_shapley_command(as_json: Json = False) -> None:
    """Exact Shapley values, against shap's exact explainer."""
    from parity311.explain.benchmark import bench_shapley

    _print_figures(bench_shapley(), as_json)


@bench_app.command("env")
def bench_env_command(
    domains: Annotated[str, typer.Option(help="Domains, comma-separated; all if empty.")] = "",
    as_json: Json = False,
) -> None:
    """Environment steps per second: the pure step, and through the adapters."""
    from parity311.adapters.benchmark import measure_domains

    chosen = tuple(name.strip() for name in domains.split(",") if name.strip())
    _print_figures({"domains": measure_domains(chosen)}, as_json)


def _print_figures(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(figures)
        return
    for name, value in figures.items():
        typer.echo(f"{name}: {value}")


@app.command("domains")
def domains_command(as_json: Json = False) -> None:
    """List the domains: what is decided, who waits, where the data comes from."""
    from parity311.lifecycle.printing import domain_cards, print_domains

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
    from parity311.runs.report import render_report
    from parity311.runs.store import open_run

    typer.echo(str(render_report(open_run(run, runs).path)))


def main() -> None:
    """Entry point: run a command; print a user's error as one line and exit with 2."""
    try:
        app()
    except Parity311Error as error:
        message = " ".join(str(error).split())
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": message}))
        typer.echo(f"error: {message}", err=True)
        sys.exit(2)
