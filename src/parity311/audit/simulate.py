"""Simulated cities whose gap is known, to count how often each rule errs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from parity311.audit.compare import Comparison, compare_strata
from parity311.audit.gap import FAIL, PASS, TAU
from parity311.audit.resample import combine_draws
from parity311.audit.sequence import gap_sequence
from parity311.audit.spec import AuditSpec
from parity311.resampling import exponential_weights

N_STRATA = 5
LABELS = tuple(f"Q{k + 1}" for k in range(N_STRATA))
N_SHARING = 50
"""Simulated cities that share one set of weights."""


@dataclass(frozen=True)
class SimulatedCity:
    """Equal strata with a linear gradient of their rates."""

    rate: float = 0.2
    """Mean rate."""
    gap: float = 0.0
    """Highest less lowest stratum."""
    n_per_stratum: int = 2000
    """Cases of each stratum."""
    n_tracts: int = 100
    """Tracts of each stratum, with equally many cases."""
    design_effect: float = 1.0
    """Variance of a stratum's rate relative to independent cases."""

    @property
    def rates(self) -> np.ndarray:
        """(K,) true rates."""
        return self.rate + np.linspace(-self.gap / 2, self.gap / 2, N_STRATA)

    @property
    def true_ratio(self) -> float:
        """Lowest over highest rate."""
        return float(self.rates.min() / self.rates.max())


def draw_served(city: SimulatedCity, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Served and cases (n_tracts, K) of one simulated city; a tract's rate varies where it must."""
    per_tract = city.n_per_stratum // city.n_tracts
    rates = np.repeat(city.rates, city.n_tracts)
    if city.design_effect > 1:
        correlation = (city.design_effect - 1) / (per_tract - 1)
        strength = 1 / correlation - 1
        rates = rng.beta(rates * strength, (1 - rates) * strength)
    member = np.repeat(np.eye(N_STRATA), city.n_tracts, axis=0)
    served = rng.binomial(per_tract, rates)[:, None] * member
    return served.astype(float), per_tract * member


def audit_cities(
    city: SimulatedCity, n_trials: int, spec: AuditSpec, rng: np.random.Generator
) -> list[Comparison]:
    """Audit many simulated cities as a real one is audited.

    A batch of cities shares its weights, which costs a tenth of the time and leaves every single
    audit as it would be.
    """
    audits = []
    for start in range(0, n_trials, N_SHARING):
        batch = [draw_served(city, rng) for _ in range(min(N_SHARING, n_trials - start))]
        cases = batch[0][1]
        weights = exponential_weights(len(cases), spec.n_draws, rng)
        tops = weights @ np.hstack([served for served, _ in batch])
        below, n_tracts = weights @ cases, (cases > 0).sum(axis=0)
        for i, (served, _) in enumerate(batch):
            top = tops[:, i * N_STRATA : (i + 1) * N_STRATA]
            drawn = combine_draws(served.sum(axis=0), cases.sum(axis=0), top, below, n_tracts, rng)
            audits.append(compare_strata(drawn, LABELS, spec))
    return audits


@dataclass(frozen=True)
class Operating:
    """How the three-state verdict and its band behave over many simulated cities."""

    n_trials: int
    passed: float
    failed: float
    insufficient: float
    coverage: float
    """Share of bands (of the gap) that hold the true gap."""
    ratio_coverage: float
    point_rule_flagged: float
    """How often the published rule (point estimate beyond tau) flags the same cities."""


def operate(
    city: SimulatedCity, *, n_trials: int, spec: AuditSpec | None = None, seed: int = 0
) -> Operating:
    """Audit many simulated cities and count."""
    spec = spec or AuditSpec(n_draws=1000)
    rng = np.random.default_rng(seed)
    audits = audit_cities(city, n_trials, spec, rng)
    verdicts = [audit.verdict for audit in audits]
    passed, failed = verdicts.count(PASS) / n_trials, verdicts.count(FAIL) / n_trials
    return Operating(
        n_trials=n_trials,
        passed=passed,
        failed=failed,
        insufficient=1.0 - passed - failed,
        coverage=_share(a.gap.lower - 1e-12 <= city.gap <= a.gap.upper + 1e-12 for a in audits),
        ratio_coverage=_share(
            a.ratio.lower - 1e-12 <= city.true_ratio <= a.ratio.upper + 1e-12 for a in audits
        ),
        point_rule_flagged=_share(a.gap.estimate > spec.tau for a in audits),
    )


def _share(claims: Any) -> float:
    return float(np.mean(list(claims)))


@dataclass(frozen=True)
class Watching:
    """How monitoring behaves over many looks."""

    n_trials: int
    n_looks: int
    sequence_missed: float
    """Share of histories in which the sequence missed the true gap at any look."""
    sequence_failed: float
    """Share in which it ever put the gap beyond tau."""
    repeated_test_alarmed: float
    """Share in which a 5 % test of equality, repeated at each look, ever alarmed."""


def watch(
    *,
    n_trials: int,
    n_looks: int = 200,
    rate: float = 0.2,
    gap: float = 0.0,
    cases_per_tract_look: float = 1.0,
    n_tracts: int = 40,
    tau: float = TAU,
    seed: int = 0,
) -> Watching:
    """Follow many simulated histories and look after every period."""
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(N_STRATA), n_tracts)
    rates = (rate + np.linspace(-gap / 2, gap / 2, N_STRATA))[stratum]
    missed, failed, alarmed = [], [], []
    for _ in range(n_trials):
        cases = rng.poisson(cases_per_tract_look, (n_looks, len(stratum)))
        served = rng.binomial(cases, rates).astype(float)
        seen = gap_sequence(served, cases.astype(float), stratum, n_strata=N_STRATA, tau=tau)
        speaks = np.isfinite(seen.estimate)
        missed.append(bool(((seen.lower > gap + 1e-12) | (seen.upper < gap - 1e-12))[speaks].any()))
        failed.append(bool((seen.lower > tau)[speaks].any()))
        alarmed.append(_repeated_test(served, cases.astype(float), stratum))
    return Watching(n_trials, n_looks, _share(missed), _share(failed), _share(alarmed))


