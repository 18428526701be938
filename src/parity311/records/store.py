"""A records folder on disk: Parquet files, a manifest, and DuckDB over them.

A folder is written aside and renamed when it is whole, so that a reader never sees half of one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from parity311 import __version__
from parity311.errors import RecordsError, unknown_name
from parity311.records.schema import FORMAT_VERSION, TABLES
from parity311.records.sql import Connection, Value, add_view, connect, literal, lock
from parity311.records.validate import validate_file, validate_table

MANIFEST = "manifest.json"
QUERY_MEMORY_BYTES = 4 << 30
"""What a query may hold in memory before it spills to the system's temporary folder."""


@contextmanager
def writing_folder(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a folder beside ``out`` to write into; it becomes ``out`` only if nothing fails.

    A full disk, an error or an interrupt leaves ``out`` as it was and no half-written folder.
    """
    if out.exists() and not overwrite:
        raise RecordsError(
            f"{out} already exists; choose another folder with --out or replace it with "
            "--overwrite."
        )
    aside = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        yield aside
        if out.exists():
            shutil.rmtree(out)
        aside.rename(out)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RecordsError(
                f"The disk of {out} is full; nothing was left half-written. Free some space or "
                "choose another disk with --out."
            ) from error
        raise RecordsError(
            f"Cannot write {out}: {error.strerror or error}. Choose a folder you may write to."
        ) from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


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
    path = table_path(folder, name, domain)
    validate_table(TABLES[name], data, str(path.relative_to(folder)))
    write_parquet(path, data)


def write_parquet(path: Path, data: pa.Table) -> None:
    """Write one Parquet file the one way that gives the same bytes for the same rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path, compression="zstd", write_statistics=True)


def write_manifest(folder: Path, kind: str, details: dict[str, Any]) -> dict[str, Any]:
    """Record what lies in the folder: rows and hash of every file, and one fingerprint of all."""
    files = {}
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        files[name] = {
            "rows": pq.read_metadata(path).num_rows,
            "sha256": _sha256(path),
        }
    digest = hashlib.sha256()
    for name, entry in files.items():
        digest.update(f"{name} {entry['sha256']}\n".encode())
    manifest = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "software_version": __version__,
        "fingerprint": digest.hexdigest(),
        **details,
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=False) + "\n")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check a folder's manifest; the errors say what is missing and what to run."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise RecordsError(
            f"There is no folder {folder}; build one with `parity311 city build --out {folder}`."
        )
    if not path.is_file():
        raise RecordsError(
            f"{folder} has no {MANIFEST}: it is not a records folder, or writing it was cut off. "
            f"Build it again with `parity311 city build --out {folder} --overwrite`."
        )
    try:
        manifest = json.loads(path.read_text())
        version = manifest["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordsError(
            f"{path} cannot be read as a manifest ({error}); build the folder again with "
            "--overwrite."
        ) from error
    if version != FORMAT_VERSION:
        raise RecordsError(
            f"{folder} was written in format {version} by parity311 "
            f"{manifest.get('software_version', 'unknown')}; this is parity311 {__version__} with "
            f"format {FORMAT_VERSION}. Build it again with --overwrite."
        )
    for name in manifest["files"]:
        if not (folder / name).is_file():
            raise RecordsError(
                f"{folder} lacks {name}, which its manifest names: the folder is incomplete. "
                "Build it again with --overwrite."
            )
    return manifest


def open_records(folder: str | Path) -> Records:
    """Open a records folder, synthetic or imported, after checking that it is whole."""
    folder = Path(folder)
    return Records(folder, read_manifest(folder))


@dataclass(frozen=True)
class Records:
    """The canonical tables of one folder. It has no way to the truth of a synthetic city."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains that have complaints here."""
        return tuple(sorted(path.stem for path in (self.folder / "complaints").glob("*.parquet")))

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
        path = table_path(self.folder, name, domain)
        if not path.is_file():
            have = ", ".join(self.domains) or "none"
            raise RecordsError(
                f"{self.folder} has no {name} of domain {domain!r}; it has domains: {have}."
            )
        where = str(path.relative_to(self.folder))
        try:
            data = pq.read_table(path, columns=list(columns) if columns else None)
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordsError(
                f"{where} cannot be read as Parquet ({str(error).splitlines()[0]}); build or "
                "import the records again."
            ) from error
        if columns is None:
            validate_table(TABLES[name], data, where)
        return data

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
        spill = Path(tempfile.gettempdir()) / "parity311-spill"
        connection.execute(f"SET temp_directory = {literal(spill)}")
        views = {name: [path] for name, path in (others or {}).items()}
        for path in self.folder.glob("reference/*.parquet"):
            views[f"reference_{path.stem}"] = [path]
        for name, table in TABLES.items():
            pattern = f"{name}/*.parquet" if table.by_domain else f"{name}.parquet"
            views[name] = sorted(self.folder.glob(pattern))
        for name, paths in views.items():
            if paths:
                add_view(connection, name, paths)
        lock(connection, [path for paths in views.values() for path in paths])
        return connection

    def sql(self, query: LiteralString, **parameters: Value) -> pa.Table:
        """Run SQL over the views tracts, buildings, complaints, outcomes, visits and reference_….

        A value goes in by keyword: ``sql("... WHERE domain = $domain", domain=domain)``.
        """
        try:
            return self.connection.sql(query, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise RecordsError(
                f"A query on {self.folder} failed: {first}. Check the folder with "
                f"`parity311 city describe {self.folder}`."
            ) from error

    def validate(self) -> None:
        """Check every table of the folder in batches; raise on the first row that is wrong."""
        for name, table in TABLES.items():
            for domain in self.domains if table.by_domain else (None,):
                path = table_path(self.folder, name, domain)
                if path.is_file():
                    validate_file(table, path, self.folder)
                else:
                    self.table(name, domain)
