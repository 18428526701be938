"""Where a result comes from: configuration, software, machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from parity311 import __version__
from parity311.runs.strict_json import canonical_json

RECORDED_PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "duckdb",
    "pyarrow",
    "jinja2",
    "pydantic",
    "numpyro",
    "gymnasium",
)
"""Packages whose version can move a result or a picture; recorded where installed."""

GIT_TIMEOUT_SECONDS = 5.0
"""A repository on a slow network disk must not hold up a run."""


def hash_configuration(config: Any) -> str:
    """Return the SHA-256 of a configuration in canonical form, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(config).encode()).hexdigest()


def software_versions() -> dict[str, str]:
    """Return the versions of parity311, Python and the installed packages that matter."""
    versions = {"parity311": __version__, "python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state() -> dict[str, Any] | None:
    """Return commit and cleanliness of the checkout parity311 runs from; None outside of one."""
    source = Path(__file__).resolve()
    # An installed copy may lie inside somebody else's repository: only a tracked file counts.
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None
    commit = _git(source.parent, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(source.parent, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_clean": changes == ""}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def describe_device() -> dict[str, Any]:
    """Return processor, cores and, where JAX was used, its backend and devices."""
    device: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "n_cores": os.cpu_count(),
    }
    jax = sys.modules.get("jax")  # asking would start a backend that the run never used
    if jax is not None:
        device["jax_backend"] = jax.default_backend()
        device["jax_devices"] = [str(d.device_kind) for d in jax.devices()]
    return device


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
