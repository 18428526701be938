"""Room of a process's own in the system's temporary folder: two that share one would mix."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from parity311.storage import locks

PREFIX = "parity311-"


@cache
def scratch_folder() -> Path:
    """A folder that is removed when this process ends, or by a later one if it is killed."""
    root = Path(tempfile.gettempdir())
    _remove_left_over(root)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=".scratch", dir=root))
    locks.take(folder)  # held until the process ends, however it ends
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_left_over(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*.scratch"):
        try:
            is_left_over = not folder.is_symlink() and not locks.is_held(folder)
        except OSError:  # another user's, or just removed
            continue
        # A process that makes one just now has not locked it yet, and has nothing in it.
        if is_left_over and any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
