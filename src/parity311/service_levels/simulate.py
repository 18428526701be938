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


def simulate(
    setting: Setting, designs: ServiceDesign, draws: Uniforms, *, n_threads: int = 1
) -> Served:
    """Serve a setting's requests under every design, in chunks; see `Served`.

    Chunks of one size share one compiled program; the last one is filled up with its first design.
    """
    run = _compiled(setting.shape, setting.scope, setting.n_ages, setting.is_followed)
    fixed = _fixed(setting, draws)
    chunks = list(_chunks(designs))
    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        found = list(pool.map(lambda chunk: [np.asarray(x) for x in run(*fixed, *chunk)], chunks))
    joined = [
        np.concatenate(parts, axis=-1)[..., : designs.n] for parts in zip(*found, strict=True)
    ]
    return Served(*joined)


def _chunks(designs: ServiceDesign) -> Iterator[ServiceDesign]:
    size = min(CHUNK, designs.n)
    for start in range(0, designs.n, size):
        places = np.arange(start, start + size)
        yield designs.take(np.where(places < designs.n, places, start))


def _fixed(setting: Setting, draws: Uniforms) -> tuple[Any, ...]:
    """What all chunks share: the days' inputs, the look-back and the days that count."""
    days = np.arange(setting.n_days)
    is_review = (days[:, None] + 1) % np.array(setting.review_every) == 0
    first, last = setting.judged
    return (
        days.astype(np.int32),
        setting.arrivals.astype(np.float32),
        setting.capacity.astype(np.float32),
        is_review,
        Uniforms(*(np.asarray(part, np.float32) for part in draws)),
        np.float32(round(setting.look_back * 1024)),
        np.array([first, last], np.int32),
    )


@cache
def _compiled(shape: tuple[int, int], scope: str, n_ages: int, is_followed: bool) -> Any:
    """The program for settings of one shape."""

    def run(
        days: Any,
        arrivals: Any,
        capacity: Any,
        is_review: Any,
        draws: Uniforms,
        look_back: Any,
        judged: Any,
        budget: Any,
        priority: Any,
        retention: Any,
    ) -> Served:
        n_designs = budget.shape[-1]
        cells = jnp.zeros((*shape, n_designs), jnp.float32)
        ages = jnp.zeros((*shape, n_ages, n_designs), jnp.float32)
        start = (ages, ages, cells, cells, jnp.zeros(n_designs, jnp.float32))

        def step(carry: Any, today: Any) -> tuple[Any, None]:
            waiting, at_least, n_visited, n_dropped, n_unused = carry
            day, arrived, n_slots, review_today, own = today
            waiting = _age(waiting, arrived)
            backlog = waiting[:, :, 0]
            pools, unused = _split(scope, n_slots, budget, backlog, own.split)
            visits, left = _share(pools, priority, backlog, own.share, scope)
            waiting, served = _visit(waiting, visits, look_back, own.visit)
            at_least = at_least + _judge(served, day, judged, is_followed)
            before = waiting[:, :, 0]
            waiting = jax.lax.cond(
                review_today.any(),
                lambda now: _review(now, review_today, retention, own.review),
                lambda now: now,
                waiting,
            )
            n_dropped = n_dropped + before - waiting[:, :, 0]
            return (
                waiting, at_least, n_visited + visits, n_dropped, n_unused + unused + left,
            ), None  # fmt: skip

        days_in = (days, arrivals, capacity, is_review, draws)
        (waiting, at_least, n_visited, n_dropped, n_unused), _ = jax.lax.scan(step, start, days_in)
        return Served(at_least, n_visited, n_dropped, waiting[:, :, 0], n_unused)

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
    """Visits of each pool (G, P), and those its district cannot use."""
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


def _visit(waiting: Any, visits: Any, look_back: Any, uniform: Any) -> tuple[Any, Any]:
    """Visit so many of the oldest, near first come; who waits then, and who was seen, by age."""
    backlog = waiting[:, :, 0]
    reach = visits + jnp.floor((look_back * (backlog - visits) + 512.0) / 1024.0)
    reach = jnp.maximum(reach, 1.0)
    start = jnp.minimum(jnp.floor(uniform[:, :, None] * reach), reach - 1.0) + HALF
    inside = jnp.minimum(waiting, reach[:, :, None])
    served = jnp.floor((inside * visits[:, :, None] + start[:, :, None]) / reach[:, :, None])
    # Beyond what single precision counts exactly, rounding must not visit anybody twice.
    served = jnp.minimum(served, jnp.minimum(inside, visits[:, :, None]))
    return waiting - served, served


def _judge(served: Any, day: Any, judged: Any, is_followed: bool) -> Any:
    """Visits (B, K, A, P) to requests received on days that count, by age."""
    n_ages = served.shape[2]
    first, last = judged[0], judged[1]

    def at(age: Any) -> Any:
        return jax.lax.dynamic_slice_in_dim(served, jnp.clip(age, 0, n_ages - 1), 1, axis=2)

    # The last age stands for all longer waits: who is followed is not counted there.
    older = at(day - first + 1)
    if not is_followed:
        older = jnp.where(day - first + 1 >= n_ages, 0.0, older)
    newer = at(day - last + 1)
    return jnp.clip(served, older, newer) - older


def _review(waiting: Any, is_today: Any, retention: Any, uniform: Any) -> Any:
    """Drop for good what a review does not keep."""
    kept = jnp.where(is_today[:, None, None], retention, float(KEPT_PARTS))[:, :, None]
    start = jnp.floor(uniform * KEPT_PARTS)[:, :, None, None]
    return jnp.floor((waiting * kept + start) / KEPT_PARTS)
