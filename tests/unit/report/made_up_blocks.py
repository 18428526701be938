"""Blocks of a run whose figures are chosen: made-up episodes, and the real code after them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.evaluation import metrics

N_EPISODES = 64
N_CASES = 20.0
"""Actionable incidents of a stratum in an episode."""
N_COMPLAINTS = 60.0
EVEN = (0.5, 0.5, 0.5, 0.5, 0.5)
STEEP = (0.3, 0.4, 0.45, 0.5, 0.6)
STEEPER = (0.1, 0.3, 0.4, 0.5, 0.7)
PAID = "dqn_equity_0.50"


def score(
    coverage: tuple[float, ...], visits: float, resampled: metrics.Resampled
) -> metrics.Scores:
    """Scores of a policy that finds these shares with so many visits per complaint.

    All policies meet the same cases: one that serves more serves the others' cases too. Cases are
    spread evenly, so that shares come out as chosen.
    """
    start = np.random.default_rng(0).random((N_EPISODES, 6, 1))
    luck = (np.arange(N_CASES) + start) / N_CASES
    correct = (luck < np.append(coverage, 0.5)[:, None]).sum(axis=2).astype(float)
    need = resampled.total(np.full((N_EPISODES, 6), N_CASES))
    totals = resampled.total(correct)
    n = len(totals)
    complaints = resampled.total(np.full((N_EPISODES, 6), N_COMPLAINTS))
    reward = totals.sum(axis=1) / N_EPISODES
    vector, hours = np.zeros((n, 4)), np.zeros(n)
    return metrics.Scores(
        reward, vector, totals, need, need, visits * complaints, complaints, hours
    )


def make_policies(
    today: tuple[float, ...],
    paid: tuple[float, ...],
    plain: tuple[float, ...],
    rule: tuple[float, ...],
    visits: dict[str, float],
    ceiling: str,
) -> list[dict[str, Any]]:
    """Records of four policies as `compare_policies` writes them."""
    resampled = metrics.Resampled(N_EPISODES)
    played = {"balanced": today, "dual_threshold": rule, "dqn": plain, PAID: paid}
    scored = {
        name: score(coverage, visits.get(name, 0.5), resampled) for name, coverage in played.items()
    }
    return [
        {
            "policy": name,
            "is_within_capacity": True,
            **metrics.summarise(own, resampled),
            **metrics.compare_with(own, scored["dqn"], resampled),
            "against_today": metrics.compare_with_today(own, scored["balanced"], resampled),
            **metrics.share_of_way(own, scored["balanced"], scored["dqn"], resampled),
            "ceiling": ceiling,
            "reference": "dqn",
        }
        for name, own in scored.items()
    ]


def make_block(
    domain: str = "heat",
    *,
    is_real: bool = False,
    today: tuple[float, ...] = STEEP,
    paid: tuple[float, ...] = EVEN,
    plain: tuple[float, ...] = STEEP,
    rule: tuple[float, ...] = STEEP,
    visits: dict[str, float] | None = None,
    participation: str = "strong",
    **changes: Any,
) -> dict[str, Any]:
    """One entry of `comparisons`; `changes` replace what the run recorded around the figures."""
    reporting = [
        {
            "estimator": estimator,
            "stratum": stratum,
            "incidents_per_28_days": 20.0,
            "lower": 15.0,
            "upper": 25.0,
            "complaints_per_28_days": 10.0,
        }
        for estimator in ("exposure_rate", "raw")
        for stratum in ("Q1", "Q2", "Q3", "Q4", "Q5", "unknown")
    ]
    rates = [
        {"denominator": "case", "stratum": "Q1", "served": 9, "rate": 0.5, "lower": 0.4,
         "upper": 0.6, "note": ""}
    ]  # fmt: skip
    gap = {"denominator": "case", "verdict": "INSUFFICIENT", "reason": "too few cases"}
    block: dict[str, Any] = {
        "domain": domain,
        "participation": "recorded" if is_real else participation,
        "capacity": "recorded" if is_real else "scarce",
        "is_real": is_real,
        "estimator": "exposure_rate",
        "failed_estimators": {},
        "incidents_per_28_days": {"value": 100.0, "lower": 80.0, "upper": 120.0},
        "incidents_known_within": 1.5,
        "is_wide": False,
        "gap_ranges": {},
        "simulated_years": 64.0,
        "rows": {
            "learned": {"complaints": 800, "first": "2022-01-01", "last": "2023-12-31"},
            "tested": {"complaints": 200, "first": "2024-01-01", "last": "2024-06-19"},
        },
        "located": {"in_scope": 1400, "located": 1000} if is_real else None,
        "policies": make_policies(today, paid, plain, rule, visits or {}, "best known: dqn"),
        "reporting": reporting,
        "audit": {"rates": rates, "gaps": [gap]},
        "audit_note": "",
        "assumptions": "As assumed.",
    }
    return block | changes


CURVE = [
    {"steps": steps, "equity_weight": weight, "seed": seed, "reward": 1.0}
    for steps in (10, 20)
    for weight in (0.0, 0.5)
    for seed in (7, 8)
]
