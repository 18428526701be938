"""Whom an office visits of those who wait, as a log: every case on every morning is a decision.

Which mode an office works by in an hour, or what it thinks of a site, is on no record; which of the
waiting cases it visited is. So a log has a row for each case that waits on a morning on which
somebody goes, with the action whether it was visited that day, and a policy is judged by the chance
that the case is among the first of its own order, with as many visits as were made. Support is
counted by the decision, and what is told is a visit's: its reward, and violations found per visit,
which is the paper's activity.

The line is as on record: whom a policy would have left waiting, and who would wait longer, is
not followed. How the agency chose is estimated from what it orders by: code, age, the place in that
order against the visits of the day, visits before, size.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

import numpy as np

from parity311.agents.package import flatten, nest
from parity311.errors import EstimationError
from parity311.evaluation.off_policy.logs import STRATIFIED_NAMES, Logs, outcomes_by_stratum
from parity311.evaluation.off_policy.policies import action_chances
from parity311.mdp.contract import N_STRATA, Domain, Sight
from parity311.mdp.harness import Harness
from parity311.records.journal import Cases, Journal, day_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES, VISIT_RESULTS
from parity311.records.store import Records
from parity311.serving.refusals import check_fields

OUTCOME_NAMES = (*STRATIFIED_NAMES, "correct", "visits")
"""Reward of a visit, overall and by stratum; violations found in time, and visits, per visit."""
FEWEST_VISITS = 200
"""Visits below which an office's line is no log (assumed)."""
MOST_ROWS = 20_000
"""Cases on mornings that are looked at: where there are more, days are left out evenly."""
N_DRAWS = 16
"""Lines that a rule which draws lots is asked for; the error of a chance is 12 %."""


@dataclass(frozen=True)
class Morning:
    """The cases that wait when a day begins, and who is visited in it, (n,) each."""

    day: int
    """days since 1970"""
    cases: Cases
    is_visited: np.ndarray
    is_found: np.ndarray
    """a violation, within the service level of the code"""
    features: np.ndarray
    """what the domain shows of each case, (n, n_names), or of the office, (1, n_names)"""
    priority: np.ndarray | None
    """(n_actions, n) where an action orders the whole line; None where it is about one case"""

    @property
    def n_visits(self) -> int:
        """Visits of the day to those who waited."""
        return int(self.is_visited.sum())


@dataclass(frozen=True)
class LineLog:
    """An office's visits as a log of one decision an episode, and the mornings behind it."""

    logs: Logs
    mornings: tuple[Morning, ...]


def has_recorded_visits(domain: Domain) -> bool:
    """Whether a backtest can read the domain's decisions from whom the office visited."""
    return domain.sight is not None and domain.sight.shows_in_visits


def read_visit_log(
    harness: Harness,
    records: Records,
    params: Any,
    date_from: date,
    date_to: date,
    preference: np.ndarray,
) -> LineLog:
    """The mornings of [date_from, date_to) with a visit, as a log."""
    domain, sight = harness.domain, harness.domain.sight
    assert sight is not None
    journal = read_journal(records, domain.slug, datetime.combine(date_to, time()))
    check_fields(domain, journal)
    days = _thin(journal, _days_with_visits(journal, date_from))
    served = nest(flatten(sight.keep(params) if sight.keep else params))
    mornings = [_look(sight, served, journal, day, harness.n_actions) for day in days]
    n_visits = sum(one.n_visits for one in mornings)
    if n_visits < FEWEST_VISITS:
        raise EstimationError(
            f"{records.folder} has {n_visits} visits to waiting cases of {domain.slug!r} from "
            f"{date_from} to {date_to}; at least {FEWEST_VISITS} are needed, choose more days."
        )
    return LineLog(_as_logs(mornings, preference, n_visits), tuple(mornings))


def _days_with_visits(journal: Journal, date_from: date) -> list[int]:
    """Days on which somebody who waited in the morning is visited."""
    first = int(day_of(datetime.combine(date_from, time())))
    day = np.floor(journal.visit_at).astype(np.int64)
    has_waited = (journal.visit_case >= 0) & (journal.began[journal.visit_case] < day)
    return np.unique(day[has_waited & (day >= first) & (day < int(journal.as_of))]).tolist()


def _thin(journal: Journal, days: list[int]) -> list[int]:
    ends = np.minimum(journal.closed, journal.settled)
    n_rows = sum(int(((journal.began < day) & (ends >= day)).sum()) for day in days)
    if n_rows <= MOST_ROWS:
        return days
    n = max(int(len(days) * MOST_ROWS / n_rows), 1)
    return [days[i] for i in np.linspace(0, len(days) - 1, n).round().astype(int)]


