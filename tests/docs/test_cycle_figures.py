"""How cycles ended: where the true gap is real, and who was let by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from docs.cycle_figures import KEPT, is_real, say_refusals


def played(*rates: float, ratio: tuple[float, float], gap: tuple[float, float]) -> dict[str, Any]:
    """What a policy came to in the true process, with these intervals."""
    return {"coverage_by_quintile": rates, "ratio_interval": ratio, "gap_interval": gap}


FEW_BEHIND = played(0.05, 0.1, ratio=(0.4, 0.7), gap=(0.03, 0.07))
MANY_BEHIND = played(0.5, 0.6, ratio=(0.8, 0.9), gap=(0.06, 0.14))


def row(domain: str, outcome: str, truth: dict[str, Any]) -> dict[str, Any]:
    """A cycle without weight on equity."""
    return {"domain": domain, "equity": 0.0, "outcome": outcome, "in_truth": truth}


def test_low_rates_are_held_to_the_ratio_and_others_to_the_gap() -> None:
    assert is_real(FEW_BEHIND)
    assert not is_real(FEW_BEHIND | {"ratio_interval": (0.4, 0.79)})
    assert is_real(MANY_BEHIND)
    assert not is_real(MANY_BEHIND | {"gap_interval": (0.04, 0.14)})


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("refused", "1 of these were refused (not refused: none)"),
     ("held", "0 of these were refused (not refused: heat)")],
)  # fmt: skip
def test_who_was_let_by_is_named(outcome: str, words: str) -> None:
    said = say_refusals([row("heat", outcome, FEW_BEHIND)])[-1]
    assert words in said


def test_a_refusal_without_a_real_gap_is_told_apart() -> None:
    level = FEW_BEHIND | {"ratio_interval": (0.9, 1.0)}
    assert "1 of the others (snad)" in say_refusals([row("snad", "refused", level)])[-1]


def test_every_kept_cycle_ended_with_reasons_and_a_registry_that_verifies() -> None:
    """Heat, where the gap of a policy without weight on equity is real, was refused."""
    rows = json.loads(KEPT.read_text())["cycles"]
    assert all(one["reasons"] and not one["problems"] for one in rows)
    heat = {one["equity"]: one for one in rows if one["domain"] == "heat"}
    assert is_real(heat[0.0]["in_truth"])
    assert heat[0.0]["outcome"] == "refused"
    assert heat[0.5]["outcome"] != "refused"
