"""An export that an analyst brings: its columns placed on a page, read in, tried.

    python -m parity311.desk.uploads FOLDER        what the desk starts for one that is read in

Everything of one upload lies in a folder of its own, so that it can be taken away whole. Reading in
and trying take a while; they are a process of their own, so that who works at the desk waits for
nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parity311.desk.refusals import DeskRefusal, NothingThereError, OvertakenError
from parity311.errors import Parity311Error
from parity311.feeds.citymap import COMPLAINT_FIELDS, REQUIRED_FIELDS, read_city_map
from parity311.feeds.importing import ImportOptions, import_records
from parity311.feeds.judge import OUT_OF_SCOPE
from parity311.feeds.propose import Proposal, propose_map
from parity311.pipelines.abilities import abilities_to_plain, find_abilities
from parity311.records.schema import DISPOSITION_CLASSES, SEVERITIES
from parity311.records.store import open_records
from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import read_json, to_json

ENDINGS = (".csv", ".tsv", ".txt", ".json", ".xlsx", ".zip", ".gz", ".geojson")
PARTS = ("complaints", "tracts", "boundaries")
NAME = re.compile(r"[0-9]{8}-[0-9a-f]{8}")
GIVEN, MAP, FOUND, PROBLEM, WORKING = (
    "given.json", "city.toml", "found.json", "problem.txt", "working.txt"
)  # fmt: skip
MOST_KEPT = 50
"""Uploads that a desk keeps."""
MOST_UNPACKED = 400_000_000
"""Bytes that an upload may have once it is unpacked: twenty times what may be sent."""
PIECE = 1 << 20


def refuse_swollen(path: Path) -> None:
    """Refuse a file that is small as it was sent and fills the disk unpacked."""
    with path.open("rb") as file:
        start = file.read(4)
    n = 0
    try:
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path, "rb") as packed:
                while n <= MOST_UNPACKED and (piece := packed.read(PIECE)):
                    n += len(piece)
        elif start.startswith(b"PK"):
            with zipfile.ZipFile(path) as packed:
                n = sum(one.file_size for one in packed.infolist())
                # What a part says of its size is held to by reading it.
                if n <= MOST_UNPACKED and packed.testzip() is not None:
                    raise zipfile.BadZipFile("a part is not what it says")
    except (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile,
            NotImplementedError) as error:  # fmt: skip
        raise DeskRefusal("The file cannot be unpacked; export it again.") from error
    if n > MOST_UNPACKED:
        raise DeskRefusal(
            f"Unpacked, the file has more than {MOST_UNPACKED // 10**6} MB; read it in by "
            "`parity311 records import`."
        )


def keep(root: Path, files: Mapping[str, tuple[str, bytes]], by: str) -> str:
    """Keep what somebody brought, by part, each with its file name; the upload's own name."""
    if len(list_uploads(root)) >= MOST_KEPT:
        raise DeskRefusal(f"{MOST_KEPT} uploads are kept here already; remove some first.")
    name = f"{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(4)}"
    plain = {}
    for part, (called, body) in files.items():
        ending = Path(called).suffix.lower()
        if ending not in ENDINGS or not called.isprintable():
            raise DeskRefusal(
                f"{called[:60]!r} was sent; allowed are files that end in {', '.join(ENDINGS)}."
            )
        if not body:
            raise DeskRefusal(f"{called[:60]!r} is empty; export it again.")
        plain[part] = {"file": f"{part}{ending}", "called": called[:120], "bytes": len(body)}
    folder = root / name
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir()
    try:
        for part, one in plain.items():
            (folder / one["file"]).write_bytes(files[part][1])
            refuse_swollen(folder / one["file"])
        given = {"by": by, "at": datetime.now(UTC).isoformat(timespec="seconds"), "files": plain}
        write_text_aside(folder / GIVEN, to_json(given))
        place(root, name, {})  # a file that is no table is refused before it is kept
    except BaseException:
        shutil.rmtree(folder)
        raise
    return name


