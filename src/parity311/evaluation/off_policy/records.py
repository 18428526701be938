"""The agency's own decisions as a log: every case on record, whether somebody went, what was found.

Records do not say which action of a domain was taken, only whether a case was visited within its
service level. So a log from records has two actions, escalate or not, and a policy is judged by
the chance that it takes an escalating one. What would have been found where nobody went is not on
record (missing not at random): the weights stand in for it, and they are only as good as what the
records say about why somebody went. So the log carries more than a policy sees: severity code,
cases waiting, season, size of the building, for the propensity of a visit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.engines.stream.process import (
    QUEUE_SLOTS,
    SEVERITY_WEIGHTS,
    Queue,
    StreamParams,
    StreamState,
)
from parity311.errors import InputError
from parity311.estimation.recorded_reports import RecordedReports, read_reports
from parity311.estimation.stream_book import StreamOffice, read_book
from parity311.evaluation.off_policy.logs import STRATIFIED_NAMES, Logs, outcomes_by_stratum
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness
from parity311.records.cases import check_enough, service_level
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.records.store import Records

ESCALATE = 1
OUTCOME_NAMES = (*STRATIFIED_NAMES, "correct", "visits")
"""Reward overall and by stratum, then per case: violations found in time, and visits."""
FEWEST_DECISIONS = 200
"""Cases below which the agency's decisions are no log (assumed)."""
COVARIATES = ("severity_code", "log_waiting", "quarter", "log_units")
"""What a log from records knows beside the policy's observation."""


@dataclass(frozen=True)
class AgencyLog:
    """Decisions of the agency: one log with one decision an episode, and what policies saw."""

    logs: Logs
    seen: np.ndarray
    """(E, n_features) what a policy of the harness would have seen"""
    complaint_id: np.ndarray
    code: np.ndarray
    """(E,) severity code, 0 = A"""
    stratum: np.ndarray
    """(E,)"""
    speed_unit: float
    """severity weight of a typical violation found"""
    visits_per_found: float
    dates: tuple[date, date]


def last_known_day(records: Records) -> date:
    """Day before which every case has had the time its service level allows."""
    return records.window[1] - timedelta(days=int(max(SERVICE_LEVEL_DAYS.values())))


def read_agency_log(
    harness: Harness,
    records: Records,
    params: Any,
    date_from: date,
    date_to: date,
    preference: np.ndarray,
) -> AgencyLog:
    """Decisions about cases first reported in [date_from, date_to).

    The reward is in the units of the contract: 1 is what a typical correct escalation is worth,
    in days by its severity weight, in cost by the visits it takes on record.
    """
    domain = harness.domain
    reports = read_reports(records, domain.slug, date_from, date_to, ())
    ids, features = see_cases(domain, records, params, date_from, date_to, reports)
    place = {name: i for i, name in enumerate(reports.complaint_id)}
    rows = np.array([place.get(str(name), -1) for name in ids])
    is_first = (rows >= 0) & (reports.n_earlier[rows] == 0)
    rows, features, ids = rows[is_first], features[is_first], np.asarray(ids, str)[is_first]
    dates = (date_from, date_to)
    check_enough(records, domain.slug, len(rows), dates, FEWEST_DECISIONS, "decisions about")
    n_visits, is_found = _what_happened(records, domain.slug, ids)
    weight = np.array(SEVERITY_WEIGHTS)[::-1][reports.code[rows]]
    found = is_found > 0
    speed_unit = float(weight[found].mean()) if found.any() else 1.0
    visits_per_found = float(n_visits.sum() / max(found.sum(), 1))
    speed, cost = weight * is_found / speed_unit, n_visits / visits_per_found
    reward = preference[0] * speed - preference[1] * cost
    by_stratum = outcomes_by_stratum(reward, reports.stratum[rows])
    outcome = np.column_stack([by_stratum, is_found, n_visits])
    seen = np.column_stack([features[:, np.array(harness.columns)], np.zeros(len(rows))])
    observation = np.column_stack([seen[:, :-1], _covariates(reports, rows)])
    lay = lambda x: x[None, :, None]  # noqa: E731
    logs = Logs(
        observation=lay(observation),
        action=lay((n_visits > 0).astype(np.int64)),
        propensity=np.full((1, len(rows), 1), np.nan),
        outcome=lay(outcome),
        is_live=np.ones((1, len(rows), 1), bool),
        outcome_names=OUTCOME_NAMES,
        n_actions=2,
    )
    return AgencyLog(
        logs=logs,
        seen=seen,
        complaint_id=ids,
        code=reports.code[rows],
        stratum=reports.stratum[rows],
        speed_unit=speed_unit,
        visits_per_found=visits_per_found,
        dates=dates,
    )


