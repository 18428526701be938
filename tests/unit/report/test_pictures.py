"""Every chart, with ordinary, missing, single, negative, huge and tiny values, wide and narrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.report.svg_checks import find_faults, text_boxes

from parity311.report.pictures import (
    Axis,
    Cell,
    Estimate,
    Line,
    Panel,
    Point,
    Reference,
    Series,
    bar_chart,
    interval_plot,
    line_chart,
    profile_grid,
    ranked_plot,
    scatter_plot,
    tract_map,
)
from parity311.report.pictures.points import find_frontier
from parity311.report.pictures.svg import Look

NAN = math.nan
LONG = (
    "A very long label that names the policy, the scenario and the features, "
    "trained_on_which_table_of_the_city_and_when"
)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
SHARE = Axis("Actionable incidents served in time", "percent", (0.0,))


def make_series(n: int, *values: float) -> list[Series]:
    return [
        Series(
            f"Series {i}",
            [Estimate(f"Row {k}", v + i, v + i - 0.1, v + i + 0.1) for k, v in enumerate(values)],
        )
        for i in range(n)
    ]


def many_points(n: int) -> list[Point]:
    draws = np.random.default_rng(1).normal(size=(n, 2))
    return [Point(f"Point {i}", float(x), float(y)) for i, (x, y) in enumerate(draws)]


def many_cells(n: int) -> list[Cell]:
    draws = np.random.default_rng(2).random((n, 3))
    groups = ("Bronx", "Queens", "Staten Island")
    return [
        Cell(-74.2 + 0.5 * x, 40.5 + 0.4 * y, v if i % 9 else NAN, groups[int(3 * x)])
        for i, (x, y, v) in enumerate(draws.tolist())
    ]


def noisy(n: int, offset: float, scale: float, seed: int) -> list[float]:
    return (offset + scale * np.random.default_rng(seed).normal(size=n)).tolist()


CASES: dict[str, Callable[..., str]] = {
    "interval": lambda **o: interval_plot(make_series(1, 0.2, 0.4), title="T", axis=SHARE, **o),
    "interval_series": lambda **o: interval_plot(make_series(9, 0, -3), title="T", axis=SHARE, **o),
    "interval_extreme": lambda **o: interval_plot(
        [
            Series(
                "",
                [
                    Estimate(LONG, 1e9, 9e8, 1.2e9),
                    Estimate("Tiny", 3e-7),
                    Estimate("Negative", -4e8, -6e8, -1e8),
                    Estimate("Nothing", NAN, reason=f"no denominator: {LONG}"),
                ],
            )
        ],
        title="T",
        axis=Axis(LONG),
        reference=Reference(0.0, "A reference label of some length, parity between strata"),
        **o,
    ),
    "interval_missing_only": lambda **o: interval_plot(
        [Series("", [Estimate(LONG, NAN, reason="suppressed")])], title="T", axis=SHARE, **o
    ),
    "interval_empty": lambda **o: interval_plot([], title="T", axis=SHARE, **o),
    "interval_tiny": lambda **o: interval_plot(make_series(1, 1e-12), title="T", axis=Axis(), **o),
    "bars": lambda **o: bar_chart(make_series(7, 0.2, -0.4), title="T", axis=SHARE, **o),
    "bars_zero": lambda **o: bar_chart(
        [Series("", [Estimate("a", 0.0), Estimate("b", 0.0)])], title="T", axis=SHARE, **o
    ),
    "lines": lambda **o: line_chart(
        [
            Line(f"Policy {i}", list(range(30)), noisy(30, i, 1, i), noisy(30, i - 3, 0.1, i))
            for i in range(4)
        ],
        title="T",
        x_axis=Axis("Training steps", "integer"),
        y_axis=Axis(LONG),
        reference=Reference(2.0, "Today's rule"),
        **o,
    ),
    "lines_many": lambda **o: line_chart(
        [Line(f"{LONG} {i}", [0, 1], [i, 2 * i]) for i in range(14)],
        title="T",
        x_axis=Axis("x"),
        y_axis=Axis("y"),
        **o,
    ),
    "lines_crowded": lambda **o: line_chart(
        [Line(f"Name {i} {LONG[:40]}", [0, 1], [0.0, 1e6 + i]) for i in range(7)],
        title="T",
        x_axis=Axis("x"),
        y_axis=Axis("y"),
        **o,
    ),
    "lines_dates": lambda **o: line_chart(
        [
            Line(
                "Complaints",
                [date(2020, 1, 1) + timedelta(31 * i) for i in range(70)],
                noisy(70, 1e6, 0.01, 0),
            ),
            Line(
                "Gaps",
                [datetime(2021, 1, 1), datetime(2022, 1, 1), datetime(2023, 1, 1)],
                [1e6, NAN, 1e6],
            ),
        ],
        title="T",
        x_axis=Axis(""),
        y_axis=Axis("per month"),
        **o,
    ),
    "lines_days": lambda **o: line_chart(
        [Line("x", [np.datetime64("2024-02-27") + i for i in range(9)], noisy(9, 0, 1, 0))],
        title="T",
        x_axis=Axis(""),
        y_axis=Axis("per day"),
        **o,
    ),
    "lines_single": lambda **o: line_chart(
        [Line("one", [5.0], [3.0], [2.0], [4.0])], title="T", x_axis=Axis(), y_axis=Axis(), **o
    ),
    "lines_empty": lambda **o: line_chart(
        [Line("none", [1.0, 2.0], [NAN, NAN])], title="T", x_axis=Axis(), y_axis=Axis(), **o
    ),
    "scatter": lambda **o: scatter_plot(
        [
            Point("Best possible", 0.1, 5000, "Ceiling", 4800, 5200),
            Point("Today's rule: severity, then first come", 0.17, 3800, "Rule", 3500, 4100),
            Point("Random", 0.02, 1500, "Rule"),
            Point("Missing", NAN, 1.0, "Rule"),
        ],
        title="T",
        x_axis=SHARE,
        y_axis=Axis("Reward"),
        frontier=("lower", "higher"),
        **o,
    ),
    "scatter_with_level_intervals": lambda **o: scatter_plot(
        [
            Point("a", 0.1, 0.5, y_lower=0.4, y_upper=0.6, x_lower=0.0, x_upper=0.3),
            Point("b", 0.9, 0.2, x_lower=0.2, x_upper=1.0),
        ],
        title="T",
        x_axis=SHARE,
        y_axis=SHARE,
        **o,
    ),
    "scatter_many": lambda **o: scatter_plot(
        many_points(60),
        title="T",
        x_axis=Axis("x"),
        y_axis=Axis("y"),
        frontier=("higher", "higher"),
        equality_label="achieved = target",
        **o,
    ),
    "scatter_same": lambda **o: scatter_plot(
        [Point(LONG, 1.0, 1.0), Point("b", 1.0, 1.0)], title="T", x_axis=Axis(), y_axis=Axis(), **o
    ),
    "scatter_empty": lambda **o: scatter_plot([], title="T", x_axis=Axis(), y_axis=Axis(), **o),
    "profiles": lambda **o: profile_grid(
        [
            Panel(f"Domain {i} {LONG[:30]}", {"City": noisy(12, 1, 0.1, i), "Source": [1.0] * 12})
            for i in range(7)
        ],
        MONTHS,
        title="T",
        axis=SHARE,
        **o,
    ),
    "profiles_gaps": lambda **o: profile_grid(
        [Panel("Hours", {"City": [NAN] * 12 + [1.0] * 12}), Panel("None", {"City": [NAN] * 24})],
        [str(hour) for hour in range(24)],
        title="T",
        axis=Axis("per hour"),
        shares_axis=False,
        **o,
    ),
    "profiles_empty": lambda **o: profile_grid([], MONTHS, title="T", axis=SHARE, **o),
    "map": lambda **o: tract_map(many_cells(200), title="T", axis=SHARE, **o),
    "map_breaks": lambda **o: tract_map(
        many_cells(20), title="T", axis=SHARE, breaks=(0.2, 0.5, 2.0), **o
    ),
    "map_single": lambda **o: tract_map([Cell(-74, 40.7, 1.0)], title="T", axis=SHARE, **o),
    "map_equal": lambda **o: tract_map(
        [Cell(-74, 40.7, 1.0), Cell(-74.1, 40.7, 1.0)], title="T", axis=Axis(LONG), **o
    ),
    "map_missing": lambda **o: tract_map(
        [Cell(-74, 40.7, NAN), Cell(NAN, 40.0, 1.0)], title="T", axis=SHARE, **o
    ),
    "map_empty": lambda **o: tract_map([], title="T", axis=SHARE, **o),
    "ranked": lambda **o: ranked_plot(
        [Estimate(f"Board {i}", v, v - 1, v + 1) for i, v in enumerate(noisy(90, 0, 1, 3))]
        + [Estimate("Missing", NAN)],
        title="T",
        axis=Axis("Rate", "signed"),
        reference=Reference(0.0, "City average"),
        **o,
    ),
    "ranked_few": lambda **o: ranked_plot(
        [Estimate("a", 1.0), Estimate("b", 2.0), Estimate("c", NAN)], title="T", axis=SHARE, **o
    ),
}


@pytest.mark.parametrize("width", [720, 320])
@pytest.mark.parametrize("name", CASES)
def test_picture_is_sound_and_repeats_byte_for_byte(name: str, width: int) -> None:
    svg = CASES[name](width=width)
    assert find_faults(svg) == []
    assert CASES[name](width=width) == svg


def test_missing_values_are_named() -> None:
    svg = CASES["interval_extreme"]()
    assert "not available: no denominator" in svg
    assert "Not available: Gaps at 2022-01-01." in CASES["lines_dates"]()
    assert "Not available: Missing." in CASES["scatter"]()
    assert "not available: 23 tracts" in CASES["map"]()


def test_gap_splits_the_line() -> None:
    with_gap = Line("a", [0, 1, 2, 3, 4], [1.0, 2.0, NAN, 2.0, 1.0])
    svg = line_chart([with_gap], title="T", x_axis=Axis(), y_axis=Axis())
    assert svg.count('class="curve l0"') == 2


def test_labels_are_escaped() -> None:
    svg = interval_plot(
        [Series("", [Estimate("a < b & c", 1.0)])], title='"<>&', axis=Axis("x > y")
    )
    assert find_faults(svg) == []
    assert "a < b & c" in [box[4] for box in text_boxes(svg)]


def test_long_labels_keep_every_letter() -> None:
    svg = interval_plot([Series("", [Estimate(LONG, 1.0)])], title="T", axis=SHARE, width=320)
    drawn = "".join(box[4] for box in text_boxes(svg)).replace(" ", "")
    assert LONG.replace(" ", "") in drawn


def test_frontier_holds_the_points_nobody_beats() -> None:
    points = [Point("a", 1, 1), Point("b", 2, 3), Point("c", 3, 2), Point("d", 3, 3)]
    assert [p.label for p in find_frontier(points, ("lower", "higher"))] == ["a", "b"]
    assert [p.label for p in find_frontier(points, ("higher", "higher"))] == ["d"]


def test_a_level_interval_is_drawn_and_fits_the_axis() -> None:
    plain = scatter_plot([Point("a", 0.1, 0.5)], title="T", x_axis=SHARE, y_axis=SHARE)
    drawn = CASES["scatter_with_level_intervals"]()
    assert 'class="interval' not in plain
    assert drawn.count('class="interval') == 3


def test_series_never_share_colour_and_mark() -> None:
    svg = interval_plot(make_series(12, 0.0), title="T", axis=SHARE)
    assert find_faults(svg) == []
    looks = [(Look(i).colour, Look(i).variant) for i in range(36)]
    assert len(set(looks)) == 36


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=60),
            st.floats(),
            st.floats(),
            st.floats(),
        ),
        max_size=6,
    ),
    st.sampled_from([320, 720]),
)
def test_any_numbers_and_labels_give_a_sound_picture(rows: list, width: int) -> None:
    estimates = [Estimate(label, v, min(a, b), max(a, b)) for label, v, a, b in rows]
    for chart in (interval_plot, bar_chart):
        svg = chart([Series("", estimates)], title="T", axis=Axis("x"), width=width)
        assert [f for f in find_faults(svg) if not f.startswith("overlap")] == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=8), st.sampled_from([320, 720]))
def test_any_curve_gives_a_sound_picture(rows: list, width: int) -> None:
    line = Line("a", [x for x, _ in rows], [y for _, y in rows])
    svg = line_chart([line], title="T", x_axis=Axis("x"), y_axis=Axis("y"), width=width)
    assert find_faults(svg) == []


BROKEN_TWINS = {
    "cut off": '<text class="ink" x="95" y="20" font-size="12">leaves the picture</text>',
    "overlap": (
        '<text class="ink" x="5" y="20" font-size="12">one</text>'
        '<text class="ink" x="9" y="22" font-size="12">two</text>'
    ),
    "undefined": '<circle class="f0" cx="nan" cy="4" r="2"/>',
    "no element": '<rect fill="url(#nowhere)" width="4" height="4"/>',
}


@pytest.mark.parametrize("fault", BROKEN_TWINS)
def test_checks_reject_a_broken_twin(fault: str) -> None:
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50" role="img">'
        "<title>T</title><desc>D</desc>"
    )
    assert find_faults(f"{head}</svg>") == []
    found = find_faults(f"{head}{BROKEN_TWINS[fault]}</svg>")
    assert len(found) == 1
    assert found[0].startswith(fault)
    assert find_faults("<svg><g></svg>")
    assert find_faults(head.replace("<title>T</title>", "") + "</svg>") == ["no title"]
