"""A city that several commands share: opened where it is whole, built once where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from parity311.city.build import Progress, build_city
from parity311.city.departures import DEFAULT
from parity311.city.process import Process
from parity311.errors import BusyError, InputError, RecordsError
from parity311.records.store import Records, open_records
from parity311.storage.locks import wait_for_writer


def open_or_build(
    folder: Path,
    processes: Sequence[Process],
    *,
    preset: str,
    seed: int,
    participation: str,
    capacity: str,
    world: str = DEFAULT.name,
    date_from: date | None = None,
    date_to: date | None = None,
    progress: Progress | None = None,
) -> Records:
    """Open the city in a folder; build it where it is not there or not whole, as `build_city` does.

    A folder that holds another city is refused. While another process writes it, this one waits
    and says so, then uses what the other wrote.
    """
    wanted: dict[str, Any] = {
        "preset": preset,
        "seed": seed,
        "participation": participation,
        "capacity": capacity,
        "world": world,
        "date_from": date_from,
        "date_to": date_to,
    }
    while True:
        with suppress(RecordsError):
            return _check_is_wanted(open_records(folder), wanted)
        try:
            build_city(processes, **wanted, out=folder, overwrite=True, progress=progress)
            return open_records(folder)
        except BusyError:
            wait_for_writer(folder)


def _check_is_wanted(records: Records, wanted: dict[str, Any]) -> Records:
    """Refuse records of another city; days that nobody asked for are the city's own."""
    found = {"world": DEFAULT.name} | records.manifest
    others = [
        f"{name} {found.get(name)} where {value} was asked for"
        for name, value in wanted.items()
        if value is not None and str(found.get(name)) != str(value)
    ]
    if records.is_real or others:
        what = "imported records" if records.is_real else f"another city ({', '.join(others)})"
        raise InputError(
            f"{records.folder} holds {what}; move it elsewhere, or keep cities in another folder."
        )
    return records
