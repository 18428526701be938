"""Nothing that trains may read the truth: who imports the truth tables, and where."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "parity311"
TRUTH = "parity311.records.truth"
SCORERS = ("reporting/duplicates_truth.py",)
"""Parts of `reporting/validation.py`, which alone may import them."""
ALLOWED = ("records/truth.py", "city/", "evaluation/", "reporting/validation.py", *SCORERS)
"""Where the truth may be imported freely: it makes it, or scores against it."""
LEARNERS = ("agents/", "training/")
SCORED_IN = {"true", "truth", "scored"}
"""Parts of a `World` that nobody asks for who learns."""


def truth_imports(source: str) -> list[str]:
    """Names of the functions (or '<module>') whose body imports the truth."""
    found = []

    def visit(node: ast.AST, owner: str) -> None:
        if isinstance(node, ast.FunctionDef):
            owner = node.name
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found.extend(owner for name in names if name == TRUTH)
        for child in ast.iter_child_nodes(node):
            visit(child, owner)

    visit(ast.parse(source), "<module>")
    return found


def offences(path: str, source: str) -> list[str]:
    """The check: imports of the truth that are not allowed in this file."""
    if path.startswith(ALLOWED):
        return []
    owners = truth_imports(source)
    if path.startswith(LEARNERS):
        nodes = ast.walk(ast.parse(source))
        owners += [n.attr for n in nodes if isinstance(n, ast.Attribute) and n.attr in SCORED_IN]
    if path.startswith("domains/"):
        return [owner for owner in owners if not owner.startswith("truth")]
    return owners


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_truth_is_imported_only_where_it_is_made_or_scored(path: Path) -> None:
    assert offences(path.relative_to(SOURCE).as_posix(), path.read_text()) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("training/loop.py", "from parity311.records.truth import open_truth"),
        ("agents/dqn.py", "import parity311.records.truth as t"),
        ("domains/crane.py", "from parity311.records import truth\n"),
        ("training/train_run.py", "params = make_world(domain, records).scored"),
        ("training/sweep.py", "domain.truth(city, day)"),
        (
            "domains/heat/params.py",
            "def estimate():\n    from parity311.records.truth import open_truth",
        ),
    ],
)
def test_the_check_rejects_a_learner_that_peeks(path: str, source: str) -> None:
    assert offences(path, source)


def test_only_validation_imports_what_scores_against_the_truth() -> None:
    modules = ["parity311." + path.removesuffix(".py").replace("/", ".") for path in SCORERS]
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix() == "reporting/validation.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in modules, path.name
