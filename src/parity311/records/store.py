"""A records folder on disk: Parquet files, a manifest, and DuckDB over them.

A folder is written aside and renamed when it is whole, so that a reader never sees half of one.
Its manifest names size and hash of every file: sizes are checked on opening, hashes on first use.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from parity311.errors import RecordsError, unknown_name
from parity311.records.schema import FORMAT_VERSION, TABLES
from parity311.records.sql import Connection, Value, add_view, connect, literal, lock
from parity311.records.strata import INCOME, RACE_GROUPS, check_strata, race_strata
from parity311.storage.folders import (
    Kind,
    describe_folder,
    recover_for_reading,
    scratch_folder,
    writing_folder,
)
from parity311.storage.hashes import describe_file, is_of_size, is_seal_broken, is_unchanged, seal
from parity311.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
READERS = ("duckdb", "pyarrow", "scipy")
"""Packages that read records and estimate from them. A machine that only trains and plays needs
none of them, so they are imported where they are used."""
OTHER_FILES = ("truth/parameters.json",)
"""Files of a records folder that hold no rows."""
FOR_PEOPLE = re.compile(r"quarantine/[a-z][a-z0-9_]*\.csv")
"""Copies of the quarantine for a spreadsheet: nothing reads them, so they may be changed."""
FILE_NAME = re.compile(r"([a-z][a-z0-9_]*/){0,2}[a-z][a-z0-9_]*\.parquet")
"""What a manifest may name: tables, and domains below them; no other path."""
QUERY_MEMORY_BYTES = 4 << 30
"""What a query may hold in memory before it spills to a folder of this process."""


def writing_records(
    out: Path, kind: str, *, overwrite: bool = False
) -> AbstractContextManager[Path]:
    """Give a folder to write records of a kind into; it becomes ``out`` only if nothing fails."""
    return writing_folder(out, KINDS[kind], overwrite=overwrite)


def _stranger_to(kind: str) -> Callable[[Path], str | None]:
    """What a folder holds beside records of this kind; None where there is nothing else."""

    def stranger(folder: Path) -> str | None:
        try:
            manifest = _parse_manifest(folder / MANIFEST)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            is_damaged = (folder / MANIFEST).exists()
            return f"a damaged {MANIFEST}" if is_damaged else describe_folder(folder)
        if manifest["kind"] != kind:
            return KINDS[manifest["kind"]].words
        own = {MANIFEST, *OTHER_FILES, *manifest["files"]}
        paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
        names = (_name(folder, path) for path in paths)
        others = sorted(
            name for name in names if name not in own and not FOR_PEOPLE.fullmatch(name)
        )
        return f"{others[0]} besides" if others else None

    return stranger


KINDS = {
    "city": Kind("a synthetic city", _stranger_to("city"), may_advise=True, error=RecordsError),
    "import": Kind("imported records", _stranger_to("import"), error=RecordsError),
}
"""Records by the kind their manifest names."""


def table_path(folder: Path, name: str, domain: str | None = None) -> Path:
    """Where a table of a records folder lies."""
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    if TABLES[name].by_domain:
        if domain is None:
            raise RecordsError(f"Table {name!r} has one file a domain; name the domain.")
        return folder / name / f"{domain}.parquet"
    return folder / f"{name}.parquet"


def write_table(folder: Path, name: str, data: pa.Table, domain: str | None = None) -> None:
    """Validate a canonical table and write it into a records folder."""
    from parity311.records.validate import validate_table

    path = table_path(folder, name, domain)
    validate_table(TABLES[name], data, str(path.relative_to(folder)))
    write_parquet(path, data)


def write_parquet(path: Path, data: pa.Table) -> None:
    """Write one Parquet file the one way that gives the same bytes for the same rows."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path, compression="zstd", write_statistics=True)


