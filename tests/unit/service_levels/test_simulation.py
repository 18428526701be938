"""The compiled simulation equals the plain one, request by request, and what a hand computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.service_levels.settings import make_setting, one_cell

from parity311.errors import InputError
from parity311.service_levels import reference, simulate
from parity311.service_levels.designs import (
    KEPT_PARTS,
    ServiceDesign,
    design_from_numbers,
    proportional_numbers,
    to_parts,
)


def drawn_designs(setting, n: int = 5, seed: int = 1) -> ServiceDesign:
    """Designs drawn from the unit cube, and the proportional rules."""
    drawn = np.random.default_rng(seed).random((n, setting.n_numbers))
    return design_from_numbers(setting, np.vstack([drawn, proportional_numbers(setting)]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scope": "city"},
        {"is_followed": True, "warm_up_days": 12},
        {"unused_days": 3, "capacity": np.tile([0, 90, 30], 20)},
        {"unused_days": 3, "capacity": np.tile([0, 90, 30], 20), "scope": "city"},
        {"look_back": 0.0},
        {"look_back": 1.0, "n_ages": 4},
    ],
    ids=str,
)
def test_it_equals_the_plain_simulation(changes: dict) -> None:
    setting = make_setting(**changes)
    designs = drawn_designs(setting, 12)
    draws = simulate.draw_uniforms(setting, 3)
    served = simulate.simulate(setting, designs, draws)
    for place in range(designs.n):
        walked = reference.walk(setting, designs, place, draws)
        expected = reference.visits_by_age(setting, walked)
        np.testing.assert_array_equal(served.at_least[..., place], expected)
        for name in ("visited", "dropped", "waiting"):
            counts = getattr(served, f"n_{name}")[..., place]
            for cell, requests in getattr(walked, name).items():
                assert counts[cell] == len(requests), (name, cell)
        assert served.n_unused[place] == walked.n_unused


def test_days_received_in_blocks_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of eight days, the last of them not whole, and in one."""
    setting = make_setting(is_followed=True, warm_up_days=12)
    designs, draws = drawn_designs(setting), simulate.draw_uniforms(setting, 3)
    whole = simulate.simulate(setting, designs, draws)
    monkeypatch.setattr(simulate, "BLOCK", 8)
    monkeypatch.setattr(simulate, "_compiled", simulate._compiled.__wrapped__)
    parts = simulate.simulate(setting, designs, draws)
    assert (setting.judged[1] - setting.judged[0] + 1) % 8
    np.testing.assert_array_equal(parts.at_least, whole.at_least)


