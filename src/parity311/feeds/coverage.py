"""Who is lost in the joins: share of rows that found a tract, by borough and by income of the area.

A row that found no tract has no tract's income, so it is put into the income quintile of its ZIP
code, and every located row as well, so that the two are compared on equal terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from parity311.feeds.judge import LOCATION_REASONS
from parity311.feeds.tracts import BOROUGH_NAMES
from parity311.feeds.work import ImportWork
from parity311.records.sql import literals, parquet
from parity311.records.strata import income_quintiles


def measure_coverage(work: ImportWork, tracts: pa.Table) -> list[dict[str, Any]]:
    """Rows in scope and rows located, by borough and by income quintile of the ZIP code."""
    connection = work.connection
    connection.register("_zip_income", _zip_incomes(tracts))
    rows = connection.execute(f"""
WITH rows AS (
  SELECT borough, zip, reason IS NULL AND located_by <> 'borough' AS is_located,
    coalesce(code_domain, 'unknown') AS code_domain
  FROM {parquet(work.placed.glob("*/*.parquet"))}
  WHERE domain <> 'out_of_scope' AND (reason IS NULL OR reason IN ({literals(LOCATION_REASONS)}))
), strata AS (
  SELECT 'borough' AS split, CAST(borough AS VARCHAR) AS stratum, is_located, code_domain FROM rows
  UNION ALL
  SELECT 'income quintile of the ZIP code', CAST(z.quintile AS VARCHAR), is_located, code_domain
  FROM rows LEFT JOIN _zip_income z ON z.zip = rows.zip
)
SELECT split, code_domain, coalesce(stratum, 'unknown'), count(*),
  count(*) FILTER (WHERE is_located)
FROM strata GROUP BY ALL ORDER BY ALL""").fetchall()
    connection.unregister("_zip_income")
    names = {str(digit): name for digit, name in BOROUGH_NAMES.items()}
    return [
        {
            "by": by,
            "domain": domain,
            "stratum": names.get(stratum, stratum) if by == "borough" else stratum,
            "rows": n,
            "located": located,
        }
        for by, domain, stratum, n, located in rows
    ]


def _zip_incomes(tracts: pa.Table) -> pa.Table:
    """Income quintile of each ZIP code: household-weighted mean of its tracts' median incomes."""
    zips: dict[str, list[tuple[float, float]]] = {}
    columns = (tracts[name].to_pylist() for name in ("zip", "median_income", "households"))
    for code, income, households in zip(*columns, strict=True):
        if code is not None and income is not None and households:
            zips.setdefault(code, []).append((income, households))
    names = sorted(zips)
    weights = np.array([sum(n for _, n in zips[name]) for name in names], dtype=float)
    means = np.array(
        [sum(x * n for x, n in zips[name]) / sum(n for _, n in zips[name]) for name in names]
    )
    quintile = income_quintiles(means, weights) if names else np.zeros(0, np.int8)
    return pa.table(
        {
            "zip": pa.array([int(name) for name in names], pa.int32()),
            "quintile": pa.array(quintile, pa.int8()),
        }
    )
