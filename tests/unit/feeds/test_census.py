"""ACS answers become figures by tract; codes for missing values never become numbers."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import RecordsError
from parity311.feeds.census import (
    MAX_VARIABLES,
    all_variables,
    census_queries,
    check_answer,
    figures_from_answers,
)


def answer(**values: str | None) -> list[list[str | None]]:
    names = list(all_variables())
    row = [values.get(name, "100" if name.endswith("_001E") else "5") for name in names]
    return [["NAME", *names, "state", "county", "tract"], ["T", *row, "36", "005", "000100"]]


def test_figures_and_shares() -> None:
    geoids, figures = figures_from_answers([answer(B19013_001E="54321", B25003_003E="80")])
    assert geoids.tolist() == ["36005000100"]
    assert figures["median_income"].tolist() == [54321]
    assert figures["share_renter"].tolist() == [0.8]
    assert figures["share_bachelors"].tolist() == [0.2]


@pytest.mark.parametrize(
    "code", ["-666666666", "-999999999", "-888888888", "-222222222", "-333333333", "-555555555"]
)
def test_every_code_for_missing_is_missing(code: str) -> None:
    _, figures = figures_from_answers([answer(B19013_001E=code, B25003_001E=code)])
    assert np.isnan(figures["median_income"][0])
    assert np.isnan(figures["share_renter"][0])


def test_null_and_zero_denominators_are_missing() -> None:
    _, figures = figures_from_answers([answer(B19013_001E=None, B03002_001E="0")])
    assert np.isnan(figures["median_income"][0])
    assert np.isnan(figures["share_white"][0])


def test_answers_are_joined_by_tract() -> None:
    whole = answer()
    cut = len(whole[0]) // 2
    left = [row[:cut] + row[-3:] for row in whole]
    right = [row[cut:] for row in whole]
    joined, parts = figures_from_answers([left, right]), figures_from_answers([whole])
    assert all(joined[1][name] == parts[1][name] for name in parts[1])


def test_calls_stay_below_the_limit_of_variables() -> None:
    for query in census_queries("a-key"):
        assert len(query["get"].split(",")) <= MAX_VARIABLES


@pytest.mark.parametrize("bad", [{}, [], "error", [{"a": 1}]])
def test_what_is_no_answer_is_refused(bad: object) -> None:
    with pytest.raises(RecordsError, match="instead of rows"):
        check_answer(bad, 2023)


def test_an_answer_without_tracts_is_refused() -> None:
    with pytest.raises(RecordsError, match="has no column 'tract'"):
        figures_from_answers(
            [[["NAME", "B01003_001E", "state", "county"], ["x", "1", "36", "005"]]]
        )
