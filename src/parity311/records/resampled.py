"""The same records with tracts drawn anew: what an estimate owes to the tracts it happened to see.

Whole tracts are drawn with replacement, with every complaint, visit and building of theirs, since
cases of one tract are alike. A tract drawn twice appears twice, under ids of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import numpy as np

from parity311.records.sql import Connection, add_columns, identifier
from parity311.records.store import Records

_OWN_IDS = ("complaint_id", "incident_id", "building_id", "equipment_id", "visit_id")


@dataclass(frozen=True)
class ResampledRecords(Records):
    """Records of one domain in which each tract counts as often as it was drawn."""

    domain: str
    seed: int

    def connect(self, others: Mapping[str, Path] | None = None) -> Connection:
        """As `Records.connect`, with the domain's tables drawn anew."""
        connection = super().connect(others)
        tracts = connection.execute("SELECT geoid FROM tracts ORDER BY geoid").fetchnumpy()["geoid"]
        rng = np.random.default_rng([self.seed, 311])
        drawn = np.sort(rng.integers(0, len(tracts), len(tracts)))
        first = np.searchsorted(drawn, drawn)
        copies = {"geoid": tracts[drawn], "copy": np.arange(len(drawn)) - first}
        add_columns(connection, "copies", copies)
        _replace(connection, "buildings", "JOIN copies k ON k.geoid = x.tract")
        own = {"domain": self.domain}
        connection.execute(
            "CREATE TABLE own AS SELECT c.complaint_id AS first_id, k.copy FROM complaints c "
            "JOIN copies k ON k.geoid = c.tract WHERE c.domain = $domain",
            own,
        )
        for name in ("outcomes", "visits", "complaints"):
            _replace(connection, name, "JOIN own k ON k.first_id = x.complaint_id")
        return connection


def _replace(connection: Connection, name: LiteralString, join: LiteralString) -> None:
    """Put a table in a view's place in which every row appears once a copy, under its own ids."""
    columns = connection.execute(f"DESCRIBE {identifier(name)}").fetchnumpy()["column_name"]
    own: list[LiteralString] = [
        identifier(str(column)) for column in columns if str(column) in _OWN_IDS
    ]
    renamed = ", ".join(
        f"CASE WHEN k.copy > 0 THEN x.{column} || '~' || k.copy ELSE x.{column} END AS {column}"
        for column in own
    )
    made = identifier(f"{name}_drawn")
    table = identifier(name)
    chosen = f"SELECT x.* REPLACE ({renamed}) FROM {table} x {join}"
    connection.execute(f"CREATE TABLE {made} AS {chosen}")
    connection.execute(f"DROP VIEW {table}")
    connection.execute(f"ALTER TABLE {made} RENAME TO {table}")


def resample(records: Records, domain: str, seed: int) -> Records:
    """The same records with tracts drawn anew; another seed draws others."""
    return ResampledRecords(records.folder, records.manifest, domain, seed, strata=records.strata)
