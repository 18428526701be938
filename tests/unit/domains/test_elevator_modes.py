"""Elevator: the published reward, what modes do to it, and who is served."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.engines.backlog_play import (
    Played,
    feature_distance,
    lost_complaints,
    most_visits,
    play_constant,
    saving_errors,
)

from parity311.domains import elevator, get_domain

# Its episodes are long: what is compiled is worth optimizing.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]

PARAMS = elevator.example()


@cache
def played() -> Played:
    return play_constant("elevator", PARAMS, 6)


@pytest.mark.slow
def test_complaints_are_conserved_and_crews_run_out() -> None:
    assert lost_complaints(played()) < 1e-2
    domain = get_domain("elevator")
    capacity = domain.play.capacity_per_step
    assert capacity is not None
    assert most_visits(played()) <= float(capacity(PARAMS)) + 1e-3
    # At night two crews are on duty.
    nights = played().tally.visits[played().of("BALANCED")].sum(axis=-1)[:, :2]
    assert nights.max() <= 2 * 6 + 1e-3


def test_what_trains_is_what_is_published() -> None:
    assert saving_errors(played(), 0, "NO_DISPATCH").max() <= 1.0
    wrong = played()
    scaled = Played(
        wrong.names, wrong.tally, 1.3 * wrong.reward, wrong.n_waiting, wrong.observation
    )
    assert saving_errors(scaled, 0, "NO_DISPATCH").max() > 1.0


def test_the_published_reward_is_the_tail_and_twice_the_severity() -> None:
    names = list(get_domain("elevator").observation_names)
    late, severe = (names.index(name) for name in ("tail_pressure", "severity"))
    seen = played().observation * float(PARAMS.typical)
    scale = elevator.MEAN_WEIGHT
    speed = played().tally.published_reward[..., 0] * elevator.UNITS[0]
    np.testing.assert_allclose(speed, -(seen[..., late] + 2 * scale * seen[..., severe]), rtol=1e-4)


def actionable_share(name: str) -> float:
    """The paper's Act.: visits that found something actionable, among all visits."""
    tally, place = played().tally, played().of(name)
    return float(tally.outcomes[place][..., 0].sum() / tally.visits[place].sum())


def test_the_measures_of_the_table_stand_beside_the_reward() -> None:
    assert get_domain("elevator").measure_names == (
        "open_over_30_days",
        "severity_weighted_backlog",
    )
    late, severe = np.moveaxis(played().tally.measures, -1, 0)
    speed = played().tally.published_reward[..., 0] * elevator.UNITS[0]
    np.testing.assert_allclose(speed, -(late + 2.0 * severe), rtol=1e-5)
    balanced, nobody = (played().of(name) for name in ("BALANCED", "NO_DISPATCH"))
    assert late[nobody].mean() > 1.4 * late[balanced].mean()
    assert severe[nobody].mean() > 1.8 * severe[balanced].mean()
    shares = {name: actionable_share(name) for name in ("TAIL", "EMERG", "ACTIONABLE", "BALANCED")}
    assert max(shares, key=lambda name: shares[name]) == "ACTIONABLE"
    assert 0.10 < shares["BALANCED"] < 0.25


def test_modes_stand_in_the_order_of_the_table() -> None:
    reward = played().tally.published_reward[..., 0].sum(axis=-1).mean(axis=-1)
    level = {name: reward[i] * elevator.UNITS[0] for i, name in enumerate(played().names)}
    better = ("BALANCED", "TAIL", "RANDOM_BOARDS", "NO_DISPATCH")
    assert [level[a] > level[b] for a, b in pairwise(better)] == [True] * 3
    assert level["BALANCED"] == pytest.approx(-412_000, rel=0.10)
    assert level["NO_DISPATCH"] == pytest.approx(-844_000, rel=0.12)
    # Minding the way is what the published modes lack.
    assert level["INDEX_NEAR"] > 0.96 * level["BALANCED"]
    assert level["BALANCED_NEAR"] > 0.96 * level["BALANCED"]


def test_what_is_done_now_changes_what_comes_next() -> None:
    assert feature_distance(played(), "TAIL", "EMERG") > 5.0
    assert feature_distance(played(), "INDEX", "INDEX") == 0.0


def test_the_denominator_hides_the_gap() -> None:
    """Per complaint the strata are served alike; per incident the fifth twice as well."""
    place = played().of("BALANCED")
    tally = played().tally
    correct = tally.correct[place].sum(axis=(0, 1))[:5]
    per_incident = correct / tally.actionable[place].sum(axis=(0, 1))[:5]
    per_report = correct / tally.reported_actionable[place].sum(axis=(0, 1))[:5]
    assert per_incident[4] > 1.7 * per_incident[0]
    assert per_report[4] < 1.3 * per_report[0]
    assert (per_incident <= np.array([0.354, 0.42, 0.50, 0.60, 0.729]) + 1e-3).all()


@pytest.mark.slow
def test_prices_move_the_crews_and_a_canvass_finds_what_nobody_called_in() -> None:
    prices = np.array([1.0, 0.0, 0.0, 0.0, -1.0, 0.0])
    plain, priced = (play_constant("elevator", PARAMS, 6, prices=p) for p in (None, prices))

    def served(found: Played, name: str) -> np.ndarray:
        return found.tally.correct[found.of(name)].sum(axis=(0, 1))

    # Prices are in whichever order is worked in, the published ones included.
    for name in ("BALANCED", "EMERG", "TAIL", "ACTIONABLE", "INDEX_NEAR", "COVERAGE_PRICED"):
        blind, seeing = served(plain, name), served(priced, name)
        assert seeing[0] > 1.2 * blind[0], name
        assert seeing[4] < 0.85 * blind[4], name
    blind, looking = served(plain, "INDEX_NEAR"), served(priced, "CANVASS")
    looked = priced.tally.visits[priced.of("CANVASS")].sum() - (
        priced.tally.outcomes[priced.of("CANVASS")].sum()
    )
    assert looked > 0
    assert looking[0] > blind[0]


def test_boards_are_the_59_of_the_city() -> None:
    assert len(elevator.BOARDS) == 59
    assert len(get_domain("elevator").observation_sets["published"]) == 2 + 2 * 59
    located = type("Located", (), {"board": np.array([101, 503, 212, 999])})
    np.testing.assert_array_equal(elevator.place_of(located), [0, 58, 23, 0])
