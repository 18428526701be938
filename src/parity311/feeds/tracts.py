"""The canonical tracts table from ACS figures, tract boundaries and district boundaries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import LiteralString

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from parity311.errors import RecordsError
from parity311.feeds import parsing as p
from parity311.feeds.boundaries import Boundaries
from parity311.feeds.census import figures_from_answers
from parity311.feeds.parsing import COUNTIES
from parity311.feeds.recognise import FileLayout
from parity311.feeds.staging import rows_of, take_unreadable
from parity311.records.schema import TABLES
from parity311.records.sql import Connection, connect, identifier
from parity311.records.strata import income_quintiles

BOROUGH_NAMES = {1: "Manhattan", 2: "Bronx", 3: "Brooklyn", 4: "Queens", 5: "Staten Island"}
DISTRICT_LETTERS = {"MN": 1, "BX": 2, "BK": 3, "QN": 4, "SI": 5}
LOWEST_SENTINEL = -111_111_111
"""The Census codes what it does not publish as a large negative number; at or below this one
(-222222222 … -999999999) it is no value."""
SHARES = tuple(c.name for c in TABLES["tracts"].columns if c.name.startswith("share_"))


@dataclass
class TractFigures:
    """Figures by tract, as arrays of one entry a tract; NaN where not published."""

    geoid: NDArray[np.str_]
    values: dict[str, NDArray[np.float64]]
    """population, households, median_income, median_year_built and the shares that are known."""
    borough: NDArray[np.str_] | None = None
    community_board: NDArray[np.int64] | None = None
    notes: dict[str, int] = field(default_factory=dict)


def read_tract_figures(layouts: Sequence[FileLayout]) -> TractFigures:
    """Read the ACS figures of files of one kind: Census answers, a merged table, a raw table."""
    kind = layouts[0].kind
    if kind == "acs_answer":
        answers = [_read_answer(layout.text_path) for layout in layouts]
        geoid, values = figures_from_answers(answers)
        figures = TractFigures(geoid, values)
    elif kind == "tract_table":
        figures = _read_tract_table(layouts[0])
    else:
        figures = _read_acs_table(layouts[0])
    return checked_figures(layouts[0].path, figures)


def checked_figures(path: Path, figures: TractFigures) -> TractFigures:
    """Figures with the Census' codes for missing values taken out; one row a tract.

    Rows of labels and totals, whose code has no digit where most have, are left out and counted.
    """
    is_code = np.array([any(map(str.isdigit, one)) for one in figures.geoid.tolist()], bool)
    if 0.5 < is_code.mean() < 1.0:
        first = str(figures.geoid[~is_code][0])
        note = f"rows without an area's code, like {first!r}, left out"
        figures = replace(
            figures,
            geoid=figures.geoid[is_code],
            values={name: value[is_code] for name, value in figures.values.items()},
            borough=None if figures.borough is None else figures.borough[is_code],
            community_board=None
            if figures.community_board is None
            else figures.community_board[is_code],
            notes=figures.notes | {note: int((~is_code).sum())},
        )
    short = [one for one in figures.geoid.tolist() if re.fullmatch(r"[0-9.,]+[Ee][+][0-9]+", one)]
    if short:
        raise RecordsError(
            f"{path} has areas like {short[0]!r}: a spreadsheet shortened their codes; export the "
            "table again with that column as text."
        )
    for name, value in figures.values.items():
        coded = value <= LOWEST_SENTINEL
        if coded.any():
            figures.notes[f"{name}: Census code for not published"] = int(coded.sum())
            figures.values[name] = np.where(coded, np.nan, value)
    if len(np.unique(figures.geoid)) != len(figures.geoid):
        raise RecordsError(
            f"{path} has {len(figures.geoid) - len(np.unique(figures.geoid))} rows that "
            "repeat a GEOID; keep one row a tract."
        )
    return figures


def _read_answer(path: Path) -> list[list[str | None]]:
    try:
        return json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise RecordsError(
            f"{path} cannot be read as an answer of the Census ({error}); fetch it again."
        ) from error


def _fetch(layout: FileLayout, columns: Mapping[str, LiteralString]) -> dict[str, NDArray]:
    """Columns of a table file by expression, in the order of GEOID; unreadable numbers are NaN."""
    chosen = ", ".join(
        f"{expression} AS {identifier(name)}" for name, expression in columns.items()
    )
    with connect() as connection:
        table = connection.sql(
            f"SELECT {p.geoid('GEOID')} AS geoid, {chosen} FROM ({rows_of([layout])}) "
            "WHERE GEOID IS NOT NULL ORDER BY 1"
        ).to_arrow_table()
        check_every_line(connection, layout.path)
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def check_every_line(connection: Connection, path: Path) -> None:
    """Refuse a table of areas with lines that could not be read: their complaints would be lost."""
    lost = take_unreadable(connection)
    if lost:
        first = min(lost, key=lambda one: one.first_line)
        raise RecordsError(
            f"{path} has {sum(one.lines for one in lost)} lines that cannot be read, the first "
            f"{first.first_line} ({first.reason.removeprefix('unreadable line: ')}); correct them: "
            "complaints of an area without its row would be lost."
        )


def _number(column: str) -> LiteralString:
    return f"coalesce(TRY_CAST({identifier(column)} AS DOUBLE), 'nan'::DOUBLE)"


def _read_tract_table(layout: FileLayout) -> TractFigures:
    names = {
        "population": "pop",
        "households": "households_2022",
        "median_income": "med_income",
        "share_white": "ag_race_white_nh_pct",
        "share_black": "tract_pct_black",
        "share_hispanic": "tract_pct_hispanic",
        "share_asian": "tract_pct_asian",
        "share_renter": "tract_renter_share",
        "share_bachelors": "pct_bachelors_plus_2022",
        "share_limited_english": "pct_limited_english_2022",
    }
    columns: dict[str, LiteralString] = {"borough": "BoroName", "district": "CDTA2020"}
    columns.update({name: _number(column) for name, column in names.items()})
    found = _fetch(layout, columns)
    board = [DISTRICT_LETTERS[code[:2]] * 100 + int(code[2:]) for code in found.pop("district")]
    borough, geoid = found.pop("borough").astype(str), found.pop("geoid").astype(str)
    return TractFigures(geoid, found, borough, np.array(board))


def _read_acs_table(layout: FileLayout) -> TractFigures:
    names = {
        "population": "TOTAL_POP",
        "households": "HH_TOTAL",
        "median_income": "MEDIAN_INCOME",
        "share_renter": "PCT_RENTERS",
        "share_bachelors": "PCT_BACHELORS_PLUS",
        "share_limited_english": "PCT_LIMITED_ENGLISH",
    }
    found = _fetch(layout, {name: _number(column) for name, column in names.items()})
    return TractFigures(found.pop("geoid").astype(str), found)


def build_tracts(
    figures: TractFigures,
    boundaries: Boundaries,
    districts: Boundaries | None = None,
    *,
    places: Mapping[str, str] | None = None,
) -> pa.Table:
    """Join figures and boundaries into the canonical tracts table, ordered by geoid.

    A tract with figures but without a boundary cannot hold a complaint and is an error. ZIP codes
    are filled in later, from the complaints. ``places`` gives another city's name of each tract's
    side or district.
    """
    place = {geoid: index for index, geoid in enumerate(boundaries.ids)}
    missing = [geoid for geoid in figures.geoid if geoid not in place]
    if missing:
        raise RecordsError(
            f"{len(missing)} tracts have figures but no boundary (first: {missing[0]}); give "
            "boundaries of the same census year."
        )
    rows = np.array([place[geoid] for geoid in figures.geoid])
    centres = boundaries.centres()[rows]
    known = set(figures.geoid)
    neighbours = boundaries.neighbours()
    households = figures.values["households"]
    income = figures.values["median_income"]
    unpublished = int((~np.isfinite(households)).sum())
    if unpublished:
        figures.notes["households not published, taken as none"] = unpublished
    borough = figures.borough
    if borough is None:
        borough = np.array([_borough_of(geoid, places) for geoid in figures.geoid])
    board = figures.community_board
    if board is None:
        board = _boards(figures.geoid, centres, districts)
    columns: dict[str, pa.Array] = {
        "geoid": pa.array(figures.geoid.tolist(), pa.string()),
        "borough": pa.array(borough.tolist(), pa.string()),
        "community_board": pa.array(board, pa.int32()),
        "zip": pa.nulls(len(rows), pa.string()),
        "longitude": pa.array(centres[:, 0]),
        "latitude": pa.array(centres[:, 1]),
        "neighbours": pa.array(
            [[other for other in neighbours[row] if other in known] for row in rows],
            pa.list_(pa.string()),
        ),
        "population": _counts(figures.values["population"]),
        "households": _counts(households),
        "median_income": pa.array(income, mask=~np.isfinite(income)),
        "income_quintile": pa.array(income_quintiles(income, households), pa.int8()),
        "median_year_built": _years(figures.values.get("median_year_built"), len(rows)),
    }
    for name in SHARES:
        columns[name] = _share(figures, name, len(rows))
    return pa.table({column.name: columns[column.name] for column in TABLES["tracts"].columns})


def _borough_of(geoid: str, places: Mapping[str, str] | None) -> str:
    if places is not None:
        return places.get(geoid, "unknown")
    county = {code: BOROUGH_NAMES[digit] for digit, code in COUNTIES.items()}
    if geoid[:2] != "36" or geoid[2:5] not in county:
        raise RecordsError(
            f"Tract {geoid} is not in New York City; leave it out, or describe the city in a TOML "
            "file and pass it with --map."
        )
    return county[geoid[2:5]]


def _boards(
    geoid: NDArray[np.str_], centres: NDArray[np.float64], districts: Boundaries | None
) -> NDArray[np.int64]:
    """District that holds a tract's centre; borough × 100 where there is none."""
    digit = {code: number for number, code in COUNTIES.items()}
    default = np.array([digit.get(code[2:5], 0) * 100 for code in geoid])
    if districts is None:
        return default
    index, _ = districts.locate(centres[:, 0].copy(), centres[:, 1].copy())
    return np.where(index >= 0, districts.ids[index].astype(np.int64), default)


def _counts(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(np.nan_to_num(values, nan=0.0).round().astype(np.int32))


def _years(values: NDArray[np.float64] | None, n: int) -> pa.Array:
    """Year built; codes below 1700 (0 for 1939 or earlier, 18 for the newest) are not years."""
    if values is None:
        return pa.nulls(n, pa.int32())
    bad = ~np.isfinite(values) | (np.nan_to_num(values) < 1700)
    return pa.array(np.where(bad, 0, np.nan_to_num(values)).astype(np.int32), mask=bad)


def _share(figures: TractFigures, name: str, n: int) -> pa.Array:
    values = figures.values.get(name)
    if values is None:
        return pa.nulls(n, pa.float64())
    beyond = np.isfinite(values) & ((values < 0) | (values > 1))
    if beyond.any():
        figures.notes[f"{name}: not between 0 and 1, taken as not published"] = int(beyond.sum())
    return pa.array(values, mask=~np.isfinite(values) | beyond)
