"""The audit of one domain, and of several: measure, disaggregate, compare, judge.

Many tests at once: Holm for the primary contrasts, Benjamini and Hochberg for the rest.

Who was served, by income quintile, as the records tell it: the first slice's short form.

The whole audit (more strata, trends, monitoring, scan) is `assess.assess_domains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from parity311.audit.cells import AuditCells, AuditInputs
from parity311.audit.compare import Comparison, compare_strata
from parity311.audit.gap import INSUFFICIENT, TAU, Gap, Ratio
from parity311.audit.joins import JoinCoverage, join_coverage
from parity311.audit.patterns import (
    Scan,
    TrendTest,
    cochran_armitage,
    fit_logistic,
    logistic_trend,
    mantel_extension,
    no_test,
    scan_subgroups,
    shape_test,
    tract_trend,
)
from parity311.audit.rates import (
    RateDraws,
    StratumRate,
    make_resample,
    rate_rows,
    rates_given_severity,
    rates_under,
)
from parity311.audit.resample import sum_by
from parity311.audit.sequence import GapSequence, gap_sequence
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import Grouping, make_grouping
from parity311.records.schema import SEVERITIES
from parity311.records.strata import INCOME


def audit_inputs(
    inputs: AuditInputs,
    *,
    tau: float = TAU,
    n_draws: int = 1000,
    seed: int = 0,
    strata: str = INCOME,
) -> dict[str, Any]:
    """Audit what was read of one domain, by one way of grouping.

    Returns
    -------
    ``rates`` (rows of `StratumRate`) and ``gaps`` (one a denominator, over known quintiles).
    """
    spec = AuditSpec(tau=tau, n_draws=n_draws, seed=seed, strata=(strata,), primary_strata=strata)
    audit = assess_domain(inputs, spec)
    gaps = [
        {
            "denominator": verdict.denominator,
            "tau": tau,
            **asdict(verdict.comparison.gap),
            "verdict": verdict.comparison.verdict,
            "reason": verdict.comparison.reason,
            "measure": verdict.comparison.measure,
            "ratio": verdict.comparison.ratio.estimate,
        }
        for verdict in audit.verdicts
        if _is_plain(verdict.denominator)
    ]
    rates = [asdict(row) for row in audit.rates if _is_plain(row.denominator)]
    return {"domain": inputs.domain, "rates": rates, "gaps": gaps}


def _is_plain(denominator: str) -> bool:
    return denominator != GIVEN_SEVERITY


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values that control the chance of any false alarm (Holm 1979); NaN stays NaN."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values that control the share of false alarms (1995); NaN stays NaN."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.isfinite(values)
    if known.any():
        adjusted[known] = stats.false_discovery_control(values[known])
    return adjusted


GIVEN_SEVERITY = "cases, given severity"
"""Name of the denominator of rates standardised to one mix of severity codes."""
SCANNED = ("income5", "race_majority", "language", "channel")
"""Groupings whose intersections are scanned."""
PRIMARY_TEST = "trend over tracts, given severity"


@dataclass(frozen=True)
class Verdict:
    """The comparison of all strata of one kind under one denominator."""

    domain: str
    setting: str
    policy: str
    strata: str
    denominator: str
    comparison: Comparison


@dataclass(frozen=True)
class Trend:
    """A test of a trend across ordered strata, with its p-value corrected for the others."""

    domain: str
    setting: str
    policy: str
    strata: str
    test: TrendTest
    is_primary: bool
    is_tested: bool
    """Whether it belongs to the corrected family; tests of independent rows are shown only."""
    p_adjusted: float = float("nan")


@dataclass(frozen=True)
class DomainAudit:
    """Everything the audit says about one domain under one policy."""

    domain: str
    setting: str
    policy: str
    n_complaints: float
    n_cases: float
    n_served: float
    n_not_due: int
    rates: tuple[StratumRate, ...]
    verdicts: tuple[Verdict, ...]
    trends: tuple[Trend, ...]
    sequence: GapSequence | None
    """Month by month, over the primary strata."""
    scan: Scan
    joins: tuple[JoinCoverage, ...]
    denominators_disagree: tuple[str, ...]
    """Groupings whose verdict is not the same under every denominator, in whatever way."""


def assess_domain(inputs: AuditInputs, spec: AuditSpec) -> DomainAudit:
    """Audit one domain; the same inputs and specification give the same figures."""
    rng = np.random.default_rng(spec.seed)
    resample = make_resample(inputs, spec.n_draws, rng)
    rates: list[StratumRate] = []
    verdicts: list[Verdict] = []
    trends: list[Trend] = []
    groupings = {
        name: make_grouping(name, inputs.places, inputs.cells.language)
        for name in dict.fromkeys((*spec.strata, spec.primary_strata, *SCANNED))
    }
    for name in dict.fromkeys((*spec.strata, spec.primary_strata)):
        grouping = groupings[name]
        for denominator in _denominators(spec, grouping):
            drawn = (
                rates_given_severity(inputs, grouping, resample, rng)
                if denominator == GIVEN_SEVERITY
                else rates_under(inputs, grouping, denominator, resample, rng)
            )
            if not isinstance(drawn, str):
                rates += rate_rows(drawn, grouping, denominator, spec)
            comparison = _compare(drawn, grouping, spec)
            verdicts.append(Verdict(*_key(inputs), name, denominator, comparison))
        if grouping.is_ordered:
            trends += _trends(inputs, grouping, spec)
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    return DomainAudit(
        domain=inputs.domain,
        setting=inputs.setting,
        policy=inputs.policy,
        n_complaints=float(inputs.cells.n_complaints.sum()),
        n_cases=float(inputs.cells.n_cases.sum()),
        n_served=float(inputs.cells.n_served.sum()),
        n_not_due=inputs.n_not_due,
        rates=tuple(rates),
        verdicts=tuple(verdicts),
        trends=tuple(trends),
        sequence=follow_months(cells, groupings[spec.primary_strata], spec),
        scan=scan_subgroups(
            cells, [groupings[name] for name in SCANNED], n_tracts=inputs.places.n_tracts, rng=rng
        ),
        joins=tuple(join_coverage(inputs, spec.minimum_events)),
        denominators_disagree=find_disagreements(verdicts),
    )


def _key(inputs: AuditInputs) -> tuple[str, str, str]:
    return inputs.domain, inputs.setting, inputs.policy


def assess_domains(inputs: Sequence[AuditInputs], spec: AuditSpec) -> tuple[DomainAudit, ...]:
    """Audit several domains and correct their tests together."""
    audits = [assess_domain(one, spec) for one in inputs]
    return correct_tests(audits)


def correct_tests(audits: Sequence[DomainAudit]) -> tuple[DomainAudit, ...]:
    """Holm over the primary contrasts, Benjamini and Hochberg over the other tests."""
    flat = [(a, t) for a, audit in enumerate(audits) for t in range(len(audit.trends))]
    tests = [audits[a].trends[t] for a, t in flat]
    adjusted = np.full(len(tests), np.nan)
    primary = np.array([test.is_primary for test in tests], dtype=bool)
    rest = np.array([test.is_tested and not test.is_primary for test in tests], dtype=bool)
    p_values = np.array([test.test.p_value for test in tests])
    adjusted[primary] = holm(p_values[primary])
    adjusted[rest] = benjamini_hochberg(p_values[rest])
    new: list[list[Trend]] = [list(audit.trends) for audit in audits]
    for (a, t), value in zip(flat, adjusted, strict=True):
        new[a][t] = replace(new[a][t], p_adjusted=float(value))
    return tuple(replace(audit, trends=tuple(new[a])) for a, audit in enumerate(audits))


def _denominators(spec: AuditSpec, grouping: Grouping) -> tuple[str, ...]:
    """Groups of cases have no incidents or dwellings of their own: their cases are counted."""
    if grouping.of_tract is None:
        return ("cases", GIVEN_SEVERITY)
    return (*spec.denominators, GIVEN_SEVERITY)


def _compare(drawn: RateDraws | str, grouping: Grouping, spec: AuditSpec) -> Comparison:
    if isinstance(drawn, str):
        nan = float("nan")
        nothing = (nan, nan, nan, INSUFFICIENT, drawn)
        return Comparison(
            INSUFFICIENT, drawn, "gap", Gap(*nothing), Ratio(*nothing), nan, nan, "", "",
            grouping.labels,
        )  # fmt: skip
    # A stratum that does not exist at all (no tract, no case) is not a small one.
    exists = grouping.compared & ((drawn.n_tracts > 0) | (drawn.out_of > 0))
    return compare_strata(drawn, grouping.labels, spec, compared=exists)


def find_disagreements(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Groupings whose verdict is not the same under every denominator."""
    names = []
    for name in dict.fromkeys(verdict.strata for verdict in verdicts):
        said = {v.comparison.verdict for v in verdicts if v.strata == name}
        if len(said) > 1:
            names.append(name)
    return tuple(names)


