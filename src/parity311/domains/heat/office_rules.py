"""Rules for an office that tells complaints apart by kinds: a ranking and a bar."""

from __future__ import annotations

import numpy as np

from parity311.domains.heat.step import OfficeProcess, reported_share
from parity311.engines import heuristics
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness


def rank_candidates(
    params: OfficeProcess,
    harness: Harness,
    seen: np.ndarray,
    goal: np.ndarray,
    price_gain: float = 0.0,
) -> list[heuristics.QueueRule]:
    """Rules on a ranking of the kinds, as far as the policy can tell them apart.

    Parameters
    ----------
    seen
        (n_kinds, n_features) what the policy sees of each kind in an empty office at zero price.
    goal
        (n_kinds,) what the kinds are ranked by.
    """
    reported = np.asarray(params.incidents_per_day.sum(axis=1) * params.report_rate)
    shares = reported @ np.asarray(params.kind_shares)
    root = np.sqrt(shares)[:, None]
    design = np.column_stack([np.ones(len(goal)), seen])
    beta = np.linalg.lstsq(design * root, goal[:, None] * root, rcond=None)[0][:, 0]
    weights = beta[1:]
    weights[-1] = price_gain / FEATURE_SCALE
    column = harness.observation_names.index("queue")
    return heuristics.queue_rules(weights, column, seen @ weights, shares)


def visits_per_case(params: OfficeProcess) -> float:
    """Visits the inspectors can make for every case that comes in."""
    cases = float((params.incidents_per_day * reported_share(params)[:, None]).sum())
    return float(params.office.capacity.sum()) / max(cases, 1e-9)


def fit_capacity(
    params: OfficeProcess, candidates: list[heuristics.QueueRule]
) -> heuristics.QueueRule:
    """The candidate whose bar sends as many visits as the inspectors can make."""
    wanted = visits_per_case(params)
    place = int(np.argmin(np.abs(np.array(heuristics.BAR_SHARES) - wanted)))
    per_bar = len(candidates) // len(heuristics.BAR_SHARES)
    return candidates[place * per_bar + per_bar // 2]
