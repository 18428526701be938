"""A policy that is a table: the action of the cell that an observation falls into."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.mdp.harness import Harness


class TablePolicy(NamedTuple):
    """The action of the cell that the observation falls into."""

    factors: jax.Array
    """(n_features,) what makes whole numbers of the features"""
    strides: jax.Array
    """(n_features,) int32"""
    offset: jax.Array
    actions: jax.Array
    """(n_cells,) int8"""
    worth: jax.Array | None = None
    """(n_cells,) what action 1 is worth more than 0, to rank cells by; None: no ranking"""
    values: jax.Array | np.ndarray | None = None
    """(n_cells, n_actions) float16: value of every action less that of the cell's own, which is the
    highest; None where they were not kept"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        del key
        return self.actions[self.cell(observation)].astype(jnp.int32)

    def cell(self, observation: jax.Array) -> jax.Array:
        """The cell that an observation falls into."""
        whole = jnp.rint(self.factors * observation).astype(jnp.int32)
        cell = (whole * self.strides).sum() + self.offset
        return jnp.clip(cell, 0, self.actions.shape[0] - 1)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The policy as named arrays."""
        found = {
            "factors": self.factors,
            "strides": self.strides,
            "offset": self.offset,
            "cell_actions": self.actions,
            "n_actions": np.int32(harness.n_actions),
            "cell_worth": self.worth,
            "cell_values": self.values,
        }
        return {name: np.asarray(one) for name, one in found.items() if one is not None}
