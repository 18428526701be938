"""Numbers as people read them: separators, signs, percent, powers of ten.

Used by tables, key figures and axes alike, so that a figure reads the same wherever it stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np

NumberFormat = Literal[
    "text", "integer", "number", "signed", "percent", "points", "signed_points", "seconds"
]
"""text as it is; integer; number with three significant digits; signed, with a plus too; percent of
a share in 0..1; points, a difference of two shares in percentage points; seconds as a duration."""

MISSING_TEXT = "not available"
MINUS = "−"
NARROW_SPACE = "\u202f"
"""Narrow no-break space: between a number and its unit, where no line may break."""

POINTS_UNIT = "\u00a0points"

SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
"""SI prefixes from a million on; below, thousands separators read better."""
LARGEST_SCALED = 1e15
SMALLEST_PLAIN = 1e-4
"""Outside these two magnitudes a number is written with a power of ten."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def in_days(days: float) -> str:
    """A number of days: 1 day, 7 days."""
    return f"{days:g} day" if days == 1 else f"{days:g} days"


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or infinite."""
    if value is None:
        return True
    return isinstance(value, float | np.floating) and not math.isfinite(value)


def format_value(value: Any, number_format: NumberFormat = "number", decimals: int = -1) -> str:
    """Write one value; `decimals` below zero means as many as the format suggests."""
    if is_missing(value):
        return MISSING_TEXT
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="minutes")
    if number_format == "text" or not isinstance(value, int | float | np.integer | np.floating):
        return str(value)
    number = float(value)
    if number_format == "integer":
        return _with_minus(f"{round(number):,}")
    if number_format == "percent":
        return f"{_fixed(100 * number, decimals if decimals >= 0 else 1)}{NARROW_SPACE}%"
    if number_format in ("points", "signed_points"):
        text = _fixed(100 * number, decimals if decimals >= 0 else 1)
        sign = _plus(number, text) if number_format == "signed_points" else ""
        return f"{sign}{text}{POINTS_UNIT}"
    if number_format == "seconds":
        return format_seconds(number)
    text = format_number(number, decimals)
    return f"{_plus(number, text)}{text}" if number_format == "signed" else text


def format_interval(
    lower: Any, upper: Any, number_format: NumberFormat = "number", decimals: int = -1
) -> str:
    """Write an interval as `lower to upper`; an empty text where either end is missing."""
    if is_missing(lower) or is_missing(upper):
        return ""
    low, high = (format_value(end, number_format, decimals) for end in (lower, upper))
    for unit in (f"{NARROW_SPACE}%", POINTS_UNIT):
        if low.endswith(unit) and high.endswith(unit):
            low = low.removesuffix(unit)
    return f"{low} to {high}"


def format_number(value: float, decimals: int = -1) -> str:
    """Write a number with three significant digits, or with fixed decimals where given."""
    if is_missing(value):
        return MISSING_TEXT
    magnitude = abs(value)
    if decimals >= 0:
        return _fixed(value, decimals)
    if magnitude == 0:
        return "0"
    if magnitude >= LARGEST_SCALED or magnitude < SMALLEST_PLAIN:
        return _power_of_ten(value)
    for scale, suffix in SCALES:
        if magnitude >= scale:
            return f"{_significant(value / scale)}{NARROW_SPACE}{suffix}"
    return _significant(value)


def format_seconds(seconds: float) -> str:
    """Write a duration: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{_fixed(seconds, 1)}{NARROW_SPACE}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NARROW_SPACE}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}{NARROW_SPACE}min {rest}{NARROW_SPACE}s"
    return f"{minutes // 60:,}{NARROW_SPACE}h {minutes % 60}{NARROW_SPACE}min"


def label_ticks(ticks: Sequence[float], number_format: NumberFormat = "number") -> list[str]:
    """Write evenly spaced axis ticks with the same unit and just enough decimals to differ."""
    if not ticks:
        return []
    step = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else abs(ticks[0]) or 1.0
    largest = max(abs(tick) for tick in ticks)
    if number_format in ("percent", "points", "signed_points"):
        factor, suffix = 100.0, NARROW_SPACE + "%" if number_format == "percent" else ""
    else:
        factor, suffix = _tick_scale(largest, step)
    if not suffix and largest and not SMALLEST_PLAIN <= largest * factor < LARGEST_SCALED:
        return [_power_of_ten(tick, _tick_digits(largest, step)) for tick in ticks]
    decimals = _decimals_for(step * factor)
    # Rounding away the step's own error keeps 0.30000000000000004 off the page.
    texts = [_fixed(round(tick * factor, decimals), decimals) for tick in ticks]
    if number_format in ("signed", "signed_points"):
        texts = [_plus(tick, text) + text for tick, text in zip(ticks, texts, strict=True)]
    return [f"{text}{suffix}" if text != "0" or suffix.endswith("%") else text for text in texts]


def _tick_scale(largest: float, step: float) -> tuple[float, str]:
    for scale, suffix in SCALES:
        # Prefixes serve round ticks; a fine step on a large offset needs all its digits.
        if scale <= largest < LARGEST_SCALED and step >= scale / 1000:
            return 1 / scale, NARROW_SPACE + suffix
    return 1.0, ""


def _tick_digits(largest: float, step: float) -> int:
    return max(1, math.ceil(math.log10(largest) - math.log10(step)) + 1)


def _decimals_for(step: float) -> int:
    """Decimals that show a step of 1, 2, 2.5 or 5 times a power of ten exactly."""
    if step <= 0 or not math.isfinite(step):
        return 0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    scaled = step * 10**decimals
    return decimals if abs(scaled - round(scaled)) < 1e-6 * scaled else decimals + 1


def _significant(value: float, digits: int = 3) -> str:
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return _with_minus(text.rstrip("0").rstrip(".") if "." in text else text)


def _power_of_ten(value: float, digits: int = 3) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{_with_minus(mantissa)}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    is_zero = not text.strip("-0.,")
    return text.lstrip("-") if is_zero else _with_minus(text)


def _with_minus(text: str) -> str:
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def _plus(value: float, text: str) -> str:
    return "+" if value > 0 and text.strip("0.") else ""
