"""Crews that move between places: where each goes, what it gets done, what the way costs.

Every crew in turn takes the place where its load is worth most, among what the crews before it left
there. The worth of a load is read off counts above levels of worth, so that nothing is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, settle
from parity311.engines.backlog.process import comes_first
from parity311.engines.positions import first_of_largest

_EDGES = np.linspace(0.0, 1.0, 17, dtype=np.float32) ** 2
LEVELS = (_EDGES[1:] + _EDGES[:-1]) / 2
WIDTHS = np.diff(_EDGES)
"""Sixteen levels of worth by which a load is measured, closer together where most cases lie."""


class Orders(NamedTuple):
    """What crews are told for one step."""

    worth: jax.Array
    """(C,) what a visit to each cell is worth, 0 to 1: places and cases are chosen by it"""
    place_factor: jax.Array
    """(P,) by what the worth of a place's load is multiplied"""
    n_visits: jax.Array
    """(crews, 2) visits a crew makes where it stays, and after moving; 0 where off duty"""
    load: jax.Array
    """(2,) visits by which a place is judged, staying and moving"""
    fixed_place: jax.Array
    """(crews,) int32 where a crew is sent regardless of worth; -1 leaves it the choice"""
    most_at_place: int | jax.Array
    """crews that may work in one place"""


class Sent(NamedTuple):
    """Where crews went and what they visited."""

    places: jax.Array
    """(crews,) int32"""
    visited: jax.Array
    """(P, C) cases visited"""
    n_moves: jax.Array
    """() crews that changed place"""


def load_worth(above: jax.Array, n_visits: jax.Array) -> jax.Array:
    """Worth of the best `n_visits` cases, from counts above each level (..., 16)."""
    return jnp.minimum(above, n_visits) @ jnp.asarray(WIDTHS)


def send_crews(waiting: jax.Array, places: jax.Array, orders: Orders) -> Sent:
    """Send every crew (in turn) and let it work; waiting is (P, C), places (crews,).

    Places are chosen one crew after the other, from counts above levels alone; the cases they
    visit follow for all crews at once, since who comes later at a place goes on where others left.
    """
    orders = settle(orders._replace(most_at_place=jnp.int32(orders.most_at_place)))
    reaches = (orders.worth[:, None] >= LEVELS[None, :]).astype(jnp.float32)
    # The barriers keep the compiler from computing a stage again for everything that reads it.
    above = settle(waiting @ reaches)
    staying, moving = load_worth(above, orders.load[0]), load_worth(above, orders.load[1])
    numbers = jnp.arange(waiting.shape[0])
    n_at = jnp.zeros(waiting.shape[0], jnp.float32)
    n_made = jnp.zeros(waiting.shape[0], jnp.float32)
    went: list[jax.Array] = []
    spans: list[jax.Array] = []
    for crew in range(places.shape[0]):
        on_duty = orders.n_visits[crew].max() > 0
        worth = jnp.where(numbers == places[crew], staying, moving) * orders.place_factor
        best = first_of_largest(jnp.where(n_at < orders.most_at_place, worth, -1.0))
        fixed = orders.fixed_place[crew]
        place = jnp.where(fixed >= 0, fixed, best)
        place = jnp.where(on_duty, place, places[crew]).astype(jnp.int32)
        earlier = n_made[place]
        made = earlier + jnp.where(place == places[crew], *orders.n_visits[crew])
        here = numbers == place
        # What the best cases are worth after those that are already taken.
        here_above = above[place]
        taken_worth = load_worth(here_above, made)
        left = [load_worth(here_above, made + load) - taken_worth for load in orders.load]
        staying = jnp.where(here, left[0], staying)
        moving = jnp.where(here, left[1], moving)
        n_made = jnp.where(here, made, n_made)
        n_at = n_at + (here & on_duty)
        staying, moving, n_made, n_at, place = settle((staying, moving, n_made, n_at, place))
        went.append(place)
        spans.append(jnp.stack([earlier, made]))
    chosen, span = jnp.stack(went), jnp.stack(spans)
    rows = waiting[chosen]
    ahead = rows @ comes_first(orders.worth)
    reached = jnp.clip(span[:, :, None] - ahead[:, None, :], 0.0, rows[:, None, :])
    taken = reached[:, 1] - reached[:, 0]
    at = (chosen[:, None] == numbers).astype(jnp.float32)
    return Sent(chosen, at.T @ taken, (chosen != places).sum())
