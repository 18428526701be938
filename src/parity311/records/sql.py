"""The one door to DuckDB: text stays text, and a connection reads only what it was given.

SQL is a `LiteralString`: pyright refuses a query with a piece in it that is neither written in the
source nor through `literal`, `identifier` or `files`. Values go in as parameters (``$domain``); the
three are for what a parameter cannot be: names, paths of views, and constants of an expression.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, Protocol, cast

from parity311.errors import InputError
from parity311.limits import THREADS_VARIABLE

if TYPE_CHECKING:
    import duckdb
    import numpy as np

Value = str | float | date
"""What a query takes as a parameter."""

_GLOB = re.compile(r"([*?\[])")


class Connection(Protocol):
    """A DuckDB connection that takes no query put together from foreign text."""

    def execute(self, query: LiteralString, parameters: object = ...) -> duckdb.DuckDBPyConnection:
        """Run a query; fetch from what it returns."""
        ...

    def sql(self, query: LiteralString, *, params: object = ...) -> duckdb.DuckDBPyRelation:
        """Run a query as a relation."""
        ...

    def register(self, view_name: str, python_object: object) -> duckdb.DuckDBPyConnection:
        """Give an Arrow table a name."""
        ...

    def unregister(self, view_name: str) -> duckdb.DuckDBPyConnection:
        """Take a name away."""
        ...

    def interrupt(self) -> None:
        """Stop the query that runs."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...

    def __enter__(self) -> Connection: ...

    def __exit__(self, *error: object) -> None: ...


def literal(value: Value | Path) -> LiteralString:
    """A value as SQL: text and paths and days in quotes, numbers as they are."""
    if isinstance(value, bool | int | float):
        return cast(LiteralString, repr(value))
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return cast(LiteralString, "'" + text.replace("'", "''") + "'")


def literals(values: Iterable[Value | Path]) -> LiteralString:
    """Several values as SQL, with commas between them."""
    return ", ".join(literal(value) for value in values)


def identifier(name: str) -> LiteralString:
    """The name of a column or table as SQL."""
    if "\0" in name:
        raise InputError(f"The name {name!r} has a NUL byte, which no column can have; rename it.")
    return cast(LiteralString, '"' + name.replace('"', '""') + '"')


def branches(values: Iterable[str] | Mapping[str, float]) -> LiteralString:
    """The branches of a CASE that numbers these texts: from 0 on, or as the mapping says."""
    pairs = values if isinstance(values, Mapping) else {name: i for i, name in enumerate(values)}
    return " ".join(f"WHEN {literal(name)} THEN {literal(n)}" for name, n in pairs.items())


def files(paths: Iterable[Path]) -> LiteralString:
    """Files as a list in SQL, each read as the one file it names: no pattern, no home folder."""
    return f"[{', '.join(literal(_as_text(path)) for path in paths)}]"


def parquet(paths: Iterable[Path]) -> LiteralString:
    """Parquet files as one table in SQL, joined by column name; a folder name adds no column."""
    return f"read_parquet({files(sorted(paths))}, union_by_name = true, hive_partitioning = false)"


def _as_text(path: Path) -> str:
    """The absolute path as DuckDB's pattern that matches nothing else."""
    whole = os.path.abspath(path)
    if not _GLOB.search(whole):
        return whole
    if "\\" in whole:
        raise InputError(
            f"{path} has a backslash beside one of * ? [ in its name, which cannot be read; rename "
            "the folder or the file."
        )
    return _GLOB.sub(r"[\1]", whole)


def connect() -> Connection:
    """An empty database in memory; it fetches no extension and draws no progress bar."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if os.environ.get(THREADS_VARIABLE, "").isdigit():
        settings["threads"] = os.environ[THREADS_VARIABLE]
    connection = duckdb.connect(config=settings)
    # Its bar would go to standard output, into the middle of JSON.
    connection.execute("SET enable_progress_bar = false")
    return cast(Connection, connection)


def add_columns(connection: Connection, name: str, columns: Mapping[str, np.ndarray]) -> None:
    """Make a table of columns of one length, (n,) each."""
    import pyarrow as pa

    connection.register(name, pa.table(dict(columns)))


def add_view(connection: Connection, name: str, paths: Sequence[Path]) -> None:
    """Make a view over Parquet files."""
    connection.execute(f"CREATE VIEW {identifier(name)} AS SELECT * FROM {parquet(paths)}")


def lock(connection: Connection, paths: Sequence[Path]) -> None:
    """From here on the connection reads these files and no other, and writes none."""
    # DuckDB asks for the pattern when it looks for a file, and for the file when it opens it.
    allowed = {os.path.abspath(path) for path in paths} | {_as_text(path) for path in paths}
    connection.execute(f"SET allowed_paths = [{literals(sorted(allowed))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
