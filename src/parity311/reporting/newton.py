"""Climb to the mode of a reporting model: Newton's method, σ and tilt in turns.

The effects' block of the Hessian is diagonal, so a step costs one pass over the rows and one small
solve. The parameters are moved from the joint mode to the mode of the evidence (the effects summed
out) by the gradient of the log determinant; σ is set where the evidence is flat, from the working
responses of the areas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from parity311.reporting.likelihood import N_PARAMETERS, RATE
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
class State:
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


def settle(model: Model, rows: Rows, state: State) -> State:
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


def _evidence_tilt(model: Model, rows: Rows, state: State) -> np.ndarray:
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


def climb(model: Model, rows: Rows, state: State) -> State:
    """Damped Newton steps at a fixed σ and tilt, from the state's curvature where it has one."""
    parameters, effects, sigma = state.parameters, state.effects, state.sigma
    here = state.curvature or curve(model, rows, parameters, effects, sigma)
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
    model: Model, here: Curvature, state: State, damping: float
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


def _update_sigma(state: State) -> float:
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
