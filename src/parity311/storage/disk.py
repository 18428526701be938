"""Writing that lasts, and one clear error where the disk refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parity311.errors import Parity311Error, RunError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_bytes_through(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it, so that a later rename cannot precede it."""
    try:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            if path.is_file():  # devices and pipes cannot be synchronised
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(path)  # a full disk is reported without the name of the file
        raise


def synchronise(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def synchronise_tree(folder: Path) -> None:
    """Wait until the disk has a folder and everything in it."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            synchronise(path)
    synchronise(folder)


def disk_error(error: OSError, path: Path, kind: type[Parity311Error] = RunError) -> Parity311Error:
    """Say in one line which path could not be written and what to do."""
    where = error.filename or path
    if error.errno in DISK_FULL:
        return kind(
            f"The disk is full: cannot write {where}; free some space, or choose another folder. "
            "Nothing of it was kept."
        )
    return kind(
        f"Cannot write {where}: {error.strerror or error}; choose a folder you may write to."
    )


@contextmanager
def telling_disk_errors(path: Path, kind: type[Parity311Error] = RunError) -> Iterator[None]:
    """Turn what the disk refuses inside the block into an error of this kind, in one line."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path, kind) from error
