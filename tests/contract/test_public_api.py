"""What is public: the names of `parity311.__all__`, each importable, documented and typed.

Whether their examples are true is asked in tests/docs/test_python.py.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from docs.python_reference import section
from tests.contract.test_layers import HEAVY, imported_by

import parity311

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for name in parity311.__all__ if name != "__version__"]
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text()


def documented_names(page: str) -> list[str]:
    """Names that have a heading of their own in the reference."""
    return re.findall(r"^### (\w+)$", page, re.MULTILINE)


def problems_of(name: str, value: object) -> list[str]:
    """What a public name lacks; an empty list is what you want."""
    found = []
    text = inspect.getdoc(value) or ""
    if not text:
        found.append(f"{name} has no docstring")
    if "Examples\n--------\n>>> " not in text:
        found.append(f"{name} has no example")
    if inspect.isfunction(value):
        told = value.__annotations__
        asked = [*inspect.signature(value).parameters, "return"]
        found += [f"{name}: {one} has no type" for one in asked if one not in told]
    return found


def test_the_reference_lists_what_is_public_and_nothing_else() -> None:
    assert documented_names(PAGE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented_and_typed(name: str) -> None:
    assert problems_of(name, getattr(parity311, name)) == []
    assert section(name) in PAGE


def test_names_that_lack_something_are_noticed() -> None:
    """Broken twins: no docstring, no example, no types; a name too few and one too many."""

    def bare(records, *, until=None): ...

    assert problems_of("bare", bare) == [
        "bare has no docstring",
        "bare has no example",
        "bare: records has no type",
        "bare: until has no type",
        "bare: return has no type",
    ]
    assert documented_names(PAGE.replace("### train\n", "")) != NAMES
    assert documented_names(PAGE + "### whole_way\n") != NAMES


def test_editors_are_told_what_is_imported_late() -> None:
    """The imports a type checker reads are those that happen when a name is used."""
    tree = ast.parse(Path(parity311.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.name: str(node.module).removeprefix("parity311.")
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == parity311._MODULE_OF
    assert sorted(told) == sorted(NAMES)
    assert (Path(parity311.__file__).parent / "py.typed").is_file()


def test_names_are_shown_and_others_are_not_there() -> None:
    assert set(NAMES) <= set(dir(parity311))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        parity311.trian  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_is_light_until_a_name_is_used() -> None:
    assert imported_by("import parity311; dir(parity311)").isdisjoint({*HEAVY, "numpy"})
    assert "jax" in imported_by("import parity311; parity311.Contender")
