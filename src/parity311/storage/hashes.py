"""What shows that a file was changed after it was written: sizes, hashes, seals."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from parity311.storage.aside import write_bytes_aside

SEAL = "seal"
"""Key of a JSON object's own hash."""
DIGEST_BYTES = 32


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_file(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file, as manifests list them."""
    return {"bytes": path.stat().st_size, "sha256": hash_file(path)}


def is_of_size(path: Path, entry: dict[str, Any]) -> bool:
    """Whether a file is there in the size a manifest names; older ones name none."""
    return path.is_file() and path.stat().st_size == entry.get("bytes", path.stat().st_size)


_found: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Hashes found by this process, with what the file looked like then."""


def is_unchanged(path: Path, entry: dict[str, Any]) -> bool:
    """Whether a file's content is what a manifest names; a file is read once a process."""
    state = path.stat()
    look = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    known = _found.get(path)
    if known is None or known[0] != look:
        known = _found[path] = (look, hash_file(path))
    return known[1] == entry["sha256"]


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """The same object with its own hash, which a changed letter no longer fits."""
    return {**content, SEAL: _digest(json.loads(json.dumps(content)))}


def is_seal_broken(content: dict[str, Any]) -> bool:
    """Whether an object was changed since it was sealed; older ones have no seal."""
    return SEAL in content and content[SEAL] != _digest(content)


def _digest(content: dict[str, Any]) -> str:
    own = {name: value for name, value in content.items() if name != SEAL}
    plain = json.dumps(own, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def write_hashed(path: Path, content: bytes) -> None:
    """Write bytes behind their own hash: for what can be computed again, such as a cache."""
    write_bytes_aside(path, hashlib.sha256(content).digest() + content)


def read_hashed(path: Path) -> bytes | None:
    """Bytes that `write_hashed` wrote; None where there are none, or they were changed."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    digest, content = whole[:DIGEST_BYTES], whole[DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None
