"""The rules behind verdicts, each with a broken twin that the same check must reject."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    HOLDS,
    NOT_CLAIMED,
    UNTESTED,
    Decision,
    Measured,
    decide_all,
    decide_arithmetic,
    decide_bound,
    decide_count,
    decide_level,
    decide_magnitude,
    decide_order,
    decide_pairs,
    decide_same,
    decide_shown,
    decide_sign,
)

Rule = Callable[..., Decision]

SIGN_CASES = [
    (Measured(2.0, 1.0, 3.0), {"claimed": +1}, HOLDS),
    (Measured(-2.0, -3.0, -1.0), {"claimed": -1}, HOLDS),
    (Measured(-2.0, -3.0, -1.0), {"claimed": +1}, FAILS),
    (Measured(2.0, -1.0, 5.0), {"claimed": +1}, UNTESTED),
    (Measured(0.01, -0.02, 0.03), {"claimed": +1, "margin": 0.05}, FAILS),
    (Measured(0.01, -0.02, 0.08), {"claimed": +1, "margin": 0.05}, UNTESTED),
    (Measured(2.0), {"claimed": +1}, UNTESTED),
]
BOUND_CASES = [
    (Measured(0.03, 0.02, 0.04), {"at_most": 0.05}, HOLDS),
    (Measured(0.08, 0.06, 0.10), {"at_most": 0.05}, FAILS),
    (Measured(0.05, 0.04, 0.06), {"at_most": 0.05}, UNTESTED),
    (Measured(0.7, 0.6, 0.8), {"at_least": 0.5}, HOLDS),
    (Measured(0.3), {"at_most": 0.5}, UNTESTED),
]
MAGNITUDE_CASES = [
    (Measured(1.0, 0.98, 1.02), {"published": 1.05, "tolerance": 0.1}, HOLDS),
    (Measured(1.0, 0.98, 1.02), {"published": 1.2, "tolerance": 0.1}, FAILS),
    (Measured(1.0, 0.5, 1.5), {"published": 1.0, "tolerance": 0.1}, UNTESTED),
    (Measured(0.02, 0.01, 0.03), {"published": (0.04, 0.07)}, FAILS),
    (Measured(0.05, 0.045, 0.06), {"published": (0.04, 0.07)}, HOLDS),
    (Measured(-0.3, -1.1, 0.5), {"published": (0.04, 0.07), "tolerance": 0.01}, UNTESTED),
    (Measured(math.nan), {"published": 1.0}, UNTESTED),
]

LEVEL_CASES = [
    (Measured(1.0, 0.98, 1.02), {"published": 1.05, "tolerance": 0.1}, HOLDS),
    (Measured(1.0, 0.98, 1.02), {"published": 1.2, "tolerance": 0.1}, UNTESTED),
    (Measured(1.0, 0.5, 1.5), {"published": 1.0, "tolerance": 0.1}, UNTESTED),
    (Measured(-0.1, -0.2, -0.05), {"published": 0.2, "tolerance": 0.05, "claimed": 1}, FAILS),
    (Measured(0.9, 0.8, 0.95), {"published": 0.2, "tolerance": 0.05, "claimed": 1}, UNTESTED),
]
SHOWN_CASES = [
    (Measured(2.0, 1.0, 3.0), {"asked": +1}, NOT_CLAIMED),
    (Measured(-2.0, -3.0, -1.0), {"asked": +1}, NOT_CLAIMED),
    (Measured(2.0), {"asked": +1}, NOT_CLAIMED),
]
ORDER_CASES = [
    (Measured(0.9, 0.8, 0.95), {}, HOLDS),
    (Measured(0.5, 0.4, 0.6), {}, FAILS),
    (Measured(0.76, 0.7, 0.8), {}, UNTESTED),
]


def is_right(rule: Rule, cases: list[tuple[Measured, dict, str]]) -> bool:
    """The check: whether a rule gives every case its verdict."""
    return all(rule(ours, **given).verdict == verdict for ours, given, verdict in cases)


def point_sign(ours: Measured, claimed: int, margin: float = 0.0) -> Decision:
    """Broken twin: looks at the estimate and never at its interval."""
    del margin
    return Decision(HOLDS if claimed * ours.value > 0 else FAILS, "")


def never_fails_sign(ours: Measured, claimed: int, margin: float = 0.0) -> Decision:
    """Broken twin: cannot refute anything."""
    found = decide_sign(ours, claimed, margin=margin)
    return found if found.verdict == HOLDS else Decision(UNTESTED, "")


def point_bound(ours: Measured, at_most: float = math.inf, at_least: float = -math.inf) -> Decision:
    """Broken twin: a point within the limit is enough."""
    return Decision(HOLDS if at_least <= ours.value <= at_most else FAILS, "")


def close_enough(
    ours: Measured, published: float | tuple[float, float], tolerance: float = 0.0
) -> Decision:
    """Broken twin: anything within half of the published value will do."""
    del tolerance
    low = published[0] if isinstance(published, tuple) else published
    return Decision(HOLDS if abs(ours.value - low) < 0.5 * low else FAILS, "")


def as_if_claimed(ours: Measured, asked: int) -> Decision:
    """Broken twin: a question of the paper is counted as what it claims."""
    return decide_sign(ours, asked)


def refutes_by_another_city(
    ours: Measured, published: float, tolerance: float, claimed: int = 0
) -> Decision:
    """Broken twin: 87 of 87 complaints refute 85 of 87."""
    del claimed
    return decide_magnitude(ours, published, tolerance=tolerance)


def touches(
    ours: Measured, published: float | tuple[float, float], tolerance: float = 0.0
) -> Decision:
    """Broken twin: an interval wide enough to hold everything confirms everything."""
    low, high = published if isinstance(published, tuple) else (published, published)
    is_near = ours.lower - tolerance <= high and low <= ours.upper + tolerance
    return Decision(HOLDS if is_near else FAILS, "")


def more_than_chance(ours: Measured) -> Decision:
    """Broken twin: any order that is not the reverse will do."""
    return Decision(HOLDS if ours.value > 0.5 else FAILS, "")


@pytest.mark.parametrize(
    ("rule", "cases"),
    [
        (decide_sign, SIGN_CASES),
        (decide_bound, BOUND_CASES),
        (decide_magnitude, MAGNITUDE_CASES),
        (decide_level, LEVEL_CASES),
        (decide_shown, SHOWN_CASES),
        (decide_order, ORDER_CASES),
    ],
)
def test_rules_decide_as_they_say(rule: Rule, cases: list) -> None:
    assert is_right(rule, cases)


@pytest.mark.parametrize(
    ("twin", "cases"),
    [
        (point_sign, SIGN_CASES),
        (never_fails_sign, SIGN_CASES),
        (point_bound, BOUND_CASES),
        (close_enough, MAGNITUDE_CASES),
        (touches, MAGNITUDE_CASES),
        (refutes_by_another_city, LEVEL_CASES),
        (as_if_claimed, SHOWN_CASES),
        (more_than_chance, ORDER_CASES),
    ],
)
def test_broken_rules_are_seen(twin: Rule, cases: list) -> None:
    assert not is_right(twin, cases)


def test_what_is_shown_says_what_was_found() -> None:
    words = [
        decide_shown(ours, +1, margin=0.1, why="asked").reason
        for ours in (
            Measured(2.0, 1.0, 3.0),
            Measured(-2.0, -3.0, -1.0),
            Measured(0.0, -0.05, 0.05),
        )
    ]
    assert words == ["asked; yes here", "asked; not here", "asked; as good as equal here"]


def test_arithmetic_allows_rounding_and_no_more() -> None:
    assert decide_arithmetic(0.371, 0.3712, 0.0005).verdict == HOLDS
    assert decide_arithmetic(167_379, 166_579, 0.5).verdict == CONTRADICTS


def test_lists_must_name_the_same() -> None:
    assert decide_same(frozenset("ab"), frozenset("ba")).verdict == HOLDS
    found = decide_same(frozenset({"Inspect"}), frozenset({"Dispatch"}))
    assert found.verdict == CONTRADICTS
    assert "Inspect" in found.reason


def test_one_reversed_pair_is_enough_against_a_place_in_an_order() -> None:
    ahead, behind, equal, unsure = (
        decide_sign(Measured(*one), +1, margin=0.01)
        for one in ((0.1, 0.05, 0.15), (-0.1, -0.15, -0.05), (0.0, -0.005, 0.005),
                    (0.02, -0.03, 0.07))
    )  # fmt: skip
    assert decide_pairs({"a": ahead, "b": ahead}).verdict == HOLDS
    found = decide_pairs({"a": ahead, "b": behind, "c": unsure})
    assert found.verdict == FAILS
    assert found.reason == "not ahead of b"
    assert decide_pairs({"a": ahead, "b": equal}).verdict == FAILS
    assert decide_pairs({"a": ahead, "b": unsure}).verdict == UNTESTED
    assert decide_pairs({}).verdict == UNTESTED


def test_counts_must_agree_in_every_run() -> None:
    verdicts = [decide_count(n, 3).verdict for n in (3, 0, 1)]
    assert verdicts == [HOLDS, FAILS, UNTESTED]
    assert decide_count(0, 0).verdict == UNTESTED


def test_a_claim_of_parts_holds_only_if_all_do() -> None:
    good, bad, open_ = Decision(HOLDS, ""), Decision(FAILS, ""), Decision(UNTESTED, "")
    assert decide_all([good, good]).verdict == HOLDS
    assert decide_all([good, open_]).verdict == UNTESTED
    assert decide_all([open_, bad, good]).verdict == FAILS
    assert decide_all([]).verdict == UNTESTED
