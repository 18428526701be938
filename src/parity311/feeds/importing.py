"""The import: files in, one records folder out, every row accounted for.

Memory stays bounded whatever the size of the files: DuckDB streams each file into Parquet, works on
columns, and spills to disk beside the folder that is being written. The folder appears only when it
is whole; a run that was killed leaves nothing that a reader could mistake for records.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import duckdb
import pyarrow as pa

from parity311.errors import InputError, RecordsError, unknown_name
from parity311.feeds import judge
from parity311.feeds.citymap import CityMap
from parity311.feeds.classify import (
    count_unknown_outcomes,
    find_repeats,
    make_outcome_map,
    make_type_map,
    match_sources,
)
from parity311.feeds.codes import known_domains, load_codes, make_mapped_codes
from parity311.feeds.coverage import measure_coverage
from parity311.feeds.dates import DATE_COLUMNS, DateReading, read_dates
from parity311.feeds.inputs import InputGroup, collect_inputs
from parity311.feeds.locate import name_areas
from parity311.feeds.packing import says_more
from parity311.feeds.parsing import TIME_ZONE
from parity311.feeds.places import fill_tracts, locate_rows, read_places, read_tracts
from parity311.feeds.quarantine import keep_quarantine, quarantined, write_quarantine
from parity311.feeds.reference import import_references, import_violations
from parity311.feeds.staging import (
    breaks_off,
    cannot_read,
    rows_of,
    stage_query,
    take_unreadable,
    write_stage,
)
from parity311.feeds.work import (
    COMPLAINT_KINDS,
    FIGURE_KINDS,
    ImportOptions,
    ImportWork,
    Report,
    open_work,
)
from parity311.feeds.write import write_buildings, write_domain
from parity311.records.schema import TABLES
from parity311.records.sql import files, literal, parquet
from parity311.records.store import table_path, write_manifest, write_table, writing_records
from parity311.records.validate import validate_file

__all__ = ["ImportOptions", "import_records"]

ONE_PAGE = (1_000, 2_000, 5_000, 10_000, 32_000, 50_000, 100_000, 65_535, 1_048_575)
"""Numbers of rows that servers give at most at once, and that a spreadsheet holds at most."""
MANY_TOGETHER, SPREAD = 0.2, 14
"""Share of a file's closings on one day from which on it is said, where those complaints came in on
at least so many days."""
MANY_REPEATED = 0.02
"""Share of rows with another's key from which on it is said: exports repeat a few."""


def import_records(
    paths: Sequence[str | Path],
    out: str | Path,
    options: ImportOptions | None = None,
    report: Report | None = None,
    *,
    city_map: CityMap | None = None,
) -> dict[str, Any]:
    """Turn exports and fetched folders into a records folder; give its manifest.

    Besides complaints, the files must include ACS figures by tract and tract boundaries. With
    ``city_map`` they are those of another city.

    Examples
    --------
    >>> exports = ["exports/complaints.csv", "exports/acs.csv", "exports/tracts.geojson"]
    >>> manifest = parity311.import_records(exports, "records/nyc")
    >>> parity311.open_records("records/nyc").is_real
    True
    """
    out, options = Path(out), options or ImportOptions()
    for domain in options.domains or ():
        if city_map is None and domain not in known_domains():
            raise unknown_name("domain", domain, known_domains())
    given = [Path(path) for path in paths]
    groups = collect_inputs(given, city_map, options.read_as, options.sheet)
    _check_inputs(groups)
    with writing_records(out, "import", overwrite=options.overwrite) as aside:
        connection = open_work(aside / ".stage", options)
        work = ImportWork(connection, groups, aside, options, report or _no_report, city_map, out)
        try:
            for number, group in enumerate(groups):
                group.unpack(work.stage / "unpacked" / str(number))
            details = _import(work)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise _cannot_import(error) from error
        finally:
            connection.close()
        shutil.rmtree(work.stage)
        return write_manifest(aside, "import", details)