def list_uploads(root: Path) -> list[dict[str, Any]]:
    """What was brought, newest first."""
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    found = [
        {"name": one, **read_json(root / one / GIVEN), "state": state_of(root, one)}
        for one in names
        if NAME.fullmatch(one) and (root / one / GIVEN).is_file()
    ]
    return sorted(found, key=lambda one: one["at"], reverse=True)


def folder_of(root: Path, name: str) -> Path:
    """Where an upload lies."""
    folder = root / name
    if not NAME.fullmatch(name) or not (folder / GIVEN).is_file():
        raise NothingThereError(f"There is no upload {name[:40]!r}; the list has those there are.")
    return folder


def state_of(root: Path, name: str) -> str:
    """How far an upload came: `to map`, `reading`, `read` or `refused`."""
    folder = root / name
    if (folder / FOUND).is_file():
        return "read"
    if (folder / PROBLEM).is_file():
        return "refused"
    return "reading" if _is_working(folder) else "to map"


def _is_working(folder: Path) -> bool:
    """Whether the process that reads an upload in is still there."""
    try:
        number, began = (folder / WORKING).read_text().split()
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return False
    return fields[19] == began and fields[0] != "Z"


def remove(root: Path, name: str) -> None:
    """Take an upload away, with all that was made of it."""
    folder = folder_of(root, name)
    if _is_working(folder):
        raise OvertakenError("The upload is being read in; remove it afterwards.")
    shutil.rmtree(folder)


def place(root: Path, name: str, chosen: Mapping[str, str]) -> Proposal:
    """What each field is taken from, with columns that somebody chose; written as its map."""
    folder = folder_of(root, name)
    files = read_json(folder / GIVEN)["files"]
    paths = [folder / files[part]["file"] for part in PARTS if part in files]
    with TemporaryDirectory() as scratch:
        found = propose_map(paths, Path(scratch), chosen=chosen)
    write_text_aside(folder / MAP, found.text)
    write_text_aside(folder / "proposal.json", to_json(found.describe()))
    return found


def describe(root: Path, name: str) -> dict[str, Any]:
    """An upload as its page shows it."""
    folder = folder_of(root, name)
    proposal = read_json(folder / "proposal.json")
    known = tomllib.loads((folder / MAP).read_text("utf-8"))
    guesses = {one["field"]: one for one in proposal["columns"]}
    columns = sorted({one["column"] for one in proposal["columns"]} | set(proposal["unused"]))
    state = state_of(root, name)
    found = read_json(folder / FOUND) if state == "read" else None
    problem = (folder / PROBLEM).read_text("utf-8") if state == "refused" else ""
    return {
        "upload": name,
        **read_json(folder / GIVEN),
        "state": state,
        "columns": columns,
        "fields": [
            {"field": one, "is_needed": one in REQUIRED_FIELDS, **_said(guesses.get(one))}
            for one in COMPLAINT_FIELDS
        ],
        "missing": proposal["missing"],
        "notes": [*proposal["notes"], *filter(None, [proposal["known_as"]])],
        "day_first": known.get("complaints", {}).get("day_first"),
        "categories": [
            {"value": value, "domain": one["domain"], "severity": one.get("severity", "")}
            for value, one in known.get("categories", {}).items()
        ],
        "outcomes": [
            {"value": value, "class": one["class"]} for value, one in known["outcomes"].items()
        ],
        "found": found,
        "problem": problem,
    }


def _said(guess: Mapping[str, Any] | None) -> dict[str, Any]:
    if guess is None:
        return {"column": "", "sureness": "", "reason": ""}
    return {name: guess[name] for name in ("column", "sureness", "reason")}


