"""A domain's results change only together with its version.

After a wanted change: raise the domain's version, then write its new figures by running this file
as a script with the domain's name (with none, all are written).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.conftest import slow_but

from parity311.domains import all_domains, get_domain
from parity311.engines import heuristics
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness

STORED = Path(__file__).with_name("trajectories.json")
WRITE = "-m tests.golden.test_trajectories"
PLAYABLE = [slug for slug, domain in all_domains().items() if domain.is_playable]


def trajectory(slug: str) -> dict[str, Any]:
    """Totals of four short episodes of random actions on the domain's example."""
    domain = get_domain(slug)
    harness = Harness(domain, max_steps=120)
    policy = heuristics.at_random(np.ones(harness.n_actions))
    keys = jax.random.split(jax.random.key(311), 4)
    episodes = evaluate(harness, domain.play.example(), [Contender("random", policy)], keys)
    totals = {name: np.asarray(x[0]).sum(axis=0) for name, x in episodes.tally._asdict().items()}
    totals["reward"] = np.asarray(episodes.reward[0]).sum(axis=0)
    return {
        "version": domain.version,
        "totals": {name: np.round(x.astype(float), 4).tolist() for name, x in totals.items()},
    }


def changed_figures(stored: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Names of the totals that differ by more than rounding."""
    return [
        name
        for name, values in stored["totals"].items()
        if not np.allclose(now["totals"][name], values, rtol=1e-3, atol=1e-3)
    ]


def stored_trajectory(slug: str) -> dict[str, Any]:
    """The figures kept for a domain; a new one says how to write them."""
    stored = json.loads(STORED.read_text())
    if slug not in stored:
        pytest.fail(f"{slug} has no golden trajectory yet: python {WRITE} {slug}")
    return stored[slug]


def write_trajectories(slugs: Sequence[str], path: Path = STORED) -> None:
    """Write the figures of these domains and leave the others' alone."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept |= {slug: trajectory(slug) for slug in slugs or PLAYABLE}
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


@pytest.mark.parametrize("slug", slow_but(["boiler", "ert"], PLAYABLE))
def test_results_change_only_with_the_version(slug: str) -> None:
    stored, now = stored_trajectory(slug), trajectory(slug)
    if now["version"] != stored["version"]:
        pytest.fail(f"{slug} has a new version: python {WRITE} {slug}")
    assert changed_figures(stored, now) == [], f"results of {slug} changed: raise its version"


def test_one_more_complaint_is_noticed() -> None:
    stored = json.loads(STORED.read_text())["boiler"]
    totals = stored["totals"]
    other = {**totals, "complaints": [totals["complaints"][0] + 1, *totals["complaints"][1:]]}
    assert changed_figures(stored, {"totals": other}) == ["complaints"]


def test_a_domain_without_figures_says_how_to_write_them(tmp_path: Path) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"graffiti has no golden trajectory yet: python"
    ):
        stored_trajectory("graffiti")
    path = tmp_path / "trajectories.json"
    path.write_text(json.dumps({"zoo": {"version": 1}}))
    write_trajectories(["boiler"], path)
    written = json.loads(path.read_text())
    assert list(written) == ["boiler", "zoo"]
    assert written["zoo"] == {"version": 1}


if __name__ == "__main__":
    write_trajectories(sys.argv[1:])
