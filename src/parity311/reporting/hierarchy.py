"""Fit reporting rates with partial pooling over areas: Laplace approximation, empirical Bayes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from parity311.reporting.likelihood import (
    EVEN,
    Mixture,
    RowData,
    gamma_mixture,
)
from parity311.reporting.model import (
    Curvature,
    Model,
    marginal_covariance,
)
from parity311.reporting.newton import SIGMA_START, State, climb, settle
from parity311.reporting.row_sums import Rows, sum_derivatives

SPREAD_MEAN = 1.0
"""Belief about v = 1/k, the variance between incidents of one place: exponential with this mean,
which is that of exponentially distributed rates. It hardly pulls where v is small."""
LOG_SHAPE_START = -1.9
SHAPE_STEP = 0.4
N_SHAPES = 19
"""Grid of log k: k from 0.15, below which quadrature is poor, to 200, then no spread at all."""
N_COARSE_ROWS = 30_000
N_SHAPE_ROWS = (60_000, 200_000)
"""Rows that the shape is searched on, and told from where it turns out large and where small: a
small spread needs less precision. The rest of the rows is fitted with the shape found."""
SMALL_SHAPE_STEP = 10
"""Grid step (k = 8) from which a shape counts as large."""
LEAST_SPREAD, MAX_SHAPE = 1e-3, 1e4
"""A variance between incidents that is none; a Gamma shape that is as good as none."""
N_WARM_ROWS = 100_000
"""Longer tables are fitted to this many rows first, so that few passes see all of them."""


@dataclass(frozen=True)
class Spread:
    """What the data say about v = 1/k, the variance of the Gamma mixture."""

    mean: float
    """Top of the evidence's parabola; below 0 where no spread at all is likelier than any."""
    sd: float
    pulls: np.ndarray
    """(n_parameters,) by how much the other parameters move with v."""

    @property
    def mode(self) -> float:
        """The likeliest v, never below 0."""
        return max(self.mean, 0.0)

    def draw(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Draw v, normal where it is not negative."""
        # In logarithms: where the top lies far below 0, the chance above it rounds to nothing.
        above = log_ndtr(self.mean / self.sd) + np.log1p(-rng.random(n_draws))
        return self.mean - self.sd * ndtri_exp(above)


def spread_mixture(spread: float) -> Mixture:
    """The mixture of a variance v between incidents of one place."""
    return EVEN if spread < LEAST_SPREAD else gamma_mixture(min(1.0 / spread, MAX_SHAPE))


@dataclass(frozen=True)
class Draws:
    """Joint draws of everything that P(reported) depends on."""

    parameters: np.ndarray
    """(n_draws, n_parameters)"""
    effects: np.ndarray
    """(n_draws, n_areas)"""
    mixtures: list[Mixture]


@dataclass(frozen=True)
class Fit:
    """The mode of a model, and its curvature."""

    model: Model
    parameters: np.ndarray
    effects: np.ndarray
    sigma: float
    curvature: Curvature
    n_steps: int
    has_converged: bool
    between: Spread | None = None
    """What is known of how rates vary between incidents of one place, where that is asked."""
    log_likelihood: float = float("nan")
    """Of the rows, at the mode of parameters and effects; without priors."""

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the parameters, effects summed out; 0 for fixed ones."""
        return marginal_covariance(self.model, self.curvature, self.sigma)

    def draw(self, rng: np.random.Generator, n_draws: int) -> Draws:
        """Draw parameters, effects and mixture jointly."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shift = rng.standard_normal((n_draws, len(values))) @ root.T
        mixtures = [self.model.mixture] * n_draws
        if self.between is not None:
            drawn = self.between.draw(rng, n_draws)
            shift = shift + (drawn - self.between.mode)[:, None] * self.between.pulls
            mixtures = [spread_mixture(float(value)) for value in drawn]
        spread = self.curvature.spread(self.sigma)
        mean = self.effects - (shift @ self.curvature.information_cross.T) / spread
        noise = rng.standard_normal((n_draws, len(self.effects))) / np.sqrt(spread)
        parameters = self.parameters + shift
        parameters[:, 0] += self._bend_of_silence(shift[:, -1])
        return Draws(parameters, mean + noise, mixtures)

    def _bend_of_silence(self, moved: np.ndarray) -> np.ndarray:
        """What a straight line misses of the ridge between log λ and the silent share θ.

        Duplicates tell λ(1 − θ). Along it log λ levels off as θ goes to 0, while a normal
        approximation would go on down and see ever more unreported incidents.
        """
        logit = self.parameters[-1]
        silent = 1.0 / (1.0 + np.exp(-logit))
        speaking = np.logaddexp(0.0, logit + moved) - np.logaddexp(0.0, logit)
        return speaking - silent * moved


def fit_hierarchy(
    model: Model, data: RowData, cell: np.ndarray, start_log_rate: float, *, is_mixed: bool = False
) -> Fit:
    """Find the mode and the spread of the area effects.

    Parameters
    ----------
    cell
        (n_rows,) cell of every row.
    is_mixed
        Whether rates vary between incidents of one place (Gamma), its shape found as well.
    """
    parameters = model.prior_mean
    parameters[0] = start_log_rate
    state = State(parameters, np.zeros(model.cells.n_areas), SIGMA_START, np.zeros(len(parameters)))
    rows = Rows.sort(data, cell, len(model.cells.area))
    state = settle(model, _some(rows, N_WARM_ROWS), state)
    between = None
    if is_mixed:
        between, state = _find_spread(model, rows, state)
        model = replace(model, mixture=spread_mixture(between.mode))
    state = settle(model, rows, state)
    return Fit(
        model,
        state.parameters,
        state.effects,
        state.sigma,
        state.here,
        state.n_steps,
        state.has_converged,
        between,
        sum_derivatives(
            model.law, model.mixture, model.unpack(state.parameters, state.effects), rows
        ).value,
    )


def _some(rows: Rows, n_at_most: int) -> Rows:
    """Evenly spaced rows, in order, at most so many."""
    n = len(rows.cell)
    if n <= n_at_most:
        return rows
    some = np.arange(0, n, -(-n // n_at_most))
    return Rows(rows.data.take(some), rows.cell[some], rows.n_cells)


def _find_spread(model: Model, rows: Rows, state: State) -> tuple[Spread, State]:
    """Find v = 1/k where the evidence is highest.

    Trials on few rows climb a grid of log k, from no spread down, in steps that halve; on many rows
    they climb on in the smallest step until the best has a worse one on either side. The parabola
    in v through the three gives mean and sd.
    """
    best = N_SHAPES - 1
    for stride in (4, 2):
        few = _some(rows, N_COARSE_ROWS)
        best, tried = _climb_grid(model, few, state, best, stride)
        state = tried[best][1]
    many = _some(rows, N_SHAPE_ROWS[0 if best >= SMALL_SHAPE_STEP else 1])
    state = settle(_with_shape(model, best), many, state)
    best, tried = _climb_grid(model, many, state, best, 1)
    middle = min(max(best, 1), N_SHAPES - 2)
    steps = np.array([middle - 1, middle, middle + 1])
    for step in steps:
        _try_shape(tried, model, many, int(step), tried[best][1])
    spreads = np.array([_spread_of(int(step)) for step in steps])
    values = np.array([tried[int(step)][0] for step in steps])
    mean, sd = _fit_parabola(spreads, values)
    moved = np.array([tried[int(step)][1].parameters for step in steps])
    return Spread(mean, sd, np.polyfit(spreads, moved, 1)[0]), tried[best][1]


def _fit_parabola(spreads: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Mean and sd of v from the evidence at three of its values, in falling order.

    The parabola is one in log v, in which the evidence is the more symmetric, unless one of the
    three is no spread at all.
    """
    x = np.log(spreads) if spreads[2] > 0 else spreads
    bend, slope, _ = np.polyfit(x - x[1], values, 2)
    if bend >= 0:
        return float(spreads[np.argmax(values)]), SPREAD_MEAN
    sd = float(np.sqrt(-0.5 / bend))
    if spreads[2] > 0:
        mean = float(np.exp(np.clip(x[1] - slope / (2.0 * bend), x[2], x[0])))
        return mean, min(mean * sd, SPREAD_MEAN)
    mean = float(np.clip(x[1] - slope / (2.0 * bend), -3.0 * sd, x[0]))
    return mean, min(sd, SPREAD_MEAN)


def _evidence(state: State) -> float:
    """Log evidence at a mode: the effects summed out, up to a constant."""
    spread = state.here.spread(state.sigma)
    value = state.here.value - 0.5 * float(np.log(spread).sum())
    return value - len(spread) * float(np.log(state.sigma))


def _spread_of(step: int) -> float:
    """V of a step of the grid; the last is no spread."""
    return 0.0 if step == N_SHAPES - 1 else float(np.exp(-(LOG_SHAPE_START + step * SHAPE_STEP)))


def _with_shape(model: Model, step: int) -> Model:
    """The model with the Gamma mixture of a step of the grid."""
    return replace(model, mixture=spread_mixture(_spread_of(step)))


def _try_shape(
    tried: dict[int, tuple[float, State]], model: Model, rows: Rows, step: int, start: State
) -> float:
    """Evidence of a step of the grid, computed once."""
    if step not in tried:
        found = climb(_with_shape(model, step), rows, replace(start, curvature=None))
        tried[step] = (_evidence(found) - _spread_of(step) / SPREAD_MEAN, found)
    return tried[step][0]


def _climb_grid(
    model: Model, rows: Rows, state: State, best: int, stride: int
) -> tuple[int, dict[int, tuple[float, State]]]:
    """Climb the grid of log k in one stride; returns the top and all trials (evidence, state).

    σ and the tilt stay as they are: the evidence is flat in both where they were settled.
    """
    tried: dict[int, tuple[float, State]] = {}
    _try_shape(tried, model, rows, best, state)
    while True:
        here = tried[best][1]
        nearby = [step for step in (best - stride, best + stride) if 0 <= step < N_SHAPES]
        values = {step: _try_shape(tried, model, rows, step, here) for step in (best, *nearby)}
        top = max(values, key=lambda step: values[step])
        if top == best:
            return best, tried
        best = top
