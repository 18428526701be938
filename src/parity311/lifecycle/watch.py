"""Watch the policy in office: the audit of what was recorded since, three lights, and what moved.

It reads records and the registry; it acts only where a named person lets it, and then as that
person: amber is logged as `watch`, red as `suspend`, with the evidence as the reason.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.assess import assess_domains, audit_to_plain
from parity311.audit.cells import AuditInputs, read_inputs
from parity311.audit.spec import AuditSpec
from parity311.errors import InputError, Parity311Error, RegistryError
from parity311.estimation.correction import PREFERRED
from parity311.lifecycle.drift import find_drift
from parity311.lifecycle.lights import (
    AMBER,
    DETECTION,
    GREY,
    RED,
    Light,
    LightSpec,
    Slots,
    days_of_year,
    detection_light,
    disparity_light,
    friction_light,
    grey,
)
from parity311.lifecycle.office import POLICY_ARM, TODAY_ARM, read_decisions
from parity311.lifecycle.outcomes import DecisionOutcomes, read_outcomes
from parity311.lifecycle.promised import check_levels
from parity311.lifecycle.registry import RegisteredPolicy, Registry
from parity311.lifecycle.states import IN_OFFICE, PolicyState
from parity311.lifecycle.tables import DecisionRow
from parity311.lifecycle.watch_page import Watched, write_metrics, write_watch
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.pipelines.overrides import Recommendation
from parity311.records.store import Records
from parity311.reporting.calibration import calibrate
from parity311.reporting.estimate import check_estimator
from parity311.service_levels.kept import count_kept, due_dates
from parity311.service_levels.levels import ServiceLevels

BEGINS = ("release", "resume", "rollback")
"""Acts from which on evidence counts."""
BASELINE_DAYS = 365


def watch_domain(
    registry: Registry,
    domain: str,
    records: Records,
    *,
    since: date | None = None,
    spec: LightSpec,
    audit: AuditSpec,
    overrides: Sequence[Recommendation] = (),
    survey: Path | None = None,
    levels: ServiceLevels | None = None,
    estimator: str = PREFERRED,
) -> Watched:
    """Look at the policy in office of a domain over the records since it decides.

    Parameters
    ----------
    since
        First day of the evidence; the day of its last release or resume if not given.
    overrides
        What staff did with recommendations; rows need a date.
    survey
        CSV with the columns date and score (0: no friction, 1: most).
    levels
        Service levels in force: finds count within the promised days, and what was kept is told.
    estimator
        How complaints become incidents for the disparity light.
    """
    check_estimator(estimator)
    if levels is not None:
        check_levels(levels, domain, records)
    seen = registry.seen(domain)
    policy = _in_office(registry, domain)
    head = registry.log()[-1].hash
    began = since or _began(registry, policy)
    until = records.window[1]
    if not records.window[0] < began < until:
        raise InputError(
            f"{policy.version} decides since {began}, and the records run from "
            f"{records.window[0]} to {until}; give records from after that, or --since DAY."
        )
    first, n_days = days_of_year(began, until)
    notes: list[str] = []
    recorded = read_inputs(
        records, domain, date_from=first, date_to=until, estimand=audit.estimand,
        policy=policy.version,
    )  # fmt: skip
    lights = (
        _disparity(records, domain, recorded, first, began, spec, audit, notes, estimator),
        _detection(registry, policy.version, records, first, n_days, spec, levels),
        _friction(domain, overrides, survey, first, n_days, spec),
    )
    verdicts = audit_to_plain(assess_domains([recorded], audit), audit)["domains"][0]["verdicts"]
    drift = find_drift(records, domain, began, until)
    kept = None if levels is None else count_kept([levels], records, since=first)
    return Watched(
        domain, policy, first, until, lights, {"verdicts": verdicts}, tuple(drift), tuple(notes),
        kept, seen, head,
    )  # fmt: skip


def _in_office(registry: Registry, domain: str) -> RegisteredPolicy:
    for one in registry.policies():
        if one.domain == domain and one.state in IN_OFFICE:
            return one
    raise RegistryError(
        f"No policy is in office in {domain!r}, today's rule decides; there is nothing to watch. "
        "`parity311 policies list` has what there is."
    )


def _began(registry: Registry, policy: RegisteredPolicy) -> date:
    acts = [
        one for one in registry.log() if one.action in BEGINS and policy.version in
        one.details["changes"]
    ]  # fmt: skip
    return datetime.fromisoformat(acts[-1].at).date()


def _disparity(
    records: Records,
    domain: str,
    recorded: AuditInputs,
    first: date,
    began: date,
    spec: LightSpec,
    audit: AuditSpec,
    notes: list[str],
    estimator: str,
) -> Light:
    """(a) by month and tract, need by the reporting estimated before the policy decided."""
    start = max(records.window[0], began - timedelta(days=BASELINE_DAYS))
    before = read_inputs(records, domain, date_from=start, date_to=began, estimand=audit.estimand)
    factor = np.ones(N_KNOWN_STRATA + 1)
    try:
        found = calibrate(
            records, domain, date_from=records.window[0], date_to=began, estimator=estimator
        )
        reported = np.maximum(found.reported, 1e-9)
        factor = np.maximum(found.denominators / reported, 1.0)
    except (Parity311Error, np.linalg.LinAlgError) as error:
        notes.append(
            f"{estimator} failed, so cases stand for incidents, of which none that nobody reported "
            f"is counted: {' '.join(str(error).split())}"
        )
    stratum = np.where(
        recorded.places.income_quintile > 0, recorded.places.income_quintile - 1, N_KNOWN_STRATA
    )
    served, need = by_month(recorded, factor[stratum])
    was_served, was_need = by_month(before, factor[stratum])
    rates = [
        was_served[:, stratum == k].sum() / max(was_need[:, stratum == k].sum(), 1e-9)
        for k in range(N_KNOWN_STRATA)
        if was_need[:, stratum == k].sum() > 0
    ]
    baseline = float(max(rates) - min(rates)) if len(rates) > 1 else 0.0
    months = [_add_months(first, n) for n in range(len(served))]
    return disparity_light(served, need, stratum, baseline=baseline, months=months, spec=spec)


def by_month(inputs: AuditInputs, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(months, n_tracts) cases served, and cases times what stands behind one (n_tracts,)."""
    cells, n_tracts = inputs.cells, inputs.places.n_tracts
    use = (cells.tract >= 0) & (cells.tract < n_tracts)
    n_months = max(cells.n_months, 1)
    served, cases = np.zeros((n_months, n_tracts)), np.zeros((n_months, n_tracts))
    at = (cells.month[use], cells.tract[use])
    np.add.at(served, at, cells.n_served[use])
    np.add.at(cases, at, cells.n_cases[use])
    return served, cases * factor


