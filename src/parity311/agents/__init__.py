"""One file per algorithm; discovered, never listed.

Dropping a file with a module-level ``ENTRY`` into this folder registers an agent of the file's name
everywhere: command line, errors, training, sweeps, tests. The contract is in base.py; files without
an ``ENTRY`` are what agents share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parity311.agents.entry import AgentEntry, read_entry
from parity311.agents.settings import check_settings
from parity311.errors import InputError, unknown_name


@cache
def all_agents() -> dict[str, AgentEntry]:
    """Entry of every agent in this folder by its name, in alphabetical order."""
    files = {path.stem: path for folder in __path__ for path in Path(folder).glob("*.py")}
    found = {name: read_entry(files[name]) for name in sorted(files)}
    return {name: entry for name, entry in found.items() if entry is not None}


def get_entry(name: str) -> AgentEntry:
    """What the agent of this name declares, or an error that says which agents there are."""
    if name not in all_agents():
        raise unknown_name("agent", name, all_agents())
    return all_agents()[name]


def check_acts(kind: str, name: str) -> None:
    """Refuse an agent that does not try actions while it learns, where only those will do."""
    acting = [one for one, entry in all_agents().items() if entry.acts]
    if name not in acting:
        raise unknown_name(kind, name, acting)


def list_agents(is_listed: Callable[[AgentEntry], bool] = lambda entry: True) -> str:
    """Names of agents for a help or an error, as in "cql, dqn or td"."""
    *first, last = (name for name, entry in all_agents().items() if is_listed(entry))
    return f"{', '.join(first)} or {last}" if first else last


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

    entry = get_entry(name)
    module = import_module(f"{__name__}.{name}")
    return getattr(module, entry.config), getattr(module, entry.maker)
