"""Many designs of one city day by day, as one pure function that JAX compiles.

Backlogs are kept as C[cell, age], the requests that wait at least `age` days: a day is a shift,
and neither sorting nor summing is needed. Visits and reviews choose by systematic sampling with one
uniform for each cell and day: whole numbers, exact chances. All designs meet the same draws. The
axis of designs is the last one, and a chunk of them fits a core's cache.

The rules follow Liu and Garg (sla_design) in what is decided: split between districts, split
between categories over those that have somebody waiting, near first come, review with retention.
Splits are systematic too, where theirs are multinomial: a day's shares are kept to one visit.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.service_levels.designs import CITY, KEPT_PARTS, ServiceDesign, Setting

N_ROUNDS = 3
"""How often unused visits are split again by priority; what then is left is given in order."""
HALF = 0.5
"""Added to whole numbers before they are divided: XLA multiplies by a reciprocal, which can fall
just short of a whole quotient; with the half the floor is exact up to `EXACT`."""
CHUNK = 32
"""Designs side by side: their backlogs fit the second-level cache (64 took twice as long)."""


class Uniforms(NamedTuple):
    """Uniforms that all designs share, one row a day."""

    split: Any
    """(T, 1) of the split between districts"""
    share: Any
    """(T, G) of the split within each of G districts, or of the one city"""
    visit: Any
    """(T, B, K)"""
    review: Any
    """(T, B, K)"""


class Served(NamedTuple):
    """What became of the requests of each cell, for P designs."""

    at_least: Any
    """(B, K, A, P) judged requests that were visited after at least so many days"""
    n_visited: Any
    """(B, K, P) requests visited on any day, judged or not"""
    n_dropped: Any
    """(B, K, P) requests a review dropped, judged or not"""
    n_waiting: Any
    """(B, K, P) requests that still wait at the end"""
    n_unused: Any
    """(P,) visits nobody could use"""


def draw_uniforms(setting: Setting, seed: int) -> Uniforms:
    """Uniforms of a seed; the same for every design of the setting."""
    rng = np.random.default_rng(seed)
    n_districts, n_categories = setting.shape
    groups = 1 if setting.scope == CITY else n_districts
    days = setting.n_days
    return Uniforms(
        *(
            rng.random(shape, np.float32)
            for shape in (
                (days, 1),
                (days, groups),
                (days, n_districts, n_categories),
                (days, n_districts, n_categories),
            )
        )
    )


class _Days(NamedTuple):
    """What happens on each day, one row a day."""

    arrivals: Any
    """(T, B, K)"""
    capacity: Any
    """(T,)"""
    recent: Any
    """(T,)"""
    is_review: Any
    """(T, B)"""
    is_judged: Any
    """(T, A) 1 where a request of that age was received on a day that counts"""
    edges: Any
    """(T, 2) the first age that was received before those days, and the first received in them"""
    uniforms: Uniforms


def simulate(
    setting: Setting, designs: ServiceDesign, draws: Uniforms, *, n_threads: int = 1
) -> Served:
    """Serve a setting's requests under every design, in chunks; see `Served`.

    Chunks of one size share one compiled program; the last one is filled up with its first design.
    """
    run = _compiled(setting.shape, setting.scope, setting.n_ages)
    days = _days(setting, draws)
    look_back = np.float32(round(setting.look_back * 1024))

    def work(chunk: ServiceDesign) -> Served:
        summed, *rest = (np.asarray(part) for part in run(days, look_back, *chunk))
        return Served(_only_judged(setting, summed, rest[4], rest[5]), *rest[:4])

    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        found = list(pool.map(work, _chunks(designs)))
    return Served(
        *(np.concatenate(parts, axis=-1)[..., : designs.n] for parts in zip(*found, strict=True))
    )


def _only_judged(setting: Setting, summed: Any, older: Any, newer: Any) -> Any:
    """Visits by age (B, K, A, P) to the requests that count, from sums of those at least so old.

    A day's visits after exactly `a` days are those after at least a less those after at least
    a + 1. Summed over the days on which age a counts, the second sum differs from that of age
    a + 1 by one day at each end: `older` and `newer` (T, B, K, P) hold these.
    """
    if not setting.is_followed:
        return summed
    first, last = setting.judged
    ages = np.arange(1, setting.n_ages)
    ends = np.moveaxis(newer[last + ages - 1] - older[first + ages - 1], 0, 2)
    later = np.zeros_like(summed)
    later[:, :, :-1] = ends[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    # The last age stands for all longer waits: who is followed is not counted there.
    return np.where(
        np.arange(setting.n_ages)[:, None] < setting.n_ages - 1,
        summed - summed[:, :, -1:] + later,
        0.0,
    )


def _chunks(designs: ServiceDesign) -> Iterator[ServiceDesign]:
    size = min(CHUNK, designs.n)
    for start in range(0, designs.n, size):
        places = np.arange(start, start + size)
        yield designs.take(np.where(places < designs.n, places, start))


def _days(setting: Setting, draws: Uniforms) -> _Days:
    """What all chunks share."""
    day = np.arange(setting.n_days)
    age = np.arange(setting.n_ages)
    first, last = setting.judged
    received = day[:, None] - age
    is_judged = (received >= first) & (received < last) if setting.is_followed else received > -1e9
    edges = np.clip(np.stack([day - first + 1, day - last + 1], axis=1), 0, setting.n_ages - 1)
    return _Days(
        arrivals=setting.arrivals.astype(np.float32),
        capacity=setting.capacity.astype(np.float32),
        recent=setting.recent.astype(np.float32),
        is_review=(day[:, None] + 1) % np.array(setting.review_every) == 0,
        is_judged=is_judged.astype(np.float32),
        edges=edges.astype(np.int32),
        uniforms=Uniforms(*(np.asarray(part, np.float32) for part in draws)),
    )


@cache
def _compiled(shape: tuple[int, int], scope: str, n_ages: int) -> Any:
    """The program for settings of one shape."""

    def run(
        today: _Days,
        look_back: Any,
        budget: Any,
        priority: Any,
        retention: Any,
    ) -> tuple[Any, ...]:
        n_designs = budget.shape[-1]
        cells = jnp.zeros((*shape, n_designs), jnp.float32)
        ages = jnp.zeros((*shape, n_ages, n_designs), jnp.float32)
        none = jnp.zeros(n_designs, jnp.float32)
        start = (ages, ages, cells, cells, none, none)

        def step(carry: Any, day: _Days) -> tuple[Any, Any]:
            waiting, summed, n_visited, n_dropped, n_unused, spare = carry
            waiting = _age(waiting, day.arrivals)
            spare = jnp.minimum(spare, day.recent)
            backlog = waiting[:, :, 0]
            pools, unused = _split(scope, day.capacity + spare, budget, backlog, day.uniforms.split)
            visits, left = _share(pools, priority, backlog, day.uniforms.share, scope)
            choice = _prepare(visits, backlog, look_back, day.uniforms.visit)
            served = _choose(waiting, choice)
            summed = summed + day.is_judged[:, None] * served
            edges = [_choose(_at(waiting, age), choice)[:, :, 0] for age in day.edges]
            waiting = waiting - served
            before = backlog - visits
            waiting = jax.lax.cond(
                day.is_review.any(),
                lambda now: _review(now, day.is_review, retention, day.uniforms.review),
                lambda now: now,
                waiting,
            )
            n_dropped = n_dropped + before - waiting[:, :, 0]
            n_unused = n_unused + unused + left - spare
            carry = (waiting, summed, n_visited + visits, n_dropped, n_unused, unused + left)
            return carry, tuple(edges)

        carry, edges = jax.lax.scan(step, start, today)
        waiting, summed, n_visited, n_dropped, n_unused, _ = carry
        return summed, n_visited, n_dropped, waiting[:, :, 0], n_unused, *edges

    return jax.jit(run)


def _age(waiting: Any, arrived: Any) -> Any:
    """A day older, with the day's requests: (B, K, A, P)."""
    first = waiting[:, :, :1] + arrived[:, :, None, None]
    return jnp.concatenate([first, waiting[:, :, :-1]], axis=2)


