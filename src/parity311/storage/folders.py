"""A whole folder as one output: written aside, and put in place of one of the same kind only.

The old folder is moved aside when the new one is whole, and removed when the new one is in place. A
process that is killed between the two leaves the old one under ``.NAME.old``; whoever opens or
writes the folder next puts it back.

Room of a process's own in the system's temporary folder: two that share one would mix.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from parity311.errors import BusyError, Parity311Error, RunError
from parity311.storage import locks
from parity311.storage.aside import asides_of, dead_asides, own_name
from parity311.storage.disk import disk_error, synchronise, synchronise_tree
from parity311.storage.locks import one_writer, plain_place

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


MARKS = {
    "run.json": "a run",
    "fetched.json": "fetched files",
    "state.json": "fetched files",
    "policy.json": "a saved policy",
    "training.json": "a training",
    "params.safetensors": "a sweep",
    "world.json": "a prepared world",
}
"""File by which a folder of ours is known, and what it is."""


@dataclass(frozen=True)
class Kind:
    """A kind of folder that a command writes and may replace."""

    words: str
    """such as 'a synthetic city'"""
    stranger: Callable[[Path], str | None]
    """What in a folder is not of this kind: None where it is whole ours, else what it holds"""
    may_advise: bool = False
    """whether an error may advise to replace one: it can be made again from nothing"""
    error: type[Parity311Error] = RunError


@contextmanager
def writing_folder(out: Path, kind: Kind, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a folder beside ``out`` to write into; it becomes ``out`` only if nothing fails.

    A full disk, an error or an interrupt leaves ``out`` as it was and no half-written folder. Only
    one process writes ``out`` at a time; a second one is told so.
    """
    place = check_output(out, kind, overwrite=overwrite)
    with one_writer(out):
        recover(place, kind)
        check_output(out, kind, overwrite=overwrite)
        aside = own_name(place)
        try:
            for left_over in asides_of(place):
                shutil.rmtree(left_over, ignore_errors=True)
            aside.mkdir()
            yield aside
            synchronise_tree(aside)
            _put_in_place(aside, place)
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise _tell(error, aside, out, kind) from error
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


@contextmanager
def filling_once(place: Path) -> Iterator[Path]:
    """Give a folder to fill, which becomes ``place`` unless another writer was first.

    For results that are named by their content: whoever comes second wrote the same, and what it
    wrote is thrown away. ``place`` is never half there.
    """
    aside = own_name(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir()
        yield aside
        synchronise_tree(aside)
        try:
            os.rename(aside, place)
        except OSError:
            if not place.is_dir():
                raise
            shutil.rmtree(aside, ignore_errors=True)
        synchronise(place.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def remove_dead_asides(folder: Path) -> None:
    """Remove what writers that are gone have left in a folder."""
    for left_over in dead_asides(folder):
        if left_over.is_dir() and not left_over.is_symlink():
            shutil.rmtree(left_over, ignore_errors=True)
        else:
            with suppress(OSError):
                left_over.unlink()


def _tell(error: OSError, aside: Path, out: Path, kind: Kind) -> Parity311Error:
    """What the disk refused, by the name the user knows; a file read for it may be the cause."""
    where = str(error.filename or aside)
    if not where.startswith((str(aside), str(out))):
        return kind.error(
            f"Cannot use {where}: {error.strerror or error}; {out} was left as it was."
        )
    error.filename = str(out)
    return disk_error(error, out, kind.error)


def check_output(out: Path, kind: Kind, *, overwrite: bool = False) -> Path:
    """Refuse a place that may not be written or replaced, by name; its one name for all."""
    place = plain_place(out)
    refuse = _reason_to_refuse(out, place)
    if refuse:
        raise kind.error(f"{refuse}; name a folder of its own for {kind.words}.")
    if not place.exists() or not any(place.iterdir()):
        return place
    held = kind.stranger(place)
    if held is not None:
        raise kind.error(
            f"{out} holds {held}, not {kind.words} alone, and is left as it is; choose another "
            "folder."
        )
    if not overwrite:
        cure = ", or replace it with --overwrite" if kind.may_advise else ""
        raise kind.error(
            f"{out} already holds {kind.words}; choose another folder with --out{cure}."
        )
    return place


def _reason_to_refuse(out: Path, place: Path) -> str:
    """Why a place can be no output of its own, whatever lies there; empty where it can."""
    for name, words in ((".", "the current folder"), ("~", "the home folder")):
        own = Path(name).expanduser().resolve()
        if place == own:
            return f"{out} is {words}"
        if place in own.parents:
            return f"{out} contains {words}"
    if out.is_symlink():
        return f"{out} is a link"
    if place.exists() and not place.is_dir():
        return f"{out} is a file"
    return f"{out} is the root of a disk" if os.path.ismount(place) else ""


def describe_folder(folder: Path) -> str:
    """What a folder holds that is of no kind asked for, in words."""
    for mark, words in MARKS.items():
        if (folder / mark).is_file():
            return words
    if any(folder.glob("*/run.json")):
        return "runs"
    first = min((path.name for path in folder.iterdir()), default="nothing")
    return f"files that are not parity311's ({first})"


def holds_own(
    out: Path, names: Sequence[str], words: str, error: type[Parity311Error] = RunError
) -> bool:
    """Whether a folder that is written bit by bit holds such work already.

    ``names`` are patterns of what the work writes; a file or a folder of other things is refused.
    """
    if out.exists() and not out.is_dir():
        raise error(f"{out} is a file; name a folder of its own for {words}.")
    if not out.is_dir():
        return False
    entries = [path.name for path in out.iterdir() if not path.name.startswith(".")]
    is_own = any(fnmatch(entry, name) for entry in entries for name in names)
    if entries and not is_own:
        raise error(
            f"{out} holds {describe_folder(out)}, not {words}, and is left as it is; choose "
            "another folder."
        )
    return is_own


def old_path(place: Path) -> Path:
    """Where the former folder lies while it is being replaced."""
    return place.with_name(f".{place.name}.old")


def recover(place: Path, kind: Kind) -> None:
    """Put back a folder whose replacement was cut off, or remove it where that was finished.

    Only the one writer of the place may call it.
    """
    old = old_path(place)
    if not old.is_dir():
        return
    try:
        if not place.exists() or not any(place.iterdir()):
            os.replace(old, place)
        elif kind.stranger(place) is None:
            shutil.rmtree(old)
    except OSError as error:
        raise kind.error(
            f"The former {place} lies in {old} and cannot be put back ({error.strerror}); move it "
            "to its place."
        ) from error


def recover_for_reading(folder: Path, kind: Kind) -> None:
    """Put back a folder whose replacement was cut off, unless it is under way."""
    place = plain_place(folder)
    if not folder.exists() and old_path(place).is_dir():
        with suppress(BusyError), one_writer(folder):
            recover(place, kind)


def _put_in_place(aside: Path, place: Path) -> None:
    """Two renames; if the second fails, the first is taken back."""
    old = old_path(place)
    has_old = place.is_dir() and any(place.iterdir())
    if has_old:
        os.replace(place, old)
    try:
        os.replace(aside, place)
        synchronise(place.parent)
    except BaseException:
        if has_old and not place.exists():
            os.replace(old, place)
        raise
    if has_old:
        shutil.rmtree(old, ignore_errors=True)
