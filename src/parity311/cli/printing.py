"""What the command line prints: tables for people, from the same values that ``--json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from parity311.domains import all_domains
from parity311.evaluation.titles import policy_title
from parity311.report.findings import is_known, say_correction
from parity311.report.first_screen import make_cards, say_lead

MOST_OFF = 8
"""Figures off their target that fit on one screen with what stands below them."""


def _number(value: float | dict[str, float] | None, digits: int = 3) -> str:
    """A figure for a table cell, its interval left to the report; a dash where there is none."""
    if isinstance(value, dict):
        value = value["value"]
    if value is None or value != value:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


def domain_cards() -> list[dict[str, Any]]:
    """One card a domain, for the list, the JSON and the documentation."""
    cards = []
    for slug, domain in all_domains().items():
        cards.append(
            {
                "name": slug,
                "title": domain.title,
                "version": domain.version,
                "decision": domain.decision,
                "who_waits": domain.who_waits,
                "not_for": domain.not_for,
                "source": domain.source,
                "features": list(domain.observation_names),
                "observation_sets": {k: list(v) for k, v in domain.observation_sets.items()},
                "geographic_features": list(domain.geographic_features),
                "actions": [action.name for action in domain.actions],
                "extended_actions": [action.name for action in domain.extended_actions],
                "heuristics": sorted(domain.heuristics),
                "ceiling": domain.ceiling,
                "protocol": asdict(domain.protocol) if domain.protocol else None,
                "max_steps": domain.max_steps,
                "agents": list(domain.agents),
                "explainer": domain.explainer,
                "is_playable": domain.is_playable,
            }
        )
    return cards


def print_domains(cards: list[dict[str, Any]]) -> None:
    """Print the domains as a table."""
    table = Table(title=f"{len(cards)} domains", show_lines=True)
    for heading in ("domain", "what is decided", "who waits", "actions", "ceiling"):
        table.add_column(heading, overflow="fold")
    for card in cards:
        actions = ", ".join([*card["actions"], *(f"+{name}" for name in card["extended_actions"])])
        ceiling = card["ceiling"].split(":")[0] or "–"
        table.add_row(card["name"], card["decision"], card["who_waits"], actions or "–", ceiling)
    Console().print(table)


def print_calibration(description: dict[str, Any], show_all: bool = False) -> None:
    """Print the city's figures beside their targets: those that are off, or all with sources."""
    rows = description["calibration"]
    off = [row for row in rows if row["ok"] is False]
    shown = rows if show_all else off[:MOST_OFF]
    what = "the city beside the records it is modelled on"
    table = Table(title=f"{description['city']}: {what if show_all else 'what is off target'}")
    for heading in ("figure", "target", "achieved", "tolerance", "ok", "source"):
        if show_all or heading not in ("ok", "source"):
            table.add_column(heading, overflow="fold")
    for row in shown:
        mark = "yes" if row["ok"] else "[bold red]off[/]" if row["ok"] is False else "n/a"
        figures = (row["name"], _number(row["target"]), _number(row["achieved"]))
        rest = (mark, row["source"]) if show_all else ()
        table.add_row(*figures, str(row["tolerance"]), *rest)
    console = Console()
    if shown:
        console.print(table)
    judged = [row for row in rows if row["ok"] is not None]
    n_ok = sum(bool(row["ok"]) for row in judged)
    console.print(
        f"{n_ok} of {len(judged)} within tolerance; fingerprint {description['fingerprint']}"
    )
    console.print(f"Pictures: {description['report']}")
    if not show_all and len(off) > len(shown):
        console.print(f"{len(off) - len(shown)} more are off target.")
    if not show_all:
        console.print("Every figure with its source: the same command with --all.")


def print_comparison(result: dict[str, Any]) -> None:
    """Print one table a scenario and domain, then where the report is."""
    console = Console()
    for block in result["comparisons"]:
        scenario = f"{block['participation']} participation, {block['capacity']} capacity"
        if block["is_real"]:
            scenario = f"as recorded, incidents by {block['estimator']}"
        table = Table(title=f"{block['domain']} · {scenario}", box=SIMPLE_HEAD, pad_edge=False)
        best = "ceiling" if block["policies"][0]["ceiling"] == "ceiling" else "best\nknown"
        columns = {
            "policy": "policy",
            "reward": "reward",
            "recall": "recall",
            "coverage_gap": "gap",
            "visits_per_complaint": "visits",
            "share_of_way": f"way to\n{best}",
        }
        if not is_known(block):
            del columns["coverage_gap"]
        for heading in columns.values():
            table.add_column(heading, justify="left" if heading == "policy" else "right")
        for row in block["policies"]:
            cells = [_number(row[name]) for name in columns if name != "policy"]
            table.add_row(policy_title(row["policy"]), *cells)
        console.print(table)
    blocks = result["comparisons"]
    advice = (f"{card.title}, {card.subtitle}: {card.verdict}." for card in make_cards(blocks))
    for line in (say_lead(blocks), *advice, say_correction(blocks)):
        if line:
            console.print(line.replace("**", "").replace("`", ""), markup=False, highlight=False)
    console.print(f"run {result['run']}")
    console.print(f"Report: {result['report']}")