def follow_months(cells: AuditCells, grouping: Grouping, spec: AuditSpec) -> GapSequence | None:
    """The anytime-valid sequence over months; None where groups are not places."""
    if grouping.of_tract is None or not len(cells.month):
        return None
    n_tracts, n_months = len(grouping.of_tract), cells.n_months
    served, cases = (
        sum_by(cells.month, cells.tract, values, (n_months, n_tracts))
        for values in (cells.n_served, cells.n_cases)
    )
    stratum = np.where(grouping.compared[grouping.of_tract], grouping.of_tract, -1)
    return gap_sequence(
        served, cases, stratum, n_strata=grouping.n_strata, tau=spec.tau, level=spec.level
    )


def _trends(inputs: AuditInputs, grouping: Grouping, spec: AuditSpec) -> list[Trend]:
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    scores = grouping.scores
    n_layers = len(SEVERITIES)
    by_tract = [
        sum_by(cells.tract, cells.severity, values, (len(scores), n_layers))
        for values in (cells.n_served, cells.n_cases)
    ]
    membership = grouping.membership[:, grouping.compared]
    served, cases = (membership.T @ part for part in by_tract)
    order = np.arange(len(served), dtype=float)
    served_by_tract, cases_by_tract = by_tract
    crude = (part.sum(axis=1, keepdims=True) for part in by_tract)
    tests = [
        (cochran_armitage(served.sum(axis=1), cases.sum(axis=1), order), False),
        (mantel_extension(served, cases, order), False),
        (tract_trend(next(crude), next(crude), scores), True),
        (tract_trend(served_by_tract, cases_by_tract, scores), True),
        *((test, True) for test in _regressions(cells, scores, spec)),
    ]
    return [
        Trend(
            *_key(inputs),
            grouping.name,
            test,
            is_primary=grouping.name == spec.primary_strata and test.name == PRIMARY_TEST,
            is_tested=is_tested,
        )
        for test, is_tested in tests
    ]