def _look(sight: Sight, params: Any, journal: Journal, day: int, n_actions: int) -> Morning:
    """One morning, as a policy would have seen it, and what came of it."""
    morning = journal.rewind(float(day))
    rows = morning.open_rows
    cases = morning.take(rows)
    today = slice(*np.searchsorted(journal.visit_at, [day, day + 1]))
    went, what = journal.visit_case[today], journal.visit_result[today]
    allowed = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
    in_time = day - cases.began <= allowed[cases.code]
    view = sight.see(params, morning, cases, np.zeros(cases.n))
    priority = None
    if sight.rank is not None:
        ranked = [
            sight.rank(params, view, action, np.zeros(N_STRATA), morning, cases)
            for action in range(n_actions)
        ]
        priority = np.stack(ranked)
    return Morning(
        day=day,
        cases=cases,
        is_visited=np.isin(rows, went),
        is_found=np.isin(rows, went[what == VISIT_RESULTS.index("violation")]) & in_time,
        features=np.atleast_2d(np.asarray(sight.show(params, view), np.float64)),
        priority=priority,
    )


def _as_logs(mornings: list[Morning], preference: np.ndarray, n_visits: int) -> Logs:
    """Rows of all mornings, with outcomes scaled so that their mean is that of a visit."""
    join = lambda get: np.concatenate([get(one) for one in mornings])  # noqa: E731
    went, found = join(lambda one: one.is_visited), join(lambda one: one.is_found)
    scale = len(went) / n_visits
    # As in the contract: 1 is a typical correct escalation, in speed and in what it costs.
    visits_per_found = n_visits / max(found.sum(), 1)
    reward = scale * (preference[0] * found - preference[1] * went / visits_per_found)
    by_stratum = outcomes_by_stratum(reward, join(lambda one: one.cases.stratum))
    outcome = np.column_stack([by_stratum, scale * found, scale * went])
    lay = lambda x: x[None, :, None]  # noqa: E731
    return Logs(
        observation=lay(join(_ordered_by)),
        action=lay(went.astype(np.int64)),
        propensity=np.full((1, len(went), 1), np.nan),
        outcome=lay(outcome),
        is_live=np.ones((1, len(went), 1), bool),
        outcome_names=OUTCOME_NAMES,
        n_actions=2,
    )


def _ordered_by(morning: Morning) -> np.ndarray:
    """What an agency can order a line by, (n, 6)."""
    cases = morning.cases
    ahead = np.empty(cases.n)
    ahead[np.lexsort((cases.began, cases.code))] = np.arange(cases.n)
    columns = [
        cases.code,
        np.log1p(ahead / morning.n_visits),
        ahead < morning.n_visits,
        np.log1p(morning.day - cases.began),
        cases.n_attempts > 0,
        np.log1p(cases.units),
    ]
    return np.column_stack(columns).astype(np.float64)


def visit_chances(log: LineLog, harness: Harness, policy: Any) -> np.ndarray:
    """Chances (1, n, 1, 2) of each row that a policy does not visit it, or does."""
    shown = np.concatenate([one.features for one in log.mornings])
    # What a policy sees of equity is left out: coverage prices are not on record.
    seen = np.column_stack([shown[:, np.array(harness.columns)], np.zeros(len(shown))])
    chances = action_chances(policy, seen, harness.n_actions)
    ends = np.cumsum([len(one.features) for one in log.mornings])[:-1]
    found = [
        _chances_of(harness, one, own)
        for one, own in zip(log.mornings, np.split(chances, ends), strict=True)
    ]
    visit = np.concatenate(found)
    return np.stack([1.0 - visit, visit], axis=-1)[None, :, None, :]


def _chances_of(harness: Harness, morning: Morning, chances: np.ndarray) -> np.ndarray:
    """Chance of each case of a morning to be visited, (n,), given those of actions (·, A)."""
    rng = np.random.default_rng(morning.day)
    n_draws = 1 if (chances.max(axis=1) > 1.0 - 1e-9).all() else N_DRAWS
    visit = np.zeros(morning.cases.n)
    for _ in range(n_draws):
        below = chances.cumsum(axis=1)[:, :-1] < rng.random((len(chances), 1))
        visit[_first_in_line(harness, morning, below.sum(axis=1))] += 1.0 / n_draws
    return np.minimum(visit, 1.0)


def _first_in_line(harness: Harness, morning: Morning, action: np.ndarray) -> np.ndarray:
    """Positions of those whom the office's mode, or what is decided of each case, puts first.

    Of cases decided one by one those to which somebody is sent, the dearest action first, then in
    today's order.
    """
    if morning.priority is not None:
        priority = morning.priority[action[0]]
        first = np.argsort(-priority, kind="stable")[: morning.n_visits]
        return first[np.isfinite(priority[first])]
    actions = harness.domain.actions_of(harness.action_set)
    goes = np.array([one.escalates for one in actions])[action]
    cost = np.array([one.cost_hours for one in actions])[action]
    wanted, cases = np.flatnonzero(goes), morning.cases
    line = np.lexsort((cases.began[wanted], cases.code[wanted], -cost[wanted]))
    return wanted[line[: morning.n_visits]]
