"""What an agent's file says of it, read from its text: to list agents nothing heavy is imported."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple


class AgentEntry(NamedTuple):
    """What the rest of the house must know of an agent; literals only, so that text is enough."""

    says: str
    """one line for a menu"""
    config: str
    """name of the class of its hyper-parameters, in the same file"""
    maker: str
    """name of the function that binds them, in the same file: (config) -> `base.Agent`"""
    title: str = ""
    """its name on a page; the name of its file where empty"""
    needs_log: bool = False
    """whether it learns from logged decisions only"""
    is_planner: bool = False
    """whether it computes its policy instead of trying actions"""
    covers_preferences: bool = False
    """whether one of it serves every preference (`base.Agent.read_off`)"""
    needs_prices: bool = False
    """whether it learns only where equity is paid by coverage prices (the mode `dual`)"""
    inherits: str = ""
    """agent whose settings in a domain it takes where the domain names none for it; where empty,
    it shares only how far ahead that domain looks"""
    probes: tuple[str, ...] = ("actions",)
    """what tests/learning must see it learn: the best `actions`; exact `values`; from a `log` what
    was mostly done, and never what nobody tried; what each of many `preferences` wants"""

    @property
    def acts(self) -> bool:
        """Whether it tries actions while it learns."""
        return not self.needs_log and not self.is_planner

    @property
    def sweeps(self) -> bool:
        """Whether every preference takes an agent of its own, trained by acting."""
        return self.acts and not self.covers_preferences


def read_entry(path: Path) -> AgentEntry | None:
    """The `ENTRY` a file declares; None where it declares none, and is no agent."""
    text = path.read_text(encoding="utf-8")
    if "\nENTRY = " not in text:
        return None
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY":
            return _evaluate(path, node.value)
    return None


def _evaluate(path: Path, node: ast.expr) -> AgentEntry:
    try:
        if not isinstance(node, ast.Call) or node.args:
            raise ValueError("it is no call with names alone")
        said = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        return AgentEntry(**said)
    except (TypeError, ValueError) as error:
        raise ImportError(
            f"ENTRY of {path} cannot be read from its text ({error}); write AgentEntry(name=value, "
            f"…) with plain values of {', '.join(AgentEntry._fields)}."
        ) from error
