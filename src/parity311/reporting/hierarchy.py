"""Fit reporting rates with partial pooling over areas: Laplace approximation, empirical Bayes.

Climb to the mode of a reporting model: Newton's method, σ and tilt in turns.

The effects' block of the Hessian is diagonal, so a step costs one pass over the rows and one small
solve. The parameters are moved from the joint mode to the mode of the evidence (the effects summed
out) by the gradient of the log determinant; σ is set where the evidence is flat, from the working
responses of the areas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtri_exp

from parity311.reporting.likelihood import (
    EVEN,
    N_PARAMETERS,
    RATE,
    Mixture,
    RowData,
    gamma_mixture,
)
from parity311.reporting.model import (
    Curvature,
    Model,
    curve,
    make_positive,
    marginal_covariance,
)
from parity311.reporting.row_sums import Rows, skewness

MAX_STEPS = 60
TOLERANCE = 1e-6
"""Newton decrement at which a climb has arrived (log-likelihood units per 100 areas)."""
MAX_ROUNDS = 40
SIGMA_TOLERANCE = 0.01
TRIAL_TOLERANCE = 3e-4
"""The same for a trial of the mixture's shape, whose evidence is wanted to a thousandth."""
SHIFT_TOLERANCE = 1e-3
"""A round changes nothing when log σ moves by less than 1 % and the parameters by less than a
thirtieth of a standard error."""
TILT_REACH = 0.04
"""Squared standard errors of a move (a fifth of one) over which the tilt counts as unchanged."""
SIGMA_START = 0.26
"""Published sd of tract effects on log λ."""
SIGMA_RANGE = (0.01, 3.0)
SIGMA_SD = 0.5
"""Belief about the sd of area effects: half-normal with this scale, twice the published sd. It
matters where few areas have reports."""
N_FULL_ROUNDS = 5
"""Rounds after which σ and tilt move by a half, a third, … only: on sparse tables, where effects
are all but unknown, both would swing for ever, and their average is taken."""


@dataclass(frozen=True)
class FitState:
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


def settle(model: Model, rows: Rows, state: FitState) -> FitState:
    """Alternate Newton steps with updates of σ and of the tilt until neither moves.

    The tilt is computed again only where the parameters have moved since: it takes a pass over the
    rows for each of them.
    """
    state = replace(state, curvature=None)
    tilted_at: np.ndarray | None = None
    for round_ in range(MAX_ROUNDS):
        state = climb(model, rows, state)
        weight = 1.0 / max(1, round_ - N_FULL_ROUNDS + 2)
        sigma = state.sigma * (_update_sigma(state) / state.sigma) ** weight
        is_settled = abs(np.log(sigma / state.sigma)) < SIGMA_TOLERANCE
        tilt = state.tilt
        covariance = marginal_covariance(model, state.here, sigma)
        if tilted_at is None or _distance(state.parameters - tilted_at, covariance) > TILT_REACH:
            tilt = _evidence_tilt(model, rows, replace(state, sigma=sigma))
            tilt = state.tilt + weight * (tilt - state.tilt)
            tilted_at = state.parameters
            change = tilt - state.tilt
            is_settled &= float(change @ covariance @ change) < SHIFT_TOLERANCE
        arrived = state.has_converged and is_settled
        here = state.here.with_sigma(state.effects, state.sigma, sigma)
        state = replace(state, sigma=sigma, tilt=tilt, curvature=here, has_converged=arrived)
        if is_settled:
            break
    return state


def _distance(move: np.ndarray, covariance: np.ndarray) -> float:
    """Squared length of a move in standard errors."""
    free = np.diag(covariance) > 0
    inner = covariance[np.ix_(free, free)]
    return float(move[free] @ np.linalg.solve(inner, move[free]))


def _evidence_tilt(model: Model, rows: Rows, state: FitState) -> np.ndarray:
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


