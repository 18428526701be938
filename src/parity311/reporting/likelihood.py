"""The likelihood of what is seen of one reported incident, and its derivatives.

While an incident is open it is reported at rate λ. By itself it ends by the law of `lifetimes`; the
city ends the exposure d days after the first report. Seen are the number y of further reports, the
delay s of the last of them, and d. Summing over when the incident began and when it ended,

    P(reported, y, s | d) = λ^(y+1) · [H(s) − λ ∫_s^d H(t) dt],   H(t) = ∫_t^∞ e^(−λv) S(v) dv,

with S the survival of the natural lifetime; P(reported) = λ·H(0). For S(t) = e^(−γt), a = λ + γ:

    λ^y · λ/a · [e^(−ad) + γ ∫_s^d e^(−ar) dr]   and   P(reported) = λ/a;

for a fixed lifetime L it is λ^y (e^(−λd) − e^(−λL) + λ e^(−λL) (d − s)) and 1 − e^(−λL). So
exposure is open time, not d. ``geometric`` sums the exponential law over an unknown d as well.

Some agencies call back and close a case when the problem has ended. Then d says something about
the end. With calls at rate κ once it has ended, made until c days after the first report (the day
of the visit), the bracket becomes γκK(d) for a case that a call closed at d, and for any other
e^(−ad) + γK(c) + γ ∫_max(s,c)^d e^(−ar) dr, with K(c) = ∫_s^c e^(−ar − κ(c−r)) dr.

Given a first report, a share θ of incidents gets no further one (zero inflation): the same with
λ = 0 from then on. Where reporting varies between incidents of one place, λ = μ·g with
g ~ Gamma(k, 1/k), and both sides are summed over g: conditioning on a first report favours large g,
and this undoes it. The sum is Gauss-Laguerre quadrature, whose nodes and weights k sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

TINY = 1e-300
"""Keeps the logarithm of a probability that rounds to zero finite."""

MIX_NODES = ((15.0, 3), (5.0, 5), (2.0, 8), (1.0, 12), (0.0, 20))
"""Nodes of the Gamma mixture by its shape (from … on): enough for an error of 0.15 % at most from
a shape of 0.5 on, checked against integration."""

RATE, CLOSING, CALLBACK, SILENT = range(4)
"""Parameters of a row: log λ (or log μ) in reports a day; log γ, one over the mean lifetime in
days; log κ, calls a day after the end; logit θ, the share silent."""
N_PARAMETERS = 4


class RowData(NamedTuple):
    """What is seen of one reported incident; arrays over rows."""

    n_further: np.ndarray
    last_delay_days: np.ndarray
    exposure_days: np.ndarray
    found_ended: np.ndarray
    """Whether the exposure ended with a call that found the incident over (float, 0 or 1)."""
    called_until_days: np.ndarray
    """Days after the first report until which calls were made, at most the exposure."""

    def take(self, rows: slice | np.ndarray) -> RowData:
        """These rows."""
        return RowData(*(part[rows] for part in self))


class Derivatives(NamedTuple):
    """Sum of the log likelihood, and per cell its gradient (n, 4) and Hessian (n, 4, 4)."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


class Logarithm(NamedTuple):
    """A logarithm of a positive quantity with its derivatives; a derivative that is 0 is absent.

    First derivatives by parameter, second ones by pair of parameters (i ≤ j), of rate, closing and
    callback.
    """

    value: np.ndarray
    slope: dict[int, np.ndarray]
    bend: dict[tuple[int, int], np.ndarray]


def resolve_law(law: str, data: RowData) -> str:
    """The law by which rows are read: ``called`` where the end of an exposure tells of the end."""
    return "called" if law == "exponential" and bool(np.any(data.found_ended)) else law


