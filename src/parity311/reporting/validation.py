"""Score every estimator against the truth of a synthetic city. Nothing that trains reads this."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import EstimationError
from parity311.reporting.cases import (
    CITY,
    SCENARIOS,
    Case,
    case_from_city,
    case_from_scenario,
)
from parity311.reporting.duplicate_scores import score_rules
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.incidents import INTERVAL, Estimate
from parity311.reporting.lifetimes import estimated
from parity311.reporting.sensitivity import lifetime_band
from parity311.reporting.settings import Settings
from parity311.reporting.strata import stratify, total_by_stratum

N_QUINTILES = 5
INSPECTED_SHARE = 0.05
"""Share of tracts with a random inspection sample, where one is tried."""
WRONG_LIFETIME = 1.5
"""Factor by which the lifetime that is merely assumed misses the true one."""
WITHIN = 0.05
COVERAGE = (0.85, 0.95)
"""What is asked of the default estimator: relative bias of every quintile, and the share of areas
whose 90 % interval holds the truth."""
COMPARED = ("zero_truncated", "as_published", "raw")
"""Estimators shown beside the default one in every scenario."""


@dataclass(frozen=True)
class Score:
    """How far an estimator is from the truth."""

    scenario: str
    estimator: str
    lifetime: str
    """known, estimated, assumed (one mean for all, wrong), or none where it uses none."""
    inspections: float
    """Share of tracts with a random inspection sample."""
    bias_by_quintile: tuple[float, ...]
    """Relative error of Î by income quintile."""
    interval_by_quintile: tuple[tuple[float, float], ...]
    """90 % interval of Î over the truth, by quintile."""
    ratio_error: float
    """Relative error of the ratio of the first to the fifth quintile."""
    low_share_at_parity: float
    """Share of escalations quintiles 1-2 get, against 4-5, where the equity term is zero."""
    true_low_share: float
    coverage: float
    """Share of areas whose 90 % interval holds the truth."""
    coverage_by_window: float
    """The same for areas and windows."""
    band_by_quintile: tuple[tuple[float, float], ...] | None
    """Sensitivity band over the truth, where the lifetime is estimated."""
    band_holds_truth: bool | None
    mean_lifetime_days: float | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One estimator, told so much."""

    estimator: str
    lifetime: str = "known"
    inspections: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """A trial that gave no estimate, and why."""

    scenario: str
    estimator: str
    lifetime: str
    inspections: float
    reason: str


def validate_city(
    city: Path, domain: str = "heat", *, scenarios: bool = True, seed: int = 0
) -> dict[str, Any]:
    """Score every estimator on a city's domain, and the default one on changed assumptions."""
    case = case_from_city(city, domain)
    told = [Trial(name) for name in ESTIMATORS]
    found = score_trials(case, [*told, Trial("exposure_rate", "assumed"), *_untold()], seed)
    for name in SCENARIOS if scenarios else ():
        found += score_scenario(name, case, seed)
    rows = [row for row in found if isinstance(row, Score)]
    return {
        "city": str(city),
        "domain": domain,
        "n_cases": case.table.n_incidents,
        "n_true_incidents": int(case.true_incidents.sum()),
        "estimators": rows,
        "refusals": [row for row in found if isinstance(row, Refusal)],
        "bars": check_bars(found),
        "scenarios": {CITY: case.origin} | {name: text for name, (_, text) in SCENARIOS.items()},
        "inspections": (
            "random inspection samples are drawn from the truth: the records hold none"
        ),
        "duplicate_detection": score_rules(city, domain),
        "assumptions": case.table.notes,
    }


def _untold() -> list[Trial]:
    """The default estimator without the lifetime: from reports alone, and with inspections."""
    return [
        Trial("exposure_rate", "estimated"),
        Trial("exposure_rate", "estimated", INSPECTED_SHARE),
    ]


def score_scenario(name: str, city: Case, seed: int) -> list[Score | Refusal]:
    """Score the default estimator, and some beside it, on a scenario drawn on a city's tracts."""
    case = case_from_scenario(name, city.areas, seed)
    told = "known" if case.knows_lifetime else "assumed"
    trials = [Trial(other) for other in COMPARED] + [Trial("exposure_rate", told), *_untold()]
    return score_trials(case, trials, seed)


def score_trials(case: Case, trials: list[Trial], seed: int) -> list[Score | Refusal]:
    """Run every trial on a case; one that cannot be computed says why."""
    rows: list[Score | Refusal] = []
    for trial in trials:
        settings = _settings(case, trial, seed)
        begun = time.perf_counter()
        given = {field: getattr(settings, field) for field in settings.__dataclass_fields__}
        try:
            found = estimate(case.table, case.areas, estimator=trial.estimator, **given)
        except EstimationError as error:
            told = (trial.estimator, trial.lifetime, trial.inspections)
            rows.append(Refusal(case.name, *told, str(error)))
            continue
        rows.append(score(case, found, trial, settings, time.perf_counter() - begun))
    return rows


