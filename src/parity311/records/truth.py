"""The truth of a synthetic city: what really happened, reported or not.

Only the city, a domain's ``truth``, evaluation and tests may import this module; a test keeps
everything that trains away from it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parity311.errors import RecordsError
from parity311.records.store import Records, open_records


@dataclass(frozen=True)
class Truth:
    """Tables ``incidents``, ``reports``, ``visits`` (a file a domain) and ``reporting``."""

    folder: Path
    records: Records
    """the city it is the truth of, whose manifest names its files"""

    def table(self, name: str, domain: str | None = None) -> pa.Table:
        """Read one truth table."""
        path = self.folder / (f"{name}.parquet" if domain is None else f"{name}/{domain}.parquet")
        if not path.is_file():
            raise RecordsError(
                f"There is no truth table {path.relative_to(self.folder)} in {self.folder}; only a "
                "synthetic city knows its truth, build one with `parity311 city build`."
            )
        self.records.check_unchanged(path)
        return pq.read_table(path)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of the generator with unit and source."""
        path = self.folder / "parameters.json"
        self.records.check_unchanged(path)
        return json.loads(path.read_text())


def open_truth(city: str | Path | Records) -> Truth:
    """Open the truth of the synthetic city in this folder, or that of its open records."""
    records = open_records(city)
    folder = records.folder / "truth"
    if not folder.is_dir():
        raise RecordsError(
            f"{records.folder} holds records without a known truth; only a synthetic city has one. "
            "Build one with `parity311 city build`."
        )
    return Truth(folder, records)
