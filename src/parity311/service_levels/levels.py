"""The file of service levels: what was promised, to whom, from when; one reader for everybody.

`service-levels.toml` is written by `sla design` and `sla promise`. The cycle trains and checks
against it, the watch counts what was kept, the desk shows the promised date: all of them read it
here. A request keeps the promise that was in force on the day it was received.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from parity311.errors import InputError, unknown_name
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.toml_files import checked, read_toml

FORMAT = "parity311 service levels"
FORMAT_VERSION = 1
LEVELS_FILE = "service-levels.toml"
ROUND_DAYS = (1, 2, 3, 5, 7, 10, 14, 21, 30, 40, 60, 90)
"""Days a promise is rounded up to: those people can remember, and the codes' own levels."""
ALL = "*"
"""Stands for every district or every category that has no promise of its own."""
POOLED = "other"
"""The category that small ones are pooled in; one that a file does not name is among them."""
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class CellPromise:
    """What requests of one category in one district are promised."""

    __pydantic_config__ = _STRICT

    district: str
    category: str
    days: int | None = None
    """calendar days within which the share is visited; none: nothing can be promised"""
    code: str = ""
    """severity code most of the category's requests have"""
    reason: str = ""
    """why there is none, why it is longer than the code's level, or why districts differ"""
    visited_share: float | None = None
    """share of all requests that are visited at all"""


@dataclass(frozen=True)
class CellDesign:
    """How one cell is worked under a design; shares between 0 and 1."""

    __pydantic_config__ = _STRICT

    district: str
    category: str
    budget: float
    """share of the city's visits that the district gets"""
    priority: float
    """share of the district's visits that the category gets; of the city's where it is one"""
    retention: float
    """share of the waiting that a review keeps"""


@dataclass(frozen=True)
class ServiceLevels:
    """Promises of one domain, and the design behind them where there is one."""

    __pydantic_config__ = _STRICT

    domain: str
    districts: str
    """what a district is: borough or community_board"""
    share: float
    """p: at least this share of ALL requests is visited in time, never visited counted as late"""
    confidence: float
    """chance that a year keeps it"""
    promise: tuple[CellPromise, ...]
    name: str = ""
    valid_from: date | None = None
    """first day whose requests it holds for; none: always"""
    made_from: str = ""
    design: tuple[CellDesign, ...] = ()
    review_every_days: int | None = None
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    def find(self, district: str, category: str) -> CellPromise | None:
        """The promise of a cell: its own, else its district's, its category's, or everybody's.

        A category that the file does not name is one of those it pools.
        """
        by_cell = self._by_cell
        named = category if category in self._categories else POOLED
        places = ((district, named), (district, ALL), (ALL, named), (ALL, ALL))
        return next((by_cell[place] for place in places if place in by_cell), None)

    @cached_property
    def _by_cell(self) -> dict[tuple[str, str], CellPromise]:
        return {(one.district, one.category): one for one in self.promise}

    @cached_property
    def _categories(self) -> set[str]:
        return {one.category for one in self.promise}

    def due(self, received: date, district: str, category: str) -> date | None:
        """Last day on which a visit keeps the promise; None where there is none."""
        if self.valid_from is not None and received < self.valid_from:
            return None
        found = self.find(district, category)
        if found is None or found.days is None:
            return None
        return received + timedelta(days=found.days)

    def check_covers(self, districts: Sequence[str], categories: Sequence[str] = ()) -> None:
        """Refuse levels that say nothing of a district, or of a category, of the city."""
        for kind, names in (("district", districts), ("category", categories)):
            told = {getattr(one, kind) for one in self.promise}
            missing = [name for name in names if name not in told and ALL not in told]
            if missing:
                raise InputError(
                    f"The service levels say nothing of {kind} {missing[0]!r}"
                    f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}, so they do "
                    f"not cover the city; add a promise for it, or one for {ALL!r}."
                )