def _add_months(first: date, n: int) -> date:
    year, month = divmod(first.month - 1 + n, 12)
    return date(first.year + year, month + 1, 1) if n else first


def _detection(
    registry: Registry,
    version: str,
    records: Records,
    first: date,
    n_days: int,
    spec: LightSpec,
    levels: ServiceLevels | None,
) -> Light:
    rows = read_decisions(registry, version, first.isoformat())
    rows = [row for row in rows if row.arm in (POLICY_ARM, TODAY_ARM)]
    if not rows:
        why = "no decision of it is on record; recommend by the registry"
        return grey(DETECTION, why, spec, -spec.detection_margin)
    outcomes = read_outcomes(records, rows)
    day = outcomes.day - (first - date(1970, 1, 1)).days
    use = np.flatnonzero(outcomes.is_due & (day >= 0) & (day < n_days))
    slots = Slots(
        day=day[use],
        is_todays=np.array([rows[i].arm == TODAY_ARM for i in use], bool),
        chance=np.array([rows[i].chance for i in use], float),
        is_found=_in_time(outcomes, rows, records, levels)[use],
    )
    light = detection_light(slots, since=first, n_days=n_days, spec=spec)
    if levels is None or light.state == GREY:
        return light
    return replace(light, words=f"{light.words}; a find counts within the promised days")


