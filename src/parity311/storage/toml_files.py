"""TOML files that people write: read, and checked into a dataclass; errors are one clear line."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from parity311.errors import InputError

T = TypeVar("T")


def read_toml(path: str | Path, kind: str = "a TOML file") -> dict[str, Any]:
    """Read a file; what cannot be read or is not TOML is told, with the `kind` to name instead."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}; name {kind}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML ({error}); correct it and try again.") from error


def checked(kind: type[T], plain: Any, where: str) -> T:
    """Build a dataclass from plain values; the first field that does not fit is told by name."""
    try:
        return TypeAdapter(kind).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "as a whole"
        names = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]
        raise InputError(
            f"{where}: {place}: {first['msg'].lower()} (given {first['input']!r:.60}); its fields "
            f"are {names}."
        ) from error
