"""The audit of a plain table: one row a complaint, no records folder, no training.

For whoever has only a spreadsheet: where, when, and whether something was done. The shape is that
of `template_text`; it is read like the files of an import.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parity311.audit.cells import LOST, AuditCells, AuditInputs
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import UNKNOWN, AuditPlaces
from parity311.errors import InputError, RecordsError
from parity311.pipelines.audit import write_audit
from parity311.records.schema import SEVERITIES
from parity311.records.strata import RACE_GROUPS, income_quintiles
from parity311.report.store import RunWriter
from parity311.reporting.own_csv import (
    area_ids,
    is_empty,
    read_days,
    read_numbers,
    read_table,
    refuse,
    texts_of,
)
from parity311.storage.hashes import hash_file

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".zip", ".gz")
REQUIRED = ("area", "received_at")
OPTIONAL = ("served", "closed_at", "domain", "severity", "channel", "language")
AREA_NUMBERS = (
    "income_quintile", "median_income", "households", *(f"share_{race}" for race in RACE_GROUPS),
)  # fmt: skip
"""What may be said of an area: in every row of it, or once in a table of areas."""
YES = ("yes", "y", "true", "t", "1", "served", "x")
NO = ("no", "n", "false", "f", "0", "not served")
TEMPLATE_COLUMNS = (
    "area", "received_at", "served", "closed_at", "domain", "severity", "channel",
    "income_quintile", "households",
)  # fmt: skip
TEMPLATE_SERVED = (8, 9, 11, 13, 14)
"""Of twenty complaints of a made-up area, how many were served, by income quintile."""
TEMPLATE_AREAS = 8
"""Made-up areas of each quintile: enough for a verdict to be seen."""


@dataclass(frozen=True)
class TableOptions:
    """How a table is read."""

    areas: Path | None = None
    """Table of the areas, one row each."""
    within_days: float | None = None
    """Count as served what was closed within so many days, instead of a column ``served``."""
    day_first: bool | None = None


def template_text() -> str:
    """An example of the shape as CSV, with rows enough to see a verdict.

    An empty ``served`` is a case not yet decided: the last of every area is.
    """
    rows = [
        _template_row(place, quintile, number)
        for place in range(TEMPLATE_AREAS)
        for quintile in range(len(TEMPLATE_SERVED))
        for number in range(21)
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([TEMPLATE_COLUMNS, *rows])
    return out.getvalue()


def _template_row(place: int, quintile: int, number: int) -> tuple[str, ...]:
    """One made-up complaint; the lot is shuffled by steps of seven, and by the area."""
    is_decided = number < 20
    n_served = TEMPLATE_SERVED[quintile] + place % 5 - 2  # areas of one quintile differ
    is_served = (7 * number + 3 * place) % 20 < n_served
    received = date(2025, 1, 6) + timedelta(days=17 * number + place)
    closed = received + timedelta(days=2 if is_served else 40)
    return (
        f"made-up area {5 * place + quintile + 1}",
        f"{received} {8 + number % 10:02d}:30",
        ("yes" if is_served else "no") if is_decided else "",
        str(closed) if is_decided else "",
        "heat",
        "ABCD"[(number + place) % 4],
        ("PHONE", "ONLINE", "MOBILE")[number % 3],
        str(quintile + 1),
        str(900 + 40 * place),
    )


def is_table(given: str) -> bool:
    """Whether a name is a file's, there or not: no run and no folder of records has its ending."""
    return Path(given).is_file() or Path(given).suffix.lower() in SUFFIXES


