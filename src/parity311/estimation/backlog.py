"""A backlog's params: as the agency could know them, and as they really were.

Arrivals, access and starts are on record. What is actionable is known only where somebody got in
and looked, and is corrected for incidents that had ended by then; what nobody reported comes from
the calibration, or, in a synthetic city, from its truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.engines.backlog.params import make_backlog_params
from parity311.engines.backlog.process import N_CODES, BacklogParams, BacklogShape
from parity311.errors import EstimationError
from parity311.estimation import backlog_cases
from parity311.estimation.backlog_cases import CHANCE_PRIOR, CasePlaces, QueueCases
from parity311.estimation.incident_ends import mean_lifetime
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import STRATUM
from parity311.records.schema import VISIT_RESULTS
from parity311.records.sql import add_columns, connect, literal
from parity311.records.store import Records

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_DAYS = 28.0
"""Length of the calibration's windows."""


@dataclass(frozen=True)
class Located:
    """Where things are, (n,) each: cases and incidents alike."""

    stratum: np.ndarray
    board: np.ndarray
    borough: np.ndarray
    category: np.ndarray


PlaceOf = Callable[[Any], np.ndarray]
"""Number of the place of each of `Located` (or of cases), (n,)"""


@dataclass(frozen=True)
class BacklogLayout:
    """How a domain lays out its backlog."""

    domain: str
    n_places: int
    place_of: PlaceOf
    shape: BacklogShape
    n_addresses: np.ndarray
    """(P,)"""


def estimate_backlog(
    records: Records, calibration: Any, date_to: date, layout: BacklogLayout
) -> tuple[BacklogParams, float]:
    """Params as the agency could know them before `date_to`, and visits a day."""
    cases = backlog_cases.read_cases(records, layout.domain, records.window[0], date_to)
    places = CasePlaces(layout.place_of(cases), layout.n_places)
    details = calibration.estimate.details
    lifetime = mean_lifetime(details, layout.domain, records, date_to)
    looked = cases.got_in
    hit = (cases.result == VISIT_RESULTS.index("violation")).astype(np.float64)
    waited = np.maximum(np.nan_to_num(cases.visited - cases.last_heard), 0.0)
    chance = backlog_cases.chance_by_place_and_code(
        cases, places, looked, hit, np.exp(-waited / lifetime)
    )
    per_day = _cases_per_day(cases, places)
    unreported = np.maximum(calibration.denominators - calibration.reported, 0.0) / WINDOW_DAYS
    # The unreported lie where their stratum's reported ones do, and are as often actionable.
    inside = cases.is_inside
    flat = places.of_case[inside] * N_STRATA + cases.stratum[inside]
    spread = np.bincount(flat, minlength=places.n * N_STRATA).reshape(places.n, N_STRATA)
    spread = spread / np.maximum(spread.sum(axis=0), 1.0)
    share = (per_day * chance).sum(axis=1) / np.maximum(per_day.sum(axis=1), 1e-9)
    hidden = spread * unreported * np.where(per_day.sum(axis=1) > 0, share, 0.0)[:, None]
    recent = (cases.result >= 0) & (waited < 0.5 * lifetime)
    return _assemble(
        records, cases, places, layout, lifetime, chance, hidden, unreported,
        backlog_cases.share_by_place(places, recent, looked.astype(np.float64), 4 * CHANCE_PRIOR),
    ), backlog_cases.visits_per_day(records, layout.domain, cases)  # fmt: skip


def true_backlog(
    records: Records, happened: Any, date_from: date, layout: BacklogLayout
) -> tuple[BacklogParams, float]:
    """Params as they were from `date_from` on, and visits a day; `happened` is the city's truth."""
    incidents, links = (happened.table(name, layout.domain) for name in ("incidents", "reports"))
    cases = backlog_cases.read_cases(records, layout.domain, date_from, records.window[1])
    places = CasePlaces(layout.place_of(cases), layout.n_places)
    began, cause = _read_truth(records, incidents, links, cases)
    hit = cause["is_actionable"].astype(np.float64)
    everyone = cases.is_inside
    chance = backlog_cases.chance_by_place_and_code(cases, places, everyone, hit, np.ones(len(hit)))
    where = Located(began["stratum"], began["board"], began["borough"], began["category"])
    later = began["is_later"] == 1
    silent = later & (began["n_reports"] == 0)
    actionable = silent & (began["is_actionable"] == 1)
    place, stratum = layout.place_of(where), began["stratum"].astype(np.int64)
    flat = np.bincount(
        (place * N_STRATA + stratum)[actionable], minlength=places.n * N_STRATA
    ).reshape(places.n, N_STRATA)
    unreported = np.bincount(stratum[silent], minlength=N_STRATA) / cases.n_days
    lifetime = float(began["life_days"][later & (began["is_actionable"] == 1)].mean())
    was_open = (cases.result >= 0) & (cause["is_open"] == 1)
    return _assemble(
        records, cases, places, layout, lifetime, chance, flat / cases.n_days, unreported,
        backlog_cases.share_by_place(places, was_open, cases.got_in.astype(np.float64)),
    ), backlog_cases.visits_per_day(records, layout.domain, cases)  # fmt: skip


