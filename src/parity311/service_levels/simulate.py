"""Many designs of one city day by day, as one pure function that JAX compiles.

Two passes. How many of a cell's requests are visited and dropped on a day hangs on how many wait
there, not on how long: the first pass walks over the days with one count a cell. The second follows
W[cell, day received], those received up to a day that still wait: each is thinned by its cell's
visits and reviews of the days that follow, whatever happens to the others, so it goes through
waits of 0, 1, 2 … days for all days received at once, and neither sorts nor shifts. It does so only
for the days whose requests count.

Visits and reviews choose by systematic sampling with one uniform for each cell and day: whole
numbers, exact chances. All designs meet the same draws. The axis of designs is the last one.

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
"""Designs side by side: a cell's days fit the second-level cache (64 are no quicker, 16 half as
quick)."""
BLOCK = 512
"""Days received side by side: with more, XLA splits every step between cores, which costs more than
it gains where each core has designs of its own."""


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
    uniforms: Uniforms


def simulate(
    setting: Setting, designs: ServiceDesign, draws: Uniforms, *, n_threads: int = 1
) -> Served:
    """Serve a setting's requests under every design, in chunks; see `Served`.

    Chunks of one size share one compiled program; the last one is filled up with its first design.
    """
    run = _compiled(setting.shape, setting.scope, setting.n_ages, setting.judged)
    days = _days(setting, draws)
    look_back = np.float32(round(setting.look_back * 1024))

    def work(chunk: ServiceDesign) -> Served:
        by_age, *rest = (np.asarray(part) for part in run(days, look_back, *chunk))
        return Served(_only_judged(setting, *np.moveaxis(by_age, 3, 0)), *rest)

    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        found = list(pool.map(work, _chunks(designs)))
    return Served(
        *(np.concatenate(parts, axis=-1)[..., : designs.n] for parts in zip(*found, strict=True))
    )


def _only_judged(setting: Setting, summed: Any, older: Any, newest: Any) -> Any:
    """Visits by age (B, K, A, P) to the requests that count, from sums of those at least so old.

    A day's visits after exactly `a` days are those after at least a less those after at least
    a + 1, received up to the day before. Summed over the days that count, the second sum lacks
    the last of them, `newest`, and has the day before the first, `older`.
    """
    if not setting.is_followed:
        return summed
    # The last age stands for all longer waits: who is followed is not counted there.
    exact = summed[:, :, :-1] - (summed + older - newest)[:, :, 1:]
    return np.pad(exact[:, :, ::-1].cumsum(axis=2)[:, :, ::-1], ((0, 0), (0, 0), (0, 1), (0, 0)))


def _chunks(designs: ServiceDesign) -> Iterator[ServiceDesign]:
    size = min(CHUNK, designs.n)
    for start in range(0, designs.n, size):
        places = np.arange(start, start + size)
        yield designs.take(np.where(places < designs.n, places, start))


def _days(setting: Setting, draws: Uniforms) -> _Days:
    """What all chunks share."""
    day = np.arange(setting.n_days)
    return _Days(
        arrivals=setting.arrivals.astype(np.float32),
        capacity=setting.capacity.astype(np.float32),
        recent=setting.recent.astype(np.float32),
        is_review=(day[:, None] + 1) % np.array(setting.review_every) == 0,
        uniforms=Uniforms(*(np.asarray(part, np.float32) for part in draws)),
    )


@cache
def _compiled(shape: tuple[int, int], scope: str, n_ages: int, judged: tuple[int, int]) -> Any:
    """The program for settings of one shape."""

    def run(
        today: _Days, look_back: Any, budget: Any, priority: Any, retention: Any
    ) -> tuple[Any, ...]:
        counts, (backlog, visits) = _walk_days(shape, scope, today, (budget, priority, retention))
        by_age = _follow(today, look_back, retention, backlog, visits, n_ages, judged)
        return by_age, *counts

    return jax.jit(run)


def _walk_days(
    shape: tuple[int, int], scope: str, days: _Days, design: tuple[Any, Any, Any]
) -> tuple[tuple[Any, ...], tuple[Any, Any]]:
    """Counts of `Served` but `at_least`; who waited and who was visited each day, (T, B, K, P)."""
    budget, priority, retention = design
    n_designs = budget.shape[-1]
    cells = jnp.zeros((*shape, n_designs), jnp.float32)
    none = jnp.zeros(n_designs, jnp.float32)

    def step(carry: Any, day: _Days) -> tuple[Any, Any]:
        waiting, n_visited, n_dropped, n_unused, spare = carry
        backlog = waiting + day.arrivals[:, :, None]
        spare = jnp.minimum(spare, day.recent)
        pools, unused = _split(scope, day.capacity + spare, budget, backlog, day.uniforms.split)
        visits, left = _share(pools, priority, backlog, day.uniforms.share, scope)
        before = backlog - visits
        review = _prepare_review(
            day.is_review[:, None, None], retention, day.uniforms.review[:, :, None]
        )
        waiting = _keep(before, *review)
        n_dropped = n_dropped + before - waiting
        n_unused = n_unused + unused + left - spare
        carry = (waiting, n_visited + visits, n_dropped, n_unused, unused + left)
        return carry, (backlog, visits)

    start = (cells, cells, cells, none, none)
    (waiting, n_visited, n_dropped, n_unused, _), walked = jax.lax.scan(step, start, days)
    return (n_visited, n_dropped, waiting, n_unused), walked


class _Choice(NamedTuple):
    """How the visits and the review of one cell pick among the waiting, a day; (T, P) each."""

    visits: Any
    reach: Any
    """of the oldest, so many are chosen among"""
    start: Any
    kept: Any
    """parts of `KEPT_PARTS` a review keeps, all on a day without one"""
    review_start: Any


IDLE = _Choice(0.0, 1.0, HALF, float(KEPT_PARTS), 0.0)
"""A day without visits and without a review."""


def _follow(
    days: _Days,
    look_back: Any,
    retention: Any,
    backlog: Any,
    visits: Any,
    n_ages: int,
    judged: tuple[int, int],
) -> Any:
    """Visits of those who waited at least 0, 1, … days, (B, K, A, 3, P), of the days that count.

    Summed over these days; and of those received up to the day before the first of them, and up
    to the last of them.
    """
    first, last = judged
    n_days, n_districts, n_categories, n_designs = visits.shape
    n_rows = last - first + 1
    n_blocks = -(-n_rows // BLOCK)
    size = -(-n_rows // n_blocks)
    counted = np.zeros((3, n_blocks * size), np.float32)
    counted[0, 1:n_rows] = counted[1, 0] = counted[2, n_rows - 1] = 1.0
    blocks = counted.reshape(3, n_blocks, size).swapaxes(0, 1)
    # A day before the first, for which nobody waits, and days after the last without a visit.
    lacking = (1, max(first + n_blocks * size + n_ages - 2 - n_days, 0))

    def one_cell(cell: Any) -> Any:
        mine = lambda part: part.reshape(n_days, -1, *part.shape[3:])[:, cell]  # noqa: E731
        there, draws = mine(backlog), days.uniforms
        visit = _prepare(mine(visits), there, look_back, mine(draws.visit)[:, None])
        is_review = days.is_review[:, cell // n_categories, None]
        kept = retention.reshape(-1, n_designs)[cell]
        review = _prepare_review(is_review, kept, mine(draws.review)[:, None])
        there, *choice = (
            jnp.pad(part, (lacking, (0, 0)), constant_values=idle)
            for part, idle in zip((there, *visit, *review), (0.0, *IDLE), strict=True)
        )

        def one_block(block: tuple[Any, Any]) -> Any:
            begins, counts = block

            def step(waiting: Any, age: Any) -> tuple[Any, Any]:
                today = _Choice(*(_rows(part, begins + age, size) for part in choice))
                served = _choose(waiting, today)
                seen = jnp.matmul(counts, served, precision="highest")
                return _keep(waiting - served, today.kept, today.review_start), seen

            return jax.lax.scan(step, _rows(there, begins, size), jnp.arange(n_ages))[1]

        begins = first + size * jnp.arange(n_blocks)
        return jax.lax.map(one_block, (begins, jnp.asarray(blocks))).sum(axis=0)

    found = jax.lax.map(one_cell, jnp.arange(n_districts * n_categories))
    return found.reshape(n_districts, n_categories, *found.shape[1:])


def _rows(values: Any, begins: Any, n: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(values, begins, n)


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


def _prepare(visits: Any, backlog: Any, look_back: Any, uniform: Any) -> tuple[Any, Any, Any]:
    """The visits, among how many of the oldest they choose, and from which start."""
    reach = visits + jnp.floor((look_back * (backlog - visits) + 512.0) / 1024.0)
    reach = jnp.maximum(reach, 1.0)
    start = jnp.minimum(jnp.floor(uniform * reach), reach - 1.0) + HALF
    return visits, reach, start


def _choose(waiting: Any, choice: _Choice) -> Any:
    """Visits to those who wait at least so long: near first come."""
    inside = _least(waiting, choice.reach)
    served = jnp.floor((inside * choice.visits + choice.start) / choice.reach)
    # Beyond what single precision counts exactly, rounding must not visit anybody twice.
    return _least(served, _least(inside, choice.visits))


def _least(one: Any, other: Any) -> Any:
    """The smaller of two numbers; XLA's own also looks for NaN, which takes three times as long."""
    return jnp.where(one < other, one, other)


def _prepare_review(is_today: Any, retention: Any, uniform: Any) -> tuple[Any, Any]:
    """How many parts a review keeps, and from which start."""
    kept = jnp.where(is_today, retention, float(KEPT_PARTS))
    return kept, jnp.where(is_today, jnp.floor(uniform * KEPT_PARTS), 0.0)


def _keep(waiting: Any, kept: Any, start: Any) -> Any:
    """Drop for good what a review does not keep."""
    return jnp.floor((waiting * kept + start) / KEPT_PARTS)
