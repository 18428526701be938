"""The likelihood of one reported incident: derivatives, simulation, limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, norm

from parity311.reporting.hierarchy import Spread
from parity311.reporting.likelihood import (
    CALLBACK,
    CLOSING,
    EVEN,
    N_PARAMETERS,
    RATE,
    SILENT,
    RowData,
    _exponential_window,
    _phi,
    gamma_mixture,
    inspection_derivatives,
    reported_share,
    resolve_law,
    row_derivatives,
)
from parity311.reporting.row_sums import Rows, sum_derivatives

N = 40


def rows_of(seed: int, *, calls: bool) -> RowData:
    rng = np.random.default_rng(seed)
    n_further = rng.poisson(1.0, N).astype(float)
    exposure = rng.gamma(2.0, 3.0, N)
    last = np.where(n_further > 0, rng.random(N) * exposure, 0.0)
    ended = (rng.random(N) < 0.3).astype(float) * calls
    return RowData(n_further, last, exposure, ended, exposure * rng.random(N))


def parameters_of(law: str, seed: int, *, calls: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    closing = np.full(N, -3.2) if law == "fixed" else rng.normal(-2.0, 0.5, N)
    callback = rng.normal(0.0, 1.0, N) if calls else np.full(N, -30.0)
    return np.column_stack([rng.normal(-2.0, 0.5, N), closing, callback, rng.normal(-1.0, 0.5, N)])


@pytest.mark.parametrize("shape", [None, 0.7, 3.0])
@pytest.mark.parametrize(
    ("law", "calls"),
    [("exponential", False), ("exponential", True), ("fixed", False), ("geometric", False)],
)
def test_derivatives_agree_with_differences(law: str, calls: bool, shape: float | None) -> None:
    mixture = EVEN if shape is None else gamma_mixture(shape)
    data, packed = rows_of(1, calls=calls), parameters_of(law, 2, calls=calls)
    rows = Rows.sort(data, np.arange(N), N)
    here = sum_derivatives(law, mixture, packed, rows)
    step = 1e-5
    # A fixed lifetime is given, never estimated: its derivatives are not provided.
    moving = [RATE, SILENT] if law == "fixed" else [RATE, CLOSING, CALLBACK, SILENT]
    for place in moving:
        up, down = packed.copy(), packed.copy()
        up[:, place] += step
        down[:, place] -= step
        value = row_derivatives(resolve_law(law, data), mixture, up, data)[0]
        value = (value - row_derivatives(resolve_law(law, data), mixture, down, data)[0]) / (
            2 * step
        )
        np.testing.assert_allclose(here.gradient[:, place], value, atol=1e-8)
        slope = sum_derivatives(law, mixture, up, rows).gradient
        slope = (slope - sum_derivatives(law, mixture, down, rows).gradient) / (2 * step)
        np.testing.assert_allclose(here.hessian[:, place][:, moving], slope[:, moving], atol=1e-7)


@pytest.mark.parametrize("x", [-5000.0, -700.0, -1.0, 1.0, 700.0, 5000.0])
def test_waiting_far_out_keeps_its_value_and_slopes(x: float) -> None:
    """log((1 − e^−x)/x) without overflow, and no floor or cap from where on it stays the same."""
    log_phi, slope, bend = (float(part) for part in _phi(np.array(x)))
    far = abs(x) > 100
    expected = max(-x, 0.0) - np.log(abs(x)) if far else np.log(-np.expm1(-x) / x)
    assert log_phi == pytest.approx(expected, rel=1e-12)
    step = 1e-4 * abs(x)
    above, below = (_phi(np.array(x + move)) for move in (step, -step))
    assert slope == pytest.approx(float(above[0] - below[0]) / (2 * step), rel=1e-6)
    assert bend == pytest.approx(float(above[1] - below[1]) / (2 * step), rel=1e-4, abs=1e-12)


def test_a_window_that_rounds_to_nothing_keeps_its_slope() -> None:
    """λ of 50 a day over 100 days: e^−5000 has a logarithm, and it falls as λ rises."""
    rate, closing = np.array([50.0, 60.0]), np.array([0.3, 0.3])
    found = _exponential_window(rate, closing, np.full(2, 90.0), np.full(2, 100.0))
    total = rate + closing
    expected = np.log(closing / total) - total * 90.0
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    np.testing.assert_allclose(found.slope[RATE], -rate * 90.0 - rate / total, rtol=1e-12)


def test_a_wrong_derivative_is_noticed() -> None:
    """The check above is no check unless it fails on a derivative that is off by a little."""
    data, packed = rows_of(1, calls=False), parameters_of("exponential", 2, calls=False)
    rows = Rows.sort(data, np.arange(N), N)
    gradient = sum_derivatives("exponential", EVEN, packed, rows).gradient[:, RATE] * 1.001
    up = packed.copy()
    up[:, RATE] += 1e-5
    value = row_derivatives("exponential", EVEN, up, data)[0]
    value = (value - row_derivatives("exponential", EVEN, packed, data)[0]) / 1e-5
    assert np.abs(gradient - value).max() > 1e-4


def simulate_incidents(
    rng: np.random.Generator, n: int, rate: float, life: np.ndarray, exposure: float
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each incident is reported, and reports within the exposure after the first."""
    first = rng.standard_exponential(n) / rate
    reported = first < life
    is_open = np.clip(np.minimum(life - first, exposure), 0.0, None)
    return reported, rng.poisson(rate * is_open)


