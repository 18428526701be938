"""From arrays to the canonical tables: records as an agency would have them, and the truth apart.

Records hold the cases opened in the period, with everything known by its last day and nothing
after it. The truth holds every incident that began in the period or was reported in it.

The tables of a filing domain: filings as records, defective boiler-years as the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parity311.city.agency import Agency
from parity311.city.cases import DUPLICATE, NO_VIOLATION, OTHER, PENDING, RESTORED
from parity311.city.clock import day_number, to_timestamps
from parity311.city.filing_office import FilingVisits
from parity311.city.filings import Filings
from parity311.city.process import FilingProcess
from parity311.city.randomness import named_generator
from parity311.city.reports import LANGUAGES
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain
from parity311.records.schema import (
    CHANNELS,
    DISPOSITION_CLASSES,
    SEVERITIES,
    VISIT_RESULTS,
)
from parity311.records.store import write_parquet, write_table


def write_filings(
    folder: Path,
    process: FilingProcess,
    setting: CitySetting,
    filings: Filings,
    visits: FilingVisits,
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
    setting: CitySetting,
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


REPAIR_SHARE = (0.3, 0.7)
"""Share of natural ends that are a repair rather than the thing ending by itself: not actionable,
actionable (assumed; it changes nothing else)."""


def write_complaints(folder: Path, simulated: SimulatedDomain) -> None:
    """Write a complaint domain's records and truth."""
    kept = _kept_reports(simulated)
    number = np.full(len(simulated.reports.time), -1, np.int64)
    number[kept] = np.arange(1, len(kept) + 1)
    slug = simulated.process.slug
    write_table(folder, "complaints", _complaints(simulated, kept, number), slug)
    write_table(folder, "outcomes", _outcomes(simulated, kept, number), slug)
    visits, chances = _visits(simulated, number)
    write_table(folder, "visits", visits, slug)
    write_parquet(folder / "truth" / "visits" / f"{slug}.parquet", chances)
    incidents, reports = _truth(simulated, kept)
    write_parquet(folder / "truth" / "incidents" / f"{slug}.parquet", incidents)
    write_parquet(folder / "truth" / "reports" / f"{slug}.parquet", reports)


def _kept_reports(simulated: SimulatedDomain) -> NDArray[np.int64]:
    """Reports the agency took in whose case was opened in the period, in order of time."""
    agency = simulated.agency
    taken = np.flatnonzero(agency.report_case >= 0)
    first_day = day_number(simulated.setting.date_from)
    return taken[agency.cases.received[agency.report_case[taken]] >= first_day]


