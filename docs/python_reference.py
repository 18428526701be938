"""The reference of the public names: signatures and docstrings, in the order of the data."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import parity311

TOPICS = {
    "build_city": "Records and cities",
    "calibrate": "Correction for under-reporting",
    "all_domains": "Domains",
    "make_world": "Worlds",
    "train": "Training",
    "compare": "Comparison",
    "audit_records": "Audit",
    "open_run": "Runs",
    "Parity311Error": "Errors",
}
"""First name of each group -> its heading."""
WIDTH = 96


def python_block() -> str:
    """Every public name with its signature, text and example."""
    parts = []
    for name in parity311.__all__:
        if name in TOPICS:
            parts += [f"## {TOPICS[name]}", ""]
        if name != "__version__":
            parts += [section(name), ""]
    return "\n".join(parts).rstrip()


def section(name: str) -> str:
    """One name: how it is called, what it does, what it holds, an example."""
    value = getattr(parity311, name)
    lines = [f"### {name}", ""]
    if not isinstance(value, type):
        lines += ["```python", signature(name, value), "```", ""]
    text, example = split_example(inspect.getdoc(value) or "")
    lines += [to_markdown(text), ""]
    if isinstance(value, type):
        lines += [*members(value)]
    return "\n".join([*lines, "```pycon", example, "```"])


def signature(name: str, value: Any) -> str:
    """A call with types and defaults, one argument a line where it is long."""
    found = inspect.signature(value)
    given: list[str] = []
    for one in found.parameters.values():
        is_first_named = one.kind is one.KEYWORD_ONLY and "*" not in given
        given += ["*", show(one)] if is_first_named else [show(one)]
    returned = f" -> {found.return_annotation}"
    line = f"{name}({', '.join(given)}){returned}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){returned}"])


def show(one: inspect.Parameter) -> str:
    """An argument as it would be written."""
    text = f"{one.name}: {one.annotation}"
    if one.default is inspect.Parameter.empty:
        return text
    # A value of ours is told by its name: all its fields would drown the rest.
    is_ours = hasattr(one.default, "__dataclass_fields__")
    default = f"{type(one.default).__name__}()" if is_ours else repr(one.default)
    return f"{text} = {default.replace('PosixPath', 'Path')}"


def split_example(text: str) -> tuple[str, str]:
    """A docstring's text, and its example."""
    before, _, example = text.partition("Examples\n--------\n")
    return before.strip(), example.strip()


def to_markdown(text: str) -> str:
    """Sections of a docstring as bold words, and their entries as a list."""
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    lines: list[str] = []
    for paragraph in re.split(r"\n(?=\w+\n---+\n)", text):
        headed = re.match(r"(\w+)\n---+\n(.*)", paragraph, re.DOTALL)
        if headed is None:
            lines += [paragraph.strip(), ""]
            continue
        title, body = headed.groups()
        told = entries(body) if title == "Parameters" else [body.strip()]
        lines += [f"**{title}**", "", *told, ""]
    return "\n".join(lines).strip()


def entries(body: str) -> list[str]:
    """`name` and its indented text as one item each."""
    found = re.findall(r"^(\S[^\n]*)\n((?:    [^\n]*\n?|\n)+)", body + "\n", re.MULTILINE)
    return [f"- `{name}`: {' '.join(text.split())}" for name, text in found]


def members(value: type) -> list[str]:
    """Fields, properties and methods of a class with what each says of itself."""
    rows = fields(value)
    for name, one in vars(value).items():
        if name.startswith("_") or not is_member(one):
            continue
        said = (inspect.getdoc(one) or "").split("\n\n")[0]
        given = [*inspect.signature(one).parameters][1:] if inspect.isfunction(one) else None
        rows.append((name if given is None else f"{name}({', '.join(given)})", said))
    if not rows:
        return []
    lines = ["| member | what |", "| --- | --- |"]
    return [*lines, *(f"| `{cell(name)}` | {cell(said)} |" for name, said in rows), ""]


def is_member(one: Any) -> bool:
    """A method or a property, cached or not."""
    return inspect.isfunction(one) or isinstance(one, property) or hasattr(one, "attrname")


def fields(value: type) -> list[tuple[str, str]]:
    """Fields with types and defaults, and the strings below them, read from the class's text."""
    body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(after, ast.Expr)
            said = str(ast.literal_eval(after.value)) if is_text else ""
            found.append((ast.unparse(node), said))
    return found


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())
