"""Adam of `agents/adam.py` beside optax's, in the same updates of DQN and the same training.

    pip install optax; python benchmarks/adam_or_optax.py [--rounds 9]

Both are given the same gradients' clipping (each agent by its own norm, which optax does not offer)
and the same step size. Times are of the processor, taken in turns; what counts are their ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from parity311.agents import dqn
from parity311.agents.base import Agent, Rollout
from parity311.agents.networks import Network
from parity311.domains import get_domain
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, train_agents

N_AGENTS, N_ENVIRONMENTS, BATCH = 8, 8, 64
N_UPDATES, N_STEPS = 100, 1000
CONFIG = dqn.DQNConfig(discount=0.0, hidden=(64, 64), anneal_steps=N_STEPS)
OWN = dqn.adam_step


def optax_step(
    network: Network,
    momentum: Network,
    square: Network,
    gradient: Network,
    n_updates: jax.Array,
    *,
    learning_rate: float,
    max_gradient_norm: float,
    anneal_steps: int = 0,
) -> tuple[Network, Network, Network]:
    """One step as `adam_step` takes it, by optax."""
    norm = jax.vmap(optax.tree.norm)(gradient)
    scale = jnp.minimum(1.0, max_gradient_norm / (norm + 1e-12))
    clipped = jax.tree.map(lambda x: x * scale.reshape((-1,) + (1,) * (x.ndim - 1)), gradient)
    rate = optax.linear_schedule(learning_rate, 0.1 * learning_rate, anneal_steps)(n_updates)
    state: Any = optax.ScaleByAdamState(n_updates - 1, momentum, square)  # type: ignore[arg-type]
    # Ours adds ε before the moments are corrected, as Kingma & Ba's faster form does.
    epsilon: Any = 1e-8 / jnp.sqrt(1.0 - 0.999 ** n_updates.astype(jnp.float32))
    steps, moved = optax.scale_by_adam(eps=epsilon).update(clipped, state)
    after = optax.apply_updates(network, jax.tree.map(lambda x: -rate * x, steps))
    return after, moved.mu, moved.nu  # type: ignore[return-value, union-attr]


def learn_often(agent: Agent, state: Any, rollout: Rollout) -> Any:
    """Many updates from one batch: nothing but networks and Adam."""
    keys = jax.random.split(jax.random.key(0), N_AGENTS)
    assert agent.learn is not None
    learn = partial(agent.learn, keys)
    return jax.lax.scan(lambda s, _: (learn(s, rollout)[0], None), state, None, length=N_UPDATES)[0]


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a piece of work, and what it gave."""
    began = time.process_time()
    found = jax.block_until_ready(work())
    return time.process_time() - began, found


def make_works(harness: Harness) -> dict[str, dict[str, Callable[[], Any]]]:
    """Updates alone and a whole training, by either Adam; each already compiled."""
    rng = np.random.default_rng(0)
    shape = (1, N_AGENTS, BATCH)
    seen = jnp.asarray(rng.normal(size=(*shape, harness.n_features)), jnp.float32)
    ended = jnp.ones(shape, bool)
    action = jnp.asarray(rng.integers(0, harness.n_actions, shape), jnp.int32)
    paid = jnp.asarray(rng.normal(size=shape), jnp.float32)
    rollout = Rollout(seen, action, paid, ended, ended, seen)
    params = harness.domain.play.example()
    works: dict[str, dict[str, Callable[[], Any]]] = {"update": {}, "training": {}}
    for name, step in (("own", OWN), ("optax", optax_step)):
        dqn.adam_step = step  # type: ignore[assignment]
        agent = dqn.make_value_agent(f"dqn_{name}", CONFIG)
        keys = jax.random.split(jax.random.key(0), N_AGENTS)
        state = agent.init(keys, 1, harness.n_features, harness.n_actions)
        update = jax.jit(partial(learn_often, agent))
        works["update"][name] = partial(update, state, rollout)

        def training(agent: Agent = agent) -> Trained:
            return train_agents(
                harness, params, agent, [harness.domain.preference], range(N_AGENTS),
                N_STEPS, n_environments=N_ENVIRONMENTS,
            )  # fmt: skip

        works["training"][name] = training
        for work in works.values():
            work[name]()
    return works


def largest_difference(one: Any, other: Any) -> float:
    """Largest difference of two trees' leaves."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(np.abs(np.asarray(x) - np.asarray(y)).max()) for x, y in pairs)


def main() -> None:
    """Print ratios (optax over own) of each round, and how far the weights lie apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    found: dict[str, Any] = {"optax": optax.__version__, "jax": jax.__version__}
    for name, work in make_works(Harness(get_domain("boiler"))).items():
        ratios, own, other = [], None, None
        for _ in range(rounds):
            taken, own = seconds_of(work["own"])
            theirs, other = seconds_of(work["optax"])
            ratios.append(theirs / taken)
        weights = [one.network if name == "update" else one.policies for one in (own, other)]  # type: ignore[union-attr]
        found[name] = {
            "optax_over_own": {
                "median": float(np.median(ratios)), "least": min(ratios), "most": max(ratios)
            },
            "largest_difference_of_weights": largest_difference(*weights),
            "largest_weight": max(float(np.abs(x).max()) for x in jax.tree.leaves(weights[0])),
        }  # fmt: skip
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