def _covariates(reports: RecordedReports, rows: np.ndarray) -> np.ndarray:
    return np.column_stack(
        [
            reports.code[rows],
            np.log1p(np.maximum(reports.n_waiting[rows], 0)),
            reports.month[rows] // 3,
            np.log1p(reports.units[rows]),
        ]
    ).astype(np.float64)


def _what_happened(
    records: Records, domain: str, complaint_id: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Visits made within the service level, and whether one found a violation, (n,) each."""
    found = records.sql(
        f"""
SELECT c.complaint_id, count(v.visit_id) AS n_visits,
  COALESCE(max(CAST(v.result = 'violation' AS INT)), 0) AS is_found
FROM complaints c LEFT JOIN visits v ON v.complaint_id = c.complaint_id
  AND v.visited_at <= c.received_at + {service_level("c.severity")} * INTERVAL 1 DAY
WHERE c.domain = $domain GROUP BY 1""",
        domain=domain,
    )
    happened = dict(
        zip(
            found["complaint_id"].to_pylist(),
            zip(found["n_visits"].to_pylist(), found["is_found"].to_pylist(), strict=True),
            strict=True,
        )
    )
    pairs = np.array([happened[name] for name in complaint_id], np.float64)
    return pairs[:, 0], pairs[:, 1]


def see_cases(
    domain: Domain,
    records: Records,
    params: Any,
    date_from: date,
    date_to: date,
    reports: RecordedReports,
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and features (n, n_names) of cases, as the domain's policies would have seen them."""
    play = domain.play
    if play.complaints is not None:
        seen = play.complaints(records, params, date_from, date_to)
        return np.asarray(seen.complaint_id), np.asarray(seen.features, np.float64)
    office = next(
        (x for x in getattr(play.estimate, "args", ()) if isinstance(x, StreamOffice)), None
    )
    # Other processes may be estimated from an office's books, too, and have a state of their own.
    if office is None or play.params_type is not StreamParams:
        raise no_recorded_log(domain)
    return _see_stream(domain, office, records, params, date_from, date_to, reports)


def no_recorded_log(domain: Domain) -> InputError:
    """Error for a domain whose decisions are not whether to visit a complaint that came in."""
    return InputError(
        f"Records say whether somebody went to a complaint in time; what {domain.slug!r} decides "
        f'is another thing ("{domain.decision}"), and which of it was chosen is not on record. '
        "Give a log of its process, --records LOG.parquet, as `log_decisions` writes it."
    )


def has_recorded_log(domain: Domain) -> bool:
    """Whether records hold the domain's decisions."""
    return domain.play.complaints is not None or domain.play.params_type is StreamParams


def _see_stream(
    domain: Domain,
    office: StreamOffice,
    records: Records,
    params: Any,
    date_from: date,
    date_to: date,
    reports: RecordedReports,
) -> tuple[np.ndarray, np.ndarray]:
    """Cases of a stream; the queue is the city's, scaled to the office's share of the city.

    Whether the quick crew was free and what was put off is not on record: it is taken as free, and
    nothing as open.
    """
    book = read_book(office, records, date_from, date_to)
    waiting = dict(zip(reports.complaint_id, reports.n_waiting, strict=True))
    n_days = (date_to - date_from).days
    share = n_days / office.days_per_complaint / len(book.kind)
    queued = np.array([waiting.get(str(name), 0) for name in book.complaint_id]) * share
    n, n_places = len(book.kind), office.shape.n_places
    number = lambda x: jnp.asarray(x, jnp.int32)  # noqa: E731
    nothing = jnp.zeros((n, QUEUE_SLOTS))
    state = StreamState(
        kind=number(book.kind),
        stratum=number(book.stratum),
        season=number(book.season),
        n_queued=number(np.clip(np.rint(queued), 0, QUEUE_SLOTS - 1)),
        is_crew_busy=jnp.zeros(n, bool),
        open_level=jnp.zeros((n, n_places), jnp.int32),
        open_stratum=jnp.zeros((n, n_places), jnp.int32),
        queue=Queue(nothing, nothing, nothing, nothing, nothing.astype(jnp.int32)),
    )
    features = jax.vmap(lambda one: domain.play.observe(params, one))(state)
    return np.asarray(book.complaint_id, str), np.asarray(features, np.float64)


def escalation_chances(chances: np.ndarray, harness: Harness) -> np.ndarray:
    """Chances (n, n_actions) of a domain's actions as (1, n, 1, 2): not, or escalated."""
    actions = harness.domain.actions_of(harness.action_set)
    escalates = np.array([action.escalates for action in actions], np.float64)
    visit = np.clip(chances @ escalates, 0.0, 1.0)
    return np.stack([1.0 - visit, visit], axis=-1)[None, :, None, :]
