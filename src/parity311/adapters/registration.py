"""Names under which Gymnasium finds the domains.

``gymnasium.make("parity311/Boiler-v0")`` has a scalar reward, ``mo_gymnasium.make(
"parity311/mo-Boiler-v0")`` the vector, and ``gymnasium.make_vec("parity311/Boiler-v0", 64)`` runs
many episodes in one compiled program.
"""

from __future__ import annotations

import pkgutil
from pathlib import Path

NAMESPACE = "parity311"
DOMAINS = Path(__file__).resolve().parents[1] / "domains"


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