def audit_table(
    path: str | Path,
    spec: AuditSpec = AuditSpec(),
    *,
    root: Path = Path("runs"),
    domains: Sequence[str] | None = None,
    options: TableOptions = TableOptions(),
) -> dict[str, Any]:
    """Audit a table of complaints and write audit.html, audit.json and CSV tables as a run.

    Nothing is estimated: rates are per complaint of the table, and per household where areas give
    them. What nobody reported is not in the table, and the page says so.
    """
    path = Path(path)
    rows = read_table(path, REQUIRED, (*REQUIRED, *OPTIONAL, *AREA_NUMBERS), "complaint")
    refuse(path, "area", rows["area"], _all_empty(rows["area"]), "no row has an area")
    places, index = _read_places(path, rows, options.areas)
    days, notes = read_days(
        path, rows, ("received_at", "closed_at"), "received_at", options.day_first
    )
    served, how = _read_served(path, rows, days, options.within_days)
    names = _texts(rows, "domain", "complaints")
    for name in domains or ():
        if name not in names:
            raise InputError(
                f"The table has no domain {name!r}; it has {', '.join(sorted(set(names)))}."
            )
    inputs = [
        _inputs(rows, names == name, places, index, days["received_at"], served, name)
        for name in sorted(set(names))
        if not domains or name in domains
    ]
    denominators = ("complaints", "dwellings") if places.dwellings.any() else ("complaints",)
    spec = replace(spec, estimand="as_given", denominators=denominators)
    said = {
        one.domain: f"no estimate of incidents: a table of complaints is audited as it is; {how}"
        for one in inputs
    }
    found = write_audit(
        inputs,
        (),
        spec,
        root=root,
        command=f"audit {path.name}",
        config={"table": path.name, "spec": spec, "spec_sha256": spec.sha256},
        add_data=lambda run: _add_table(run, path, options.areas, rows.num_rows),
        estimates=said,
    )
    return {**found, "table": str(path), "counted": how, "notes": list(notes)}


def _all_empty(column: pa.ChunkedArray) -> np.ndarray:
    empty = is_empty(column)
    return empty if empty.all() else np.zeros(len(empty), dtype=bool)


def _texts(rows: pa.Table, name: str, default: str) -> np.ndarray:
    if name not in rows.column_names:
        return np.full(rows.num_rows, default, dtype=object)
    found = np.char.strip(texts_of(rows[name])).astype(object)
    return np.where(found == "", default, found)


def _read_served(
    path: Path, rows: pa.Table, days: dict[str, np.ndarray], within_days: float | None
) -> tuple[np.ndarray, str]:
    """(n,) 1 served, 0 not, NaN not yet decided; and how that was told, in words."""
    if within_days is not None:
        if "closed_at" not in rows.column_names:
            raise RecordsError(
                f"{path} has no column 'closed_at', which --within needs; add it, or a column "
                "'served' with yes and no."
            )
        received, closed = days["received_at"], days["closed_at"].copy()
        today = (date.today() - date(1970, 1, 1)).days + 2.0
        # A day without an hour may be that of receipt.
        wrong = (closed < np.floor(received)) | (closed >= today)
        closed[wrong] = np.nan
        at_once = (closed == received) & (received != np.floor(received))
        last = np.nanmax(np.concatenate([received, closed]))
        is_due = received + within_days <= last
        late = np.isnan(closed) | (closed - received > within_days)
        how = f"served is what was closed within {within_days:g} days"
        if wrong.any():
            how += (
                f"; {int(wrong.sum()):,} closings lie before the complaint or in the future and "
                "are taken as not closed"
            )
        if at_once.any():
            how += (
                f"; {int(at_once.sum()):,} closings are at the very moment of receipt, which may "
                "say nothing of when somebody came"
            )
        return np.where(~late, 1.0, np.where(is_due, 0.0, np.nan)), how
    if "served" not in rows.column_names:
        raise RecordsError(
            f"{path} has no column 'served' (yes, no, or empty where nothing is decided yet); add "
            "it, or give --within DAYS to count what was closed in time."
        )
    texts = np.char.lower(np.char.strip(texts_of(rows["served"])))
    is_yes, is_no = np.isin(texts, YES), np.isin(texts, NO)
    refuse(path, "served", rows["served"], ~(is_yes | is_no | (texts == "")), "expected yes or no")
    return np.where(is_yes, 1.0, np.where(is_no, 0.0, np.nan)), "served is what the table says"


