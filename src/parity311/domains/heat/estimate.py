"""An office's figures from records: as the agency could know them, or as they really were.

Complaints are told apart by kinds: yes/no fields taken down at intake, size of the building,
severity code. A domain names its fields; counting, shrinking and correcting for selection is the
same for every queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.arrays import jnp
from parity311.domains.heat.office import OfficeParams
from parity311.domains.heat.step import OfficeProcess
from parity311.estimation import casebook
from parity311.estimation.incident_ends import mean_lifetime
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import STRATUM
from parity311.records.schema import SEVERITIES, VISIT_RESULTS
from parity311.records.sql import add_columns, connect

if TYPE_CHECKING:
    from parity311.records.store import Records

WINDOW_DAYS = 28.0
"""Days a calibration's denominators are counted over."""


@dataclass(frozen=True)
class ComplaintKinds:
    """What a domain's complaints are told apart by."""

    slug: str
    flags: tuple[str, ...]
    """yes/no fields of a complaint"""
    units_edges: tuple[int, ...]
    """dwelling units at which the next level of building size begins"""

    @property
    def levels(self) -> tuple[int, ...]:
        """Number of values of each part of a kind: flags, building size, severity code."""
        return (*(2 for _ in self.flags), len(self.units_edges) + 1, len(SEVERITIES))

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return int(np.prod(self.levels))

    @cached_property
    def parts(self) -> np.ndarray:
        """(n_kinds, n_parts) level of every part of every kind."""
        return np.stack(np.unravel_index(np.arange(self.n_kinds), self.levels), axis=1)

    def of(self, book: casebook.Casebook) -> np.ndarray:
        """Kind of every case, (n,)."""
        level = np.searchsorted(self.units_edges, book.units, side="right")
        flags = [book.flags[name].astype(np.int64) for name in self.flags]
        return np.ravel_multi_index((*flags, level, book.code), self.levels)


@dataclass(frozen=True)
class OfficeFigures:
    """What an office of the whole city would see; days and visits per day, NumPy arrays."""

    incidents_per_day: np.ndarray
    """(6, 12) incidents that begin, by stratum and month, reported or not"""
    cases_per_day: np.ndarray
    """(12,) cases first reported"""
    visits_per_day: np.ndarray
    """(12,)"""
    kind_shares: np.ndarray
    """(6, n_kinds)"""
    actionable: np.ndarray
    """(n_kinds,) chance that an incident of this kind warrants a violation"""
    reported_share: np.ndarray
    """(6,) share of incidents somebody reports"""
    buildings: np.ndarray
    """(6,) buildings with a dwelling"""
    access: np.ndarray
    """(6,) chance that a visit gets in"""
    leads_days: np.ndarray
    """(4,) by severity code"""
    lifetime_days: float
    silent_share: float
    call_back_days: float
    """mean, from an incident's end until a call finds it ended"""
    expiry_days: float


def estimate_figures(
    records: Records, calibration: Any, kinds: ComplaintKinds, date_to: date
) -> OfficeFigures:
    """What the agency could know before `date_to`.

    Incidents and reporting come from the calibration; what is actionable is known only where an
    inspector got in, and is corrected for incidents that had ended by then.
    """
    from parity311.reporting.model import USUAL_CALL_BACK_DAYS, USUAL_SILENT_SHARE

    book = casebook.read_casebook(records, kinds.slug, records.window[0], date_to, kinds.flags)
    details = calibration.estimate.details
    lifetime = mean_lifetime(details, kinds.slug, records, date_to)
    cases = casebook.count_cases(book).sum(axis=0)
    season = cases / max(float((cases * book.days_by_month).sum()) / max(book.n_days, 1), 1e-9)
    looked = (book.result >= 0) & (book.result != VISIT_RESULTS.index("no_access"))
    there = np.exp(-np.maximum(book.since_known[looked], 0.0) / lifetime)
    found = (book.result[looked] == VISIT_RESULTS.index("violation")).astype(np.float64)
    # Somebody called within the day, so somebody is there: this is access, not an ended incident.
    recent = (book.result >= 0) & (book.since_known < 1.0)
    gets_in = book.result[recent] != VISIT_RESULTS.index("no_access")
    kind = kinds.of(book)
    reported = calibration.reported / np.maximum(calibration.denominators, 1e-9)
    return OfficeFigures(
        incidents_per_day=calibration.denominators[:, None] / WINDOW_DAYS * season,
        cases_per_day=cases,
        visits_per_day=casebook.visits_per_day(records, kinds.slug, book),
        kind_shares=casebook.shares_of_kinds(kind, book.stratum, kinds.n_kinds),
        actionable=casebook.chance_by_kind(kind[looked], found, there, kinds.parts, kinds.levels),
        reported_share=np.clip(reported, 0.0, 1.0),
        buildings=count_buildings(records),
        access=casebook.access_by_stratum(book.stratum[recent], gets_in),
        leads_days=casebook.leads_by_code(book),
        lifetime_days=lifetime,
        silent_share=float(details.get("silent_share", USUAL_SILENT_SHARE)),
        call_back_days=float(details.get("call_back_days", USUAL_CALL_BACK_DAYS)),
        expiry_days=casebook.longest_wait(book),
    )


