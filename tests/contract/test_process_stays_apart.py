"""Nothing that estimates or trains reads what a domain declares to the generator.

A domain's `PROCESS` holds the lifetimes, report rates and write-up shares that a synthetic city is
made of. An estimate that falls back on them is right in that city and nowhere else.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import parity311
from parity311.domains import all_domains

SOURCE = Path(parity311.__file__).resolve().parent
GUARDED = (
    "domains/", "engines/", "estimation/", "reporting/", "agents/", "training/", "serving/",
)  # fmt: skip
NAMES = {"PROCESS", "process"}
READABLE = {
    "slug": "the domain's name",
    "agency": "whose complaints they are",
    "categories": "codes and titles, which every complaint carries; nothing else of a category",
    "hazard.code_shares": "elevator: the scale of two features, the same for estimate and truth",
    "service.weekday_slots": "housing: the inspectors' working week, which the agency knows",
}
"""What may be read, and why it is no secret of the generator's."""
OF_CATEGORIES = {"code", "title"}
MADE_UP = ("example", "truth", "true_")
"""Functions that may read all of it: examples are made by hand, and the truth is the truth."""
COPIED = {
    "lifetime_days": ("hazard", "lifetime_days"),
    "call_back_days": ("service", "callback_days"),
    "silent_share": ("reporting", "zero_inflation"),
    "report_rate": ("reporting", "rate_per_day"),
    "written_share": ("service", "writing"),
}
"""Numbers of an estimate that must not be the generator's own, by where the process has them."""


def _path_of(node: ast.AST) -> list[str] | None:
    """`PROCESS.hazard.lifetime_days` -> its attributes; None if it is not of a process."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in NAMES:
        return names[::-1]
    if "process" in names[1:]:
        # domain.process.hazard: what follows the last of these.
        return names[: names.index("process")][::-1]
    return None


def _is_readable(path: list[str]) -> bool:
    return path[:1] == [] or path[0] in READABLE or ".".join(path[:2]) in READABLE


def offences(path: str, source: str) -> list[str]:
    """What a file reads of a process that it must not."""
    if not path.startswith(GUARDED):
        return []
    found: list[str] = []

    def visit(node: ast.AST, is_free: bool, is_declared: bool) -> None:
        if isinstance(node, ast.FunctionDef):
            is_free = is_free or node.name.lstrip("_").startswith(MADE_UP)
        if isinstance(node, ast.keyword) and node.arg is not None:
            is_declared = node.arg == "process"
            is_free = is_free or node.arg.startswith(MADE_UP)
        if isinstance(node, ast.Attribute) and not is_free:
            read = _path_of(node)
            if read is not None:
                if not _is_readable(read):
                    found.append(".".join(read))
                return
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and not is_free:
            over = [_path_of(one.iter) for one in node.generators]
            if ["categories"] in over:
                read_of = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                found.extend(sorted(read_of - OF_CATEGORIES - {"categories", "process"}))
        is_whole = isinstance(node, ast.Name) and node.id == "PROCESS"
        if is_whole and isinstance(node.ctx, ast.Load) and not (is_free or is_declared):
            found.append("the whole of it")
        for child in ast.iter_child_nodes(node):
            visit(child, is_free, is_declared)

    visit(ast.parse(source), False, False)
    return found


def copies(source: str, values: dict[str, float]) -> list[str]:
    """Numbers written down in a file that are the generator's own; `values` by name of `COPIED`.

    The declaration itself (what `PROCESS` is assigned) and examples are left out.
    """
    found = []

    def visit(node: ast.AST) -> None:
        name, value = None, None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.keyword):
            name, value = node.arg, node.value
        elif isinstance(node, ast.FunctionDef):
            name = node.name.lstrip("_")
        if name is not None and (name == "PROCESS" or name.lower().startswith(MADE_UP)):
            return
        if isinstance(value, ast.Constant) and name is not None:
            known = values.get(name.lower())
            if known is not None and value.value == known:
                found.append(f"{name} = {known:g}")
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


def _files() -> list[Path]:
    return sorted(p for folder in GUARDED for p in (SOURCE / folder).rglob("*.py"))


@pytest.mark.parametrize("path", _files(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_only_what_is_no_secret_is_read_of_a_process(path: Path) -> None:
    assert offences(path.relative_to(SOURCE).as_posix(), path.read_text()) == []


@pytest.mark.parametrize("slug", sorted(all_domains()))
def test_no_estimate_writes_down_the_generators_numbers(slug: str) -> None:
    process = all_domains()[slug].process
    values = {
        name: getattr(getattr(process, part, None), one, None)
        for name, (part, one) in COPIED.items()
    }
    known = {name: value for name, value in values.items() if value is not None}
    folder = SOURCE / "domains" / slug
    files = [folder.with_suffix(".py")] if not folder.is_dir() else sorted(folder.glob("*.py"))
    for path in files:
        if path.name != "process.py":
            assert copies(path.read_text(), known) == [], path.name


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("domains/ert.py", "LAYOUT = Layout(PROCESS.hazard.lifetime_days)"),
        (
            "domains/elevator/params.py",
            "def layout_of(r):\n    return PROCESS.hazard.lifetime_days",
        ),
        ("domains/heat/params.py", "def estimate(r):\n    return PROCESS.reporting.rate_per_day"),
        ("domains/crane.py", "def estimate(r):\n    return figures(r, PROCESS)"),
        ("estimation/backlog.py", "written = domain.process.service.writing"),
        ("reporting/exposure_rate.py", "rate = process.reporting.rate_per_day"),
        ("domains/housing/params.py", "p = [one.actionable for one in PROCESS.categories]"),
    ],
)
def test_the_check_rejects_an_estimate_that_peeks(path: str, source: str) -> None:
    assert offences(path, source)


@pytest.mark.parametrize(
    "source",
    [
        "CODES = tuple(one.code for one in PROCESS.categories)",
        "DOMAIN = Domain(process=PROCESS)",
        "def truth(city):\n    return PROCESS.reporting.zero_inflation",
        "def example():\n    return example_backlog(PROCESS)",
    ],
)
def test_the_check_lets_the_rest_be(source: str) -> None:
    assert offences("domains/heat/params.py", source) == []


def test_the_check_sees_a_number_that_was_copied() -> None:
    values = {"call_back_days": 1.5, "lifetime_days": 3.7}
    assert copies("CALL_BACK_DAYS = 1.5\nKINDS = Kinds(lifetime_days=3.7)", values)
    assert not copies("EXAMPLE_CALL_BACK_DAYS = 1.5\nPROCESS = p(lifetime_days=3.7)", values)
