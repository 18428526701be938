"""Promises from years: the order statistic by hand, its coverage, and what must fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.service_levels.promises import (
    BREAKS,
    INSUFFICIENT,
    KEEPS,
    PlayedYears,
    check_hours,
    count_years,
    coverage,
    days_matrix,
    derive_days,
    fewest_requests,
    find_conflicts,
    judge_cells,
    rank_of_promise,
    round_up,
)
from parity311.service_levels.requests import Requests


def requests_of(waits: list[float], cells: list[tuple[int, int]], code: int = 2) -> Requests:
    """A year of requests, received on its first day and followed in full."""
    n = len(waits)
    district, category = np.array(cells).T
    return Requests(
        received_day=np.zeros(n, np.int64),
        wait_days=np.array(waits, float),
        followed_days=np.full(n, 200),
        category=category,
        district=district,
        stratum=np.zeros(n, np.int64),
        tract=np.arange(n),
        code=np.full(n, code),
        categories=("hazard", "prune"),
        districts=("North", "South"),
    )


def drawn_years(n_years: int, seed: int, n: int = 120) -> PlayedYears:
    """Years whose waits share a factor of the year, one in ten never visited."""
    rng = np.random.default_rng(seed)
    years = []
    for _ in range(n_years):
        waits = np.floor(rng.lognormal(1.5 + 0.3 * rng.standard_normal(), 0.8, 4 * n))
        waits = np.where(rng.random(4 * n) < 0.1, np.inf, waits)
        cells = [(b, k) for b in range(2) for k in range(2) for _ in range(n)]
        years.append(requests_of(waits.tolist(), cells))
    return count_years(years)


def test_a_promise_to_the_hour_has_no_ties_of_days() -> None:
    """Waits of one to twelve hours in every year are one whole day each, and never the same hour.

    The middle one of nineteen years keeps all further years by the day, by the hour about half.
    """

    def years(first: int) -> PlayedYears:
        found = []
        for seed in range(first, first + 19):
            hours = 12 * np.random.default_rng(seed).random() + np.zeros(40)
            plain = requests_of([1.0] * 40, [(0, 0)] * 40)
            found.append(replace(plain, wait_hours=hours))
        return count_years(found)

    past, fresh = years(0), years(100)
    promised, pooled = np.array([[1.0, np.nan]] * 2), np.zeros((2, 2), bool)
    promised[1] = np.nan
    hours = check_hours(past, fresh, 0.8, 0.5, promised, pooled)
    days = coverage(fresh, promised, 0.8)
    assert days["kept_share"] == 1.0
    assert hours["checked"] == 19
    assert 0.2 < hours["kept_share"] < 0.8
    bare = count_years([requests_of([1.0] * 40, [(0, 0)] * 40)])
    assert check_hours(bare, bare, 0.8, 0.5, promised, pooled)["checked"] == 0


def test_a_quantile_of_all_requests_by_hand() -> None:
    """Ten requests, waits 1 … 7 and three never: 70 % within 7 days, 80 % never."""
    one = count_years([requests_of([1, 2, 3, 4, 5, 6, 7, *[np.inf] * 3], [(0, 0)] * 10)])
    assert one.quantiles(0.7)[0, 0, 0] == 7
    assert one.quantiles(0.5)[0, 0, 0] == 5
    assert one.quantiles(0.8)[0, 0, 0] == np.inf
    assert one.kept(np.full((2, 2), 5.0))[0, 0, 0] == 0.5
    assert np.isnan(one.kept(np.full((2, 2), 5.0))[0, 1, 1])


def test_requests_that_cannot_be_followed_are_not_judged() -> None:
    year = requests_of([1.0, 1.0, np.inf], [(0, 0)] * 3)
    year.followed_days[2] = 30
    assert count_years([year]).n[0, 0, 0] == 2


def test_the_promise_is_an_order_statistic() -> None:
    """M = 19 and 90 %: the second largest; M = 9: the largest; fewer years cannot say."""
    assert rank_of_promise(19, 0.9) == 18
    assert rank_of_promise(9, 0.9) == 9
    with pytest.raises(InputError, match="at least 9 years"):
        rank_of_promise(8, 0.9)
    years = count_years([requests_of([d] * 10, [(0, 0)] * 10) for d in range(19)])
    assert derive_days(years, 0.8, 0.9)[0, 0] == 17


def test_days_are_rounded_up_and_small_cells_need_enough() -> None:
    assert [round_up(days) for days in (0, 1, 2.5, 11, 90, 91, np.inf)] == [
        1, 1, 3, 14, 90, None, None,
    ]  # fmt: skip
    assert (fewest_requests(0.8), fewest_requests(0.9)) == (14, 29)


def test_stated_confidence_is_kept_and_one_year_alone_fails() -> None:
    """Promises of 90 % hold in about 90 % of fresh years; a single year's in about half."""
    kept, single = [], []
    for seed in range(30):
        years, fresh = drawn_years(19, seed), drawn_years(12, 1000 + seed)
        days = derive_days(years, 0.7, 0.9)
        kept.append(coverage(fresh, days, 0.7)["kept_share"])
        one = PlayedYears(years.districts, years.categories, years.n[:1], years.within[:1],
                          years.by_quarter[:1], years.codes)  # fmt: skip
        single.append(coverage(fresh, derive_days(one, 0.7, 0.5), 0.7)["kept_share"])
    assert 0.87 <= np.mean(kept) <= 0.97
    assert np.mean(single) < 0.75


