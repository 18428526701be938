"""The tables of a filing domain: filings as records, defective boiler-years as the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from parity311.city.agency import OTHER, PENDING
from parity311.city.clock import day_number
from parity311.city.filings import Filings, FilingVisits
from parity311.city.process import FilingProcess
from parity311.city.randomness import named_generator
from parity311.city.setting import Setting
from parity311.city.tables import (
    REPAIR_SHARE,
    incident_table,
    make_ids,
    pick,
    place_columns,
    reporting_table,
    stamps,
)
from parity311.records.schema import DISPOSITION_CLASSES, VISIT_RESULTS
from parity311.records.store import write_parquet, write_table


def write_filings(
    folder: Path, process: FilingProcess, setting: Setting, filings: Filings, visits: FilingVisits
) -> pa.Table:
    """Write a filing domain's records and truth; return its rows of the truth about reporting."""
    slug, last_day = process.slug, day_number(setting.date_to)
    filed = np.flatnonzero(filings.is_filed)
    number = np.arange(1, len(filed) + 1)
    ids = make_ids(slug, number)
    write_table(
        folder,
        "complaints",
        pa.table(
            {
                "complaint_id": ids,
                "incident_id": ids,
                "domain": pa.repeat(slug, len(filed)),
                "category": pa.repeat("FILING", len(filed)),
                "severity": pick(("C", "B"), visits.has_prior[filed].astype(np.int64)),
                "received_at": stamps(filings.time[filed]),
                **place_columns(setting, filings.building[filed]),
                "channel": pa.repeat("FILING", len(filed)),
                "language": pa.repeat("en", len(filed)),
                "equipment_id": make_ids("B", filings.boiler[filed] + 1),
                "is_high_pressure": pa.array(filings.is_high_pressure[filed]),
                "is_internal": pa.array(filings.is_internal[filed]),
            }
        ),
        slug,
    )
    closed, outcome = visits.closed[filed], visits.outcome[filed]
    is_closed = closed < last_day
    unvisited = np.where(is_closed, OTHER, PENDING)
    final = np.where(
        is_closed & (outcome >= 0), outcome, np.where(outcome >= 0, PENDING, unvisited)
    )
    codes = ("A1", "I2", "C1", "", "", "J3", "ACCEPTED")
    write_table(
        folder,
        "outcomes",
        pa.table(
            {
                "complaint_id": ids,
                "closed_at": stamps(np.where(is_closed, closed, np.inf)),
                "disposition": pick(codes, final),
                "disposition_class": pick(DISPOSITION_CLASSES, final),
                "first_visit_at": stamps(visits.visit_time[filed]),
                "n_visits": pa.array(np.isfinite(visits.visit_time[filed]), pa.int16()),
                "defect_found": pa.array(filings.is_defective[filed]),
                "lff_45": pa.array(filings.late_45[filed]),
                "lff_180": pa.array(filings.late_180[filed]),
            }
        ),
        slug,
    )
    _write_filing_visits(folder, slug, visits, filed)
    return _write_filing_truth(folder, process, setting, filings, visits, number)


def _write_filing_visits(
    folder: Path, slug: str, visits: FilingVisits, filed: NDArray[np.int64]
) -> None:
    shown = np.flatnonzero(np.isfinite(visits.visit_time[filed]))
    shown = shown[np.argsort(visits.visit_time[filed[shown]], kind="stable")]
    row = filed[shown]
    table = pa.table(
        {
            "visit_id": make_ids(f"{slug}-visit", np.arange(1, len(shown) + 1)),
            "complaint_id": make_ids(slug, shown + 1),
            "visited_at": stamps(visits.visit_time[row]),
            "attempt": pa.array(np.ones(len(shown)), pa.int16()),
            "result": pick(VISIT_RESULTS, visits.outcome[row]),
            "propensity": pa.array(visits.propensity[row]),
            "n_waiting": pa.array(visits.n_waiting[row], pa.int32()),
            "n_slots": pa.array(visits.n_slots[row], pa.int32()),
        }
    )
    write_table(folder, "visits", table, slug)


def _write_filing_truth(
    folder: Path,
    process: FilingProcess,
    setting: Setting,
    filings: Filings,
    visits: FilingVisits,
    number: NDArray[np.int64],
) -> pa.Table:
    """The need behind filings: defective boiler-years, filed or not."""
    slug = process.slug
    defective = np.flatnonzero(filings.is_defective)
    found = visits.outcome[defective] == 0
    visit = visits.visit_time[defective]
    filed_time = np.where(filings.is_filed[defective], filings.time[defective], np.inf)
    generator = named_generator(setting.seed, slug, "ends")
    table = incident_table(
        setting,
        slug,
        pa.repeat("FILING", len(defective)),
        filings.building[defective],
        began=filings.began[defective],
        natural_end=filings.natural_end[defective],
        city_end=np.where(found, visit, np.inf),
        cause=(generator.random(len(defective)) < REPAIR_SHARE[1]).astype(np.int64),
        severity=np.exp(0.6 * filings.hazard_index[defective]),
        is_actionable=np.ones(len(defective), dtype=np.bool_),
        actionable_chance=np.ones(len(defective), dtype=np.float32),
        n_reports=filings.is_filed[defective].astype(np.int64),
        first_report=filed_time,
        first_visit=visit,
        served=np.where(found, visit, np.inf),
    )
    write_parquet(folder / "truth" / "incidents" / f"{slug}.parquet", table)
    complaint_of = np.full(len(filings.time), -1, np.int64)
    complaint_of[np.flatnonzero(filings.is_filed)] = number
    reported = complaint_of[defective] > 0
    reports = pa.table(
        {
            "complaint_id": make_ids(slug, complaint_of[defective[reported]]),
            "true_incident_id": pa.array(np.flatnonzero(reported)),
        }
    )
    write_parquet(folder / "truth" / "reports" / f"{slug}.parquet", reports)
    filed = np.flatnonzero(filings.is_filed)
    chances = pa.table(
        {
            "complaint_id": make_ids(slug, number),
            "true_defect_chance": filings.defect_chance[filed],
            "true_defect_chance_given_fees": filings.defect_chance_given_fees[filed],
        }
    )
    write_parquet(folder / "truth" / "filings" / f"{slug}.parquet", chances)
    # A filing is due once a year: a share has a meaning, a rate per day has none.
    tract = setting.buildings.tract[filings.building]
    rate = np.full(setting.tracts.n, np.nan)
    return reporting_table(setting, slug, rate, tract, filings.is_filed)
