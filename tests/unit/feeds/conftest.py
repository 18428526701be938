"""Importing a few rows into a records folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.feeds.cities import write_csv, write_tracts

from parity311.feeds.importing import ImportOptions, import_records
from parity311.records.store import Records, open_records

Importer = Callable[..., tuple[Records, dict[str, Any]]]


@pytest.fixture
def import_rows(tmp_path: Path) -> Importer:
    """import_rows(sr311=[...], dob=[...], ...) -> records and manifest."""
    counter = iter(range(1000))

    def run(
        options: ImportOptions | None = None, files: list[Path] | None = None, **sources: Any
    ) -> tuple[Records, dict[str, Any]]:
        folder = tmp_path / f"import-{next(counter)}"
        folder.mkdir()
        paths = write_tracts(folder) + list(files or [])
        paths += [write_csv(folder / f"{name}.csv", rows) for name, rows in sources.items()]
        manifest = import_records(paths, folder / "records", options)
        return open_records(folder / "records"), manifest

    return run


def account_of(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """The manifest's entry of one input file."""
    return next(source for source in manifest["sources"] if source["name"] == name)
