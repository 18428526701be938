"""A machine with jax, numpy and safetensors alone plays and trains every domain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BLOCKED = ("duckdb", "pyarrow", "scipy", "pydantic", "typer", "optax")
TRAINS_ELSEWHERE = (
    "parity311.bench.frontier",
    "parity311.estimation.params_file",
    "parity311.evaluation",
    "parity311.studies.parity.study",
    "parity311.studies.quality.jobs",
    "parity311.studies.reproduction.train_stage",
    "parity311.training.sweep",
)
"""What is sent to a machine with a GPU and started there."""
TRAIN = """
from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.mdp.harness import Harness
from parity311.training.loop import train_agents
domain = get_domain("boiler")
agent = make_dqn(DQNConfig(hidden=(8,), buffer_size=64, batch_size=8))
trained = train_agents(Harness(domain), domain.play.example(), agent, [(.7, .1, .1, .1)], [1], 16)
print(trained.is_whole and trained.curve[-1]["steps"] >= 16)
"""


def run_bare(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program where none of the blocked packages can be imported."""
    block = f"import sys\nsys.modules.update(dict.fromkeys({BLOCKED}))\n"
    return subprocess.run(
        [sys.executable, "-c", block + program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_domain_is_played_and_trained_without_the_packages_that_read_records() -> None:
    program = (
        "import jax\n"
        "from parity311.domains import all_domains, get_domain\n"
        "sizes = [len(jax.tree.leaves(one.play.example())) for one in all_domains().values()]\n"
        "print(len(sizes) >= 12 and min(sizes) > 0)\n"
        "print(get_domain('boiler').play.example().stratum.shape[0] > 0)" + TRAIN
    )
    finished = run_bare(program)
    assert finished.stdout.split() == ["True"] * 3, finished.stderr


def test_what_is_sent_to_another_machine_imports_there() -> None:
    finished = run_bare(f"import {', '.join(TRAINS_ELSEWHERE)}")
    assert finished.returncode == 0, finished.stderr


def test_reading_records_there_says_what_to_install(tmp_path: Path) -> None:
    program = f"from parity311.records.store import open_records\nopen_records({str(tmp_path)!r})"
    finished = run_bare(program)
    assert finished.returncode != 0
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("parity311.errors.RecordsError: ")
    assert "pip install duckdb pyarrow scipy" in last


def test_the_block_is_seen_by_what_imports_such_a_package() -> None:
    finished = run_bare("import parity311.records.validate")
    assert finished.returncode != 0
    assert "pyarrow" in finished.stderr.splitlines()[-1]
