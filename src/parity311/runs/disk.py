"""Writing that lasts, and one clear error where the disk refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from parity311.errors import RunError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


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


def synchronise_folder(folder: Path) -> None:
    """Wait until the disk has the folder's list of names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> RunError:
    """Say in one line which path could not be written and what to do."""
    where = error.filename or path
    if error.errno in DISK_FULL:
        return RunError(
            f"The disk is full: cannot write {where}; free some space, or choose another folder. "
            "Nothing of it was kept."
        )
    return RunError(
        f"Cannot write {where}: {error.strerror or error}; choose a folder you may write to."
    )