def _settings(case: Case, trial: Trial, seed: int) -> Settings:
    if trial.lifetime == "estimated":
        settings = Settings(estimated(), seed=seed)
    elif trial.lifetime == "assumed" and case.knows_lifetime:
        settings = Settings(case.lifetime.scaled(WRONG_LIFETIME), seed=seed)
    else:
        settings = Settings(case.lifetime, seed=seed)
    if not trial.inspections:
        return settings
    sample = case.inspect(trial.inspections, seed)
    return replace(settings, inspections=sample, closing_covariates=("log_income",))


def score(
    case: Case, found: Estimate, trial: Trial, settings: Settings, seconds: float = 0.0
) -> Score:
    """Compare an estimate with the truth."""
    strata = stratify(case.areas)
    true_totals = case.true_totals
    truth = np.bincount(strata.of_area, true_totals, minlength=6)[:N_QUINTILES]
    rng = np.random.default_rng(settings.seed)
    totals = total_by_stratum(found, strata, rng)
    point = totals.estimate.sum(axis=0)[:N_QUINTILES]
    ends = np.percentile(totals.draws.sum(axis=1), INTERVAL, axis=0)[:, :N_QUINTILES] / truth
    lower, upper = np.percentile(found.area_draws(rng), INTERVAL, axis=0)
    inside = (lower <= true_totals) & (true_totals <= upper)
    low, high = found.window_intervals()
    inside_window = (low <= case.true_incidents) & (case.true_incidents <= high)
    band = None
    if trial.lifetime == "estimated" and not trial.inspections:
        wide = lifetime_band(case.table, case.areas, strata, found, settings)
        pairs = np.stack([wide.lower, wide.upper])[:, :N_QUINTILES] / truth
        band = tuple((float(low), float(high)) for low, high in pairs.T)
    return Score(
        scenario=case.name,
        estimator=found.estimator,
        lifetime=trial.lifetime if ESTIMATORS[found.estimator].uses_lifetime else "none",
        inspections=trial.inspections,
        bias_by_quintile=tuple(float(value) for value in point / truth - 1.0),
        interval_by_quintile=tuple((float(low), float(high)) for low, high in ends.T),
        ratio_error=float(point[0] / point[4] / (truth[0] / truth[4]) - 1.0),
        low_share_at_parity=_low_share(point),
        true_low_share=_low_share(truth),
        coverage=float(inside.mean()),
        coverage_by_window=float(inside_window.mean()),
        band_by_quintile=band,
        band_holds_truth=None if band is None else all(low <= 1.0 <= high for low, high in band),
        mean_lifetime_days=found.details.get("mean_lifetime_days"),
        seconds=round(seconds, 3),
    )


def _low_share(by_quintile: np.ndarray) -> float:
    low, high = by_quintile[:2].sum(), by_quintile[3:5].sum()
    return float(low / (low + high))


def check_bars(rows: Sequence[Score | Refusal]) -> list[dict[str, Any]]:
    """What is asked of the default estimator, and whether it holds, scenario by scenario."""
    bars = []
    for row in rows:
        if row.estimator != "exposure_rate" or row.lifetime == "assumed":
            continue
        told = f"{row.inspections:.0%} inspected" if row.inspections else row.lifetime
        if isinstance(row, Refusal):
            bars.append(_bar(row.scenario, told, "an estimate", None, False))
            continue
        worst = max(abs(value) for value in row.bias_by_quintile)
        asked: dict[str, tuple[float, bool]] = {}
        if row.lifetime == "known" or row.inspections:
            asked["largest bias of a quintile"] = (worst, worst <= WITHIN)
            asked["coverage"] = (row.coverage, COVERAGE[0] <= row.coverage <= COVERAGE[1])
        if row.inspections:
            asked["error of the ratio of outer quintiles"] = (
                row.ratio_error,
                abs(row.ratio_error) <= WITHIN,
            )
        if row.band_holds_truth is not None:
            asked["sensitivity band holds the truth"] = (worst, row.band_holds_truth)
        bars += [_bar(row.scenario, told, name, value, ok) for name, (value, ok) in asked.items()]
    return bars


def _bar(
    scenario: str, lifetime: str, asked: str, value: float | None, holds: bool
) -> dict[str, Any]:
    return dict(scenario=scenario, lifetime=lifetime, asked=asked, value=value, holds=holds)
