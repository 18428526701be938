"""Small networks as plain pytrees, with an agent axis; and the same forward pass in NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Network: TypeAlias = dict[str, jax.Array]
"""weight_0, bias_0, weight_1 …: weights (agents, n_in, n_out), biases (agents, n_out)."""


def init_network(key: jax.Array, n_agents: int, sizes: tuple[int, ...]) -> Network:
    """Draw weights (He) for every agent; biases start at zero, the last layer small."""
    network: Network = {}
    keys = jax.random.split(key, len(sizes) - 1)
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        is_last = layer == len(sizes) - 2
        scale = np.sqrt(2.0 / n_in) * (0.1 if is_last else 1.0)
        weight = scale * jax.random.normal(keys[layer], (n_agents, n_in, n_out))
        network[f"weight_{layer}"] = weight
        network[f"bias_{layer}"] = jnp.zeros((n_agents, n_out))
    return network


def apply_networks(networks: Network, inputs: jax.Array) -> jax.Array:
    """Outputs (agents, batch, n_out) of every agent's network on its own inputs."""
    n_layers = len(networks) // 2
    hidden = inputs
    for layer in range(n_layers):
        weight, bias = networks[f"weight_{layer}"], networks[f"bias_{layer}"]
        hidden = jnp.einsum("abi,aio->abo", hidden, weight) + bias[:, None, :]
        if layer < n_layers - 1:
            hidden = jax.nn.relu(hidden)
    return hidden


def apply_network(network: Network, inputs: jax.Array) -> jax.Array:
    """Outputs (n_out,) of one agent's network (no agent axis) on one observation."""
    n_layers = len(network) // 2
    hidden = inputs
    for layer in range(n_layers):
        hidden = hidden @ network[f"weight_{layer}"] + network[f"bias_{layer}"]
        if layer < n_layers - 1:
            hidden = jax.nn.relu(hidden)
    return hidden


def apply_network_numpy(network: dict[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    """The same without JAX, for a server that only decides: inputs (..., n_features)."""
    n_layers = len(network) // 2
    hidden = inputs
    for layer in range(n_layers):
        hidden = hidden @ network[f"weight_{layer}"] + network[f"bias_{layer}"]
        if layer < n_layers - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def take_agent(networks: Network, index: int) -> Network:
    """One agent's network, without the agent axis."""
    return {name: values[index] for name, values in networks.items()}
