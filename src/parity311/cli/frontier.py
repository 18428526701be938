"""`parity311 frontier DOMAIN`: parse, call, print. Nothing heavy is imported before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.agents import list_agents
from parity311.cli.options import Json, Runs, seed_option, within
from parity311.limits import MOST_AGENTS, MOST_STEPS


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
    sensitivity: Annotated[
        bool, typer.Option(help="Measure which assumption moves the frontier most.")
    ] = True,
    seed: Annotated[int, seed_option("Of the test episodes.")] = 0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Trade speed, cost and equity: which points nothing beats, to choose one from."""
    from parity311.pipelines.frontier import FrontierConfig, run_frontier
    from parity311.pipelines.progress import progress_bars

    config = FrontierConfig(
        domain=domain,
        city=str(city),
        preferences=preferences,
        seeds=seeds,
        agent=agent,
        steps=steps,
        sweep=str(sweep) if sweep else "",
        estimator=estimator,
        has_sensitivity=sensitivity,
        seed=seed,
    )
    with progress_bars() as progress:
        result = run_frontier(config, runs=runs, progress=progress)
    if as_json:
        from parity311.storage.strict_json import to_json

        typer.echo(to_json(result), nl=False)
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
