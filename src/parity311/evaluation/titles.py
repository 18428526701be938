"""One name for each policy on every page; ids stay in JSON and CSV."""

from __future__ import annotations

from parity311.agents import all_agents
from parity311.mdp.contract import TODAYS_RULE

EQUITY_MARK = "_equity_"
"""Stands between an agent's name and its equity weight in a policy's id."""
TODAY = TODAYS_RULE
TODAY_TITLE = "today's rule"
POLICY_TITLES = {
    TODAY: TODAY_TITLE,
    "dual_threshold": "threshold with coverage price",
    "static_thresholds": "threshold for each quintile",
    "ceiling": "ceiling (exact)",
    "searched": "best rule of a search",
    "score": "score, no equity",
}


def policy_title(name: str) -> str:
    """A policy's name for a page."""
    agent, _, weight = name.partition(EQUITY_MARK)
    entry = all_agents().get(agent)
    plain = (entry.title if entry else "") or agent.replace("_", " ")
    title = POLICY_TITLES.get(agent, plain)
    return f"{title}, paid for coverage" if weight else title


def is_paid(name: str) -> bool:
    """Whether a policy's id is that of an agent paid for coverage."""
    return EQUITY_MARK in name
