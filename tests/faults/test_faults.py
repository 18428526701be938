"""A handful of the tries of `python -m tests.faults`, and twins that they must catch.

They run in a process of their own that starts no thread, so that it may fork.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]


def run_tries(works: str, kinds: str, points: int) -> tuple[int, dict[tuple[str, str], Any]]:
    """Exit code and what was found, by work and kind."""
    command = [sys.executable, "-m", "tests.faults", "--works", works, "--kinds", kinds]
    done = subprocess.run(
        [*command, "--points", str(points)],
        capture_output=True, text=True, check=False, timeout=560, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found, done.stderr
    return done.returncode, {(one["work"], one["kind"]): one for one in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("works", "kinds", "points"),
    [
        ("city over city,run", "kill", 2),
        ("city", "disk", 2),
        ("shared city,import", "pair", 1),
        ("fetch", "kill", 2),
    ],
)
def test_nothing_is_lost_mixed_or_untold(works: str, kinds: str, points: int) -> None:
    code, found = run_tries(works, kinds, points)
    assert [fault for one in found.values() for fault in one["faults"]] == []
    assert code == 0
    assert all(one["n_tries"] >= points for one in found.values())


@pytest.mark.slow
def test_the_tries_catch_broken_twins() -> None:
    code, found = run_tries("in place,unlocked,untold", "kill,disk,pair", 6)
    assert code == 1
    assert any("a reader finds" in fault for fault in found["in place", "kill -9"]["faults"])
    assert any("a reader finds" in fault for fault in found["unlocked", "two processes"]["faults"])
    assert any("Traceback" in fault for fault in found["untold", "disk gives out"]["faults"])
