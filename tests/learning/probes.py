"""Five tiny decision processes whose values are known exactly.

If the first fails, values are not learned at all; if the second, they do not depend on what is
seen; the third, they are not discounted through time; the fourth, actions are not told apart; the
fifth, actions are not chosen by what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from tests.contract.broken.twins import empty_tally, make_domain

from parity311.agents import all_agents, setting_names
from parity311.mdp.contract import N_STRATA, Domain, Transition

DISCOUNT = 0.5


def agents_probed(what: str) -> list[str]:
    """Agents that declare that this must be seen of them (`AgentEntry.probes`)."""
    return [name for name, entry in all_agents().items() if what in entry.probes]


def settings_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of these settings those that the agent has: one table of small settings serves them all."""
    return {key: value for key, value in settings.items() if key in setting_names(name)}


class Place(NamedTuple):
    sign: jax.Array
    """what is seen: -1 or 1"""
    n_steps: jax.Array


Reward = Callable[[Place, jax.Array], jax.Array]


def _probe(reward: Reward, length: int | jax.Array) -> Domain:
    """One step or two that pay a reward; what is seen is the sign."""

    def initial_state(key: jax.Array, params: Any) -> Place:
        del params
        return Place(jax.random.choice(key, jnp.float32([-1.0, 1.0])), jnp.int32(0))

    def transition(
        key: jax.Array, params: Any, state: Place, action: Any, prices: Any
    ) -> Transition:
        del key, params, prices
        paid = reward(state, action).astype(jnp.float32)
        none = jnp.zeros(())
        vector = jnp.stack([paid, none, none, none])
        n_steps = state.n_steps + 1
        return Transition(
            state=Place(state.sign, n_steps),
            reward=vector,
            terminated=n_steps >= length,
            credit=jnp.zeros(N_STRATA),
            tally=empty_tally(vector),
        )

    def observe(params: Any, state: Place) -> jax.Array:
        del params
        return jnp.stack([state.sign])

    return make_domain(initial_state=initial_state, transition=transition, observe=observe)


class Probe(NamedTuple):
    """What tells the five apart; as params of one domain, so that an agent is compiled once."""

    pay: jax.Array
    """(2, 2, 2) by step, sign and action"""
    length: jax.Array
    shows_step: jax.Array


def _from_params() -> Domain:
    """The domain of all five."""

    def transition(
        key: jax.Array, params: Probe, state: Place, action: Any, prices: Any
    ) -> Transition:
        def reward(place: Place, action: jax.Array) -> jax.Array:
            return params.pay[place.n_steps, (place.sign > 0).astype(jnp.int32), action]

        return _probe(reward, params.length).play.transition(key, params, state, action, prices)

    def observe(params: Probe, state: Place) -> jax.Array:
        step = state.n_steps.astype(jnp.float32)
        return jnp.stack([jnp.where(params.shows_step, step, state.sign)])

    start = _probe(lambda place, action: place.sign, 1).play.initial_state
    return make_domain(initial_state=start, transition=transition, observe=observe)


PROBED = _from_params()
CONSTANT = [[1.0, 1.0], [1.0, 1.0]]
SEEN = [[-1.0, -1.0], [1.0, 1.0]]
ACTION = [[-1.0, 1.0], [-1.0, 1.0]]
BOTH = [[1.0, -1.0], [-1.0, 1.0]]
NOTHING = [[0.0, 0.0], [0.0, 0.0]]


def _pays(first: list, second: list = NOTHING, length: int = 1) -> Probe:
    """Pays (sign, action) in each of two steps; where there is a second, the step is seen."""
    return Probe(jnp.float32([first, second]), jnp.int32(length), jnp.bool_(length > 1))


PROBES: dict[str, tuple[Probe, dict[tuple[float, int], float]]] = {
    "a constant": (
        _pays(CONSTANT),
        {(-1.0, 0): 1.0, (-1.0, 1): 1.0, (1.0, 0): 1.0, (1.0, 1): 1.0},
    ),
    "what is seen": (
        _pays(SEEN),
        {(-1.0, 0): -1.0, (-1.0, 1): -1.0, (1.0, 0): 1.0, (1.0, 1): 1.0},
    ),
    "what comes later": (
        _pays(NOTHING, CONSTANT, length=2),
        {(0.0, 0): DISCOUNT, (0.0, 1): DISCOUNT, (1.0, 0): 1.0, (1.0, 1): 1.0},
    ),
    "which action": (
        _pays(ACTION),
        {(-1.0, 0): -1.0, (-1.0, 1): 1.0, (1.0, 0): -1.0, (1.0, 1): 1.0},
    ),
    "which action for what is seen": (
        _pays(BOTH),
        {(-1.0, 0): 1.0, (-1.0, 1): -1.0, (1.0, 0): -1.0, (1.0, 1): 1.0},
    ),
}
"""Name -> (params, exact value of each (observation, action))."""