def climb(model: Model, rows: Rows, state: FitState, tolerance: float = TOLERANCE) -> FitState:
    """Damped Newton steps at a fixed σ and tilt, from the state's curvature where it has one."""
    parameters, effects, sigma = state.parameters, state.effects, state.sigma
    here = state.curvature or curve(model, rows, parameters, effects, sigma)
    damping, n_steps, has_arrived = 0.0, 0, False
    while n_steps < MAX_STEPS and damping < 1e8:
        move, move_effects, decrement = _newton_move(model, here, state, damping)
        has_arrived = decrement < tolerance * max(1.0, len(effects) / 100)
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
    model: Model, here: Curvature, state: FitState, damping: float
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


def _update_sigma(state: FitState) -> float:
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
        belief = np.exp(2 * log_sigma) / SIGMA_SD**2
        return float(np.sum(np.log(variance) + response**2 / variance) + belief)

    bounds = (np.log(SIGMA_RANGE[0]), np.log(SIGMA_RANGE[1]))
    best = minimize_scalar(minus_evidence, bounds=bounds, method="bounded")
    return float(np.exp(best.x))


SPREAD_MEAN = 1.0
"""Belief about v = 1/k, the variance between incidents of one place: exponential with this mean,
which is that of exponentially distributed rates. It hardly pulls where v is small."""
LOG_SHAPE_START = -1.9
SHAPE_STEP = 0.4
N_SHAPES = 19
"""Grid of log k: k from 0.15, below which quadrature is poor, to 200, then no spread at all."""
N_COARSE_ROWS = 12_000
N_SHAPE_ROWS = (60_000, 200_000)
"""Rows that the shape is searched on, and told from where it turns out large and where small: a
small spread needs less precision. The rest of the rows is fitted with the shape found."""
SMALL_SHAPE_STEP = 10
"""Grid step (k = 8) from which a shape counts as large."""
LEAST_SPREAD, MAX_SHAPE = 1e-3, 1e4
"""A variance between incidents that is none; a Gamma shape that is as good as none."""
N_WARM_ROWS = 12_000
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
    tilt: np.ndarray | None = None
    """As in the state it was settled in."""

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
    model: Model,
    data: RowData,
    cell: np.ndarray,
    start_log_rate: float,
    *,
    is_mixed: bool = False,
    near: Fit | None = None,
) -> Fit:
    """Find the mode and the spread of the area effects.

    Parameters
    ----------
    cell
        (n_rows,) cell of every row.
    is_mixed
        Whether rates vary between incidents of one place (Gamma), its shape found as well.
    near
        A fit of the same rows under something else assumed: where to start.
    """
    rows = Rows.sort(data, cell, len(model.cells.area))
    if near is None:
        state = settle(model, _some(rows, N_WARM_ROWS), _start(model, start_log_rate))
    else:
        state = _start_near(model, near)
    between = None
    if is_mixed:
        shape = None if near is None or near.between is None else _step_of(near.between.mode)
        between, state = _find_spread(model, rows, state, shape)
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
        state.here.rows_value,
        state.tilt,
    )


def _start(model: Model, log_rate: float) -> FitState:
    """Everything at its prior mean, but for the level of the rate."""
    parameters = model.prior_mean
    parameters[0] = log_rate
    effects = np.zeros(model.cells.n_areas)
    return FitState(parameters, effects, SIGMA_START, np.zeros(len(parameters)))


def _start_near(model: Model, near: Fit) -> FitState:
    """What both models have at the other's mode; the rest, and what is given, at its prior mean."""
    parameters = _carry(model, near, near.parameters, model.prior_mean)
    tilt = np.zeros(len(parameters))
    if near.tilt is not None:
        tilt = _carry(model, near, near.tilt, tilt)
    return FitState(parameters, near.effects, near.sigma, tilt)


