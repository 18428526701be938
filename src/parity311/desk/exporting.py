"""What a desk took in and decided, as one file that `parity311 records import` reads.

The file has what came in (`complaints.csv`), what inspectors found and how cases ended, as the
records have them; apart from those, what staff decided (`decisions.csv`): a label for the next
cycle, never an outcome. Nobody's name, address or words are in it; staff stand by their role.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk import ledger
from parity311.desk.desk import FED_TO, OPENED, recall
from parity311.desk.tables import (
    ActRow,
    CaseRow,
    ClosingRow,
    DeskLogRow,
    ReportRow,
    SurveyRow,
    VisitRow,
)
from parity311.errors import RegistryError
from parity311.feeds.desk_export import CASE_LINKS, DESK_EXPORT, EXPORT_VERSION, MANIFEST
from parity311.lifecycle.database import Database
from parity311.storage.aside import writing_aside
from parity311.storage.strict_json import to_json

ROWS_AT_ONCE = 1000
PLAIN_REPORT = ("complaint_id", "domain", "category", "severity", "received_at", "tract",
                "building_id", "channel", "language")  # fmt: skip
VISIT_FIELDS = ("visit_id", "complaint_id", "visited_at", "attempt", "result", "propensity",
                "n_waiting", "n_slots")  # fmt: skip
CLOSING_FIELDS = ("complaint_id", "closed_at", "disposition", "code")
DECISION_FIELDS = ("entry", "date", "decided_at", "role", "act", "complaint_id", "domain", "tract",
                   "version", "recommended", "taken", "arm", "propensity", "fallback", "was_blind",
                   "reason")  # fmt: skip
"""The names that `--overrides` of `audit` and `policies watch` reads are among them."""
SURVEY_FIELDS = ("date", "domain", "score")


def export_desk(database: Database, out: Path, until: datetime | None = None) -> dict[str, Any]:
    """Write the file; what is in it. It is of one moment, and may be made while staff work.

    `until` is the city's time; that of the replay or of the machine if it is not given.
    """
    with writing_aside(out) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with database.reading() as session:
            opened = recall(session, OPENED)
            if opened is None:
                raise RegistryError(
                    f"No desk was opened on {database.where}; name the database of one."
                )
            fed_to = recall(session, FED_TO)
            until = until or (datetime.fromisoformat(fed_to) if fed_to else datetime.now())
            parts = {
                "complaints.csv": _complaints(session),
                "visits.csv": _plain(session, VisitRow, VISIT_FIELDS, VisitRow.visit_id),
                "closings.csv": _plain(
                    session, ClosingRow, CLOSING_FIELDS, ClosingRow.complaint_id
                ),
                CASE_LINKS: _links(session),
                "decisions.csv": _decisions(session),
                "survey.csv": _survey(session),
            }
            files = {name: _write_csv(file, name, *part) for name, part in parts.items()}
            seq, head = ledger.head_of(session)
        manifest = {
            "kind": DESK_EXPORT,
            "export_version": EXPORT_VERSION,
            "domains": opened["domains"],
            "opened_at": opened["at"],
            "until": until.isoformat(timespec="seconds"),
            "log": {"entries": seq, "head": head},
            "files": files,
        }
        file.writestr(MANIFEST, to_json(manifest))
    return manifest


def _write_csv(
    file: zipfile.ZipFile, name: str, fields: Sequence[str], rows: Iterable[Sequence[Any]]
) -> dict[str, Any]:
    """One table into the file; its rows and hash."""
    digest, n = hashlib.sha256(), 0
    with file.open(name, "w") as out:

        def write(row: Sequence[Any]) -> None:
            line = io.StringIO()
            csv.writer(line).writerow(row)
            data = line.getvalue().encode()
            digest.update(data)
            out.write(data)

        write(fields)
        for row in rows:
            write(["" if value is None else value for value in row])
            n += 1
    return {"rows": n, "sha256": digest.hexdigest()}


def _complaints(session: Session) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    """Every report with what links it to others of its case, and what else its source told."""
    rows = session.execute(
        select(ReportRow, CaseRow.complaint_id, CaseRow.source)
        .join(CaseRow, CaseRow.number == ReportRow.case_number)
        .order_by(ReportRow.received_at, ReportRow.complaint_id)
    )

    def plain() -> Iterator[Sequence[Any]]:
        for report, case, source in rows.yield_per(ROWS_AT_ONCE):
            told = [getattr(report, name) for name in PLAIN_REPORT]
            is_new = not (source == "before" and case == report.complaint_id)
            yield [*told, report.incident_id or case, str(is_new).lower(), report.flags]

    return (*PLAIN_REPORT, "incident_id", "is_new", "free_fields"), plain()


def _links(session: Session) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    """Cases that staff found to be duplicates of others, by their first reports."""
    rows = session.execute(
        select(CaseRow.complaint_id, CaseRow.duplicate_of)
        .where(CaseRow.duplicate_of != "")
        .order_by(CaseRow.complaint_id)
    )
    return ("complaint_id", "duplicate_of"), (tuple(row) for row in rows)


def _plain(
    session: Session, table: Any, fields: Sequence[str], order: Any
) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    rows = session.execute(select(*(getattr(table, name) for name in fields)).order_by(order))
    return fields, (tuple(row) for row in rows.yield_per(ROWS_AT_ONCE))


def _decisions(session: Session) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    """What stands of the log: decisions that were taken back are left out."""
    back = {
        json.loads(payload)["details"].get("takes_back")
        for payload in session.scalars(
            select(DeskLogRow.payload).where(DeskLogRow.action == ledger.UNDO)
        )
    }
    rows = session.execute(
        select(DeskLogRow, CaseRow.tract)
        .join(ActRow, ActRow.seq == DeskLogRow.seq)
        .join(CaseRow, CaseRow.complaint_id == ActRow.complaint_id)
        .where(DeskLogRow.action.in_(ledger.DECISIONS))
        .order_by(DeskLogRow.seq)
        .execution_options(yield_per=ROWS_AT_ONCE)
    )

    def plain() -> Iterator[Sequence[Any]]:
        for row, tract in rows:
            if row.seq in back:
                continue
            said = json.loads(row.payload)["details"]
            yield (
                row.seq, said["city_time"][:10], said["city_time"], said.get("role"), row.action,
                said["case"], row.domain, tract, row.version, said.get("recommended"),
                said["chosen"], said.get("arm"),
                said.get("propensity"), said.get("fallback"),
                str(bool(said.get("was_blind"))).lower(), row.reason,
            )  # fmt: skip

    return DECISION_FIELDS, plain()


def _survey(session: Session) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    """Answers of staff by day, as `--survey` of `policies watch` reads them."""
    rows = session.execute(
        select(SurveyRow.at, SurveyRow.domain, SurveyRow.score).order_by(SurveyRow.number)
    )
    return SURVEY_FIELDS, ((at[:10], domain, score) for at, domain, score in rows)
