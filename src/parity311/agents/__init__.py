"""One file per algorithm; the contract in base.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from parity311.agents.settings import check_settings
from parity311.errors import InputError, unknown_name


class Entry(NamedTuple):
    """Where an agent is found."""

    module: str
    config: str
    maker: str
    says: str
    """one line for a menu"""
    needs_log: bool = False
    """whether it learns from logged decisions only"""
    is_planner: bool = False
    """whether it computes its policy instead of trying actions"""


AGENTS: dict[str, Entry] = {
    "dqn": Entry("dqn", "DQNConfig", "make_dqn", "deep Q-learning"),
    "cql": Entry("cql", "CQLConfig", "make_cql", "DQN that distrusts what was not tried"),
    "reinforce": Entry(
        "reinforce", "ReinforceConfig", "make_reinforce", "policy gradient with a learned baseline"
    ),
    "hdqn": Entry("hdqn", "HDQNConfig", "make_hdqn", "two levels: a category, then an action"),
    "td": Entry("td", "TDConfig", "make_td", "tabular Q-learning on discretised observations"),
    "conditioned": Entry(
        "conditioned", "ConditionedConfig", "make_conditioned", "one network for all preferences"
    ),
    "bc": Entry("bc", "BCConfig", "make_bc", "the most frequent logged action", needs_log=True),
    "bcq": Entry(
        "bcq", "BCQConfig", "make_bcq", "Q-learning held to logged actions", needs_log=True
    ),
    "plan": Entry(
        "plan", "PlanConfig", "make_plan", "the optimum of the estimated process", is_planner=True
    ),
}
"""Agents by name."""

AGENT_NAMES = tuple(AGENTS)
"""Agents that can be trained."""


def agent_config(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Configuration of an agent: its defaults with these settings in their place."""
    config_type = _load(name)[0]
    allowed = setting_names(name)
    for key in settings or {}:
        if key not in allowed:
            raise unknown_name(f"setting of {name}", key, allowed)
    check_settings(name, config_type, settings or {})
    try:
        return config_type(**(settings or {}))
    except TypeError as error:
        raise InputError(f"Settings of {name} cannot be used: {error}.") from error


def setting_names(name: str) -> tuple[str, ...]:
    """Names of an agent's hyper-parameters."""
    from dataclasses import fields

    return tuple(field.name for field in fields(_load(name)[0]))


def make_agent(name: str, config: Any) -> Any:
    """Agent of this name with its configuration bound."""
    return _load(name)[1](config)


def explain_settings(name: str) -> dict[str, dict[str, Any]]:
    """Default and help of every hyper-parameter, read from the configuration's own text."""
    import ast
    import inspect
    import textwrap
    from dataclasses import fields

    config_type = _load(name)[0]
    said: dict[str, str] = {}
    for owner in reversed(config_type.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                said[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return {
        field.name: {"default": field.default, "help": said.get(field.name, "")}
        for field in fields(config_type)
    }


def _load(name: str) -> tuple[type, Callable[[Any], Any]]:
    from importlib import import_module

    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)
    entry = AGENTS[name]
    module = import_module(f"parity311.agents.{entry.module}")
    return getattr(module, entry.config), getattr(module, entry.maker)
