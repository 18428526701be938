"""JSON that any reader accepts, from the values numerical code produces."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity311.errors import RunError
from parity311.storage.strict_json import (
    NotAvailable,
    canonical_json,
    read_json,
    to_json,
    to_plain,
    write_json,
)


class Verdict(enum.Enum):
    PASS = "PASS"


class Pair(NamedTuple):
    recall: float
    n: int


@dataclass(frozen=True)
class Config:
    seed: int
    path: Path
    window: timedelta


def read_strictly(text: str) -> object:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_undefined_numbers_are_null_with_their_reason() -> None:
    metrics = {
        "recall": NotAvailable("no actionable incident in the window"),
        "gap": math.nan,
        "gap_reason": "one stratum only",
        "ratio": np.float64("inf"),
        "curve": np.array([1.0, np.nan]),
    }
    assert read_strictly(to_json(metrics)) == {
        "recall": None,
        "recall_reason": "no actionable incident in the window",
        "gap": None,
        "gap_reason": "one stratum only",
        "ratio": None,
        "ratio_reason": "infinite",
        "curve": [1.0, None],
    }


def test_values_of_numerical_code() -> None:
    value = {
        "float32": np.float32(0.1),
        "int64": np.int64(3),
        "bool": np.bool_(True),
        "jax": jnp.arange(3),
        "jax_scalar": jnp.float32(0.5),
        "matrix": np.eye(2, dtype=int),
        "verdict": Verdict.PASS,
        "pair": Pair(0.5, 2),
        "config": Config(7, Path("a/b"), timedelta(minutes=1)),
        "day": date(2026, 11, 15),
        "time": datetime(2026, 11, 15, 8, 34),
        "stamp": np.datetime64("2026-11-15"),
        "set": {"b", "a"},
        7: "a number as key",
    }
    assert read_strictly(to_json(value)) == {
        "float32": 0.1,
        "int64": 3,
        "bool": True,
        "jax": [0, 1, 2],
        "jax_scalar": 0.5,
        "matrix": [[1, 0], [0, 1]],
        "verdict": "PASS",
        "pair": {"recall": 0.5, "n": 2},
        "config": {"seed": 7, "path": "a/b", "window": 60.0},
        "day": "2026-11-15",
        "time": "2026-11-15T08:34:00",
        "stamp": "2026-11-15",
        "set": ["a", "b"],
        "7": "a number as key",
    }


def test_keys_keep_their_order_and_canonical_form_does_not_care() -> None:
    assert to_json({"b": 1, "a": 2}).index('"b"') < to_json({"b": 1, "a": 2}).index('"a"')
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1})
    assert canonical_json({"a": 1}) != canonical_json({"a": 2})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {"b": object()}}, r"value\.a\.b of type object"),
        ({"raw": b"bytes"}, "of type bytes"),
        ({1: "a", "1": "b"}, "Key '1' occurs twice"),
    ],
)
def test_what_cannot_be_written_is_named(value: object, words: str) -> None:
    with pytest.raises(RunError, match=words):
        to_plain(value)


def test_reader_refuses_what_is_not_strict(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    path.write_text('{"a": NaN}')
    with pytest.raises(RunError, match="NaN is not JSON"):
        read_json(path)
    path.write_text('{"a": ')
    with pytest.raises(RunError, match="Cannot read"):
        read_json(path)
    with pytest.raises(RunError, match="There is no file"):
        read_json(tmp_path / "absent.json")


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(nested)
def test_anything_nested_is_strict_and_stable(value: object) -> None:
    text = to_json(value)
    assert to_json(read_strictly(text)) == text
