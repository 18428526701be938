"""Locks that the system drops when their holder dies: of a folder, a file, or an output to come."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parity311.errors import BusyError
from parity311.storage.disk import disk_error

POLL_SECONDS = 0.2
N_TRIES, TRY_SECONDS = 5, 0.02
"""Who only asks whether an output is being written holds its lock for a moment."""
_log = logging.getLogger(__name__)


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


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock of a folder or a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return not _try(descriptor)
    finally:
        os.close(descriptor)


def try_take(path: Path) -> int | None:
    """Lock a file that is there or is made here; None while a living process holds it.

    Its holder may remove it, so a lock counts only while the name still means the locked file.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if not _try(descriptor):
            os.close(descriptor)
            return None
        if _is_named(path, descriptor):
            return descriptor
        os.close(descriptor)


@contextmanager
def one_writer(out: Path) -> Iterator[None]:
    """Be the only writer of an output for the length of a block, or say that another is."""
    lock = lock_path(out)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = try_take(lock)
        for _ in range(N_TRIES):
            if descriptor is None:
                time.sleep(TRY_SECONDS)
                descriptor = try_take(lock)
    except OSError as error:
        raise disk_error(error, out) from error
    if descriptor is None:
        raise BusyError(
            f"Another process is writing {out}; wait until it has finished, or choose another "
            "folder."
        )
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def wait_for_writer(out: Path) -> None:
    """Wait until nobody writes an output, and say so."""
    lock = lock_path(out)
    if _is_busy(lock):
        _log.warning("Another process is writing %s; waiting for it.", out)
    while _is_busy(lock):
        time.sleep(POLL_SECONDS)


def lock_path(out: Path) -> Path:
    """File whose lock means that an output is being written: beside it, so that it may be moved."""
    place = plain_place(out)
    return place.with_name(f".{place.name}.lock")


def plain_place(out: Path) -> Path:
    """The same place by one name for all: links in its parents followed, its own name kept."""
    parent = out if out.name in ("", "..") else out.parent
    place = Path(os.path.realpath(parent))  # unlike resolve, it ends where links go in a circle
    return place if parent is out else place / out.name


def _is_busy(lock: Path) -> bool:
    try:
        return is_held(lock)
    except FileNotFoundError:
        return False


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
