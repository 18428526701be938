"""Rules of thumb that rank the kinds of complaint."""

from __future__ import annotations

import numpy as np

from parity311.domains.heat.decision import (
    KINDS,
    N_KINDS,
    OBSERVATION_NAMES,
    SEVERITY_WEIGHTS,
    UNITS_BY_LEVEL,
    Params,
)
from parity311.domains.heat.office_rules import fit_capacity, rank_candidates, visits_per_case
from parity311.engines import heuristics
from parity311.engines.table import scores
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness


def kind_observations(harness: Harness) -> np.ndarray:
    """What the policy sees of each kind in an empty office at zero price, (64, n_features)."""
    values = np.zeros((N_KINDS, len(OBSERVATION_NAMES)))
    values[:, :2] = KINDS[:, :2]
    values[:, 2] = np.log(np.asarray(UNITS_BY_LEVEL)[KINDS[:, 2]]) / np.log(UNITS_BY_LEVEL[-1])
    values[:, 6] = 1.0 - KINDS[:, 3] / 3.0
    return np.column_stack([values[:, harness.columns], np.zeros(N_KINDS)])


def rank_kinds(params: Params, by: str) -> np.ndarray:
    """What a rule ranks the kinds of complaint by, (64,).

    score: log odds of being actionable. index: the same in expected severity-weighted days, the
    value of a visit now. emerg: the graver code first, whatever else. expert: an inspector's rule
    of thumb, the whole building before the flat, no heat before no hot water, the graver code
    first.
    """
    chance = np.asarray(params.actionable, np.float64)
    if by == "score":
        return scores.log_odds(chance)
    if by == "index":
        return np.log(chance * np.asarray(SEVERITY_WEIGHTS)[KINDS[:, 3]])
    if by == "emerg":
        return -KINDS[:, 3].astype(np.float64)
    return KINDS @ np.array([1.0, 0.5, 0.0, -1.0])


def candidates(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> list[heuristics.QueueRule]:
    """Rules on one of the rankings, with every bar."""
    return rank_candidates(
        params, harness, kind_observations(harness), rank_kinds(params, by), price_gain
    )


def make_uniform(params: Params, harness: Harness) -> Policy:
    """As many inspections as there are visits, whoever complains: by lot, the rest is deferred."""
    del harness
    share = min(visits_per_case(params), 1.0)
    return heuristics.at_random(np.array([share, 0.0, 1.0 - share]))


def make_score_rule(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> Policy:
    """Inspect the first of a ranking; the bar that fits the capacity, raised by the queue."""
    return fit_capacity(params, candidates(params, harness, price_gain, by))
