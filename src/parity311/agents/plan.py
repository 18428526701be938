"""Planning: the process is learned from records, and the best policy in it is computed.

Where a domain can be solved exactly, nothing is gained by trying actions in a simulator of the
estimated process: its optimum is computed. What such a policy still loses under the truth
is what the estimate gets wrong. It has no network and nothing random, so all seeds are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from parity311.agents import list_agents
from parity311.agents.base import Agent
from parity311.agents.entry import AgentEntry
from parity311.engines.table.policy import TablePolicy
from parity311.errors import TrainingError

ENTRY = AgentEntry(
    says="the optimum of the estimated process",
    config="PlanConfig",
    maker="make_plan",
    is_planner=True,
    probes=(),
)


@dataclass(frozen=True)
class PlanConfig:
    """No hyper-parameters: everything it uses is in the estimated process."""


@cache
def make_plan(config: PlanConfig | None = None) -> Agent:
    """Make the planner; `parity311.training.loop` does its work."""
    return Agent(
        name="plan",
        init=_refuse,
        explore=_refuse,
        decide=_decide,
        margin=_margin,
        update=_refuse,
        refresh=lambda state: state,
        policy=lambda state: state,
        rollout_length=1,
        refresh_every=1,
        config=config or PlanConfig(),
    )


def _refuse(*arguments: Any) -> NoReturn:
    del arguments
    raise TrainingError(
        "Agent 'plan' computes its policy and takes no steps; use `parity311 train DOMAIN --agent "
        f"plan`, or choose {list_agents(lambda entry: entry.sweeps)} for a sweep."
    )


def _table(policy: dict[str, jax.Array]) -> TablePolicy:
    names = ("factors", "strides", "offset", "cell_actions", "cell_worth")
    return TablePolicy(*(jnp.asarray(policy[name]) for name in names if name in policy))


def _decide(policy: dict[str, jax.Array], key: jax.Array, observation: jax.Array) -> jax.Array:
    return _table(policy)(key, observation)


def _margin(policy: dict[str, jax.Array], observation: jax.Array) -> jax.Array:
    """What action 1 is worth; without a ranking 1 where it is the best, and -1 elsewhere."""
    table = _table(policy)
    if table.worth is None:
        return jnp.where(table(jax.random.key(0), observation) == 1, 1.0, -1.0)
    return table.worth[table.cell(observation)]
