"""A built city opened for measuring: its records, its truth, and what scales it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray

from parity311.records.sql import Connection, Value, branches, literals
from parity311.records.store import Records, open_records
from parity311.records.truth import Truth, open_truth

Measures = dict[str, float]
"""Figures of a city by key; a figure it does not have is left out."""

BUILDINGS_DEPARTMENT = (
    "complaint_triage",
    "crane",
    "drainage",
    "drone",
    "electrical_revisit",
    "elevator",
    "ert",
    "scaffold",
    "snad",
)
"""Domains whose complaints together are those of the Department of Buildings."""

TRUTH_VIEWS = {
    "true_reporting": "reporting.parquet",
    "true_heat_incidents": "incidents/heat.parquet",
    "true_heat_reports": "reports/heat.parquet",
}
"""Tables of the truth that figures of reporting are measured from, by the name of their view."""


@dataclass(frozen=True)
class City:
    """A synthetic city on disk."""

    records: Records
    truth: Truth

    @property
    def participation(self) -> str:
        """Scenario of participation."""
        return self.records.manifest["participation"]

    @property
    def capacity(self) -> str:
        """Scenario of capacity."""
        return self.records.manifest["capacity"]

    @property
    def scale(self) -> float:
        """Size against the whole of New York."""
        return self.records.manifest["scale"]

    @property
    def enlarged(self) -> dict[str, float]:
        """Factors on the volume of domains too rare for a city of this size."""
        return self.records.manifest["enlarged"]

    @property
    def years(self) -> range:
        """Calendar years wholly within the period."""
        first, last = self.records.window
        begin = first.year if first == date(first.year, 1, 1) else first.year + 1
        return range(begin, last.year)

    @property
    def n_years(self) -> float:
        """Length of the period."""
        first, last = self.records.window
        return (last - first).days / 365.25

    @cached_property
    def connection(self) -> Connection:
        """The records' views, `TRUTH_VIEWS`, and `reported`: one row a complaint with its outcome.

        Its ``weight`` undoes the enlargement of rare domains.
        """
        truth = {name: self.truth.folder / path for name, path in TRUTH_VIEWS.items()}
        connection = self.records.connect({k: path for k, path in truth.items() if path.is_file()})
        enlarged = branches(self.enlarged)
        weight = f"1e0 / CASE c.domain {enlarged} ELSE 1e0 END" if enlarged else "1e0"
        connection.execute(f"""
CREATE OR REPLACE TEMP VIEW reported AS
SELECT c.domain, c.category, c.received_at, c.tract, c.building_id, c.channel, o.disposition,
  o.disposition_class AS class, o.closed_at, t.borough,
  epoch(o.closed_at - c.received_at) / 86400.0 AS closing_days,
  c.domain IN ({literals(BUILDINGS_DEPARTMENT)}) AS is_dob, {weight} AS weight
FROM complaints c JOIN outcomes o USING (complaint_id) JOIN tracts t ON t.geoid = c.tract""")
        return connection

    def rows(self, query: LiteralString, **parameters: Value) -> list[tuple[Any, ...]]:
        """Rows of a query over the views."""
        return self.connection.sql(query, params=parameters).fetchall()

    def columns(self, query: LiteralString, **parameters: Value) -> dict[str, NDArray]:
        """Columns of a query as arrays."""
        return {
            name: np.asarray(values)
            for name, values in self.connection.sql(query, params=parameters).fetchnumpy().items()
        }

    def has(self, *domains: str) -> bool:
        """Whether the records hold these domains."""
        return set(domains) <= set(self.records.domains)


def open_city(path: Path) -> City:
    """Open a synthetic city; records without truth are refused."""
    return City(open_records(path), open_truth(path))