def set_meanings(
    root: Path,
    name: str,
    categories: Mapping[str, tuple[str, str]],
    outcomes: Mapping[str, str],
    day_first: bool | None,
) -> None:
    """Write into the map what the values of its columns mean."""
    folder = folder_of(root, name)
    known = tomllib.loads((folder / MAP).read_text("utf-8"))
    for value, (domain, severity) in categories.items():
        if value not in known["categories"]:
            raise DeskRefusal(f"The export has no category {value[:60]!r}; open the page again.")
        if domain != OUT_OF_SCOPE and severity not in SEVERITIES:
            raise DeskRefusal(
                f"{value[:60]!r} has no severity; choose one of {', '.join(SEVERITIES)}."
            )
        known["categories"][value] = {"domain": domain} | (
            {"severity": severity} if severity in SEVERITIES else {}
        )
    for value, kind in outcomes.items():
        if value not in known["outcomes"] or kind not in DISPOSITION_CLASSES:
            raise DeskRefusal(f"{value[:60]!r} cannot be {kind[:30]!r}; open the page again.")
        if known["outcomes"][value]["class"] != kind:
            known["outcomes"][value] = {"class": kind}
    if day_first is not None:
        known["complaints"]["day_first"] = day_first
    write_text_aside(folder / MAP, write_toml(known))
    read_city_map(folder / MAP)


def write_toml(tables: Mapping[str, Any]) -> str:
    """Tables of plain values as TOML; what it says is read back the same."""
    plain = [(name, one) for name, one in tables.items() if not isinstance(one, Mapping)]
    lines = [f"{json.dumps(name)} = {_value(one)}" for name, one in plain]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{json.dumps(name)}]"]
            lines += [f"{_text(key)} = {_value(one)}" for key, one in table.items()]
    return "\n".join(lines) + "\n"


def _value(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"{{ {', '.join(f'{_text(key)} = {_value(one)}' for key, one in given.items())} }}"
    if isinstance(given, list):
        return f"[{', '.join(map(_value, given))}]"
    return _text(given) if isinstance(given, str) else json.dumps(given)


def _text(given: str) -> str:
    """Text as TOML and JSON both write it; a deleted character only one of them."""
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def start(root: Path, name: str) -> None:
    """Begin to read an upload in, beside the desk; one at a time."""
    folder = folder_of(root, name)
    missing = [part for part in PARTS if part not in read_json(folder / GIVEN)["files"]]
    if missing:
        raise DeskRefusal(
            f"Without {' and '.join(missing)} nothing can be compared by area; bring all three "
            "files together."
        )
    read_city_map(folder / MAP)
    if any(one["state"] == "reading" for one in list_uploads(root)):
        raise OvertakenError("Another upload is being read in; wait until it has ended.")
    for one in (FOUND, PROBLEM):
        (folder / one).unlink(missing_ok=True)
    words = [sys.executable, "-m", "parity311.desk.uploads", str(folder)]
    with (folder / "work.log").open("w") as log:
        child = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    write_text_aside(folder / WORKING, f"{child.pid} {fields[19]}")


def read_in(folder: Path) -> None:
    """Import an upload by its map and try what it can be used for; what came of it is written."""
    files = read_json(folder / GIVEN)["files"]
    paths = [folder / files[part]["file"] for part in PARTS]
    try:
        own = read_city_map(folder / MAP)
        options = ImportOptions(overwrite=True)
        manifest = import_records(paths, folder / "records", options, city_map=own)
        tried = abilities_to_plain(find_abilities(open_records(folder / "records")))
    except Parity311Error as error:
        told = str(error).replace(f"{folder}{os.sep}", "")
        write_text_aside(folder / PROBLEM, told)
        return
    found = {
        "fingerprint": manifest["fingerprint"],
        "date_from": manifest["date_from"],
        "date_to": manifest["date_to"],
        "sources": [
            {name: one[name] for name in ("rows_in", "kept", "out_of_scope", "quarantined")}
            for one in manifest["sources"]
            if "rows_in" in one
        ],
        "domains": manifest["domains"],
        "possible": [_shown(one, folder) for one in tried],
    }
    write_text_aside(folder / FOUND, to_json(found))


def _shown(one: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return {name: str(value).replace(f"{folder}{os.sep}", "") for name, value in one.items()}


def main(words: Sequence[str]) -> int:
    """Read one upload in, at the lowest priority."""
    folder = Path(words[0])
    os.nice(15)
    try:
        read_in(folder)
    except Exception:
        write_text_aside(
            folder / PROBLEM,
            "Reading it in failed in a way that nobody foresaw; the desk's log has it. Nothing "
            "was kept.",
        )
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
