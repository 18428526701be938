"""Every agent's entry says what its file does; entries that cannot be read or lie are found out."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from tests.contract.test_layers import imported_by

from parity311.agents import agent_config, all_agents, list_agents, make_agent
from parity311.agents.base import Agent
from parity311.agents.entry import AgentEntry, read_entry

PROBES = {"actions", "values", "log", "preferences"}


def problems_of(name: str, entry: AgentEntry, agent: Agent) -> list[str]:
    """The check: where what an entry declares is not what the agent is."""
    found = []
    if agent.name != name:
        found.append(f"it calls itself {agent.name}")
    if entry.inherits and entry.inherits not in all_agents():
        found.append(f"it inherits from {entry.inherits}, which is no agent")
    if entry.covers_preferences != (agent.read_off is not None):
        found.append("it covers preferences and cannot be read off, or the other way round")
    if entry.needs_log and agent.learn is None:
        found.append("it needs a log and cannot learn from one")
    if not set(entry.probes) <= PROBES or bool(entry.probes) == entry.is_planner:
        found.append(f"probes {entry.probes} are unknown, or none")
    if "log" in entry.probes and agent.learn is None:
        found.append("it is probed with a log and cannot learn from one")
    return found


@pytest.mark.parametrize("name", all_agents())
def test_an_entry_says_what_the_agent_is(name: str) -> None:
    entry = all_agents()[name]
    assert entry == import_module(f"parity311.agents.{name}").ENTRY
    assert entry.says
    assert problems_of(name, entry, make_agent(name, agent_config(name))) == []


@pytest.mark.parametrize(
    "lie",
    [{"covers_preferences": True}, {"inherits": "dqm"}, {"probes": ()}, {"probes": ("luck",)}],
)
def test_an_entry_that_lies_is_found_out(lie: dict) -> None:
    entry = all_agents()["dqn"]._replace(**lie)
    assert len(problems_of("dqn", entry, make_agent("dqn", agent_config("dqn")))) == 1


def test_what_cannot_act_is_not_offered_where_acting_is_asked_for() -> None:
    assert {"dqn", "td"} <= set(
        list_agents(lambda entry: entry.sweeps).replace(" or", ",").split(", ")
    )
    assert list_agents(lambda entry: entry.is_planner) == "plan"


def test_agents_are_listed_without_jax() -> None:
    assert "jax" not in imported_by("from parity311.agents import list_agents; list_agents()")


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY = AgentEntry(says=f'{1}', config='C', maker='m')",
        "ENTRY = AgentEntry('positional', config='C', maker='m')",
        "ENTRY = AgentEntry(says='x', config='C', maker='m', hobby='chess')",
        "ENTRY = AgentEntry(says='x')",
    ],
)
def test_an_entry_that_cannot_be_read_says_what_to_write(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(f"import jax\n\n{text}\n")
    with pytest.raises(ImportError, match="with plain values of says, config"):
        read_entry(path)


def test_a_file_without_an_entry_is_no_agent(tmp_path: Path) -> None:
    path = tmp_path / "shared.py"
    path.write_text('"""What agents share."""\n\nENTRIES = 3\n')
    assert read_entry(path) is None
