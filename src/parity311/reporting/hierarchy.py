"""Fit reporting rates with partial pooling over areas: Laplace approximation, empirical Bayes.

log λ of a cell = design · coefficients + effect of its area, effects ~ N(0, σ²). Newton's method on
coefficients and effects together; the effects' block of the Hessian is diagonal, so a step costs
one pass over the rows and one small solve. σ is set where the Laplace-approximated evidence is
flat, from the working responses of the areas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from parity311.errors import EstimationError
from parity311.reporting.cells import Cells
from parity311.reporting.likelihood import RowData, derivatives, inspection_derivatives, skewness

MAX_STEPS = 60
TOLERANCE = 1e-6
"""Newton decrement at which a fit has converged (log-likelihood units)."""
MAX_ROUNDS = 25
SIGMA_TOLERANCE = 0.01
SHIFT_TOLERANCE = 1e-3
"""A round changes nothing when log σ moves by less than 1 % and the parameters by less than a
thirtieth of a standard error."""
SIGMA_START = 0.26
"""Published sd of tract effects on log λ."""
SIGMA_RANGE = (0.01, 3.0)
N_WARM_ROWS = 100_000
"""Longer tables are fitted to this many rows first, so that few passes see all of them."""


@dataclass(frozen=True)
class Prior:
    """Normal prior of the parameters that are not slopes: mean and sd; sd 0 keeps a value fixed."""

    log_closing_mean: np.ndarray
    """(n_closing,) intercept and slopes of log γ."""
    log_closing_sd: np.ndarray
    logit_silent: tuple[float, float] = (-1.5, 1.5)
    """Share silent after the first report: 0.18 (0.01 to 0.8), wider than any value published."""
    log_shape: tuple[float, float] = (0.5, 1.5)
    """Gamma shape: 1.6 (0.09 to 30)."""


@dataclass(frozen=True)
class Inspected:
    """Incidents found by inspections that did not depend on reports, by cell."""

    cell: np.ndarray
    n_found: np.ndarray
    n_reported: np.ndarray


@dataclass(frozen=True)
class Model:
    """Everything that stays the same during a fit."""

    law: str
    is_mixed: bool
    cells: Cells
    closing_design: np.ndarray
    """(n_areas, n_closing): intercept and covariates of log γ."""
    prior: Prior
    inspected: Inspected | None = None

    @property
    def prior_mean(self) -> np.ndarray:
        """Prior mean of every parameter: coefficients, closing, silent, shape."""
        tail = [self.prior.logit_silent[0], self.prior.log_shape[0]]
        zeros = np.zeros(self.cells.design.shape[1])
        return np.concatenate([zeros, self.prior.log_closing_mean, tail])

    @property
    def prior_precision(self) -> np.ndarray:
        """Prior precision; infinite precision (a fixed parameter) is given as 0 and masked."""
        tail = [self.prior.logit_silent[1], self.prior.log_shape[1]]
        sd = np.concatenate([self.cells.prior_sd, self.prior.log_closing_sd, tail])
        return np.divide(1.0, sd**2, out=np.zeros_like(sd), where=sd > 0)

    @property
    def is_free(self) -> np.ndarray:
        """Parameters that are estimated."""
        sd = np.concatenate([self.cells.prior_sd, self.prior.log_closing_sd])
        return np.concatenate([sd > 0, [self.prior.logit_silent[1] > 0, self.is_mixed]])

    @property
    def maps(self) -> list[np.ndarray]:
        """For each of the four row parameters, how it depends on the model's parameters."""
        ones = np.ones((len(self.cells.area), 1))
        return [self.cells.design, self.closing_design[self.cells.area], ones, ones]

    def unpack(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """(n_cells, 4) row parameters of every cell."""
        n_slopes, n_closing = self.cells.design.shape[1], self.closing_design.shape[1]
        area = self.cells.area
        packed = np.empty((len(area), 4))
        packed[:, 0] = self.cells.design @ parameters[:n_slopes] + effects[area]
        closing = parameters[n_slopes : n_slopes + n_closing]
        packed[:, 1] = (self.closing_design @ closing)[area]
        packed[:, 2:] = parameters[-2:]
        return packed


@dataclass(frozen=True)
class Curvature:
    """Log posterior, its gradient and negative Hessian in blocks."""

    value: float
    gradient: np.ndarray
    gradient_effects: np.ndarray
    information: np.ndarray
    """(n_parameters, n_parameters)"""
    information_effects: np.ndarray
    """(n_areas,) likelihood part of the diagonal block of the effects."""
    information_cross: np.ndarray
    """(n_areas, n_parameters)"""


@dataclass(frozen=True)
class Fit:
    """The mode of a model, and its curvature."""

    model: Model
    parameters: np.ndarray
    effects: np.ndarray
    sigma: float
    curvature: Curvature
    tilt: np.ndarray
    """Gradient of −½ log det of the effects' information: what turns the joint mode into the mode
    of the evidence, the effects summed out."""
    n_steps: int
    has_converged: bool

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the free parameters, effects summed out; 0 for fixed ones."""
        return _marginal_covariance(self.model, self.curvature, self.sigma)

    def draw(self, rng: np.random.Generator, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
        """Joint draws of parameters (n_draws, n_parameters) and effects (n_draws, n_areas)."""
        covariance = self.covariance
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shift = rng.standard_normal((n_draws, len(values))) @ root.T
        spread = self.curvature.information_effects + self.sigma**-2
        mean = self.effects - (shift @ self.curvature.information_cross.T) / spread
        noise = rng.standard_normal((n_draws, len(self.effects))) / np.sqrt(spread)
        return self.parameters + shift, mean + noise


def fit_hierarchy(model: Model, data: RowData, start_log_rate: float) -> Fit:
    """Find the mode and the spread of the area effects.

    Raises `EstimationError` where no row says anything about the rate.
    """
    n = len(data.exposure_days)
    if n == 0:
        raise EstimationError(
            "No incident has an exposure of more than 0.1 day, so reports say nothing about how "
            "fast people report; give closing or inspection times, or use estimator "
            "'zero_truncated'."
        )
    parameters = model.prior_mean
    parameters[0] = start_log_rate
    effects = np.zeros(model.cells.n_areas)
    state = _State(parameters, effects, SIGMA_START, np.zeros(len(parameters)))
    stride = -(-n // N_WARM_ROWS)
    for rows in [slice(None, None, stride), slice(None)] if stride > 1 else [slice(None)]:
        some = RowData(*(part[rows] for part in data))
        state = _settle(model, some, model.cells.row_cell[rows], state)
    assert state.curvature is not None
    return Fit(
        model,
        state.parameters,
        state.effects,
        state.sigma,
        state.curvature,
        state.tilt,
        state.n_steps,
        state.has_converged,
    )


@dataclass(frozen=True)
class _State:
    """Where a fit stands."""

    parameters: np.ndarray
    effects: np.ndarray
    sigma: float
    tilt: np.ndarray
    curvature: Curvature | None = None
    n_steps: int = 0
    has_converged: bool = False


def _settle(model: Model, data: RowData, cell: np.ndarray, state: _State) -> _State:
    """Alternate Newton steps with updates of σ and of the tilt until neither moves."""
    for _ in range(MAX_ROUNDS):
        parameters, effects, here, n_steps, has_converged = _climb(
            model, data, cell, state.parameters, state.effects, state.sigma, state.tilt
        )
        sigma = _update_sigma(here, effects, state.sigma)
        packed = model.unpack(parameters, effects)
        rows = skewness(model.law, model.is_mixed, packed[cell], data)
        tilt = _evidence_tilt(model, here, cell, rows, sigma)
        covariance = _marginal_covariance(model, here, sigma)
        shift = covariance @ (tilt - state.tilt)
        moved = float((tilt - state.tilt) @ shift)
        is_settled = abs(np.log(sigma / state.sigma)) < SIGMA_TOLERANCE and moved < SHIFT_TOLERANCE
        state = _State(
            parameters, effects, sigma, tilt, here, state.n_steps + n_steps, has_converged
        )
        if is_settled:
            break
    return state


def _evidence_tilt(
    model: Model, here: Curvature, cell: np.ndarray, skew: np.ndarray, sigma: float
) -> np.ndarray:
    """Gradient of −½ Σ log(information of an effect + 1/σ²), along the mode of the effects."""
    area, n_areas = model.cells.area, model.cells.n_areas
    n_cells = len(area)
    by_cell = np.stack([-np.bincount(cell, skew[:, k], minlength=n_cells) for k in range(4)], 1)
    spread = np.maximum(here.information_effects, 0.0) + sigma**-2
    along_effect = np.bincount(area, by_cell[:, 0], minlength=n_areas)
    weight = 1.0 / spread
    maps = model.maps
    direct = [part.T @ (by_cell[:, k] * weight[area]) for k, part in enumerate(maps)]
    through_mode = here.information_cross.T @ (along_effect * weight**2)
    return -0.5 * (np.concatenate(direct) - through_mode)


def _climb(
    model: Model,
    data: RowData,
    cell: np.ndarray,
    parameters: np.ndarray,
    effects: np.ndarray,
    sigma: float,
    tilt: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, Curvature, int, bool]:
    """Damped Newton steps at a fixed σ and tilt."""
    here = curve(model, data, cell, parameters, effects, sigma)
    damping = 0.0
    for step in range(MAX_STEPS):
        move, move_effects, decrement = _newton_move(model, here, sigma, tilt, damping)
        if decrement < TOLERANCE * max(1.0, len(effects) / 100):
            return parameters, effects, here, step, True
        there = curve(model, data, cell, parameters + move, effects + move_effects, sigma)
        gain = there.value - here.value + float(tilt @ move)
        if gain >= -1e-9 * abs(here.value):
            parameters, effects, here = parameters + move, effects + move_effects, there
            damping = 0.0 if damping < 1e-3 else damping / 10
        else:
            damping = max(10 * damping, 1e-2)
            if damping > 1e8:
                break
    return parameters, effects, here, MAX_STEPS, False


def _newton_move(
    model: Model, here: Curvature, sigma: float, tilt: np.ndarray, damping: float
) -> tuple[np.ndarray, np.ndarray, float]:
    free = model.is_free
    spread = np.maximum(here.information_effects, 0.0) + sigma**-2
    cross = here.information_cross[:, free]
    inner = here.information[np.ix_(free, free)] - cross.T @ (cross / spread[:, None])
    scale = np.abs(np.diag(here.information))[free]
    inner = _make_positive(inner + damping * np.diag(scale + 1e-9))
    gradient = here.gradient + tilt
    right = gradient[free] - cross.T @ (here.gradient_effects / spread)
    move = np.zeros(len(free))
    move[free] = np.clip(np.linalg.solve(inner, right), -3.0, 3.0)
    move_effects = (here.gradient_effects - cross @ move[free]) / spread
    decrement = float(gradient @ move + here.gradient_effects @ move_effects)
    return move, np.clip(move_effects, -3.0, 3.0), abs(decrement)


def _make_positive(matrix: np.ndarray) -> np.ndarray:
    """Lift eigenvalues that are not positive, so that a step always goes uphill."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floor = 1e-8 * max(values.max(), 1e-8)
    return (vectors * np.maximum(np.abs(values), floor)) @ vectors.T


def curve(
    model: Model,
    data: RowData,
    cell: np.ndarray,
    parameters: np.ndarray,
    effects: np.ndarray,
    sigma: float,
) -> Curvature:
    """Log posterior with gradient and information, summed from rows to cells to blocks."""
    packed = model.unpack(parameters, effects)
    rows = derivatives(model.law, model.is_mixed, packed[cell], data)
    n_cells = len(packed)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, values, minlength=n_cells)

    gradient = np.stack([total(rows.gradient[:, k]) for k in range(4)], axis=1)
    information = np.empty((n_cells, 4, 4))
    for j in range(4):
        for k in range(j, 4):
            information[:, j, k] = information[:, k, j] = -total(rows.hessian[:, j, k])
    value = float(rows.value.sum())
    if model.inspected is not None:
        value += add_inspections(model, packed, gradient, information)
    return _assemble(model, parameters, effects, sigma, value, gradient, information)