def _read_places(path: Path, rows: pa.Table, areas: Path | None) -> tuple[AuditPlaces, np.ndarray]:
    """The areas, and the index of every row's among them; `LOST` where it has none."""
    table, place = rows, path
    if areas is not None:
        place = areas
        table = read_table(areas, ("area",), ("area", *AREA_NUMBERS), "area")
    names = area_ids(table)
    known, first, of_row = np.unique(names, return_index=True, return_inverse=True)
    numbers: dict[str, np.ndarray] = {}
    for name in AREA_NUMBERS:
        if name in table.column_names:
            values = read_numbers(place, table, name)
            of_area = values[first]
            differs = np.isfinite(values) & (values != of_area[of_row])
            refuse(place, name, table[name], differs, "an area has one value in all of its rows")
            numbers[name] = of_area
    keep = known != ""
    known, numbers = known[keep], {name: values[keep] for name, values in numbers.items()}
    own = area_ids(rows)
    if not np.isin(own[own != ""], known).any():
        raise RecordsError(
            f"No area of {path}, like {str(own[own != ''][0])!r}, is in {place}, which has areas "
            f"like {str(known[0])!r}; give both the same codes."
        )
    at = np.searchsorted(known, own).clip(0, max(len(known) - 1, 0))
    index = np.where(known[at] == own, at, LOST)
    n = len(known)
    households = np.nan_to_num(numbers.get("households", np.zeros(n)))
    return AuditPlaces(
        geoid=known.astype(object),
        borough=np.full(n, "", dtype=object),
        community_board=np.zeros(n, dtype=np.int64),
        households=households,
        dwellings=households,
        income_quintile=_quintiles(place, table, numbers, households),
        shares={race: numbers.get(f"share_{race}", np.full(n, np.nan)) for race in RACE_GROUPS},
    ), index


def _quintiles(
    path: Path, table: pa.Table, numbers: dict[str, np.ndarray], households: np.ndarray
) -> np.ndarray:
    if "income_quintile" in numbers:
        given = numbers["income_quintile"]
        wrong = np.isfinite(read_numbers(path, table, "income_quintile"))
        wrong &= ~np.isin(read_numbers(path, table, "income_quintile"), np.arange(6))
        refuse(path, "income_quintile", table["income_quintile"], wrong, "expected 1 to 5")
        return np.nan_to_num(given).astype(np.int64)
    if "median_income" in numbers:
        weights = households if households.any() else np.ones(len(households))
        return np.asarray(income_quintiles(numbers["median_income"], weights)).astype(np.int64)
    raise RecordsError(
        f"{path} says nothing of who lives in an area; add income_quintile (1 to 5) or "
        "median_income to its rows, or give a table of areas with --areas."
    )


def _inputs(
    rows: pa.Table,
    chosen: np.ndarray,
    places: AuditPlaces,
    index: np.ndarray,
    received: np.ndarray,
    served: np.ndarray,
    domain: str,
) -> AuditInputs:
    """What the audit of one domain counts: every row is a complaint and a case of its own."""
    first, last = (
        date(1970, 1, 1) + timedelta(days=int(end(received[chosen]))) for end in (np.min, np.max)
    )
    due = chosen & np.isfinite(served)
    severity = np.char.upper(_texts(rows, "severity", "C").astype(str))
    codes = {code: number for number, code in enumerate(SEVERITIES)}
    unknown = sorted(set(severity.tolist()) - set(codes))
    if unknown:
        raise RecordsError(
            f"The table has severity {unknown[0]!r}; allowed are {', '.join(SEVERITIES)}."
        )
    months = (received.astype("datetime64[D]").astype("datetime64[M]")).astype(np.int64)
    ones, zeros = np.ones(int(due.sum())), np.zeros(int(due.sum()))
    cells = AuditCells(
        tract=index[due],
        month=(months - months[chosen].min())[due],
        severity=np.array([codes[code] for code in severity[due]], np.int64),
        channel=np.char.upper(_texts(rows, "channel", "UNKNOWN").astype(str))[due].astype(object),
        language=_texts(rows, "language", UNKNOWN)[due],
        n_complaints=ones,
        n_cases=ones,
        n_served=served[due],
        n_accessed=zeros,
        n_found=zeros,
        n_located=(index[due] != LOST).astype(float),
    )
    n_not_due = int(chosen.sum() - due.sum())
    return AuditInputs(
        domain, "recorded", places, cells, None, first, last + timedelta(days=1), n_not_due
    )


def _add_table(run: RunWriter, path: Path, areas: Path | None, n_rows: int) -> None:
    run.add_data(
        path.name,
        hash_file(path),
        is_synthetic=False,
        statement=f"A table of {n_rows:,} complaints ({path.name}), given by the user and audited "
        "as it is: complaints nobody made are not in it.",
        sources=[
            {"name": one.name, "sha256": hash_file(one), "terms": "given by the user"}
            for one in (path, areas)
            if one is not None
        ],
    )
