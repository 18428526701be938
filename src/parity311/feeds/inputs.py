"""What an import is given: files and fetched folders, sorted by kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from parity311.errors import InputError, RecordsError, unknown_name
from parity311.feeds.citymap import CityMap
from parity311.feeds.formats import Format
from parity311.feeds.packing import unpack
from parity311.feeds.recognise import FileLayout, recognise
from parity311.storage.hashes import hash_file, is_seal_broken

FETCHED = "fetched.json"
"""Beside fetched files: where each came from, when, under which terms, with its hash."""
USER_TERMS = "given by the user; see its publisher"


@dataclass
class InputGroup:
    """Files of one kind and header that belong together: one export, or the pages of a fetch."""

    name: str
    kind: str
    layouts: list[FileLayout]
    provenance: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256, where it was already computed."""

    def unpack(self, folder: Path) -> None:
        """Write the files that the readers cannot take as they are into a folder, as plain text."""
        self.layouts = [
            layout
            if layout.packing.is_plain
            else replace(
                layout,
                unpacked=unpack(layout.path, layout.packing, folder / f"{number}-{self.kind}.txt"),
            )
            for number, layout in enumerate(self.layouts)
        ]

    def describe(self) -> dict[str, Any]:
        """Provenance for the manifest: source, terms, time, and the hash of every file."""
        files = self.hashes or {layout.path.name: hash_file(layout.path) for layout in self.layouts}
        modified = max(layout.path.stat().st_mtime for layout in self.layouts)
        return {
            "name": self.name,
            "kind": self.kind,
            "read_as": self.layouts[0].describe(),
            "source": self.provenance.get("source", "file"),
            "terms": self.provenance.get("terms", USER_TERMS),
            "retrieved_at": self.provenance.get("retrieved_at", _time(modified)),
            "server_rows": self.provenance.get("server_rows"),
            "files": files,
        }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def collect_inputs(
    paths: Sequence[Path],
    city_map: CityMap | None = None,
    read_as: Mapping[str, str] = MappingProxyType({}),
    sheet: str = "",
) -> list[InputGroup]:
    """Recognise every file given, and every file in the folders given.

    ``read_as`` (name of a file -> kind) and ``sheet`` are what the user says of them.
    """
    if not paths:
        raise InputError("No files were given; name exports or a folder `parity311 fetch` wrote.")
    formats = (city_map.complaint_format, city_map.tract_format) if city_map else ()
    provenance = {"source": city_map.source, "terms": city_map.terms} if city_map else {}
    given = [path.name for path in paths]
    for name in read_as:
        if name not in given:
            raise unknown_name("file", name, given)
    groups: list[InputGroup] = []
    for path in paths:
        if path.is_dir():
            groups += _from_folder(path, formats)
        else:
            layout = recognise(path, formats, kind=read_as.get(path.name, ""), sheet=sheet)
            groups.append(InputGroup(path.name, layout.kind, [layout], provenance))
    names: dict[str, int] = {}
    for group in groups:
        names[group.name] = names.get(group.name, 0) + 1
        if names[group.name] > 1:
            group.name = f"{group.name} ({names[group.name]})"
    return groups


def _read_index(path: Path) -> dict[str, Any]:
    """What a fetch wrote last; it must be as it was written."""
    try:
        fetched = json.loads(path.read_bytes())
        fetched["query"]["since"]
        for entry in fetched["datasets"]:
            [entry[name] for name in ("name", "source", "terms", "retrieved_at", "server_rows")]
            [(page["rows"], page["sha256"]) for page in entry["files"].values()]
        if not is_seal_broken(fetched):
            return fetched
        reason = "it was changed since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
    raise RecordsError(
        f"{path} cannot be read ({reason}); run the same `parity311 fetch` command again."
    )


def _from_folder(folder: Path, formats: Sequence[Format]) -> list[InputGroup]:
    index = folder / FETCHED
    if not index.is_file():
        if (folder / "state.json").is_file():
            raise RecordsError(
                f"{folder} holds a fetch that did not finish; run the same `parity311 fetch` "
                "command again, it goes on where it stopped."
            )
        files = sorted(path for path in folder.iterdir() if path.is_file())
        layouts = [recognise(path, formats) for path in files if not path.name.startswith(".")]
        return [InputGroup(layout.path.name, layout.kind, [layout]) for layout in layouts]
    fetched = _read_index(index)
    groups = []
    for entry in fetched["datasets"]:
        layouts = []
        for name, recorded in entry["files"].items():
            path = folder / name
            if Path(name).name != name:
                raise RecordsError(
                    f"{index} names {name!r}, which is no file of that folder; run the same "
                    "`parity311 fetch` command again."
                )
            if not path.is_file() or hash_file(path) != recorded["sha256"]:
                raise RecordsError(
                    f"{path} is missing or was changed since it was fetched; run the same "
                    "`parity311 fetch` command again."
                )
            if recorded["rows"]:
                layouts.append(recognise(path))
        if layouts:
            provenance = {
                "source": entry["source"],
                "terms": entry["terms"],
                "retrieved_at": entry["retrieved_at"],
                "server_rows": entry["server_rows"],
                "since": fetched["query"]["since"],
            }
            hashes = {name: recorded["sha256"] for name, recorded in entry["files"].items()}
            groups.append(InputGroup(entry["name"], layouts[0].kind, layouts, provenance, hashes))
    return groups
