"""Conservative Q-learning for discrete actions (Kumar et al. 2020, CQL(H)).

DQN whose loss adds a penalty: the soft maximum of all values less the value of the action that was
taken. Values of actions nobody tried stay low, which matters where decisions are logged and cannot
be tried again. The paper uses weight 0.1 in the elevator domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from parity311.agents.base import Agent
from parity311.agents.dqn import DQNConfig, make_value_agent
from parity311.agents.entry import AgentEntry
from parity311.agents.settings import Weight

ENTRY = AgentEntry(
    says="DQN that distrusts what was not tried",
    config="CQLConfig",
    maker="make_cql",
    title="CQL",
    inherits="dqn",
    probes=("actions", "log"),
)


@dataclass(frozen=True)
class CQLConfig(DQNConfig):
    """Hyper-parameters of DQN, and the penalty."""

    conservatism: Weight = 0.1
    """weight of the penalty on values of actions that were not taken (the paper's)"""


@cache
def make_cql(config: CQLConfig | None = None) -> Agent:
    """Make CQL with these hyper-parameters."""
    return make_value_agent("cql", config or CQLConfig())
