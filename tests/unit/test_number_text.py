"""Numbers as people read them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parity311.number_text import format_interval, format_seconds, format_value


@pytest.mark.parametrize(
    ("value", "form", "decimals", "text"),
    [
        (0.6021, "percent", -1, "60.2\u202f%"),
        (0.6021, "percent", 0, "60\u202f%"),
        (0.07, "points", 0, "7\u00a0points"),
        (0.07, "signed_points", -1, "+7.0\u00a0points"),
        (-0.00001, "percent", 1, "0.0\u202f%"),
        (834_338, "integer", -1, "834,338"),
        (-12.5, "integer", -1, "−12"),
        (1234.5, "number", -1, "1,234"),
        (0.034567, "number", -1, "0.0346"),
        (2.1e7, "number", -1, "21\u202fM"),
        (2.346e-6, "number", -1, "2.35×10⁻⁶"),
        (-3e18, "number", -1, "−3×10¹⁸"),
        (0.0, "signed", -1, "0"),
        (0.25, "signed", -1, "+0.25"),
        (np.float32(0.1), "number", -1, "0.1"),
        (np.int64(5), "number", -1, "5"),
        (True, "number", -1, "yes"),
        ("BALANCED", "number", -1, "BALANCED"),
        (None, "number", -1, "not available"),
        (math.nan, "percent", -1, "not available"),
        (math.inf, "integer", -1, "not available"),
        (185.0, "seconds", -1, "3\u202fmin 5\u202fs"),
    ],
)
def test_value(value: object, form: str, decimals: int, text: str) -> None:
    assert format_value(value, form, decimals) == text  # type: ignore[arg-type]


def test_interval_names_its_unit_once() -> None:
    assert format_interval(0.58, 0.624, "percent") == "58.0 to 62.4\u202f%"
    assert format_interval(-0.02, 0.03, "points") == "−2.0 to 3.0\u00a0points"
    assert format_interval(math.nan, 1.0) == ""


def test_seconds() -> None:
    texts = [format_seconds(s).replace("\u202f", " ") for s in (0.44, 12.3, 59.7, 7_801)]
    assert texts == ["0.4 s", "12 s", "1 min 0 s", "2 h 10 min"]
