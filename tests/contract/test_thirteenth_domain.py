"""The how-to pages are followed: one domain and one agent more, each a file, work everywhere."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parity311.domains import all_domains

ROOT = Path(__file__).resolve().parents[2]
CONTRACT_TESTS = ("tests/contract", "tests/learning", "tests/unit/agents", "tests/unit/training")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the files the pages show: a domain and an agent."""
    source = tmp_path_factory.mktemp("extended") / "src"
    shutil.copytree(
        ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name, place in (("domain", "domains/graffiti.py"), ("agent", "agents/sarsa.py")):
        shutil.copy(ROOT / "docs" / "skeletons" / f"{name}.py", source / "parity311" / place)
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


def test_it_appears_everywhere_without_another_edit(extended: Path) -> None:
    printed = run_python(
        extended,
        """
import json
import gymnasium
import parity311
from parity311.domains import all_domains, get_domain
from parity311.mdp.check import check_domain
domain = get_domain("graffiti")
environment = gymnasium.make("parity311/Graffiti-v0")
environment.reset(seed=0)
environment.step(1)
from parity311.cli.printing import domain_cards
print(json.dumps({
    "domains": sorted(all_domains()),
    "processes": [one.process.slug for one in all_domains().values()],
    "problems": check_domain(domain),
    "cards": [card["name"] for card in domain_cards()],
}))
""",
    )
    found = json.loads(printed.strip().splitlines()[-1])
    assert found["domains"] == sorted([*all_domains(), "graffiti"])
    assert "graffiti" in found["processes"]
    assert found["problems"] == []
    assert "graffiti" in found["cards"]


def test_agents_are_named_without_another_edit(extended: Path) -> None:
    printed = run_python(
        extended,
        """
from parity311.agents import get_entry, list_agents
from parity311.evaluation.titles import policy_title
print(list_agents(lambda entry: entry.sweeps), policy_title("sarsa_equity_0.50"), sep="|")
""",
    )
    assert printed.strip() == "cql, dqn, hdqn, reinforce, sarsa or td|SARSA, paid for coverage"


def test_both_pass_every_contract_test(extended: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CONTRACT_TESTS,
         "-k", "graffiti or sarsa", "--ignore", __file__],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(extended)},
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    # Four of the domain; of the agent its entry, settings and their help, three probes, alone and
    # in company, and saved: none may go missing unseen.
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) == 12, done.stdout[-2000:]


@pytest.mark.parametrize("agent", ["dqn", "plan", "sarsa"])
def test_agents_learn_in_it(extended: Path, tmp_path: Path, agent: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "parity311", "train", "graffiti", "--example", "--agent", agent,
         "--steps", "500", "--out", str(tmp_path / agent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(extended)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / agent / "policy-0000").is_dir()


@pytest.mark.slow
def test_it_is_built_and_taken_the_whole_way(extended: Path, tmp_path: Path) -> None:
    """Its city alone, one scenario, the other page's agent: every stage of `parity311 run`."""
    printed = run_python(
        extended,
        f"""
import json
from pathlib import Path
from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.pipelines import run as whole_way
from parity311.records.store import open_records
root = Path({str(tmp_path)!r})
whole_way.SCENARIOS = whole_way.SCENARIOS[:1]
((participation, capacity),) = whole_way.SCENARIOS
city = build_city(
    [get_domain("graffiti").process], "small", 3, participation=participation, capacity=capacity,
    out=root / f"small-3-{{participation}}-{{capacity}}", workers=1,
)
config = whole_way.WholeWayConfig(
    seed=3, domains=("graffiti",), agent="sarsa", n_steps=500, n_agent_seeds=1, n_episodes=8
)
found = whole_way.run_whole_way(
    config, runs=root / "runs", cities=root, progress=lambda *told: None
)
rewards = {{row["policy"]: row["reward"]["value"] for row in found["comparisons"][0]["policies"]}}
n_complaints = open_records(city).table("complaints", "graffiti").num_rows
print(json.dumps({{"n_complaints": n_complaints, "rewards": rewards, "report": found["report"]}}))
""",
    )
    found = json.loads(printed.strip().splitlines()[-1])
    assert found["n_complaints"] > 100
    assert Path(found["report"]).is_file()
    rewards = found["rewards"]
    assert {"sarsa", "sarsa_equity_0.50"} <= set(rewards)
    assert all(math.isfinite(reward) for reward in rewards.values())
    assert rewards["ceiling"] > rewards["never"]
    # Without a crew today's rule sends everybody into the round; it is not another policy.
    assert rewards["balanced"] == pytest.approx(rewards["always"])
