"""The report page, rendered from a run's folder alone: same folder, same bytes."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from parity311.errors import RunError
from parity311.number_text import (
    MISSING_TEXT,
    format_interval,
    format_seconds,
    format_value,
    is_missing,
)
from parity311.report.folder import REPORT_FILE, TABLES_FOLDER, Run, read_run_folder
from parity311.report.glossary import link_words, used_words, word_anchor
from parity311.report.pictures.style import DARK, LIGHT, picture_css
from parity311.report.pictures.svg import ID_PREFIX
from parity311.report.sections import (
    Column,
    KeyFigure,
    Picture,
    Report,
    TableView,
    check_parts,
    report_from_plain,
    used_tables,
)
from parity311.report.siblings import find_siblings, list_cards, read_card
from parity311.storage import locks
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.strict_json import read_json, to_json

SYNTHETIC_STATEMENT = (
    "Every figure on this page comes from a generated city, made so that the truth is known. "
    "It is not New York's record and says nothing about any real place or office."
)
REAL_STATEMENT = "The figures on this page come from imported complaint records."
UNKNOWN_STATEMENT = "This run did not record which data it used."
SIBLINGS = re.compile(r"<!-- siblings -->.*?<!-- end of siblings -->\n", re.DOTALL)
"""Where a page links to those that belong to it; written anew when one is added."""


@dataclass(frozen=True)
class CellView:
    """A table cell ready to print."""

    text: str
    interval: str
    is_number: bool
    is_missing: bool


@dataclass(frozen=True)
class TablePage:
    """A table ready to print."""

    number: int
    columns: tuple[Column, ...]
    rows: tuple[tuple[CellView, ...], ...]
    n_rows: int
    has_numbers: tuple[bool, ...]
    """By column, whether any cell holds a number: such columns are set flush right."""
    row_title: int
    """Index of the column that titles the rows."""
    path: str


def render_report(run_path: str | Path) -> Path:
    """Render report.html of a complete run again and return where it lies."""
    return write_page(read_run_folder(Path(run_path)))


def write_page(run: Run) -> Path:
    """Render the page of a run and put it in place in one step."""
    page = render_page(run)
    with telling_disk_errors(run.page_path):
        return write_text_aside(run.page_path, page)


def render_page(run: Run) -> str:
    """Return the whole page as HTML."""
    report = report_from_plain(read_json(run.path / REPORT_FILE))
    check_parts(report, run.table_names, run.picture_names)
    css = _page_css()
    picture_numbers, table_numbers = count(1), count(1)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            run=run,
            info=run.info,
            css=Markup(css),
            words=_words_of(report),
            style_hash=digest,
            anchors=name_anchors([section.heading for section in report.sections]),
            provenance=describe_data(run.info),
            siblings=find_siblings(read_card(run), list_cards(run.path.parent)),
            config_text=to_json(run.config),
            table=lambda view: prepare_table(run, view, next(table_numbers)),
            svg=lambda picture: embed_pictures(run, picture, next(picture_numbers)),
        )
    )


def link_siblings(path: Path) -> None:
    """Write the links between the page of a run and those that belong to it, in all of them."""
    root = path.parent
    template = _environment().get_template("siblings.html.j2")
    with locks.hold(root):
        cards = list_cards(root)
        own = next(card for card in cards if card.id == path.name)
        for card in (own, *find_siblings(own, cards)):
            links = template.render(siblings=find_siblings(card, cards))
            for page in sorted((root / card.id).glob("*.html")):
                text = page.read_text(encoding="utf-8")
                linked = SIBLINGS.sub(lambda _, links=links: links, text, count=1)
                if linked != text:
                    write_text_aside(page, linked)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("parity311.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain_words"] = mark_words
    environment.filters["linked_words"] = lambda text: link_words(mark_words(text))
    environment.filters["word_anchor"] = word_anchor
    environment.filters["seconds"] = format_seconds
    environment.filters["figure_value"] = _figure_value
    environment.filters["figure_interval"] = _figure_interval
    return environment


def _page_css() -> str:
    """Return the one style sheet: the page's own and the pictures'; its hash is in the policy."""
    own = _environment().get_template("report.css.j2").render(light=LIGHT, dark=DARK)
    return own + picture_css()


def mark_words(text: str) -> Markup:
    """Escape a text and turn its `**strong**` and `` `code` `` marks into HTML."""
    safe = escape(text)
    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", safe))


def _words_of(report: Report) -> dict[str, str]:
    """What the linked words of a page mean."""
    texts = [
        *(line for answer in report.answers for line in answer.lines),
        *(answer for card in report.cards for _, answer in card.rows),
        *(line for section in report.sections for line in section.text),
    ]
    return used_words(texts)


def name_anchors(headings: list[str]) -> list[str]:
    """Return a distinct anchor per heading, readable in an address."""
    anchors: list[str] = []
    for heading in headings:
        stem = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"
        anchor, count = stem, 1
        while anchor in anchors or anchor in ("main", "contents", "run", "words"):
            count += 1
            anchor = f"{stem}-{count}"
        anchors.append(anchor)
    return anchors


def describe_data(info: dict[str, Any]) -> dict[str, Any]:
    """Return the label, the sentence and the data entries that stand at the top of the page."""
    entries = info.get("data", [])
    kinds = {bool(entry["is_synthetic"]) for entry in entries}
    if not kinds:
        return {"tag": "Data not recorded", "text": UNKNOWN_STATEMENT, "entries": []}
    if kinds == {True}:
        return {"tag": "Synthetic city", "text": SYNTHETIC_STATEMENT, "entries": entries}
    if kinds == {False}:
        return {"tag": "Imported records", "text": REAL_STATEMENT, "entries": entries}
    mixed = "Some figures come from imported records, others from a generated city, as listed here."
    return {"tag": "Imported and synthetic", "text": mixed, "entries": entries}


def embed_pictures(run: Run, picture: Picture, number: int) -> dict[str, Markup | None]:
    """Return the wide and, where there is one, the narrow picture as inline SVG.

    `number` counts the pictures of the page: ids stay distinct where one is shown twice.
    """
    embedded: dict[str, Markup | None] = {}
    for version in ("wide", "narrow"):
        svg = run.picture(picture.name, is_narrow=version == "narrow")
        prefix = f"picture_{number}_{version}_"
        embedded[version] = None if svg is None else embed_svg(svg, prefix, picture.alt)
    return embedded


def embed_svg(svg: str, prefix: str, alt: str) -> Markup:
    """Drop the picture's own style (the page has it), rename its ids, put in the words."""
    body = re.sub(r"<style>.*?</style>", "", svg, count=1, flags=re.DOTALL)
    if alt:
        text = escape(alt)
        body = re.sub(
            r"(<desc[^>]*>).*?(</desc>)",
            lambda match: f"{match[1]}{text}{match[2]}",
            body,
            count=1,
            flags=re.DOTALL,
        )
    attribute = re.compile(r'(\b(?:id|aria-labelledby|fill)="[^"]*")')
    return Markup(attribute.sub(lambda m: m[1].replace(ID_PREFIX, prefix), body).strip())


