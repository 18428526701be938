"""The reference is whole: every figure, field and environment has its words."""

from __future__ import annotations

import json
from pathlib import Path

from docs.environments import environments_block

from docs import drawn, file_formats, metrics
from parity311.domains import all_domains
from parity311.environments import environment_id
from parity311.feeds import citymap
from parity311.feeds.tracts import SHARES
from parity311.mdp.harness import Harness
from parity311.training.saving import describe

ROOT = Path(__file__).resolve().parents[2]


def test_pictures_are_as_the_kept_results_draw_them(tmp_path: Path) -> None:
    assert not drawn.stale_pictures()
    assert set(drawn.stale_pictures(tmp_path)) == set(drawn.PICTURES)


def kept_figures() -> set[str]:
    kept = json.loads((ROOT / "docs/results/run-small.json").read_text())
    return set().union(*(row for one in kept["comparisons"] for row in one["policies"]))


def test_every_figure_of_a_policy_has_its_words() -> None:
    assert kept_figures() - set(metrics.IDENTITY) == set(metrics.FIGURES)


def test_every_field_of_a_map_and_of_a_policy_has_its_words() -> None:
    named = {*citymap.COMPLAINT_FIELDS, *citymap.TRACT_FIELDS} - set(SHARES)
    assert named <= set(file_formats.MAP_FIELDS)
    harness = Harness(all_domains()["snad"])
    told = describe(harness, "never", harness.domain.preference, None)
    assert set(told) == set(file_formats.POLICY_FIELDS)


def test_words_are_read_from_under_an_attribute() -> None:
    class Made:
        plain: int = 0
        told: int = 0
        """what it
        is"""

    assert metrics.attribute_words(Made) == {"plain": "–", "told": "what it is"}


def test_every_environment_is_described() -> None:
    block = environments_block()
    for slug, domain in all_domains().items():
        assert f"`{environment_id(slug)}`" in block
        assert all(f"`{name}`" in block for name in domain.observation_sets)