def count_buildings(records: Records) -> np.ndarray:
    """Buildings with a dwelling, by stratum (6,)."""
    rows = records.sql(f"""
SELECT {STRATUM} AS stratum, count(*) AS n
FROM buildings b LEFT JOIN tracts t ON t.geoid = b.tract WHERE b.units > 0 GROUP BY 1""")
    found = np.zeros(N_STRATA)
    found[rows["stratum"].to_numpy()] = rows["n"].to_numpy()
    return found


def true_figures(
    records: Records,
    happened: Any,
    kinds: ComplaintKinds,
    date_from: date,
    silent_share: float,
    call_back_days: float,
) -> OfficeFigures:
    """What really was from `date_from` on; `happened` is the opened truth of a synthetic city."""
    slug = kinds.slug
    book = casebook.read_casebook(records, slug, date_from, records.window[1], kinds.flags)
    connection = connect()
    connection.register("incidents", happened.table("incidents", slug))
    connection.register("linked", happened.table("reports", slug))
    connection.register("tracts", records.table("tracts", columns=["geoid", "income_quintile"]))
    connection.register("visits", records.table("visits", slug))
    add_columns(connection, "cases", {"complaint_id": book.complaint_id})
    began = connection.sql(_TRUE_INCIDENTS, params={"date_from": date_from}).fetchnumpy()
    counts = np.bincount(began["stratum"] * 12 + began["month"], minlength=N_STRATA * 12)
    total = np.bincount(began["stratum"], minlength=N_STRATA)
    reported = np.bincount(began["stratum"], began["is_reported"], minlength=N_STRATA)
    case = connection.sql(_TRUE_CASES).fetchnumpy()
    was_open = case["is_open"] == 1
    kind = kinds.of(book)
    return OfficeFigures(
        incidents_per_day=book.per_day_by_month(counts.reshape(N_STRATA, 12)),
        cases_per_day=casebook.count_cases(book).sum(axis=0),
        visits_per_day=casebook.visits_per_day(records, slug, book),
        kind_shares=casebook.shares_of_kinds(kind, book.stratum, kinds.n_kinds),
        actionable=casebook.chance_by_kind(
            kind,
            case["is_actionable"].astype(np.float64),
            np.ones(len(kind)),
            kinds.parts,
            kinds.levels,
        ),
        reported_share=reported / np.maximum(total, 1),
        buildings=count_buildings(records),
        access=casebook.access_by_stratum(book.stratum[was_open], case["gets_in"][was_open]),
        leads_days=casebook.leads_by_code(book),
        lifetime_days=float(began["lifetime_days"].mean()),
        silent_share=silent_share,
        call_back_days=call_back_days,
        expiry_days=casebook.longest_wait(book),
    )


def scale_to_office(
    figures: OfficeFigures,
    cases_per_busy_day: float,
    *,
    linked_share: float,
    repair_days: float,
) -> OfficeProcess:
    """Scale a city down to one office that takes in so many cases a day in its busiest month."""
    scale = cases_per_busy_day / figures.cases_per_day.max()
    share = np.clip(figures.reported_share, 0.02, 0.98)
    number = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return OfficeProcess(
        incidents_per_day=number(figures.incidents_per_day * scale),
        kind_shares=number(figures.kind_shares),
        actionable=number(figures.actionable),
        # Reports and endings compete at constant rates: reported first with this chance.
        report_rate=number(share / (1.0 - share) / figures.lifetime_days),
        buildings=number(np.maximum(figures.buildings * scale, 1.0)),
        office=OfficeParams(
            silence=number(figures.silent_share),
            linked=number(linked_share),
            lifetime=number([figures.lifetime_days, figures.lifetime_days]),
            repair=number(repair_days),
            access=number(figures.access),
            capacity=number(figures.visits_per_day * scale),
            lead=number(figures.leads_days),
            service_level=number(casebook.SERVICE_LEVELS),
            max_attempts=jnp.int32(1),
            call_back=number(figures.call_back_days),
            expiry=number(figures.expiry_days),
        ),
    )


_TRUE_INCIDENTS = f"""
SELECT month(i.began_at) - 1 AS month, CAST(i.n_reports > 0 AS INT) AS is_reported,
  {STRATUM} AS stratum,
  epoch(i.natural_end_at - i.began_at) / 86400.0 AS lifetime_days
FROM incidents i LEFT JOIN tracts t ON t.geoid = i.tract
WHERE i.began_at >= $date_from::TIMESTAMP"""

_TRUE_CASES = """
SELECT CAST(i.is_actionable AS INT) AS is_actionable,
  CAST(v.result <> 'no_access' AS INT) AS gets_in,
  COALESCE(CAST(v.visited_at < i.natural_end_at AS INT), 0) AS is_open
FROM (SELECT complaint_id, row_number() OVER () AS place FROM cases) k
JOIN linked USING (complaint_id) JOIN incidents i USING (true_incident_id)
LEFT JOIN (SELECT complaint_id, min(visited_at) AS visited_at,
  arg_min(result, visited_at) AS result FROM visits GROUP BY 1) v USING (complaint_id)
ORDER BY place"""
