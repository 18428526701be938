"""The commands that learn: agents in one domain, and a whole frontier.

A live bar for a training: steps, reward, and how long it will take.

`parity311 frontier DOMAIN`: parse, call, print. Nothing heavy is imported before it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from parity311.agents import list_agents
from parity311.cli.options import (
    ActionSet,
    Address,
    Denominator,
    EngineName,
    EquityForm,
    EquityMode,
    Json,
    ObservationSet,
    PolicyFolder,
    ReportingEstimator,
    RewardStrata,
    ShardOption,
    Steps,
    Until,
    Workers,
    longer_than_nothing,
    print_json,
    within,
)
from parity311.errors import InputError
from parity311.limits import MOST_AGENTS
from parity311.mdp.equity import EquityTerm
from parity311.records.strata import INCOME

if TYPE_CHECKING:
    from parity311.training.blocks import Progress as Told
from parity311.cli.options import Runs, seed_option
from parity311.limits import MOST_STEPS


def frontier_command(
    domain: Annotated[str, typer.Argument(help="A domain's name; `parity311 domains` has them.")],
    city: Annotated[Path, typer.Option(help="Folder of a city, or of imported records.")],
    preferences: Annotated[
        int,
        typer.Option(help="Preferences on the menu, 2 or more.", callback=within(2, MOST_AGENTS)),
    ] = 128,
    seeds: Annotated[
        int,
        typer.Option(
            help="Seeds of each; intervals need 2 or more.", callback=within(1, MOST_AGENTS)
        ),
    ] = 5,
    agent: Annotated[
        str,
        typer.Option(
            help=f"{list_agents(lambda entry: entry.covers_preferences)} (one network for all), or "
            f"an agent for each: {list_agents(lambda entry: entry.sweeps)}."
        ),
    ] = "conditioned",
    steps: Annotated[
        int, typer.Option(help="Updates of every agent.", callback=within(1, MOST_STEPS))
    ] = 10_000,
    sweep: Annotated[
        Path | None, typer.Option(help="Take the agents from the folder of an earlier sweep.")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(help="How complaints become incidents; the first that works if empty."),
    ] = "",
    equity_mode: EquityMode = "dual",
    equity_form: EquityForm = "max_gap",
    denominator: Denominator = "actionable",
    strata: RewardStrata = INCOME,
    sensitivity: Annotated[
        bool, typer.Option(help="Measure which assumption moves the frontier most.")
    ] = True,
    seed: Annotated[int, seed_option("Of the test episodes.")] = 0,
    runs: Runs = Path("runs"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Trade speed, cost and equity: which points nothing beats, to choose one from."""
    from parity311.jobs.choose import choose_engine
    from parity311.pipelines.frontier import FrontierConfig, run_frontier
    from parity311.pipelines.progress import progress_bars

    where = choose_engine(engine, address, workers, shard)
    config = FrontierConfig(
        domain=domain,
        city=str(city),
        preferences=preferences,
        seeds=seeds,
        agent=agent,
        steps=steps,
        sweep=str(sweep) if sweep else "",
        estimator=estimator,
        term=EquityTerm(equity_mode, equity_form, denominator, strata),
        has_sensitivity=sensitivity,
        seed=seed,
    )
    with progress_bars() as progress:
        result = run_frontier(config, runs=runs, where=where, progress=progress)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from parity311.number_text import format_interval, format_value

    def say(label: str, figure: dict[str, Any] | None, number_format: Any = "percent") -> None:
        if figure is None or figure["value"] is None:
            typer.echo(f"{label}: not reached")
            return
        bounds = format_interval(figure["lower"], figure["upper"], number_format)
        text = format_value(figure["value"], number_format)
        typer.echo(f"{label}: {text}" + (f" ({bounds})" if bounds else ""))

    points = result["points"]
    typer.echo(f"{result['domain']}, {result['setting']}, tested from {result['test_from']}")
    typer.echo(f"incidents by {result['estimator']}")
    for name, reason in result["failed_estimators"].items():
        typer.echo(f"  not by {name}: {reason}")
    typer.echo(f"{result['n_best']} of {len(points)} preferences are beaten by nothing")
    say("hypervolume", result["hypervolume"])
    say("additive ε to cover every rule", result["additive_epsilon"], "number")
    say("price of equity at a gap of 0.05", result["price_at_target"])
    floor = result["floor_at_target"]
    if floor is not None:
        typer.echo(f"floor of that price: {format_value(floor, 'percent')}")
    knee = points[result["knee"]]
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in knee["preference"].items())
    typer.echo(f"nearest to the best of everything: {weights}")
    if result["most_moving"]:
        typer.echo(f"moves it most: {result['most_moving']}")
    typer.echo(f"Page: {result['page']}")