def _systematic(whole: Any, parts: Any, total: Any, uniform: Any) -> Any:
    """Split whole numbers by parts on the axis before the last: rounded cumulative shares.

    `total` is the sum of the parts, at least one.
    """
    start = jnp.minimum(jnp.floor(uniform * total), total - 1.0) + HALF
    upto = jnp.floor((whole * jnp.cumsum(parts, axis=-2) + start) / total)
    return jnp.diff(upto, axis=-2, prepend=jnp.zeros_like(upto[..., :1, :]))


def _split(scope: str, n_slots: Any, budget: Any, backlog: Any, uniform: Any) -> tuple[Any, Any]:
    """Visits of each pool (G, P), of `n_slots` (P,), and those its district cannot use."""
    if scope == CITY:
        pools = jnp.broadcast_to(n_slots, (1, budget.shape[-1]))
        wanted = backlog.sum(axis=(0, 1))[None]
    else:
        total = budget.sum(axis=0, keepdims=True)
        pools = _systematic(n_slots, budget, total, uniform[:, None])
        wanted = backlog.sum(axis=1)
    used = jnp.minimum(pools, wanted)
    return used, (pools - used).sum(axis=0)


def _share(pools: Any, priority: Any, backlog: Any, uniform: Any, scope: str) -> tuple[Any, Any]:
    """Visits of each cell (B, K, P): by priority over those with somebody waiting."""
    shape = backlog.shape
    if scope == CITY:
        flat = (1, shape[0] * shape[1], shape[2])
        priority, backlog = priority.reshape(flat), backlog.reshape(flat)
    visits, left = jnp.zeros_like(backlog), pools
    for _ in range(N_ROUNDS):
        parts = jnp.where(visits < backlog, priority, 0.0)
        total = jnp.maximum(parts.sum(axis=1, keepdims=True), 1.0)
        more = _systematic(left[:, None], parts, total, uniform[:, None, None])
        more = jnp.minimum(more, backlog - visits)
        visits, left = visits + more, left - more.sum(axis=1)
    room = jnp.cumsum(backlog - visits, axis=1)
    filled = jnp.minimum(room, left[:, None])
    visits = visits + jnp.diff(filled, axis=1, prepend=jnp.zeros_like(filled[:, :1]))
    left = left - filled[:, -1]
    return visits.reshape(shape), left.sum(axis=0)


