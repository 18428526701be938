"""Bring a records folder from object storage to a local disk, where everything reads it.

DuckDB's own reader of remote files is no part of its package; the one of pyarrow is. A folder is
copied whole or not at all, only what its manifest names, and every file is checked against the hash
there: what is opened afterwards is what was stored, whoever carried it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parity311.errors import RecordsError
from parity311.records.store import (
    FILE_NAME,
    KINDS,
    MANIFEST,
    OTHER_FILES,
    Records,
    open_records,
    read_manifest,
    writing_records,
)

PIECE_BYTES = 8 << 20


def stage_records(address: str, out: Path) -> Records:
    """Copy the records folder at an address (s3://, gs://, file://) and open it.

    Keys, region and another endpoint come from the environment or the address, as pyarrow reads
    them: ``s3://bucket/records?endpoint_override=HOST:PORT&scheme=http``.
    """
    import pyarrow as pa

    try:
        store, place = _open_store(address)
        manifest = _read(store, f"{place}/{MANIFEST}")
        with writing_records(out, _kind_of(manifest, address)) as aside:
            (aside / MANIFEST).write_bytes(manifest)
            for name in _names(manifest):
                _copy(store, f"{place}/{name}", aside / name)
            staged = Records(aside, read_manifest(aside))
            for name in _names(manifest):
                staged.check_unchanged(aside / name)
    except (pa.ArrowException, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise RecordsError(
            f"Cannot read records at {_without_key(address)} ({first}); give the address of a "
            "records folder, as in s3://BUCKET/FOLDER, and the keys to it in the environment."
        ) from error
    return open_records(out)


def _open_store(address: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" not in address:
        raise RecordsError(
            f"{address!r} is no address; write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or "
            "file:///FOLDER."
        )
    store, place = fs.FileSystem.from_uri(address)
    return store, place.rstrip("/")


def _without_key(address: str) -> str:
    """An address as it may be shown: without the key and the secret it may hold."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _read(store: Any, place: str) -> bytes:
    with store.open_input_stream(place) as stream:
        return stream.read()


def _kind_of(manifest: bytes, address: str) -> str:
    try:
        kind = json.loads(manifest)["kind"]
    except (ValueError, KeyError, TypeError):
        kind = None
    if kind not in KINDS:
        raise RecordsError(
            f"{_without_key(address)} holds no records: its {MANIFEST} is none of ours; name the "
            "folder that `city build` or `records import` wrote."
        )
    return kind


def _names(manifest: bytes) -> list[str]:
    """Files that the manifest names and records can have: no other path is touched."""
    found = json.loads(manifest)
    names = [*found.get("files", {}), *found.get("others", {})]
    return [name for name in names if FILE_NAME.fullmatch(name) or name in OTHER_FILES]


def _copy(store: Any, place: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with store.open_input_stream(place) as stream, target.open("wb") as file:
        while piece := stream.read(PIECE_BYTES):
            file.write(piece)
