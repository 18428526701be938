"""One file per algorithm; the contract in base.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parity311.errors import InputError, unknown_name

AGENT_NAMES = ("dqn",)
"""Agents that can be trained."""


def agent_config(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Configuration of an agent: its defaults with these settings in their place."""
    from dataclasses import fields

    config_type = _entry(name)[0]
    allowed = [field.name for field in fields(config_type)]
    for key in settings or {}:
        if key not in allowed:
            raise unknown_name(f"setting of {name}", key, allowed)
    try:
        return config_type(**(settings or {}))
    except TypeError as error:
        raise InputError(f"Settings of {name} cannot be used: {error}.") from error


def make_agent(name: str, config: Any) -> Any:
    """Agent of this name with its configuration bound."""
    return _entry(name)[1](config)


def _entry(name: str) -> tuple[type, Callable[[Any], Any]]:
    if name not in AGENT_NAMES:
        raise unknown_name("agent", name, AGENT_NAMES)
    from parity311.agents.dqn import DQNConfig, make_dqn

    return {"dqn": (DQNConfig, make_dqn)}[name]
