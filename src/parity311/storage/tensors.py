"""Arrays by name in one file, with what they are and a hash that finds what was changed."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from parity311.storage.aside import writing_aside

SHA256 = "sha256"


def write_tensors(
    path: Path, tensors: dict[str, np.ndarray], about: dict[str, Any] | None = None
) -> Path:
    """Write arrays in one step for whoever reads them; `about` is plain data that goes with them.

    What the disk refuses is an OSError.
    """
    plain = json.dumps(about or {})
    metadata = {"about": plain, SHA256: _digest(tensors, plain)}
    with writing_aside(path) as aside:
        try:
            save_file(tensors, aside, metadata=metadata)
            _sort_header(aside)
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), str(error)) from error
    return path


def _sort_header(path: Path) -> None:
    """Give a file's header one order: the library draws that of its metadata anew each time."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        plain = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(plain) <= size:  # the same letters in another order: it always is
            file.seek(8)
            file.write(plain.ljust(size))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and what goes with them; a ValueError or an OSError where they are not whole."""
    try:
        with safe_open(path, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError) as error:
        raise ValueError(str(error)) from error
    plain = metadata.get("about", "{}")
    if SHA256 in metadata and metadata[SHA256] != _digest(tensors, plain):
        raise ValueError("it was changed since it was written")
    return tensors, json.loads(plain)


def read_about(path: Path) -> dict[str, Any]:
    """What goes with the arrays of a file, without reading them; ValueError or OSError else."""
    try:
        with safe_open(path, framework="numpy") as opened:
            return json.loads((opened.metadata() or {})["about"])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def _digest(tensors: dict[str, np.ndarray], about: str) -> str:
    """Hash of the arrays, in whatever order a file has them, and of what goes with them."""
    found = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        values = np.ascontiguousarray(tensors[name])
        found.update(f"\0{name}\0{values.dtype.str}{values.shape}".encode())
        found.update(values.reshape(-1).view(np.uint8).data if values.size else b"")
    return found.hexdigest()
