"""Another city's columns and codes, described in one TOML file.

The file says which of the source's columns is the key, the time, the category and so on, which
category belongs to which domain, and what its closing statuses mean. Everything after that is the
same as for New York.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString
from zoneinfo import available_timezones

import duckdb
import numpy as np
import pyarrow as pa

from parity311.errors import InputError, unknown_name
from parity311.feeds import parsing as p
from parity311.feeds.formats import Format
from parity311.feeds.judge import OUT_OF_SCOPE, QUARANTINE
from parity311.feeds.recognise import FileLayout
from parity311.feeds.staging import Clock, rows_of, staged
from parity311.feeds.tracts import SHARES, TractFigures, check_every_line, checked_figures
from parity311.records.schema import CHANNELS, DISPOSITION_CLASSES, SEVERITIES
from parity311.records.sql import connect, identifier, literal, literals
from parity311.storage.toml_files import read_toml

COMPLAINT_FIELDS = (
    "key",
    "received_at",
    "category",
    "closed_at",
    "status",
    "longitude",
    "latitude",
    "point",
    "tract",
    "zip",
    "building",
    "channel",
    "duplicate",
    "parent",
)
REQUIRED_FIELDS = ("key", "received_at", "category", "longitude", "latitude")
"""Fields of complaints that a map needs; ``point`` or ``tract`` may stand for the last two."""
TRACT_FIELDS = (
    "geoid",
    "population",
    "households",
    "median_income",
    "median_year_built",
    "district",
    "board",
    *SHARES,
)
REQUIRED_TRACT_FIELDS = ("geoid", "population", "households", "median_income")
TABLES = (
    "config_version",
    "city",
    "complaints",
    "categories",
    "outcomes",
    "channels",
    "tracts",
    "boundaries",
)
CITY_KEYS = ("name", "source", "terms", "time_zone")
CONFIG_VERSION = 1


@dataclass(frozen=True)
class CityMap:
    """One city's columns and codes."""

    name: str
    source: str
    terms: str
    complaints: Mapping[str, tuple[str, ...]]
    """Canonical field -> columns of the source that may hold it: exports of several years."""
    categories: Mapping[str, Mapping[str, str]]
    """Category of the source -> {domain, severity}."""
    tracts: Mapping[str, tuple[str, ...]]
    date_format: str | None = None
    time_zone: str | None = None
    """Clock that times with a UTC offset are turned to, like America/Chicago."""
    day_first: bool | None = None
    """Whether dates like 03/04/2024 have the day first; None: not said."""
    closed_when: tuple[str, ...] = ()
    """Statuses under which ``closed_at`` is a closing; under any if empty. Open311 has the last
    change in one column, which is the closing of what is closed."""
    duplicate_values: tuple[str, ...] = ("true",)
    outcomes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Status of the source -> {class, visits}."""
    channels: Mapping[str, str] = field(default_factory=dict)
    boundary_id: str | None = None

    @property
    def complaint_format(self) -> Format:
        """How the city's complaint files are recognised."""
        title = f"complaints of {self.name}"
        needed = needed_fields(self.complaints)
        return _format("mapped", title, self.complaints, COMPLAINT_FIELDS, needed)

    @property
    def tract_format(self) -> Format:
        """How the city's table of tracts is recognised."""
        title = f"tracts of {self.name}"
        return _format("mapped_tracts", title, self.tracts, TRACT_FIELDS, REQUIRED_TRACT_FIELDS)

    @property
    def type_codes(self) -> pa.Table:
        """Category, domain, severity."""
        rows = [row for row in self.categories.items() if row[1]["domain"] != OUT_OF_SCOPE]
        return pa.table(
            {
                "category": [name for name, _ in rows],
                "domain": [entry["domain"] for _, entry in rows],
                "severity": [entry["severity"] for _, entry in rows],
            }
        )

    @property
    def outcome_codes(self) -> pa.Table:
        """Status, outcome class, visits."""
        rows = self.outcomes.items()
        return pa.table(
            {
                "status": pa.array([name for name, _ in rows], pa.string()),
                "disposition_class": pa.array([entry["class"] for _, entry in rows], pa.string()),
                "n_visits": pa.array([entry.get("visits", 0) for _, entry in rows], pa.int16()),
            }
        )

    def stage_query(
        self, layouts: Sequence[FileLayout], time: Clock = p.timestamp
    ) -> LiteralString:
        """SQL of the staged rows of files of one header; ``time`` reads dates of no own format."""
        source = rows_of(layouts)
        if self.date_format is not None:
            time = self._time
        inner = f"""
SELECT *, {time("received_at")} AS received, {time("closed_at")} AS closed FROM ({source})"""
        cases = " ".join(
            f"WHEN {literal(name.lower())} THEN {literal(value)}"
            for name, value in self.channels.items()
        )
        states = literals(name.lower() for name in self.closed_when)
        closings: LiteralString = "closed"
        if self.closed_when:
            closings = f"CASE WHEN lower(trim(status)) IN ({states}) THEN {p.known('closed')} END"
        channel = f"CASE lower(trim(channel)) {cases} ELSE 'UNKNOWN' END" if cases else "'UNKNOWN'"
        return staged(
            {
                "key": p.trimmed("key"),
                "agency": "''",
                "kind": f"CASE WHEN {self._is_out_of_scope} THEN NULL "
                "ELSE coalesce(upper(trim(category)), '') END",
                "detail": "''",
                "received_at": "received",
                "received_text": "CASE WHEN received IS NULL THEN left(received_at, 40) END",
                "closed_at": p.known("closed") if not self.closed_when else closings,
                "is_closing_unreadable": "closed IS NULL AND closed_at IS NOT NULL",
                "outcome": p.trimmed("status"),
                "is_closed": f"{closings} IS NOT NULL",
                "zip": p.zip_code("zip"),
                "area": f"nullif({p.geoid('tract')}, '')",
                "longitude": self._coordinate("longitude", "latitude"),
                "latitude": self._coordinate("latitude", "longitude"),
                "building": p.trimmed("building"),
                "channel": channel,
                "is_duplicate": self._is_duplicate(layouts[0].columns),
                "parent_key": p.trimmed("parent"),
                "updated_at": "closed",
            },
            inner,
        )

    def _coordinate(self, name: LiteralString, other: LiteralString) -> LiteralString:
        """SQL: degrees from a column of their own, else from the column of points."""
        own = p.coordinate(name, other)
        if "point" not in self.complaints:
            return own
        x, y = p.point("point", name), p.point("point", other)
        return f"coalesce({own}, CASE WHEN {x} <> 0 OR {y} <> 0 THEN {x} END)"

    @property
    def _is_out_of_scope(self) -> LiteralString:
        """SQL: whether the map says of a category that no domain decides about it."""
        names = [
            name.strip().upper()
            for name, entry in self.categories.items()
            if entry["domain"] == OUT_OF_SCOPE
        ]
        return f"upper(trim(category)) IN ({literals(names)})" if names else "false"

    def absent_columns(self, layout: FileLayout) -> dict[str, str]:
        """Field -> columns that the map gives and of which the file has none."""
        return {
            name: " or ".join(given)
            for name, given in self.complaints.items()
            if name not in layout.columns
        }

    def _is_duplicate(self, found: Collection[str]) -> LiteralString:
        """SQL: whether the source marks a row as a duplicate; null where it marks none at all.

        A row without a mark is an original only in a source that marks: elsewhere nobody knows.
        ``found`` are the fields that the file has.
        """
        signs: list[LiteralString] = []
        if "duplicate" in found:
            values = literals(value.lower() for value in self.duplicate_values)
            signs.append(f"coalesce(lower(trim(duplicate)) IN ({values}), false)")
        elif "parent" in found:
            signs.append(f"coalesce({p.trimmed('parent')} <> trim(key), false)")
        closings = [name for name, entry in self.outcomes.items() if entry["class"] == "duplicate"]
        if closings and "status" in found:
            values = literals(name.upper() for name in closings)
            signs.append(f"coalesce(upper(trim(status)) IN ({values}), false)")
        return " OR ".join(signs) or "NULL"

    def _time(self, column: LiteralString) -> LiteralString:
        """SQL of a date in the map's own format."""
        assert self.date_format is not None
        read = f"try_strptime(trim({column}), {literal(self.date_format)})"
        if self.time_zone is not None and "%z" in self.date_format.lower():
            return f"{read} AT TIME ZONE {literal(self.time_zone)}"
        return read

    def read_figures(self, layout: FileLayout) -> TractFigures:
        """The city's figures by tract."""
        numbers = [n for n in TRACT_FIELDS if n in self.tracts and n not in ("geoid", "district")]
        chosen = ", ".join(map(identifier, numbers))
        district = "trim(district)" if "district" in self.tracts else literal(self.name)
        with connect() as connection:
            table = connection.sql(
                f"SELECT {p.geoid('geoid')} AS geoid, {district} AS district, {chosen} "
                f"FROM ({rows_of([layout])}) WHERE {p.trimmed('geoid')} IS NOT NULL ORDER BY 1"
            ).to_arrow_table()
            check_every_line(connection, layout.path)
        values = {n: people_numbers(table[n].to_pylist(), n not in SHARES) for n in numbers}
        board = values.pop("board", np.zeros(len(table)))
        figures = TractFigures(
            np.array(table["geoid"].to_pylist()),
            values,
            np.array(table["district"].to_pylist()),
            np.nan_to_num(board).astype(np.int64),
        )
        return checked_figures(layout.path, figures)


