"""The daily simulation in plain Python, request by request: what the compiled one must equal.

Written from the rules, not from the compiled program: a backlog is a list of the days its requests
were received on, oldest first, and every choice walks over it. Slow, and easy to check by hand.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from parity311.service_levels.designs import CITY, KEPT_PARTS, ServiceDesign, Setting
from parity311.service_levels.simulate import N_ROUNDS, Uniforms


class Walked(NamedTuple):
    """What became of every request under one design, by (district, category)."""

    visited: dict[tuple[int, int], list[tuple[int, int]]]
    """(day received, day visited) of each visited request"""
    dropped: dict[tuple[int, int], list[tuple[int, int]]]
    """(day received, day dropped)"""
    waiting: dict[tuple[int, int], list[int]]
    """days received of those that still wait"""
    n_unused: int


def walk(setting: Setting, designs: ServiceDesign, place: int, draws: Uniforms) -> Walked:
    """Serve a setting's requests under the design at a place, one by one."""
    n_districts, n_categories = setting.shape
    cells = [(b, k) for b in range(n_districts) for k in range(n_categories)]
    found = Walked({c: [] for c in cells}, {c: [] for c in cells}, {c: [] for c in cells}, 0)
    unused = spare = 0
    for day in range(setting.n_days):
        for b, k in cells:
            found.waiting[b, k] += [day] * int(setting.arrivals[day, b, k])
        groups = [cells] if setting.scope == CITY else [
            [(b, k) for k in range(n_categories)] for b in range(n_districts)
        ]  # fmt: skip
        spare = min(spare, sum(setting.capacity[max(day - setting.unused_days, 0) : day].tolist()))
        unused -= spare
        pools = _pools(setting, designs, place, day, draws, spare)
        spare = 0
        for group, pool, uniform in zip(groups, pools, draws.share[day], strict=True):
            parts = [int(designs.priority[b, k, place]) for b, k in group]
            backlog = [len(found.waiting[cell]) for cell in group]
            used = min(pool, sum(backlog))
            spare += pool - used
            for cell, n in zip(group, share_out(used, parts, backlog, uniform), strict=True):
                _visit(found, cell, n, day, setting.look_back, draws.visit[day][cell])
        unused += spare
        for b, k in cells:
            if (day + 1) % setting.review_every[b] == 0:
                kept = int(designs.retention[b, k, place])
                _review(found, (b, k), kept, day, draws.review[day][b, k])
    return found._replace(n_unused=unused)


def _below(uniform: float, n: int) -> int:
    """A whole number below n from a uniform, as single precision gives it."""
    return min(int(np.floor(np.float32(uniform) * np.float32(n))), n - 1)


def split(whole: int, parts: list[int], uniform: float) -> list[int]:
    """Split a whole number by parts: each gets its share, rounded up or down."""
    total = max(sum(parts), 1)
    start = _below(uniform, total)
    upto = [(whole * part + start) // total for part in accumulate(parts)]
    return [b - a for a, b in zip([0, *upto[:-1]], upto, strict=True)]


def _pools(
    setting: Setting, designs: ServiceDesign, place: int, day: int, draws: Uniforms, spare: int
) -> list[int]:
    n_slots = int(setting.capacity[day]) + spare
    if setting.scope == CITY:
        return [n_slots]
    parts = [int(part) for part in designs.budget[:, place]]
    return split(n_slots, parts, draws.split[day, 0])


def share_out(n: int, parts: list[int], backlog: list[int], uniform: float) -> list[int]:
    """Visits of each cell of a pool that can use them all."""
    visits = [0] * len(parts)
    for _ in range(N_ROUNDS):
        open_parts = [
            part if done < there else 0
            for part, done, there in zip(parts, visits, backlog, strict=True)
        ]
        for i, more in enumerate(split(n, open_parts, uniform)):
            more = min(more, backlog[i] - visits[i])
            visits[i] += more
            n -= more
    for i, there in enumerate(backlog):
        more = min(n, there - visits[i])
        visits[i] += more
        n -= more
    return visits


def _visit(
    found: Walked, cell: tuple[int, int], n: int, day: int, look_back: float, uniform: float
) -> None:
    """Visit n of the oldest that a day reaches: every reach-th n-th, from a drawn start."""
    waiting = found.waiting[cell]
    parts = round(look_back * 1024)
    reach = max(n + (parts * (len(waiting) - n) + 512) // 1024, 1)
    start = _below(uniform, reach)
    # Counted from the oldest: the i-th is seen where i·n + start passes a multiple of the reach.
    seen = [
        i < reach and ((i + 1) * n + start) // reach > (i * n + start) // reach
        for i in range(len(waiting))
    ]
    found.visited[cell].extend((d, day) for d, hit in zip(waiting, seen, strict=True) if hit)
    found.waiting[cell] = [d for d, hit in zip(waiting, seen, strict=True) if not hit]


def _review(found: Walked, cell: tuple[int, int], kept: int, day: int, uniform: float) -> None:
    waiting = found.waiting[cell]
    start = int(np.floor(np.float32(uniform) * np.float32(KEPT_PARTS)))
    stays = [
        ((i + 1) * kept + start) // KEPT_PARTS > (i * kept + start) // KEPT_PARTS
        for i in range(len(waiting))
    ]
    found.dropped[cell].extend((d, day) for d, s in zip(waiting, stays, strict=True) if not s)
    found.waiting[cell] = [d for d, s in zip(waiting, stays, strict=True) if s]


def visits_by_age(setting: Setting, walked: Walked) -> np.ndarray:
    """(B, K, A) judged requests visited after at least so many days, as `Served.at_least`."""
    first, last = setting.judged
    found = np.zeros((*setting.shape, setting.n_ages))
    for cell, pairs in walked.visited.items():
        for received, visited in pairs:
            age = visited - received
            if not first <= received < last or (setting.is_followed and age >= setting.n_ages - 1):
                continue
            found[cell][: min(age, setting.n_ages - 1) + 1] += 1
    return found
