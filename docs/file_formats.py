"""The reference of file formats: what every file holds, field by field, from the code."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from docs.metrics import attribute_words
from parity311.agents.package import FORMAT_VERSION as PACKAGE_FORMAT
from parity311.agents.package import MANIFEST, OLDEST_READABLE, WEIGHTS, Package
from parity311.audit.spec import AuditSpec
from parity311.feeds import citymap
from parity311.feeds.citymap import REQUIRED_FIELDS, REQUIRED_TRACT_FIELDS
from parity311.pipelines.documents import HUMAN_FIELDS
from parity311.records.schema import (
    DISPOSITION_CLASSES,
    FORMAT_VERSION,
    SERVICE_LEVEL_DAYS,
    TABLES,
    ColumnSpec,
)
from parity311.service_levels.levels import LEVELS_FILE

ROOT = Path(__file__).resolve().parents[1]
MAP_FIELDS = {
    "key": "what tells requests apart",
    "received_at": "day and time it came in",
    "category": "what it is about, as the city names it; `[categories]` gives it a domain",
    "closed_at": "day and time it was closed",
    "status": "how it ended; `[outcomes]` gives it a class",
    "longitude": "degrees",
    "latitude": "degrees",
    "point": "both in one column, in their place: `POINT (-75.2 39.9)`, `(39.9, -75.2)`",
    "tract": "number of the tract it lies in, where there is no place on the map",
    "zip": "postal code",
    "building": "whatever tells buildings apart",
    "channel": "how it came in; `[channels]` gives it one of ours",
    "duplicate": "whether it repeats another",
    "parent": "the request it repeats",
    "geoid": "number of the tract",
    "population": "people",
    "households": "households",
    "median_income": "of households, dollars a year",
    "median_year_built": "of dwellings",
    "district": "shown where New York has boroughs",
    "board": "shown where New York has community boards",
}
"""Fields of a map, in words; a share of a tract says itself what it is."""
POLICY_FIELDS = {
    "software_version": "version that wrote it",
    "schema_version": "version of the records' tables",
    "agent": "agent or rule",
    "domain": "domain",
    "domain_version": "version of the domain; another one is refused",
    "observation_set": "features, by the domain's name for them",
    "observation_names": "the features, in order",
    "action_set": "published or extended",
    "action_names": "the actions, in order",
    "escalating": "whether each action sends somebody",
    "equity_mode": "how equity was paid",
    "equity_form": "which disparity",
    "denominator": "what coverage divides by",
    "strata": "groups whose coverage is compared",
    "preference": "weights of speed, −cost, equity, retention",
    "reward": "the reward as a public statement",
    "saved_on": "day it was written",
    "origin": "records, days and run it comes from",
}
"""Fields of a policy's manifest, in words."""
RUN_FILES = {
    "run.json": "id, what was asked for (`config`), versions, seeds, fingerprint of the records, "
    "size and hash of every file; sealed by its own hash",
    "metrics.json": "every figure ([metrics](metrics.md))",
    "report.html, report.json": "the page, and what it says as data",
    "tables/": "every table of the page as CSV, and what it was made from",
    "pictures/": "every picture as SVG, wide and narrow",
    "policies/": "a package for each policy, by domain and scenario",
    "recommendations.csv": "what the first policy recommends on the last day",
    "audit.html, audit.json": "where the run was audited",
}


def formats_block() -> str:
    """Every format, one section each."""
    sections = (_records, _map, _levels, _agency, _spec, _package, _run)
    return "\n\n".join("\n".join(section()) for section in sections)


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def _records() -> list[str]:
    lines = [
        "## Records folder", "",
        f"Format {FORMAT_VERSION}. `manifest.json` (versions, window, source, size and hash of "
        "every file) and one Parquet file a table, or a domain and table. A synthetic city has "
        "`truth/` beside them, which nothing that trains may read.",
    ]  # fmt: skip
    for name, table in TABLES.items():
        where = f"`{name}/DOMAIN.parquet`" if table.by_domain else f"`{name}.parquet`"
        rows = [_column(column) for column in table.columns]
        lines += ["", f"### {name}", "", f"{where}, one row a `{table.key}`.", ""]
        lines += _rows(("column", "type", "meaning", "allowed"), rows)
    return lines


def _column(column: ColumnSpec) -> tuple[str, ...]:
    ends = [] if column.allowed is None else [", ".join(column.allowed)]
    if column.minimum is not None or column.maximum is not None:
        low = "" if column.minimum is None else f"{column.minimum:g}"
        high = "" if column.maximum is None else f"{column.maximum:g}"
        ends.append(
            f"{low} to {high}" if low and high else f"from {low}" if low else f"up to {high}"
        )
    if column.nullable:
        ends.append("may be empty")
    meaning = column.meaning.replace("|", "/")
    return f"`{column.name}`", column.type_name, meaning, "; ".join(ends)