def share_terms(law: str, rate: np.ndarray, closing: np.ndarray) -> Logarithm:
    """P(reported)."""
    if law == "fixed":
        x = rate / closing
        h = x / np.maximum(np.expm1(np.minimum(x, 700.0)), TINY)
        share, slope, bend = -np.expm1(-x), h, h * (1.0 - x - h)
    else:
        share = rate / (rate + closing)
        slope, bend = 1.0 - share, -share * (1.0 - share)
    return Logarithm(
        np.log(share + TINY),
        {RATE: slope, CLOSING: -slope},
        {(RATE, RATE): bend, (RATE, CLOSING): -bend, (CLOSING, CLOSING): bend},
    )


def window_terms(
    law: str, rate: np.ndarray, closing: np.ndarray, callback: np.ndarray, data: RowData
) -> Logarithm:
    """P(y, s | reported, d) over λ^y, before silence."""
    if law == "called":
        return _called_window(rate, closing, callback, data)
    if law == "exponential":
        return _exponential_window(rate, closing, data.last_delay_days, data.exposure_days)
    return (_fixed_window if law == "fixed" else _geometric_window)(rate, closing, data)


def _exponential_window(
    rate: np.ndarray, closing: np.ndarray, s: np.ndarray, d: np.ndarray
) -> Logarithm:
    """(γ e^(−as) + λ e^(−ad)) / a: ended by itself after s, or still open at d.

    In logarithms: where both round to nothing, a floor would make the likelihood flat, and a climb
    would wander off on it.
    """
    total = rate + closing
    ended = np.log(closing + TINY) - total * s
    still = np.log(rate + TINY) - total * d
    either, b = _add_logs(ended, still)
    a = 1.0 - b
    p = rate / total
    length = d - s
    gap_r, gap_c, ab = rate * length - 1.0, 1.0 + closing * length, a * b
    bend = p * (1.0 - p)
    waited = s + b * length  # a·s + b·d
    rate_waited, closing_waited = rate * waited, closing * waited
    return Logarithm(
        either - np.log(total),
        {RATE: b - rate_waited - p, CLOSING: p - b - closing_waited},
        {
            (RATE, RATE): ab * gap_r * gap_r - rate_waited - bend,
            (RATE, CLOSING): ab * gap_r * gap_c + bend,
            (CLOSING, CLOSING): ab * gap_c * gap_c - closing_waited - bend,
        },
    )


