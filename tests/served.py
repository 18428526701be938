"""Small packages for the tests of serving: made in a moment, without playing any episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parity311.agents.package import Package, flatten, nest, write_package
from parity311.domains import get_domain
from parity311.engines.heuristics import rule_arrays
from parity311.mdp.contract import TODAYS_RULE
from parity311.mdp.harness import Harness
from parity311.training.saving import Origin, describe

PRICES = np.array([0.5, 0.2, -0.1, -0.25, -0.35, 0.0])
"""Coverage prices by stratum: the first quintile is behind, the fifth ahead."""
WITH_EQUITY = (0.4, 0.3, 0.3, 0.0)
N_HIDDEN = 8


def random_network(harness: Harness, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of a small network that prefers now this and now that."""
    rng = np.random.default_rng([seed, harness.n_features])
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return {
        "weight_0": draw(harness.n_features, N_HIDDEN),
        "bias_0": draw(N_HIDDEN),
        "weight_1": draw(N_HIDDEN, harness.n_actions),
        "bias_1": draw(harness.n_actions),
    }


def make_package(
    harness: Harness,
    policy: str | dict[str, np.ndarray],
    *,
    prices: np.ndarray | None = None,
    low: float = -1e6,
    high: float = 1e6,
    voters: tuple[dict[str, np.ndarray], ...] = (),
    learned_to: str = "2024-02-01",
) -> Package:
    """A package of a rule by name, or of weights, with the domain's example as its process."""
    domain = harness.domain
    params = domain.play.example()
    make = lambda name: rule_arrays(domain.heuristics[name](params, harness), harness)  # noqa: E731
    weights = make(policy) if isinstance(policy, str) else policy
    equity = harness.equity_params(params)
    preference = np.array(domain.preference if prices is None else WITH_EQUITY)
    name = policy if isinstance(policy, str) else "network"
    manifest = {
        **describe(harness, name, preference, Origin(learned_to=learned_to)),
        "prices": (np.zeros(6) if prices is None else prices).tolist(),
        "seed": 0,
        "denominators": [float(x) for x in equity.denominators],
        "price_step": float(equity.step_size),
        "price_cap": float(equity.price_cap),
        "steps_per_day": float(domain.play.steps_per_day(params)),
        "complaints_per_day": 2.0,
    }
    keep = domain.sight.keep if domain.sight else None
    n = harness.n_features
    return Package(
        weights=weights,
        manifest=manifest,
        rule=make(TODAYS_RULE),
        # In NumPy, as a package read from disk has them.
        params=nest(flatten(keep(params) if keep else params)),
        seen={
            "low": np.full(n, low, np.float32),
            "high": np.full(n, high, np.float32),
            "typical": np.zeros(n, np.float32),
        },
        voters=voters,
    )


def save_package(folder: Path, slug: str, policy: Any, **options: Any) -> Path:
    """Write such a package of a domain with its default choices."""
    return write_package(folder, make_package(Harness(get_domain(slug)), policy, **options))
