"""Auditors: who was served by month, the registry, the chain; and a table of one's own to audit."""

from __future__ import annotations

import html
import re
import tempfile
import time
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple

from fastapi import File, Form, Response, UploadFile
from fastapi.responses import HTMLResponse

from parity311.audit.spec import AuditSpec
from parity311.desk import ledger
from parity311.desk.accounts import utc_now
from parity311.desk.figures import picture_service, read_anchoring, read_overrides, read_service
from parity311.desk.offices import MOST_OF_TIME
from parity311.desk.refusals import DeskRefusal, NothingThereError
from parity311.desk.uploads import refuse_swollen
from parity311.desk.web import Caller, Room, Went
from parity311.pipelines.audit_table import TableOptions, audit_table
from parity311.report.folder import list_runs, open_run

ROOM = Room("audit")
N_LOGGED = 50
AUDITS = "audits"
RUN_PAGES = {
    "report": "report",
    "audit": "who is served",
    "frontier": "the frontier",
    "explain": "what drives the policy",
    "compare": "runs side by side",
}
"""Pages of runs that an auditor can open, by what they show."""
MOST_RUNS = 30
LOOKING = Lock()
"""One looks through the log at a time."""


class Looked(NamedTuple):
    """When the log was looked through, how long that took, and what was found."""

    at: float
    took: float
    told: dict[str, Any]


OWN_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
PLAIN_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
NAME = re.compile(r"[\w-]{1,100}")


@ROOM.page("/audit", "audit.html", "audit.read")
def show_audit(caller: Caller) -> dict[str, Any]:
    """Who was served, what the registry and the log say, and audits that were made here."""
    desk = caller.desk
    verified = desk.registry.verify()
    chain = look_at_chain(caller)
    with desk.database.reading() as session:
        log = ledger.read_log(session, N_LOGGED)
        service = read_service(session, desk.offices.values(), desk.clock.now())
        overrides, anchoring = read_overrides(session), read_anchoring(session)
    return {
        "title": "Audit",
        "service": service,
        "pictures": [picture_service(service, domain) for domain in desk.offices],
        "overrides": overrides,
        "anchoring": anchoring,
        "runs": shown_runs(caller),
        "registry": {
            "policies": [
                {"version": one.version, "state": one.state, "verdict": one.verdict,
                 "last_act": one.last_act, "by": one.by, "at": one.at, "reason": one.reason}
                for one in desk.registry.policies()
            ],
            "entries": verified.n_entries,
            "head": verified.head,
            "problems": list(verified.problems),
        },
        "chain": chain,
        "log": [
            {"seq": one.seq, "at": one.at, "actor": one.actor, "action": one.action,
             "domain": one.domain, "case": ledger.details_of(one).get("case", ""),
             "reason": one.reason}
            for one in reversed(log)
        ],
        "audits": made_audits(caller),
    }  # fmt: skip


def look_at_chain(caller: Caller) -> dict[str, Any]:
    """The desk's log from its first entry, looked through; as of a moment ago where it is long.

    Looking takes at most a hundredth of the time, however often the page is opened.
    """
    kept: Looked | None = caller.desk.more.get("chain")
    if kept is not None and time.monotonic() - kept.at < kept.took / MOST_OF_TIME:
        return kept.told
    with LOOKING:
        began = time.monotonic()
        with caller.desk.database.reading() as session:
            problems = ledger.ledger_problems(session)
            seq, head = ledger.head_of(session)
        told = {"entries": seq, "head": head, "problems": problems, "looked_at": utc_now()}
        now = time.monotonic()
        caller.desk.more["chain"] = Looked(now, now - began, told)
    return told


@ROOM.act("/audit/table", "table.upload")
def audit_a_table(
    caller: Caller,
    table: Annotated[UploadFile, File()],
    within: Annotated[float | None, Form(gt=0, le=36_500)] = None,
) -> Went:
    """Audit a table of complaints: the page that `parity311 audit TABLE.csv` writes."""
    name = Path(table.filename or "table.csv").name
    if not name.lower().endswith((".csv", ".xlsx")) or not name.isprintable():
        raise DeskRefusal(f"{name[:60]!r} was sent; allowed are tables that end in .csv or .xlsx.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{Path(name).suffix.lower()}"
        path.write_bytes(table.file.read())
        refuse_swollen(path)
        result = audit_table(
            path, AuditSpec(), root=caller.desk.folder / AUDITS,
            options=TableOptions(None, within, None),
        )  # fmt: skip
    run = str(result["audit"])
    return Went(f"/audit/made/{run}", "", {"run": run})


@ROOM.raw("/audit/made/{run}", "audit.read", methods=["GET"], include_in_schema=False)
def show_made(caller: Caller, run: str) -> Response:
    """An audit that was made here, as its own page."""
    if run not in made_audits(caller):
        raise NothingThereError(f"There is no audit {run[:60]!r}; the list has those there are.")
    return show_page(open_run(run, caller.desk.folder / AUDITS).path / "audit.html")


@ROOM.raw("/audit/runs/{run}/{page}", "audit.read", methods=["GET"], include_in_schema=False)
def show_run(caller: Caller, run: str, page: str) -> Response:
    """A page of a run: its report, audit, frontier, or what drives its policies."""
    root = caller.desk.runs
    if root is None or page not in RUN_PAGES or run not in list_runs(root):
        raise NothingThereError(f"There is no {page[:30]!r} of {run[:60]!r}; see the list.")
    path = root / run / f"{page}.html"
    if not path.is_file():
        raise NothingThereError(f"The run {run[:60]!r} has no such page; see the list.")
    return show_page(path)


def show_page(path: Path) -> Response:
    """A page that was written by a run, under the policy that it brings; else nothing runs."""
    text = path.read_text("utf-8")
    brought = OWN_POLICY.search(text)
    policy = html.unescape(brought[1]) if brought else PLAIN_POLICY
    policy = f"{policy}; img-src data:; frame-ancestors 'none'"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def shown_runs(caller: Caller) -> list[dict[str, Any]]:
    """The newest runs with the pages they have."""
    root = caller.desk.runs
    if root is None:
        return []
    found = []
    for run in reversed(list_runs(root)[-MOST_RUNS:]):
        pages = [name for name in RUN_PAGES if (root / run / f"{name}.html").is_file()]
        if pages and NAME.fullmatch(run):
            found.append({"run": run, "command": open_run(run, root).info["command"],
                          "pages": {name: RUN_PAGES[name] for name in pages}})  # fmt: skip
    return found


def made_audits(caller: Caller) -> list[str]:
    """Audits of tables that were made at this desk, newest first."""
    root = caller.desk.folder / AUDITS
    found = [path.name for path in root.iterdir()] if root.is_dir() else []
    return sorted((one for one in found if NAME.fullmatch(one)), reverse=True)
