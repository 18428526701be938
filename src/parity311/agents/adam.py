"""Adam (Kingma & Ba 2015) for networks with an agent axis, each clipped by its own norm.

optax clips only all agents by one norm and adds ε elsewhere, which would change every trained
agent. Given both as here it takes as long (a training 0.96 times, 0.79 to 1.06 on two busy cores)
and gives the same weights to 2e-6: benchmarks/adam_or_optax.py, results/adam_or_optax.json.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from parity311.agents.networks import Network


def adam_step(
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
    """One step: network, momentum and square after it.

    Parameters
    ----------
    n_updates
        () steps taken, this one included.
    anneal_steps
        Steps over which the step size falls to a tenth; 0 keeps it.
    """
    squares = [(g**2).reshape(g.shape[0], -1).sum(axis=1) for g in gradient.values()]
    norm = jnp.sqrt(jnp.stack(squares).sum(axis=0) + 1e-12)
    scale = jnp.minimum(1.0, max_gradient_norm / norm)
    count = n_updates.astype(jnp.float32)
    rate = learning_rate * jnp.sqrt(1.0 - 0.999**count) / (1.0 - 0.9**count)
    if anneal_steps:
        rate = rate * (1.0 - 0.9 * jnp.minimum(count / anneal_steps, 1.0))
    moved: tuple[Network, Network, Network] = ({}, {}, {})
    for name, values in gradient.items():
        clipped = values * scale.reshape((-1,) + (1,) * (values.ndim - 1))
        moved[1][name] = 0.9 * momentum[name] + 0.1 * clipped
        moved[2][name] = 0.999 * square[name] + 0.001 * clipped**2
        step = moved[1][name] / (jnp.sqrt(moved[2][name]) + 1e-8)
        moved[0][name] = network[name] - rate * step
    return moved


def zeros_like(network: Network) -> Network:
    """Moments to start with."""
    return jax.tree.map(jnp.zeros_like, network)