def people_numbers(texts: Sequence[str | None], is_whole: bool) -> np.ndarray:
    """Numbers as people write them: ``$45,312``, ``250,000+``, ``25.000,50``, ``0,35``, ``4 120``.

    Whether a comma or a dot parts thousands is told by the column; ``is_whole``: counts, incomes
    and years, of which ``4.120`` is four thousand. NaN where it is no number.
    """
    plain = [re.sub(r"[\s$€£%+'’\u00a0\u202f]", "", text or "") for text in texts]
    both = [text for text in plain if "," in text and "." in text]
    if both:
        comma_is_decimal = any(text.rfind(",") > text.rfind(".") for text in both)
        thousands = "." if comma_is_decimal else ","
    else:
        thousands = next((mark for mark in ",." if is_whole and parts_thousands(plain, mark)), "")
    found = np.full(len(plain), np.nan)
    for row, text in enumerate(plain):
        try:
            found[row] = float(text.replace(thousands, "").replace(",", "."))
        except ValueError:
            continue
    return found


def parts_thousands(texts: Sequence[str], mark: str) -> bool:
    """Whether every number that has the mark has it before three digits."""
    having = [text for text in texts if mark in text]
    pattern = re.compile(rf"-?[1-9][0-9]{{0,2}}([{mark}][0-9]{{3}})+")
    return bool(having) and all(pattern.fullmatch(text) for text in having)


