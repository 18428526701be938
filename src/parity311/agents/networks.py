"""Small networks as plain pytrees, with an agent axis; `forward` has the same in NumPy."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents.forward import apply_network_numpy

__all__ = [
    "Network",
    "apply_network",
    "apply_network_numpy",
    "apply_networks",
    "init_network",
    "split_each",
]

Network: TypeAlias = dict[str, jax.Array]
"""weight_0, bias_0, weight_1 …: weights (agents, n_in, n_out), biases (agents, n_out)."""


def init_network(keys: jax.Array, sizes: tuple[int, ...]) -> Network:
    """Draw weights (He) for every agent by its key; biases start at zero, the last layer small."""
    network: Network = {}
    n_layers = len(sizes) - 1
    layer_keys = jax.vmap(lambda key: jax.random.split(key, n_layers))(keys)
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        scale = np.sqrt(2.0 / n_in) * (0.1 if layer == n_layers - 1 else 1.0)
        draw = jax.vmap(partial(jax.random.normal, shape=(n_in, n_out)))
        network[f"weight_{layer}"] = scale * draw(layer_keys[:, layer])
        network[f"bias_{layer}"] = jnp.zeros((keys.shape[0], n_out))
    return network


def split_each(keys: jax.Array, n: int) -> tuple[jax.Array, ...]:
    """Split every agent's key (agents,) into n, each again (agents,)."""
    return tuple(jax.vmap(lambda key: jax.random.split(key, n))(keys).T)


@jax.custom_vjp
def multiply(inputs: jax.Array, weight: jax.Array) -> jax.Array:
    """Every agent's inputs (agents, batch, n_in) times its weights, in float32.

    The gradient is written out: the one JAX derives makes the weights' transposed and then turns
    them round, which on a CPU costs as much as the product itself.
    """
    return jnp.einsum("abi,aio->abo", inputs, weight, preferred_element_type=jnp.float32)


def _multiply_forward(
    inputs: jax.Array, weight: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return multiply(inputs, weight), (inputs, weight)


def _multiply_backward(
    kept: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    inputs, weight = kept
    sent = gradient.astype(inputs.dtype)
    to_weight = jnp.einsum("abi,abo->aio", inputs, sent, preferred_element_type=jnp.float32)
    to_inputs = jnp.einsum("abo,aio->abi", sent, weight, preferred_element_type=jnp.float32)
    return to_inputs.astype(inputs.dtype), to_weight.astype(weight.dtype)


multiply.defvjp(_multiply_forward, _multiply_backward)


def apply_networks(networks: Network, inputs: jax.Array, dtype: str = "float32") -> jax.Array:
    """Outputs (agents, batch, n_out) of every agent's network on its own inputs.

    With dtype bfloat16 what passes between layers is half as large; sums are still float32.
    """
    n_layers = len(networks) // 2
    hidden = inputs
    for layer in range(n_layers):
        weight, bias = networks[f"weight_{layer}"], networks[f"bias_{layer}"]
        if dtype != "float32":
            hidden, weight = hidden.astype(dtype), weight.astype(dtype)
        hidden = multiply(hidden, weight) + bias[:, None, :]
        if layer < n_layers - 1:
            hidden = jax.nn.relu(hidden if dtype == "float32" else hidden.astype(dtype))
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
