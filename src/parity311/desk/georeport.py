"""Open311 GeoReport v2 as text: XML and JSON, and its own form of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

from fastapi import Response

from parity311.storage.strict_json import to_json

CITY_ZONE = ZoneInfo("America/New_York")
SPECIFICATION = "http://wiki.open311.org/GeoReport_v2"
PREFIX = "/open311/"
INVALID = {number: "" for number in (*range(9), 11, 12, *range(14, 32))}
"""Characters that XML cannot hold."""


def zoned(stamp: str) -> str:
    """The city's time with its zone, as the specification asks."""
    if not stamp:
        return ""
    return datetime.fromisoformat(stamp).replace(tzinfo=CITY_ZONE).isoformat()


def city_time(text: str) -> datetime:
    """A date and time, with a zone or without, in the city's own time; ValueError else."""
    found = datetime.fromisoformat(text)
    return found.astimezone(CITY_ZONE).replace(tzinfo=None) if found.tzinfo else found


def write_xml(tag: str, value: Any, item: str = "") -> str:
    """A value as an element; a list's entries are elements named `item`."""
    if isinstance(value, Mapping):
        inner = "".join(write_xml(name, one, _ITEMS.get(name, "")) for name, one in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = "".join(write_xml(item, one) for one in value)
    elif isinstance(value, bool):
        inner = "true" if value else "false"
    else:
        inner = escape(("" if value is None else str(value)).translate(INVALID))
    return f"<{tag}>{inner}</{tag}>"


_ITEMS = {
    "attributes": "attribute",
    "values": "value",
    "endpoints": "endpoint",
    "formats": "format",
}


def answer(form: str, root: str, item: str, content: Any, status: int = 200) -> Response:
    """An answer in the form that the address ends in."""
    if form == "json":
        kind = "application/json; charset=utf-8"
        return Response(to_json(content), status_code=status, headers={"content-type": kind})
    text = f'<?xml version="1.0" encoding="utf-8"?>\n{write_xml(root, content, item)}\n'
    kind = "text/xml; charset=utf-8"
    return Response(text, status_code=status, headers={"content-type": kind})


def answer_error(path: str, status: int, message: str) -> Response:
    """An error in the specification's form."""
    form = "json" if path.endswith(".json") else "xml"
    told = {401: 403, 413: 400, 409: 400}.get(status, status)
    return answer(form, "errors", "error", [{"code": told, "description": message}], told)