def write_manifest(folder: Path, kind: str, details: dict[str, Any]) -> dict[str, Any]:
    """Record what lies in the folder: rows and hash of every file, and one fingerprint of all."""
    import pyarrow.parquet as pq

    files = {}
    for path in sorted(folder.rglob("*.parquet")):
        rows = {"rows": pq.read_metadata(path).num_rows}
        files[_name(folder, path)] = rows | describe_file(path)
    digest = hashlib.sha256()
    for name, entry in files.items():
        digest.update(f"{name} {entry['sha256']}\n".encode())
    manifest = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "software_version": __version__,
        "fingerprint": digest.hexdigest(),
        **details,
        "others": {
            name: describe_file(folder / name) for name in OTHER_FILES if (folder / name).is_file()
        },
        "files": files,
    }
    manifest = seal(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=False) + "\n")
    return manifest


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check a folder's manifest; the errors say what is missing and what to run."""
    recover_for_reading(folder, KINDS["city"])
    path = folder / MANIFEST
    if folder.exists() and not folder.is_dir():
        raise RecordsError(f"{folder} is a file, not a folder of records; {_WRITTEN_BY}.")
    if not folder.is_dir():
        raise RecordsError(f"There is no folder {folder}; {_WRITTEN_BY}.")
    if not path.is_file():
        raise RecordsError(
            f"{folder} has no {MANIFEST}: it is not a folder of records, or it was copied in part; "
            f"{_WRITTEN_BY}."
        )
    try:
        manifest = _parse_manifest(path)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise RecordsError(
            f"{path} cannot be read as a manifest ({reason}), so what {folder} held cannot be "
            "told; keep it aside, and build or import into a new folder."
        ) from error
    version = manifest["format_version"]
    if version != FORMAT_VERSION:
        raise RecordsError(
            f"{folder} was written in format {version} by parity311 "
            f"{manifest.get('software_version', 'unknown')}; this is parity311 {__version__} with "
            f"format {FORMAT_VERSION}. {_cure(folder, manifest)}"
        )
    if is_seal_broken(manifest):
        raise RecordsError(f"{path} was changed since it was written. {_cure(folder, manifest)}")
    for name, entry in {**manifest["files"], **manifest.get("others", {})}.items():
        if not is_of_size(folder / name, entry):
            what = "in the size" if (folder / name).is_file() else "a file"
            raise RecordsError(
                f"{folder} lacks {name}, {what} that its manifest names. {_cure(folder, manifest)}"
            )
    for place in folder.rglob("*.parquet"):
        if _name(folder, place) not in manifest["files"]:
            raise RecordsError(
                f"{folder} holds {_name(folder, place)}, which its manifest does not name; move "
                "that file elsewhere."
            )
    return manifest


_WRITTEN_BY = (
    "name one that `parity311 records import` wrote from exports, or `parity311 city build` for a "
    "synthetic city"
)


def _parse_manifest(path: Path) -> dict[str, Any]:
    """A manifest with everything that opening needs; ValueError, KeyError or TypeError else."""
    manifest = json.loads(path.read_bytes())
    if manifest["kind"] not in KINDS:
        raise ValueError(f"kind {manifest['kind']!r} is unknown")
    manifest["format_version"], manifest["fingerprint"].encode()
    for name, entry in manifest["files"].items():
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a table")
        entry["rows"], entry["sha256"]
    for name in ("date_from", "date_to"):
        date.fromisoformat(manifest[name])
    return manifest


_BUILT_BY = ("preset", "seed", "participation", "capacity", "world")
"""Options of `city build` that a manifest names."""


def _cure(folder: Path, manifest: dict[str, Any]) -> str:
    """What to do about damaged records: a synthetic city is built again, real ones are kept."""
    if manifest["kind"] != "city":
        return "Import the exports again into a new folder with `parity311 records import`."
    options = {
        "out": folder,
        **{name: manifest.get(name) for name in _BUILT_BY},
        "from": manifest.get("date_from"),
        "to": manifest.get("date_to"),
    }
    given = " ".join(
        f"--{name} {shlex.quote(str(value))}"
        for name, value in options.items()
        if value is not None
    )
    return f"Build this synthetic city again with `parity311 city build {given} --overwrite`."


def open_records(folder: str | Path | Records, strata: str = "") -> Records:
    """Open a records folder, synthetic or imported, after checking that it is whole.

    What is open already is taken as it is. ``strata`` is what tracts are grouped by (income5,
    race5); income, or as they are grouped already, if empty.

    Examples
    --------
    >>> records = parity311.open_records("cities/small-7-measured-calibrated")
    >>> records.domains
    ('boiler',)
    """
    absent = [name for name in READERS if find_spec(name) is None]
    if absent:
        raise RecordsError(
            f"{folder} cannot be read: {', '.join(absent)} is not installed here. Install with "
            f"`pip install {' '.join(absent)}`, or train from params that another machine wrote."
        )
    if isinstance(folder, Records):
        return replace(folder, strata=check_strata(strata)) if strata else folder
    folder = Path(folder)
    return Records(folder, read_manifest(folder), strata=check_strata(strata or INCOME))


