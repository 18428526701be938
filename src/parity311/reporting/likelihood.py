"""The likelihood of what is seen of one reported incident, and its derivatives.

While an incident is open it is reported at rate λ. Its natural end has the law of `lifetimes`; the
city ends the exposure d days after the first report. Seen are the number y of further reports, the
delay s of the last of them, and d. Summing over when the incident began and when it ended,

    P(reported, y, s | d) = λ^(y+1) · [H(s) − λ ∫_s^d H(t) dt],   H(t) = ∫_t^∞ e^(−λv) S(v) dv,

with S the survival of the natural lifetime; P(reported) = λ·H(0). For S(t) = e^(−γt) this is
λ^(y+1) (γ e^(−(λ+γ)s) + λ e^(−(λ+γ)d)) / (λ+γ)² and λ/(λ+γ); for a fixed lifetime L it is
λ^y (e^(−λd) − e^(−λL) + λ e^(−λL) (d − s)) and 1 − e^(−λL). So exposure is open time, not d.
``geometric`` sums the exponential law over an unknown d as well: (λ/(λ+γ))^(y+1) γ/(λ+γ).

Given a first report, a share θ of incidents gets no further one (zero inflation). Where reporting
varies between incidents of one place, λ = μ·g with g ~ Gamma(k, 1/k), and both sides are summed
over g: conditioning on a first report favours large g, and this undoes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp

LOG_MIX_NODES = np.linspace(np.log(1e-4), np.log(20.0), 28)
"""Grid of log g for the Gamma mixture; at k = 0.2 it holds all but 2 % of the mass, at k ≥ 0.5 all
but 0.6 %, and what lies below 1e-4 adds nothing to the reported incidents."""
N_BLOCK = 1 << 16
"""Rows that one compiled call takes; longer tables are cut into such blocks."""


class RowParameters(NamedTuple):
    """What the likelihood of one row depends on; each entry is an array over rows."""

    log_rate: jax.Array
    """log λ (or log μ), reports a day."""
    log_closing: jax.Array
    """log γ (1/mean lifetime in days)."""
    logit_silent: jax.Array
    """logit θ, the share with no report after the first."""
    log_shape: jax.Array
    """log k, ignored without mixing."""


class RowData(NamedTuple):
    """What is seen of one reported incident."""

    n_further: jax.Array
    last_delay_days: jax.Array
    exposure_days: jax.Array


def log_reported(law: str, log_rate: jax.Array, log_closing: jax.Array) -> jax.Array:
    """Log P(reported) of an incident with this rate."""
    if law in ("exponential", "geometric"):
        return -jnp.logaddexp(0.0, log_closing - log_rate)
    return jnp.log(-jnp.expm1(-jnp.exp(log_rate - log_closing)))


def log_reported_and_seen(
    law: str, log_rate: jax.Array, log_closing: jax.Array, data: RowData
) -> jax.Array:
    """Log P(reported, y, s | d), see the module's text."""
    y, s, d = data
    rate, closing = jnp.exp(log_rate), jnp.exp(log_closing)
    if law == "exponential":
        total = rate + closing
        early = log_closing - total * s
        late = log_rate - total * d
        return (y + 1.0) * log_rate - 2.0 * jnp.log(total) + jnp.logaddexp(early, late)
    if law == "geometric":
        odds = log_rate - log_closing
        return (y + 1.0) * jax.nn.log_sigmoid(odds) + jax.nn.log_sigmoid(-odds)
    life = jnp.exp(-log_closing)
    s, d = jnp.minimum(s, life), jnp.minimum(d, life)
    tail = -jnp.expm1(-rate * (life - d)) + rate * jnp.exp(-rate * (life - d)) * (d - s)
    return y * log_rate - rate * d + jnp.log(tail + 1e-300)


def mixture_weights(log_shape: jax.Array) -> jax.Array:
    """Log weight of every node of the Gamma(k, 1/k) grid; sums to one."""
    nodes = jnp.asarray(LOG_MIX_NODES)
    shape = jnp.exp(log_shape)
    log_density = shape * log_shape - gammaln(shape) + shape * nodes - shape * jnp.exp(nodes)
    return log_density - logsumexp(log_density)


def row_log_likelihood(
    law: str, is_mixed: bool, parameters: RowParameters, data: RowData
) -> jax.Array:
    """Log P(y, s | reported, d) of one row (scalars in, scalar out)."""
    log_rate, log_closing, logit_silent, log_shape = parameters
    if is_mixed:
        weights = mixture_weights(log_shape)
        rates = log_rate + jnp.asarray(LOG_MIX_NODES)
        seen = logsumexp(weights + log_reported_and_seen(law, rates, log_closing, data))
        seen -= logsumexp(weights + log_reported(law, rates, log_closing))
    else:
        seen = log_reported_and_seen(law, log_rate, log_closing, data)
        seen -= log_reported(law, log_rate, log_closing)
    silent = jnp.where(data.n_further == 0, jax.nn.log_sigmoid(logit_silent), -jnp.inf)
    return jnp.logaddexp(silent, jax.nn.log_sigmoid(-logit_silent) + seen)


