"""Runs that belong together: which was made from which, and where the page of each lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity311.errors import Parity311Error
from parity311.report.folder import PAGE_FILE, RUN_FILE, Run, list_runs
from parity311.storage.strict_json import read_json

TITLES = {
    "run": "Report",
    "audit": "Audit: who is served",
    "explain": "What drives the policies",
    "documents": "Documents",
    "frontier": "Frontier",
    "runs compare": "Comparison of two runs",
    "city describe": "City",
    "reporting estimate": "Estimate of incidents",
    "reporting compare": "Estimators compared",
    "reporting validate": "Estimators tested",
    "reporting spatial": "Spatial estimate",
    "reproduce": "Reproduction",
}
"""What a run's page is called in a link, by the command that made it."""
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class RunCard:
    """What a list says of a run, read from run.json alone; its files are not checked."""

    id: str
    kind: str
    """The command that made it, without its arguments."""
    created_at: str
    """Moment in UTC, as ISO 8601."""
    seconds: float
    sources: tuple[str, ...]
    """Runs it was made from."""
    data: tuple[str, ...]
    """Names of the records it used."""
    page: str
    """File in its folder that people open; empty where there is none."""

    @property
    def title(self) -> str:
        """What its page is called in a link."""
        return TITLES.get(self.kind, self.kind)


def read_card(run: Run) -> RunCard:
    """The card of a run."""
    info = run.info
    kind = _kind(str(info.get("command", "")))
    named = (f"{kind}.html", PAGE_FILE)
    return RunCard(
        id=run.id,
        kind=kind,
        created_at=str(info.get("created_at", "")),
        seconds=float(info.get("seconds", 0.0)),
        sources=_sources(info.get("config")),
        data=tuple(str(entry["name"]) for entry in info.get("data", [])),
        page=next((name for name in named if (run.path / name).is_file()), ""),
    )


def list_cards(root: Path) -> tuple[RunCard, ...]:
    """The cards of all runs in a folder, oldest first; one that cannot be read says so."""
    cards = []
    for name in list_runs(root):
        try:
            cards.append(read_card(Run(root / name, read_json(root / name / RUN_FILE))))
        except (Parity311Error, OSError, ValueError, TypeError, KeyError, AttributeError):
            cards.append(RunCard(name, UNREADABLE, "", 0.0, (), (), ""))
    return tuple(cards)


def find_siblings(own: RunCard, cards: Sequence[RunCard]) -> tuple[RunCard, ...]:
    """Runs that `own` was made from, that were made from it, or from the same one; with a page.

    Of several made alike from the same run the newest stands for all, unless `own` is made of them.
    """
    family = {own.id, *own.sources}
    newest: dict[tuple[str, ...], RunCard] = {}
    for card in cards:
        is_kin = card.id in own.sources or family & set(card.sources)
        if card.id != own.id and card.page and is_kin:
            is_source = card.id in own.sources
            newest[(card.id,) if is_source else (card.kind, *card.sources)] = card
    place = {kind: number for number, kind in enumerate(TITLES)}
    ranked = sorted(newest.values(), key=lambda card: (place.get(card.kind, len(place)), card.id))
    return tuple(ranked)


def _kind(command: str) -> str:
    fits = [kind for kind in TITLES if command == kind or command.startswith(f"{kind} ")]
    return max(fits, key=len) if fits else command


def _sources(config: Any) -> tuple[str, ...]:
    """The runs that a configuration names, under `run` or `runs`."""
    if not isinstance(config, dict):
        return ()
    named = [config.get("run"), *(config.get("runs") or ())]
    return tuple(name for name in named if isinstance(name, str) and name)