@dataclass(frozen=True)
class Records:
    """The canonical tables of one folder. It has no way to the truth of a synthetic city.

    Examples
    --------
    >>> records.table("tracts").num_rows
    200
    >>> query = "SELECT count(*) AS n FROM complaints WHERE domain = $domain"
    >>> records.sql(query, domain="boiler")["n"][0].as_py() > 1000
    True
    """

    folder: Path
    manifest: dict[str, Any]
    strata: str = field(default=INCOME, kw_only=True)
    """What tracts are grouped by: whatever it is, its quintile is what is read as the column
    `income_quintile` of tracts, which is the one column that everything is grouped by"""

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains that have complaints here."""
        names = (Path(name) for name in self.manifest["files"])
        return tuple(sorted(name.stem for name in names if str(name.parent) == "complaints"))

    def check_unchanged(self, path: Path) -> None:
        """Refuse a file whose content is no longer what was written."""
        known = {**self.manifest.get("others", {}), **self.manifest["files"]}
        entry = known.get(_name(self.folder, path))
        if entry is not None and not is_unchanged(path, entry):
            raise RecordsError(
                f"{path} was changed since it was written. {_cure(self.folder, self.manifest)}"
            )

    @property
    def is_real(self) -> bool:
        """Whether records were imported, so that there is no truth beside them."""
        return self.manifest.get("kind") == "import"

    @cached_property
    def closing_is_unknown(self) -> LiteralString:
        """SQL: whether an outcome ``o`` is closed at a time that its source does not tell."""
        columns = self.sql("SELECT * FROM outcomes LIMIT 0").column_names
        if "closing_is_unknown" in columns:
            return "coalesce(o.closing_is_unknown, false)"
        return "false"

    @property
    def window(self) -> tuple[date, date]:
        """First day, and the day after the last, that the records cover."""
        return (
            date.fromisoformat(self.manifest["date_from"]),
            date.fromisoformat(self.manifest["date_to"]),
        )

    @property
    def fingerprint(self) -> str:
        """Hash of every row in the folder."""
        return self.manifest["fingerprint"]

    def table(
        self, name: str, domain: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read one table, checked against its schema unless only some columns are asked for."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from parity311.records.validate import validate_table

        path = table_path(self.folder, name, domain)
        if not path.is_file():
            have = ", ".join(self.domains) or "none"
            raise RecordsError(
                f"{self.folder} has no {name} of domain {domain!r}; it has domains: {have}."
            )
        where = str(path.relative_to(self.folder))
        try:
            self.check_unchanged(path)
            data = pq.read_table(path, columns=list(columns) if columns else None)
        except (pa.ArrowException, OSError) as error:
            raise RecordsError(
                f"{where} cannot be read as Parquet ({str(error).splitlines()[0]}). "
                f"{_cure(self.folder, self.manifest)}"
            ) from error
        if columns is None:
            validate_table(TABLES[name], data, where)
        is_grouped = name == "tracts" and "income_quintile" in data.column_names
        return self._grouped(path, data) if is_grouped else data

    def _grouped(self, path: Path, tracts: pa.Table) -> pa.Table:
        """The tracts with the quintile of what they are grouped by."""
        if self.strata == INCOME:
            return tracts
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [*(f"share_{group}" for group in RACE_GROUPS), "households"]
        about = pq.read_table(path, columns=names)
        floats = {name: about[name].cast(pa.float64()).to_numpy() for name in names}
        found = race_strata(**floats)
        place = tracts.column_names.index("income_quintile")
        return tracts.set_column(
            place, tracts.schema.field(place), pa.array(found.black_hispanic_quintile)
        )

    @cached_property
    def connection(self) -> Connection:
        """DuckDB with one view a table; it reads the files of these views and nothing else."""
        return self.connect()

    def connect(self, others: Mapping[str, Path] | None = None) -> Connection:
        """Open DuckDB over the tables, and over other Parquet files under names of their own."""
        connection = connect()
        connection.execute("SET preserve_insertion_order = true")
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f"{min(QUERY_MEMORY_BYTES, physical * 3 // 4)}B"
        connection.execute(f"SET memory_limit = {literal(memory)}")
        connection.execute(f"SET temp_directory = {literal(scratch_folder() / 'spill')}")
        views = {**self._views(), **{name: [path] for name, path in (others or {}).items()}}
        paths = [path for found in views.values() for path in found]
        for path in paths:
            self.check_unchanged(path)
        for name, found in views.items():
            if name == "tracts" and self.strata != INCOME:
                connection.register(name, self.table(name))
            else:
                add_view(connection, name, found)
        lock(connection, paths)
        return connection

    def _views(self) -> dict[str, list[Path]]:
        """Files that the manifest names, by the view they belong to."""
        views: dict[str, list[Path]] = {}
        for name in sorted(self.manifest["files"]):
            *parents, file = name.split("/")
            table = parents[0] if parents else file.removesuffix(".parquet")
            if table in TABLES and len(parents) == TABLES[table].by_domain:
                views.setdefault(table, []).append(self.folder / name)
            elif parents == ["reference"]:
                views[f"reference_{file.removesuffix('.parquet')}"] = [self.folder / name]
        return views

    def sql(self, query: LiteralString, **parameters: Value) -> pa.Table:
        """Run SQL over the views tracts, buildings, complaints, outcomes, visits and reference_….

        A value goes in by keyword: ``sql("... WHERE domain = $domain", domain=domain)``.
        """
        import duckdb

        try:
            return self.connection.sql(query, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise RecordsError(
                f"A query on {self.folder} failed: {first}. Check the folder with "
                f"`parity311 records check {self.folder}`."
            ) from error

    def validate(self) -> None:
        """Check every table of the folder in batches; raise on the first row that is wrong."""
        from parity311.records.validate import validate_file

        for name, table in TABLES.items():
            for domain in self.domains if table.by_domain else (None,):
                path = table_path(self.folder, name, domain)
                if path.is_file():
                    self.check_unchanged(path)
                    validate_file(table, path, self.folder)
                else:
                    self.table(name, domain)
