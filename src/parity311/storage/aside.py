"""A file that is whole or not there: written under a name of its own, then renamed.

Every writer has its own name, which says on what machine and in what process it writes, and holds
a lock on that file; what a killed one left is removed by the next that writes the same file. Where
several machines share a disk, a lock may not be seen on the others: what another machine writes is
left alone for a day.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from parity311.storage.disk import synchronise
from parity311.storage.locks import try_take

TOKEN_BYTES = 4
HOST_LETTERS = 24
_WRITER = rf"(?:(?P<host>[a-z0-9-]{{1,{HOST_LETTERS}}})-(?P<process>[0-9]+)-)?"
_TOKEN = rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}"
LONG_GONE_S = 86_400.0
"""Age from which what another machine left is taken for dead."""


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


@cache
def host_name() -> str:
    """Name of the machine, fit to be part of a file's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-")
    return plain[:HOST_LETTERS].strip("-") or "host"


def own_name(path: Path) -> Path:
    """A name beside ``path`` that no other writer has, on this machine or another."""
    writer = f"{host_name()}-{os.getpid()}-{secrets.token_hex(TOKEN_BYTES)}"
    return path.with_name(f".{path.name}.partial-{writer}")


def _take_own_name(path: Path) -> tuple[Path, int]:
    while True:  # the clean-up of another writer may look at a new name before it is locked
        aside = own_name(path)
        descriptor = try_take(aside)
        if descriptor is not None:
            return aside, descriptor


def asides_of(path: Path) -> list[Path]:
    """What writers of ``path``, living or dead, have beside it; not what another machine writes."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.partial-{_WRITER}{_TOKEN}")
    found = [one for one in path.parent.iterdir() if pattern.fullmatch(one.name)]
    return sorted(one for one in found if not _is_elsewhere(one))


def dead_asides(folder: Path) -> list[Path]:
    """What writers that are gone have left in a folder, whatever it was to become."""
    pattern = re.compile(rf"\..+\.partial-{_WRITER}{_TOKEN}")
    found = []
    for one in folder.iterdir() if folder.is_dir() else ():
        writer = pattern.fullmatch(one.name)
        if writer and writer["host"] and not _is_elsewhere(one):
            is_here = writer["host"] == host_name()
            if not (is_here and _is_alive(int(writer["process"]))):
                found.append(one)
    return sorted(found)


def _is_elsewhere(aside: Path) -> bool:
    """Whether another machine may still be writing it."""
    writer = re.search(rf"\.partial-{_WRITER}{_TOKEN}$", aside.name)
    if writer is None or writer["host"] in (None, host_name()):
        return False
    with suppress(OSError):
        return time.time() - aside.stat().st_mtime < LONG_GONE_S
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):  # a system that does not tell
        return True
    # Who has died stays listed until the parent asks for it, and writes nothing more.
    return state not in ("Z", "X")


def remove_left_over(path: Path) -> None:
    """Remove the files that dead writers of ``path`` have left."""
    for aside in asides_of(path):
        with suppress(OSError):  # another writer may just have removed it
            descriptor = try_take(aside) if aside.is_file() else None
            if descriptor is not None:
                aside.unlink()
                os.close(descriptor)
