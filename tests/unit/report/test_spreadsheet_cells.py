"""A CSV for people: text is shown, never run; JSON is JSON whatever the text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from parity311.report.tables import as_cell, to_arrow, write_table
from parity311.storage.strict_json import read_json, to_json


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-2+3", "@x", "\t=1", "\r=1"])
def test_a_formula_becomes_text(text: str, tmp_path: Path) -> None:
    assert as_cell(text) == f"'{text}"
    write_table(tmp_path, "t", to_arrow("t", {text: [text, None], "n": [-1.5, 2.0]}))
    with (tmp_path / "t.csv").open(newline="") as file:
        header, first, second = csv.reader(file)
    assert header == [f"'{text}", "n"]
    assert first == [f"'{text}", "-1.5"]
    assert second == ["", "2"]


@pytest.mark.parametrize("text", ["plain", "a=b", "", "'=1", "3-1"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert as_cell(text) == text


def test_json_is_json_whatever_the_text() -> None:
    value = {"name": "a\0\x1b\u2028'\"<\udcff", "share": float("nan"), "n": float("inf")}
    text = to_json(value)
    text.encode()
    assert json.loads(text, parse_constant=pytest.fail)["name"] == value["name"]


def test_json_too_deep_to_read_is_one_line(tmp_path: Path) -> None:
    from parity311.errors import RunError

    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(RunError, match="Cannot read"):
        read_json(path)
