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

import numpy as np

from parity311.engines.stream.process import SEVERITY_WEIGHTS
from parity311.evaluation.off_policy.logs import STRATIFIED_NAMES, Logs, outcomes_by_stratum
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness
from parity311.records.cases import check_enough, service_level
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.records.store import Records
from parity311.serving.period import SeenPeriod, decides_by_case, no_recorded_log, see_period

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
    if not has_recorded_log(domain):
        raise no_recorded_log(domain)
    period = see_period(domain, records, params, date_from, date_to)
    complaints, code, stratum = period.complaints, period.code, period.complaints.stratum
    ids, n = complaints.complaint_id, len(code)
    dates = (date_from, date_to)
    check_enough(records, domain.slug, n, dates, FEWEST_DECISIONS, "decisions about")
    n_visits, is_found = _what_happened(records, domain.slug, ids)
    weight = np.array(SEVERITY_WEIGHTS)[::-1][code]
    found = is_found > 0
    speed_unit = float(weight[found].mean()) if found.any() else 1.0
    visits_per_found = float(n_visits.sum() / max(found.sum(), 1))
    speed, cost = weight * is_found / speed_unit, n_visits / visits_per_found
    reward = preference[0] * speed - preference[1] * cost
    by_stratum = outcomes_by_stratum(reward, stratum)
    outcome = np.column_stack([by_stratum, is_found, n_visits])
    seen = np.column_stack([complaints.features[:, np.array(harness.columns)], np.zeros(n)])
    observation = np.column_stack([seen[:, :-1], _covariates(period)])
    lay = lambda x: x[None, :, None]  # noqa: E731
    logs = Logs(
        observation=lay(observation),
        action=lay((n_visits > 0).astype(np.int64)),
        propensity=np.full((1, n, 1), np.nan),
        outcome=lay(outcome),
        is_live=np.ones((1, n, 1), bool),
        outcome_names=OUTCOME_NAMES,
        n_actions=2,
    )
    return AgencyLog(
        logs=logs,
        seen=seen,
        complaint_id=ids,
        code=code,
        stratum=stratum,
        speed_unit=speed_unit,
        visits_per_found=visits_per_found,
        dates=dates,
    )


def _covariates(period: SeenPeriod) -> np.ndarray:
    month = period.began.astype(np.int64).astype("datetime64[D]").astype("datetime64[M]")
    return np.column_stack(
        [
            period.code,
            np.log1p(period.ahead),
            month.astype(np.int64) % 12 // 3,
            np.log1p(period.units),
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


def has_recorded_log(domain: Domain) -> bool:
    """Whether records hold the domain's decisions."""
    return decides_by_case(domain) and domain.sight is not None and domain.sight.concerns is None


def escalation_chances(chances: np.ndarray, harness: Harness) -> np.ndarray:
    """Chances (n, n_actions) of a domain's actions as (1, n, 1, 2): not, or escalated."""
    actions = harness.domain.actions_of(harness.action_set)
    escalates = np.array([action.escalates for action in actions], np.float64)
    visit = np.clip(chances @ escalates, 0.0, 1.0)
    return np.stack([1.0 - visit, visit], axis=-1)[None, :, None, :]
