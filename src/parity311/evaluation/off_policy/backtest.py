"""Value candidate policies on logged decisions: the agency's on record, or a log of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains import get_domain
from parity311.engines.backlog.rules import check_takes_its_action, stands_in
from parity311.errors import InputError, unknown_name
from parity311.estimation.world import ESTIMATOR, make_world, params_for
from parity311.evaluation.off_policy.estimate import (
    Evaluation,
    Options,
    cells_of,
    evaluate_policy,
)
from parity311.evaluation.off_policy.logs import OVERALL, Logs, read_log
from parity311.evaluation.off_policy.policies import action_chances
from parity311.evaluation.off_policy.records import (
    AgencyLog,
    escalation_chances,
    has_recorded_log,
    last_known_day,
    read_agency_log,
)
from parity311.evaluation.off_policy.rosenbaum import Bounds, bound_value, overturning_gamma
from parity311.evaluation.off_policy.support import hold_to_support
from parity311.evaluation.off_policy.visits import (
    has_recorded_visits,
    read_visit_log,
    visit_chances,
)
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness
from parity311.records.store import Records, open_records
from parity311.resampling import studentised
from parity311.serving.period import no_recorded_log

GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Odds ratios at which the bounds of a hidden reason are told."""
RECORDED_GAMMA = 1.25
"""Strength of a hidden reason that every interval on recorded decisions allows for. Records never
say why somebody went: intervals that allow for nothing held the truth in 1 of 12 backtests of
complaint_triage, those of this strength in all 44 of four domains (`docs/results`). It was chosen
with these in view, and no other city has tested it."""
DAYS = 365
"""Days of decisions a backtest takes, the last ones whose outcome is known."""


@dataclass(frozen=True)
class Candidate:
    """A policy to be valued, by its chances at what was seen."""

    name: str
    target: np.ndarray
    """(1, E, T, A)"""


@dataclass(frozen=True)
class Backtest:
    """A log with the candidates to be valued on it."""

    harness: Harness
    logs: Logs
    candidates: tuple[Candidate, ...]
    about: dict[str, Any]
    agency: AgencyLog | None = None


def prepare_backtest(
    domain: str,
    source: Path,
    policies: Sequence[str] = (),
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    estimator: str = ESTIMATOR,
    rules_from: Path | None = None,
    observation_set: str = "",
) -> Backtest:
    """Read the log and ask the policies what they would have done.

    Parameters
    ----------
    source
        A folder of records, or a Parquet file of logged decisions of the domain's process.
    policies
        Names of the domain's rules, and folders of saved policies; every rule if empty.
    estimator
        How complaints become incidents, for the process that rules and features read.
    rules_from
        Records that rules are made from where the log is a file, which says nothing of the process
        behind it; the domain's example if not given. Records as a log say it themselves.
    observation_set
        Features that policies see, by name; the domain's own if empty.
    """
    chosen = get_domain(domain)
    harness = Harness(chosen, observation_set=observation_set)
    preference = np.asarray(chosen.preference)
    if source.suffix == ".parquet":
        logs, names = read_log(source, preference)
        if names != harness.observation_names or logs.n_actions != harness.n_actions:
            raise InputError(
                f"{source} has the features {', '.join(names)} and {logs.n_actions} actions; "
                f"{domain!r} has {', '.join(harness.observation_names)} and {harness.n_actions}."
            )
        params = params_for(chosen, rules_from)
        seen = logs.observation
        made_from = "example" if rules_from is None else str(rules_from)
        about = {"kind": "process", "records": str(source), "rules_from": made_from}
        found = [
            Candidate(name, action_chances(policy, seen, harness.n_actions))
            for name, policy in _policies(harness, params, policies)
        ]
        return Backtest(harness, logs, tuple(found), about)
    if rules_from is not None:
        raise InputError(
            f"--rules-from {rules_from} was given with {source}, a folder of records, from which "
            "rules are made anyway; it goes with a log, --records LOG.parquet."
        )
    if not has_recorded_log(chosen) and not has_recorded_visits(chosen):
        raise no_recorded_log(chosen)
    records = open_records(source)
    last = date_to or last_known_day(records)
    first = date_from or max(records.window[0], last - timedelta(days=DAYS))
    params = _estimate(chosen, records, first, estimator)
    rules = _policies(harness, params, policies)
    about = {"kind": "agency", "records": str(source), "from": first, "to": last}
    if has_recorded_visits(chosen):
        log = read_visit_log(harness, records, params, first, last, preference)
        visits = tuple(Candidate(name, visit_chances(log, harness, one)) for name, one in rules)
        return Backtest(harness, log.logs, visits, {**about, "kind": "visits"})
    agency = read_agency_log(harness, records, params, first, last, preference)
    found = [
        Candidate(
            name,
            escalation_chances(action_chances(policy, agency.seen, harness.n_actions), harness),
        )
        for name, policy in rules
    ]
    return Backtest(harness, agency.logs, tuple(found), about, agency)


def _estimate(domain: Domain, records: Records, date_to: date, estimator: str) -> Any:
    """The process from what was known before the decisions."""
    n_days = (date_to - records.window[0]).days
    if n_days < 180:
        raise InputError(
            f"Decisions from {date_to} on leave {n_days} days of records to make rules from; at "
            "least 180 are needed; choose a later --from, or give more months."
        )
    return make_world(domain, records, date_to=date_to, estimators=(estimator,)).estimated


