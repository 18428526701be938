"""One file per domain, or a folder where a file would grow long; discovered, never listed.

Dropping a file with a module-level ``DOMAIN`` into this folder registers it everywhere: command
line, city generator, contract tests, documentation. Of a folder, ``__init__.py`` says what is
decided and holds ``DOMAIN``; ``process.py`` is what the city builds, ``decision.py`` the start and
the step (with ``state.py`` and ``observation.py`` where they are long), ``rules.py`` the rules of
thumb, ``params.py`` the example, the estimate and the truth.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from parity311.errors import unknown_name
from parity311.mdp.contract import Domain


@cache
def all_domains() -> dict[str, Domain]:
    """Every domain in this folder by its slug, in alphabetical order.

    Examples
    --------
    >>> list(parity311.all_domains())[:3]
    ['boiler', 'complaint_triage', 'crane']
    """
    return {name: _load(name) for name in _names()}


def get_domain(slug: str) -> Domain:
    """Return the domain with this slug, or say which there are.

    Examples
    --------
    >>> boiler = parity311.get_domain("boiler")
    >>> boiler.title
    'Boiler safety'
    """
    names = _names()
    if slug not in names:
        raise unknown_name("domain", slug, names)
    return _load(slug)


def _names() -> list[str]:
    """Names of the files and folders here, in alphabetical order; nothing of them is imported."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__))


def _load(name: str) -> Domain:
    """Import one domain, and only that one."""
    domain = importlib.import_module(f"{__name__}.{name}").DOMAIN
    if domain.slug != name:
        raise ImportError(
            f"Domain slug {domain.slug!r} differs from its file name {name!r}; make them equal."
        )
    return domain