def _map() -> list[str]:
    def rows(names: tuple[str, ...], needed: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [
            (f"`{one}`", MAP_FIELDS.get(one, one.replace("_", " ")), "yes" if one in needed else "")
            for one in names
        ]

    head = ("field", "meaning", "needed")
    return [
        "## Map of a city's export", "",
        "TOML, drafted by `parity311 records map`; a whole one stands in "
        "[bring your own city](../how-to/bring-your-own-city.md). `[complaints]` and `[tracts]` "
        "give every field the name of a column, or a list of names.", "",
        *_rows(head, rows(citymap.COMPLAINT_FIELDS, REQUIRED_FIELDS)), "",
        "Of the tracts:", "",
        *_rows(head, rows(citymap.TRACT_FIELDS, REQUIRED_TRACT_FIELDS)), "",
        "`[categories]` gives each category `domain` and `severity` (A gravest to D); `[outcomes]` "
        f"each status `class` ({', '.join(DISPOSITION_CLASSES)}) and `visits`; `[channels]` each "
        "channel one of ours; `[city]` has `name`, `source`, `terms` and `time_zone`.",
    ]  # fmt: skip


def _levels() -> list[str]:
    usual = ", ".join(f"{code} {days:g}" for code, days in SERVICE_LEVEL_DAYS.items())
    rows = [
        ("`format`, `format_version`", "what the file is"),
        ("`domain`", "domain it promises for"),
        ("`districts`", "`borough` or `community_board`"),
        ("`share`", "of ALL requests, never visited counted as late"),
        ("`confidence`", "chance that a year keeps it"),
        ("`valid_from`", "a request keeps the promise of the day it was received"),
        ("`[[promise]]` `district`, `category`", "a cell; `*` is every one without its own"),
        ("`[[promise]]` `days`", "calendar days; left out: nothing is promised"),
        ("`[[promise]]` `code`", "severity code of the category"),
        ("`[[design]]`", "budget of a district, priority of a category, what a review keeps"),
    ]
    return [
        f"## {LEVELS_FILE}", "",
        "TOML, written by `parity311 sla promise` and `sla design`; a whole one stands in [set "
        f"service levels](../how-to/set-service-levels.md). Without one, days by code: {usual}.",
        "", *_rows(("field", "meaning"), rows),
    ]  # fmt: skip


def _agency() -> list[str]:
    rows = [(f"`{name}`", label) for name, label in HUMAN_FIELDS.items()]
    return [
        "## agency.toml", "",
        "What only people know, for `parity311 documents --agency agency.toml`: one line of text a "
        "field. What is missing reads so in the documents.", "",
        *_rows(("field", "what is asked"), rows),
    ]  # fmt: skip


def _spec() -> list[str]:
    words = attribute_words(AuditSpec)
    rows = [
        (
            f"`{one.name}`",
            f"`{json.dumps(one.default)}`",
            words.get(one.name, "–").replace("|", "/"),
        )
        for one in dataclasses.fields(AuditSpec)
    ]
    return [
        "## Specification of an audit", "",
        "TOML, for `parity311 audit --spec FILE`; its hash is on the page. Every field has a "
        "default; what may be named is under [metrics](metrics.md#of-an-audit).", "",
        *_rows(("field", "default", "meaning"), rows),
    ]  # fmt: skip


def _package() -> list[str]:
    parts = attribute_words(Package)
    told = [(f"`{name}`", says) for name, says in POLICY_FIELDS.items()]
    return [
        "## Policy package", "",
        f"A folder with `{WEIGHTS}` (arrays) and `{MANIFEST}` (what must be known of them, with "
        f"the hash of the arrays and a seal). Format {PACKAGE_FORMAT}; from {OLDEST_READABLE} on "
        "one can be decided with.", "",
        *_rows(("part", "what"), [(f"`{name}`", says) for name, says in parts.items()]), "",
        *_rows(("field of the manifest", "what"), told),
    ]  # fmt: skip


def _run() -> list[str]:
    return [
        "## Run folder", "",
        "`runs/DATE-TIME-ID/`, written aside and renamed when it is whole; pages are rendered from "
        "it alone.", "", *_rows(("file", "what"), [(f"`{n}`", s) for n, s in RUN_FILES.items()]),
    ]  # fmt: skip
