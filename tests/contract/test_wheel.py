"""The wheel is whole and works outside the repository, with nothing fetched.

It is built and installed as a user would, into an environment of its own; the packages it needs are
those of the environment the suite runs in. The command then runs in an empty folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from parity311.version import __version__

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
KINDS = {
    ".css",
    ".csv",
    ".html",
    ".j2",
    ".js",
    ".json",
    ".po",
    ".py",
    ".sql",
    ".svg",
    ".toml",
    ".typed",
}
"""Files that a package is made of; anything else under it needs a look."""
WHOLE_WAY = """
from parity311.evaluation import compare
from parity311.pipelines import run as whole_way
compare.SETTLING_ROUNDS = 1
whole_way.SCENARIOS = whole_way.SCENARIOS[1:]
config = whole_way.RunConfig(
    domains=("boiler",), agent="td", n_steps=8, n_agent_seeds=1, n_episodes=2,
    n_independent_episodes=2,
)
told = whole_way.run_pipeline(
    config, runs=whole_way.Path("runs"), cities=whole_way.Path("cities"), progress=lambda *_: None
)
print(told["report"])
"""
"""Every stage of `parity311 run`, in one of its two cities and with next to no budget: what could
be missing from a wheel is missing whatever the budget."""


def pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    out = tmp_path_factory.mktemp("dist")
    offline = ("--no-deps", "--no-build-isolation", "--no-index")
    pip("wheel", "-q", *offline, "--wheel-dir", str(out), str(ROOT))
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`parity311` of an environment that has the wheel, and borrows all it needs."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    # A line of such a file is a folder to look in, whose own such files are not read: so the
    # repository, which the suite's environment points to in that way, is out of sight.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip("--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    return home / "bin" / "parity311"


def run(command: Path, place: Path, *arguments: str) -> str:
    """What the command prints, run in a folder with nothing of the repository in sight."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [command, *arguments],
        cwd=place, capture_output=True, text=True, check=False, timeout=900,
        env={**outside, "NO_COLOR": "1", "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def packaged() -> set[str]:
    """Files of the package as they are in the repository."""
    found = [path for path in (SOURCE / "parity311").rglob("*") if path.is_file()]
    return {
        path.relative_to(SOURCE).as_posix()
        for path in found
        if "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def test_every_file_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if name.startswith("parity311/")}
    assert names == packaged()
    assert {Path(name).suffix for name in names} <= KINDS
    for part in ("report/templates/", "feeds/maps/", "feeds/codes/", "lifecycle/migrations/",
                 "explain/locale/"):  # fmt: skip
        assert any(name.startswith(f"parity311/{part}") for name in names), part


def test_what_says_the_version_says_the_same(wheel: Path) -> None:
    assert f"-{__version__}-" in wheel.name
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == __version__  # type: ignore[index]
    assert re.search(r"^license: (\S+)$", citation, re.MULTILINE)[1] == "Apache-2.0"  # type: ignore[index]


def test_it_works_in_an_empty_folder(command: Path, tmp_path: Path) -> None:
    assert "leaderboard" in run(command, tmp_path, "--help")
    where = "import parity311; print(parity311.__file__)"
    python = command.with_name("python")
    assert str(command.parents[1]) in run(python, tmp_path, "-c", where)
    # Templates, codes and languages are read; a table is the quickest way to a page.
    run(command, tmp_path, "audit", "table.csv", "--template")
    run(command, tmp_path, "audit", "table.csv")
    (page,) = tmp_path.glob("runs/*/audit.html")
    assert "<html" in page.read_text()
    assert "--domains" in run(command, tmp_path, "run", "--help")
    assert (tmp_path / run(python, tmp_path, "-c", WHOLE_WAY).strip()).is_file()
