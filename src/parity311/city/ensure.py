"""A city that several commands share: opened where it is whole, built once where it is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from parity311.errors import BusyError, RecordsError
from parity311.records.store import Records, open_records
from parity311.storage.locks import wait_for_writer


def open_or_build(folder: Path, build: Callable[[], object]) -> Records:
    """Open the city in a folder; ``build`` writes it where it is not there or not whole.

    While another process writes it, this one waits and says so, then uses what the other wrote.
    """
    while True:
        with suppress(RecordsError):
            return open_records(folder)
        try:
            build()
            return open_records(folder)
        except BusyError:
            wait_for_writer(folder)
