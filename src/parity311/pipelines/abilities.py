"""What can be done with records, said before it is asked: tried, domain by domain, not guessed.

Each answer is that of the very functions that the commands call, so that what is promised works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from parity311.audit.cells import count_undated, read_inputs
from parity311.domains import all_domains, get_domain
from parity311.errors import EstimationError, Parity311Error
from parity311.estimation.correction import FALLBACK, PREFERRED, Correction
from parity311.estimation.world import open_world
from parity311.evaluation.off_policy.backtest import prepare_backtest
from parity311.records.store import Records
from parity311.reporting.calibration import calibrate

POSSIBLE, PARTLY, NOT = "possible", "partly", "not"
WORK = ("reporting correction", "learning", "backtest", "audit")
"""What records may be used for."""
MORE_DATA = {
    "reporting correction": "more months of a source that marks duplicates (in a map: duplicate "
    "or parent)",
    "learning": "inspection times and what inspectors found, over more months",
    "backtest": "a log of what was decided, by the domain's own actions, and what came of it",
    "audit": "more complaints with a tract, in at least two income quintiles",
}
"""What would make possible what is not."""
MORE_MONTHS = "more months of such records"
"""The same where nothing lacks but rows."""
GIVE_MONTHS = "give more months"
"""Words of the errors of records that are too few."""
NEEDS_A_LOG = "Give a log of its process"
"""Words of the error where records do not hold what a domain decides."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ability:
    """Whether one piece of work can be done with one domain's records."""

    domain: str
    work: str
    state: str
    reason: str = ""
    needed: str = ""
    """What data would make it possible; empty where it is."""
    command: str = ""
    """What to type; empty where it cannot be done."""


def find_abilities(records: Records, tell: Tell = lambda line: None) -> list[Ability]:
    """Try every piece of work with every domain of a records folder."""
    found = []
    for domain in records.domains:
        tell(f"trying {domain}")
        correction = _correction(records, domain)
        found += [
            correction,
            _as_wide(_learning(records, domain), correction),
            _as_wide(_backtest(records, domain), correction),
            _audit(records, domain),
        ]
    return found


def abilities_to_plain(found: list[Ability]) -> list[dict[str, Any]]:
    """The answers as plain rows."""
    return [asdict(one) for one in found]


def _answer(domain: str, work: str, state: str, reason: str = "", command: str = "") -> Ability:
    needed = "" if state == POSSIBLE else MORE_DATA[work]
    return Ability(domain, work, state, reason, needed, command)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _correction(records: Records, domain: str) -> Ability:
    work, command = WORK[0], f"reporting estimate --records {records.folder} --domain {domain}"
    try:
        fitted = calibrate(records, domain, estimator=PREFERRED)
    except (Parity311Error, np.linalg.LinAlgError) as error:
        return _answer(domain, work, NOT, _said(error))
    known = Correction({PREFERRED: fitted}, {}, PREFERRED)
    if known.describe()["is_wide"]:
        return _answer(
            domain, work, PARTLY, "the interval of the estimate is wide", f"parity311 {command}"
        )
    return _answer(domain, work, POSSIBLE, "", f"parity311 {command}")


def _as_wide(found: Ability, correction: Ability) -> Ability:
    """What rests on an estimate is no surer than that."""
    if found.state != POSSIBLE or correction.state != PARTLY:
        return found
    reason = "it works, and the interval of the estimate of incidents that it rests on is wide"
    return replace(found, state=PARTLY, reason=reason, needed=correction.needed)


def _learning(records: Records, domain: str) -> Ability:
    """Whether params can be estimated."""

    def attempt(estimator: str) -> None:
        _ = open_world(get_domain(domain), records, None, estimator).estimated

    command = f"parity311 train {domain} --records {records.folder}"
    return _tried(domain, WORK[1], attempt, command, "--estimator")


def _backtest(records: Records, domain: str) -> Ability:
    def attempt(estimator: str) -> None:
        prepare_backtest(domain, records.folder, (), estimator=estimator)

    command = f"parity311 backtest {domain} --records {records.folder}"
    return _tried(domain, WORK[2], attempt, command, "--reporting-estimator")


def _tried(
    domain: str, work: str, attempt: Callable[[str], None], command: str, option: str
) -> Ability:
    """What works with the usual estimator, else with complaints as they are."""
    if domain not in all_domains():
        return _answer(domain, work, NOT, "no decision process has this name")
    reasons: list[str] = []
    for estimator in (PREFERRED, FALLBACK):
        try:
            attempt(estimator)
        except (Parity311Error, np.linalg.LinAlgError) as error:
            reasons.append(_said(error))
            continue
        if not reasons:
            return _answer(domain, work, POSSIBLE, "", command)
        why = f"complaints stand for incidents, since: {reasons[0]}"
        return Ability(
            domain, work, PARTLY, why, MORE_DATA[WORK[0]], f"{command} {option} {estimator}"
        )
    found = _answer(domain, work, NOT, reasons[-1])
    lacks_months = work == WORK[2] and NEEDS_A_LOG not in found.reason
    if lacks_months or GIVE_MONTHS in found.reason:
        return replace(found, needed=MORE_MONTHS)
    return found


def _audit(records: Records, domain: str) -> Ability:
    """Whether two income quintiles or more have enough to be compared."""
    from parity311.audit.spec import AuditSpec

    work, spec = WORK[3], AuditSpec()
    first, last = records.window
    try:
        inputs = read_inputs(records, domain, date_from=first, date_to=last)
    except Parity311Error as error:
        return _answer(domain, work, NOT, _said(error))
    try:
        count_undated(records, domain, first, last)
    except EstimationError as error:
        return Ability(domain, work, NOT, _said(error), "days of inspections, or of closings")
    cells, places = inputs.cells, inputs.places
    placed = cells.tract >= 0
    counts = np.bincount(cells.tract[placed], cells.n_complaints[placed], places.n_tracts)
    enough = [
        counts[places.income_quintile == quintile].sum() >= spec.minimum_events
        and (counts[places.income_quintile == quintile] > 0).sum() >= spec.minimum_tracts
        for quintile in range(1, 6)
    ]
    command = f"parity311 audit {records.folder} --domains {domain}"
    n = int(np.sum(enough))
    if not (places.income_quintile > 0).any():
        reason = "no tract has a known income, so nothing can be compared by it"
        return Ability(domain, work, NOT, reason, "a table of tracts with median incomes")
    if n < 2:
        return _answer(
            domain,
            work,
            NOT,
            f"{n} of 5 income quintiles have {spec.minimum_events} complaints in "
            f"{spec.minimum_tracts} tracts",
        )
    if n < 5:
        return _answer(domain, work, PARTLY, f"{n} of 5 income quintiles can be compared", command)
    return _answer(domain, work, POSSIBLE, "", command)
