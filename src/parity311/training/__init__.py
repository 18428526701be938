"""The only training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from parity311.mdp.contract import Domain
    from parity311.training.loop import Progress, Trained

N_ENVIRONMENTS = 8
"""Episodes an agent plays side by side: one update then sees eight new steps."""


def train(
    domain: Domain,
    params: Any,
    agent: str,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    steps: int,
    *,
    observation_set: str = "",
    n_environments: int = N_ENVIRONMENTS,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train agents of this name in a domain's (estimated) process, with the domain's settings.

    Exploration and, where the agent has it, the step size fall over the steps there are;
    ``settings`` override everything.
    """
    from parity311.agents import agent_config, make_agent
    from parity311.mdp.harness import Harness
    from parity311.training.loop import train_agents

    scheduled = {"epsilon_steps": max(steps // 2, 1), "anneal_steps": steps}
    chosen = {**scheduled, **domain.agent_settings.get(agent, {}), **(settings or {})}
    return train_agents(
        Harness(domain, observation_set=observation_set),
        params,
        make_agent(agent, agent_config(agent, chosen)),
        preferences,
        seeds,
        steps,
        n_environments=n_environments,
        progress=progress,
    )


def with_equity(preference: Sequence[float], weight: float) -> tuple[float, ...]:
    """A preference that gives equity this weight and keeps the proportions of the rest."""
    rest = np.asarray(preference, np.float64) * (1.0 - weight)
    rest[2] = weight
    return tuple(float(x) for x in rest)
