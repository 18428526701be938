from datetime import date

import numpy as np
import pytest

from parity311.city.clock import (
    WeekClock,
    day_number,
    draw_weather,
    month_bounds,
    months_between,
    to_date,
    to_timestamps,
)
from parity311.city.profiles import HOUR_SHARES, WEEKDAY_SHARES


def hours_follow(times: np.ndarray, shares: tuple[float, ...]) -> bool:
    """Whether the hours of times have these shares, within four standard errors."""
    counts = np.bincount((times % 1.0 * 24).astype(int), minlength=24)
    expected = np.asarray(shares) / np.sum(shares) * len(times)
    return bool((np.abs(counts - expected) < 4.0 * np.sqrt(expected) + 1.0).all())


@pytest.fixture
def clock() -> WeekClock:
    return WeekClock.from_shares(HOUR_SHARES, WEEKDAY_SHARES)


def test_operational_time_is_invertible_and_keeps_weeks(clock: WeekClock) -> None:
    times = np.linspace(7000.0, 7100.0, 9973)
    np.testing.assert_allclose(clock.to_clock(clock.to_operational(times)), times, atol=1e-9)
    weeks = np.array([7000.0, 7007.0, 7014.0])
    np.testing.assert_allclose(clock.to_operational(weeks), weeks)


def test_uniform_operational_time_has_the_profile(clock: WeekClock) -> None:
    uniform = 7000.0 + 700.0 * np.random.default_rng(1).random(200_000)
    assert hours_follow(clock.to_clock(uniform), HOUR_SHARES)
    assert not hours_follow(uniform, HOUR_SHARES), "the check must see a flat profile"


def test_longer_weather_only_appends() -> None:
    short = draw_weather(3, date(2021, 1, 1))
    long = draw_weather(3, date(2024, 1, 1))
    n_days = len(short.temperature_f)
    np.testing.assert_array_equal(short.temperature_f, long.temperature_f[:n_days])
    assert not np.array_equal(short.temperature_f, draw_weather(4, date(2021, 1, 1)).temperature_f)
    january, july = (day_number(date(2020, month, 15)) for month in (1, 7))
    assert short.normal_f[january - short.first_day] < short.normal_f[july - short.first_day] - 30


def test_days_months_and_timestamps() -> None:
    assert to_date(day_number(date(2024, 2, 29))) == date(2024, 2, 29)
    assert months_between(date(2023, 11, 5), date(2024, 2, 1)) == [
        (2023, 11),
        (2023, 12),
        (2024, 1),
    ]
    first, last = month_bounds(2024, 2)
    assert last - first == 29
    stamps = to_timestamps(np.array([day_number(date(2024, 1, 1)) + 0.5, np.inf, np.nan]))
    assert str(stamps[0]) == "2024-01-01T12:00:00.000000"
    assert np.isnat(stamps[1:]).all()
