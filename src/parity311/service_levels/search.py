"""Designs that no other beats in cost and inequity: an evolutionary search, and another beside it.

`search_front` is NSGA-II (Deb, Pratap, Agarwal and Meyarivan 2002): non-dominated sorting with
crowding, simulated binary crossover, polynomial mutation, and constraint domination, so that a
design that leaves a cell below the floor loses against any that does not. `search_by_weights` asks
SciPy's differential evolution for the best design of each of several weights (the weighted
Chebyshev distance to the best of each loss). Evaluations are cheap and there are dozens of numbers,
so neither builds a model of the losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Evaluate = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Points (P, n) of the unit cube -> losses (P, 2), less being better, and by how much each breaks
the constraint (P,), 0 where it holds."""
CROSSOVER_INDEX, MUTATION_INDEX = 15.0, 20.0
"""Spread of crossover and mutation (Deb's usual values)."""
CROSSOVER_SHARE = 0.9
N_WEIGHTS = 5
PENALTY = 10.0
"""What breaking the constraint by one costs the search by weights, in spans of the losses."""


class FoundDesigns(NamedTuple):
    """What a search found, and how it got there."""

    numbers: NDArray[np.float64]
    """(P, n) designs that no other found one beats"""
    losses: NDArray[np.float64]
    """(P, 2)"""
    history: NDArray[np.float64]
    """hypervolume after each generation, over that of the box"""
    n_evaluations: int


def search_front(
    evaluate: Evaluate,
    start: NDArray[np.float64],
    *,
    n_generations: int,
    n_population: int,
    seed: int,
    reference: NDArray[np.float64] | None = None,
) -> FoundDesigns:
    """NSGA-II from points (any, n); the population is filled up at random.

    `reference` (2,) closes the box that hypervolumes are measured in; the worst of the first
    generation if not given.
    """
    rng = np.random.default_rng(seed)
    n = start.shape[1]
    drawn = rng.random((max(n_population - len(start), 0), n))
    population = np.vstack([start, drawn])[:n_population]
    losses, broken = evaluate(population)
    corner = losses.max(axis=0) if reference is None else np.asarray(reference, np.float64)
    history = [dominated_area(losses[broken <= 0], corner)]
    for _ in range(n_generations):
        rank, crowding = rank_designs(losses, broken)
        parents = _tournament(rng, rank, crowding, n_population)
        children = _mutate(rng, _cross(rng, population[parents]))
        new_losses, new_broken = evaluate(children)
        population = np.vstack([population, children])
        losses, broken = np.vstack([losses, new_losses]), np.append(broken, new_broken)
        rank, crowding = rank_designs(losses, broken)
        kept = np.lexsort((-crowding, rank))[:n_population]
        population, losses, broken = population[kept], losses[kept], broken[kept]
        history.append(dominated_area(losses[broken <= 0], corner))
    best = np.flatnonzero(rank_designs(losses, broken)[0] == 0)
    best = best[np.unique(losses[best], axis=0, return_index=True)[1]]
    n_evaluations = n_population * (n_generations + 1)
    return FoundDesigns(population[best], losses[best], np.array(history), n_evaluations)