def _cannot_import(error: duckdb.Error) -> RecordsError:
    """What reading, writing or memory failed at, and what to do; nothing half-imported is left."""
    first = str(error).splitlines()[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        cure = "Give more with --memory-limit, or more disk beside the output folder"
    elif "space" in first.lower():
        cure = "Free some space or choose another disk with --out"
    else:
        cure = "The file may have been cut off: download it again"
    return RecordsError(f"The import stopped ({first}). {cure}.")


def _no_report(stage: str, completed: float, total: float) -> None:
    return None


def _check_inputs(groups: list[InputGroup]) -> None:
    kinds = {group.kind for group in groups}
    if not kinds & set(COMPLAINT_KINDS):
        raise InputError(
            f"None of the {len(groups)} files holds complaints; give at least one export of 311, "
            "DOB, HPD or boiler rows."
        )
    if not kinds & set(FIGURE_KINDS):
        raise InputError(
            "No file gives ACS figures by tract, without which nothing can be compared by income; "
            "fetch them with `parity311 fetch nyc`, or give a table with GEOID and income."
        )
    if "boundaries" not in kinds:
        raise InputError(
            "No file gives tract boundaries (GeoJSON with a GEOID); fetch them with `parity311 "
            "fetch nyc`, or give a file."
        )


def _import(work: ImportWork) -> dict[str, Any]:
    connection = work.connection
    load_codes(connection)
    if work.city_map is None:
        make_mapped_codes(connection)
    else:
        make_mapped_codes(connection, work.city_map.type_codes, work.city_map.outcome_codes)
    boundaries, tracts = read_tracts(work)
    _stage_all(work)
    read_places(work, boundaries)
    work.report("looking up codes", 0, 1)
    make_type_map(connection)
    make_outcome_map(connection)
    find_repeats(connection)
    work.notes["matching"] = match_sources(connection, work.sources)
    work.notes["outcomes of unknown meaning, taken as other"] = [
        {"source": source, "words": words, "rows": n}
        for source, words, n in count_unknown_outcomes(connection)
    ]
    work.report("looking up codes", 1, 1)
    locate_rows(work, boundaries)
    has_areas = work.city_map is not None and "tract" in work.city_map.complaints
    if has_areas:
        name_areas(connection)
    work.report("locating", 1, 1)
    until = datetime.now(UTC).date() + timedelta(days=2)
    query = judge.judged_query(
        domains=work.options.domains,
        keep_unlocated=work.options.keep_unlocated,
        since=work.since,
        until=until,
        matched="sr311" in work.sources and len(work.sources) > 1,
        has_areas=has_areas,
    )
    judge.write_judged(connection, query, work.placed, until=until)
    work.report("judging", 1, 1)
    tracts = fill_tracts(work, tracts)
    account = _account(work)
    account |= import_violations(work)
    account |= import_references(work)
    domains = _write_tables(work, tracts)
    return _describe(work, tracts, domains, account, until)


def _stage_all(work: ImportWork) -> None:
    """Stage every complaint file and make the view ``staged`` over all of them."""
    parts: list[LiteralString] = []
    groups = work.complaint_groups
    for number, group in enumerate(groups):
        work.report("reading", number, len(groups))
        path = work.stage / f"rows-{number}.parquet"
        if work.city_map is not None and group.kind == "mapped":
            _note_absent_columns(work, group)
            query = work.city_map.stage_query(group.layouts, _read_dates(work, group).timestamp)
        else:
            query = stage_query(group.layouts, _read_dates(work, group).timestamp)
        first = group.layouts[0].path
        work.unreadable[group.name] = write_stage(work.connection, query, path, first)
        if any(breaks_off(layout) for layout in group.layouts):
            work.notes.setdefault("cut off", []).append({"file": group.name})
        said = [says_more(one.path, one.packing) for one in group.layouts if one.packing.rows_under]
        if said:
            more, total = any(one for one, _ in said), max(n for _, n in said)
            work.notes.setdefault("answers", []).append(
                {"file": group.name, "more": more, "total": total}
            )
        parts.append(
            f"SELECT * EXCLUDE (file_row_number), {literal(group.kind)} AS source, "
            f"{literal(number)} AS file, file_row_number + 1 AS row "
            f"FROM read_parquet({files([path])}, file_row_number = true, hive_partitioning = false)"
        )
    work.report("reading", len(groups), len(groups))
    work.connection.execute(f"CREATE TEMP VIEW staged AS {' UNION ALL '.join(parts)}")


def _note_absent_columns(work: ImportWork, group: InputGroup) -> None:
    """Say which columns of the map the file does not have, so that a slip of the pen shows."""
    assert work.city_map is not None
    said = work.notes.setdefault("columns", [])
    for field, column in work.city_map.absent_columns(group.layouts[0]).items():
        note = f"has no column {column!r}, which the map gives as {field}; it is taken as empty"
        said.append({"file": group.name, "note": note})


def _read_dates(work: ImportWork, group: InputGroup) -> DateReading:
    """How the dates of a file are read; what is to be said about it goes into the notes."""
    zone = work.city_map.time_zone if work.city_map is not None else TIME_ZONE
    if group.kind == "mapped" and work.city_map is not None and work.city_map.date_format:
        return DateReading(zone=zone)
    day_first = work.options.day_first
    if day_first is None and work.city_map is not None:
        day_first = work.city_map.day_first
    try:
        columns, rows = DATE_COLUMNS[group.kind], rows_of(group.layouts)
        found = read_dates(
            work.connection,
            group.name,
            columns,
            rows,
            zone,
            day_first=day_first,
            is_known_portal=work.city_map is None,
        )
    except duckdb.InvalidInputException as error:
        raise cannot_read(group.layouts[0].path, error) from error
    take_unreadable(work.connection)
    said = work.notes.setdefault("dates", [])
    said += [{"file": group.name, "note": note} for note in found.notes]
    return found


def _account(work: ImportWork) -> dict[str, dict[str, Any]]:
    """Rows of every complaint file: in, kept by domain, out of scope, quarantined by reason."""
    rows = work.connection.execute(f"""
SELECT file, CAST(domain AS VARCHAR), reason, count(*)
FROM {parquet(work.placed.glob("*/*.parquet"))} GROUP BY ALL ORDER BY ALL""").fetchall()
    account: dict[str, dict[str, Any]] = {}
    for number, group in enumerate(work.complaint_groups):
        entry: dict[str, Any] = {
            "rows_in": 0, "kept": 0, "out_of_scope": 0, "quarantined": {}, "domains": {}
        }  # fmt: skip
        for file, domain, reason, n in rows:
            if file != number:
                continue
            entry["rows_in"] += n
            if reason is not None:
                entry["quarantined"][reason] = n
            elif domain == judge.OUT_OF_SCOPE:
                entry["out_of_scope"] += n
            else:
                entry["kept"] += n
                entry["domains"][domain] = n
        for lost in work.unreadable[group.name]:
            entry["rows_in"] += lost.lines
            entry["quarantined"][lost.reason] = lost.lines
        account[group.name] = entry
    return account


def _write_tables(work: ImportWork, tracts: pa.Table) -> dict[str, dict[str, int]]:
    """Write and check every canonical table; give counts by domain."""
    names = sorted(
        path.name.removeprefix("domain=")
        for path in work.placed.iterdir()
        if path.name not in (f"domain={judge.OUT_OF_SCOPE}", f"domain={judge.QUARANTINE}")
    )
    write_quarantine(work)
    if not names:
        raise _nothing_kept(work)
    counts = {}
    for number, domain in enumerate(names):
        work.report("writing", number, len(names))
        counts[domain] = write_domain(
            work.connection,
            work.placed,
            work.aside,
            domain,
            has_violations=bool(work.of_kind("hpd_violations")),
        )
    write_buildings(work.connection, work.aside)
    write_table(work.aside, "tracts", tracts)
    for name, table in TABLES.items():
        if name != "tracts":
            for domain in names if table.by_domain else (None,):
                validate_file(table, table_path(work.aside, name, domain), work.aside)
    work.report("writing", len(names), len(names))
    return counts


def _nothing_kept(work: ImportWork) -> RecordsError:
    """Why no row could be kept, what would help, and where the rows can be looked at."""
    reasons = work.connection.execute(
        f"SELECT reason, count(*), min(received_text) FROM {quarantined(work)} "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    listed = [
        f"{reason} ({n:,}{f', like {sample!r}' if sample else ''})" for reason, n, sample in reasons
    ]
    beside = sum(row["rows"] for row in _out_of_scope(work))
    if beside:
        listed.append(f"of no domain asked for ({beside:,})")
    first, _, sample = reasons[0] if reasons else ("", 0, "")
    kept = keep_quarantine(work)
    look = f" The rows lie in {kept} to look at." if kept else ""
    return RecordsError(
        f"Not one row could be kept; the reasons are {', '.join(listed) or 'that there is no row'}."
        f"{look} {_advice(first, sample, work)}"
    )


DAY_LOST = re.compile(r"[0-9]{1,2}:[0-9]{2}[.][0-9]|#+")
"""What a spreadsheet saves of a time whose cell showed minutes alone, or was too narrow."""


def _advice(reason: str, sample: str | None, work: ImportWork) -> str:
    """What to do about the reason that most rows were set aside for; ``sample`` is such a date."""
    if reason in judge.LOCATION_REASONS and work.city_map is not None:
        return (
            "Check that the map's longitude and latitude are degrees, not exchanged and with their "
            "signs; where rows name their tract, ZIP code or district, give that column as tract "
            "in the map, with a table and outlines of those areas."
        )
    if reason in judge.LOCATION_REASONS:
        return (
            "Rows with a building or lot number only are located by tax lots (PLUTO) and building "
            "footprints: give those files too (`parity311 fetch nyc` brings them), or keep the "
            "rows by borough with --keep-unlocated."
        )
    if reason == "received date unreadable" and DAY_LOST.fullmatch(sample or ""):
        return (
            "A spreadsheet saved what its cells showed, without the day: export the table again, "
            "or format that column as date and time before saving it."
        )
    if reason == "received date unreadable":
        return (
            "ISO and US dates are read; describe another format in a map (date_format) and pass "
            "it with --map."
        )
    if reason == "unknown code":
        return "Add the categories to the map." if work.city_map else "Is the file the city's own?"
    return "Correct the files, or ask for other domains or dates, and import again."


def _describe(
    work: ImportWork,
    tracts: pa.Table,
    domains: dict[str, dict[str, int]],
    account: dict[str, dict[str, Any]],
    until: date,
) -> dict[str, Any]:
    complaints = parquet((work.aside / "complaints").glob("*.parquet"))
    first, last = work.connection.execute(
        "SELECT CAST(min(received_at) AS DATE), CAST(max(received_at) AS DATE) + 1 "
        f"FROM {complaints}"
    ).fetchall()[0]
    for name, lost in work.unreadable.items():
        if name in account and lost:
            account[name]["first_unreadable_line"] = min(entry.first_line for entry in lost)
    sources = [group.describe() | account.get(group.name, {}) for group in work.groups]
    return {
        "city": work.city_map.name if work.city_map else "New York City",
        "date_from": str(first),
        "date_to": str(last)[:10],
        "sources": sources,
        "domains": domains,
        "coverage": measure_coverage(work, tracts),
        "notes": work.notes
        | _repairs(work, until)
        | _closed_at_once(work)
        | _closed_together(work, until)
        | _repeated_keys(account)
        | _one_page(account, work.notes),
        "out_of_scope": _out_of_scope(work),
    }


def _out_of_scope(work: ImportWork) -> list[dict[str, Any]]:
    """What was left out because no domain, or none asked for, decides about it."""
    folder = work.placed / f"domain={judge.OUT_OF_SCOPE}"
    if not folder.is_dir():
        return []
    rows = work.connection.execute(f"""
SELECT source, coalesce(code_domain, 'no domain'), count(*)
FROM {parquet(folder.glob("*.parquet"))} GROUP BY ALL ORDER BY ALL""").fetchall()
    return [{"source": source, "domain": domain, "rows": n} for source, domain, n in rows]


def _repeated_keys(account: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Files of which many rows share a key: they may have one row a visit, not a complaint."""
    found = []
    for name, entry in account.items():
        n = entry["quarantined"].get("repeated key", 0)
        if n > MANY_REPEATED * entry["rows_in"]:
            found.append({"file": name, "rows": n, "of": entry["rows_in"]})
    return {"repeated keys": found}


def _one_page(
    account: dict[str, dict[str, Any]], notes: dict[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Files that may be one page of more, by their number of rows or what the server said."""
    answers = {one["file"]: one for one in notes.get("answers", [])}
    found = []
    for name, entry in account.items():
        said = answers.get(name, {"more": False, "total": 0})
        is_part = said["more"] or said["total"] > entry["rows_in"]
        if is_part or (entry["rows_in"] in ONE_PAGE and said["total"] != entry["rows_in"]):
            total = said["total"] if is_part else 0
            found.append(
                {"file": name, "rows": entry["rows_in"], "is_said": is_part, "total": total}
            )
    return {"one page": found}


def _repairs(work: ImportWork, until: date) -> dict[str, dict[str, int]]:
    """Values that were set to null or moved because they cannot be, by what was wrong."""
    rows = work.connection.execute(f"""
SELECT
  count(*) FILTER (WHERE closed_at < received_at AND closed_at <> CAST(received_at AS DATE)),
  count(*) FILTER (WHERE closed_at = CAST(received_at AS DATE) AND closed_at < received_at),
  count(*) FILTER (WHERE received_at = CAST(received_at AS DATE)),
  count(*) FILTER (WHERE month(received_at) = 3 AND dayofweek(received_at) = 0
    AND day(received_at) BETWEEN 8 AND 14 AND hour(received_at) = 2),
  count(*) FILTER (WHERE closed_at >= TIMESTAMP {literal(until)}),
  count(*) FILTER (WHERE is_closing_unreadable)
FROM staged WHERE type_key IS NOT NULL""").fetchall()[0]
    names = (
        "closed before received, taken as not closed",
        "closed the same day without a time, taken as closed at once",
        "received without a time of day",
        "received in the hour that clocks skip",
        "closed in the future, taken as not closed",
        "closing date unreadable, taken as not closed",
    )
    return {"repairs": {name: int(n) for name, n in zip(names, rows, strict=True)}}


def _closed_at_once(work: ImportWork) -> dict[str, list[dict[str, Any]]]:
    """Files with closings at the very moment the complaint was received: no closing times."""
    rows = work.connection.execute(f"""
SELECT file, count(closed_at),
  count(*) FILTER (WHERE {judge.is_closed_at_once("staged")}) AS at_once
FROM staged WHERE type_key IS NOT NULL GROUP BY file HAVING at_once > 0 ORDER BY file""").fetchall()
    names = [group.name for group in work.complaint_groups]
    found = [{"file": names[file], "closed": n, "at_once": once} for file, n, once in rows]
    return {"closed at the moment of receipt": found}


def _closed_together(work: ImportWork, until: date) -> dict[str, list[dict[str, Any]]]:
    """Files of which many closings are on one day: a batch that was closed, or a day of export."""
    closings: LiteralString = (
        "FROM staged WHERE type_key IS NOT NULL AND closed_at >= received_at "
        f"AND closed_at < TIMESTAMP {literal(until)} AND NOT {judge.is_closed_at_once('staged')}"
    )
    days = work.connection.execute(
        f"SELECT file, CAST(closed_at AS DATE) AS day, count(*) AS n {closings} "
        "GROUP BY file, day ORDER BY file, n DESC, day"
    ).fetchall()
    totals: dict[int, int] = {}
    for file, _, n in days:
        totals[file] = totals.get(file, 0) + n
    names = [group.name for group in work.complaint_groups]
    found = []
    for file, day, n in days:
        if n <= max(MANY_TOGETHER * totals[file], SPREAD):
            continue
        spread = work.connection.execute(
            f"SELECT count(DISTINCT CAST(received_at AS DATE)) {closings} "
            f"AND file = {literal(file)} AND CAST(closed_at AS DATE) = DATE {literal(day)}"
        ).fetchall()[0][0]
        if spread >= SPREAD:
            found.append({"file": names[file], "day": str(day), "rows": n, "of": totals[file]})
    return {"closed on one day": found}