def _carry(model: Model, near: Fit, values: np.ndarray, else_: np.ndarray) -> np.ndarray:
    """Values of another model's parameters, put to those that both estimate."""
    out = else_.copy()
    rate, closing = near.model.split(values)
    out[: len(rate)], out[-2:] = rate, values[-2:]
    # Closing rates: a level, slopes along covariates that one of both may lack, patterns.
    own = model.split(out)[1]
    n_patterns = min(len(closing), len(own)) - 1
    own[0], own[len(own) - n_patterns :] = closing[0], closing[len(closing) - n_patterns :]
    return np.where(model.is_free, out, else_)


def _some(rows: Rows, n_at_most: int) -> Rows:
    """Evenly spaced rows, in order, at most so many."""
    n = len(rows.cell)
    if n <= n_at_most:
        return rows
    some = np.arange(0, n, -(-n // n_at_most))
    return Rows(rows.data.take(some), rows.cell[some], rows.n_cells)


def _find_spread(
    model: Model, rows: Rows, state: FitState, start: int | None
) -> tuple[Spread, FitState]:
    """Find v = 1/k where the evidence is highest.

    Trials on few rows climb a grid of log k, from no spread down, in steps that halve; on many rows
    they climb on in the smallest step, or begin there if a start is known, until the best has a
    worse one on either side. The parabola in v through the three gives mean and sd.
    """
    best = N_SHAPES - 1 if start is None else start
    for stride in (4, 2) if start is None else ():
        few = _some(rows, N_COARSE_ROWS)
        best, tried = _climb_grid(model, few, state, best, stride)
        state = tried[best][1]
    many = _some(rows, N_SHAPE_ROWS[0 if best >= SMALL_SHAPE_STEP else 1])
    if start is None:
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


def _evidence(state: FitState) -> float:
    """Log evidence at a mode: the effects summed out, up to a constant."""
    spread = state.here.spread(state.sigma)
    value = state.here.value - 0.5 * float(np.log(spread).sum())
    return value - len(spread) * float(np.log(state.sigma))


def _spread_of(step: int) -> float:
    """V of a step of the grid; the last is no spread."""
    return 0.0 if step == N_SHAPES - 1 else float(np.exp(-(LOG_SHAPE_START + step * SHAPE_STEP)))


def _step_of(spread: float) -> int:
    """The step of the grid that is nearest to v."""
    if spread < LEAST_SPREAD:
        return N_SHAPES - 1
    return int(np.clip(round((-np.log(spread) - LOG_SHAPE_START) / SHAPE_STEP), 0, N_SHAPES - 1))


def _with_shape(model: Model, step: int) -> Model:
    """The model with the Gamma mixture of a step of the grid."""
    return replace(model, mixture=spread_mixture(_spread_of(step)))


def _try_shape(
    tried: dict[int, tuple[float, FitState]], model: Model, rows: Rows, step: int, start: FitState
) -> float:
    """Evidence of a step of the grid, computed once."""
    if step not in tried:
        start = replace(start, curvature=None)
        found = climb(_with_shape(model, step), rows, start, TRIAL_TOLERANCE)
        tried[step] = (_evidence(found) - _spread_of(step) / SPREAD_MEAN, found)
    return tried[step][0]


def _climb_grid(
    model: Model, rows: Rows, state: FitState, best: int, stride: int
) -> tuple[int, dict[int, tuple[float, FitState]]]:
    """Climb the grid of log k in one stride; returns the top and all trials (evidence, state).

    σ and the tilt stay as they are: the evidence is flat in both where they were settled.
    """
    tried: dict[int, tuple[float, FitState]] = {}
    _try_shape(tried, model, rows, best, state)
    while True:
        here = tried[best][1]
        nearby = [step for step in (best - stride, best + stride) if 0 <= step < N_SHAPES]
        values = {step: _try_shape(tried, model, rows, step, here) for step in (best, *nearby)}
        top = max(values, key=lambda step: values[step])
        if top == best:
            return best, tried
        best = top
