"""Work in a child process that is killed, or whose disk gives out, at a chosen point.

A point is an operation on the files of the try (open to write, rename, make, remove), counted by an
audit hook, or a moment in time: what native code writes is not audited. The parent only forks: it
starts no thread, so that a child may.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity311.cli import REFUSALS
from parity311.errors import Parity311Error
from parity311.storage.disk import disk_error
from tests.faults.limits import room_for

LONGEST_SECONDS = 300.0
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")
NEEDS_ROOM = ("open", "os.mkdir", "os.rename")


@dataclass(frozen=True)
class Fault:
    """What happens to a child: nothing by default."""

    kill_at: int = 0
    """operation before which it is killed, from 1"""
    kill_after_s: float = 0.0
    refuse_from: int = 0
    """operation from which on the disk refuses, from 1"""
    refusal: int = errno.ENOSPC
    most_bytes: int = 0
    """bytes beyond which no file may grow"""


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int
    """as a shell gives it; -9 where it was killed"""
    words: str
    n_operations: int
    seconds: float

    @property
    def is_told(self) -> bool:
        """Whether it ended as a user's error must: code 2, one line, no traceback."""
        lines = [line for line in self.words.splitlines() if line.startswith("error: ")]
        return self.code == 2 and len(lines) == 1 and "Traceback" not in self.words


def run_child(work: Callable[[], Any], folder: Path, fault: Fault = Fault()) -> Ended:
    """Run a work on a folder in a child with this fault; how it ended."""
    return finish_child(start_child(work, folder, fault), fault)


@dataclass(frozen=True)
class Child:
    """A child under way."""

    pid: int
    words: Path
    count: Path
    began: float


def start_child(
    work: Callable[[], Any], folder: Path, fault: Fault = Fault(), delay_s: float = 0.0
) -> Child:
    """Fork a child that waits a little, then does the work."""
    token = random.randbytes(6).hex()
    words, count = (folder.parent / f"{folder.name}-{token}.{end}" for end in ("words", "count"))
    words.touch()
    count.touch()
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax warns of every fork; no thread runs here
        pid = os.fork()
    if pid == 0:
        _be_child(work, folder, fault, delay_s, words, count)
    return Child(pid, words, count, began)


def finish_child(child: Child, fault: Fault = Fault()) -> Ended:
    """Wait for a child, killing it where the fault says when; one that hangs is a fault found."""
    limit = fault.kill_after_s or LONGEST_SECONDS
    while True:
        done, status = os.waitpid(child.pid, os.WNOHANG)
        seconds = time.monotonic() - child.began
        if done:
            break
        if seconds >= limit:
            os.kill(child.pid, signal.SIGKILL)
            limit = float("inf")
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL and not fault.kill_after_s and not fault.kill_at:
        code = 1  # it hung
    ended = Ended(code, child.words.read_text(errors="replace"),
                  child.count.stat().st_size, seconds)  # fmt: skip
    child.words.unlink()
    child.count.unlink()
    return ended


def _be_child(
    work: Callable[[], Any], folder: Path, fault: Fault, delay_s: float, words: Path, count: Path
) -> None:
    """Do the work as the command line would, and end; never returns."""
    code = 1
    try:
        told = os.open(words, os.O_WRONLY)
        os.dup2(told, 1)
        os.dup2(told, 2)
        counter = os.open(count, os.O_WRONLY | os.O_APPEND)
        time.sleep(delay_s)
        _watch(str(folder), fault, counter)
        with room_for(fault.most_bytes) if fault.most_bytes else nullcontext():
            work()
        code = 0
    except (Parity311Error, OSError) as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            error = disk_error(error, folder)
        if isinstance(error, Parity311Error):
            code = 2
            os.write(2, f"error: {' '.join(str(error).split())}\n".encode())
        else:
            os.write(2, traceback.format_exc().encode())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _watch(folder: str, fault: Fault, counter: int) -> None:
    """Count operations on the folder's files; kill or refuse where the fault says so."""
    n_seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal n_seen
        if event != "open" and event not in CHANGES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
            return
        if not str(arguments[0]).startswith(folder):
            return
        n_seen += 1
        os.write(counter, b".")
        if n_seen == fault.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.refuse_from and n_seen >= fault.refuse_from and event in NEEDS_ROOM:
            raise OSError(fault.refusal, os.strerror(fault.refusal), str(arguments[0]))

    sys.addaudithook(hook)
