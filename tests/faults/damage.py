"""What can happen to a file after it was written, and whether whoever reads it finds out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parity311.errors import Parity311Error


def flip(path: Path, rng: random.Random) -> str:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    content[at] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"bit of byte {at}"


def cut(path: Path, rng: random.Random) -> str:
    """Lose the end."""
    content = path.read_bytes()
    at = rng.randrange(len(content))
    path.write_bytes(content[:at])
    return f"cut at {at}"


def blank(path: Path, rng: random.Random) -> str:
    """A block of zeros, as a disk leaves after a power cut."""
    content = path.read_bytes()
    at = rng.randrange(len(content))
    n = min(512, len(content) - at)
    path.write_bytes(content[:at] + bytes(n) + content[at + n :])
    return f"zeros from {at}"


def lose(path: Path, rng: random.Random) -> str:
    """The file is gone."""
    del rng
    path.unlink()
    return "gone"


def link(path: Path, rng: random.Random) -> str:
    """A link to something else stands in its place."""
    del rng
    path.unlink()
    path.symlink_to("/etc/hostname")
    return "link"


def loop(path: Path, rng: random.Random) -> str:
    """A link to itself stands in its place."""
    del rng
    path.unlink()
    path.symlink_to(path)
    return "loop"


def folder(path: Path, rng: random.Random) -> str:
    """A folder stands in its place."""
    del rng
    path.unlink()
    path.mkdir()
    return "folder"


HARMS = (flip, flip, flip, cut, blank, lose, link, loop, folder)


def damage_all(
    path: Path, files: Iterator[Path], read: Callable[[], Any], n: int, seed: int = 0
) -> tuple[Counter[str], list[str]]:
    """Harm each file below ``path`` n times; outcomes, and what was neither found nor harmless.

    ``read`` gives a value by which two readings can be compared. A damage is found when reading is
    a `Parity311Error` of one line, harmless when the value is as before.
    """
    rng = random.Random(seed)
    sound, outcomes, faults = read(), Counter(), []
    for file in files:
        content = file.read_bytes()
        for number in range(n):
            harm = HARMS[(number + rng.randrange(len(HARMS))) % len(HARMS)]
            where = f"{file.relative_to(path)}, {harm(file, rng)}"
            try:
                outcomes["harmless"] += 1
                if read() != sound:
                    faults.append(f"{where}: accepted")
            except Parity311Error as error:
                outcomes["harmless"] -= 1
                outcomes["found"] += 1
                if "\n" in str(error):
                    faults.append(f"{where}: several lines: {error}")
            except Exception as error:
                faults.append(f"{where}: {type(error).__name__}: {error}")
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            file.unlink(missing_ok=True)
            file.write_bytes(content)
    return outcomes, faults
