"""Mandatory filings instead of complaints: need is defective equipment-years, filed or not.

Nobody reports a boiler twice, so duplicates say nothing. Propensity is filed over registered
boilers; the share defective among those filed is taken to hold for those not filed.
"""

from __future__ import annotations

import numpy as np

from parity311.errors import EstimationError
from parity311.records.store import Records
from parity311.reporting.areas import Areas
from parity311.reporting.incidents import IncidentEstimate, estimate_from_factors
from parity311.reporting.settings import Settings
from parity311.reporting.table import WINDOW_QUERY, ReportTable

DAYS_PER_YEAR = 365.25
CITY_WEIGHT = 5.0
"""Boiler-years at the city's share that are added to every tract: a tract with fewer boilers than
this leans on the city, one with hundreds does not."""
ASSUMPTION = (
    "Need is defective boiler-years: defects found among filings, times registered over filed "
    "boilers; assumes that boilers nobody filed are defective as often as those filed."
)


def holds_filings(records: Records, domain: str) -> bool:
    """Whether a domain's records are mandatory filings rather than complaints."""
    found = records.sql(
        "SELECT bool_and(channel = 'FILING') AS filed FROM complaints WHERE domain = $domain",
        domain=domain,
    )
    return bool(found["filed"][0].as_py())


def estimate_filings(
    records: Records, domain: str, table: ReportTable, areas: Areas, settings: Settings
) -> IncidentEstimate:
    """Estimate defective boiler-years per tract and window, with draws of P(filed) by tract."""
    defects = _defects_by_window(records, domain, table, areas)
    filed = table.n_reports.sum(axis=1)
    years = table.n_days / DAYS_PER_YEAR
    registered = np.maximum(_registered(records, areas) * years, filed)
    if registered.sum() == 0:
        raise EstimationError(
            f"No boiler is registered in {records.folder}, so the share filed is unknown; import "
            "the buildings table or use estimator 'raw'."
        )
    share = filed.sum() / registered.sum()
    ours = filed + CITY_WEIGHT * share
    theirs = registered - filed + CITY_WEIGHT * (1.0 - share)
    rng = np.random.default_rng(settings.seed)
    draws = rng.beta(ours, np.maximum(theirs, 1e-9), size=(settings.n_draws, areas.n_areas))
    propensity = ours / (ours + theirs)
    unfiled_draws = rng.poisson(
        rng.gamma(defects.sum(axis=1) + 0.5, 1.0, draws.shape) * (1.0 / draws - 1.0)
    )
    at_least = np.maximum(defects.sum(axis=1), 1.0)
    return estimate_from_factors(
        "filings",
        ASSUMPTION,
        table,
        areas,
        counts=defects,
        factors=1.0 / propensity,
        factor_draws=1.0 + unfiled_draws / at_least,
        share=propensity,
    )


def _defects_by_window(
    records: Records, domain: str, table: ReportTable, areas: Areas
) -> np.ndarray:
    """Defects per tract and window, scaled up where an outcome is not known (yet)."""
    known_by = "(o.closed_at IS NULL OR o.closed_at < $date_to::TIMESTAMP)"
    rows = records.sql(
        f"""
SELECT tract, {WINDOW_QUERY} AS "window", count(*) AS n_filed,
  count(*) FILTER (WHERE o.defect_found IS NOT NULL AND {known_by}) AS n_known,
  count(*) FILTER (WHERE o.defect_found AND {known_by}) AS n_defects
FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain AND c.received_at >= $date_from::TIMESTAMP
  AND c.received_at < $date_to::TIMESTAMP GROUP BY ALL""",
        domain=domain,
        date_from=table.date_from,
        date_to=table.date_to,
        window_days=table.window_days,
    )
    area, known = areas.match(rows["tract"].to_numpy(zero_copy_only=False))
    window = rows["window"].to_numpy(zero_copy_only=False).astype(np.int64)
    filed = rows["n_filed"].to_numpy(zero_copy_only=False)
    seen = rows["n_known"].to_numpy(zero_copy_only=False)
    defects = rows["n_defects"].to_numpy(zero_copy_only=False).astype(np.float64)
    if seen.sum() == 0:
        raise EstimationError(
            f"No filing of {domain!r} says whether a defect was found; import the outcomes or use "
            "estimator 'raw'."
        )
    out = np.zeros((areas.n_areas, table.n_windows))
    np.add.at(out, (area[known], window[known]), defects[known] * (filed.sum() / seen.sum()))
    return out


def _registered(records: Records, areas: Areas) -> np.ndarray:
    rows = records.sql("SELECT tract, sum(boilers)::DOUBLE AS n FROM buildings GROUP BY tract")
    area, known = areas.match(rows["tract"].to_numpy(zero_copy_only=False))
    out = np.zeros(areas.n_areas)
    np.add.at(out, area[known], rows["n"].to_numpy(zero_copy_only=False)[known])
    return out