@contextmanager
def training_bar(title: str) -> Iterator[Told]:
    """Give a function that draws the bar; without a terminal it prints a line every tenth."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_reporter(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[reward]:+.4f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(title, total=None, reward=0.0)

        def report(taken: int, total: int, figures: dict[str, float]) -> None:
            bars.update(task, completed=taken, total=total, reward=figures.get("reward", 0.0))

        yield report


def _line_reporter(title: str) -> Told:
    told: set[int] = set()

    def report(taken: int, total: int, figures: dict[str, float]) -> None:
        tenth = 10 * taken // max(total, 1)
        if tenth not in told:
            told.add(tenth)
            reward = figures.get("reward", 0.0)
            print(
                f"  {title}: {taken:,} of {total:,} steps, reward {reward:+.4f}",
                file=sys.stderr,
                flush=True,
            )

    return report


def train_command(
    domain: Annotated[str, typer.Argument(help="A domain's name; `parity311 domains` has them.")],
    agent: Annotated[str, typer.Option(help=f"{list_agents()}.")] = "dqn",
    preference: Annotated[
        str, typer.Option(help="Weights of speed,cost,equity,retention; the domain's if empty.")
    ] = "",
    seeds: Annotated[
        int,
        typer.Option(help="Agents to train, with seeds 0, 1, 2 …", callback=within(1, MOST_AGENTS)),
    ] = 1,
    records: Annotated[
        Path | None,
        typer.Option(help="Folder of records to estimate the process from.", file_okay=False),
    ] = None,
    example: Annotated[bool, typer.Option(help="Train in the domain's small example.")] = False,
    until: Until = None,
    estimator: ReportingEstimator = "exposure_rate",
    steps: Steps = 20_000,
    out: PolicyFolder = Path("runs/training"),
    resume: Annotated[bool, typer.Option(help="Go on from the folder's checkpoint.")] = False,
    slice_seconds: Annotated[
        float,
        typer.Option(
            help="Stop after so many seconds, to go on later with --resume.",
            callback=longer_than_nothing,
        ),
    ] = float("inf"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter, as in discount=0.9; may be repeated."),
    ] = None,
    observation_set: ObservationSet = "",
    action_set: ActionSet = "published",
    equity_mode: EquityMode = "dual",
    equity_form: EquityForm = "max_gap",
    denominator: Denominator = "actionable",
    strata: RewardStrata = INCOME,
    help_settings: Annotated[
        bool, typer.Option(help="Say what hyper-parameters the agent has, and stop.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train agents in a domain; policies are saved, and can decide without JAX."""
    from parity311.agents import explain_settings, get_entry
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
    from parity311.reporting.estimate import check_estimator

    found = get_domain(domain)
    weights = parse_preference(preference)
    term = EquityTerm(equity_mode, equity_form, denominator, strata)
    check_estimator(estimator)
    decisions = None
    if get_entry(agent).needs_log:
        decisions = _log_todays_rule(
            domain, records, weights, observation_set, action_set, estimator
        )
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
            estimator=estimator,
            decisions=decisions,
            resume=resume,
            stop_after_s=slice_seconds,
            settings=parse_settings(settings or []),
            observation_set=observation_set,
            action_set=action_set,
            term=term,
            progress=progress,
        )
    if as_json:
        print_json(summary)
    elif summary["is_whole"]:
        rewards = ", ".join(f"{reward:+.4f}" for reward in summary["reward"])
        # A plan is computed, not trained: it has no last reward.
        ending = f"; reward a step {rewards}" if rewards else ""
        typer.echo(f"{len(summary['policies'])} policies in {out}{ending}")
    else:
        typer.echo(f"Stopped at step {summary['steps']:,}; go on with --resume.")


def _log_todays_rule(
    domain: str,
    records: Path | None,
    weights: Any,
    observation_set: str,
    action_set: str,
    estimator: str,
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
        estimator=estimator,
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


def sweep_command(
    domain: Annotated[str, typer.Argument(help="A domain's name.")],
    agent: Annotated[str, typer.Option(help=f"{list_agents(lambda entry: entry.sweeps)}.")] = "dqn",
    preferences: Annotated[
        int, typer.Option(help="Preferences to train.", callback=within(1, MOST_AGENTS))
    ] = 128,
    seeds: Annotated[
        int, typer.Option(help="Seeds for each.", callback=within(1, MOST_AGENTS))
    ] = 5,
    steps: Steps = 20_000,
    records: Annotated[
        Path | None,
        typer.Option(help="Folder of records; the domain's example if not given.", file_okay=False),
    ] = None,
    until: Until = None,
    estimator: ReportingEstimator = "exposure_rate",
    out: PolicyFolder = Path("runs/sweep"),
    chunk: Annotated[
        int,
        typer.Option(
            help="Agents that learn side by side, on which a result depends; 0: 8 on a processor, "
            "all on a GPU.",
            callback=within(0, MOST_AGENTS),
        ),
    ] = 0,
    resume: Annotated[bool, typer.Option(help="Go on from the folder's checkpoints.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A hyper-parameter, as in discount=0.9.")
    ] = None,
    observation_set: ObservationSet = "",
    action_set: ActionSet = "published",
    equity_mode: EquityMode = "dual",
    equity_form: EquityForm = "max_gap",
    denominator: Denominator = "actionable",
    strata: RewardStrata = INCOME,
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Train a whole frontier: many preferences, several seeds each, on whatever device is there."""
    from parity311.jobs.choose import choose_engine
    from parity311.reporting.estimate import check_estimator
    from parity311.training.train_run import keep_to_one_thread, parse_settings

    where = choose_engine(engine, address, workers, shard)
    check_estimator(estimator)
    keep_to_one_thread()
    from parity311.domains import get_domain
    from parity311.training.frontier import spread_preferences
    from parity311.training.sweep import run_sweep

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
            estimator=estimator,
            settings=parse_settings(settings or []),
            observation_set=observation_set,
            action_set=action_set,
            term=EquityTerm(equity_mode, equity_form, denominator, strata),
            chunk=chunk,
            resume=resume,
            where=where,
            progress=progress,
            tell=lambda line: typer.echo(line, err=True),
        )
    if as_json:
        print_json(summary)
    elif summary["jobs_left"]:
        typer.echo(
            f"{summary['jobs'] - summary['jobs_left']} of {summary['jobs']} chunks are done in "
            f"{out}; run the other shards, then the same command with --resume."
        )
    else:
        typer.echo(
            f"{summary['agents']} agents in {out}, {summary['agent_steps_per_s']:,.0f} agent-steps "
            "a second"
        )
