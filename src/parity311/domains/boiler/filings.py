"""Yearly filings on record, each with what was known before it came in.

A filing is mandatory, so what is missing is not reports but filings: the share of defective
equipment that was filed at all comes from the calibration or, in a synthetic city, its truth.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, LiteralString

import numpy as np

from parity311.errors import unknown_name
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import CUT_OFF, KNOWN, STRATUM, check_enough
from parity311.records.sql import literal
from parity311.records.store import Records

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_FILINGS = 500
"""Filings below which a table says too little about defects (assumed: forty of them defective)."""
HISTORY_DAYS = 760
"""Days over which defects are remembered, of a boiler and of its tract: two filings of every
boiler. Longer, and the features would drift with the age of the records."""


def filings_query(cut_off: LiteralString = CUT_OFF) -> LiteralString:
    """SQL of every filing in [$date_from, $date_to) with what was known before it.

    A defect is known once its filing is closed. `cut_off` is changed only by the test of it.
    """
    return f"""
WITH own AS (
  SELECT c.complaint_id, c.received_at, c.tract, c.equipment_id, b.units, b.boilers,
    CAST(c.is_high_pressure AS INT) AS is_high_pressure, CAST(c.is_internal AS INT) AS is_internal,
    CAST(COALESCE(o.lff_45, false) AS INT) AS has_lff_45,
    CAST(COALESCE(o.lff_180, false) AS INT) AS has_lff_180,
    CAST(o.defect_found AS INT) AS defect, o.closed_at,
    {STRATUM} AS stratum
  FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
    LEFT JOIN tracts t ON t.geoid = c.tract LEFT JOIN buildings b ON b.building_id = c.building_id
  WHERE {KNOWN}
), events AS (
  SELECT complaint_id, received_at AS known_at, tract, equipment_id, 0 AS n, 0 AS defect FROM own
  UNION ALL
  SELECT NULL, closed_at, tract, equipment_id, 1, defect FROM own
  WHERE closed_at < $date_to::TIMESTAMP AND defect IS NOT NULL
), history AS (
  SELECT complaint_id,
    SUM(defect) OVER (PARTITION BY equipment_id ORDER BY known_at
      RANGE BETWEEN INTERVAL {literal(HISTORY_DAYS)} DAY PRECEDING AND {cut_off}) AS earlier,
    SUM(defect) OVER near AS tract_defects, SUM(n) OVER near AS tract_filings
  FROM events
  WINDOW near AS (PARTITION BY tract ORDER BY known_at
    RANGE BETWEEN INTERVAL {literal(HISTORY_DAYS)} DAY PRECEDING AND {cut_off})
)
SELECT own.*, CAST(COALESCE(earlier, 0) > 0 AS INT) AS is_recurrent,
  COALESCE(tract_defects, 0) AS tract_defects, COALESCE(tract_filings, 0) AS tract_filings
FROM own JOIN history USING (complaint_id)
WHERE received_at >= $date_from::TIMESTAMP ORDER BY received_at, complaint_id"""


def read_filings(
    records: Records, domain: str, date_from: date, date_to: date
) -> dict[str, np.ndarray]:
    """Rows of `filings_query` as arrays; nulls become NaN."""
    table = records.sql(filings_query(), domain=domain, date_from=date_from, date_to=date_to)
    dates = (date_from, date_to)
    check_enough(records, domain, table.num_rows, dates, FEWEST_FILINGS, "filings of")
    rows = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    for name in ("units", "boilers", "tract_defects", "tract_filings"):
        rows[name] = np.nan_to_num(rows[name].astype(np.float64))
    return rows


def choose_split(split: str, part: str, n: int, seed: int) -> np.ndarray:
    """Which of n filings belong to the 'train' or the 'test' part of a split."""
    if split == "chronological":
        return np.ones(n, bool)
    if split != "random":
        raise unknown_name("split", split, ("chronological", "random"))
    is_train = np.random.default_rng(seed).random(n) < 0.8
    return is_train if part == "train" else ~is_train


def true_chances(filings: pa.Table, column: str, complaint_ids: np.ndarray) -> np.ndarray:
    """True chance of a defect of each of these filings, (n,), from a city's truth."""
    chance_of = dict(
        zip(filings["complaint_id"].to_pylist(), filings[column].to_pylist(), strict=True)
    )
    return np.array([chance_of[complaint] for complaint in complaint_ids], np.float64)


def true_filed_share(records: Records, incidents: pa.Table, date_from: date) -> np.ndarray:
    """Share of defective boiler-years from `date_from` on that were filed, by stratum (6,)."""
    tracts = records.table("tracts", columns=["geoid", "income_quintile"])
    quintile = dict(zip(*(column.to_pylist() for column in tracts.columns), strict=True))
    later = incidents["began_at"].to_numpy() >= np.datetime64(date_from)
    tract = np.asarray(incidents["tract"].to_pylist())[later]
    place = np.array([quintile.get(name) or N_STRATA for name in tract]) - 1
    filed = incidents["n_reports"].to_numpy()[later] > 0
    total = np.bincount(place, minlength=N_STRATA)
    share = np.bincount(place, filed, minlength=N_STRATA) / np.maximum(total, 1)
    return np.where(total > 0, np.maximum(share, 0.05), 1.0)
