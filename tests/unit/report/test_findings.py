"""Sentences follow the figures: for every direction, against today's rule, ranges as ranges."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.report.made_up_blocks import EVEN, PAID, STEEP, STEEPER, make_block

from parity311.report import findings, first_screen

FEWER_EVEN = (0.3, 0.3, 0.3, 0.3, 0.3)
MORE_EVEN = (0.65, 0.65, 0.65, 0.65, 0.65)
MORE_STEEP = (0.5, 0.6, 0.65, 0.7, 0.8)
FEWER_STEEP = (0.1, 0.2, 0.25, 0.3, 0.4)


@pytest.mark.parametrize(
    ("paid", "verdict", "said", "advice"),
    [
        (MORE_EVEN, "better", "by serving the worst served quintile more (", "worth a trial"),
        (FEWER_EVEN, "trade", "by serving the best served quintile less (", "a choice"),
        (STEEPER, "wider", "the gap widens", "keep today's rule"),
        (MORE_STEEP, "more", "no change beyond noise", "not for the gap"),
        (FEWER_STEEP, "fewer", "no change beyond noise", "keep today's rule"),
        (STEEP, "same", "no change beyond noise", "no reason to leave"),
    ],
)  # fmt: skip
def test_every_direction_has_its_words(
    paid: tuple[float, ...], verdict: str, said: str, advice: str
) -> None:
    block = make_block(paid=paid)
    assert findings.judge(block).verdict == verdict
    text = findings.say_block(block)
    assert said in text
    assert advice in text.lower()
    assert "not closed" not in text
    if verdict in ("trade", "fewer"):
        assert "fewer than today's rule" in text
    if verdict in ("better", "more"):
        assert "more than today's rule" in text


def test_the_price_names_the_twin_and_the_gain_names_today() -> None:
    """Worse than today by a third, no worse than its twin: both are said, each by its name."""
    block = make_block(paid=FEWER_STEEP, plain=FEWER_STEEP)
    assert "fewer than today's rule" in findings.say_block(block)
    price = findings.say_price(block)
    assert "Against its twin" in price
    assert "does not differ from the twin's beyond noise" in price


@pytest.mark.parametrize(
    ("paid", "plain", "said"),
    [
        (STEEPER, EVEN, "the gap is wider than the twin's"),
        (MORE_EVEN, STEEP, "because the worst served quintile is served more"),
        (FEWER_EVEN, STEEP, "because the best served quintile is served less"),
        (STEEP, STEEP, "does not differ from the twin's beyond noise"),
    ],
)
def test_how_the_gap_moved_against_the_twin(
    paid: tuple[float, ...], plain: tuple[float, ...], said: str
) -> None:
    assert said in findings.say_price(make_block(paid=paid, plain=plain))


def test_a_price_that_is_not_defined_says_why() -> None:
    nothing = (0.0, 0.0, 0.001, 0.0, 0.0)
    block = make_block(paid=EVEN, plain=nothing)
    rows = {row["policy"]: row for row in block["policies"]}
    rows[PAID]["price_of_equity"] = {"value": None, "lower": None, "upper": None}
    rows[PAID]["price_note"] = "not defined: too few"
    assert "not defined: too few" in findings.say_price(block)
    assert "%" not in findings.say_price(block)


def test_bad_news_comes_first_and_every_block_is_counted() -> None:
    blocks = [
        make_block("heat", paid=MORE_EVEN),
        make_block("boiler", paid=STEEPER),
        make_block("boiler", paid=STEEP, participation="measured"),
    ]
    headline = first_screen.say_lead(blocks)
    assert "would **widen** the gap between richer and poorer areas in 1 of 3 settings" in headline
    assert "would **narrow** it in 1 of 3" in headline
    assert "would not clearly change it in 1 of 3" in headline
    advice = findings.say_what_to_do(blocks)
    assert advice.index("Boiler (strong): keep today's rule") < advice.index("heat (strong)")
    assert all(findings.name_block(block) in advice.lower() for block in blocks)


def test_visits_are_measured_not_promised() -> None:
    equal = make_block()
    assert "about as many visits: 0.500" in findings.say_all_visits(equal)
    unequal = make_block(visits={"balanced": 0.522, PAID: 0.416})
    said = findings.say_all_visits(unequal)
    assert "from 0.416 per complaint (DQN, paid for coverage) to 0.522 (today's rule)" in said
    assert "with fewer visits (0.416 per complaint against 0.522)" in findings.say_block(unequal)


def wide(**changes: Any) -> dict[str, Any]:
    """Real records whose incidents are known within a factor of 46."""
    spread = {"lower": 0.0, "upper": 0.3, "change_lower": -0.2, "change_upper": 0.2}
    names = ("balanced", "dual_threshold", "dqn", PAID)
    return make_block(
        is_real=True, is_wide=True, incidents_known_within=46.0,
        gap_ranges=dict.fromkeys(names, spread), **changes,
    )  # fmt: skip


def test_what_is_known_within_a_factor_only_is_a_range_and_no_headline() -> None:
    block = wide(paid=MORE_EVEN)
    text = findings.say_block(block)
    assert "somewhere in 0.0 to 30.0" in text
    assert findings.judge(block).verdict == "unknown"
    assert "known only within a factor of 46" in findings.say_correction([block])
    assert "does something nobody can tell to the gap" in first_screen.say_lead([block])
    assert findings.find_alternative(block) is None
    # The broken twin: the same figures without the flag stand as figures.
    assert findings.judge(make_block(paid=MORE_EVEN)).verdict == "better"


def test_a_wide_estimate_does_not_block_what_the_truth_scores() -> None:
    block = make_block(paid=MORE_EVEN, is_wide=True, incidents_known_within=46.0)
    assert findings.judge(block).verdict == "better"


def test_the_estimate_may_take_a_finding_away() -> None:
    """Episodes alone say narrower; with what the estimate leaves open nobody can tell."""
    ranges = {PAID: {"lower": 0.0, "upper": 0.4, "change_lower": -0.3, "change_upper": 0.1}}
    block = make_block(is_real=True, paid=EVEN, gap_ranges=ranges)
    assert findings.judge(block).verdict in ("same", "more", "fewer")
    assert "no change beyond noise" in findings.say_block(block)
    assert findings.judge(make_block(is_real=True, paid=EVEN)).verdict in ("better", "narrower")


def test_a_failed_estimator_is_named_with_its_reason() -> None:
    block = make_block(
        is_real=True, estimator="raw", failed_estimators={"exposure_rate": "No duplicates."}
    )
    said = findings.say_correction([block])
    assert "complaints stand for incidents" in said
    assert "`exposure_rate` could not be fitted: No duplicates." in said
    assert "what nobody reported is not in it" in findings.say_coverage([block])
    assert "reported or not" in findings.say_coverage([make_block(is_real=True)])
    assert findings.say_correction([make_block()]) == ""
    filings = make_block("boiler", is_real=True, estimator="filings")
    assert "estimated with `filings`" in findings.say_correction([filings])


def test_an_alternative_must_not_find_less() -> None:
    block = make_block(paid=STEEPER, rule=EVEN)
    other = findings.find_alternative(block)
    assert other is not None
    assert other["policy"] == "dual_threshold"
    assert "threshold with coverage price" in findings.say_block(block)
    assert findings.find_alternative(make_block(paid=STEEPER, rule=FEWER_EVEN)) is None


def test_the_caption_of_the_correction_follows_the_table() -> None:
    block = make_block()
    assert "exposure rate (used) 40" in findings.say_estimates(block)
    for row in block["reporting"]:
        if row["estimator"] == "raw" and row["stratum"] in ("Q1", "Q2"):
            row["incidents_per_28_days"] = 0.0
    assert "raw 0" in findings.say_estimates(block)
    assert "exposure" not in findings.say_estimates(block | {"reporting": block["reporting"][6:]})
