"""What the pages say in Python is true: examples of the public names, README, tutorials.

The examples are one session, in the order of `parity311.__all__`, which is that of the reference;
each page's blocks are a program. All run in a folder as a reader has it after `make run`, with one
domain in its city.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.unit.explain.stored_run import make_run
from tests.unit.feeds.cities import sr311_row, write_csv, write_tracts

import parity311
from parity311.evaluation import compare
from parity311.pipelines import run as whole_way

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]
CITY = "small-7-measured-calibrated"
WHOLE = ("run", "frontier")
"""Names whose example goes the whole way, in a minute or two."""
PAGES = ("README.md", "docs/tutorials/python-first.md")
SHORTENED = {
    "steps=4_000": "steps=8",
    "n_episodes=64": "n_episodes=2",
    "world.scored):": "world.scored, n_episodes=2):",
    "learn(5_000)": "learn(200)",
}
"""What is put in place of a page's own so that it takes seconds."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a city, exports to import, and a run under `kept/`."""
    root = tmp_path_factory.mktemp("place")
    parity311.build_city(root / "cities" / CITY, domains=["boiler"], workers=1)
    exports = root / "exports"
    exports.mkdir()
    write_tracts(exports)
    write_csv(exports / "complaints.csv", [sr311_row(key) for key in range(20)])
    make_run(root / "kept")
    return root


@pytest.fixture(autouse=True)
def _prices_settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round in place of four: prices that have not come to rest are prices."""
    monkeypatch.setattr(compare, "SETTLING_ROUNDS", 1)


def run_examples(name: str, text: str, session: dict[str, Any]) -> tuple[int, str]:
    """How many examples a docstring has, and what was said of those that fail."""
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    test.globs = session
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    return len(test.examples), "".join(said)


def run_session(names: list[str]) -> str:
    """What was said of the examples of these names, run one after the other; empty is good."""
    session: dict[str, Any] = {"parity311": parity311, "__name__": "__main__"}
    said = []
    for name in names:
        n, wrong = run_examples(name, getattr(parity311, name).__doc__, session)
        said.append(wrong if n else f"{name} has no example\n")
    return "".join(said)


@pytest.mark.slow
def test_the_examples_are_true(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    names = [name for name in parity311.__all__ if name not in ("__version__", *WHOLE)]
    said = run_session(names)
    assert not said, said


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_an_example_that_goes_the_whole_way_is_true(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    # The city that is there; tests/unit/pipelines/test_run_sources.py asks for both.
    monkeypatch.setattr(whole_way, "SCENARIOS", whole_way.SCENARIOS[1:])
    said = run_session([name])
    assert not said, said


def test_an_untrue_example_is_noticed() -> None:
    session: dict[str, Any] = {"parity311": parity311}
    text = ">>> parity311.with_equity((0.5, 0.5, 0.0, 0.0), 0.5)\n(0.5, 0.5, 0.5, 0.0)\n"
    n, said = run_examples("with_equity", text, session)
    assert n == 1
    assert "Expected" in said


def blocks(page: str) -> str:
    """The Python of a page as one program, without what needs a package of others."""
    return "\n".join(re.findall(r"(?<!-->\n)```python\n(.*?)```", page, re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_python_of_a_page_runs(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here, where what the examples compiled is at hand."""
    monkeypatch.chdir(place)
    exec(shorten(blocks((ROOT / name).read_text())), {"__name__": "__main__"})
    assert capsys.readouterr().out


def shorten(code: str) -> str:
    """A program of a page, so that it takes seconds."""
    for written, shorter in SHORTENED.items():
        code = code.replace(written, shorter)
    return code


def run_python(code: str, place: Path, python: Path | None = None) -> str:
    """What a program of a page prints, shortened."""
    code = shorten(code)
    done = subprocess.run(
        [python or sys.executable, "-W", "error::FutureWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_an_agent_of_others_learns_as_the_page_says(tmp_path: Path) -> None:
    """Whole where Stable-Baselines3 is, here or with `make peers`; else up to Gymnasium's check."""
    page = (ROOT / "docs/how-to/use-the-environments.md").read_text()
    found = re.search(r"<!-- needs: (\w+) -->\n```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    package, code = found.groups()
    assert len([line for line in code.splitlines() if line]) <= 10
    peers = ROOT / ".venvs" / "torch" / "bin" / "python"
    if find_spec(package) is not None or peers.exists():
        assert run_python(code, tmp_path, None if find_spec(package) else peers)
        return
    checked, check, _ = code.partition("skip_render_check=True)\n")
    ours = [line for line in (checked + check).splitlines() if package not in line]
    run_python("\n".join(ours), tmp_path)
