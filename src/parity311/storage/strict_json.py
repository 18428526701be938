"""Strict JSON: what any JSON reader accepts, from the values numerical code produces.

JSON has no NaN and no infinity. An undefined number is written as null, and its reason, where one
is known, stands beside it under the same key with the suffix `_reason`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import RunError
from parity311.storage.disk import write_bytes_through

REASON_SUFFIX = "_reason"


@dataclass(frozen=True)
class NotAvailable:
    """A number that is undefined, with the reason in plain words."""

    reason: str


def to_plain(value: Any, where: str = "value") -> Any:
    """Turn a value into None, bool, int, float, str, list and dict; `where` names it in errors.

    Accepts NumPy and JAX arrays and scalars, dataclasses, named tuples, pydantic models, dates,
    durations (seconds), paths and enumerations. Mappings keep the order of their keys.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, enum.Enum):
        return to_plain(value.value, where)
    if isinstance(value, np.generic):
        return _plain_numpy_scalar(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, NotAvailable):
        return None
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Path):
        return value.as_posix()
    return _plain_container(value, where)


def _plain_numpy_scalar(value: np.generic) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else float(value / np.timedelta64(1, "s"))
    if isinstance(value, np.floating):
        if not np.isfinite(value):
            return None
        # The shortest decimal of a float32 (0.1), not its double neighbour (0.10000000149…).
        return float(str(value)) if value.itemsize < 8 else float(value)
    return to_plain(value.item())


def _plain_container(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return _plain_mapping(value, where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain_mapping(fields, where)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain_mapping(value._asdict(), where)  # type: ignore[attr-defined]
    if hasattr(value, "model_dump"):
        return _plain_mapping(value.model_dump(), where)  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(value, Set):
        return sorted((to_plain(item, where) for item in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [to_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return to_plain(list(array) if array.ndim else array[()], where)
    raise RunError(
        f"Cannot write {where} of type {type(value).__name__} as JSON; allowed are numbers, text, "
        "dates, arrays, sequences and mappings. Convert it first."
    )


def _plain_mapping(mapping: Mapping[Any, Any], where: str) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for raw_key, item in mapping.items():
        key = str(to_plain(raw_key, f"a key of {where}"))
        if key in plain:
            raise RunError(f"Key {key!r} occurs twice in {where}; give every entry its own key.")
        plain[key] = to_plain(item, f"{where}.{key}")
        reason = _reason_for_null(item)
        if reason and f"{key}{REASON_SUFFIX}" not in mapping:
            plain[f"{key}{REASON_SUFFIX}"] = reason
    return plain


def _reason_for_null(item: Any) -> str:
    if isinstance(item, NotAvailable):
        return item.reason
    is_number = isinstance(item, float | np.floating)
    return "infinite" if is_number and math.isinf(float(item)) else ""


def to_json(value: Any) -> str:
    """Return strict JSON text, indented by two spaces, with a final newline."""
    text = json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Half a character, as a file name may have: written as JSON's own escape, since UTF-8 has none.
    return text.encode("utf-8", "backslashreplace").decode()


def canonical_json(value: Any) -> str:
    """Return one line with sorted keys: equal values give equal text, for hashing."""
    plain = to_plain(value)
    return json.dumps(plain, sort_keys=True, ensure_ascii=True, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON to a file."""
    write_bytes_through(path, to_json(value).encode())


def read_json(path: Path) -> Any:
    """Read a strict JSON file; a missing or broken one is a `RunError`."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(path.read_bytes(), parse_constant=refuse)
    except FileNotFoundError:
        raise RunError(f"There is no file {path}; give the folder of a complete run.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"Cannot read {path} as JSON ({error}); delete that run and make it again."
        ) from error