def _looks_first(simulated: SimulatedDomain, kept: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a report is on record as the first of its incident: also a duplicate not marked."""
    agency, setting = simulated.agency, simulated.setting
    is_first = agency.cases.report[agency.report_case[kept]] == kept
    if not setting.departure.missed_marks:
        return is_first
    generator = named_generator(setting.seed, simulated.process.slug, "marks")
    return is_first | (generator.random(len(kept)) < setting.departure.missed_marks)


def make_ids(prefix: str, number: NDArray[np.int64]) -> pa.Array:
    """Ids such as heat-00000012."""
    digits = pc.utf8_lpad(pc.cast(pa.array(number), pa.string()), 8, "0")  # pyright: ignore[reportAttributeAccessIssue]
    return pc.binary_join_element_wise(pa.scalar(prefix), digits, "-")  # pyright: ignore[reportAttributeAccessIssue]


def pick(names: tuple[str, ...] | list[str], index: NDArray) -> pa.Array:
    """Strings by position."""
    return pc.take(pa.array(list(names)), pa.array(index))


def stamps(days: NDArray[np.float64]) -> pa.Array:
    """Timestamps; infinite and NaN days become null."""
    return pa.array(to_timestamps(days))


def place_columns(setting: CitySetting, building: NDArray[np.int32]) -> dict[str, pa.Array]:
    """Columns tract and building_id."""
    return {
        "tract": pc.take(
            pa.array(setting.tracts.geoid), pa.array(setting.buildings.tract[building])
        ),
        "building_id": pc.take(setting.building_ids, pa.array(building)),
    }


def _complaints(
    simulated: SimulatedDomain, kept: NDArray[np.int64], number: NDArray[np.int64]
) -> pa.Table:
    reports, process, setting = simulated.reports, simulated.process, simulated.setting
    cases = simulated.agency.cases
    case = simulated.agency.report_case[kept]
    codes = [entry.code for entry in process.categories]
    category = reports.category[kept]
    first = np.where(_looks_first(simulated, kept), kept, cases.report[case])
    columns: dict[str, pa.Array] = {
        "complaint_id": make_ids(process.slug, number[kept]),
        "incident_id": make_ids(process.slug, number[first]),
        "domain": pa.repeat(process.slug, len(kept)),
        "category": pick(codes, category),
        "severity": pick(SEVERITIES, reports.code[kept]),
        "received_at": stamps(reports.time[kept]),
        **place_columns(setting, simulated.incidents.building[reports.incident[kept]]),
        "channel": pick(CHANNELS, reports.channel[kept]),
        "language": pick(LANGUAGES, reports.language[kept]),
    }
    for position, flag in enumerate(process.flags):
        columns[flag.name] = pa.array(reports.flags[kept, position])
    for name, members in process.category_flags.items():
        columns[name] = pa.array(np.array([code in members for code in codes])[category])
    if process.volume.temperature_slope:
        day = np.floor(reports.time[kept]).astype(np.int64)
        columns["temperature_f"] = pa.array(np.round(setting.weather.on(day), 1))
    return pa.table(columns)


def _outcomes(
    simulated: SimulatedDomain, kept: NDArray[np.int64], number: NDArray[np.int64]
) -> pa.Table:
    agency, process = simulated.agency, simulated.process
    last_day = day_number(simulated.setting.date_to)
    case = agency.report_case[kept]
    is_first = _looks_first(simulated, kept)
    received = simulated.reports.time[kept]
    # A case can be closed hours before a duplicate of the same day comes in.
    closed = np.maximum(agency.cases.closed[case], received)
    is_closed = closed < last_day
    outcome = np.where(
        is_first, np.where(is_closed, agency.cases.outcome[case], PENDING), DUPLICATE
    )
    generator = named_generator(simulated.setting.seed, process.slug, "dispositions")
    first_visit, n_visits = agency.cases.first_visit[case], agency.cases.n_attempts[case]
    visited = first_visit < last_day
    if simulated.setting.departure.one_disposition:
        first_visit = _last_visits(agency, last_day)[case]
        n_visits = np.ones_like(n_visits)
    return pa.table(
        {
            "complaint_id": make_ids(process.slug, number[kept]),
            "closed_at": stamps(np.where(is_closed, closed, np.inf)),
            "disposition": _dispositions(generator, process.service.codes, outcome),
            "disposition_class": pick(
                DISPOSITION_CLASSES, np.where(outcome == RESTORED, NO_VIOLATION, outcome)
            ),
            "first_visit_at": stamps(np.where(visited, first_visit, np.inf)),
            "n_visits": pa.array(np.where(visited, n_visits, 0), pa.int16()),
        }
    )


def _last_visits(agency: Agency, last_day: int) -> NDArray[np.float64]:
    """Time of the last visit before a day to each case opened; infinite without one."""
    case = agency.visits.collect("case", np.int64)
    time = agency.visits.collect("time", np.float64)
    found = np.full(agency.cases.n, -np.inf)
    np.maximum.at(found, case[time < last_day], time[time < last_day])
    return np.where(np.isfinite(found), found, np.inf)


def _dispositions(
    generator: np.random.Generator,
    codes: Mapping[str, tuple[tuple[str, float], ...]],
    outcome: NDArray[np.int64],
) -> pa.Array:
    """Draw the code of each outcome among those of its class."""
    draw = generator.random(len(outcome))
    names: list[str] = []
    position = np.zeros(len(outcome), np.int64)
    for index, name in enumerate((*DISPOSITION_CLASSES, "restored")):
        options = codes.get(name) or codes["no_violation"]
        weights = np.cumsum([weight for _, weight in options])
        inside = outcome == index
        drawn = np.searchsorted(weights / weights[-1], draw[inside], "right")
        position[inside] = len(names) + np.minimum(drawn, len(options) - 1)
        names.extend(code for code, _ in options)
    return pick(names, position)


def _visits(simulated: SimulatedDomain, number: NDArray[np.int64]) -> tuple[pa.Table, pa.Table]:
    """The visits on record, and the chance that each had to get in."""
    agency, slug = simulated.agency, simulated.process.slug
    log = agency.visits
    case, time = log.collect("case", np.int64), log.collect("time", np.float64)
    first = number[agency.cases.report[case]]
    shown = np.flatnonzero((first > 0) & (time < day_number(simulated.setting.date_to)))
    is_last_only = simulated.setting.departure.one_disposition
    if is_last_only:
        # Visits stand in the order in which they were made.
        _, from_end = np.unique(case[shown][::-1], return_index=True)
        shown = shown[::-1][from_end]
    shown = shown[np.argsort(time[shown], kind="stable")]
    result = log.collect("result", np.int8)[shown]
    visit_id = make_ids(f"{slug}-visit", np.arange(1, len(shown) + 1))
    chance = log.collect("access_chance", np.float32)[shown]
    chances = pa.table({"visit_id": visit_id, "access_chance": pa.array(chance)})
    visits = pa.table(
        {
            "visit_id": visit_id,
            "complaint_id": make_ids(slug, first[shown]),
            "visited_at": stamps(time[shown]),
            "attempt": pa.array(
                np.ones(len(shown), np.int16)
                if is_last_only
                else log.collect("attempt", np.int16)[shown]
            ),
            "result": pick(VISIT_RESULTS, np.where(result == RESTORED, NO_VIOLATION, result)),
            "propensity": pa.array(log.collect("propensity", np.float64)[shown]),
            "n_waiting": pa.array(log.collect("n_waiting", np.int32)[shown]),
            "n_slots": pa.array(log.collect("n_slots", np.int32)[shown]),
        }
    )
    return visits, chances


def _truth(simulated: SimulatedDomain, kept: NDArray[np.int64]) -> tuple[pa.Table, pa.Table]:
    """Every incident of the period, and which complaint belongs to which."""
    incidents, agency, setting = simulated.incidents, simulated.agency, simulated.setting
    first_day, last_day = day_number(setting.date_from), day_number(setting.date_to)
    of_report = simulated.reports.incident[kept]
    n_reports = np.bincount(of_report, minlength=len(incidents.began))
    first_report = np.full(len(incidents.began), np.inf)
    np.minimum.at(first_report, of_report, simulated.reports.time[kept])
    began_inside = (incidents.began >= first_day) & (incidents.began < last_day)
    shown = np.flatnonzero(began_inside | (n_reports > 0))
    new_id = np.full(len(incidents.began), -1, np.int64)
    new_id[shown] = np.arange(len(shown))
    generator = named_generator(setting.seed, simulated.process.slug, "ends")
    repaired = np.asarray(REPAIR_SHARE)[incidents.is_actionable[shown].astype(np.int64)]
    cause = np.where(generator.random(len(shown)) < repaired, 1, 0)
    table = incident_table(
        setting,
        simulated.process.slug,
        pick([entry.code for entry in simulated.process.categories], incidents.category[shown]),
        incidents.building[shown],
        began=incidents.began[shown],
        natural_end=incidents.natural_end[shown],
        city_end=agency.city_end[shown],
        cause=cause,
        severity=np.exp(simulated.process.hazard.hazard_log_sd * incidents.hazard_index[shown]),
        is_actionable=incidents.is_actionable[shown],
        actionable_chance=incidents.actionable_chance[shown],
        n_reports=n_reports[shown],
        first_report=first_report[shown],
        first_visit=agency.first_visit[shown],
        served=agency.served[shown],
    )
    reports = pa.table(
        {
            "complaint_id": make_ids(simulated.process.slug, np.arange(1, len(kept) + 1)),
            "true_incident_id": pa.array(new_id[of_report]),
        }
    )
    return table, reports


def incident_table(
    setting: CitySetting,
    slug: str,
    category: pa.Array,
    building: NDArray[np.int32],
    *,
    began: NDArray[np.float64],
    natural_end: NDArray[np.float64],
    city_end: NDArray[np.float64],
    cause: NDArray[np.int64],
    severity: NDArray[np.float64],
    is_actionable: NDArray[np.bool_],
    actionable_chance: NDArray[np.float32],
    n_reports: NDArray[np.int64],
    first_report: NDArray[np.float64],
    first_visit: NDArray[np.float64],
    served: NDArray[np.float64],
) -> pa.Table:
    """The truth about incidents, as it stood on the last day."""
    last_day = day_number(setting.date_to)
    ended = np.minimum(natural_end, city_end)
    cause = np.where(city_end < natural_end, 2, cause)
    cause = np.where(ended >= last_day, 3, cause)

    def by_then(days: NDArray[np.float64]) -> pa.Array:
        return stamps(np.where(days < last_day, days, np.inf))

    return pa.table(
        {
            "true_incident_id": pa.array(np.arange(len(began))),
            "domain": pa.repeat(slug, len(began)),
            "category": category,
            **place_columns(setting, building),
            "began_at": stamps(began),
            "ended_at": by_then(ended),
            "natural_end_at": stamps(natural_end),
            "end_cause": pick(["self", "repair", "city", "open"], cause),
            "severity": pa.array(severity),
            "is_actionable": pa.array(is_actionable),
            "actionable_chance": pa.array(actionable_chance),
            "n_reports": pa.array(n_reports, pa.int32()),
            "first_reported_at": by_then(first_report),
            "first_visit_at": by_then(first_visit),
            "served_at": by_then(served),
        }
    )


def reporting_truth(simulated: SimulatedDomain) -> pa.Table:
    """Each tract's true reporting rate and the share of its incidents that anybody reported."""
    setting, incidents = simulated.setting, simulated.incidents
    tract = setting.buildings.tract[incidents.building]
    inside = (incidents.began >= day_number(setting.date_from)) & (
        incidents.began < day_number(setting.date_to)
    )
    reported = np.zeros(len(incidents.began), dtype=np.bool_)
    reported[simulated.reports.incident[_kept_reports(simulated)]] = True
    rate = simulated.process.reporting.rate_per_day * np.exp(simulated.reporting.tract_effect)
    return reporting_table(setting, simulated.process.slug, rate, tract[inside], reported[inside])


def reporting_table(
    setting: CitySetting,
    slug: str,
    rate: NDArray[np.float64],
    tract: NDArray,
    reported: NDArray[np.bool_],
) -> pa.Table:
    """Rates and reported shares by tract; ``tract`` and ``reported`` have one entry an incident."""
    n = setting.tracts.n
    counts = np.bincount(tract, minlength=n)
    share = np.bincount(tract, reported, n) / np.maximum(counts, 1)
    return pa.table(
        {
            "domain": pa.repeat(slug, n),
            "tract": pa.array(setting.tracts.geoid),
            "true_rate_per_day": pa.array(rate, from_pandas=True),
            "true_reported_share": pa.array(np.where(counts > 0, share, np.nan), from_pandas=True),
        }
    )
