"""A domain, and all that serving its policies needs, is imported without JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311 import arrays

SERVING = ("agents.forward", "mdp.harness", "mdp.equity", "engines.heuristics", "records.journal")
"""What a served policy needs beside its domain."""
NAMES = "[one.name for one in pkgutil.iter_modules(domains.__path__)]"
LOADS = f"""
import importlib, json, pkgutil, sys
from parity311 import domains
sys.path.insert(0, sys.argv[1])
for name in {NAMES}:
    domains.get_domain(name)
for name in sys.argv[2:]:
    importlib.import_module(name)
found = [name for name in ("jax", "scipy", "duckdb", "pyarrow") if name in sys.modules]
print(json.dumps([len(domains.all_domains()), found]))
"""


def heavy_imports(folder: Path, *modules: str) -> tuple[int, list[str]]:
    """How many domains there are, and what heavy packages they and these modules import."""
    words = [sys.executable, "-c", LOADS, str(folder), *modules]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    n_domains, found = json.loads(done.stdout)
    return n_domains, found


def test_every_domain_is_imported_without_jax(tmp_path: Path) -> None:
    n_domains, found = heavy_imports(tmp_path, *(f"parity311.{name}" for name in SERVING))
    assert n_domains >= 12
    assert found == []


def test_a_module_that_imports_jax_at_its_top_is_found(tmp_path: Path) -> None:
    (tmp_path / "heavy_rule.py").write_text("import jax.numpy as jnp\n")
    assert heavy_imports(tmp_path, "heavy_rule")[1] == ["jax"]
    # Taken from `arrays`, it is imported at the first use, not before.
    (tmp_path / "light_rule.py").write_text("from parity311.arrays import jax, jnp\n")
    assert heavy_imports(tmp_path, "light_rule")[1] == []
    (tmp_path / "user_rule.py").write_text("from parity311.arrays import jnp\njnp.zeros(2)\n")
    assert heavy_imports(tmp_path, "user_rule")[1] == ["jax"]


def test_one_domain_is_imported_alone() -> None:
    program = (
        "import sys; from parity311.domains import get_domain; get_domain('snad');"
        "print('parity311.domains.crane' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr


def test_a_namespace_is_that_of_the_arrays() -> None:
    assert arrays.namespace_of(np.zeros(2), np.float32(1.0), 3, None) is np
    assert arrays.namespace_of(np.zeros(2), jnp.zeros(2)) is arrays.jnp
    kinds = []
    jax.jit(lambda x: kinds.append(arrays.namespace_of(x)) or x)(1.0)
    assert kinds == [arrays.jnp]


def test_what_is_settled_stays_what_it_is() -> None:
    plain = (np.arange(3), (np.float32(1.0), None))
    assert arrays.settle(plain) is plain
    first, (second, _) = arrays.settle((jnp.arange(3), (np.float32(1.0), None)))
    assert isinstance(first, jax.Array)
    assert isinstance(second, jax.Array)


def test_a_function_is_compiled_once_for_each_value_that_is_static() -> None:
    traced = []

    @arrays.jitted("n")
    def repeat(x: jax.Array, n: int) -> jax.Array:
        """So many times."""
        traced.append(n)
        return jnp.broadcast_to(x, (n,))

    assert repeat(jnp.float32(2.0), n=2).shape == (2,)
    assert repeat(jnp.float32(3.0), n=2).tolist() == [3.0, 3.0]
    assert repeat(jnp.float32(3.0), n=3).shape == (3,)
    assert traced == [2, 3]
    assert repeat.__doc__ == "So many times."


def test_a_name_that_jax_lacks_is_said() -> None:
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = arrays.jnp.no_such_function  # type: ignore[attr-defined]
