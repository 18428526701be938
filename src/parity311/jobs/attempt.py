"""One attempt at a job, in whatever process: check, compute, put the result in its place.

What an attempt says is a plain mapping, so that any engine can carry it: its `state` is `done`,
`failed` (a user's error: trying again would say the same), `full` (the disk; nobody should go on)
or `crashed` (anything else: worth another try).
"""

from __future__ import annotations

import errno
import importlib
import os
import resource
import shutil
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parity311.errors import InputError, Parity311Error
from parity311.jobs.job import Job, Stamp, Task, this_machine
from parity311.storage.aside import host_name
from parity311.storage.disk import DISK_FULL
from parity311.storage.folders import filling_once, scratch_folder
from parity311.storage.hashes import describe_file, hash_file, is_of_size, is_seal_broken, seal
from parity311.storage.strict_json import read_json, write_json

DONE, FAILED, FULL, CRASHED = "done", "failed", "full", "crashed"
MANIFEST, RESULT, OUTCOME = "job.json", "result.json", "outcome.json"
KEPT = ".kept"
"""Folder of checkpoints, by key."""
LAST_LINES = 20
NO_SPACE = os.strerror(errno.ENOSPC)
"""What libraries say of a full disk whose errors are none of the system's own, as DuckDB's."""


def order_of(job: Job, stamp: Stamp, root: Path | None) -> dict[str, Any]:
    """All that a worker needs to know, as plain data; without a root nothing is kept."""
    return {
        "function": job.function,
        "spec": dict(job.spec),
        "inputs": {name: asdict(one) for name, one in job.inputs.items()},
        "key": job.key(stamp),
        "folder": job.folder_name(stamp),
        "root": None if root is None else str(root.resolve()),
        "stamp": asdict(stamp),
    }


def attempt(order: dict[str, Any]) -> dict[str, Any]:
    """Do a job; how it ended, with what it took."""
    began, cpu_began = time.monotonic(), time.process_time()
    try:
        if Stamp(**order["stamp"]) != this_machine():
            raise InputError(describe_difference(Stamp(**order["stamp"]), this_machine()))
        said = {"state": DONE, "result": _do(order)}
    except Exception as error:
        said = _describe_error(error)
    said |= {
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "host": host_name(),
    }
    if said["state"] == DONE and order["root"] is not None:
        measured = {name: value for name, value in said.items() if name != "result"}
        write_json(Path(order["root"]) / order["folder"] / OUTCOME, measured)
    return said


def describe_difference(wanted: Stamp, found: Stamp) -> str:
    """In what a worker is not what the study was begun with, in one line."""
    if wanted.code != found.code:
        return (
            f"A worker on {host_name()} has another version of parity311 (code {found.code[:12]}, "
            f"not {wanted.code[:12]}); install the same one on every machine."
        )
    ours, theirs = wanted.numerics.split(", "), found.numerics.split(", ")
    has, lacks = (
        "; ".join(one for one in some if one not in others)
        for some, others in ((theirs, ours), (ours, theirs))
    )
    return (
        f"A worker on {host_name()} computes otherwise ({has or 'nothing'} in the place of "
        f"{lacks or 'nothing'}), and one study does not mix the two; give it machines of one kind, "
        "set up alike."
    )


def _do(order: dict[str, Any]) -> Any:
    inputs = {name: _open_input(name, **given) for name, given in order["inputs"].items()}
    function = find_function(order["function"])
    root = Path(order["root"]) if order["root"] else scratch_folder()
    kept = root / KEPT / order["key"]
    with filling_once(root / order["folder"]) as out:
        result = function(Task(order["spec"], inputs, out, kept))
        write_json(out / RESULT, result)
        files = {
            path.relative_to(out).as_posix(): describe_file(path)
            for path in sorted(out.rglob("*"))
            if path.is_file()
        }
        about = {name: order[name] for name in ("function", "spec", "key", "stamp")}
        about["inputs"] = {name: given["digest"] for name, given in order["inputs"].items()}
        write_json(out / MANIFEST, seal({**about, "files": files}))
    shutil.rmtree(kept, ignore_errors=True)
    if order["root"] is None:
        shutil.rmtree(root / order["folder"], ignore_errors=True)
    return read_plain(result)


def read_plain(result: Any) -> Any:
    """A result as it will be read again: the same from a worker and from its file."""
    import json

    from parity311.storage.strict_json import to_json

    return json.loads(to_json(result))


def find_function(name: str) -> Callable[[Task], Any]:
    """The function of a job by its name."""
    module, _, own = name.partition(":")
    try:
        return getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"There is no function {name!r} on {host_name()} ({error}); install the same version "
            "of parity311 on every machine."
        ) from error


def _open_input(name: str, path: str, digest: str) -> Path:
    """An input by its place; a file must still hold what the job was made for."""
    place = Path(path)
    if not place.exists():
        raise InputError(
            f"Input {name!r} of a job is not at {path} on {host_name()}; put it on a disk that all "
            "machines share, at the same place."
        )
    if place.is_file() and hash_file(place) != digest:
        raise InputError(f"Input {name!r} of a job has changed since it began: {path}; run again.")
    return place


def _describe_error(error: Exception) -> dict[str, Any]:
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    is_full = any(isinstance(one, OSError) and one.errno in DISK_FULL for one in causes)
    if is_full or any(NO_SPACE in str(one) for one in causes):
        return {"state": FULL, "reason": str(error)}
    if isinstance(error, Parity311Error):
        return {"state": FAILED, "reason": str(error)}
    last = "".join(traceback.format_exception(error)).splitlines()[-LAST_LINES:]
    return {"state": CRASHED, "reason": f"{type(error).__name__}: {error}", "log": last}


def read_result(folder: Path, key: str) -> tuple[bool, Any]:
    """Whether a folder holds the whole result of a key, unchanged, and the result itself."""
    try:
        about = read_json(folder / MANIFEST)
        is_own = about["key"] == key and not is_seal_broken(about)
        files = {folder / name: entry for name, entry in about["files"].items()}
        is_whole = is_own and all(
            is_of_size(path, entry) and hash_file(path) == entry["sha256"]
            for path, entry in files.items()
        )
        return is_whole, read_json(folder / RESULT) if is_whole else None
    except (Parity311Error, OSError, KeyError, TypeError, AttributeError):
        return False, None