def prepare_table(run: Run, view: TableView, number: int) -> TablePage:
    """Read a table and write its cells; `number` counts the tables of the page."""
    stored = run.table(view.name)
    columns = view.columns or tuple(Column(name, name) for name in stored.column_names)
    check_columns(view, stored.column_names)
    rows = stored.slice(0, view.max_rows).to_pylist()
    cells = tuple(tuple(_write_cell(row, column) for column in columns) for row in rows)
    names = [column.name for column in columns]
    row_title = names.index(view.row_title) if view.row_title in names else 0
    has_numbers = tuple(any(row[i].is_number for row in cells) for i in range(len(columns)))
    path = f"{TABLES_FOLDER}/{view.name}"
    return TablePage(number, columns, cells, stored.num_rows, has_numbers, row_title, path)


def check_columns(view: TableView, stored: list[str]) -> None:
    """Raise a `RunError` where a view names a column its table does not have."""
    for column in view.columns:
        for name in filter(None, (column.name, column.lower, column.upper, column.reason)):
            if name not in stored:
                raise RunError(
                    f"The report shows column {name!r} of table {view.name!r}, which has "
                    f"{', '.join(stored)}; name one of these."
                )


def _write_cell(row: dict[str, Any], column: Column) -> CellView:
    value = row[column.name]
    if is_missing(value):
        reason = row.get(column.reason) if column.reason else None
        text = f"{MISSING_TEXT}: {reason}" if reason else MISSING_TEXT
        return CellView(text, "", is_number=False, is_missing=True)
    interval = ""
    if column.lower and column.upper:
        interval = format_interval(
            row[column.lower], row[column.upper], column.number_format, column.decimals
        )
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = format_value(value, column.number_format, column.decimals)
    return CellView(text, interval, is_number and column.number_format != "text", False)


def _figure_value(figure: KeyFigure) -> str:
    text = format_value(figure.value, figure.number_format, figure.decimals)
    return f"{text} {figure.unit}" if figure.unit and not is_missing(figure.value) else text


def _figure_interval(figure: KeyFigure) -> str:
    lower, upper = figure.interval or (None, None)
    return format_interval(lower, upper, figure.number_format, figure.decimals)


def check_report(report: Report, stored_columns: dict[str, list[str]], pictures: list[str]) -> None:
    """Check that a report can be rendered from what a run has stored so far."""
    check_parts(report, list(stored_columns), pictures)
    for view in used_tables(report):
        check_columns(view, stored_columns[view.name])
