"""Points of a frontier: prices at equal visits, what nothing beats, the page to choose from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.evaluation.frontier import (
    Frontier,
    Outcomes,
    cheapest_at,
    find_best,
    find_knee,
    level_by,
    measure_epsilon,
    measure_volume,
    price_of_equity,
    read_at,
    summarise_values,
)
from parity311.evaluation.frontier_figures import (
    NOTHING,
    PriceFloor,
    _row,
    list_assumptions,
    name_most_moving,
    summarise_frontier,
)
from parity311.mdp.harness import Harness
from parity311.report.frontier_page import (
    _price_chart,
    _price_words,
    _scatter,
    render,
    summarise_in_words,
)

N_SEEDS = 3


def outcomes(rows: list[tuple[float, ...]], noise: float = 0.0) -> Outcomes:
    """Policies given as (speed, cost, gap, recall, visits, correct), with a little noise a seed."""
    columns = np.asarray(rows, np.float64).T
    shake = 1.0 + noise * np.arange(-1.0, N_SEEDS - 1.0)
    return Outcomes(*(column[:, None] * shake for column in columns))


def make_frontier(noise: float = 0.01) -> Frontier:
    """Two policies without equity, two that close the gap at a price, one that is only worse."""
    menu = np.array(
        [
            [0.5, 0.5, 0.0, 0.0],
            [0.8, 0.2, 0.0, 0.0],
            [0.4, 0.4, 0.2, 0.0],
            [0.2, 0.2, 0.6, 0.0],
            [0.3, 0.3, 0.4, 0.0],
        ]
    )
    learned = outcomes(
        [
            (0.50, -0.10, 0.20, 0.50, 0.30, 0.050),
            (0.70, -0.30, 0.25, 0.70, 0.60, 0.080),
            (0.48, -0.10, 0.04, 0.48, 0.30, 0.049),
            (0.45, -0.10, 0.01, 0.45, 0.30, 0.045),
            (0.40, -0.15, 0.03, 0.40, 0.30, 0.040),
        ],
        noise,
    )
    rules = outcomes(
        [
            (0.40, -0.12, 0.15, 0.40, 0.30, 0.040),
            (0.00, 0.00, 0.00, 0.00, 0.00, 0.000),
            (0.80, -0.60, 0.30, 1.00, 1.00, 0.100),
        ]
    )
    return Frontier(menu, learned, ("balanced", "never", "always"), rules)


def test_the_price_is_read_at_equal_visits() -> None:
    price = price_of_equity(make_frontier(noise=0.0))
    assert price[:2].max() == pytest.approx(0.0, abs=1e-12)
    assert price[2, 0] == pytest.approx(0.02)
    assert price[3, 0] == pytest.approx(0.10)
    # A mixture of nothing and the first makes half the visits and finds half as much.
    frontier = make_frontier(noise=0.0)
    frontier.learned.visits[2], frontier.learned.correct[2] = 0.15, 0.0245
    assert price_of_equity(frontier)[2, 0] == pytest.approx(0.02)


def test_a_menu_without_a_point_free_of_equity_has_no_price() -> None:
    frontier = make_frontier()
    frontier.menu[:, 2] = 0.2
    assert np.isnan(price_of_equity(frontier)).all()


def test_a_beaten_point_is_not_among_the_best() -> None:
    frontier = make_frontier()
    is_best = find_best(frontier)
    assert is_best.tolist() == [True, True, True, True, False]
    assert is_best[find_knee(frontier, is_best)]
    # The twin: once it is quicker than all others, nothing beats it.
    frontier.learned.speed[4] = 0.9
    assert find_best(frontier)[4]


def test_volume_grows_with_a_better_point_and_epsilon_falls() -> None:
    frontier = make_frontier()
    volume, epsilon = measure_volume(frontier), measure_epsilon(frontier)
    assert ((volume > 0) & (volume < 1)).all()
    better = make_frontier()
    better.learned.gap[:2] *= 0.5
    assert (measure_volume(better, frontier) > volume).all()
    assert (measure_epsilon(better) <= epsilon + 1e-9).all()


def test_the_cheapest_point_is_chosen_on_other_seeds() -> None:
    frontier = make_frontier(noise=0.0)
    price = price_of_equity(frontier)
    assert cheapest_at(frontier, price, 0.05) == 2
    assert cheapest_at(frontier, price, 0.02) == 3
    assert cheapest_at(frontier, price, 0.005) is None
    # One lucky seed of the worst point: no seed may be judged by its own luck.
    price[4] = [-1.0, 0.2, 0.2]
    chosen, gaps = read_at(frontier, price, 0.05)
    assert chosen[0] == pytest.approx(0.02)
    assert gaps[0] == pytest.approx(0.04)
    assert np.isnan(read_at(frontier, price, 0.005)[0]).all()


def test_a_hard_winter_is_nobodys_merit() -> None:
    winter = np.array([0.0, 0.3, -0.2])
    values = np.array([[1.0], [1.5]]) + winter
    levelled = level_by(values, 0)
    np.testing.assert_allclose(levelled[1] - levelled[0], 0.5)
    np.testing.assert_allclose(levelled.std(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(levelled.mean(axis=1), values.mean(axis=1))


def test_a_single_seed_has_no_interval() -> None:
    assert summarise_values(np.array([0.3])) == {"value": 0.3, "lower": None, "upper": None}
    assert summarise_values(np.array([np.nan]))["value"] is None


def summary() -> dict[str, Any]:
    found = summarise_frontier(make_frontier(), PriceFloor(None, None))  # pyright: ignore
    for point in found["points"]:
        point["command"] = f"parity311 train boiler --preference point{point['place']} <b>"
    return {
        "domain": "boiler", "setting": "strong participation", "agent": "conditioned",
        "seeds": N_SEEDS, "test_from": "2025-01-01", **found, "dual_rule": None,
        "sensitivity": [], "most_moving": None,
    }  # fmt: skip


def test_the_page_offers_every_point_and_loads_nothing() -> None:
    found = summary()
    charts = {
        "frontier_recall": _scatter(found, "gap", "recall"),
        "frontier_speed": _scatter(found, "visits", "speed"),
        "price_curve": _price_chart(found),
    }
    page = render(found, charts)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    for point in found["points"]:
        assert f'id="point-{point["place"]}"' in page
        # A mark in each of two pictures, reached by Tab because it is a link.
        assert page.count(f'href="#point-{point["place"]}" data-mark') == 2
    assert "&lt;b&gt;" in page, "a command is text, never markup"
    assert page.count("aria-sort") >= 12
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_page_of_real_records_knows_no_truth() -> None:
    """The twin is the synthetic page, which may speak of what really happens."""
    correction = {
        "estimator": "raw", "failed_estimators": {"exposure_rate": "no duplicates <i>"},
        "incidents_known_within": None, "is_wide": False,
    }  # fmt: skip
    charts = dict.fromkeys(("frontier_recall", "frontier_speed", "price_curve"), "<svg></svg>")
    real = render({**summary(), "is_real": True, "correction": correction}, charts)
    assert "really happens" not in real
    assert "true coverage" not in real
    assert "Complaints stand for incidents" in real
    assert "exposure_rate could not be fitted: no duplicates &lt;i&gt;" in real
    assert "today&#39;s rule" in real
    assert "balanced" not in real
    assert "really happens" in render(summary(), charts)
    wide = {**correction, "estimator": "exposure_rate", "is_wide": True,
            "incidents_known_within": 46.0}  # fmt: skip
    found = {**summary(), "is_real": True, "correction": wide}
    assert "known only within a factor of 46" in render(found, charts)
    assert ", gap " not in " ".join(summarise_in_words(found))
    assert ", gap " in " ".join(summarise_in_words(summary()))


def test_prices_where_nothing_is_found_are_not_defined() -> None:
    frontier = make_frontier(noise=0.0)
    frontier.learned.visits[2] = 0.0
    frontier.learned.correct[2] = 0.0
    price = price_of_equity(frontier)
    assert np.isnan(price[2]).all()
    assert np.isfinite(price[3]).all()
    assert cheapest_at(frontier, price, 0.05) == 3


def test_visits_near_todays_are_not_claimed_where_there_are_none() -> None:
    found = summary()
    assert "At about today's visits" in _price_words(found)
    far = make_frontier()
    far.learned.visits[:] *= 0.1
    other = summarise_frontier(far, PriceFloor(None, None))  # pyright: ignore
    assert "No preference makes about as many visits" in _price_words({**found, **other})


def test_every_constant_is_halved_and_doubled() -> None:
    from parity311.domains.boiler import DOMAIN

    params = DOMAIN.play.example()
    listed = list(list_assumptions(Harness(DOMAIN), params, {"raw": params}))
    changes = {(one.name, one.change) for one in listed}
    for name in ("weight of speed", "dollars of a catch", "cap on coverage prices"):
        assert {(name, "halved"), (name, "doubled")} <= changes
    assert ("reporting estimator", "raw") in changes
    assert not any("visit_price" in one.name or "visit price" in one.name for one in listed)
    halved = next(
        one for one in listed if (one.name, one.change) == ("dollars of a miss", "halved")
    )
    assert float(halved.estimated.miss_dollars) == pytest.approx(float(params.miss_dollars) / 2)


def test_a_gap_out_of_reach_counts_as_the_largest_move() -> None:
    from parity311.evaluation.frontier_figures import Assumption

    base, same, lost = make_frontier(), make_frontier(), make_frontier()
    lost.learned.gap[:] += 0.2
    assert _row(Assumption(NOTHING, ""), same, base)["moves"] == pytest.approx(0.0)
    row = _row(Assumption("reporting estimator", "raw"), lost, base)
    assert row["is_target_lost"]
    assert row["moves"] == 1.0
    assert row["price_at_target"] is None


def test_what_moves_less_than_a_seed_is_not_named() -> None:
    rows = [
        {"assumption": "weight of speed", "change": "halved", "moves": 0.2},
        {"assumption": NOTHING, "change": "other seeds", "moves": 0.1},
    ]
    assert name_most_moving(rows) == "weight of speed (halved)"
    rows[1]["moves"] = 0.3
    assert "none" in name_most_moving(rows)


def test_a_menu_that_does_not_divide_is_refused() -> None:
    from types import SimpleNamespace

    from parity311.evaluation.frontier import play_frontier

    with pytest.raises(InputError, match="agents do not make"):
        play_frontier(None, None, None, np.ones((4, 4)), SimpleNamespace(n_agents=3))  # pyright: ignore
