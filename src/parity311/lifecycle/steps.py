"""Steps that are done once: each kept under a hash of all that went in, and whole or not there.

A step's folder carries `step.json`, written last: what went in, what came out, the hash of every
file. A step whose record is missing, whose files were changed, or whose inputs are others is done
again; a training goes on from its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from parity311.errors import RunError
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import describe_file, hash_file, is_seal_broken, seal
from parity311.storage.strict_json import canonical_json, to_plain
from parity311.version import __version__

RECORD = "step.json"
KEY_LENGTH = 16


@dataclass(frozen=True)
class DoneStep:
    """A step that is whole."""

    name: str
    key: str
    """hash of all that went in"""
    folder: Path
    result: dict[str, Any]
    """what it found, as plain values"""
    files: dict[str, Any]
    """size and hash of each file by its path in the folder"""
    seconds: float
    is_new: bool
    """whether it was done just now"""

    def describe(self) -> dict[str, Any]:
        """What a decision lists of it."""
        return {
            "step": self.name,
            "key": self.key,
            "folder": self.folder.name,
            "seconds": self.seconds,
            "is_new": self.is_new,
            "files": {name: entry["sha256"] for name, entry in self.files.items()},
        }


class Steps:
    """The steps of one cycle, in a folder of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.done: list[DoneStep] = []

    def take(
        self,
        name: str,
        inputs: Mapping[str, Any],
        make: Callable[[Path], Mapping[str, Any]],
        after: Sequence[DoneStep] = (),
        stands: Callable[[Mapping[str, Any]], bool] = lambda result: True,
    ) -> DoneStep:
        """Do a step, or find it done.

        Parameters
        ----------
        inputs
            Everything it depends on, beside the steps it comes after and the software.
        make
            (folder) -> what was found, as plain values; whatever it writes there is recorded.
        stands
            (result) -> whether what was found before still holds where it was told; if not, it is
            done again.
        """
        plain = {
            "step": name,
            "inputs": to_plain(inputs),
            "after": [one.key for one in after],
            "software": __version__,
            "code": hash_source(),
        }
        key = hashlib.sha256(canonical_json(plain).encode()).hexdigest()[:KEY_LENGTH]
        folder = self.root / f"{name}-{key}"
        found = read_step(folder, key)
        if found is None or not stands(found.result):
            began = time.monotonic()
            with telling_disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                result = to_plain(make(folder))
                record = {
                    **plain,
                    "key": key,
                    "result": result,
                    "files": _describe(folder),
                    "seconds": round(time.monotonic() - began, 3),
                }
                write_text_aside(folder / RECORD, json.dumps(seal(record), indent=1) + "\n")
            found = DoneStep(
                name, key, folder, result, record["files"], record["seconds"], is_new=True
            )
        self.done.append(found)
        return found


def read_step(folder: Path, key: str = "") -> DoneStep | None:
    """A step that was done; None where it is not whole, was changed, or is another's."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        is_other = is_seal_broken(record) or key not in ("", record["key"])
        changed = any(
            hash_file(folder / name) != entry["sha256"] for name, entry in record["files"].items()
        )
        if is_other or changed:
            return None
        return DoneStep(
            record["step"], record["key"], folder, record["result"], record["files"],
            record["seconds"], is_new=False,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _describe(folder: Path) -> dict[str, Any]:
    paths = sorted(one for one in folder.rglob("*") if one.is_file() and one.name != RECORD)
    return {
        path.relative_to(folder).as_posix(): describe_file(path)
        for path in paths
        if not path.name.startswith(".")
    }


@cache
def hash_source() -> str:
    """Hash of the source of the whole package: other code, other numbers."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def read_result(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file that a step wrote."""
    try:
        return json.loads((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{folder} holds no whole {name} ({error}); run the cycle again.") from error