def test_small_cells_are_pooled_or_refused() -> None:
    """Hazard is small in the South and takes all districts'; prune is small everywhere."""
    cells = [(0, 0)] * 40 + [(1, 0)] * 3 + [(0, 1)] * 4
    years = count_years([requests_of([2.0] * 47, cells) for _ in range(9)])
    by_cell = {one.cell: one for one in judge_cells(years, 0.8, 0.9)}
    assert by_cell["North", "hazard"].verdict == KEEPS
    assert not by_cell["North", "hazard"].is_pooled
    south = by_cell["South", "hazard"]
    assert south.is_pooled
    assert south.promise.days == 2
    assert by_cell["North", "prune"].verdict == INSUFFICIENT
    assert by_cell["North", "prune"].promise.days is None


def test_a_designed_level_that_is_not_kept_breaks() -> None:
    years = count_years([requests_of([20.0] * 40, [(0, 0)] * 40) for _ in range(9)])
    kept = judge_cells(years, 0.8, 0.9)[0]
    assert (kept.verdict, kept.promise.days) == (KEEPS, 21)
    broken = judge_cells(years, 0.8, 0.9, {("North", "hazard"): 7.0})[0]
    assert broken.verdict == BREAKS


def test_conflicts_are_found_where_they_were_planted() -> None:
    """South is slow and half of it never visited: its level breaks, and districts differ."""
    waits = [2.0] * 60 + [30.0] * 30 + [np.inf] * 30
    cells = [(0, 0)] * 60 + [(1, 0)] * 60
    years = count_years([requests_of(waits, cells) for _ in range(9)])
    judged = judge_cells(years, 0.8, 0.9)
    kinds = {(row["kind"], row["district"]) for row in find_conflicts(years, judged, 0.8, 200.0)}
    assert ("deadline", "South") in kinds
    assert ("districts", "South") in kinds
    assert not any(kind == "capacity" for kind, _ in kinds)
    few = find_conflicts(years, judged, 0.8, 50.0)
    assert few[0]["kind"] == "capacity"


def test_equal_and_quick_cells_have_no_conflict() -> None:
    """The check itself: nothing planted, nothing found."""
    cells = [(b, 0) for b in (0, 1) for _ in range(60)]
    years = count_years([requests_of([1.0] * 120, cells) for _ in range(9)])
    judged = judge_cells(years, 0.8, 0.9)
    assert find_conflicts(years, judged, 0.8, 200.0) == []
    assert np.isfinite(days_matrix(years, judged, is_rounded=True)[:, 0]).all()


def test_a_promise_for_all_districts_is_judged_on_all_of_them() -> None:
    """Of North's five hazards one is late, of South's three none: 7 of 8, and 4 of 5 in North."""
    waits = [1, 1, 1, 1, 9, 1, 1, 1, *[1] * 8]
    cells = [(0, 0)] * 5 + [(1, 0)] * 3 + [(0, 1)] * 4 + [(1, 1)] * 4
    year = count_years([requests_of(waits, cells)])
    days = np.full((2, 2), 2.0)
    pooled = np.array([[True, False], [True, False]])
    apart, together = coverage(year, days, 0.85), coverage(year, days, 0.85, pooled)
    assert (apart["checked"], apart["kept_share"]) == (4, 0.75)
    assert (together["checked"], together["kept_share"]) == (3, 1.0)
    assert coverage(year, days, 0.9, pooled)["kept_share"] == pytest.approx(2 / 3)
