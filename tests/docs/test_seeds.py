"""The register of seeds holds every city that a kept figure rests on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs import other_seeds, seeds

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


def used_seeds(found: object, name: str = "") -> set[int]:
    """City seeds named anywhere in kept results."""
    if isinstance(found, dict):
        return set().union(set(), *(used_seeds(value, key) for key, value in found.items()))
    if isinstance(found, list):
        return set().union(set(), *(used_seeds(value, name) for value in found))
    if name not in ("seed", "city", "city_seed", "cities", "city_seeds"):
        return set()
    if isinstance(found, str):
        return {int(seed) for seed in re.findall(r"^(?:small|nyc)-(\d{3,})$", found)}
    return {found} if isinstance(found, int) and found >= 100 else set()


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.name)
def test_every_kept_city_is_registered(path: Path) -> None:
    assert used_seeds(json.loads(path.read_text())) <= seeds.registered_seeds()


def test_the_kept_quality_rows_are_seen_by_this_test() -> None:
    kept = json.loads((RESULTS / "quality.json").read_text())
    assert used_seeds(kept)
    for cities in ([4711], ["small-4711"], "nyc-4711"):
        assert used_seeds({"settings": [{"city": cities}]}) - seeds.registered_seeds() == {4711}


def test_a_range_in_the_register_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "seeds.toml"
    path.write_text('[[seeds]]\ncities = "small 7, 11; nyc 501–503"\nstatus = "tuning"\n')
    assert seeds.registered_seeds(path) == {7, 11, 501, 502, 503}


def kept_rows(gaps: list[float], recall: list[float]) -> list[dict]:
    rows = []
    for slug in other_seeds.DOMAINS:
        for scenario in other_seeds.SCENARIOS:
            for seed, (gap, found) in enumerate(zip(gaps, recall, strict=True)):
                figures = {
                    "balanced": (0.1, 0.3),
                    "dual_threshold": (0.1, 0.3),
                    "dqn_equity_0.50": (0.1 + gap, 0.3 + found),
                }
                policies = [
                    {"policy": policy, "coverage_gap": {"value": g}, "recall": {"value": r}}
                    for policy, (g, r) in figures.items()
                ]
                key = {"seed": seed, "domain": slug, "scenario": ", ".join(scenario)}
                rows.append({**key, "policies": policies})
    return rows


def test_the_sentence_above_the_table_follows_the_intervals() -> None:
    worse = other_seeds.verdict_lines(kept_rows([0.04, 0.05, 0.06], [-0.02, -0.03, -0.02]), "dqn")
    assert "widens it in 4 of 4" in worse[0]
    assert "less found" in worse[0]
    better = other_seeds.verdict_lines(kept_rows([-0.04, -0.05, -0.06], [0.02, -0.02, 0.0]), "dqn")
    assert "narrows it in 4 of 4" in better[0]
    assert "as much found" in better[0]
    unclear = other_seeds.verdict_lines(kept_rows([-0.04, 0.05, 0.0], [0.0, 0.0, 0.01]), "dqn")
    assert "leaves it in 4 of 4" in unclear[0]
