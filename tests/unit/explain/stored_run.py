"""A small run that can be audited, explained and documented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.unit.audit.audit_city import make_inputs
from tests.unit.explain.networks import make_network

from parity311.audit.episodes import EpisodeInputs
from parity311.explain.inputs import ExplainInputs
from parity311.report.audit_inputs import store_inputs
from parity311.report.explain_inputs import store_policies
from parity311.report.folder import Run, open_run
from parity311.report.store import start_run

FEATURES = ("no_heat", "building_wide", "unit_count", "zip_freq_24h")
ACTIONS = ("Defer", "Batch", "Inspect")


def make_policy(seed: int = 0, n_rows: int = 240) -> ExplainInputs:
    """A network that reads ZIP frequency, which rises with the tract's income."""
    rng = np.random.default_rng(seed)
    tract = rng.integers(0, 60, n_rows)
    quintile = 1 + tract % 5
    rows = np.column_stack(
        [
            rng.integers(0, 2, n_rows),
            rng.integers(0, 2, n_rows),
            rng.integers(1, 80, n_rows) / 80,
            quintile / 5 + 0.1 * rng.standard_normal(n_rows),
        ]
    )
    network = make_network(seed, (4, 16, 16, 3))
    network["weight_0"][3] *= 3
    return ExplainInputs(
        domain="heat",
        setting="strong, scarce",
        policy="dqn",
        network=network,
        feature_names=FEATURES,
        action_names=ACTIONS,
        geographic=("zip_freq_24h",),
        rows=rows,
        background=rows[:40],
        tract=np.array([f"t{i}" for i in tract]),
        severity=rng.choice(list("ABCD"), n_rows),
        income_quintile=quintile,
        complaint_id=np.array([f"c{i:04d}" for i in range(n_rows)]),
        escalating=("Batch", "Inspect"),
    )


def make_episodes(gap: float, policy: str) -> EpisodeInputs:
    rng = np.random.default_rng(1)
    actionable = rng.poisson(60, (64, 6))
    correct = rng.binomial(actionable, 0.4 + np.linspace(-gap / 2, gap / 2, 6))
    return EpisodeInputs(
        "heat",
        "strong, scarce",
        policy,
        correct.astype(float),
        {"actionable": actionable.astype(float), "incidents": 3.0 * actionable},
    )


def make_run(root: Path) -> Run:
    """Two cities, two policies in episodes, one network."""
    inputs = [
        replace(make_inputs(1, slope=0.2, n_months=12, n_tracts=150), setting="strong, scarce"),
        replace(make_inputs(2, n_months=12, n_tracts=150), setting="measured, calibrated"),
    ]
    with start_run(root, "run", {"preset": "small", "equity_weight": 0.5}) as run:
        run.add_data("small-7", "ab" * 32, is_synthetic=True, statement="A synthetic city.")
        store_inputs(run, inputs, [make_episodes(0.2, "balanced"), make_episodes(0.0, "dqn")])
        store_policies(run, [make_policy()])
        coverage_gap = {"value": 0.12, "lower": 0.1, "upper": 0.14}
        policies = [{"policy": "balanced", "reward": 10.5, "coverage_gap": coverage_gap}]
        run.add_metrics({"comparisons": [{"domain": "heat", "policies": policies}]})
    return open_run(run.id, root)
