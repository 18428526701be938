"""Imports follow the path of the data, and the command line answers without the heavy ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("jax", "duckdb", "pyarrow", "scipy", "numpyro")


def imported_by(statement: str) -> set[str]:
    """Top-level packages a fresh interpreter holds after this statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(result.stdout.split())


def test_layers() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_has_its_layer() -> None:
    """A package missing from the list would be checked by nobody."""
    text = (ROOT / "pyproject.toml").read_text()
    packages = [path.name for path in (ROOT / "src" / "parity311").iterdir() if path.is_dir()]
    missing = [
        name for name in packages if name != "__pycache__" and f'"parity311.{name}"' not in text
    ]
    assert missing == []


def test_the_command_line_starts_light() -> None:
    assert imported_by("import parity311.cli").isdisjoint(HEAVY)


@pytest.mark.parametrize("module", ["parity311.records.validate", "parity311.agents.networks"])
def test_the_check_of_lightness_sees_heavy_imports(module: str) -> None:
    assert not imported_by(f"import {module}").isdisjoint(HEAVY)