def reported_share(
    law: str, is_mixed: bool, log_rate: np.ndarray, log_closing: np.ndarray, log_shape: np.ndarray
) -> np.ndarray:
    """P(reported); the arguments broadcast. In NumPy, for draws."""
    if is_mixed:
        shape = np.exp(log_shape)[..., None]
        nodes = LOG_MIX_NODES
        weights = shape * nodes - shape * np.exp(nodes)
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        share = _plain_share(law, log_rate[..., None] + nodes, np.asarray(log_closing)[..., None])
        return (share * weights).sum(axis=-1)
    return _plain_share(law, log_rate, log_closing)


def _plain_share(law: str, log_rate: np.ndarray, log_closing: np.ndarray) -> np.ndarray:
    odds = np.exp(np.asarray(log_rate) - log_closing)
    return -np.expm1(-odds) if law == "fixed" else odds / (1.0 + odds)


class Derivatives(NamedTuple):
    """Value, gradient (n, 4) and Hessian (n, 4, 4) of every row's log likelihood."""

    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray


@lru_cache
def compiled_derivatives(law: str, is_mixed: bool) -> Callable[..., Derivatives]:
    """Compile value, gradient and Hessian for a block of rows."""

    def scalar(packed: jax.Array, data: RowData) -> jax.Array:
        return row_log_likelihood(law, is_mixed, RowParameters(*packed), data)

    def all_three(packed: jax.Array, data: RowData) -> tuple[jax.Array, jax.Array, jax.Array]:
        def gradient(q: jax.Array) -> tuple[jax.Array, jax.Array]:
            slope = jax.grad(scalar)(q, data)
            return slope, slope

        hessian, slope = jax.jacfwd(gradient, has_aux=True)(packed)
        return scalar(packed, data), slope, hessian

    return jax.jit(jax.vmap(all_three))


@lru_cache
def compiled_skewness(law: str, is_mixed: bool) -> Callable[..., tuple[jax.Array]]:
    """Compile the gradient of the second derivative in log λ, for a block of rows."""

    def curvature(packed: jax.Array, data: RowData) -> jax.Array:
        def along_rate(log_rate: jax.Array) -> jax.Array:
            q = RowParameters(log_rate, *packed[1:])
            return row_log_likelihood(law, is_mixed, q, data)

        return jax.grad(jax.grad(along_rate))(packed[0])

    return jax.jit(jax.vmap(lambda packed, data: (jax.grad(curvature)(packed, data),)))


def skewness(law: str, is_mixed: bool, packed: np.ndarray, data: RowData) -> np.ndarray:
    """(n, 4) derivatives of the second derivative in log λ, for the Laplace approximation."""
    out = (np.empty((len(packed), 4)),)
    _in_blocks(compiled_skewness(law, is_mixed), packed, data, out)
    return out[0]


def derivatives(law: str, is_mixed: bool, packed: np.ndarray, data: RowData) -> Derivatives:
    """Derivatives of every row with respect to its four parameters, in double precision.

    Parameters
    ----------
    packed
        (n, 4) parameters in the order of `RowParameters`.
    """
    n = len(packed)
    out = Derivatives(np.empty(n), np.empty((n, 4)), np.empty((n, 4, 4)))
    _in_blocks(compiled_derivatives(law, is_mixed), packed, data, out)
    return out


def _in_blocks(
    compute: Callable, packed: np.ndarray, data: RowData, out: tuple[np.ndarray, ...]
) -> None:
    """Fill ``out`` block by block; equal block sizes keep one compiled program."""
    n = len(packed)
    size = min(N_BLOCK, 1 << max(8, int(np.ceil(np.log2(max(n, 1))))))
    with jax.enable_x64(True):
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            padding = size - (rows.stop - rows.start)
            block = np.pad(packed[rows], ((0, padding), (0, 0)), mode="edge")
            seen = RowData(*(np.pad(part[rows], (0, padding), mode="edge") for part in data))
            for target, result in zip(out, compute(block, seen), strict=True):
                target[rows] = np.asarray(result)[: rows.stop - rows.start]


@lru_cache
def compiled_inspection_derivatives(law: str, is_mixed: bool) -> Callable[..., Derivatives]:
    """Compile the derivatives of log P(n_reported of n_found are reported)."""

    def scalar(packed: jax.Array, n_found: jax.Array, n_reported: jax.Array) -> jax.Array:
        log_rate, log_closing, _, log_shape = packed
        if is_mixed:
            rates = log_rate + jnp.asarray(LOG_MIX_NODES)
            weights = mixture_weights(log_shape)
            log_share = logsumexp(weights + log_reported(law, rates, log_closing))
        else:
            log_share = log_reported(law, log_rate, log_closing)
        log_share = jnp.minimum(log_share, -1e-12)
        missed = (n_found - n_reported) * jnp.log(-jnp.expm1(log_share))
        return n_reported * log_share + missed

    def all_three(*args: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return scalar(*args), jax.grad(scalar)(*args), jax.hessian(scalar)(*args)

    return jax.jit(jax.vmap(all_three))


def inspection_derivatives(
    law: str, is_mixed: bool, packed: np.ndarray, n_found: np.ndarray, n_reported: np.ndarray
) -> Derivatives:
    """Derivatives of the inspections' log likelihood with respect to the row parameters."""
    with jax.enable_x64(True):
        compute = compiled_inspection_derivatives(law, is_mixed)
        return Derivatives(*(np.asarray(part) for part in compute(packed, n_found, n_reported)))
