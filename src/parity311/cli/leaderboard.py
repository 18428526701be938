"""`parity311 leaderboard`: parse, call, print; nothing heavy comes before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parity311.cli.options import Cities, Json, Steps, print_json, within
from parity311.errors import InputError


def leaderboard_command(
    domains: Annotated[
        str, typer.Option(help="Domains, comma-separated; all twelve if empty.")
    ] = "",
    features: Annotated[
        str, typer.Option(help="What policies see: published, ours; both if empty.")
    ] = "",
    policy: Annotated[
        str,
        typer.Option(help="Yours: MODULE:FUNCTION from an observation to an action, or a package."),
    ] = "",
    learner: Annotated[
        str,
        typer.Option(
            help="Yours, learning in every city: MODULE:FUNCTION from an environment to a policy."
        ),
    ] = "",
    seeds: Annotated[
        str,
        typer.Option(help="Cities, as 501-503,507; for yours 2001-2020, which are reserved."),
    ] = "",
    agents: Annotated[
        str | None,
        typer.Option(
            help="Agents of ours to train, comma-separated; beside yours none.",
            show_default="dqn,reinforce",
        ),
    ] = None,
    steps: Steps = 8_000,
    episodes: Annotated[
        int, typer.Option(help="Episodes a city.", callback=within(2, 100_000))
    ] = 64,
    folder: Annotated[
        Path, typer.Option(help="Folder of measured parts; what is there is kept.", file_okay=False)
    ] = Path("runs/leaderboard"),
    cities: Cities = Path("cities"),
    as_json: Json = False,
) -> None:
    """Rank policies by the published reward in cities with known truth, yours among them."""
    from parity311.studies.leaderboard import lanes as choices

    if policy and learner:
        raise InputError("--policy and --learner were given; one of them can be yours.")
    lanes = choices.choose_lanes(domains, features)
    has_guest = bool(policy or learner)
    usual = f"{choices.RESERVED[0]}-{choices.RESERVED[-1]}" if has_guest else choices.USUAL_SEEDS
    chosen = choices.choose_seeds(seeds or usual, has_guest)
    usual_agents = "" if has_guest else ",".join(choices.USUAL_AGENTS)
    names = choices.choose_agents(usual_agents if agents is None else agents)

    from parity311.studies.leaderboard.board import race
    from parity311.studies.leaderboard.guests import open_learner, open_policy

    guest = open_policy(policy) if policy else open_learner(learner) if learner else None
    found = race(
        lanes, chosen, names,
        folder=folder, cities=cities, budget=choices.RaceBudget(steps, episodes), guest=guest,
        make_environment=_make_environment, tell=lambda line: typer.echo(line, err=True),
    )  # fmt: skip
    if as_json:
        print_json(found)
    else:
        _print_board(found)


def _make_environment(slug: str, params: Any, observation_set: str) -> Any:
    """The Gymnasium environment of an estimated process, which pays what an action saved."""
    try:
        from parity311.adapters.environment import ComplaintEnvironment
    except ImportError as error:
        raise InputError(
            "A learner needs Gymnasium, which is not installed; `pip install 'parity311[gym]'`."
        ) from error
    return ComplaintEnvironment(
        slug, params=params, observation_set=observation_set, reward="saved"
    )


def _print_board(found: dict[str, Any]) -> None:
    from parity311.studies.leaderboard.board import row_cells

    console = Console()
    for lane in found["lanes"]:
        table = Table(
            "policy", "reward an episode", "over today's rule", "of the way",
            title=f"{lane['domain']}, {lane['features']} features, {len(lane['cities'])} cities",
        )  # fmt: skip
        for row in lane["rows"]:
            table.add_row(*row_cells(row), style="bold" if row["is_guest"] else None)
        console.print(table)
    typer.echo("Published reward under the truth; in brackets 95 % intervals over cities.")
