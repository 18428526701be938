"""Names under which Gymnasium finds the domains, told to it whenever it is imported.

``gymnasium.make("parity311/Boiler-v0")`` has a scalar reward, ``mo_gymnasium.make(
"parity311/mo-Boiler-v0")`` the vector, and ``gymnasium.make_vec("parity311/Boiler-v0", 64)`` runs
many episodes in one compiled program. Gymnasium reads no entry points of other packages, and a
command line that never plays must not pay for importing it: so `import parity311` tells it at once
where it is there already, and otherwise leaves word with Python's import for when it comes.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

NAMESPACE = "parity311"
DOMAINS = Path(__file__).resolve().parent / "domains"


def domain_names() -> list[str]:
    """Every domain, by the name of its file, so that none has to be imported."""
    return sorted(module.name for module in pkgutil.iter_modules([str(DOMAINS)]))


def environment_id(slug: str, is_vector: bool = False) -> str:
    """Name of a domain's environment: electrical_revisit -> parity311/ElectricalRevisit-v0."""
    title = "".join(part.capitalize() for part in slug.split("_"))
    return f"{NAMESPACE}/{'mo-' if is_vector else ''}{title}-v0"


def register_environments() -> None:
    """Tell Gymnasium of every domain; nothing heavy is imported until one is made."""
    import gymnasium

    for slug in domain_names():
        for is_vector in (False, True):
            if environment_id(slug, is_vector) in gymnasium.registry:
                continue
            gymnasium.register(
                id=environment_id(slug, is_vector),
                entry_point="parity311.adapters.environment:ComplaintEnvironment",
                vector_entry_point=(
                    "parity311.adapters.vector_environment:ComplaintVectorEnvironment"
                ),
                kwargs={"domain": slug, "has_vector_reward": is_vector},
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
