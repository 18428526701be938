"""Planning instead of training: the estimated process is solved, as the agent `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from parity311.agents import list_agents
from parity311.agents.plan import make_plan, policy_arrays
from parity311.engines.stream.optimum import TablePolicy
from parity311.errors import TrainingError
from parity311.mdp.contract import EQUITY, N_STRATA
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, check_preferences


def plan(
    harness: Harness,
    params: Any,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
) -> Trained:
    """Solve the (estimated) process once for every preference; seeds change nothing."""
    weights = check_preferences(preferences)
    solve = harness.domain.play.solve
    if solve is None:
        raise TrainingError(
            f"Domain {harness.domain.slug!r} has no exact solution, so there is nothing to plan "
            f"with; choose {list_agents(lambda entry: entry.sweeps)}."
        )
    if (weights[:, EQUITY] > 0).any():
        raise TrainingError(
            "Agent 'plan' does not pay for coverage: its state holds no coverage prices; give "
            "equity no weight, or choose another agent."
        )
    found = []
    for row in weights:
        policy = solve(params, harness, row)
        assert isinstance(policy, TablePolicy)
        arrays = jax.tree.map(np.asarray, policy_arrays(policy, harness.n_actions))
        found += [arrays] * len(seeds)
    n_agents = len(found)
    return Trained(
        agent=make_plan(),
        harness=harness,
        policies=jax.tree.map(lambda *values: np.stack(values), *found),
        preferences=np.repeat(weights, len(seeds), axis=0),
        seeds=np.tile(np.asarray(seeds), len(weights)),
        prices=np.zeros((n_agents, N_STRATA)),
        curve=[],
    )
