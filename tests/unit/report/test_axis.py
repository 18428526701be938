"""Ticks: round, evenly spaced, enclosing, told apart; dates at the first of a month or a day."""

from __future__ import annotations

import math
from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parity311.report.pictures.axis import (
    Axis,
    Scale,
    choose_ticks,
    fit_date_ticks,
    fit_ticks,
    round_ticks,
    to_days,
    write_day,
)
from parity311.report.pictures.style import TICK_SIZE
from parity311.report.pictures.svg import text_width

finite = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(min_value=-1e12, max_value=1e12)
steadily = settings(max_examples=200, deadline=None, derandomize=True)


@pytest.mark.slow
@steadily
@given(ordinary, ordinary, st.integers(3, 9))
def test_round_ticks_enclose_evenly_and_are_few(a: float, b: float, max_ticks: int) -> None:
    lower, upper = min(a, b), max(a, b)
    assume(upper - lower > 1e-9 * max(abs(lower), abs(upper)))
    assume(upper - lower > 1e-200)
    ticks = round_ticks(lower, upper, max_ticks)
    step = ticks[1] - ticks[0]
    slack = 1e-6 * step
    assert 2 <= len(ticks) <= max_ticks
    assert ticks[0] <= lower + slack
    assert ticks[-1] >= upper - slack
    for before, after in pairwise(ticks):
        assert after - before == pytest.approx(step, rel=1e-6)
    mantissa = step / 10 ** math.floor(math.log10(step * (1 + 1e-9)))
    assert min(abs(mantissa - m) for m in (1, 2, 2.5, 5, 10)) < 1e-5


@steadily
@given(st.lists(finite, min_size=1, max_size=6), st.sampled_from(["number", "percent", "signed"]))
def test_axis_encloses_values_and_tells_its_ticks_apart(values: list[float], form: str) -> None:
    ticks = choose_ticks(values, Axis("", form))  # type: ignore[arg-type]
    assert len(set(ticks.labels)) == len(ticks.labels) >= 2
    scale = Scale(ticks.lower, ticks.upper, 0.0, 100.0)
    for value in values:
        assert 0 <= scale(value) <= 100
        if 1e-300 <= abs(value) <= 1e300:
            assert ticks.lower <= value <= ticks.upper


@steadily
@given(st.lists(ordinary, min_size=1, max_size=6), st.floats(60, 700))
def test_labels_that_fit_do_not_touch(values: list[float], length: float) -> None:
    ticks = fit_ticks(values, Axis(), length)
    shown = [(p, t) for p, t in zip(ticks.positions, ticks.labels, strict=True) if t]
    scale = Scale(ticks.lower, ticks.upper, 0.0, length)
    if len(shown) > 2:
        for (a, text_a), (b, text_b) in pairwise(shown):
            room = (text_width(text_a, TICK_SIZE) + text_width(text_b, TICK_SIZE)) / 2
            assert scale(b) - scale(a) >= room


@pytest.mark.parametrize(
    ("values", "axis", "labels"),
    [
        ([0, 1], Axis(), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.0, 0.62], Axis("", "percent"), ["0\u202f%", "20\u202f%", "40\u202f%", "60\u202f%"]),
        ([12_345, 834_338], Axis(), ["0", "200,000", "400,000", "600,000", "800,000"]),
        ([1e6, 4e6], Axis(), ["1\u202fM", "2\u202fM", "3\u202fM", "4\u202fM"]),
        ([-2, 3], Axis("", "signed"), ["−2", "−1", "0", "+1", "+2", "+3"]),
        ([7, 7], Axis(), ["6.6", "6.8", "7.0", "7.2", "7.4"]),
        ([], Axis(), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([math.nan, math.inf], Axis(), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0, 3e-6], Axis(), ["0", "1×10⁻⁶", "2×10⁻⁶", "3×10⁻⁶"]),
        ([0.0, 0.04], Axis("", "points"), ["0", "1", "2", "3", "4"]),
    ],
)
def test_labels_read_well(values: list[float], axis: Axis, labels: list[str]) -> None:
    assert list(choose_ticks(values, axis).labels) == labels


def test_an_outer_step_that_is_hardly_reached_is_cut() -> None:
    ticks = choose_ticks([-500, 9_400], Axis())
    assert ticks.positions[0] == 0
    assert -1_000 < ticks.lower <= -500


def test_dates_are_days_since_1970() -> None:
    assert to_days(date(1970, 1, 2)) == 1
    assert to_days(datetime(1970, 1, 1, 12)) == 0.5
    assert to_days(np.datetime64("1970-01-01T06")) == 0.25
    assert math.isnan(to_days(np.datetime64("NaT")))
    assert write_day(to_days(date(2024, 2, 29))) == "2024-02-29"


@pytest.mark.parametrize(
    ("begin", "end", "length", "first_labels"),
    [
        (date(2023, 1, 1), date(2025, 12, 1), 430, ["Jan 2023", "Jul 2023"]),
        (date(2020, 1, 1), date(2026, 3, 1), 260, ["2020", "2022"]),
        (date(2024, 2, 1), date(2024, 2, 20), 260, ["1 Feb 2024", "8 Feb 2024"]),
        (date(1990, 5, 5), date(2090, 5, 5), 260, ["2000", "2020"]),
    ],
)
def test_date_ticks_fit(begin: date, end: date, length: float, first_labels: list[str]) -> None:
    ticks = fit_date_ticks([to_days(begin), to_days(end)], length)
    assert list(ticks.labels[:2]) == first_labels
    assert length * ticks.smallest_step / (ticks.upper - ticks.lower) >= ticks.label_width


@steadily
@given(st.dates(date(1900, 1, 1), date(2200, 1, 1)), st.integers(0, 60_000))
def test_any_span_of_dates_gets_ticks_inside(begin: date, n_days: int) -> None:
    start = to_days(begin)
    ticks = fit_date_ticks([start, start + n_days], 300)
    assert ticks.positions
    assert all(ticks.lower <= p <= ticks.upper for p in ticks.positions)
