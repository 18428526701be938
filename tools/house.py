"""How the house stands: size, who imports whom, names used twice, names nobody needs.

    python -m tools.house            print the figures
    python -m tools.house --check    exit with 2 where a limit of `LIMITS` is passed

Everything is read from the text of `src/parity311`; nothing is imported. A lazy import (inside a
function) counts like any other: it is a dependency, however late it is paid for.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "parity311"
USERS = ("tests", "docs", "benchmarks", "tools")
"""Folders outside the package whose imports count as use by tests or docs."""

LIMITS = {
    "lines": 112_000,
    "single importers": 118,
    "class names used twice": 0,
    "public names nobody imports": 2,
    "cycles": 0,
}
"""What we hold ourselves to; lowered whenever the house gets smaller, never raised in passing.
Raised once, by six thousand lines and eight modules, for a floor that was not there: `serving`, and
a city that is played again (`city.replay`); and once by fifteen hundred lines and a module for
cities in which estimators' assumptions are false (`city.departures`, `studies.worlds`); and by a
thousand for what visits let pass (`estimation.incident_ends`) and values with prices outside; and
by two thousand lines and six modules for the registry of policies (`lifecycle`), whose log, states,
tables and gates are each read on their own. And by twelve
thousand lines and twenty modules for what a city runs: the cycle and the watch (`lifecycle`),
`service_levels`, files of agencies (`feeds`), runs side by side, and the paper's programme. And by
twelve thousand lines and twenty-two modules for the desk (`desk`), the engine under all studies
(`jobs`), exports and links of records, first screens of the pages, and the leaderboard. And by
three and a half thousand lines for what the desk exchanges with others (`desk.partners`,
`desk.exporting`), what people say in it (`desk.rooms.voices`), its load (`bench.desk`), the clocks
of promises, and the paper's two backtests from records (`evaluation.off_policy.visits`); rooms of
the desk, which only their list imports, count as those of a domain do. And by five thousand lines
for shapes of foreign files (`feeds`), engines that notice what is lost (`jobs`), acts held to what
was read (`lifecycle`), and log-in at an identity provider (`desk`); single importers went down."""


@dataclass
class Module:
    """One file of the package and what its text says."""

    name: str
    n_lines: int
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """module -> names taken from it; empty where the module itself is imported"""
    lazy: set[str] = field(default_factory=set)
    """modules imported only inside functions"""
    classes: list[str] = field(default_factory=list)
    public: set[str] = field(default_factory=set)
    """functions, classes and constants of the top level without a leading underscore"""
    used: set[str] = field(default_factory=set)
    """names the file itself uses"""


def read_modules(root: Path = ROOT) -> dict[str, Module]:
    """Every module of the package, by dotted name."""
    found = {}
    for path in sorted((root / "src" / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = read_module(name, path.read_text())
    resolve(found)
    return found


def read_module(name: str, text: str) -> Module:
    """What one file imports, defines and uses."""
    tree = ast.parse(text)
    module = Module(name, n_lines=len(text.splitlines()))
    eager: set[str] = set()
    for node, is_lazy in walk(tree):
        for target, names in imported(node):
            module.imports[target] |= names
            (module.lazy if is_lazy else eager).add(target)
        module.used |= used(node)
    module.lazy -= eager
    for node in tree.body:
        if not is_registered(node):
            module.public |= {one for one in defined(node) if not one.startswith("_")}
        if isinstance(node, ast.Assign) and "ENTRY" in defined(node):
            # An agent names its parts in words, to be read without importing it.
            module.used |= {
                str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant)
            }
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            module.classes.append(node.name)
    return module


def used(node: ast.AST) -> set[str]:
    """The name a node uses, or that of the function which a job names by a string.

    As in `parity311.package.module:function`.
    """
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        place, _, name = node.value.partition(":")
        return {name} if place.startswith(f"{PACKAGE}.") and name.isidentifier() else set()
    return set()


def is_registered(node: ast.stmt) -> bool:
    """Whether a decorator hands the function to something else, as `@app.command("run")` does."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) for one in decorators
    )


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def walk(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Every node below, and whether it runs only when a function does."""
    left = [(tree, False)]
    while left:
        node, is_lazy = left.pop()
        is_inside = is_lazy or isinstance(node, FUNCTIONS)
        for child in ast.iter_child_nodes(node):
            yield child, is_inside
            left.append((child, is_inside))


def imported(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Modules of the package an import statement takes, with the names taken."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == PACKAGE:
                yield alias.name, set()
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
        assert node.module is not None
        yield node.module, {alias.name for alias in node.names}


def defined(node: ast.stmt) -> Iterator[str]:
    """Names a statement of the top level gives."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def resolve(modules: dict[str, Module]) -> None:
    """Turn `from package import module` into an import of that module."""
    for module in modules.values():
        for target in list(module.imports):
            for name in list(module.imports[target]):
                inner = f"{target}.{name}"
                if inner in modules:
                    module.imports[target].discard(name)
                    module.imports[inner] |= set()
                    if target in module.lazy:
                        module.lazy.add(inner)
                    if not module.imports[target]:
                        del module.imports[target]


def importers(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Who imports each module."""
    found: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for target in module.imports:
            if target in found and target != module.name:
                found[target].add(module.name)
    return found


def single_importers(modules: dict[str, Module]) -> list[str]:
    """Modules that one other module alone imports: candidates to live in it.

    The files of one domain are read as one room, so imports within a domain's folder do not count;
    nor do packages, which cannot live in a module. Who imports a package whose `__init__` gathers
    its modules imports them.
    """
    found = []
    imported_by = importers(modules)
    for name, users in imported_by.items():
        package = name.rpartition(".")[0]
        if users == {package}:
            users = imported_by[package]
        is_package = any(other.startswith(f"{name}.") for other in modules)
        if len(users) == 1 and not is_package and not is_room(name, next(iter(users))):
            found.append(name)
    return found


def is_room(name: str, user: str) -> bool:
    """Whether both lie in the folder of one domain, or it is a room that the desk lists."""
    one, other = name.split("."), user.split(".")
    if one[1:3] == ["desk", "rooms"]:
        return True
    return one[1:2] == ["domains"] and one[:3] == other[:3] and len(one) > 3


def classes_used_twice(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Public class names that stand for more than one thing.

    A domain's own `State` and `Params` are the contract's words and may repeat.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            if not (module.name.startswith(f"{PACKAGE}.domains") and name in ("State", "Params")):
                found[name].append(module.name)
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def names_nobody_imports(modules: dict[str, Module], root: Path = ROOT) -> dict[str, set[str]]:
    """Public names that no other file takes and their own file does not use either."""
    taken: dict[str, set[str]] = defaultdict(set)
    outside = [path for folder in USERS for path in (root / folder).rglob("*.py")]
    read = [read_module(str(path), path.read_text()) for path in outside]
    attributes = set().union(*(module.used for module in read), *(m.used for m in modules.values()))
    for module in [*modules.values(), *read]:
        for target, names in module.imports.items():
            taken[target] |= names
    found = {}
    for name, module in modules.items():
        idle = {
            one
            for one in module.public - taken[name] - {"__all__"}
            if one not in module.used and one not in attributes
        }
        if idle:
            found[name] = idle
    return found


def only_for_tests(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Public names that the package itself never uses outside their own definition."""
    taken: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for target, names in module.imports.items():
            taken[target] |= names
    everywhere = Counter(one for module in modules.values() for one in module.used)
    found = {}
    for name, module in modules.items():
        idle = {one for one in module.public - taken[name] if not everywhere[one]}
        if idle:
            found[name] = idle
    return found


def cycles(modules: dict[str, Module]) -> list[list[str]]:
    """Groups of modules that import each other, lazily or not (strongly connected, Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(modules[name].imports):
            if target not in modules or target == name:
                continue
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == name:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in sorted(modules):
        if name not in index:
            visit(name)
    return found


def sizes(modules: dict[str, Module]) -> list[tuple[str, int, int]]:
    """Package, files and lines, largest first."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for module in modules.values():
        package = [*module.name.split("."), "(top)"][1]
        files[package] += 1
        lines[package] += module.n_lines
    return [(package, files[package], n) for package, n in lines.most_common()]


def draw_plan(root: Path = ROOT) -> str:
    """The packages in the order of their layers, lowest first, with what each says of itself.

    Lines are rounded to halves of a thousand, so that the drawing changes when the house does.
    """
    layers = tomllib.loads((root / "pyproject.toml").read_text())
    contract = layers["tool"]["importlinter"]["contracts"][0]
    size = {
        package: (n_files, n) for package, n_files, n in sizes(read_modules(root)) if n_files > 1
    }
    rows = ["| package | holds | files | thousand lines |", "|---|---|---:|---:|"]
    for layer in reversed(contract["layers"]):
        package = layer.split(".")[1]
        if package not in size:
            continue
        text = (root / "src" / PACKAGE / package / "__init__.py").read_text()
        says = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].rstrip(".")
        n_files, n_lines = size[package]
        lines = max(round(n_lines / 500) / 2, 0.5)
        rows.append(f"| `{package}` | {says} | {n_files} | {lines:g} |")
    return "\n".join(rows)


def measure(root: Path = ROOT) -> dict[str, int]:
    """The figures that have a limit."""
    modules = read_modules(root)
    idle = names_nobody_imports(modules, root)
    return {
        "lines": sum(module.n_lines for module in modules.values()),
        "single importers": len(single_importers(modules)),
        "class names used twice": len(classes_used_twice(modules)),
        "public names nobody imports": sum(len(names) for names in idle.values()),
        "cycles": len(cycles(modules)),
    }


def print_house() -> None:
    """Everything, for a person."""
    modules = read_modules()
    print(f"{'package':14s} {'files':>6s} {'lines':>7s}")
    for package, n_files, n_lines in sizes(modules):
        print(f"{package:14s} {n_files:6d} {n_lines:7,d}")
    print()
    for name, value in measure().items():
        print(f"{name}: {value:,} (limit {LIMITS[name]:,})")
    print("\nclass names used twice:")
    for name, places in classes_used_twice(modules).items():
        print(f"  {name}: {', '.join(place.removeprefix(PACKAGE + '.') for place in places)}")
    print("\ncycles, lazy imports included:")
    for group in cycles(modules):
        print(f"  {' ↔ '.join(name.removeprefix(PACKAGE + '.') for name in group)}")
    print("\nsingle importers:")
    users = importers(modules)
    for name in single_importers(modules):
        user = next(iter(users[name])).removeprefix(PACKAGE + ".")
        print(f"  {name.removeprefix(PACKAGE + '.')} ← {user}")
    print("\npublic names that only tests or docs use:")
    for name, idle in only_for_tests(modules).items():
        print(f"  {name.removeprefix(PACKAGE + '.')}: {', '.join(sorted(idle))}")


def main(arguments: list[str]) -> int:
    """Print the figures, or only what passes a limit."""
    if "--check" not in arguments:
        print_house()
        return 0
    passed = [
        f"{name}: {value:,} is above {LIMITS[name]:,}"
        for name, value in measure().items()
        if value > LIMITS[name]
    ]
    print("\n".join(passed) or "The house is within its limits.")
    return 2 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
