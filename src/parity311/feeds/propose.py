"""A map file for a city nobody described yet, proposed from column names and values.

Every line says how sure it is and by what; what could not be placed stays as a comment, for a
person to fill in. A proposal of known columns imports as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import duckdb
import numpy as np

from parity311.errors import InputError, RecordsError, unknown_name
from parity311.feeds import parsing as p
from parity311.feeds.boundaries import plain_id
from parity311.feeds.citymap import (
    COMPLAINT_FIELDS,
    REQUIRED_TRACT_FIELDS,
    needed_fields,
    packaged_maps,
    read_city_map,
)
from parity311.feeds.dates import DateReading, read_dates
from parity311.feeds.formats import squash
from parity311.feeds.packing import find_packing, unpack
from parity311.feeds.recognise import FileLayout, look_at, recognise
from parity311.feeds.staging import cannot_read, rows_of
from parity311.feeds.words import (
    CHANNEL_WORDS,
    COLUMN_NAMES,
    DOMAIN_WORDS,
    LAST_CHANGES,
    OUTCOME_WORDS,
    TRACT_NAMES,
    first_match,
    without_accents,
)
from parity311.records.sql import connect, identifier, literal

SAMPLED_ROWS = 20_000
MOST_VALUES = 400
"""Distinct values up to which a column may be a category or a status."""
LISTED_VALUES = 150
SHORT_CODE = 4
"""Characters below which a code may be a number of anything."""
FEWEST_AREAS = 2
"""Distinct values from which on a column can be the code of rows' areas."""
CODED = 0.9
"""Share of a column's values that are areas of the outlines, from which on it is their code."""
SHOWN = 60
"""Characters of a value that are shown in a sentence."""
TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?( ?[AaPp][.]?[Mm][.]?)?")
SURE, LIKELY, LEAST = 0.85, 0.6, 0.4
"""Scores from which a column is called sure, likely, or a guess; below, it is not proposed."""
PROJECTED = re.compile("^(x|y)$|coord|easting|northing|stateplane|^point(x|y)$|^(x|y)(pos|feet|ft)")
"""Squashed names of columns of projected coordinates."""
ZONES = (
    (-85.0, "America/New_York"),
    (-101.5, "America/Chicago"),
    (-114.0, "America/Denver"),
    (-130.0, "America/Los_Angeles"),
)
"""Western ends in degrees of longitude of what usually keeps a clock of the United States."""


@dataclass(frozen=True)
class SeenColumn:
    """What was seen of one column in a sample of rows."""

    name: str
    n: int
    """Rows that have a value."""
    n_distinct: int
    share_dates: float
    share_numbers: float
    low: float
    high: float
    samples: tuple[str, ...]


@dataclass(frozen=True)
class Guess:
    """A field, the column it is taken to be, and how sure that is."""

    field: str
    column: str
    score: float
    reason: str

    @property
    def sureness(self) -> str:
        """The score in a word."""
        return "sure" if self.score >= SURE else "likely" if self.score >= LIKELY else "guess"


@dataclass(frozen=True)
class Proposal:
    """A proposed map: what was placed, what was not, and its text."""

    file: str
    guesses: tuple[Guess, ...]
    missing: tuple[str, ...]
    """Fields that a map needs and no column was found for."""
    unused: tuple[str, ...]
    """Columns that no field was found for."""
    text: str
    known_as: str = ""
    """Why no map is needed, or which packaged one fits; empty where neither holds."""
    notes: tuple[str, ...] = field(default=())

    def describe(self) -> dict[str, Any]:
        """The proposal as plain values."""
        return {
            "file": self.file,
            "known_as": self.known_as,
            "columns": [
                {
                    "field": one.field,
                    "column": one.column,
                    "sureness": one.sureness,
                    "score": round(one.score, 2),
                    "reason": one.reason,
                }
                for one in self.guesses
            ],
            "missing": list(self.missing),
            "unused": list(self.unused),
            "notes": list(self.notes),
            "map": self.text,
        }


