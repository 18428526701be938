"""The shared rules of domains whose steps are independent, built from a table of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parity311.arrays import jax
from parity311.engines import heuristics
from parity311.engines.heuristics import CaseTable, Threshold
from parity311.engines.table import scores
from parity311.mdp.contract import N_STRATA, Policy
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness


def case_observations(
    cases: CaseTable, harness: Harness, prices: np.ndarray | None = None
) -> np.ndarray:
    """What a policy sees of every case under these coverage prices (6,): (n, n_features)."""
    price = np.zeros(N_STRATA) if prices is None else np.asarray(prices)
    features = cases.features[:, harness.columns]
    return np.column_stack([features, FEATURE_SCALE * price[cases.stratum]]).astype(np.float32)


def score_margin(
    cases: CaseTable,
    harness: Harness,
    price_gain: float = 0.0,
    prior: float = scores.CELL_PRIOR,
) -> jax.tree_util.Partial:
    """Log odds of being actionable on what the policy sees, plus the coverage price."""
    levels = tuple(cases.levels[i] for i in harness.columns)
    chances = scores.cell_chances(cases, harness.columns, prior)
    return heuristics.cell_margin(levels, scores.log_odds(chances), price_gain)


def hold_to_capacity(
    margin: jax.tree_util.Partial,
    cases: CaseTable,
    harness: Harness,
    prices: np.ndarray | None = None,
) -> Threshold:
    """Rule on a margin that makes as many visits among these cases as the inspectors can."""
    observations = case_observations(cases, harness, prices)
    return heuristics.hold_margin(margin, observations, cases.capacity_share)


def table_rules(cases_of: Callable[[Any], CaseTable]) -> dict[str, Callable[..., Policy]]:
    """Makers (params, harness) -> policy of the rules every such domain has.

    always and never inspect, random at the same capacity, the score rule (the likeliest first),
    and the dual threshold (the same plus the coverage price of the complaint's stratum).
    """

    def random_rule(params: Any, harness: Harness) -> Policy:
        del harness
        share = min(cases_of(params).capacity_share, 1.0)
        return heuristics.at_random(np.array([1.0 - share, share]))

    def score_rule(params: Any, harness: Harness) -> Policy:
        table = cases_of(params)
        return hold_to_capacity(score_margin(table, harness), table, harness)

    def dual_threshold(params: Any, harness: Harness) -> Policy:
        table = cases_of(params)
        margin = score_margin(table, harness, heuristics.PRICE_GAIN)
        return hold_to_capacity(margin, table, harness)

    return {
        "always": lambda params, harness: heuristics.always(1),
        "never": lambda params, harness: heuristics.always(0),
        "random": random_rule,
        "score": score_rule,
        "dual_threshold": dual_threshold,
    }
