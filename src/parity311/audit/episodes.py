"""The audit of a policy played in test episodes: who is served, with episodes as the unit.

A learned policy has no records yet; it is scored in its domain's process on later dates. Episodes
are independent, so they take the place of tracts in the resampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from parity311.audit.assess import Verdict
from parity311.audit.compare import compare_strata
from parity311.audit.rates import StratumRate, rate_rows
from parity311.audit.resample import TINY, RateDraws, draw_rates
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import UNKNOWN, Grouping
from parity311.errors import InputError
from parity311.records.strata import INCOME, LABELS
from parity311.resampling import exponential_weights

EPISODE_DENOMINATORS = {
    "actionable": "actionable incidents that began",
    "incidents": "all incidents that began",
    "complaints": "reports that arrived",
}


@dataclass(frozen=True)
class EpisodeInputs:
    """Sums of test episodes by stratum, (n_episodes, 6): five quintiles and unknown."""

    domain: str
    setting: str
    policy: str
    correct: np.ndarray
    """First visits that found an incident actionable within its service level."""
    out_of: Mapping[str, np.ndarray]
    """Denominators by name, see `EPISODE_DENOMINATORS`."""
    widening: float = 1.0
    """Factor on every error where episodes draw from a table of cases again and again: the table is
    itself a sample, so n_drawn draws from n_cases know no more than √(1 + n_drawn / n_cases)."""
    strata: str = INCOME
    """What the quintiles are of."""


@dataclass(frozen=True)
class EpisodeAudit:
    """Rates and verdicts of one policy in test episodes."""

    domain: str
    setting: str
    policy: str
    n_episodes: int
    rates: tuple[StratumRate, ...]
    verdicts: tuple[Verdict, ...]


def _widen(drawn: RateDraws, factor: float) -> RateDraws:
    """Rates whose draws lie further from their mean by this factor."""
    if factor == 1.0:
        return drawn
    middle = drawn.draws.mean(axis=0)
    return replace(drawn, draws=np.maximum(middle + factor * (drawn.draws - middle), TINY))


def assess_episodes(inputs: EpisodeInputs, spec: AuditSpec) -> EpisodeAudit:
    """Audit a policy by its test episodes; each is resampled whole."""
    n_episodes = len(inputs.correct)
    for name, values in inputs.out_of.items():
        if name not in EPISODE_DENOMINATORS or np.shape(values) != np.shape(inputs.correct):
            raise InputError(
                f"Denominator {name!r} of the episodes has shape {np.shape(values)}; allowed are "
                f"{', '.join(EPISODE_DENOMINATORS)} of shape {np.shape(inputs.correct)}."
            )
    rng = np.random.default_rng(spec.seed)
    weights = exponential_weights(n_episodes, spec.n_draws, rng)
    labels = LABELS[inputs.strata]
    compared = np.array([label != UNKNOWN for label in labels])
    grouping = Grouping(inputs.strata, labels, compared, is_ordered=True)
    rates: list[StratumRate] = []
    verdicts: list[Verdict] = []
    for name, values in inputs.out_of.items():
        drawn = _widen(draw_rates(inputs.correct, values, weights, rng), inputs.widening)
        rates += [
            replace(row, note=row.note.replace("tracts", "episodes"))
            for row in rate_rows(drawn, grouping, name, spec)
        ]
        # A group about which nothing was decided is too small to judge, not absent.
        comparison = compare_strata(drawn, labels, spec, compared=compared)
        reason = comparison.reason.replace("tracts", "episodes")
        verdicts.append(
            Verdict(
                inputs.domain,
                inputs.setting,
                inputs.policy,
                inputs.strata,
                name,
                replace(comparison, reason=reason),
            )
        )
    return EpisodeAudit(
        inputs.domain, inputs.setting, inputs.policy, n_episodes, tuple(rates), tuple(verdicts)
    )
