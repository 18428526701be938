"""A file that is whole or not there: written under a name of its own, then renamed.

Every writer has its own name, and holds a lock on that file; what a killed one left is removed by
the next that writes the same file.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parity311.storage.disk import synchronise
from parity311.storage.locks import try_take

TOKEN_BYTES = 4


@contextmanager
def writing_aside(path: Path) -> Iterator[Path]:
    """Give a file beside ``path`` to write to; it becomes ``path`` only if nothing fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_over(path)
        aside, descriptor = _take_own_name(path)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        yield aside
        synchronise(aside)
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        error.filename = str(path)
        raise
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def write_bytes_aside(path: Path, content: bytes) -> Path:
    """Write a file in one step for whoever reads it."""
    with writing_aside(path) as aside:
        aside.write_bytes(content)
    return path


def write_text_aside(path: Path, text: str) -> Path:
    """Write a text in one step for whoever reads it."""
    return write_bytes_aside(path, text.encode())


def own_name(path: Path) -> Path:
    """A name beside ``path`` that no other writer has."""
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(TOKEN_BYTES)}")


def _take_own_name(path: Path) -> tuple[Path, int]:
    while True:  # the clean-up of another writer may look at a new name before it is locked
        aside = own_name(path)
        descriptor = try_take(aside)
        if descriptor is not None:
            return aside, descriptor


def asides_of(path: Path) -> list[Path]:
    """What writers of ``path``, living or dead, have beside it."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.partial-[0-9a-f]{{{2 * TOKEN_BYTES}}}")
    return sorted(one for one in path.parent.iterdir() if pattern.fullmatch(one.name))


def remove_left_over(path: Path) -> None:
    """Remove the files that dead writers of ``path`` have left."""
    for aside in asides_of(path):
        with suppress(OSError):  # another writer may just have removed it
            descriptor = try_take(aside) if aside.is_file() else None
            if descriptor is not None:
                aside.unlink()
                os.close(descriptor)