def search_by_weights(
    evaluate: Evaluate,
    start: NDArray[np.float64],
    *,
    n_generations: int,
    n_population: int,
    seed: int,
    reference: NDArray[np.float64] | None = None,
) -> FoundDesigns:
    """The second optimiser: differential evolution for each weight, with the budget shared out."""
    from scipy.optimize import differential_evolution

    rng = np.random.default_rng(seed)
    losses, broken = evaluate(start)
    usable = losses[broken <= 0] if (broken <= 0).any() else losses
    ideal = usable.min(axis=0)
    span = np.maximum(losses.max(axis=0) - ideal, 1e-12)
    corner = losses.max(axis=0) if reference is None else np.asarray(reference, np.float64)
    points, kept, history = [start[broken <= 0]], [losses[broken <= 0]], []
    n_each = max(n_generations // N_WEIGHTS, 1)
    for number, weight in enumerate(np.linspace(0.05, 0.95, N_WEIGHTS)):
        pair = np.array([weight, 1.0 - weight])

        def distance(columns: NDArray[np.float64], pair: NDArray = pair) -> NDArray[np.float64]:
            rows = columns.T
            found, over = evaluate(rows)
            points.append(rows[over <= 0])
            kept.append(found[over <= 0])
            scaled = (found - ideal) / span
            return (pair * scaled).max(axis=1) + 0.05 * (pair * scaled).sum(axis=1) + PENALTY * over

        first = np.vstack([start, rng.random((max(n_population - len(start), 5), start.shape[1]))])
        differential_evolution(
            distance,
            [(0.0, 1.0)] * start.shape[1],
            init=first[:n_population],  # pyright: ignore[reportArgumentType]
            maxiter=n_each,
            rng=seed + number,
            vectorized=True,
            updating="deferred",
            polish=False,
            tol=0.0,
        )
        history.append(dominated_area(np.vstack(kept), corner))
    everything, their_losses = np.vstack(points), np.vstack(kept)
    best = np.flatnonzero(find_unbeaten(their_losses))
    n_evaluations = len(start) + N_WEIGHTS * (n_each + 1) * n_population
    return FoundDesigns(everything[best], their_losses[best], np.array(history), n_evaluations)


def find_unbeaten(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(P,) which points no other beats, less being better; of equal ones the first."""
    order = np.lexsort((losses[:, 1], losses[:, 0]))
    second = losses[order, 1]
    before = np.minimum.accumulate(np.append(np.inf, second[:-1]))
    found = np.zeros(len(losses), np.bool_)
    found[order[second < before]] = True
    return found


def dominated_area(losses: NDArray[np.float64], corner: NDArray[np.float64]) -> float:
    """Share of the box from zero to the corner that points (P, 2) beat."""
    inside = losses[(losses < corner).all(axis=1)]
    if not len(inside):
        return 0.0
    front = inside[find_unbeaten(inside)]
    front = front[np.argsort(front[:, 0])]
    ends = np.append(front[1:, 0], corner[0])
    return float(((ends - front[:, 0]) * (corner[1] - front[:, 1])).sum() / corner.prod())


def rank_designs(
    losses: NDArray[np.float64], broken: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rank (0 is unbeaten) and crowding of each; what breaks the constraint comes last."""
    rank = np.full(len(losses), -1)
    crowding = np.zeros(len(losses))
    left = np.flatnonzero(broken <= 0)
    level = 0
    while len(left):
        front = left[find_unbeaten(losses[left])]
        rank[front] = level
        crowding[front] = _crowding(losses[front])
        left = np.setdiff1d(left, front)
        level += 1
    over = np.flatnonzero(broken > 0)
    # Whoever breaks it less is better, whatever the losses.
    rank[over[np.argsort(broken[over], kind="stable")]] = level + np.arange(len(over))
    return rank, crowding


def _crowding(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.zeros(len(losses))
    for column in losses.T:
        order = np.argsort(column)
        span = max(column[order[-1]] - column[order[0]], 1e-12)
        found[order[[0, -1]]] = np.inf
        found[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return found


def _tournament(
    rng: np.random.Generator, rank: NDArray, crowding: NDArray, n: int
) -> NDArray[np.int64]:
    first, second = rng.integers(0, len(rank), (2, n))
    is_first = (rank[first] < rank[second]) | (
        (rank[first] == rank[second]) & (crowding[first] >= crowding[second])
    )
    return np.where(is_first, first, second)


def _cross(rng: np.random.Generator, parents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Simulated binary crossover of neighbours, number by number."""
    children = parents.copy()
    half = len(parents) // 2
    a, b = parents[0 : 2 * half : 2], parents[1 : 2 * half : 2]
    u = rng.random(a.shape)
    power = 1.0 / (CROSSOVER_INDEX + 1.0)
    beta = np.where(u <= 0.5, (2 * u) ** power, (1 / (2 * (1 - u))) ** power)
    crosses = (rng.random(a.shape) < 0.5) & (rng.random((half, 1)) < CROSSOVER_SHARE)
    beta = np.where(crosses, beta, 1.0)
    children[0 : 2 * half : 2] = 0.5 * ((1 + beta) * a + (1 - beta) * b)
    children[1 : 2 * half : 2] = 0.5 * ((1 - beta) * a + (1 + beta) * b)
    return np.clip(children, 0.0, 1.0)


def _mutate(rng: np.random.Generator, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Polynomial mutation of about one number a point."""
    u = rng.random(points.shape)
    power = 1.0 / (MUTATION_INDEX + 1.0)
    step = np.where(u < 0.5, (2 * u) ** power - 1, 1 - (2 * (1 - u)) ** power)
    chosen = rng.random(points.shape) < 1.0 / points.shape[1]
    return np.clip(points + np.where(chosen, step, 0.0), 0.0, 1.0)
