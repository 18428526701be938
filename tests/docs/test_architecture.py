"""ARCHITECTURE.md leads where it says: the walk of one complaint, stop by stop."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOP = re.compile(r"^(\d+)\. \[`([\w/.]+)`\]\(([\w/.]+)\) (.*)$", re.MULTILINE)
MOST_STOPS = 25


def walk_of(text: str) -> list[tuple[str, str, list[str]]]:
    """Number-checked stops: shown path, linked path, names that are said to be there."""
    section = text.split("## One complaint")[1].split("\n## ")[0]
    stops = STOP.findall(section)
    assert [int(stop[0]) for stop in stops] == list(range(1, len(stops) + 1))
    return [(shown, link, re.findall(r"`(\w+)`", said)) for _, shown, link, said in stops]


def faults(stops: list[tuple[str, str, list[str]]], root: Path = ROOT) -> list[str]:
    """Stops that lead nowhere, or to a file without what is named."""
    found = []
    for shown, link, names in stops:
        path = root / link
        if link != f"src/parity311/{shown}" or not path.is_file():
            found.append(f"{shown}: no such file")
            continue
        if not names:
            found.append(f"{shown}: names nothing")
        defined = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Assign):
                defined |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined.add(node.target.id)
        found += [f"{shown}: no {name}" for name in names if name not in defined]
    return found


@pytest.fixture(scope="module")
def stops() -> list[tuple[str, str, list[str]]]:
    return walk_of((ROOT / "ARCHITECTURE.md").read_text())


def test_every_stop_of_the_walk_is_there(stops: list[tuple[str, str, list[str]]]) -> None:
    assert 10 <= len(stops) <= MOST_STOPS
    assert faults(stops) == []


def test_a_stop_that_leads_nowhere_is_found(stops: list[tuple[str, str, list[str]]]) -> None:
    shown, link, names = stops[0]
    assert faults([("records/gone.py", "src/parity311/records/gone.py", names)])
    assert faults([(shown, link, ["no_such_name"])])
    assert faults([(shown, "src/parity311/records/store.py", names)])
