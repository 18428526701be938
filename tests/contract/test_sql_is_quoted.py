"""No text becomes SQL: one door to DuckDB, whose queries pyright checks as `LiteralString`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "parity311"
DOOR = "records/sql.py"
"""The one module that opens DuckDB and that may call a text SQL."""


def offences(path: str, source: str) -> list[str]:
    """The check: ways around the door in this file."""
    if path == DOOR:
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "duckdb" and not node.attr.endswith(("Error", "Exception")):
                found.append(f"duckdb.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "duckdb":
            found.append("from duckdb")
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            if name == "replace" and texts == ["'", "''"]:
                found.append("a quoting of its own")
            if name == "cast" and "LiteralString" in ast.unparse(node):
                found.append("cast to LiteralString")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_duckdb_has_one_door(path: Path) -> None:
    assert offences(path.relative_to(SOURCE).as_posix(), path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import duckdb\nduckdb.connect()",
        "import duckdb\nduckdb.sql('SELECT 1')",
        "from duckdb import connect",
        'x.replace("\'", "\'\'")',
        "cast(LiteralString, text)",
    ],
)
def test_every_way_around_it_is_found(source: str) -> None:
    assert offences("feeds/x.py", source)


TWIN = """
from parity311.records.sql import connect, identifier, literal
from parity311.records.store import Records

def good(records: Records, text: str, n: int) -> None:
    records.sql("SELECT $text", text=text)
    records.sql(f"SELECT {literal(text)}, {identifier(text)}, {literal(n)}")
    connect().execute(f"SELECT {', '.join(literal(x) for x in text)}")

def bad(records: Records, text: str, n: int) -> None:
    records.sql(f"SELECT '{text}'")
    records.sql("SELECT '{}'".format(text))
    records.sql("SELECT '%s'" % text)
    records.sql("SELECT '" + text + "'")
    records.sql(f"SELECT {n}")
    connect().execute(f"SELECT '{text}'")
    connect().sql(f"SELECT '{text}'")
"""


@pytest.mark.slow
def test_pyright_refuses_text_in_sql_and_takes_what_is_quoted(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "twin.py").write_text(TWIN)
    settings = {"include": ["twin.py"], "extraPaths": [str(SOURCE.parent)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(finished.stdout)["generalDiagnostics"]
    lines = [TWIN.splitlines()[one["range"]["start"]["line"]].strip() for one in found]
    bad = TWIN.split("def bad")[1].splitlines()[1:]
    assert lines == [line.strip() for line in bad]
