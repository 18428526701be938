"""The learned policies of a parity study: values learned once, prices settled outside of them.

An agent learns in the estimated process what decisions save and what they cover, under prices that
wander (`agents/priced.py`). The prices it then works under are found, posted and chosen exactly as
those of the thresholds are: what the two differ by is what was learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.engines.heuristics import Threshold
from parity311.evaluation.rollout import Contender
from parity311.mdp.contract import EQUITY
from parity311.mdp.harness import Harness
from parity311.studies.parity.policies import (
    AGENT,
    LEARNED,
    PLAIN_AGENT,
    Policy,
    choose,
    hold,
    promise_from_afar,
    promises_enough,
)
from parity311.studies.parity.world import OURS, ParityWorld
from parity311.training import agent_for, with_equity
from parity311.training.loop import Trained, train_agents

EQUITY_WEIGHT = 0.5
"""α₃ under which agents learn what covers: a price of 1 then counts as one unit of all the rest."""
FRONTIER = (0.05, 0.1, 0.2, 0.3)
"""Smaller weights that are shown beside it, as the largest price that coverage may come to."""
TARGET_GAPS = (0.0, 0.02)
"""Gaps at which their prices settle; validation chooses among them."""
PACES = ((4.0, 0.0), (1.0, 42.0))
"""How their prices may follow outcomes: of the thresholds' paces those that are chosen."""
N_ENVIRONMENTS = 8


def train_family(world: ParityWorld, harness: Harness, n_steps: int, n_seeds: int) -> list[Policy]:
    """Agents without and with a weight on coverage, learned in the estimated process."""
    if n_steps == 0:
        return []
    return policies_of(world, harness, train_agents_of(world, harness, n_steps, n_seeds))


def train_agents_of(world: ParityWorld, harness: Harness, n_steps: int, n_seeds: int) -> Trained:
    """The agents of the family: those without a weight on coverage first."""
    plain = world.domain.preference
    preferences = [plain, with_equity(plain, EQUITY_WEIGHT)]
    learning = replace(harness, carries_on=False)
    return train_agents(
        learning,
        world.estimated[OURS],
        agent_for(learning, "priced", n_steps),
        preferences,
        range(n_seeds),
        n_steps,
        n_environments=N_ENVIRONMENTS,
    )


def policies_of(world: ParityWorld, harness: Harness, trained: Trained) -> list[Policy]:
    """Trained agents as policies of the study."""
    return [_policy(world, harness, trained, index) for index in range(trained.n_agents)]


def _policy(world: ParityWorld, harness: Harness, trained: Trained, index: int) -> Policy:
    """One agent; where visits are rationed by a threshold, its margin with a threshold."""
    weight = float(np.round(trained.preferences[index, EQUITY], 4))
    policy = trained.policy(index)
    if world.domain.play.cases is not None:
        margin = Partial(trained.agent.margin, trained.weights(index))
        policy = Threshold(margin, jnp.float32(0.0), jnp.float32(0.5))
    family = AGENT if weight > 0 else PLAIN_AGENT
    one = Policy(family, Contender(family, policy), weight=weight, seed=int(trained.seeds[index]))
    return hold(world, harness, one)


def ask_prices(agents: Sequence[Policy]) -> list[Policy]:
    """Every agent that is paid for coverage, at each gap at which its prices are to settle.

    At parity also with smaller weights: the same agent, whose prices may not go as far.
    """
    paid = [one for one in agents if one.family == AGENT]
    found = [replace(one, target_gap=gap) for one in paid for gap in TARGET_GAPS]
    return found + [replace(one, target_gap=0.0, weight=w) for one in paid for w in FRONTIER]


def follow_outcomes(settled: Sequence[Policy], price_step: float) -> list[Policy]:
    """Agents at parity whose prices move on, from where they settled and from none."""
    return [
        replace(
            one,
            contender=replace(start, price_step=pace[0] * price_step),
            pace=pace,
            follows=True,
        )
        for one in settled
        if (one.family, one.target_gap, one.weight) == (AGENT, 0.0, EQUITY_WEIGHT)
        for start in (one.contender, replace(one.contender, prices=None))
        for pace in PACES
    ]


def choose_learned(checked: Sequence[Policy]) -> list[Policy]:
    """The agent and prices that validation chooses, then the same agent at smaller weights.

    Fixed prices are candidates only if they promise enough: the estimated process cannot show what
    they lose where the truth differs from it, which moving ones answer to.
    """
    own = [one for one in checked if one.family == AGENT]
    ready = [one for one in own if one.weight == EQUITY_WEIGHT]
    candidates = [one for one in ready if not one.follows and promises_enough(one)]
    for seed in dict.fromkeys(one.seed for one in ready):
        candidates += promise_from_afar([one for one in ready if one.follows and one.seed == seed])
    if not candidates:
        return []
    chosen = choose(candidates)
    weaker = [one for one in own if one.weight < EQUITY_WEIGHT and one.seed == chosen.seed]
    prices = replace(chosen, family=AGENT)
    return [replace(chosen, family=LEARNED), *(_weaken(prices, one) for one in weaker), prices]


def _weaken(chosen: Policy, settled: Policy) -> Policy:
    """The chosen policy with the weight, and the prices, that settled at another."""
    contender = replace(chosen.contender, prices=settled.contender.prices)
    return replace(chosen, contender=contender, weight=settled.weight, validation=None)