def add_inspections(
    model: Model, packed: np.ndarray, gradient: np.ndarray, information: np.ndarray
) -> float:
    """Add log P(n_reported of n_found) to the cells in place; return its value."""
    assert model.inspected is not None
    seen = model.inspected
    rows = inspection_derivatives(
        model.law, model.is_mixed, packed[seen.cell], seen.n_found, seen.n_reported
    )
    np.add.at(gradient, seen.cell, rows.gradient)
    np.add.at(information, seen.cell, -rows.hessian)
    return float(rows.value.sum())


def _assemble(
    model: Model,
    parameters: np.ndarray,
    effects: np.ndarray,
    sigma: float,
    value: float,
    gradient: np.ndarray,
    information: np.ndarray,
) -> Curvature:
    """Chain rule from the four row parameters to parameters and effects, with the priors."""
    area, n_areas = model.cells.area, model.cells.n_areas
    maps = model.maps
    ends = np.cumsum([0, *(part.shape[1] for part in maps)])
    n_parameters = ends[-1]
    slope = np.concatenate([part.T @ gradient[:, k] for k, part in enumerate(maps)])
    square = np.empty((n_parameters, n_parameters))
    cross = np.empty((n_areas, n_parameters))
    for k, right in enumerate(maps):
        there = slice(ends[k], ends[k + 1])
        for j, left in enumerate(maps):
            square[ends[j] : ends[j + 1], there] = left.T @ (information[:, j, k, None] * right)
        weighted = information[:, 0, k, None] * right
        for column in range(right.shape[1]):
            cross[:, ends[k] + column] = np.bincount(area, weighted[:, column], minlength=n_areas)
    gap = parameters - model.prior_mean
    precision = model.prior_precision
    value -= 0.5 * float(precision @ gap**2) + 0.5 * float(effects @ effects) / sigma**2
    return Curvature(
        value=value,
        gradient=slope - precision * gap,
        gradient_effects=np.bincount(area, gradient[:, 0], minlength=n_areas) - effects / sigma**2,
        information=square + np.diag(precision),
        information_effects=np.bincount(area, information[:, 0, 0], minlength=n_areas),
        information_cross=cross,
    )