def propose_map(
    paths: Sequence[Path],
    scratch: Path,
    *,
    sheet: str = "",
    chosen: Mapping[str, str] | None = None,
) -> Proposal:
    """Propose a map for a file of complaints; tracts and boundaries beside it are placed too.

    ``scratch`` is an empty folder for the plain text of packed files. ``chosen`` are columns that a
    person placed, by field; an empty one says that there is none.
    """
    shapes = [path for path in paths if _is_shapes(path)]
    tables = [path for path in paths if path not in shapes]
    if not tables:
        raise InputError("No table was given to map; give the export of complaints first.")
    rows, columns, layout = _look(tables[0], scratch / "complaints.txt", sheet)
    if not any(one.n for one in columns):
        raise RecordsError(
            f"{tables[0]} has a header and no rows that can be read; export it again, with rows to "
            "look at."
        )
    known = _known_as(tables[0], sheet, rows)
    guesses, place_notes = _place_points(columns, _place(columns, COLUMN_NAMES, _fits_complaint))
    if chosen:
        guesses = _as_chosen(guesses, chosen, columns)
    guesses = _drop_spare_point(guesses)
    codes = _area_codes(shapes)
    tracts, area_id = _tract_lines(tables[1:], scratch, codes)
    if "tract" not in (chosen or {}):
        guesses = _place_codes(rows, columns, guesses, area_id, codes.get(area_id, set()))
    doubtful, doubts = _place_doubtful(columns, guesses)
    guesses, place_notes = [*doubtful, *guesses], [*place_notes, *doubts]
    placed = {one.field: one.column for one in guesses}
    missing = tuple(name for name in needed_fields(placed) if name not in placed)
    unused = tuple(one.name for one in columns if one.name not in placed.values())
    values = {
        name: _values(rows, placed[name])
        for name in ("category", "status", "channel", "duplicate")
        if name in placed
    }
    dates, notes = _date_lines(tables[0].name, rows, columns, placed)
    notes += place_notes + _note_times(columns, unused, placed)
    if not {"longitude", "point", "tract"} & set(placed):
        notes.append(
            "no column says where: coordinates, or a code of the areas of the outlines (tract, ZIP "
            "code, district), which places rows when tracts and outlines of those areas are given"
        )
    text = "\n".join(
        [
            f"# Proposed from {tables[0].name}: {layout.describe_shape()}.",
            "# Read every line, correct what is wrong, and import with --map.",
            "config_version = 1",
            "",
            "[city]",
            'name = "Our city"            # shown on every page',
            'source = "file"',
            *dates[0],
            "",
            "[complaints]",
            *_complaint_lines(guesses, missing, unused),
            *dates[1],
            *_closing_lines(placed, values.get("status", [])),
            *_duplicate_lines(values.get("duplicate")),
            "",
            *_category_lines(values.get("category", [])),
            *_outcome_lines(values.get("status", [])),
            *_channel_lines(values.get("channel", [])),
            *tracts,
            *_boundary_lines(shapes, codes, area_id),
            "",
        ]
    )
    return Proposal(tables[0].name, tuple(guesses), missing, unused, text, known, tuple(notes))


def _known_as(path: Path, sheet: str, rows: LiteralString) -> str:
    """Why the file needs no new map; empty where it does.

    Many portals name their columns alike: a packaged map fits if it knows a category of the file.
    """
    try:
        found = recognise(path, sheet=sheet)
        return f"{path.name} is read without a map, as {found.describe()}"
    except RecordsError:
        pass
    for name, place in packaged_maps().items():
        own = read_city_map(place)
        try:
            layout = recognise(path, (own.complaint_format,), sheet=sheet)
        except RecordsError:
            continue
        known = {category.upper() for category in own.categories}
        if any(value.upper() in known for value, _ in _values(rows, layout.columns["category"])):
            return (
                f"{path.name} has columns and categories of {own.name}: import it with --map {name}"
            )
    return ""