def in_force(versions: Sequence[ServiceLevels], received: date) -> ServiceLevels | None:
    """Of several versions, the one in force on the day a request was received."""
    begun = [one for one in versions if one.valid_from is None or one.valid_from <= received]
    return max(begun, key=lambda one: one.valid_from or date.min, default=None)


def read_levels(path: str | Path) -> ServiceLevels:
    """Read and check a file of service levels; what is wrong with it is one clear line."""
    return levels_from_plain(read_toml(path, "a file of service levels"), str(path))


def levels_from_plain(plain: Mapping[str, Any], where: str = "The service levels") -> ServiceLevels:
    """Check and build service levels from plain values."""
    if plain.get("format") != FORMAT or plain.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{where}: format {plain.get('format')!r}, version {plain.get('format_version')!r}; "
            f"this version reads {FORMAT!r}, version {FORMAT_VERSION}. Write it with "
            "`parity311 sla design` or `sla promise`."
        )
    found = checked(ServiceLevels, plain, where)
    _check(found, where)
    return found


def _check(levels: ServiceLevels, where: str) -> None:
    for name in ("share", "confidence"):
        value = getattr(levels, name)
        if not 0.0 < value < 1.0:
            raise InputError(f"{where}: {name} is {value}; it must lie between 0 and 1.")
    if not levels.promise:
        raise InputError(f"{where} holds no promise; add a [[promise]] for each cell.")
    seen: set[tuple[str, str]] = set()
    for one in levels.promise:
        cell = (one.district, one.category)
        if cell in seen:
            raise InputError(f"{where} promises {cell[1]!r} in {cell[0]!r} twice; keep one.")
        seen.add(cell)
        if one.days is not None and one.days < 0:
            raise InputError(
                f"{where}: {one.category!r} in {one.district!r} is promised in {one.days} days, "
                "and a clock cannot run backwards; give 0 or more, or leave days out."
            )
        if one.code and one.code not in SERVICE_LEVEL_DAYS:
            raise unknown_name("code", one.code, SERVICE_LEVEL_DAYS)
    for graver, lighter in backward_codes(levels.promise):
        raise InputError(
            f"{where}: in {graver.district!r} {graver.category!r} (code {graver.code}) is promised "
            f"in {graver.days} days, later than {lighter.category!r} (code {lighter.code}, "
            f"{lighter.days} days); give the graver one no more, or say why in its reason."
        )


def backward_codes(promises: Sequence[CellPromise]) -> list[tuple[CellPromise, CellPromise]]:
    """Pairs of one district in which the graver code is promised later, and no reason is given."""
    found = []
    for graver in promises:
        for lighter in promises:
            is_pair = graver.district == lighter.district and graver.code and lighter.code
            if not is_pair or graver.days is None or lighter.days is None or graver.reason:
                continue
            order = SEVERITIES.index(graver.code) < SEVERITIES.index(lighter.code)
            if order and graver.days > lighter.days:
                found.append((graver, lighter))
    return found


def write_levels(path: Path, levels: ServiceLevels) -> Path:
    """Write a file of service levels in one step; it is read back before it is kept."""
    text = levels_to_text(levels)
    levels_from_plain(tomllib.loads(text), str(path))
    with telling_disk_errors(path):
        return write_text_aside(path, text)


def levels_to_text(levels: ServiceLevels) -> str:
    """Service levels as TOML."""
    lines = []
    for field in fields(levels):
        value = getattr(levels, field.name)
        if field.name not in ("promise", "design") and value not in (None, ""):
            lines.append(f"{field.name} = {_toml(value)}")
    lines.sort(key=lambda line: not line.startswith("format"))
    for name in ("promise", "design"):
        for entry in getattr(levels, name):
            lines += ["", f"[[{name}]]"]
            for field in fields(entry):
                value = getattr(entry, field.name)
                if value is not None and value != "":
                    lines.append(f"{field.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + " ".join(text.split()) + '"'
    if isinstance(value, date):
        return value.isoformat()
    return repr(round(value, 6) if isinstance(value, float) else value)
