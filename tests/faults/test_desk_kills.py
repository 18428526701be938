"""A few of the kills of `python -m tests.faults.desk_kills`, and what they must catch."""

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


def run_kills(*options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and what was found, in a process of its own that may fork."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.desk_kills", *options],
        capture_output=True, text=True, check=False, timeout=300, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("options", [(), ("--postgresql",)], ids=["sqlite", "postgresql"])
def test_every_acknowledged_decision_is_there_once(options: tuple[str, ...]) -> None:
    if options and what_is_lacking():
        pytest.skip(what_is_lacking())
    code, found = run_kills("--points", "3", *options)
    assert found["faults"] == []
    assert (code, found["killed"]) == (0, 3)
    assert found["told"] >= 9


def test_a_server_that_acknowledges_too_early_is_caught() -> None:
    code, found = run_kills("--points", "3", "--twin")
    assert code == 1
    assert any("was told and is not there" in one for one in found["faults"])
