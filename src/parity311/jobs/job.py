"""What a job is: a function by name, a small specification, inputs by their content.

The result of a job is named by a key made of all that it depends on: the function, the
specification, the content of the inputs, the text of this package and the class of numerics. Two
machines that find the same key have the same bytes to expect, so what one has finished no other
does again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parity311.errors import InputError
from parity311.storage.hashes import hash_file
from parity311.storage.strict_json import canonical_json

MEMORY_MB = 700
"""Of a worker that trains (measured .53 to .61 GB); what a job takes unless it says otherwise."""
SHORT = 16
"""Letters of a key in a folder's name."""
ROUNDS = (
    "JAX_DEFAULT_MATMUL_PRECISION", "JAX_DISABLE_MOST_OPTIMIZATIONS", "JAX_ENABLE_X64",
    "NPY_DISABLE_CPU_FEATURES", "XLA_FLAGS",
)  # fmt: skip
"""Variables by which the same packages round otherwise; a worker elsewhere may have others."""
VERSIONS = ("jax", "jaxlib", "numpy", "scipy", "duckdb")
"""Packages that numbers come from."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Input:
    """A file or folder that a job reads, and what it must hold."""

    path: str
    digest: str
    """SHA-256 of a file; of a folder, whatever its maker names its content by"""

    @classmethod
    def of(cls, path: Path) -> Input:
        """A file by its content."""
        if not path.is_file():
            raise InputError(f"There is no file {path} for a job to read; make it first.")
        return cls(str(path.resolve()), hash_file(path))


@dataclass(frozen=True)
class Job:
    """One independent piece of work.

    The function takes a `Task` and returns what is small (kept as JSON); files go to the task's
    folder. It is pure: all that its result depends on is in here.
    """

    function: str
    """module:name"""
    spec: Mapping[str, Any]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    name: str = ""
    """what people call it; begins the name of its folder"""
    program: str = ""
    """jobs that share a compiled program have the same; they follow each other in one worker"""
    memory_mb: int = MEMORY_MB
    gpus: int = 0

    def __post_init__(self) -> None:
        """Refuse what no worker could do."""
        if not _FUNCTION.fullmatch(self.function):
            raise InputError(f"{self.function!r} is no function of a job; write module:name.")

    @property
    def identity(self) -> str:
        """What is asked, whoever answers: function, specification and inputs."""
        return _digest(self._asked())

    def key(self, stamp: Stamp) -> str:
        """What names the result: what is asked, of what code, with what numerics."""
        return _digest({**self._asked(), "code": stamp.code, "numerics": stamp.numerics})

    def folder_name(self, stamp: Stamp) -> str:
        """Its folder among results: its name for people, its key for us."""
        return f"{_UNFIT.sub('-', self.name)[:80].strip('-') or 'job'}-{self.key(stamp)[:SHORT]}"

    def _asked(self) -> dict[str, Any]:
        inputs = {name: one.digest for name, one in self.inputs.items()}
        return {"function": self.function, "spec": self.spec, "inputs": inputs}


@dataclass(frozen=True)
class Task:
    """What a job's function is given."""

    spec: dict[str, Any]
    inputs: dict[str, Path]
    out: Path
    """folder for its files; whole or not there"""
    kept: Path
    """folder for checkpoints: outlives an attempt that is killed, goes when the job is done"""


@dataclass(frozen=True)
class Stamp:
    """Where a result comes from, as far as its bytes depend on it."""

    code: str
    numerics: str


@cache
def this_machine() -> Stamp:
    """The stamp of this process."""
    return Stamp(code_digest(), numerics())


def code_digest() -> str:
    """Digest of the text of this package: workers of another version have another."""
    found = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    for path in sorted(root.rglob("*.py")):
        found.update(f"\0{path.relative_to(root).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def numerics() -> str:
    """The class of numerics: same class, same bytes.

    Another instruction set, another device, another version of a numerical package or another
    setting of one rounds differently; how many threads, which engine and how warm a compiler is do
    not matter.
    """
    versions = [f"{name} {_version(name)}" for name in VERSIONS]
    given = {name: " ".join(sorted(os.environ.get(name, "").split())) for name in ROUNDS}
    settings = [f"{name}={value}" for name, value in given.items() if value]
    return ", ".join((_device(), _instructions(), *versions, *settings))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _device() -> str:
    """What JAX will compute on, told without starting it."""
    asked = os.environ.get("JAX_PLATFORMS", "")
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_plugins.xla_cuda12")
    has_plugin = any(_is_there(name) for name in plugins)
    if asked.startswith("cpu") or not has_plugin or not Path("/dev/nvidia0").exists():
        return "cpu"
    return "gpu"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _instructions() -> str:
    """The widest vectors of this machine's processor."""
    machine = platform.machine()
    try:
        flags = Path("/proc/cpuinfo").read_text().split("flags", 2)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return machine
    widest = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "plain")
    return f"{machine} {widest}"


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
