"""Filings on record as a policy sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.domains.boiler.filings import HISTORY_DAYS
from parity311.domains.boiler.params import build_features
from parity311.records.journal import Cases, Journal
from parity311.records.past import count_past


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> np.ndarray:
    """Features of each filing, (n, 7); the late fees, known only afterwards, are zero."""
    del ahead
    known = np.flatnonzero(np.isfinite(journal.further["defect"]))
    defect = journal.further["defect"][known]
    closed = journal.closed[known]
    n_rows = int(params.n_rows)
    equipment = count_past(journal.further["equipment"][known], closed, defect)
    tract = count_past(journal.tract[known], closed, defect)
    _, earlier = equipment(cases.further["equipment"], cases.began, HISTORY_DAYS)
    tract_filings, tract_defects = tract(cases.tract, cases.began, HISTORY_DAYS)
    none = np.zeros(cases.n)
    rows = {
        "is_recurrent": (earlier > 0).astype(np.float64),
        "is_high_pressure": cases.flags["is_high_pressure"].astype(np.float64),
        "is_internal": cases.flags["is_internal"].astype(np.float64),
        "has_lff_45": none,
        "has_lff_180": none,
        "boilers": cases.further["boilers"],
        "tract_defects": tract_defects,
        "tract_filings": tract_filings,
    }
    return build_features(rows, float(np.asarray(params.is_defective)[:n_rows].mean()))


def keep(params: Any) -> Any:
    """Params with one row that has the share of defects, in place of every filing."""
    share = np.asarray(params.is_defective)[: int(params.n_rows)].mean()
    none = np.zeros((0, params.features.shape[1]), np.float32)
    empty = np.zeros(0, np.float32)
    return params._replace(
        features=none,
        stratum=empty,
        is_defective=np.array([share], np.float32),
        chance=empty,
        units=empty,
        n_rows=np.int32(1),
    )
