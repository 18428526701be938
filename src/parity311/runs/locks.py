"""Locks on folders that the system drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def take(folder: Path) -> int:
    """Lock a folder, waiting for it if need be; closing the returned descriptor releases it."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep a folder locked for the length of a block."""
    descriptor = take(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a living process holds the lock of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
