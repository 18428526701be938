"""One new complaint as plain data, put beside the queue it came into."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.records.journal import UNKNOWN, Cases, Journal, day_of
from parity311.records.schema import SEVERITIES

REQUIRED = ("complaint_id", "category", "severity", "tract")
OPTIONAL = ("received_at", "building_id", "units", "attempts", "last_visit_at")


def read_complaint(journal: Journal, given: Mapping[str, Any]) -> Cases:
    """A complaint as a case of its own; its tract tells the rest of where it is.

    Fields are those of the schema's complaints, the domain's own yes/no fields, and `units` of the
    building.
    """
    if not isinstance(given, Mapping):
        raise InputError("A complaint is one JSON object, with " + ", ".join(REQUIRED) + ".")
    allowed = (*REQUIRED, *OPTIONAL, *journal.flags)
    missing = [name for name in REQUIRED if given.get(name) in (None, "")]
    unknown = [name for name in given if name not in (*allowed, "domain", "channel", "language")]
    if missing or unknown:
        said = [f"lacks {', '.join(missing)}"] if missing else []
        said += [f"has unknown fields {', '.join(unknown)}"] if unknown else []
        raise InputError(f"The complaint {' and '.join(said)}; it may have {', '.join(allowed)}.")
    if given.get("domain", journal.domain) != journal.domain:
        raise InputError(
            f"The complaint is of {given['domain']!r}, the queue of {journal.domain!r}; give both "
            "of one domain."
        )
    if given["severity"] not in SEVERITIES:
        raise InputError(
            f"Severity {given['severity']!r} was given; choose among {', '.join(SEVERITIES)}."
        )
    area = journal.areas.get(str(given["tract"]))
    if area is None:
        raise InputError(
            f"Tract {given['tract']!r} was given, which the records do not know; give the eleven "
            "digits of one of theirs."
        )
    building = journal.building_numbers.get(str(given.get("building_id") or ""), UNKNOWN)
    began = _day(given, "received_at", journal.as_of)
    visited = _day(given, "last_visit_at", float("nan"))
    flags = {name: _one(_yes_or_no(given, name), bool) for name in journal.flags}
    return Cases(
        complaint_id=np.array([str(given["complaint_id"])]),
        began=_one(began, np.float64),
        code=_one(SEVERITIES.index(given["severity"])),
        category=_one(0),
        tract=_one(area.tract),
        stratum=_one(area.stratum),
        borough=_one(area.borough),
        board=_one(area.board),
        zip=_one(area.zip),
        building=_one(building),
        units=_one(_number(given, "units", 1.0), np.float64),
        n_reports=_one(1),
        last_report=_one(began, np.float64),
        n_attempts=_one(int(_number(given, "attempts", 0.0))),
        last_visit=_one(visited, np.float64),
        categories=(str(given["category"]),),
        flags=flags,
        further={
            "equipment": _one(UNKNOWN),
            "boilers": _one(1.0, np.float64),
            "defect": _one(np.nan, np.float64),
        },
    )


def _one(value: Any, kind: type = np.int64) -> np.ndarray:
    return np.array([value], kind)


def _number(given: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = given.get(name)
    if value in (None, ""):
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
        raise InputError(f"{name} {value!r} was given; write a number, 0 or more.")
    return float(value)


def _yes_or_no(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value not in (None, "", True, False):
        raise InputError(f"{name} {value!r} was given; write true or false.")
    return bool(value)


def _day(given: Mapping[str, Any], name: str, otherwise: float) -> float:
    text = given.get(name)
    if text in (None, ""):
        return otherwise
    try:
        return day_of(datetime.fromisoformat(str(text)))
    except (ValueError, TypeError):
        raise InputError(
            f"{name} {text!r} was given; write a date and time as 2025-07-01 08:30."
        ) from None
