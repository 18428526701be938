"""Kept reproductions: judged by today's claims, and judged again without inventing anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from docs.reproduction import PRESETS, RESULTS
from docs.reproduction_again import Kept, find_again, judge_again, number_after

from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import Claim
from parity311.studies.reproduction.claims.elevator import POLICIES
from parity311.studies.reproduction.verdicts import CONTRADICTS, FAILS, FOLLOWS, HOLDS, UNTESTED

CLAIMS = {claim.key: claim for claim in all_claims()}


def kept_rows(preset: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"reproduction-{preset}" / "claims.json").read_text())


def is_sound(row: dict[str, Any]) -> bool:
    """The check: an interval contains its point, and a gap lies between nothing and everything."""
    if row["interval"] is None:
        return True
    lower, upper = row["interval"]
    if row["key"].startswith("parity_") and not 0.0 <= lower <= upper <= 1.0:
        return False
    return lower - 1e-9 <= row["value"] <= upper + 1e-9


@pytest.mark.parametrize("preset", PRESETS)
def test_kept_runs_answer_todays_claims(preset: str) -> None:
    rows = {row["key"]: row for row in kept_rows(preset)}
    assert rows.keys() == CLAIMS.keys()
    for key, claim in CLAIMS.items():
        assert (rows[key]["source"], rows[key]["quote"]) == (claim.source, claim.quote), key


@pytest.mark.parametrize("preset", PRESETS)
def test_kept_intervals_are_sound(preset: str) -> None:
    assert [row["key"] for row in kept_rows(preset) if not is_sound(row)] == []
    odd = {"key": "estimator_heat", "value": -0.507, "interval": [-0.549, -0.531]}
    assert not is_sound(odd)
    assert not is_sound({"key": "parity_dqn_heat", "value": 0.3, "interval": [-0.128, 1.155]})


@pytest.mark.parametrize("preset", PRESETS)
def test_no_error_of_the_paper_counts_twice(preset: str) -> None:
    rows = kept_rows(preset)
    verdicts = {row["key"]: row["verdict"] for row in rows}
    for row in rows:
        if row["follows_from"] and verdicts[row["follows_from"]] == CONTRADICTS:
            assert row["verdict"] not in (CONTRADICTS, FAILS), row["key"]
    assert FOLLOWS in verdicts.values()


def row_of(claim: Claim, **other: Any) -> dict[str, Any]:
    return {
        "key": claim.key, "definition": claim.definition, "ours": "", "value": 0.0,
        "interval": None, "verdict": HOLDS, "reason": "once", **other,
    }  # fmt: skip


def verdict_of(key: str, kept: Kept, *, is_seen: bool = False) -> str:
    return find_again(CLAIMS[key], kept, is_seen).decision.verdict


def test_years_that_were_seen_are_withdrawn() -> None:
    kept = {"snad_alike": row_of(CLAIMS["snad_alike"], value=0.01, interval=[0.0, 0.02])}
    assert verdict_of("snad_alike", kept, is_seen=True) == UNTESTED
    assert verdict_of("snad_alike", kept) == HOLDS


def test_another_agents_figure_is_withdrawn_and_the_papers_kept() -> None:
    given = {"value": 0.1, "interval": [0.05, 0.15]}
    kept = {key: row_of(CLAIMS[key], **given) for key in ("throughput_heat", "throughput_ert")}
    assert verdict_of("throughput_heat", kept) == UNTESTED
    assert verdict_of("throughput_ert", kept) == HOLDS


def test_a_changed_definition_without_a_way_to_judge_it_is_withdrawn() -> None:
    kept = {"transfer_dqn": row_of(CLAIMS["transfer_dqn"], definition="something else")}
    assert verdict_of("transfer_dqn", kept) == UNTESTED
    assert verdict_of("transfer_dqn", {}) == UNTESTED


def test_equity_is_judged_by_todays_rules() -> None:
    parity, price = "parity_dqn_heat", "price_dqn_heat"
    for today, verdict in ((8.6, HOLDS), (1.0, UNTESTED)):
        words = f"gap 2.5 % (-0.2 to 4.9); today's rule {today} %"
        kept = {
            parity: row_of(CLAIMS[parity], value=0.025, interval=[-0.002, 0.049], ours=words),
            price: row_of(CLAIMS[price], value=0.055, interval=[0.045, 0.065],
                          ours="5.5 % (4.5 to 6.5) at a gap of 2.5 %"),
        }  # fmt: skip
        found = find_again(CLAIMS[parity], kept, False)
        assert found.ours.lower == 0.0
        assert found.decision.verdict == verdict_of(price, kept) == verdict
    null = {"income_gradient_heat": row_of(CLAIMS["income_gradient_heat"], value=0.0,
                                           interval=[-0.001, 0.001])}  # fmt: skip
    assert verdict_of("income_gradient_heat", null) == FAILS
    with pytest.raises(ValueError, match="no figure after"):
        number_after("today's rule", "gap 2.5 %")


def test_elevators_are_judged_by_order() -> None:
    """Ratios to BALANCED's reward as the table has them; then with DQN ahead, as it was found."""
    table = dict(
        zip(POLICIES, (2.0, 1.33, 1.19, 1.12, 1.12, 1.12, 1.04, 1.06, 1.02, 1.0), strict=True)
    )
    kept = {
        f"elevator_{name.lower()}": {"key": name, "value": x, "interval": [x - 1e-3, x + 1e-3],
                                     "ours": "reward", "definition": ""}
        for name, x in table.items()
    }  # fmt: skip
    assert verdict_of("elevator_balanced", kept) == HOLDS
    assert verdict_of("elevator_order_reward", kept) == HOLDS
    kept["elevator_dqn"] |= {"value": 0.967, "interval": [0.964, 0.969]}
    assert verdict_of("elevator_balanced", kept) == FAILS
    kept["elevator_dqn"] |= {"value": 0.99, "interval": [0.9, 1.1]}
    assert verdict_of("elevator_balanced", kept) == UNTESTED


def test_the_paper_against_itself_needs_no_kept_figure() -> None:
    verdicts = {row["key"]: row["verdict"] for row in judge_again({}, False)
                if CLAIMS[row["key"]].kind in ("arithmetic", "text")}  # fmt: skip
    assert verdicts["boiler_rows"] == CONTRADICTS
    assert verdicts["boiler_split"] == HOLDS
    assert verdicts["correction_applied"] == CONTRADICTS
