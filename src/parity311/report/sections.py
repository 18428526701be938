"""What a report says, as data: sections, pictures, tables and key figures.

The pipeline builds a `Report`, the run stores it as report.json, and `report` renders the page.
Texts are plain words; `**strong**` and `` `code` `` are the only marks they may carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from parity311.errors import RunError
from parity311.number_text import NumberFormat

_STRICT = ConfigDict(extra="forbid")
"""Without it an unknown key in report.json would vanish silently, in nested parts too."""


@dataclass(frozen=True)
class Column:
    """One column of a table on the page."""

    __pydantic_config__ = _STRICT

    name: str
    """Column of the stored table."""
    title: str
    unit: str = ""
    number_format: NumberFormat = "number"
    decimals: int = -1
    """Digits after the point; below zero: as many as the format suggests."""
    lower: str = ""
    """Column with the lower end of the interval, shown behind the value."""
    upper: str = ""
    reason: str = ""
    """Column that says why a value is missing, shown in its place."""


@dataclass(frozen=True)
class TableView:
    """How a stored table is shown; without columns, all of them under their own names."""

    __pydantic_config__ = _STRICT

    name: str
    columns: tuple[Column, ...] = ()
    caption: str = ""
    max_rows: int = 60
    """Rows on the page; the stored file holds all."""
    row_title: str = ""
    """Column whose cells title the rows; the first one where empty."""


@dataclass(frozen=True)
class Picture:
    """A stored picture with what it shows, the same in words, and its figures as a table."""

    __pydantic_config__ = _STRICT

    name: str
    caption: str
    """What to see in it: a sentence for everybody."""
    alt: str
    """The picture in words, for who cannot see it."""
    table: TableView
    title: str = ""
    """What is drawn: a short line above the picture."""


@dataclass(frozen=True)
class KeyFigure:
    """One number that matters, with its interval and what it means."""

    __pydantic_config__ = _STRICT

    label: str
    value: float | int | str | None
    interval: tuple[float | None, float | None] | None = None
    note: str = ""
    number_format: NumberFormat = "number"
    decimals: int = -1
    unit: str = ""
    tone: Literal["neutral", "good", "bad", "unsure"] = "neutral"
    """Shown by a mark and a word, not by colour alone."""


@dataclass(frozen=True)
class Card:
    """One setting on the first screen: who, what, at what price, and what follows."""

    __pydantic_config__ = _STRICT

    title: str
    rows: tuple[tuple[str, str], ...]
    """A question and its answer each, in plain words."""
    verdict: str = ""
    """What follows, in a few words: the line that stands out."""
    subtitle: str = ""
    tone: Literal["neutral", "good", "bad", "unsure"] = "neutral"


@dataclass(frozen=True)
class Answer:
    """A question that the whole page answers, in a few short lines."""

    __pydantic_config__ = _STRICT

    question: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Download:
    """A file beside the page."""

    __pydantic_config__ = _STRICT

    label: str
    path: str
    """Relative to the page."""


@dataclass(frozen=True)
class Section:
    """A heading, its finding in plain words, then figures, pictures, tables and limits."""

    __pydantic_config__ = _STRICT

    heading: str
    text: tuple[str, ...] = ()
    """Paragraphs; the first is the finding and stands above the pictures."""
    figures: tuple[KeyFigure, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[TableView, ...] = ()
    notes: tuple[str, ...] = ()
    """Limits and definitions, in smaller print."""
    is_grid: bool = False
    """Whether pictures stand side by side, each as narrow as on a phone."""
    is_folded: bool = False
    """Whether only the heading shows until somebody opens it."""


@dataclass(frozen=True)
class Report:
    """A whole page."""

    __pydantic_config__ = _STRICT

    title: str
    summary: tuple[str, ...]
    """What was found, first sentence first."""
    sections: tuple[Section, ...]
    figures: tuple[KeyFigure, ...] = ()
    """The few numbers to remember, at the top."""
    pictures: tuple[Picture, ...] = ()
    """The picture to remember, below them."""
    cards: tuple[Card, ...] = ()
    """Settings side by side, at the top."""
    answers: tuple[Answer, ...] = ()
    """What holds for all of them, below the cards."""
    tables: tuple[TableView, ...] = ()
    """Small tables that belong to the first screen."""
    downloads: tuple[Download, ...] = ()
    """Files to take along, named at the top."""
    language: str = "en"


_ADAPTER = TypeAdapter(Report)


def report_from_plain(plain: Any) -> Report:
    """Check and build a report from what report.json holds."""
    try:
        return _ADAPTER.validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the report"
        raise RunError(
            f"report.json is not a report: {where}: {first['msg'].lower()} "
            f"(given {first['input']!r:.60}); write it with parity311.report.sections."
        ) from error


def used_tables(report: Report) -> tuple[TableView, ...]:
    """Return every table a report shows, those under pictures included."""
    views = [*report.tables, *(picture.table for picture in report.pictures)]
    for section in report.sections:
        views += [picture.table for picture in section.pictures]
        views += section.tables
    return tuple(views)


def used_pictures(report: Report) -> tuple[Picture, ...]:
    """Return every picture a report shows."""
    below = (picture for section in report.sections for picture in section.pictures)
    return (*report.pictures, *below)


def check_parts(report: Report, tables: Sequence[str], pictures: Sequence[str]) -> None:
    """Raise a `RunError` where a report names a table or picture that is not stored."""
    for kind, used, stored in (
        ("table", [view.name for view in used_tables(report)], tables),
        ("picture", [picture.name for picture in used_pictures(report)], pictures),
    ):
        for name in used:
            if name not in stored:
                listed = ", ".join(sorted(stored)) or "none"
                raise RunError(
                    f"The report shows {kind} {name!r}, which was not stored; stored: {listed}. "
                    f"Add it to the run first."
                )