def _is_shapes(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if b'"FeatureCollection"' not in file.read(4096):
            return False
    return not find_packing(path).rows_under  # Points are complaints.


def _look(
    path: Path, scratch: Path, sheet: str
) -> tuple[LiteralString, list[SeenColumn], FileLayout]:
    """SQL of a sample of rows, what is in every column, and how the file is read."""
    layout = look_at(path, sheet=sheet)
    if not layout.packing.is_plain:
        layout = layout.with_text(unpack(path, layout.packing, scratch))
    rows: LiteralString = f"{rows_of([layout])} LIMIT {literal(SAMPLED_ROWS)}"
    try:
        return rows, [_see(rows, name) for name in layout.header], layout
    except duckdb.InvalidInputException as error:
        raise cannot_read(path, error) from error


def _see(rows: LiteralString, name: str) -> SeenColumn:
    text = f"nullif(trim({identifier(name)}), '')"
    number = (
        f"coalesce(TRY_CAST(replace({text}, ',', '.') AS DOUBLE), CASE WHEN "
        f"regexp_full_match({text}, '[$€£]?[-0-9., ]+[%+]?') "
        f"THEN TRY_CAST(regexp_replace({text}, '[^-0-9]', '', 'g') AS DOUBLE) END)"
    )
    with connect() as connection:
        n, distinct, dates, numbers, low, high, samples = connection.execute(f"""
SELECT count(text), count(DISTINCT text),
  count(*) FILTER (WHERE coalesce({p.timestamp("text", zone="UTC")},
    {p.timestamp("text", day_first=True, zone="UTC")}) IS NOT NULL),
  count(number), min(number), max(number), list(DISTINCT text ORDER BY text)[:3]
FROM (SELECT {text} AS text, {number} AS number FROM ({rows}))
""").fetchall()[0]
    share = 1.0 / max(n, 1)
    low, high = (np.nan if one is None else float(one) for one in (low, high))
    return SeenColumn(
        name, n, distinct, dates * share, numbers * share, low, high, tuple(samples or ())
    )


def _name_score(name: str, known: Sequence[str]) -> float:
    """How well a column's name fits: one of the known ones, or with the words of one."""
    given = squash(without_accents(name))
    names = [squash(one) for one in known]
    if given in names:
        return 1.0 - 0.2 * names.index(given) / len(names)
    inside = [one for one in names if len(one) >= 4 and (one in given or given in one)]
    return 0.55 if inside and len(given) >= 3 else 0.0


def _fits_complaint(name: str, column: SeenColumn) -> tuple[float, str]:
    """How well values fit a field of complaints, from 0 to 1, and what was seen."""
    n = max(column.n, 1)
    few = column.n_distinct <= min(MOST_VALUES, 0.5 * n + 5)
    if name == "key":
        return column.n_distinct / n, f"{column.n_distinct:,} values in {n:,} rows"
    if name in ("received_at", "closed_at"):
        return column.share_dates, f"{column.share_dates:.0%} are dates"
    if name in ("longitude", "latitude"):
        ends = (-180.0, 180.0) if name == "longitude" else (-90.0, 90.0)
        usual = (-180.0, -60.0) if name == "longitude" else (15.0, 75.0)
        inside = column.share_numbers > 0.9 and ends[0] <= column.low <= column.high <= ends[1]
        middle = (column.low + column.high) / 2
        value = (1.0 if usual[0] <= middle <= usual[1] else 0.7) if inside else 0.0
        return value, f"{column.low:g} to {column.high:g}"
    if name == "point":
        found = [_as_point(one) for one in column.samples]
        return float(bool(found) and all(found)), _like(column)
    if name == "zip":
        codes = [one.split("-")[0].split(".")[0] for one in column.samples]
        fits = all(code.isdigit() and 4 <= len(code) <= 5 for code in codes)
        return float(fits), _like(column)
    if name == "duplicate":
        return float(column.n_distinct <= 3), f"{column.n_distinct} values"
    if name in ("category", "status", "channel"):
        return float(few and column.share_numbers < 0.5), f"{column.n_distinct:,} values"
    return float(column.share_dates < 0.5), f"{column.n_distinct:,} values"


def _like(column: SeenColumn) -> str:
    return f"like {', '.join(map(_shown, column.samples[:1]))}"


def _shown(text: str) -> str:
    """A value in a sentence: one line of it, and no more than fits."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _odd_one(name: str, column: SeenColumn) -> str:
    """A sample that is not what the column's name says, where one is."""
    if name not in ("longitude", "latitude"):
        return column.samples[0]
    plain = re.compile("[-+]?[0-9]+([.,][0-9]+)?")
    return next((one for one in column.samples if not plain.fullmatch(one)), column.samples[0])


def _as_point(text: str) -> bool:
    """Whether a text is a place, as the import reads one."""
    with connect() as connection:
        x, y = p.point("text", "longitude"), p.point("text", "latitude")
        found = connection.execute(f"SELECT {x}, {y} FROM (SELECT {literal(text)} AS text)")
        longitude, latitude = found.fetchall()[0]
    return None not in (longitude, latitude) and abs(longitude) <= 180.0 and abs(latitude) <= 90.0


def _drop_spare_point(guesses: list[Guess]) -> list[Guess]:
    """Without the column of points where longitude and latitude have columns of their own."""
    if {"longitude", "latitude"} <= {one.field for one in guesses}:
        return [one for one in guesses if one.field != "point"]
    return guesses


def _place_codes(
    rows: LiteralString,
    columns: Sequence[SeenColumn],
    guesses: list[Guess],
    area_id: str,
    areas: set[str],
) -> list[Guess]:
    """The guesses with the column that names rows' areas by the codes of the outlines.

    A column that is something else already, like the ZIP code, is taken where nothing else says
    where rows are; short numbers only under the name that the outlines give them, since wards and
    districts are numbered from 1 alike.
    """
    placed = {one.field: one.column for one in guesses}
    has_place = "point" in placed or {"longitude", "latitude"} <= set(placed)
    taken = [placed[name] for name in placed if has_place or name not in ("zip", "building")]
    best = None
    for column in columns:
        if column.name in taken or column.n_distinct < FEWEST_AREAS:
            continue
        values = {plain_id(value) for value, _ in _values(rows, column.name)}
        is_short = all(len(value) < SHORT_CODE for value in values)
        if is_short and squash(column.name) != squash(area_id):
            continue
        share = len(values & areas) / max(len(values), 1)
        if share >= CODED and (best is None or share > best[0]):
            best = share, column.name
    if best is None:
        return guesses
    _, column_name = best
    rest = [one for one in guesses if one.column != column_name]
    if not has_place:
        rest = [one for one in rest if one.field not in ("longitude", "latitude")]
    found = Guess("tract", column_name, 1.0, f"its values are {area_id} of the outlines")
    return [*rest, found]


def _note_times(
    columns: Sequence[SeenColumn], unused: Sequence[str], placed: Mapping[str, str]
) -> list[str]:
    """Columns of times of day beside a date that has none, which a map cannot join."""
    dates = next((one for one in columns if one.name == placed.get("received_at")), None)
    if dates is None or any(":" in one for one in dates.samples):
        return []
    return [
        f"{one.name} holds times of day and {dates.name} days alone: join the two in one column, "
        "or every complaint counts as received at an hour unknown"
        for one in columns
        if one.name in unused and one.n and all(map(TIME_OF_DAY.fullmatch, one.samples))
    ]


def _place_doubtful(
    columns: Sequence[SeenColumn], guesses: Sequence[Guess]
) -> tuple[list[Guess], list[str]]:
    """Needed fields whose columns are named right and hold something else: what, in sentences.

    A key that repeats is taken all the same, since nothing else names a row.
    """
    placed = {one.field for one in guesses}
    used = {one.column for one in guesses}
    taken, notes = [], []
    for name in needed_fields(placed):
        if name in placed:
            continue
        scored = [(_name_score(one.name, COLUMN_NAMES[name]), one) for one in columns]
        named = [one for score, one in scored if score >= SURE and one.n and one.name not in used]
        if not named:
            continue
        column = named[0]
        _, seen = _fits_complaint(name, column)
        if name != "key":
            cure = (
                "; where those are dates, place it by hand and say how they are written "
                '(date_format = "%Y/%j" under [complaints])'
            )
            notes.append(
                f"{column.name} is named like {name}, and its values, like "
                f"{_shown(_odd_one(name, column))!r}, are not"
                + (cure if name == "received_at" else "")
            )
            continue
        taken.append(Guess(name, column.name, LEAST, seen))
        is_cut = any(re.fullmatch(r"[0-9][.,]?[0-9]*[Ee][+][0-9]+", one) for one in column.samples)
        notes.append(
            f"{column.name} has {seen}: "
            + (
                f"a spreadsheet shortened its numbers (like {column.samples[0]}); export it again "
                "with this column as text, or rows are lost"
                if is_cut
                else "if rows are visits or changes of status, only one row of each is kept"
            )
        )
    return taken, notes


def _fits_tracts(name: str, column: SeenColumn) -> tuple[float, str]:
    if name == "geoid":
        is_code = all(re.fullmatch(r"[A-Z]{0,2}[0-9]{6,12}", one) for one in column.samples)
        return float(is_code and column.n_distinct == column.n), _like(column)
    if name in ("district", "board"):
        return 1.0, f"{column.n_distinct:,} values"
    return column.share_numbers, f"{column.low:g} to {column.high:g}"


def _place(
    columns: Sequence[SeenColumn],
    names: Mapping[str, Sequence[str]],
    fits: Callable[[str, SeenColumn], tuple[float, str]],
) -> list[Guess]:
    """The best column of every field, each column used once, the surest first."""
    found = []
    for name, known in names.items():
        for column in columns:
            by_name = _name_score(column.name, known)
            if not by_name:
                continue
            by_values, seen = fits(name, column) if column.n else (0.0, "empty in what was seen")
            if by_values >= 0.5 or not column.n:
                score = 0.7 * by_name + 0.3 * by_values
                found.append(Guess(name, column.name, score, seen))
    taken: dict[str, Guess] = {}
    used: set[str] = set()
    for one in sorted(found, key=lambda guess: -guess.score):
        if one.score >= LEAST and one.field not in taken and one.column not in used:
            taken[one.field] = one
            used.add(one.column)
    return [taken[name] for name in names if name in taken]


def _as_chosen(
    guesses: Sequence[Guess], chosen: Mapping[str, str], columns: Sequence[SeenColumn]
) -> list[Guess]:
    """The guesses with what a person chose in their place."""
    seen = {one.name: one for one in columns}
    found = {one.field: one for one in guesses}
    for name, column in chosen.items():
        if name not in COMPLAINT_FIELDS:
            raise unknown_name("field", name, COMPLAINT_FIELDS)
        if not column:
            found.pop(name, None)
        elif column not in seen:
            raise unknown_name("column", column, tuple(seen))
        elif name not in found or found[name].column != column:
            _, said = _fits_complaint(name, seen[column])
            found[name] = Guess(name, column, 1.0, f"chosen by hand; {said}")
    return [found[name] for name in COMPLAINT_FIELDS if name in found]


def _place_points(
    columns: Sequence[SeenColumn], guesses: list[Guess]
) -> tuple[list[Guess], list[str]]:
    """Longitude and latitude the other way round where values say so; what else values say."""
    named = {
        field: [one for one in columns if _name_score(one.name, COLUMN_NAMES[field]) >= LEAST]
        for field in ("longitude", "latitude")
    }
    for x in named["longitude"]:
        for y in named["latitude"]:
            if x.name == y.name or _fits_complaint("longitude", x)[0] == 1.0:
                continue
            fits = [_fits_complaint("longitude", y), _fits_complaint("latitude", x)]
            if not all(value == 1.0 for value, _ in fits):
                continue
            rest = [one for one in guesses if one.field not in named]
            seen = [f"{said}; exchanged with {name}" for (_, said), name in
                    zip(fits, (x.name, y.name), strict=True)]  # fmt: skip
            turned = [
                Guess("longitude", y.name, LIKELY, seen[0]),
                Guess("latitude", x.name, LIKELY, seen[1]),
            ]
            return [*rest, *turned], [
                f"values of {x.name} are latitudes and those of {y.name} longitudes: the map takes "
                "them the other way round"
            ]
    if {"longitude", "latitude"} <= {one.field for one in guesses}:
        return guesses, []
    far = [
        one for one in columns
        if PROJECTED.search(squash(one.name)) and one.share_numbers > 0.9 and one.high > 360.0
    ]  # fmt: skip
    if len(far) < 2:
        return guesses, []
    named_far = " and ".join(one.name for one in far[:2])
    return guesses, [
        f"{named_far} are feet or metres of a projection, which are not read: export longitude and "
        "latitude in degrees (WGS 84)"
    ]


def _values(rows: LiteralString, column: str) -> list[tuple[str, int]]:
    """Distinct values of a column in the sample, the most frequent first."""
    with connect() as connection:
        return connection.execute(f"""
SELECT trim({identifier(column)}) AS value, count(*) AS n FROM ({rows})
WHERE nullif(value, '') IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {literal(LISTED_VALUES)}
""").fetchall()


def _complaint_lines(
    guesses: Sequence[Guess], missing: Sequence[str], unused: Sequence[str]
) -> list[str]:
    lines = [
        f"{one.field} = {_quoted(one.column)}".ljust(44) + f"# {one.sureness}: {one.reason}"
        for one in guesses
    ]
    lines += [f"# {name} = ?".ljust(44) + "# needed, and no column was found" for name in missing]
    placed = {one.field for one in guesses} | set(missing)
    absent = [name for name in COMPLAINT_FIELDS if name not in placed]
    if absent:
        lines.append(f"# not found: {', '.join(absent)}")
    if unused:
        lines.append(f"# columns not used: {', '.join(unused)}")
    return lines


def _date_lines(
    file: str, rows: LiteralString, columns: Sequence[SeenColumn], placed: Mapping[str, str]
) -> tuple[tuple[list[str], list[str]], list[str]]:
    """Lines on the clock for [city] and on the order of dates for [complaints]; and notes."""
    dates = [placed[name] for name in ("received_at", "closed_at") if name in placed]
    city, complaints, notes = [], [], []
    if not dates:
        return (city, complaints), notes
    try:
        with connect() as connection:
            found = read_dates(connection, file, dates, f"SELECT * FROM ({rows})", "UTC")
    except InputError:
        samples = next(one.samples for one in columns if one.name == dates[0])
        shown = samples[0] if samples else "03/04/2024"
        complaints.append("# day_first = false".ljust(44) + f"# of dates like {shown}: say which")
        notes.append(f"dates like {shown} do not say by themselves which number is the day")
        found = DateReading()
    if found.day_first:
        complaints.append("day_first = true".ljust(44) + "# sure: some dates tell")
    if found.has_offsets:
        zone = _zone(next((one for one in columns if one.name == placed.get("longitude")), None))
        shown = f'time_zone = "{zone}"' if zone else '# time_zone = "America/Chicago"'
        city.append(shown.ljust(44) + "# guess, by longitude: times come with a UTC offset")
        notes.append("times come with a UTC offset: check time_zone")
    return (city, complaints), notes


def _zone(longitude: SeenColumn | None) -> str:
    if longitude is None or not np.isfinite(longitude.low):
        return ""
    middle = (longitude.low + longitude.high) / 2
    if not ZONES[-1][0] < middle < -60:
        return ""
    return next(name for west, name in ZONES if middle >= west)


def _closing_lines(placed: Mapping[str, str], statuses: list[tuple[str, int]]) -> list[str]:
    """Where the closing is dated by the last change: the statuses in which that is a closing."""
    if squash(placed.get("closed_at", "")) not in LAST_CHANGES or "status" not in placed:
        return []
    closed = [one for one, _ in statuses if first_match(one, OUTCOME_WORDS) != ("pending", "")]
    line = f"closed_when = {json.dumps(closed, ensure_ascii=False)}"
    return [f"{line.ljust(44)}# {placed['closed_at']} is the last change, of open ones too"]


def _duplicate_lines(values: list[tuple[str, int]] | None) -> list[str]:
    if not values:
        return []
    yes = [v for v, _ in values if v.lower() in ("true", "yes", "y", "1", "t", "duplicate")]
    return [f"duplicate_values = {json.dumps(yes or ['true'])}"]


def _category_lines(values: list[tuple[str, int]]) -> list[str]:
    lines = ["[categories]    # category = domain and severity (A gravest … D); guessed from words"]
    for value, n in values:
        domain, severity = first_match(value, DOMAIN_WORDS) or ("out_of_scope", "")
        gravity = f', severity = "{severity}"' if severity else ""
        line = f'{_quoted(value)} = {{ domain = "{domain}"{gravity} }}'
        lines.append(line.ljust(70) + f"# {n:,} rows")
    if not values:
        lines.append('# "Building Violation" = { domain = "housing", severity = "C" }')
    return [*lines, ""]


def _outcome_lines(values: list[tuple[str, int]]) -> list[str]:
    lines = ["[outcomes]      # status = outcome class, and the visits it implies"]
    for value, n in values:
        kind = first_match(value, OUTCOME_WORDS) or ("other", "")
        visits = f", visits = {kind[1]}" if kind[1] else ""
        line = f'{_quoted(value)} = {{ class = "{kind[0]}"{visits} }}'
        lines.append(line.ljust(70) + f"# {n:,} rows")
    return [*lines, ""]


def _channel_lines(values: list[tuple[str, int]]) -> list[str]:
    lines = ["[channels]"]
    for value, n in values:
        found = first_match(value, CHANNEL_WORDS)
        line = f'{_quoted(value)} = "{found[0] if found else "UNKNOWN"}"'
        lines.append(line.ljust(70) + f"# {n:,} rows")
    return [*lines, ""]


def _area_codes(shapes: Sequence[Path]) -> dict[str, set[str]]:
    """Property of the outlines -> its values, where every area has one of its own."""
    if not shapes:
        return {}
    try:
        features = json.loads(shapes[0].read_bytes())["features"]
        properties = [one.get("properties") or {} for one in features]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordsError(
            f"{shapes[0]} cannot be read as GeoJSON ({error}); it may have been cut off: download "
            "it again."
        ) from error
    found = {}
    for name in properties[0] if properties else {}:
        values = {plain_id(str(one.get(name, ""))) for one in properties}
        if len(values) == len(properties):
            found[name] = values
    return found


def _tract_lines(
    tables: Sequence[Path], scratch: Path, codes: Mapping[str, set[str]]
) -> tuple[list[str], str]:
    """Lines of [tracts], and the property of the outlines that its areas are named by."""
    lines = ["[tracts]        # field = column of the table of tracts"]
    guesses: list[Guess] = []
    area_id = ""
    if tables:
        rows, columns, _ = _look(tables[0], scratch / "tracts.txt", "")
        guesses = _place(columns, TRACT_NAMES, _fits_tracts)
        joined = _joined(rows, columns, codes)
        if joined is not None:
            column, area_id = joined
            named = Guess("geoid", column, 1.0, f"its values are {area_id} of the outlines")
            rest = [one for one in guesses if one.field != "geoid" and one.column != column]
            guesses = [named, *rest]
    placed = {one.field for one in guesses}
    lines += [
        f"{one.field} = {_quoted(one.column)}".ljust(44) + f"# {one.sureness}: {one.reason}"
        for one in guesses
    ]
    for name in REQUIRED_TRACT_FIELDS:
        if name not in placed:
            usual = TRACT_NAMES[name][0]
            lines.append(f'{name} = "{usual}"'.ljust(44) + "# not seen: give the table of tracts")
    return [*lines, ""], area_id


def _joined(
    rows: LiteralString, columns: Sequence[SeenColumn], codes: Mapping[str, set[str]]
) -> tuple[str, str] | None:
    """The column of the table and the property of the outlines that hold the same areas."""
    best, chosen = 0.9, None
    for column in columns:
        if column.n_distinct < column.n or not column.n:
            continue
        values = {plain_id(value) for value, _ in _values(rows, column.name)}
        for name, areas in codes.items():
            share = len(values & areas) / len(values)
            if share >= best and (chosen is None or share > best):
                best, chosen = share, (column.name, name)
    return chosen


def _boundary_lines(
    shapes: Sequence[Path], codes: Mapping[str, set[str]], area_id: str
) -> list[str]:
    lines = ["[boundaries]"]
    if not shapes:
        return [*lines, 'id = "GEOID"'.ljust(44) + "# not seen: give the GeoJSON of tracts"]
    if area_id:
        return [*lines, f"id = {_quoted(area_id)}".ljust(44) + "# sure: the table has its values"]
    for name, values in codes.items():
        if all(value.isdigit() and len(value) in (10, 11) for value in values):
            return [*lines, f"id = {_quoted(name)}".ljust(44) + f"# sure: like {min(values)}"]
    return [*lines, "# id = ?".ljust(44) + f"# no property of {shapes[0].name} is a GEOID"]


def _quoted(text: str) -> str:
    """Text as TOML and JSON both write it."""
    return json.dumps(text, ensure_ascii=False)
