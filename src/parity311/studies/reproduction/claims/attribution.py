"""Claims about what drives the policies: recurrence and place against volume, and one board."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from parity311.evaluation.comparison_statistics import compare_runs, make_resamples
from parity311.studies.reproduction.claims.claim import Claim, Finding, plain
from parity311.studies.reproduction.verdicts import (
    HOLDS,
    Decision,
    Measured,
    as_level,
    decide_count,
    decide_sign,
    untested,
)

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence

AREA = "What drives the policies"
GROUPS = {
    "boiler": (("is_recurrent", "neighborhood_risk"), ("boiler_count_norm",)),
    "crane": (("is_recurrent", "neighborhood_frequency"), ("backlog",)),
    "housing": (("recurrence_ratio",), ("lag_1h", "lag_24h", "rolling_mean_24h")),
}
"""Recurrence and neighbourhood statistics, against raw volume, in the domains to which the paper
applies SHAP (5.2) and whose published features have both (heat's have no recurrence)."""
AS_BUILT = "what foretells a violation here is what the city was built with"
NO_BURDEN = "the paper gives that board's burden and history as the cause, and ours are made up"
N_TOP = 5
BOARD = "112"
"""Community Board 12 Manhattan, the board the paper names."""


def _outweighs(slug: str):
    def test(evidence: Evidence) -> Finding:
        weights = evidence.weights("measured", slug, "dqn")
        first, second = (weights.mean_of(names) for names in GROUPS[slug])
        resamples = make_resamples(*first.shape)
        found = compare_runs(first, second, resamples).difference
        total = float(weights.values.sum(axis=-1).mean())
        named = evidence.explainer(slug)
        words = (f"by the paper's explainer ({named}): " if named else "") + (
            f"{100 * first.mean() / total:.1f} % of all weight a feature against "
            f"{100 * second.mean() / total:.1f} %: {100 * found.value / total:+.1f} "
            f"({100 * found.lower / total:+.1f} to {100 * found.upper / total:+.1f})"
        )
        ours = Measured(found.value / total, found.lower / total, found.upper / total, words)
        return Finding(ours, decide_weight(ours))

    return test


def decide_weight(ours: Measured) -> Decision:
    """Judge which features weigh more: it can be met here; the other way round refutes nothing."""
    found = decide_sign(ours, +1)
    if found.verdict == HOLDS:
        return Decision(HOLDS, f"{found.reason}; {AS_BUILT}")
    return as_level(found, AS_BUILT)


def top_boards(names: tuple[str, ...], weight: np.ndarray) -> list[str]:
    """Boards among the five heaviest features, heaviest first."""
    heaviest = [names[place] for place in np.argsort(-weight)[:N_TOP]]
    return [board_of(name) for name in heaviest if board_of(name).isdigit()]


def board_of(name: str) -> str:
    """The board a feature is of, as in tail_pressure_112."""
    return name.rpartition("_")[2]


def _board(evidence: Evidence) -> Finding:
    weights = evidence.weights("measured", "elevator", "reinforce_boards", "reinforce")
    own = [board_of(name) == BOARD for name in weights.names]
    if not weights.seen[:, own].any():
        return Finding(Measured(math.nan), untested("this city has no cases in that board"))
    n_found, shown = 0, []
    for seed in range(len(weights.values)):
        boards = top_boards(weights.names, weights.values[seed].mean(axis=0))
        n_found += BOARD in boards
        shown.append("/".join(boards) or "none")
    words = f"boards among the five heaviest features by seed: {', '.join(shown)}"
    ours = Measured(float(n_found), words=words)
    return Finding(ours, decide_board(n_found, len(weights.values)))


def decide_board(n_found: int, n_runs: int) -> Decision:
    """Judge a board by name: it can be met here; that another is heavier refutes nothing."""
    return as_level(decide_count(n_found, n_runs), NO_BURDEN)


CLAIMS = [
    *(
        Claim(
            f"recurrence_{slug}", AREA,
            f"Recurrence and neighbourhood weigh more than raw volume in {plain(slug)}", "Abstract",
            "stronger predictors than raw complaint volume", "level",
            f"mean size of the Shapley values of DQN's scores, a feature: {', '.join(first)} "
            f"against {', '.join(second)}; over seeds and episodes; {AS_BUILT}",
            _outweighs(slug), (slug,),
            quote="are stronger predictors of actionable violations than raw complaint volume",
        )
        for slug, (first, second) in GROUPS.items()
    ),
    Claim(
        "board", AREA,
        "Community Board 12 Manhattan is among REINFORCE's five heaviest features in elevator",
        "6.3", "Community Board 12 Manhattan in the top five", "level",
        "Shapley values of REINFORCE with the published features by board; a feature of board 112 "
        "among the five heaviest, in every seed; no other board counts; which board has the burden "
        "is made up here",
        _board, ("elevator",), quote="ranks among the top five most influential SHAP features",
    ),
]  # fmt: skip