def _repeated_test(served: np.ndarray, cases: np.ndarray, stratum: np.ndarray) -> bool:
    """Whether a chi-square test of equal rates at 5 %, repeated at each look, ever alarms."""
    from scipy import stats

    member = (stratum[:, None] == np.arange(N_STRATA)).astype(float)
    events, totals = (served @ member).cumsum(axis=0), (cases @ member).cumsum(axis=0)
    pooled = (events.sum(axis=1) / totals.sum(axis=1))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (events - totals * pooled) ** 2 / (totals * pooled * (1 - pooled))
    chi = terms.sum(axis=1)
    ready = (events.min(axis=1) >= 10) & np.isfinite(chi)
    return bool((chi[ready] > stats.chi2.isf(0.05, N_STRATA - 1)).any())


def compare_rules(*, n_trials: int = 400, seed: int = 0, tau: float = TAU) -> list[dict[str, Any]]:
    """How often each rule errs, by rate, gap and size: rows for the audit page.

    At parity an error is a flag (FAIL, or suspension); at a gap of twice tau it is a release (PASS,
    or no suspension).
    """
    spec = AuditSpec(tau=tau, n_draws=500)
    rows = []
    for rate in (0.2, 0.5):
        for gap in (0.0, 2 * tau):
            for n_per_stratum in (200, 500, 1000, 2000, 5000):
                city = SimulatedCity(rate, gap, n_per_stratum, n_tracts=50)
                seen = operate(city, n_trials=n_trials, spec=spec, seed=seed)
                flagged = seen.point_rule_flagged
                rows.append(
                    {
                        "rate": rate,
                        "true_gap": gap,
                        "n_per_stratum": n_per_stratum,
                        "published_errs": flagged if gap == 0 else 1 - flagged,
                        "ours_errs": seen.failed if gap == 0 else seen.passed,
                        "ours_passed": seen.passed,
                        "ours_failed": seen.failed,
                        "ours_insufficient": seen.insufficient,
                        "n_trials": n_trials,
                    }
                )
    return rows


def operating_row(city: SimulatedCity, seen: Operating) -> dict[str, Any]:
    """One flat row: the simulated city and what happened."""
    return {**asdict(city), **asdict(seen)}
