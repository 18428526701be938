"""A handful of the kills of `python -m tests.faults.registry_kills`, and what they must catch.

Those of a whole cycle (`tests.faults.cycle_kills`) take longer: two of them, and a twin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import what_is_lacking

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run_kills(*options: str, runner: str = "registry_kills") -> tuple[int, dict[str, Any]]:
    """Exit code and what was found, in a process of its own that may fork."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{runner}", *options],
        capture_output=True, text=True, check=False, timeout=560, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("options", [(), ("--postgresql",)], ids=["sqlite", "postgresql"])
def test_no_approval_is_lost_and_nobody_is_live_twice(options: tuple[str, ...]) -> None:
    if options and what_is_lacking():
        pytest.skip(what_is_lacking())
    code, found = run_kills("--points", "8", *options)
    assert found["faults"] == []
    assert code == 0
    assert found["outcomes"]["killed"] == 8


def test_acts_told_before_they_are_kept_are_caught() -> None:
    code, found = run_kills("--points", "8", "--twin")
    assert code == 1
    assert any("an act that was told is lost" in one for one in found["faults"])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Where the first call keeps its sound cycle for those after it: who keeps the log is no part
    of its steps.
    """
    return "--kept", str(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("options", [(), ("--postgresql",)], ids=["sqlite", "postgresql"])
def test_a_cycle_that_was_killed_decides_what_it_would_have(
    options: tuple[str, ...], sound: tuple[str, str]
) -> None:
    if options and what_is_lacking():
        pytest.skip(what_is_lacking())
    code, found = run_kills("--points", "1", "--seed", "3", *options, *sound, runner="cycle_kills")
    assert found["faults"] == []
    assert code == 0


def test_a_cycle_that_forgets_its_proposal_is_caught(sound: tuple[str, str]) -> None:
    code, found = run_kills("--points", "1", "--twin", *sound, runner="cycle_kills")
    assert code == 1
    assert any("the log has propose 2 times" in one for one in found["faults"])