def _in_time(
    outcomes: DecisionOutcomes,
    rows: Sequence[DecisionRow],
    records: Records,
    levels: ServiceLevels | None,
) -> np.ndarray:
    """(n,) whether something was found; with service levels, by the promised day."""
    if levels is None:
        return outcomes.is_found
    due = due_dates([levels], records)
    last = np.array([due.get(row.complaint_id) for row in rows], "datetime64[D]")
    # Who was promised nothing has no day that could have passed.
    return outcomes.is_found & (np.isnat(last) | (outcomes.visited <= last))


def _friction(
    domain: str,
    overrides: Sequence[Recommendation],
    survey: Path | None,
    first: date,
    n_days: int,
    spec: LightSpec,
) -> Light:
    mine = [one for one in overrides if one.domain == domain]
    if any(not one.date for one in mine):
        raise InputError(
            "The log of overrides has rows without a date; watching needs the column date, as "
            "2026-01-31."
        )
    day = np.array([_day(one.date, first) for one in mine], np.int64)
    use = (day >= 0) & (day < n_days)
    changed = np.array([one.is_override for one in mine], float)
    overridden = np.bincount(day[use], changed[use], minlength=n_days)
    decided = np.bincount(day[use], minlength=n_days)
    scores = read_survey(survey) if survey else []
    when = np.array([_day(one, first) for one, _ in scores], np.int64)
    order = np.flatnonzero((when >= 0) & (when < n_days))
    order = order[np.argsort(when[order], kind="stable")]
    values = np.array([score for _, score in scores], float)
    return friction_light(
        overridden, decided,
        survey=values[order] if len(order) else None,
        survey_day=when[order] if len(order) else None,
        since=first, spec=spec,
    )  # fmt: skip


def read_survey(path: Path) -> list[tuple[str, float]]:
    """Answers of staff: date and score from 0 (no friction) to 1."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = {"date", "score"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"{path} lacks the column {', '.join(sorted(missing))}; a survey has date "
                    "and score."
                )
            rows = [(row["date"] or "", float(row["score"] or "nan")) for row in reader]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"Cannot read {path} ({error}); name a CSV with date and score."
        ) from error
    for when, score in rows:
        if not 0.0 <= score <= 1.0:
            raise InputError(
                f"{path} has score {score} on {when!r}; allowed is 0 to 1. Correct it."
            )
    return rows


def _day(text: str, first: date) -> int:
    try:
        return (date.fromisoformat(text[:10]) - first).days
    except ValueError:
        raise InputError(f"The date {text!r} was given; write it as 2026-01-31.") from None


def act_on(registry: Registry, watched: Watched, by: str) -> str:
    """Do what the lights say, in somebody's name; the act that was logged, or nothing.

    Refused where somebody acted while it was looked: the evidence is of whoever was in office then.
    """
    policy = watched.policy
    action = {RED: "suspend", AMBER: "watch"}.get(watched.state, "")
    allowed = {"suspend": (PolicyState.LIVE, PolicyState.WATCH), "watch": (PolicyState.LIVE,)}
    if not action or policy.state not in allowed[action]:
        return ""
    lit = [one for one in watched.lights if one.state == watched.state]
    reason = "; ".join(f"{one.name} is {one.state}: {one.words}" for one in lit)
    registry.act(action, watched.domain, by=by, reason=reason[:1900], seen=watched.seen)
    return action


def watch_and_write(
    registry: Registry,
    domain: str,
    records: Records,
    *,
    runs: Path,
    metrics: Path | None = None,
    by: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Look, write page and metrics, and act where somebody's name is given."""
    watched = watch_domain(registry, domain, records, **options)
    done, refused = "", None
    try:
        done = act_on(registry, watched, by) if by else ""
    except Parity311Error as error:
        refused = error  # what was seen is told all the same
    if done:
        watched = replace(watched, policy=_in_office(registry, domain))
    page = write_watch(watched, records, options["audit"], runs, done)
    if metrics is not None:
        write_metrics(metrics, watched)
    if refused is not None:
        raise refused
    return watched.describe() | {"page": page, "done": done}
