"""What pages say of policies in the city comes from both scores, and too few cities say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from docs.parity_in_city import FEWEST, IN_PROCESS, TITLES, keep, pairs, parity_in_city_block
from docs.readme_figures import FAR_OFF, is_far_off


def played(
    seed: int, slug: str, gap: float, in_process: float, more: float = 0.0
) -> dict[str, Any]:
    """A city in which the learned policy with prices changes the gap by so much in each place.

    It finds `more`, as a share, than every other policy.
    """

    def figures(gap: float) -> dict[str, Any]:
        coverage = [0.25, 0.25, 0.25, 0.25, 0.25 - gap]
        return {"coverage": coverage, "overall": 0.2, "gap": gap, "noise": 0.01, "outer": gap,
                "ratio": 1.0 - 2 * gap, "visits_a_year": 100.0, "correct_a_year": 50.0}  # fmt: skip

    of = {name: figures(0.1) for name in TITLES}
    there = {name: figures(0.09) for name in IN_PROCESS.values()}
    of["learned_priced"] = {**figures(0.1 + gap), "correct_a_year": 50.0 * (1.0 + more)}
    there["learned_priced"] = figures(0.09 + in_process)
    config = {"n_years": 4, "n_process_years": 16}
    return {"domain": slug, "city": f"small-{seed}", "config": config,
            "process": there, "in_city": of}  # fmt: skip


def test_both_scores_and_their_difference_are_told(tmp_path: Path) -> None:
    rows = [played(n, "heat", -0.05 + 0.01 * (n - 1), -0.07) for n in range(FEWEST)]
    keep(rows, tmp_path / "kept.json")
    assert pairs(rows, "learned_priced", "gap", "in_city").mean() == pytest.approx(-0.05)
    block = parity_in_city_block(tmp_path / "kept.json")
    (line,) = [one for one in block.splitlines() if one.startswith("- **heat**")]
    assert "by -7.0 [-7.0, -7.0] points in the process and by -5.0 [-7.5, -2.5] in the city" in line
    assert "difference +2.0 [-0.5, +4.5]" in line
    assert f"narrower in {FEWEST} of {FEWEST} cities" in line
    # A gap of .1 is beyond the audit's .05, and of .04, .05 and .06 the last.
    assert f"limit is kept in 0 and in 2 of {FEWEST} cities" in line
    assert "**elevator**: played in 0 cities, too few to tell" in block
    (row,) = [one for one in block.splitlines() if one.startswith("| learned, with prices")]
    assert "| 0.050 [0.025, 0.075] |" in row


def test_a_wider_gap_in_the_city_is_not_hidden(tmp_path: Path) -> None:
    keep([played(n, "heat", 0.03, -0.07) for n in range(FEWEST)], tmp_path / "kept.json")
    block = parity_in_city_block(tmp_path / "kept.json")
    assert "+3.0 [+3.0, +3.0] in the city" in block
    assert f"narrower in 0 of {FEWEST} cities" in block
    assert f"wider gap than without equity in {FEWEST} (missed)" in block
    assert "its gap less theirs +3.0 [+3.0, +3.0] points" in block


@pytest.mark.parametrize(
    ("gap", "more", "said"),
    [
        (-0.08, -0.004, ("(met, bar 18 of 20)", "-0.4 % [-0.4, -0.4]: not below", "point holds")),
        (-0.01, -0.006, ("(missed, bar 18 of 20)", "-0.6 % [-0.6, -0.6]", "is not shown")),
    ],
)
def test_bars_are_judged_in_the_city_too(
    tmp_path: Path, gap: float, more: float, said: tuple[str, ...]
) -> None:
    kept = tmp_path / "kept.json"
    keep([played(n, "heat", gap, -0.07, more) for n in range(FEWEST)], kept)
    (line,) = [one for one in parity_in_city_block(kept).splitlines() if "**heat**" in one]
    assert all(part in line for part in said)


def test_too_few_cities_say_nothing(tmp_path: Path) -> None:
    keep([played(n, "heat", -0.05, -0.07) for n in range(FEWEST - 1)], tmp_path / "kept.json")
    block = parity_in_city_block(tmp_path / "kept.json")
    assert "in the city" not in block
    assert "python -m docs.parity_in_city" in block


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [(0.096, 0.007, True), (0.007, 0.096, True), (0.145, 0.173, False), (0.4, None, False),
     (0.1 * FAR_OFF * 1.01, 0.1, True), (0.1 * FAR_OFF * 0.99, 0.1, False)],
)  # fmt: skip
def test_a_process_far_off_the_city_is_no_headline(
    here: float, there: float | None, said: bool
) -> None:
    assert is_far_off({"covers": here, "covers_in_city": there}) is said