def _regressions(cells: AuditCells, scores: np.ndarray, spec: AuditSpec) -> list[TrendTest]:
    """Logistic regressions on the score: alone, given severity and month, and its shape."""
    use = np.isfinite(scores[cells.tract]) & (cells.n_cases > 0)
    if not use.any():
        return [no_test("logistic regression", "there are no cases")]
    # Rows of one tract, severity and month have the same covariates, so their sums suffice.
    n_layers = len(SEVERITIES) * cells.n_months
    layer = cells.severity[use] * cells.n_months + cells.month[use]
    rows, member = np.unique(cells.tract[use] * n_layers + layer, return_inverse=True)
    served, cases = (
        np.bincount(member, weights=values[use]) for values in (cells.n_served, cells.n_cases)
    )
    tract, layers = rows // n_layers, _dummies(rows % n_layers)
    score = scores[tract]
    ones = np.ones((len(score), 1))
    name = "logistic regression"
    given = f"{name}, given severity and month"
    tests = [
        logistic_trend(
            served, cases, np.column_stack([score, extra]), tract, name=label, level=spec.level
        )
        for extra, label in ((ones, name), (_estimable(layers, served, cases), given))
    ]
    shape = f"{name}, any shape"
    dummies = _dummies(score.astype(np.int64))[:, 1:]
    fit = fit_logistic(served, cases, np.column_stack([dummies, ones]), tract)
    if isinstance(fit, str) or not dummies.shape[1]:
        reason = fit if isinstance(fit, str) else "only one stratum has cases"
        return [*tests, no_test(shape, reason)]
    statistic, p_value = shape_test(fit, np.arange(dummies.shape[1]))
    nan = float("nan")
    return [*tests, TrendTest(shape, statistic, p_value, nan, nan, nan)]


