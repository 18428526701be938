"""Commands about runs that are there: list them, set two side by side, open a page."""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parity311.cli.options import Json, Runs, print_json

if TYPE_CHECKING:
    from parity311.report.siblings import RunCard

runs_app = typer.Typer(help="List runs, or set two side by side.", invoke_without_command=True)

NEWEST = 15
"""Runs that fit on one screen."""


@runs_app.callback()
def list_command(
    context: typer.Context,
    show_all: Annotated[bool, typer.Option("--all", help="List every run.")] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs that are there, newest first."""
    if context.invoked_subcommand is not None:
        return
    from parity311.report.siblings import list_cards

    cards = list_cards(runs)[::-1]
    if as_json:
        print_json({"runs": [asdict(card) for card in cards]})
        return
    if not cards:
        typer.echo(f"{runs} holds no complete run; `parity311 run` makes one.")
        return
    _print_cards(cards if show_all else cards[:NEWEST])
    if len(cards) > NEWEST and not show_all:
        typer.echo(f"{len(cards) - NEWEST} older: the same command with --all.")
    typer.echo(f"Next: parity311 open {next((c.id for c in cards if c.page), cards[0].id)}")


@runs_app.command("compare")
def compare_command(
    first: Annotated[str, typer.Argument(help="A run's id, the beginning of it, or a folder.")],
    second: Annotated[str, typer.Argument(help="Another run of the same kind.")],
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Set two runs of one kind side by side: what both have figures of, as a page."""
    from parity311.pipelines.compare_runs import compare_runs
    from parity311.report.folder import open_run

    result = compare_runs(open_run(first, runs), open_run(second, runs), root=runs)
    if as_json:
        print_json(result)
        return
    typer.echo(result["summary"].replace("**", ""))
    typer.echo(f"Page: {result['page']}")


def open_command(
    run: Annotated[
        str, typer.Argument(help="A run's id, the beginning of it, a folder, or latest.")
    ] = "latest",
    runs: Runs = Path("runs"),
) -> None:
    """Open a run's page in the browser, and print where it lies; the newest if none is named."""
    from parity311.errors import RunError
    from parity311.report.folder import LATEST, open_run
    from parity311.report.siblings import list_cards, read_card

    with_page = [card.id for card in list_cards(runs) if card.page] if run == LATEST else []
    opened = open_run(runs / with_page[-1] if with_page else run, runs)
    card = read_card(opened)
    if not card.page:
        raise RunError(
            f"Run {card.id} has no page (made by `{card.kind}`); `parity311 runs` lists others."
        )
    page = opened.path / card.page
    if _has_browser():
        webbrowser.open(page.resolve().as_uri())
    typer.echo(str(page))


def _has_browser() -> bool:
    """Whether a browser with a window can be started; one in the terminal would take it over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def _print_cards(cards: tuple[RunCard, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from parity311.number_text import format_seconds

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("run", "made by", "of", "took"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "took" else "left")
    for card in cards:
        of = ", ".join(card.sources or card.data)
        table.add_row(card.id, card.kind, of, format_seconds(card.seconds))
    Console().print(table)
