"""The how-to page is followed: a thirteenth domain dropped into the folder appears everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def copy_with_graffiti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the page's file in its domains folder."""
    source = tmp_path_factory.mktemp("thirteenth") / "src"
    shutil.copytree(
        ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    page = (ROOT / "docs" / "how-to" / "add-a-domain.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    (source / "parity311" / "domains" / "graffiti.py").write_text(code[1])
    return source


def run_python(source: Path, code: str) -> str:
    """What a fresh interpreter prints that imports the copy."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source,
    )
    return result.stdout


def test_it_appears_everywhere_without_another_edit(copy_with_graffiti: Path) -> None:
    printed = run_python(
        copy_with_graffiti,
        """
import json
import gymnasium
import parity311.adapters
from parity311.domains import all_domains, get_domain
from parity311.mdp.check import check_domain
domain = get_domain("graffiti")
environment = gymnasium.make("parity311/Graffiti-v0")
environment.reset(seed=0)
environment.step(1)
from parity311.lifecycle.printing import domain_cards
print(json.dumps({
    "n": len(all_domains()),
    "processes": [one.process.slug for one in all_domains().values()],
    "problems": check_domain(domain),
    "cards": [card["name"] for card in domain_cards()],
}))
""",
    )
    found = json.loads(printed.strip().splitlines()[-1])
    assert found["n"] == 13
    assert "graffiti" in found["processes"]
    assert found["problems"] == []
    assert "graffiti" in found["cards"]


def test_the_generator_builds_its_complaints(copy_with_graffiti: Path, tmp_path: Path) -> None:
    printed = run_python(
        copy_with_graffiti,
        f"""
from pathlib import Path
from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.records.store import open_records
out = Path({str(tmp_path)!r}) / "city"
city = build_city([get_domain("graffiti").process], "small", 3, out=out, workers=1)
print(open_records(city).table("complaints", "graffiti").num_rows)
""",
    )
    assert int(printed.strip().splitlines()[-1]) > 100
