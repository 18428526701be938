"""Lifetime laws: what may be given, and what is printed."""

from __future__ import annotations

import pytest

from parity311.errors import InputError
from parity311.reporting.lifetimes import Lifetime, estimated, exponential, fixed, parse_lifetime


def test_texts_name_the_assumption() -> None:
    assert "mean of 14 days (assumed)" in exponential(14.0).describe()
    assert "lasts 7 days" in fixed(7.0).describe()
    assert "mean of 3.7 days (estimated" in estimated().describe(3.7)


def test_parsing() -> None:
    assert parse_lifetime("estimated") == estimated()
    assert parse_lifetime("exponential:12") == exponential(12.0)
    assert parse_lifetime("fixed:7.5").mean_days == 7.5


@pytest.mark.parametrize("text", ["weibull:3", "exponential", "fixed:", "exponential:abc", "12"])
def test_what_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_lifetime(text)


@pytest.mark.parametrize("days", [0.0, -1.0, float("nan"), float("inf")])
def test_a_mean_must_be_a_positive_number(days: float) -> None:
    with pytest.raises(InputError, match="positive"):
        exponential(days)


def test_scaling_keeps_categories_apart() -> None:
    law = Lifetime("exponential", 10.0, by_pattern={"A": 5.0}, origin="known").scaled(2.0)
    assert law.mean_days == 20.0
    assert law.by_pattern == {"A": 10.0}
    assert law.origin == "assumed"
    with pytest.raises(InputError, match="no mean"):
        estimated().scaled(2.0)
