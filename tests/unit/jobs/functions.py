"""Functions that jobs of the tests name: they count how often they were begun."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from parity311.errors import InputError
from parity311.jobs.job import Task


def begun(task: Task) -> int:
    """Note that an attempt began; how many there were."""
    folder = Path(task.spec["notes"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{task.spec['number']}-{time.monotonic_ns()}-{os.getpid()}").touch()
    return len(list(folder.glob(f"{task.spec['number']}-*")))


def draw(task: Task) -> dict[str, Any]:
    """Numbers from a seed, as a file and as a sum; an input is added where there is one."""
    begun(task)
    time.sleep(task.spec.get("seconds", 0.0))
    values = np.random.default_rng(task.spec["number"]).normal(size=1000)
    if "extra" in task.inputs:
        values += float(task.inputs["extra"].read_text())
    np.save(task.out / "values.npy", values)
    return {"sum": float(values.sum())}


def die_once(task: Task) -> dict[str, Any]:
    """Killed on the first attempt, after a checkpoint; goes on from it on the second."""
    first = begun(task) == 1
    task.kept.mkdir(parents=True, exist_ok=True)
    if first:
        (task.kept / "half").write_text("21")
        (task.out / "half-written").write_text("lost")
        os.kill(os.getpid(), signal.SIGKILL)
    return {"sum": 2 * int((task.kept / "half").read_text())}


def wait_once(task: Task) -> None:
    """The first attempt waits to be killed."""
    if begun(task) == 1:
        time.sleep(60.0)


def always_die(task: Task) -> None:
    """Killed on every attempt."""
    begun(task)
    os.kill(os.getpid(), signal.SIGKILL)


def tell_cache(task: Task) -> dict[str, Any]:
    """Where this worker keeps compiled programs."""
    begun(task)
    return {"cache": os.environ["JAX_COMPILATION_CACHE_DIR"]}


def refuse(task: Task) -> None:
    """A user's error."""
    begun(task)
    raise InputError("The number is wrong; give another.")


def crash(task: Task) -> None:
    """A fault of ours."""
    begun(task)
    raise ZeroDivisionError("by zero")


def fill_disk(task: Task) -> None:
    """The disk is full."""
    begun(task)
    raise OSError(errno.ENOSPC, "No space left on device")


def fill_disk_by_duckdb(task: Task) -> None:
    """The disk is full, and a library says so in an error of its own."""
    begun(task)
    raise duckdb.IOException('IO Error: Could not write file "x": No space left on device')
