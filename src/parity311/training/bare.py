"""Training on a machine where nothing can be installed: jax, numpy and safetensors are enough.

Domains say how they are estimated from records, so their modules name the packages that read them.
Where such a package is absent, a placeholder takes its name: a domain can be imported and played,
and whatever touches records fails. Params travel as arrays in a file.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from parity311.errors import TrainingError
from parity311.storage.disk import telling_disk_errors

RECORD_PACKAGES = ("duckdb", "pyarrow", "pyarrow.compute", "pyarrow.parquet", "scipy")
"""What reads records, and nothing that plays or learns needs."""


class Absent(ModuleType):
    """Stands for a package that is not installed: it may be named, never computed with."""

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Absent:
        """A type or a schema that a module declares while it is imported."""
        del arguments, options
        return Absent(f"{self.__name__}()")


def allow_absent(packages: tuple[str, ...] = RECORD_PACKAGES) -> list[str]:
    """Put placeholders for those packages that are not installed; their names."""
    absent = []
    for name in packages:
        parent = name.split(".")[0]
        known = sys.modules.get(parent)
        if parent in sys.modules:
            # None is how an import is blocked.
            is_missing = known is None or isinstance(known, Absent)
        else:
            is_missing = importlib.util.find_spec(parent) is None
        if is_missing:
            sys.modules[name] = Absent(name)
            absent.append(name)
    return absent


def write_params(path: Path, params: Any) -> Path:
    """Write a domain's params as arrays, aside and then in place."""
    from parity311.training.checkpoint import named_arrays
    from parity311.training.tensors import write_tensors

    with telling_disk_errors(path, TrainingError):
        return write_tensors(path, named_arrays(params))


def read_params(path: Path, like: Any) -> Any:
    """Read params in the form of others of the same domain (its example)."""
    import jax
    import jax.numpy as jnp

    from parity311.training.tensors import read_tensors

    try:
        found, _ = read_tensors(path)
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{path} holds no params ({error}); write them with write_params."
        ) from error
    paths, form = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(place) for place, _ in paths]
    if set(names) != set(found):
        other = sorted(set(names) ^ set(found))
        raise TrainingError(
            f"{path} belongs to another domain or version: {', '.join(other)} differ; write the "
            "params again."
        )
    return jax.tree.unflatten(form, [jnp.asarray(found[name]) for name in names])