def needed_fields(given: Collection[str]) -> tuple[str, ...]:
    """Fields of complaints that a map must give: a column of points or of tracts stands for two."""
    if "point" in given:
        return (*REQUIRED_FIELDS[:3], "point")
    if "tract" in given and not {"longitude", "latitude"} & set(given):
        return (*REQUIRED_FIELDS[:3], "tract")
    return REQUIRED_FIELDS


def _format(
    kind: str,
    title: str,
    columns: Mapping[str, tuple[str, ...]],
    fields: tuple[str, ...],
    required: tuple[str, ...],
) -> Format:
    optional = tuple(name for name in fields if name not in required)
    aliases = {column: name for name, given in columns.items() for column in given}
    return Format(kind, title, required, optional, aliases=aliases, by_alias_only=True)


def packaged_maps() -> dict[str, Path]:
    """Maps that come with the package, by name: portals' exports as they are today."""
    folder = Path(str(files("parity311.feeds") / "maps"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


BUILT_IN = ("nyc_311", "nyc_dob", "nyc_hpd")
"""Names of New York's files: their readers know agencies, closing texts, lots and how the files
overlap, which a map cannot say, so that these names stand for no map at all."""


def named_city_map(path: Path | None) -> CityMap | None:
    """A city's map by file or name; None where none is given, or New York's readers are meant."""
    if path is None or (str(path) in BUILT_IN and not path.exists()):
        return None
    return read_city_map(path)


def read_city_map(path: Path) -> CityMap:
    """Read and check a city's TOML file, or one of the package by name.

    The error names the key that is wrong.
    """
    path = path if path.is_file() else packaged_maps().get(str(path), path)
    if not path.is_file():
        raise InputError(
            f"There is no file {path}; give the TOML file that describes the city (`parity311 "
            f"records map FILE` proposes one), or the name of one that is here: "
            f"{', '.join((*packaged_maps(), *BUILT_IN))}."
        )
    content = read_toml(path)
    for name in content:
        if name not in TABLES:
            raise unknown_name(f"entry in {path.name}", name, TABLES)
    if content.get("config_version") != CONFIG_VERSION:
        raise InputError(
            f"{path} has config_version {content.get('config_version')!r}; this version reads "
            f"{CONFIG_VERSION}. See docs/how-to/bring-your-own-city.md."
        )
    for name, allowed in (("city", CITY_KEYS), ("boundaries", ("id",))):
        _check_keys(path, f"[{name}]", content.get(name, {}), allowed)
    complaints = dict(content.get("complaints", {}))
    date_format = complaints.pop("date_format", None)
    day_first = complaints.pop("day_first", None)
    if day_first not in (None, True, False):
        raise InputError(
            f"[complaints] of {path} has day_first {day_first!r}; write true or false."
        )
    closed_when = complaints.pop("closed_when", [])
    if not isinstance(closed_when, list) or (closed_when and "status" not in complaints):
        raise InputError(
            f"[complaints] of {path} has closed_when {closed_when!r}; write a list of statuses, "
            "and say which column is the status."
        )
    duplicate_values = tuple(str(value) for value in complaints.pop("duplicate_values", ["true"]))
    needed = needed_fields(complaints)
    columns = _read_fields(path, "complaints", complaints, COMPLAINT_FIELDS, needed)
    tracts = content.get("tracts", {})
    tracts = _read_fields(path, "tracts", tracts, TRACT_FIELDS, REQUIRED_TRACT_FIELDS)
    city = content.get("city", {})
    time_zone = city.get("time_zone")
    _check_clock(path, date_format, time_zone)
    return CityMap(
        name=city.get("name", path.stem),
        source=city.get("source", "file"),
        terms=city.get("terms", "not stated"),
        complaints=columns,
        categories=_check_categories(path, content.get("categories", {})),
        tracts=tracts,
        date_format=date_format,
        time_zone=time_zone,
        day_first=day_first,
        closed_when=tuple(str(value) for value in closed_when),
        duplicate_values=duplicate_values,
        outcomes=_check_outcomes(path, content.get("outcomes", {})),
        channels=_check_channels(content.get("channels", {})),
        boundary_id=content.get("boundaries", {}).get("id"),
    )


def _read_fields(
    path: Path,
    table: str,
    given: Mapping[str, Any],
    allowed: tuple[str, ...],
    required: tuple[str, ...],
) -> dict[str, tuple[str, ...]]:
    """Field -> columns, of which one or several may be given."""
    found: dict[str, tuple[str, ...]] = {}
    for name in given:
        if name not in allowed:
            raise unknown_name(f"field in [{table}] of {path.name}", name, allowed)
        columns = given[name] if isinstance(given[name], list) else [given[name]]
        if not columns or not all(isinstance(one, str) and one.strip() for one in columns):
            raise InputError(
                f"[{table}] of {path} gives {given[name]!r} as the column of {name!r}; write the "
                "column's name in quotation marks."
            )
        found[name] = tuple(columns)
    for name in required:
        if name not in given:
            raise InputError(
                f"[{table}] of {path} does not say which column is {name!r}; needed are "
                f"{', '.join(required)}"
                + (
                    " (or one column of points as point, or of area codes as tract)."
                    if "longitude" in required
                    else "."
                )
            )
    return found


def _check_keys(path: Path, place: str, given: Any, allowed: tuple[str, ...]) -> None:
    """Refuse what is no table, and a key that nothing reads."""
    if not isinstance(given, dict):
        example = ", ".join(f"{name} = …" for name in allowed)
        raise InputError(f"{place} of {path} is {given!r}; write {{ {example} }}.")
    for name in given:
        if name not in allowed:
            raise unknown_name(f"key in {place} of {path.name}", name, allowed)


def _check_clock(path: Path, date_format: Any, time_zone: Any) -> None:
    """Refuse a format that no date can have, and a clock that nobody keeps."""
    if time_zone is not None and time_zone not in available_timezones():
        raise InputError(
            f"[city] of {path} has time_zone {time_zone!r}, which is none; write one like "
            "America/Chicago."
        )
    if date_format is None:
        return
    try:
        with connect() as connection:
            connection.execute("SELECT try_strptime('', $1)", [str(date_format)]).fetchall()
    except duckdb.Error as error:
        raise InputError(
            f"[complaints] of {path} has date_format {date_format!r}, which cannot be read; write "
            'one like "%d.%m.%Y %H:%M".'
        ) from error
    if "%z" in str(date_format).lower() and time_zone is None:
        raise InputError(
            f"[complaints] of {path} has a date_format with an offset ({date_format!r}); say whose "
            'clock to turn it to: time_zone = "America/Chicago" in [city].'
        )


def _check_categories(path: Path, given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    if not given:
        raise InputError(
            f"{path} maps no category to a domain; add [categories] with lines like "
            '"Building Violation" = { domain = "housing", severity = "C" }.'
        )
    found = {}
    for name, entry in given.items():
        _check_keys(path, f"category {name!r}", entry, ("domain", "severity"))
        domain, severity = entry.get("domain", ""), entry.get("severity", "C")
        if not re.fullmatch(r"[a-z][a-z_]*", str(domain)) or domain == QUARANTINE:
            raise InputError(
                f"Category {name!r} of {path} has domain {domain!r}; give a domain's slug, like "
                "housing or drainage, or out_of_scope."
            )
        if severity not in SEVERITIES:
            raise unknown_name(f"severity of category {name!r}", severity, SEVERITIES)
        found[name] = {"domain": domain, "severity": severity}
    return found


def _check_outcomes(path: Path, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    for name, entry in given.items():
        _check_keys(path, f"status {name!r}", entry, ("class", "visits"))
        if entry.get("class") not in DISPOSITION_CLASSES:
            raise unknown_name(
                f"outcome class of status {name!r} in {path.name}",
                str(entry.get("class")),
                DISPOSITION_CLASSES,
            )
    return dict(given)


def _check_channels(given: Mapping[str, str]) -> dict[str, str]:
    for value in given.values():
        if value not in CHANNELS:
            raise unknown_name("channel", value, CHANNELS)
    return dict(given)
