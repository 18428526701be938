"""Nothing that trains may read the truth: who imports the truth tables, and where."""

from __future__ import annotations

import ast
import re
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
HIDDEN = {"hazard", "reporting", "volume", "actionable", "callback_days"}
"""Parts of a declared process that no record shows: what goes wrong, for how long, who calls."""
NO_ESTIMATE = ("example", "truth")
"""Functions that may know them: processes by hand, and what scores."""
UNITS = {("domains/elevator/observation.py", "hazard")}
"""Read to scale a feature, the same for everybody and whatever is estimated."""


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


def declared_offences(path: str, source: str) -> list[str]:
    """The check: hidden parts of a domain's own declaration, read where an estimate is made."""
    if not path.startswith(("domains/", "estimation/", "reporting/", "engines/")):
        return []
    found: list[str] = []
    through: set[str] = set()

    def visit(node: ast.AST, owner: str) -> None:
        if isinstance(node, ast.FunctionDef):
            owner = node.name
        for part in getattr(node, "generators", ()):
            if "PROCESS" in ast.unparse(part.iter):
                through.add(ast.unparse(part.target))
        if isinstance(node, ast.keyword) and str(node.arg).startswith("example"):
            return
        if isinstance(node, ast.Attribute) and node.attr in HIDDEN:
            base = ast.unparse(node.value)
            is_declared = re.search(r"(^|\.)(PROCESS|process)(\.|$)", base) or base in through
            if is_declared and not owner.startswith(NO_ESTIMATE) and (path, node.attr) not in UNITS:
                found.append(f"{owner}: {node.attr}")
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
    own = path.relative_to(SOURCE).as_posix()
    assert offences(own, path.read_text()) == []
    assert declared_offences(own, path.read_text()) == []


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


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("domains/crane.py", "def estimate():\n    return PROCESS.hazard.lifetime_days"),
        ("domains/crane.py", "LIFETIME = PROCESS.hazard.lifetime_days"),
        (
            "domains/heat/params.py",
            "def estimate_figures():\n    x = PROCESS.service.callback_days",
        ),
        ("estimation/stream.py", "def learn(domain):\n    return domain.process.reporting"),
        (
            "domains/housing/params.py",
            "def learn():\n    return [c.actionable for c in PROCESS.categories]",
        ),
    ],
)
def test_the_check_rejects_an_estimate_that_knows_the_generator(path: str, source: str) -> None:
    assert declared_offences(path, source)


def test_what_scores_may_know_the_generator() -> None:
    source = "def truth(city):\n    return PROCESS.hazard.lifetime_days"
    assert declared_offences("domains/crane.py", source) == []
    assert declared_offences("city/build.py", source.replace("truth", "build")) == []


def test_only_validation_imports_what_scores_against_the_truth() -> None:
    modules = ["parity311." + path.removesuffix(".py").replace("/", ".") for path in SCORERS]
    words = [module.rpartition(".")[2] for module in modules]
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix() == "reporting/validation.py":
            continue
        text = path.read_text()
        names_one = any(word in text for word in words)
        for node in ast.walk(ast.parse(text)) if names_one else ():
            if isinstance(node, ast.ImportFrom):
                assert node.module not in modules, path.name
