"""Analysts bring an export: its columns are placed, it is read in, and what it is good for told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import File, Form, Response, UploadFile

from parity311.audit.spec import AuditSpec
from parity311.desk import uploads
from parity311.desk.refusals import DeskRefusal
from parity311.desk.rooms.audit import AUDITS
from parity311.desk.web import Caller, Room, Went
from parity311.domains import all_domains
from parity311.feeds.citymap import COMPLAINT_FIELDS
from parity311.feeds.judge import OUT_OF_SCOPE
from parity311.pipelines.audit_records import audit_records
from parity311.records.schema import DISPOSITION_CLASSES, SEVERITIES

ROOM = Room("records")
FIELD_WORDS = {
    "key": "number of the request",
    "received_at": "when it came in",
    "category": "what it is about",
    "closed_at": "when it was closed",
    "status": "how it stands, or ended",
    "longitude": "longitude, in degrees",
    "latitude": "latitude, in degrees",
    "zip": "ZIP code",
    "building": "building or address",
    "channel": "how it came in",
    "duplicate": "whether it repeats another",
    "parent": "number of the one it repeats",
}
ORDERS = {"": "as the dates tell", "day": "day first", "month": "month first"}
Short = Annotated[list[str], Form(max_length=400)]


def root_of(caller: Caller) -> Path:
    """Where uploads lie."""
    return caller.desk.folder / "uploads"


@ROOM.page("/records", "records.html", "table.upload")
def show_records(caller: Caller) -> dict[str, Any]:
    """What was brought here, and where to bring more."""
    return {"title": "Your own records", "uploads": uploads.list_uploads(root_of(caller)),
            "endings": uploads.ENDINGS}  # fmt: skip


@ROOM.act("/records", "table.upload")
def bring(
    caller: Caller,
    complaints: Annotated[UploadFile, File()],
    tracts: Annotated[UploadFile | None, File()] = None,
    boundaries: Annotated[UploadFile | None, File()] = None,
) -> Went:
    """Keep an export, and propose what its columns are."""
    given = {"complaints": complaints, "tracts": tracts, "boundaries": boundaries}
    files = {part: (Path(one.filename).name, one.file.read())
             for part, one in given.items() if one is not None and one.filename}  # fmt: skip
    if "complaints" not in files:
        raise DeskRefusal("No export was chosen; choose the file of complaints first.")
    name = uploads.keep(root_of(caller), files, caller.actor.name)
    return Went(f"/records/{name}", "brought", {"upload": name})


@ROOM.page("/records/{upload}", "upload.html", "table.upload")
def show_upload(caller: Caller, upload: str) -> dict[str, Any]:
    """One export: its columns, what its values mean, and what can be done with it."""
    found = uploads.describe(root_of(caller), upload)
    return {
        "title": f"Your own records: {found['files']['complaints']['called']}",
        **found,
        "words": FIELD_WORDS,
        "domains": [*all_domains(), OUT_OF_SCOPE],
        "severities": list(SEVERITIES),
        "classes": list(DISPOSITION_CLASSES),
        "orders": ORDERS,
        "lacking": [one for one in uploads.PARTS if one not in found["files"]],
    }


@ROOM.act("/records/{upload}/columns", "table.upload")
def set_columns(caller: Caller, upload: str, field: Short, column: Short) -> Went:
    """Say which column each field is taken from."""
    if len(field) != len(column) or not set(field) <= set(COMPLAINT_FIELDS):
        raise DeskRefusal("The form does not fit the page; open the page again.")
    uploads.place(root_of(caller), upload, dict(zip(field, column, strict=True)))
    return Went(f"/records/{upload}", "placed")


@ROOM.act("/records/{upload}/read", "table.upload")
def read_upload(
    caller: Caller,
    upload: str,
    category: Short = [],  # noqa: B006
    domain: Short = [],  # noqa: B006
    severity: Short = [],  # noqa: B006
    outcome: Short = [],  # noqa: B006
    kind: Short = [],  # noqa: B006
    order: Annotated[Literal["", "day", "month"], Form()] = "",
) -> Went:
    """Say what values mean, and read the export in."""
    if not len(category) == len(domain) == len(severity) or len(outcome) != len(kind):
        raise DeskRefusal("The form does not fit the page; open the page again.")
    uploads.set_meanings(
        root_of(caller), upload,
        dict(zip(category, zip(domain, severity, strict=True), strict=True)),
        dict(zip(outcome, kind, strict=True)),
        None if not order else order == "day",
    )  # fmt: skip
    uploads.start(root_of(caller), upload)
    return Went(f"/records/{upload}", "reading")


@ROOM.act("/records/{upload}/audit", "table.upload")
def audit_upload(caller: Caller, upload: str) -> Went:
    """Audit what was read in: who was served, with intervals."""
    folder = uploads.folder_of(root_of(caller), upload)
    if uploads.state_of(root_of(caller), upload) != "read":
        raise DeskRefusal("The export was not read in yet; do that first.")
    made = audit_records(folder / "records", AuditSpec(), root=caller.desk.folder / AUDITS)
    return Went(f"/audit/made/{made['audit']}", "", {"run": made["audit"]})


@ROOM.raw("/records/{upload}/map", "table.upload", methods=["GET"])
def show_map(caller: Caller, upload: str) -> Response:
    """The map as a file, for `parity311 records import --map`."""
    text = (uploads.folder_of(root_of(caller), upload) / uploads.MAP).read_text("utf-8")
    headers = {"Content-Disposition": 'attachment; filename="city.toml"'}
    return Response(text, media_type="application/toml", headers=headers)


@ROOM.act("/records/{upload}/remove", "table.upload")
def remove_upload(caller: Caller, upload: str) -> Went:
    """Remove an export with all that was made of it."""
    uploads.remove(root_of(caller), upload)
    return Went("/records", "removed")