class _Choice(NamedTuple):
    """How a day's visits of each cell (B, K, 1, P) pick among the waiting."""

    visits: Any
    reach: Any
    """of the oldest, so many are chosen among"""
    start: Any


def _prepare(visits: Any, backlog: Any, look_back: Any, uniform: Any) -> _Choice:
    reach = visits + jnp.floor((look_back * (backlog - visits) + 512.0) / 1024.0)
    reach = jnp.maximum(reach, 1.0)
    start = jnp.minimum(jnp.floor(uniform[:, :, None] * reach), reach - 1.0) + HALF
    return _Choice(*(part[:, :, None] for part in (visits, reach, start)))


def _choose(waiting: Any, choice: _Choice) -> Any:
    """Visits (B, K, a, P) to those who wait at least so long: near first come."""
    inside = jnp.minimum(waiting, choice.reach)
    served = jnp.floor((inside * choice.visits + choice.start) / choice.reach)
    # Beyond what single precision counts exactly, rounding must not visit anybody twice.
    return jnp.minimum(served, jnp.minimum(inside, choice.visits))


def _at(waiting: Any, age: Any) -> Any:
    """Those who wait at least `age` days, (B, K, 1, P)."""
    return jax.lax.dynamic_slice_in_dim(waiting, age, 1, axis=2)


def _review(waiting: Any, is_today: Any, retention: Any, uniform: Any) -> Any:
    """Drop for good what a review does not keep."""
    kept = jnp.where(is_today[:, None, None], retention, float(KEPT_PARTS))[:, :, None]
    start = jnp.floor(uniform * KEPT_PARTS)[:, :, None, None]
    return jnp.floor((waiting * kept + start) / KEPT_PARTS)
