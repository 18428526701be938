"""Names under which Gymnasium finds the domains, told to it whenever it is imported.

``gymnasium.make("parity311/boiler-v2")`` has a scalar reward, ``mo_gymnasium.make(
"parity311/mo-boiler-v2")`` the vector, and ``gymnasium.make_vec("parity311/boiler-v2", 64)`` runs
many episodes in one compiled program. The number is the domain's version, which rises when its
results change; Gymnasium itself names the present one where another is asked for.

Gymnasium (1.4) reads no entry points of other packages, and a command line that never plays must
not pay for importing it: so `import parity311` tells it at once where it is there already, and
otherwise leaves word with Python's import for when it comes.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from parity311.errors import unknown_name

NAMESPACE = "parity311"
DOMAINS = Path(__file__).resolve().parent / "domains"
ADAPTERS = "parity311.adapters"


def domain_names() -> list[str]:
    """Every domain, by the name of its file, so that none has to be imported."""
    return sorted(module.name for module in pkgutil.iter_modules([str(DOMAINS)]))


def read_version(slug: str) -> int:
    """A domain's version, read from the text of its file; importing it would import JAX."""
    if slug not in domain_names():
        raise unknown_name("domain", slug, domain_names())
    folder = DOMAINS / slug
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Domain":
            given = {word.arg: word.value for word in node.keywords}.get("version")
            if isinstance(given, ast.Constant) and isinstance(given.value, int):
                return given.value
    raise ImportError(
        f"{path} does not say its version as DOMAIN = Domain(..., version=1); write it as a number."
    )


def environment_id(slug: str, is_vector: bool = False) -> str:
    """Name of a domain's Gymnasium environment, with a scalar or the vector reward.

    Examples
    --------
    >>> parity311.environment_id("boiler"), parity311.environment_id("boiler", is_vector=True)
    ('parity311/boiler-v2', 'parity311/mo-boiler-v2')
    """
    return f"{NAMESPACE}/{'mo-' if is_vector else ''}{slug}-v{read_version(slug)}"


def former_id(slug: str, is_vector: bool = False) -> str:
    """The name before ids had the domain's version: parity311/ElectricalRevisit-v0."""
    title = "".join(part.capitalize() for part in slug.split("_"))
    return f"{NAMESPACE}/{'mo-' if is_vector else ''}{title}-v0"


def register_environments() -> None:
    """Tell Gymnasium of every domain; nothing heavy is imported until one is made.

    A name of before still makes the environment, and warns which name it has now.
    """
    import gymnasium

    for slug in domain_names():
        for is_vector in (False, True):
            name = environment_id(slug, is_vector)
            if name in gymnasium.registry:
                continue
            given = {"domain": slug, "has_vector_reward": is_vector}
            former = former_id(slug, is_vector)
            for one, more in ((name, {}), (former, {"renamed": (former, name)})):
                gymnasium.register(
                    id=one,
                    entry_point=f"{ADAPTERS}.environment:ComplaintEnvironment",
                    vector_entry_point=f"{ADAPTERS}.environment:ComplaintVectorEnvironment",
                    kwargs=given | more,
                    # The harness truncates; Gymnasium's own order checks stay on.
                    max_episode_steps=None,
                )


def register_with_gymnasium() -> None:
    """Register now where Gymnasium has been imported, else as soon as it is."""
    if hasattr(sys.modules.get("gymnasium"), "registry"):
        register_environments()
    elif not any(isinstance(finder, _WaitForGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WaitForGymnasium())


class _WaitForGymnasium(MetaPathFinder):
    """Finds Gymnasium as Python would, and registers the domains once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader, self)
        return spec


class _ThenRegister(Loader):
    """A module's own loader, with one thing to do afterwards."""

    def __init__(self, loader: Loader, finder: _WaitForGymnasium) -> None:
        self.loader = loader
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module is loaded as if nobody had waited for it.
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        register_environments()