def test_another_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a plain simulation that serves the newest first gives other waits."""
    setting = make_setting()
    designs = drawn_designs(setting, 1)
    draws = simulate.draw_uniforms(setting, 3)
    served = simulate.simulate(setting, designs, draws)
    right = reference._visit

    def newest_first(found, cell, n, day, look_back, uniform):
        found.waiting[cell].reverse()
        right(found, cell, n, day, look_back, uniform)
        found.waiting[cell].reverse()

    monkeypatch.setattr(reference, "_visit", newest_first)
    walked = reference.walk(setting, designs, 0, draws)
    assert (reference.visits_by_age(setting, walked) != served.at_least[..., 0]).any()


@pytest.mark.parametrize("scope", ["district", "city"])
def test_nobody_is_lost(scope: str) -> None:
    setting = make_setting(scope=scope)
    served = simulate.simulate(setting, drawn_designs(setting), simulate.draw_uniforms(setting, 0))
    total = served.n_visited + served.n_dropped + served.n_waiting
    received = np.broadcast_to(setting.arrivals.sum(axis=0)[..., None], total.shape)
    np.testing.assert_array_equal(total, received)
    used = served.n_visited.sum(axis=(0, 1)) + served.n_unused
    np.testing.assert_array_equal(used, np.full(used.shape, setting.capacity.sum()))


def keep_all(n: int = 1) -> ServiceDesign:
    """One cell that gets every visit and drops nobody."""
    ones = np.ones((1, 1, n), np.float32)
    return ServiceDesign(4096 * ones[0], 4096 * ones, KEPT_PARTS * ones)


def test_first_come_by_hand() -> None:
    """Three on day 0, two on day 1, one visit a day: waits 0, 1, 2, 2, 3."""
    setting = one_cell([3, 2, 0, 0, 0], [1, 1, 1, 1, 1])
    served = simulate.simulate(setting, keep_all(), simulate.draw_uniforms(setting, 0))
    assert served.at_least[0, 0, :, 0].tolist() == [5, 4, 3, 1, 0, 0, 0, 0]


def test_an_unused_visit_can_be_made_for_a_while() -> None:
    """Three visits on day 0, when nobody is there; two requests come on day 2."""
    for unused_days, waits in ((2, [2, 0]), (1, [0, 0])):
        setting = one_cell([0, 0, 2, 0], [3, 0, 0, 0], unused_days=unused_days)
        served = simulate.simulate(setting, keep_all(), simulate.draw_uniforms(setting, 0))
        assert served.at_least[0, 0, :2, 0].tolist() == waits
        assert served.n_unused[0] == 3 - waits[0]


def test_a_visit_after_the_days_followed_is_none() -> None:
    """Four on day 0, one visit a day; followed for two days (three ages), the fourth is too late.

    The wait of the third is 2 days, the last age, which stands for all longer ones: not counted.
    """
    setting = one_cell([4, 0, 0, 0], [1, 1, 1, 1], n_ages=3, is_followed=True)
    served = simulate.simulate(setting, keep_all(), simulate.draw_uniforms(setting, 0))
    assert setting.judged == (0, 2)
    assert served.at_least[0, 0, :, 0].tolist() == [2, 1, 0]
    assert served.n_visited[0, 0, 0] == 4


def test_a_review_drops_its_share_exactly() -> None:
    """Sixteen wait, a quarter is kept at the review of day 1, nobody is visited."""
    setting = one_cell([16, 0], [0, 0], review_every=(2,))
    designs = keep_all()._replace(retention=np.full((1, 1, 1), KEPT_PARTS // 4, np.float32))
    served = simulate.simulate(setting, designs, simulate.draw_uniforms(setting, 5))
    assert served.n_dropped[0, 0, 0] == 12
    assert served.n_waiting[0, 0, 0] == 4


def test_parts_sum_and_keep_their_floor() -> None:
    parts = to_parts(np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]]), 4096, 0.01)
    assert parts.sum(axis=-1).tolist() == [4096, 4096]
    assert (parts >= 1).all()
    assert parts[0].argmax() == 1


def test_designs_side_by_side_do_not_touch() -> None:
    """A design alone and among others, over more than one chunk, has the same counts."""
    setting = make_setting(n_days=20)
    designs = drawn_designs(setting, simulate.CHUNK + 5)
    draws = simulate.draw_uniforms(setting, 0)
    together = simulate.simulate(setting, designs, draws, n_threads=2)
    for place in (0, designs.n - 1):
        alone = simulate.simulate(setting, designs.take([place]), draws)
        np.testing.assert_array_equal(together.at_least[..., place], alone.at_least[..., 0])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scope": "ward"}, "Scope 'ward'"),
        ({"capacity": np.full(60, -1)}, "below zero"),
        ({"review_every": (7, 10)}, "3 districts"),
        ({"review_every": (7, 10, 0)}, "at least 1"),
        ({"warm_up_days": 50, "is_followed": True}, "no request to judge"),
        ({"warm_up_days": 5}, "not followed"),
        ({"unused_days": -1}, "0 or more days"),
        ({"look_back": 1.5}, "Look-back 1.5"),
        ({"districts": ("North", "South")}, "2 districts"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_setting(**changes)
