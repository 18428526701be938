"""The hierarchical model of reporting: parameters, priors, log posterior and its curvature.

log λ of a cell = design · coefficients + effect of its area, effects ~ N(0, σ²); log γ of a cell =
design · coefficients; calls and silent share are common to all cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity311.reporting.cells import Cells
from parity311.reporting.likelihood import (
    CALLBACK,
    CLOSING,
    EVEN,
    N_PARAMETERS,
    RATE,
    Mixture,
    inspection_derivatives,
)
from parity311.reporting.row_sums import Rows, sum_derivatives

LOG_CALLBACK = (0.0, 1.5)
"""Belief about the rate of calls once an incident has ended: a day later (0.05 to 20 days)."""
LOGIT_SILENT = (-1.5, 1.5)
"""Belief about the share silent after the first report: 0.18 (0.01 to 0.8), wider than any value
published."""
USUAL_CALL_BACK_DAYS = float(np.exp(-LOG_CALLBACK[0]))
USUAL_SILENT_SHARE = float(1.0 / (1.0 + np.exp(-LOGIT_SILENT[0])))
"""What is believed of both where no estimator says more."""
LOG_ODDS = (-0.5, 1.5)
"""Belief about log(λ/γ) of an average area: 1.27 to 1.63 reports per reported incident, as boroughs
have (facts of Liu, Bhandaram and Garg), mean P(reported) of 0.2 to 0.4 or more; P(reported) of 0.05
to 0.9 is believed possible. It matters where there are few duplicates."""
NEVER = (-30.0, 0.0)
"""A rate or share that is taken to be zero."""


@dataclass(frozen=True)
class Inspected:
    """Incidents found by inspections that did not depend on reports, by cell."""

    cell: np.ndarray
    n_found: np.ndarray
    n_reported: np.ndarray


@dataclass(frozen=True)
class Model:
    """Everything that stays the same during a fit; beliefs are (mean, sd), sd 0 keeps a value."""

    law: str
    cells: Cells
    mixture: Mixture = EVEN
    log_callback: tuple[float, float] = NEVER
    logit_silent: tuple[float, float] = LOGIT_SILENT
    inspected: Inspected | None = None

    @property
    def prior_mean(self) -> np.ndarray:
        """Prior mean of every parameter: rate, closing, callback, silent."""
        tail = [self.log_callback[0], self.logit_silent[0]]
        return np.concatenate([self.cells.rate.prior_mean, self.cells.closing.prior_mean, tail])

    @property
    def prior_sd(self) -> np.ndarray:
        """Prior standard deviation of every parameter; 0 for one that is not estimated."""
        tail = [self.log_callback[1], self.logit_silent[1]]
        return np.concatenate([self.cells.rate.prior_sd, self.cells.closing.prior_sd, tail])

    @property
    def prior_precision(self) -> np.ndarray:
        """Prior precision of the parameters that are estimated, 0 for the others."""
        sd = self.prior_sd
        return np.divide(1.0, sd**2, out=np.zeros_like(sd), where=sd > 0)

    @property
    def odds(self) -> np.ndarray:
        """(n_parameters,) what gives log(λ/γ) of an average incident of an average area."""
        out = np.zeros(len(self.prior_mean))
        out[0], out[self.cells.rate.cells.shape[1]] = 1.0, -1.0
        return out

    @property
    def is_free(self) -> np.ndarray:
        """Parameters that are estimated."""
        return self.prior_sd > 0

    @property
    def moving(self) -> list[int]:
        """Row parameters that depend on an estimated one."""
        ends = np.cumsum([0, *(part.shape[1] for part in self.maps)])
        free = self.is_free
        return [k for k in range(N_PARAMETERS) if free[ends[k] : ends[k + 1]].any()]

    @property
    def maps(self) -> list[np.ndarray]:
        """For each row parameter, (n_cells, …) how it depends on the model's parameters."""
        ones = np.ones((len(self.cells.area), 1))
        return [self.cells.rate.cells, self.cells.closing.cells, ones, ones]

    def split(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the rate and of the closing rate; leading axes (draws) are kept."""
        n_rate = self.cells.rate.cells.shape[1]
        return parameters[..., :n_rate], parameters[..., n_rate:-2]

    def unpack(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """(n_cells, 4) row parameters of every cell."""
        cells = self.cells
        rate, closing = self.split(parameters)
        packed = np.empty((len(cells.area), N_PARAMETERS))
        packed[:, RATE] = cells.rate.cells @ rate + effects[cells.area]
        packed[:, CLOSING] = cells.closing.cells @ closing + cells.closing_offset
        packed[:, CALLBACK:] = parameters[-2:]
        return packed


@dataclass(frozen=True)
class Curvature:
    """Log posterior at a point, its gradient and negative Hessian in blocks."""

    value: float
    gradient: np.ndarray
    gradient_effects: np.ndarray
    information: np.ndarray
    """(n_parameters, n_parameters)"""
    information_effects: np.ndarray
    """(n_areas,) likelihood part of the diagonal block of the effects."""
    information_cross: np.ndarray
    """(n_areas, n_parameters)"""
    cell_bend: np.ndarray
    """(n_cells,) second derivative of the rows' likelihood in log λ."""
    rows_value: float
    """Log likelihood of the rows alone."""

    def spread(self, sigma: float) -> np.ndarray:
        """(n_areas,) precision of the effects given the parameters."""
        return np.maximum(self.information_effects, 0.0) + sigma**-2

    def with_sigma(self, effects: np.ndarray, old: float, new: float) -> Curvature:
        """The same point under another spread of the effects, without a pass over the rows."""
        change = old**-2 - new**-2
        return replace(
            self,
            value=self.value + 0.5 * change * float(effects @ effects),
            gradient_effects=self.gradient_effects + change * effects,
        )


def curve(
    model: Model, rows: Rows, parameters: np.ndarray, effects: np.ndarray, sigma: float
) -> Curvature:
    """Log posterior with gradient and information, summed from rows to cells to blocks."""
    packed = model.unpack(parameters, effects)
    found = sum_derivatives(model.law, model.mixture, packed, rows)
    value, gradient, information = found.value, found.gradient, -found.hessian
    cell_bend, rows_value = found.hessian[:, RATE, RATE].copy(), found.value
    if model.inspected is not None:
        seen = model.inspected
        found = inspection_derivatives(
            model.law, model.mixture, packed[seen.cell], seen.n_found, seen.n_reported
        )
        value += found.value
        np.add.at(gradient, seen.cell, found.gradient)
        np.add.at(information, seen.cell, -found.hessian)
    blocks = _assemble(model, parameters, effects, sigma, value, gradient, information)
    return Curvature(*blocks, cell_bend, rows_value)


def _assemble(
    model: Model,
    parameters: np.ndarray,
    effects: np.ndarray,
    sigma: float,
    value: float,
    gradient: np.ndarray,
    information: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Chain rule from the row parameters to the first six fields of `Curvature`, with priors."""
    area, n_areas = model.cells.area, model.cells.n_areas
    maps = model.maps
    ends = np.cumsum([0, *(part.shape[1] for part in maps)])
    slope = np.concatenate([part.T @ gradient[:, k] for k, part in enumerate(maps)])
    square = np.empty((ends[-1], ends[-1]))
    cross = np.empty((n_areas, ends[-1]))
    for k, right in enumerate(maps):
        there = slice(ends[k], ends[k + 1])
        for j, left in enumerate(maps):
            square[ends[j] : ends[j + 1], there] = left.T @ (information[:, j, k, None] * right)
        weighted = information[:, RATE, k, None] * right
        for column in range(right.shape[1]):
            cross[:, ends[k] + column] = np.bincount(area, weighted[:, column], minlength=n_areas)
    gap = parameters - model.prior_mean
    precision = model.prior_precision
    odds = model.odds
    off = float(odds @ parameters) - LOG_ODDS[0]
    value -= 0.5 * (off / LOG_ODDS[1]) ** 2
    slope -= odds * off / LOG_ODDS[1] ** 2
    square += np.outer(odds, odds) / LOG_ODDS[1] ** 2
    by_area = np.bincount(area, gradient[:, RATE], minlength=n_areas)
    value -= 0.5 * float(precision @ gap**2) + 0.5 * float(effects @ effects) / sigma**2
    return (
        value,
        slope - precision * gap,
        by_area - effects / sigma**2,
        square + np.diag(precision),
        np.bincount(area, information[:, RATE, RATE], minlength=n_areas),
        cross,
    )


def make_positive(matrix: np.ndarray) -> np.ndarray:
    """The matrix if it is positive definite; else with its eigenvalues lifted, to go uphill."""
    matrix = (matrix + matrix.T) / 2
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        floor = 1e-8 * max(values.max(), 1e-8)
        return (vectors * np.maximum(np.abs(values), floor)) @ vectors.T
    return matrix


def marginal_covariance(model: Model, here: Curvature, sigma: float) -> np.ndarray:
    """Covariance of the parameters with the effects summed out; 0 for fixed parameters."""
    free = model.is_free
    cross = here.information_cross[:, free]
    inner = here.information[np.ix_(free, free)]
    inner = inner - cross.T @ (cross / here.spread(sigma)[:, None])
    covariance = np.zeros((len(free), len(free)))
    covariance[np.ix_(free, free)] = np.linalg.inv(make_positive(inner))
    return covariance
