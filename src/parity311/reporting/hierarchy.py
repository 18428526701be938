"""Fit reporting rates with partial pooling over areas: Laplace approximation, empirical Bayes.

Newton's method on coefficients and area effects together; the effects' block of the Hessian is
diagonal, so a step costs one pass over the rows and one small solve. The parameters are moved from
the joint mode to the mode of the evidence (the effects summed out) by the gradient of the log
determinant; σ is set where the evidence is flat, from the working responses of the areas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from parity311.reporting.likelihood import (
    N_PARAMETERS,
    RATE,
    Mixture,
    RowData,
    Rows,
    gamma_mixture,
    skewness,
)
from parity311.reporting.model import (
    Curvature,
    Model,
    curve,
    make_positive,
    marginal_covariance,
)

MAX_STEPS = 60
TOLERANCE = 1e-6
"""Newton decrement at which a climb has arrived (log-likelihood units per 100 areas)."""
MAX_ROUNDS = 40
SIGMA_TOLERANCE = 0.01
SHIFT_TOLERANCE = 1e-3
"""A round changes nothing when log σ moves by less than 1 % and the parameters by less than a
thirtieth of a standard error."""
LOG_SHAPE = (0.5, 1.5)
"""Belief about the Gamma shape, mean and sd of its logarithm: 1.6 (0.09 to 30)."""
SHAPE_STEP = 0.4
SHAPE_STEPS = range(-6, 9)
"""Grid of log k that is climbed, around the mean of the belief: k from 0.15, below which quadrature
is poor, to 40, above which the spread is too small to matter."""
LOG_SHAPE_RANGE = (LOG_SHAPE[0] - 6 * SHAPE_STEP, LOG_SHAPE[0] + 8 * SHAPE_STEP)
N_COARSE_ROWS = 30_000
N_SHAPE_ROWS = (60_000, 200_000)
"""Rows that the shape is searched on, and told from where it turns out large and where small: a
small spread needs less precision. The rest of the rows is fitted with the shape found."""
SMALL_SHAPE_STEP = 4
"""Grid step (k = 8) from which a shape counts as large."""
SIGMA_START = 0.26
"""Published sd of tract effects on log λ."""
SIGMA_RANGE = (0.01, 3.0)
N_WARM_ROWS = 100_000
"""Longer tables are fitted to this many rows first, so that few passes see all of them."""


@dataclass(frozen=True)
class Shape:
    """What the data say about log k of the Gamma mixture."""

    mean: float
    sd: float
    pulls: np.ndarray
    """(n_parameters,) by how much the other parameters move with log k."""


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
    shape: Shape | None = None
    """What is known of the Gamma mixture, where there is one."""

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
        if self.shape is not None:
            moved = self.shape.sd * rng.standard_normal(n_draws)
            shift = shift + moved[:, None] * self.shape.pulls
            logs = np.clip(self.shape.mean + moved, *LOG_SHAPE_RANGE)
            mixtures = [gamma_mixture(float(np.exp(value))) for value in logs]
        spread = self.curvature.spread(self.sigma)
        mean = self.effects - (shift @ self.curvature.information_cross.T) / spread
        noise = rng.standard_normal((n_draws, len(self.effects))) / np.sqrt(spread)
        return Draws(self.parameters + shift, mean + noise, mixtures)


@dataclass(frozen=True)
class _State:
    """Where a fit stands."""

    parameters: np.ndarray
    effects: np.ndarray
    sigma: float
    tilt: np.ndarray
    """Gradient of −½ log det of the effects' information: what turns the joint mode into the mode
    of the evidence, the effects summed out."""
    curvature: Curvature | None = None
    n_steps: int = 0
    has_converged: bool = False

    @property
    def here(self) -> Curvature:
        """The curvature, which every settled state has."""
        assert self.curvature is not None
        return self.curvature


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
    state = _State(
        parameters, np.zeros(model.cells.n_areas), SIGMA_START, np.zeros(len(parameters))
    )
    rows = Rows.sort(data, cell, len(model.cells.area))
    state = _settle(model, _some(rows, N_WARM_ROWS), state)
    shape = None
    if is_mixed:
        shape, state = _find_shape(model, rows, state)
        model = replace(model, mixture=gamma_mixture(float(np.exp(shape.mean))))
    state = _settle(model, rows, state)
    return Fit(
        model,
        state.parameters,
        state.effects,
        state.sigma,
        state.here,
        state.n_steps,
        state.has_converged,
        shape,
    )


def _some(rows: Rows, n_at_most: int) -> Rows:
    """Evenly spaced rows, in order, at most so many."""
    n = len(rows.cell)
    if n <= n_at_most:
        return rows
    some = np.arange(0, n, -(-n // n_at_most))
    return Rows(rows.data.take(some), rows.cell[some], rows.n_cells)


def _find_shape(model: Model, rows: Rows, state: _State) -> tuple[Shape, _State]:
    """Find log k where the evidence is highest, all else settled at every trial.

    The evidence (effects summed out) is the joint log posterior at the mode less half the log
    determinant of the effects' information. Trials on few rows climb a grid, from a small spread
    down, in steps that halve; on many rows they climb on in the smallest step until the best has a
    worse one on either side, and the parabola through the three gives mean and sd.
    """
    best = max(SHAPE_STEPS)
    for stride in (4, 2):
        few = _some(rows, N_COARSE_ROWS)
        best, tried = _climb_grid(model, few, state, best, stride, is_coarse=True)
        state = tried[best][1]
    many = _some(rows, N_SHAPE_ROWS[0 if best >= SMALL_SHAPE_STEP else 1])
    best, tried = _climb_grid(model, many, state, best, 1, is_coarse=False)
    steps = [step for step in (best - 1, best, best + 1) if step in tried]
    logs = LOG_SHAPE[0] + SHAPE_STEP * np.array(steps)
    mean, sd = float(logs[steps.index(best)]), LOG_SHAPE[1]
    if len(steps) == 3:
        bend, slope, _ = np.polyfit(logs - mean, [tried[step][0] for step in steps], 2)
        mean, sd = mean - slope / (2.0 * bend), float(np.sqrt(-0.5 / bend))
    moved = np.array([tried[step][1].parameters for step in steps])
    pulls = np.polyfit(logs, moved, 1)[0]
    return Shape(mean, min(sd, LOG_SHAPE[1]), pulls), tried[best][1]


def _climb_grid(
    model: Model, rows: Rows, state: _State, best: int, stride: int, *, is_coarse: bool
) -> tuple[int, dict[int, tuple[float, _State]]]:
    """Climb the grid of log k in one stride; returns the top and all trials (evidence, state).

    A coarse climb keeps σ and the tilt as they are.
    """
    tried: dict[int, tuple[float, _State]] = {}

    def evidence(step: int, start: _State) -> float:
        if step not in tried:
            log_shape = LOG_SHAPE[0] + step * SHAPE_STEP
            trial = replace(model, mixture=gamma_mixture(float(np.exp(log_shape))))
            found = (_climb if is_coarse else _settle)(trial, rows, start)
            spread = found.here.spread(found.sigma)
            value = found.here.value - 0.5 * float(np.log(spread).sum())
            value -= len(spread) * np.log(found.sigma)
            tried[step] = (value - 0.5 * (step * SHAPE_STEP / LOG_SHAPE[1]) ** 2, found)
        return tried[step][0]

    evidence(best, state)
    while True:
        here = tried[best][1]
        nearby = [step for step in (best - stride, best + stride) if step in SHAPE_STEPS]
        top = max((best, *nearby), key=lambda step: evidence(step, here))
        if top == best:
            return best, tried
        best = top


def _settle(model: Model, rows: Rows, state: _State) -> _State:
    """Alternate Newton steps with updates of σ and of the tilt until neither moves."""
    for _ in range(MAX_ROUNDS):
        state = _climb(model, rows, state)
        sigma = _update_sigma(state)
        tilt = _evidence_tilt(model, rows, replace(state, sigma=sigma))
        change = tilt - state.tilt
        moved = float(change @ marginal_covariance(model, state.here, sigma) @ change)
        is_settled = abs(np.log(sigma / state.sigma)) < SIGMA_TOLERANCE and moved < SHIFT_TOLERANCE
        arrived = state.has_converged and is_settled
        state = replace(state, sigma=sigma, tilt=tilt, has_converged=arrived)
        if is_settled:
            break
    return state


def _evidence_tilt(model: Model, rows: Rows, state: _State) -> np.ndarray:
    """Gradient of −½ Σ log(information of an effect + 1/σ²), along the mode of the effects."""
    area, n_areas = model.cells.area, model.cells.n_areas
    packed = model.unpack(state.parameters, state.effects)
    by_cell = -skewness(model.law, model.mixture, packed, rows, state.here.cell_bend, model.moving)
    weight = 1.0 / state.here.spread(state.sigma)
    along_effect = np.bincount(area, by_cell[:, RATE], minlength=n_areas)
    maps = model.maps
    direct = [maps[k].T @ (by_cell[:, k] * weight[area]) for k in range(N_PARAMETERS)]
    through_mode = state.here.information_cross.T @ (along_effect * weight**2)
    return -0.5 * (np.concatenate(direct) - through_mode)


def _climb(model: Model, rows: Rows, state: _State) -> _State:
    """Damped Newton steps at a fixed σ and tilt."""
    parameters, effects, sigma = state.parameters, state.effects, state.sigma
    here = curve(model, rows, parameters, effects, sigma)
    damping, n_steps, has_arrived = 0.0, 0, False
    while n_steps < MAX_STEPS and damping < 1e8:
        move, move_effects, decrement = _newton_move(model, here, state, damping)
        has_arrived = decrement < TOLERANCE * max(1.0, len(effects) / 100)
        if has_arrived:
            break
        n_steps += 1
        there = curve(model, rows, parameters + move, effects + move_effects, sigma)
        gain = there.value - here.value + float(state.tilt @ move)
        if gain >= -1e-9 * abs(here.value):
            parameters, effects, here = parameters + move, effects + move_effects, there
            damping = 0.0 if damping < 1e-3 else damping / 10
        else:
            damping = max(10 * damping, 1e-2)
    return replace(
        state,
        parameters=parameters,
        effects=effects,
        curvature=here,
        n_steps=state.n_steps + n_steps,
        has_converged=has_arrived,
    )


def _newton_move(
    model: Model, here: Curvature, state: _State, damping: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Step in parameters and effects, and how much it promises to gain."""
    free = model.is_free
    spread = here.spread(state.sigma) * (1.0 + damping)
    cross = here.information_cross[:, free]
    inner = here.information[np.ix_(free, free)] - cross.T @ (cross / spread[:, None])
    scale = np.abs(np.diag(here.information))[free]
    inner = make_positive(inner + damping * np.diag(scale + 1e-9))
    gradient = here.gradient + state.tilt
    right = gradient[free] - cross.T @ (here.gradient_effects / spread)
    move = np.zeros(len(free))
    move[free] = np.clip(np.linalg.solve(inner, right), -3.0, 3.0)
    move_effects = (here.gradient_effects - cross @ move[free]) / spread
    decrement = float(gradient @ move + here.gradient_effects @ move_effects)
    return move, np.clip(move_effects, -3.0, 3.0), abs(decrement)


def _update_sigma(state: _State) -> float:
    """Maximise the evidence of N(0, σ²) for the areas' working responses.

    At the mode the likelihood of an area is, to second order, that of a response
    effect + gradient/information with variance 1/information.
    """
    information = np.maximum(state.here.information_effects, 0.0)
    seen = information > 1e-9
    if seen.sum() < 3:
        return state.sigma
    effects = state.effects[seen]
    score = state.here.gradient_effects[seen] + effects / state.sigma**2
    response = effects + score / information[seen]

    def minus_evidence(log_sigma: float) -> float:
        variance = np.exp(2 * log_sigma) + 1.0 / information[seen]
        return float(np.sum(np.log(variance) + response**2 / variance))

    bounds = (np.log(SIGMA_RANGE[0]), np.log(SIGMA_RANGE[1]))
    best = minimize_scalar(minus_evidence, bounds=bounds, method="bounded")
    return float(np.exp(best.x))