def _assemble(
    records: Records,
    cases: QueueCases,
    places: CasePlaces,
    layout: BacklogLayout,
    lifetime: float,
    chance: np.ndarray,
    hidden: np.ndarray,
    unreported: np.ndarray,
    access: np.ndarray,
) -> BacklogParams:
    """Put together what records and calibration (or truth) gave; `hidden` is (P, 6) a day."""
    shape = layout.shape
    inside = cases.is_inside
    waiting, slots, months = backlog_cases.backlogs(cases, places, shape)
    ages = (np.arange(shape.n_ages) + 0.5) * shape.bin_days
    ends = np.minimum(cases.left, cases.n_days)
    days_waiting = np.clip(ends - np.maximum(cases.began, 0.0), 0.0, None).sum()
    # Nobody gave the unreported a code: they have those of the reported ones that are actionable.
    codes = (_cases_per_day(cases, places) * chance).sum(axis=0)
    if not codes.sum() > 0:
        raise EstimationError(
            f"In {records.folder} no inspection of a known day found anything to act on in "
            f"{layout.domain!r}, so nothing tells which complaints are worth a visit; give days "
            "and results of inspections."
        )
    lent = np.maximum(hidden.sum(axis=0), 1e-12) * 1e-3
    mix = hidden + lent / lent.sum() * 1e-6
    return make_backlog_params(
        layout.n_places,
        shape,
        cases_per_day=_cases_per_day(cases, places),
        week=backlog_cases.week_profile(cases, shape.steps_per_day),
        season=backlog_cases.season(cases),
        repeats_per_day=(cases.n_reports[inside] - 1).sum() / max(days_waiting, 1.0),
        mix=backlog_cases.mix_by_place(places.of_case[inside], cases.stratum[inside], places.n),
        unreported_per_day=hidden.sum(axis=1)[:, None] * (codes / codes.sum()),
        unreported_mix=mix / mix.sum(axis=1, keepdims=True),
        unreported_incidents=unreported,
        chance=chance,
        there=np.exp(-ages / lifetime),
        access=access,
        returns=backlog_cases.returning_share(records, layout.domain, cases),
        put_away_per_day=min(
            backlog_cases.put_away_rate(cases, (shape.n_ages - 1) * shape.bin_days),
            shape.steps_per_day,
        ),
        lifetime_days=lifetime,
        n_addresses=layout.n_addresses,
        start_waiting=waiting,
        start_slot=slots,
        start_month=months,
    )


def _cases_per_day(cases: QueueCases, places: CasePlaces) -> np.ndarray:
    """First reports a day, by place and code (P, 4)."""
    inside = cases.is_inside
    flat = places.of_case[inside] * N_CODES + cases.code[inside]
    counts = np.bincount(flat, minlength=places.n * N_CODES).reshape(places.n, N_CODES)
    return counts / max(cases.n_days, 1)


def _read_truth(
    records: Records, incidents: pa.Table, links: pa.Table, cases: QueueCases
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Every incident with where it was; and the incident behind every case."""
    connection = connect()
    connection.register("incidents", incidents)
    connection.register("linked", links)
    columns = ["geoid", "income_quintile", "community_board", "borough"]
    connection.register("tracts", records.table("tracts", columns=columns))
    days = {"place": np.arange(len(cases.began)), "visited": cases.visited}
    add_columns(connection, "cases", {"complaint_id": cases.complaint_id, **days})
    start = {"date_from": cases.date_from}
    began = connection.sql(_TRUE_INCIDENTS, params=start).fetchnumpy()
    cause = connection.sql(_TRUE_CASES, params=start).fetchnumpy()
    began["category"] = np.asarray(began["category"], object)
    return began, cause


_TRUE_INCIDENTS = f"""
SELECT CAST(i.began_at >= $date_from::TIMESTAMP AS INT) AS is_later, i.n_reports, i.category,
  CAST(i.is_actionable AS INT) AS is_actionable, t.community_board AS board,
  {backlog_cases.BOROUGH} AS borough,
  {STRATUM} AS stratum,
  epoch(i.natural_end_at - i.began_at) / {literal(backlog_cases.DAY_SECONDS)} AS life_days
FROM incidents i JOIN tracts t ON t.geoid = i.tract"""

_TRUE_CASES = f"""
SELECT COALESCE(CAST(i.is_actionable AS INT), 0) AS is_actionable,
  COALESCE(CAST(k.visited < epoch(i.natural_end_at - $date_from::TIMESTAMP)
    / {literal(backlog_cases.DAY_SECONDS)} AS INT), 0) AS is_open
FROM cases k LEFT JOIN linked USING (complaint_id) LEFT JOIN incidents i USING (true_incident_id)
ORDER BY k.place"""
