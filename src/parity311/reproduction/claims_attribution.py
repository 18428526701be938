"""Claims about what drives the policies: recurrence and place against volume, and one board."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity311.evaluation.comparison_statistics import compare_runs, make_resamples
from parity311.reproduction.claims import Claim, Finding, plain
from parity311.reproduction.verdicts import Measured, decide_count, decide_sign

if TYPE_CHECKING:
    from parity311.reproduction.evidence import Evidence

AREA = "What drives the policies"
GROUPS = {
    "boiler": (("is_recurrent", "neighborhood_risk"), ("boiler_count_norm",)),
    "scaffold": (("recurrent_7d", "zip_freq_24h"), ("created_count", "open_count")),
    "crane": (("is_recurrent", "neighborhood_frequency"), ("backlog",)),
    "heat": (("recurrence",), ("queue",)),
    "ert": (("recurrent_complaints",), ("new_complaints", "backlog")),
    "housing": (("recurrence_ratio",), ("lag_1h", "lag_24h", "rolling_mean_24h")),
}
"""Recurrence and neighbourhood statistics, against raw volume, where a domain has both."""
N_TOP = 5
HIGH_SHARE = 0.25
"""Boards in the top quarter by long-open cases have a high unresolved burden (our reading)."""


def _outweighs(slug: str):
    def test(evidence: Evidence) -> Finding:
        weights = evidence.weights("measured", slug, "dqn")
        first, second = (weights.mean_of(names) for names in GROUPS[slug])
        resamples = make_resamples(*first.shape)
        found = compare_runs(first, second, resamples).difference
        total = float(weights.values.sum(axis=-1).mean())
        words = (
            f"{100 * first.mean() / total:.1f} % of all weight a feature against "
            f"{100 * second.mean() / total:.1f} %: {100 * found.value / total:+.1f} "
            f"({100 * found.lower / total:+.1f} to {100 * found.upper / total:+.1f})"
        )
        ours = Measured(found.value / total, found.lower / total, found.upper / total, words)
        return Finding(ours, decide_sign(ours, +1))

    return test


def burdened_boards(names: tuple[str, ...], seen: np.ndarray) -> set[str]:
    """Boards whose long-open cases are in the top quarter; ``seen`` (features,) are means."""
    tails = {
        name.removeprefix("tail_pressure_"): float(seen[place])
        for place, name in enumerate(names)
        if name.startswith("tail_pressure_")
    }
    ordered = sorted(tails, key=lambda board: -tails[board])
    return set(ordered[: max(int(HIGH_SHARE * len(ordered)), 1)])


def top_boards(names: tuple[str, ...], weight: np.ndarray) -> list[str]:
    """Boards among the five heaviest features, heaviest first."""
    heaviest = [names[place] for place in np.argsort(-weight)[:N_TOP]]
    return [name.rsplit("_", 1)[1] for name in heaviest if name.rsplit("_", 1)[1].isdigit()]


def _board(evidence: Evidence) -> Finding:
    weights = evidence.weights("measured", "elevator", "reinforce_boards")
    n_found, shown = 0, []
    for seed in range(len(weights.values)):
        boards = top_boards(weights.names, weights.values[seed].mean(axis=0))
        heavy = burdened_boards(weights.names, weights.seen[seed])
        n_found += any(board in heavy for board in boards)
        shown.append("/".join(boards) or "none")
    words = f"boards among the five heaviest features by seed: {', '.join(shown)}"
    ours = Measured(float(n_found), words=words)
    return Finding(ours, decide_count(n_found, len(weights.values)))


CLAIMS = [
    *(
        Claim(
            f"recurrence_{slug}", AREA,
            f"Recurrence and neighbourhood weigh more than raw volume in {plain(slug)}", "Abstract",
            "stronger predictors than raw complaint volume", "sign",
            f"mean size of the Shapley values of DQN's scores, a feature: {', '.join(first)} "
            f"against {', '.join(second)}; over seeds and test episodes",
            _outweighs(slug), (slug,),
        )
        for slug, (first, second) in GROUPS.items()
    ),
    Claim(
        "board", AREA,
        "A community board with a high unresolved burden is among REINFORCE's five heaviest "
        "features in elevator", "6.3", "Community Board 12 Manhattan in the top five", "count",
        "Shapley values of REINFORCE with the published features by board; a board in the top "
        "quarter of long-open cases among the five heaviest, in every seed",
        _board, ("elevator",),
    ),
]  # fmt: skip