def _update_sigma(here: Curvature, effects: np.ndarray, sigma: float) -> float:
    """Maximise the evidence of N(0, σ²) for the areas' working responses.

    At the mode the likelihood of an area is, to second order, that of a response
    effect + gradient/information with variance 1/information.
    """
    information = np.maximum(here.information_effects, 0.0)
    seen = information > 1e-9
    if seen.sum() < 3:
        return sigma
    score = here.gradient_effects[seen] + effects[seen] / sigma**2
    response = effects[seen] + score / information[seen]

    def minus_evidence(log_sigma: float) -> float:
        variance = np.exp(2 * log_sigma) + 1.0 / information[seen]
        return float(np.sum(np.log(variance) + response**2 / variance))

    bounds = (np.log(SIGMA_RANGE[0]), np.log(SIGMA_RANGE[1]))
    best = minimize_scalar(minus_evidence, bounds=bounds, method="bounded")
    return float(np.exp(best.x))


def _marginal_covariance(model: Model, here: Curvature, sigma: float) -> np.ndarray:
    """Covariance of the parameters with the effects summed out; 0 for fixed parameters."""
    free = model.is_free
    spread = np.maximum(here.information_effects, 0.0) + sigma**-2
    cross = here.information_cross[:, free]
    inner = here.information[np.ix_(free, free)] - cross.T @ (cross / spread[:, None])
    covariance = np.zeros((len(free), len(free)))
    covariance[np.ix_(free, free)] = np.linalg.inv(_make_positive(inner))
    return covariance