@pytest.mark.parametrize("law", ["exponential", "fixed"])
def test_chance_of_no_further_report_agrees_with_simulation(law: str) -> None:
    rng = np.random.default_rng(3)
    n, rate, mean, exposure = 400_000, 0.15, 9.0, 6.0
    life = mean * rng.standard_exponential(n) if law == "exponential" else np.full(n, mean)
    reported, further = simulate_incidents(rng, n, rate, life, exposure)
    packed = np.array([[np.log(rate), -np.log(mean), -30.0, -30.0]])
    none = RowData(*(np.array([value]) for value in (0.0, 0.0, exposure, 0.0, exposure)))
    expected = np.exp(row_derivatives(law, EVEN, packed, none)[0][0])
    error = 4 * np.sqrt(expected * (1 - expected) / reported.sum())
    assert abs((further[reported] == 0).mean() - expected) < error
    share = reported_share(law, EVEN, packed[:, RATE] - packed[:, CLOSING])[0]
    assert abs(reported.mean() - share) < 4 * np.sqrt(share / n)


def test_exposure_is_open_time_not_the_wait_for_the_city() -> None:
    """A city that comes after a year sees no more reports than one that comes after ten lives."""
    packed = np.array([[np.log(0.1), np.log(0.2), -30.0, -30.0]] * 2)
    waits = np.array([50.0, 365.0])
    none = RowData(np.zeros(2), np.zeros(2), waits, np.zeros(2), waits)
    late = row_derivatives("exponential", EVEN, packed, none)[0]
    assert late[0] == pytest.approx(late[1], abs=1e-6)


def test_gamma_mixture_agrees_with_integration() -> None:
    for shape in (0.5, 1.0, 4.0, 20.0):
        mixture = gamma_mixture(shape)
        found = reported_share("exponential", mixture, np.array([0.2]))[0]
        odds = np.exp(0.2)

        def integrand(u: float, k: float = shape, odds: float = odds) -> float:
            g = gamma.ppf(u, k, scale=1 / k)
            return g * odds / (1 + g * odds)

        assert found == pytest.approx(quad(integrand, 0, 1, limit=200)[0], rel=3e-3)


def test_calls_that_never_come_change_nothing() -> None:
    """With calls at a vanishing rate and none seen, the likelihood is the one without calls."""
    data, packed = rows_of(5, calls=False), parameters_of("exponential", 6, calls=False)
    one_called = data._replace(found_ended=np.r_[1.0, np.zeros(N - 1)])
    with_calls = row_derivatives("called", EVEN, packed, one_called)[0][1:]
    without = row_derivatives("exponential", EVEN, packed, data)[0][1:]
    np.testing.assert_allclose(with_calls, without, atol=1e-9)


def test_windows_with_calls_have_total_probability_one() -> None:
    """Called back or not: the chances of both, over all times and numbers of reports, sum to 1."""
    rate, closing, callback, until = 1e-9, 0.3, 0.8, 4.0
    packed = np.array([[np.log(rate), np.log(closing), np.log(callback), -30.0]])

    def density(day: float, ended: float) -> float:
        row = RowData(*(np.array([v]) for v in (0.0, 0.0, day, ended, min(day, until))))
        both = RowData(*(np.array([v, w]) for v, w in zip(row_values(row), CALLED, strict=True)))
        return float(np.exp(row_derivatives("called", EVEN, np.repeat(packed, 2, 0), both)[0][0]))

    called = quad(lambda day: density(day, 1.0), 1e-9, until)[0]
    waited = density(until, 0.0)
    assert called + waited == pytest.approx(1.0, abs=1e-6)


CALLED = (0.0, 0.0, 1.0, 1.0, 1.0)
"""A row that a call closed: it makes the likelihood account for calls in all rows."""


def row_values(row: RowData) -> tuple[float, ...]:
    return tuple(float(part[0]) for part in row)


def test_inspections_are_binomial() -> None:
    packed = np.array([[0.0, 0.0, -30.0, -1.0]])
    found = inspection_derivatives("exponential", EVEN, packed, np.array([10.0]), np.array([4.0]))
    assert found.value == pytest.approx(10 * np.log(0.5))
    assert found.gradient.shape == (1, N_PARAMETERS)
    assert found.gradient[0, RATE] == pytest.approx(4 - 5)


@pytest.mark.parametrize("mean", [0.5, -1.0, -10.0, -50.0])
def test_spread_is_drawn_where_no_spread_is_far_likelier(mean: float) -> None:
    """With the top of the parabola far below 0 the chance above it rounds to nothing."""
    drawn = Spread(mean, 1.0, np.zeros(1)).draw(np.random.default_rng(0), 4000)
    assert (drawn >= 0.0).all()
    # Mean of a normal above 0: mean + sd φ(a)/Φ(a), with the ratio taken in logarithms.
    ratio = np.exp(norm.logpdf(mean) - norm.logcdf(mean))
    assert drawn.mean() == pytest.approx(mean + ratio, rel=0.06)