def _policies(harness: Harness, params: Any, wanted: Sequence[str]) -> list[tuple[str, Any]]:
    """Rules by name and saved policies by folder."""
    rules = harness.domain.heuristics
    found = []
    for name in wanted or [name for name, make in rules.items() if not stands_in(make, harness)]:
        if name in rules:
            check_takes_its_action(name, rules[name], harness)
            found.append((name, rules[name](params, harness)))
        elif Path(name).is_dir():
            found.append((Path(name).name, _load(Path(name), harness)))
        else:
            raise unknown_name("policy (nor is it a folder)", name, rules)
    return found


def _load(folder: Path, harness: Harness) -> Any:
    """A saved policy as something with chances."""
    from parity311.serving.policy import load_policy

    loaded = load_policy(folder)
    if tuple(loaded.manifest["observation_names"]) != harness.observation_names:
        raise InputError(
            f"The policy in {folder} sees {', '.join(loaded.manifest['observation_names'])}; the "
            f"log has {', '.join(harness.observation_names)}. Give --features the set it was "
            "trained on (published, or another), or leave it out."
        )
    return loaded


def run_backtest(test: Backtest, options: Options) -> dict[str, Any]:
    """Value every candidate, and set the logged decisions' own value beside them."""
    logs = test.logs
    if not logs.has_propensities and options.propensities == "logged":
        raise InputError(
            "These records do not say with what chance each decision was made; give --propensities "
            "logistic or tabular."
        )
    logged = studentised(logs.outcome.sum(axis=2), seed=options.seed)
    return {
        "domain": test.harness.domain.slug,
        **test.about,
        "n_episodes": logs.shape[1],
        "n_steps": logs.shape[2],
        "propensities": options.propensities,
        "support_min_count": options.support_min_count,
        "logged": {name: _figure(logged, k) for k, name in enumerate(logs.outcome_names)},
        "policies": [_value_candidate(test, one, options) for one in test.candidates],
    }


def _value_candidate(test: Backtest, candidate: Candidate, options: Options) -> dict[str, Any]:
    logs, target = test.logs, candidate.target
    cells = cells_of(logs, target, options.support_min_count)
    evaluation = evaluate_policy(logs, target, options, cells)
    is_guessed = logs.shape[2] == 1 and options.propensities != "logged"
    bounds = None
    if is_guessed and not evaluation.support.is_refused[0]:
        bounds = bound_value(logs, target, evaluation.propensity, RECORDED_GAMMA)
    found: dict[str, Any] = {
        "policy": candidate.name,
        "supported_share": float(evaluation.support.share[0]),
        "missing_mass": float(evaluation.support.missing_mass[0]),
        "is_refused": bool(evaluation.support.is_refused[0]),
        "reason": evaluation.support.reason(),
        "estimators": [
            _tell_estimator(evaluation, name, logs.outcome_names, bounds)
            for name in options.estimators
        ],
    }
    if evaluation.support.is_refused[0]:
        held = hold_to_support(logs, cells, target, options.support_min_count)
        constrained = evaluate_policy(logs, held, options, cells)
        if is_guessed:
            bounds = bound_value(logs, held, constrained.propensity, RECORDED_GAMMA)
        found["held_to_support"] = [
            _tell_estimator(constrained, name, logs.outcome_names, bounds)
            for name in options.estimators
        ]
    if is_guessed:
        found["hidden_reason"] = _tell_bounds(logs, target, evaluation)
    return found


def _tell_estimator(
    evaluation: Evaluation, name: str, outcome_names: Sequence[str], bounds: Bounds | None
) -> dict[str, Any]:
    """Value by outcome; None, with the reason, where it is refused.

    With `bounds` the interval holds them too: it is `gamma`'s, and `lower_at_gamma_1` and
    `upper_at_gamma_1` are what it would be if nothing were hidden.
    """
    estimate = evaluation.estimates[name]
    values = {}
    for k, outcome in enumerate(outcome_names):
        figure: dict[str, Any] = {"effective_size": float(estimate.effective_size[0, k])}
        if estimate.is_refused[0, k]:
            figure |= {"value": None, "value_reason": evaluation.reason(name, 0, k)}
        else:
            figure |= _figure(estimate.intervals, k)
        if bounds is not None and figure["value"] is not None:
            figure |= {
                "gamma": bounds.gamma,
                "lower_at_gamma_1": figure["lower"],
                "upper_at_gamma_1": figure["upper"],
                "lower": min(figure["lower"], float(bounds.lower[k])),
                "upper": max(figure["upper"], float(bounds.upper[k])),
            }
        values[outcome] = figure
    return {"estimator": name, **values.pop(OVERALL), "by_outcome": values}


def _figure(intervals: Any, k: int) -> dict[str, float]:
    return {
        "value": float(intervals.value[0, k]),
        "lower": float(intervals.lower[0, k]),
        "upper": float(intervals.upper[0, k]),
    }


def _tell_bounds(logs: Logs, target: np.ndarray, evaluation: Evaluation) -> dict[str, Any]:
    """How much more than the logged decisions a policy earns, at several Γ."""
    if evaluation.support.is_refused[0]:
        return {"overturning_gamma": None, "overturning_gamma_reason": evaluation.support.reason()}
    rows = []
    only = replace(logs, outcome=logs.outcome[..., :1])
    for gamma in GAMMAS:
        found = bound_value(only, target, evaluation.propensity, gamma, less_logged=True)
        rows.append(
            {
                "gamma": gamma,
                "lowest": float(found.lowest[0]),
                "highest": float(found.highest[0]),
                "lower": float(found.lower[0]),
                "upper": float(found.upper[0]),
            }
        )
    gamma = overturning_gamma(logs, target, evaluation.propensity)
    return {"overturning_gamma": gamma, "difference": rows}
