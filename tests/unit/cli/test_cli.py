"""The command line as a person meets it: clear words, exit code 2, no traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from parity311 import __version__
from parity311.agents import all_agents
from parity311.cli import main
from parity311.domains import all_domains


def run_apart(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process, as a shell would."""
    code = "from parity311.cli import main; main()"
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment,
    )


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported everything already; a traceback leaves it."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["parity311", *arguments])
        patch.setenv("COLUMNS", "100")
        patch.setenv("NO_COLOR", "1")
        patch.chdir(cwd or Path.cwd())
        with pytest.raises(SystemExit) as ended:
            main()
    code = int(ended.value.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def is_one_clear_line(result: subprocess.CompletedProcess[str]) -> bool:
    """The check: exit code 2, one line that starts with 'error:', no traceback."""
    lines = result.stderr.strip().splitlines()
    return result.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: ")


def test_version_and_help() -> None:
    assert run_apart("--version").stdout.strip() == __version__
    helped = run("--help")
    assert helped.returncode == 0
    for command in ("run", "domains", "city", "reporting"):
        assert command in helped.stdout


def test_the_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "parity311", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == __version__


def threads_after(*lines: str) -> int:
    """Threads of a fresh process that has run these lines, with nothing said of threads to it."""
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    code = "\n".join([*lines, "import os; print(len(os.listdir('/proc/self/task')))"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are read from /proc")
def test_commands_keep_linear_algebra_to_one_thread() -> None:
    """OpenBLAS starts its threads when NumPy is imported: said later, it would change nothing."""
    assert threads_after("import parity311.cli", "import numpy") == 1
    if (os.cpu_count() or 1) > 1:
        assert threads_after("import numpy") > 1


def agents_not_named(text: str) -> set[str]:
    """The check: agents that can be trained and that a help does not name."""
    return set(all_agents()) - set(re.findall(r"\w+", text))


def test_the_help_of_train_names_every_agent() -> None:
    assert agents_not_named(run("train", "--help").stdout) == set()


def test_the_check_misses_an_agent_that_is_not_named() -> None:
    named = "dqn, cql, reinforce, hdqn, td, priced, conditioned or bcq."
    assert agents_not_named(named) == {"bc", "plan"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("city", "build", "--preset", "smal", "--out", "x"), "Did you mean 'small'?"),
        (("city", "build", "--participation", "loud", "--out", "x"), "measured, strong"),
        (("city", "build", "--capacity", "scarse", "--out", "x"), "Did you mean 'scarce'?"),
        (
            ("city", "build", "--from", "2025-01-01", "--to", "2024-01-01", "--out", "x"),
            "is empty",
        ),
        (("city", "describe", "nowhere"), "There is no folder nowhere"),
        (("run", "--domains", "boilr"), "Did you mean 'boiler'?"),
        (("run", "--preset", "big"), "allowed: nyc, small"),
        (("report", "20200101-000000-abcdef"), "20200101-000000-abcdef"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert is_one_clear_line(result), result.stderr
    assert said in result.stderr
    assert not (tmp_path / "x").exists()


def test_a_shell_gets_the_same_line(tmp_path: Path) -> None:
    asked = ("city", "describe", "nowhere")
    result = run_apart(*asked, cwd=tmp_path)
    assert is_one_clear_line(result), result.stderr
    assert result.stderr == run(*asked, cwd=tmp_path).stderr


def test_the_check_rejects_a_traceback() -> None:
    crash = subprocess.run(
        [sys.executable, "-c", "raise ValueError('error: no')"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not is_one_clear_line(crash)


def test_errors_with_json_are_json_too(tmp_path: Path) -> None:
    result = run("city", "describe", "nowhere", "--json", cwd=tmp_path)
    assert "no folder" in json.loads(result.stdout)["error"]


def test_a_damaged_city_is_named(tiny_records: Path, tmp_path: Path) -> None:
    (tiny_records / "complaints" / "heat.parquet").write_bytes(b"cut off")
    result = run("city", "describe", str(tiny_records), cwd=tmp_path)
    assert is_one_clear_line(result), result.stderr


def test_domains_as_json() -> None:
    cards = json.loads(run("domains", "--json").stdout)["domains"]
    assert [card["name"] for card in cards] == sorted(all_domains())
    assert all(card["decision"] and card["not_for"] for card in cards)