def _add_logs(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithm of a sum, and the second's share in it, by one exponential."""
    gap = two - one
    small = np.exp(-np.abs(gap))
    large = 1.0 / (1.0 + small)
    return np.maximum(one, two) - np.log(large), np.where(gap > 0.0, large, small * large)


def _called_window(
    rate: np.ndarray, closing: np.ndarray, callback: np.ndarray, data: RowData
) -> Logarithm:
    """γκK(d) where a call closed the case; else γK(c) plus the window after the last call."""
    s, d = data.last_delay_days, data.exposure_days
    is_called = data.found_ended > 0
    until = np.where(is_called, d, np.maximum(data.called_until_days, s))
    if not np.any(until > s):
        return _exponential_window(rate, closing, s, d)
    log_k, slope, bend = _log_waiting(rate, closing, callback, s, until - s)
    slope[CLOSING] = slope[CLOSING] + 1.0
    log_k = log_k + np.log(closing)
    if np.all(is_called):
        slope[CALLBACK] = slope[CALLBACK] + 1.0
        return Logarithm(log_k + np.log(callback), slope, bend)
    after = _exponential_window(rate, closing, until, d)
    value, open_share = _add_logs(log_k, after.value)
    value = np.where(is_called, log_k, value)
    ended = np.where(is_called, 1.0, 1.0 - open_share)
    either = ended * (1.0 - ended)
    nothing = np.zeros_like(d)
    gap = {place: slope[place] - after.slope.get(place, nothing) for place in slope}
    out_slope = {place: slope[place] - (1.0 - ended) * gap[place] for place in slope}
    out_slope[CALLBACK] = out_slope[CALLBACK] + is_called
    out_bend = {}
    for i, j in bend:
        other = after.bend.get((i, j), nothing)
        inner = ended * bend[i, j] + (1.0 - ended) * other
        out_bend[i, j] = inner + either * gap[i] * gap[j]
    return Logarithm(value + np.where(is_called, np.log(callback), 0.0), out_slope, out_bend)


def _log_waiting(
    rate: np.ndarray, closing: np.ndarray, callback: np.ndarray, s: np.ndarray, m: np.ndarray
) -> tuple[np.ndarray, dict[int, np.ndarray], dict[tuple[int, int], np.ndarray]]:
    """Log K with derivatives, K = m e^(−as − κm) φ((a − κ)m), φ(x) = (1 − e^−x)/x, m = d − s."""
    total = rate + closing
    log_phi, psi, psi_slope = _phi((total - callback) * m)
    value = np.log(m + TINY) - total * s - callback * m + log_phi
    along = m * psi - s
    square = m * m * psi_slope
    against = -m - m * psi
    slope = {RATE: rate * along, CLOSING: closing * along, CALLBACK: callback * against}
    bend = {
        (RATE, RATE): rate * along + rate * rate * square,
        (RATE, CLOSING): rate * closing * square,
        (CLOSING, CLOSING): closing * along + closing * closing * square,
        (RATE, CALLBACK): -rate * callback * square,
        (CLOSING, CALLBACK): -closing * callback * square,
        (CALLBACK, CALLBACK): callback * against + callback * callback * square,
    }
    return value, slope, bend


def _phi(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log φ, its derivative 1/(e^x − 1) − 1/x and second derivative, for φ(x) = (1 − e^−x)/x.

    By e^−|x|, which cannot overflow: with frequent calls over many days x is far below −600.
    """
    small = np.abs(x) < 1e-3
    safe = np.where(small, 1.0, x)
    size = np.abs(safe)
    shrink, rest = np.exp(-size), -np.expm1(-size)
    first = np.where(safe > 0, shrink, -1.0) / rest - 1.0 / safe
    second = 1.0 / safe**2 - shrink / rest**2
    log_phi = np.log(rest / size) + np.maximum(-safe, 0.0)
    return (
        np.where(small, -x / 2 + x * x / 24, log_phi),
        np.where(small, -0.5 + x / 12, first),
        np.where(small, 1.0 / 12 - x * x / 240, second),
    )


def _fixed_window(rate: np.ndarray, closing: np.ndarray, data: RowData) -> Logarithm:
    """e^(−λd) T / (1 − e^(−λL)) with T = 1 − e^(−λ(L−d)) + λ e^(−λ(L−d)) (d−s); L is given."""
    life = 1.0 / closing
    s, d = np.minimum(data.last_delay_days, life), np.minimum(data.exposure_days, life)
    after = rate * (life - d)
    left = np.exp(-after)
    within = rate * (d - s) * left
    tail = -np.expm1(-after) + within + TINY
    slope = (after * left + within * (1.0 - after)) / tail
    bend = (after * left * (1.0 - after) + within * (1.0 - 3.0 * after + after**2)) / tail
    share = share_terms("fixed", rate, closing)
    return Logarithm(
        np.log(tail) - rate * d - share.value,
        {RATE: slope - rate * d - share.slope[RATE]},
        {(RATE, RATE): bend - slope**2 - rate * d - share.bend[RATE, RATE]},
    )


def _geometric_window(rate: np.ndarray, closing: np.ndarray, data: RowData) -> Logarithm:
    """γ/(λ+γ)^(y+1)."""
    total, n = rate + closing, data.n_further + 1.0
    p = rate / total
    bend = n * p * (1.0 - p)
    return Logarithm(
        np.log(closing) - n * np.log(total),
        {RATE: -n * p, CLOSING: 1.0 - n * (1.0 - p)},
        {(RATE, RATE): -bend, (RATE, CLOSING): bend, (CLOSING, CLOSING): -bend},
    )


def silent_terms(
    law: str, closing: np.ndarray, callback: np.ndarray, data: RowData
) -> Logarithm | None:
    """What the window says where nobody reports again; None where it says nothing.

    Without calls the window does not depend on the incident, and its chance is one.
    """
    if law != "called":
        return None
    none = np.zeros_like(closing)
    found = _called_window(none, closing, callback, data._replace(last_delay_days=none))
    bend = {pair: part for pair, part in found.bend.items() if RATE not in pair}
    return Logarithm(
        found.value, {place: part for place, part in found.slope.items() if place != RATE}, bend
    )


class Mixture(NamedTuple):
    """How reporting varies between incidents of one place: factors on the rate, with weights."""

    log_factor: np.ndarray
    weight: np.ndarray


EVEN = Mixture(np.zeros(1), np.ones(1))
"""Every incident of a place is reported at one rate."""


def gamma_mixture(shape: float) -> Mixture:
    """Nodes and weights of Gamma(k, 1/k), mean 1: generalised Gauss-Laguerre quadrature.

    From the eigenvalues of its Jacobi matrix, which do not overflow for large k.
    """
    n_nodes = next(n for least, n in MIX_NODES if shape >= least)
    place = np.arange(n_nodes)
    beside = np.sqrt(place[1:] * (place[1:] + shape - 1.0))
    nodes, vectors = eigh_tridiagonal(2.0 * place + shape, beside)
    weights = vectors[0] ** 2
    keep = weights > 1e-14 * weights.max()
    return Mixture(np.log(nodes[keep] / shape), weights[keep] / weights[keep].sum())


def mix(node: Logarithm, mixture: Mixture) -> Logarithm:
    """Logarithm of a weighted sum over the leading axis (nodes).

    Derivatives are moments under the nodes' shares in the sum.
    """
    log_mass = node.value + np.log(mixture.weight + TINY)[:, None]
    largest = log_mass.max(axis=0)
    mass = np.exp(log_mass - largest)
    total = mass.sum(axis=0)
    mass = mass / total
    slope = {i: (mass * part).sum(axis=0) for i, part in node.slope.items()}
    bend = {}
    for (i, j), part in node.bend.items():
        moment = (mass * (part + node.slope[i] * node.slope[j])).sum(axis=0)
        bend[i, j] = moment - slope[i] * slope[j]
    return Logarithm(largest + np.log(total), slope, bend)


def _add(one: Logarithm, two: Logarithm, sign: float) -> Logarithm:
    """Sum (or difference) of two logarithms with their derivatives."""
    slope, bend = dict(one.slope), dict(one.bend)
    for place, part in two.slope.items():
        slope[place] = slope.get(place, 0.0) + sign * part
    for pair, part in two.bend.items():
        bend[pair] = bend.get(pair, 0.0) + sign * part
    return Logarithm(one.value + sign * two.value, slope, bend)


def log_share(law: str, mixture: Mixture, packed: np.ndarray) -> Logarithm:
    """Logarithm of P(reported) of every row of parameters."""
    rate, closing = np.exp(packed[:, RATE]), np.exp(packed[:, CLOSING])
    if len(mixture.weight) == 1:
        return share_terms(law, rate, closing)
    return mix(share_terms(law, rate * np.exp(mixture.log_factor)[:, None], closing), mixture)


def log_seen(law: str, mixture: Mixture, packed: np.ndarray, data: RowData) -> Logarithm:
    """Logarithm of P(y, s | reported, d) of every row before silence, less y·log λ (or log μ)."""
    rate, closing, callback = (np.exp(packed[:, place]) for place in (RATE, CLOSING, CALLBACK))
    if len(mixture.weight) == 1:
        return window_terms(law, rate, closing, callback, data)
    factor = mixture.log_factor[:, None]
    here = rate * np.exp(factor)
    share = share_terms(law, here, closing)
    both = _add(window_terms(law, here, closing, callback, data), share, 1.0)
    both = both._replace(value=both.value + data.n_further * factor)
    return _add(mix(both, mixture), mix(share, mixture), -1.0)


def row_derivatives(
    law: str, mixture: Mixture, packed: np.ndarray, data: RowData
) -> tuple[np.ndarray, dict[int, np.ndarray], dict[tuple[int, int], np.ndarray]]:
    """Log likelihood of every row with silence, its gradient and second derivatives.

    r: the chance that a row is not one of the silent ones; L, M: the logarithms of what is seen
    where people speak and where they are silent. ℓ_a = r·L_a + (1−r)·M_a,
    ℓ_ab = r·L_ab + (1−r)·M_ab + r(1−r)(L_a − M_a)(L_b − M_b); for the logit of the silent share t,
    ℓ_t = 1 − t − r, ℓ_at = −r(1−r)(L_a − M_a), ℓ_tt = r(1−r) − t(1−t).
    """
    seen = log_seen(law, mixture, packed, data)
    y, logit = data.n_further, packed[:, SILENT]
    log_speak = y * packed[:, RATE] + seen.value
    seen.slope[RATE] = seen.slope[RATE] + y
    if np.all(y > 0):
        silent = 1.0 / (1.0 + np.exp(-logit))
        slope, bend = seen.slope | {SILENT: -silent}, dict(seen.bend)
        bend[SILENT, SILENT] = -silent * (1.0 - silent)
        return log_speak - np.logaddexp(0.0, logit), slope, bend
    quiet = silent_terms(law, np.exp(packed[:, CLOSING]), np.exp(packed[:, CALLBACK]), data)
    log_quiet, quiet_slope, quiet_bend = (0.0, {}, {}) if quiet is None else quiet
    log_odds = np.where(y == 0, log_speak - log_quiet - logit, np.inf)
    speaks = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -700.0, 700.0)))
    either = np.where(y == 0, speaks * (1.0 - speaks), 0.0)
    speaks = np.where(y == 0, speaks, 1.0)
    silent = 1.0 / (1.0 + np.exp(-logit))
    value = np.where(y == 0, np.logaddexp(logit + log_quiet, log_speak), log_speak)
    gap = {i: part - quiet_slope.get(i, 0.0) for i, part in seen.slope.items()}
    gradient = {i: speaks * gap[i] + quiet_slope.get(i, 0.0) for i in gap}
    gradient[SILENT] = 1.0 - silent - speaks
    hessian = {}
    for pair in seen.bend:
        own = quiet_bend.get(pair, 0.0)
        inner = speaks * (seen.bend[pair] - own) + own
        hessian[pair] = inner + either * gap[pair[0]] * gap[pair[1]]
    hessian |= {(i, SILENT): -either * gap[i] for i in gap}
    hessian[SILENT, SILENT] = either - silent * (1.0 - silent)
    return value - np.logaddexp(0.0, logit), gradient, hessian


def inspection_derivatives(
    law: str, mixture: Mixture, packed: np.ndarray, n_found: np.ndarray, n_reported: np.ndarray
) -> Derivatives:
    """Log P(n_reported of n_found are reported), by row of parameters.

    With S the log share: reported·S + missed·log(1 − e^S).
    """
    n = len(packed)
    share = log_share(law, mixture, packed)
    p = np.exp(np.minimum(share.value, -1e-12))
    odds = p / (1.0 - p)
    missed = n_found - n_reported
    first = n_reported - missed * odds
    second = -missed * odds / (1.0 - p)
    gradient, hessian = np.zeros((n, N_PARAMETERS)), np.zeros((n, N_PARAMETERS, N_PARAMETERS))
    for i, part in share.slope.items():
        gradient[:, i] = first * part
    for (i, j), part in share.bend.items():
        cell = first * part + second * share.slope[i] * share.slope[j]
        hessian[:, i, j] = hessian[:, j, i] = cell
    value = n_reported * share.value + missed * np.log1p(-p)
    return Derivatives(float(value.sum()), gradient, hessian)


def reported_share(law: str, mixture: Mixture, log_odds: np.ndarray) -> np.ndarray:
    """P(reported) for log(λ/γ) of any shape."""
    odds = np.exp(log_odds)
    share = np.zeros_like(odds)
    for factor, weight in zip(np.exp(mixture.log_factor), mixture.weight, strict=True):
        here = odds * factor
        share += weight * (-np.expm1(-here) if law == "fixed" else here / (1.0 + here))
    return share