def _dummies(codes: np.ndarray) -> np.ndarray:
    values, index = np.unique(codes, return_inverse=True)
    return np.eye(len(values))[index]


def _estimable(layers: np.ndarray, served: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Put layers that are all served, or none, into the first layer that is neither.

    Such a layer has no finite odds; alone it would keep the whole regression from fitting.
    """
    rate = (layers.T @ served) / np.maximum(layers.T @ cases, 1.0)
    mixed = (rate > 0) & (rate < 1)
    if mixed.all() or not mixed.any():
        return layers
    kept = layers[:, mixed].copy()
    kept[:, 0] += layers[:, ~mixed].sum(axis=1)
    return kept


def audit_to_plain(audits: Sequence[DomainAudit], spec: AuditSpec) -> dict[str, Any]:
    """The audit as nested plain values: what `--json` prints and audit.json holds."""
    return {
        "spec": asdict(spec),
        "spec_sha256": spec.sha256,
        "domains": [_domain_to_plain(audit) for audit in audits],
    }


def _domain_to_plain(audit: DomainAudit) -> dict[str, Any]:
    names = ("domain", "setting", "policy", "n_complaints", "n_cases", "n_served", "n_not_due")
    sequence = audit.sequence
    return {
        **{name: getattr(audit, name) for name in names},
        "verdicts": [verdict_row(verdict) for verdict in audit.verdicts],
        "rates": [asdict(row) for row in audit.rates],
        "trends": [trend_row(trend) for trend in audit.trends],
        "sequence": None if sequence is None else asdict(sequence),
        "scan": {
            "n_tested": audit.scan.n_tested,
            "n_too_small": audit.scan.n_too_small,
            "subgroups": [asdict(row) for row in audit.scan.subgroups[:20]],
        },
        "joins": [asdict(row) for row in audit.joins],
        "denominators_disagree": list(audit.denominators_disagree),
    }


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """One flat row a verdict, for tables and JSON."""
    comparison = verdict.comparison
    row: dict[str, Any] = {
        "domain": verdict.domain,
        "setting": verdict.setting,
        "policy": verdict.policy,
        "strata": verdict.strata,
        "denominator": verdict.denominator,
        "verdict": comparison.verdict,
        "measure": comparison.measure,
    }
    for name, value in (("gap", comparison.gap), ("ratio", comparison.ratio)):
        row |= {name: value.estimate, f"{name}_lower": value.lower, f"{name}_upper": value.upper}
    return row | {
        "mean_rate": comparison.mean_rate,
        "p_parity": comparison.p_parity,
        "worst_off": comparison.worst_off,
        "best_off": comparison.best_off,
        "left_out": ", ".join(comparison.left_out),
        "reason": comparison.reason,
    }


def trend_row(trend: Trend) -> dict[str, Any]:
    """One flat row a trend test, for tables and JSON."""
    return {
        "domain": trend.domain,
        "setting": trend.setting,
        "policy": trend.policy,
        "strata": trend.strata,
        **asdict(trend.test),
        "is_primary": trend.is_primary,
        "correction": ("Holm" if trend.is_primary else "BH") if trend.is_tested else "none",
        "p_adjusted": trend.p_adjusted,
    }
