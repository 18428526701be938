"""Every file of real rows taken the whole way: import, check, link, estimate, audit, learning.

    python -m docs.real_files --data ../shared/data --city cities/small-7-measured-calibrated

What `records check --what-for` promises of a file is then done, with the very command it prints.
Each file is kept as soon as it is done, in docs/results/real-files.json, from which
`python -m docs.real_data` writes its page; run again, the command goes on with the files that are
left, or begins anew where the software changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import tempfile
import warnings
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import parity311
from parity311.cli import app
from parity311.errors import Parity311Error
from parity311.feeds.importing import ImportOptions, import_records
from parity311.pipelines.abilities import POSSIBLE, WORK, find_abilities
from parity311.records.store import open_records
from parity311.reporting.link_records import link_records

PLACES = (
    "nyc_tracts/nyc_tract2020_acs_merged.csv",
    "nyc_tracts/nyc_tracts_2020_simplified.geojson",
    "nyc_tracts/community_districts.geojson",
)
KEPT = Path(__file__).resolve().parent / "results" / "real-files.json"
COMPLAINTS = (
    "boiler/soda_52dp-yji6.json",
    "dob/soda_eabe-havv.json",
    "dob/dob_complaints_100.csv",
    "hpd/complaints_and_problems_10.csv",
    "sr311/soda_rows.json",
    "sr311/rows_jl.csv",
    "sr311/export_2025-07_old_headers.csv",
    "sr311/export_2026_new.csv",
    "sr311/rows_normalised.csv",
    "sr311/events_by_bbl.csv.gz",
)
"""Files that hold complaints, each on its own with tracts and outlines; the small ones first."""
SHORTER = {"train": ["--steps", "200"], "backtest": [], "reporting": ["--draws", "50"], "audit": []}
"""What is added so that a promised command takes seconds; the first word names it."""


PACKAGES = ("feeds", "records", "reporting", "estimation", "pipelines", "audit")
"""Packages whose code decides what a file can be used for."""


def hash_code() -> str:
    """Hash of the source of those packages: other code, other answers."""
    root, digest = Path(parity311.__file__).parent, hashlib.sha256()
    for path in sorted(one for name in PACKAGES for one in (root / name).rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def walk(data: Path, file: str, city: Path, folder: Path) -> dict[str, Any]:
    """One file, as far as it goes; every stop has its reason."""
    found: dict[str, Any] = {"file": file}
    places = [data / name for name in PLACES]
    records = folder / "records"
    try:
        import_records([data / file, *places], records)
        found["kept_by"] = "tract"
    except Parity311Error as error:
        found["refused"] = " ".join(str(error).split()).split(" The rows lie in")[0]
        try:
            import_records([data / file, *places], records, ImportOptions(keep_unlocated=True))
            found["kept_by"] = "borough"
        except Parity311Error:
            return found | {"kept_by": ""}
    opened = open_records(records)
    source = opened.manifest["sources"][0]
    found |= {name: source[name] for name in ("rows_in", "kept", "out_of_scope", "quarantined")}
    found["links"] = []
    try:
        links = link_records(records, folder / "linked", lambda: city)
        found["links"] = [one.describe() for one in links]
        opened = open_records(folder / "linked")
    except Parity311Error as error:
        found["not_linked"] = " ".join(str(error).replace(str(folder), "…").split())
    abilities = find_abilities(opened)
    found["work"] = [
        {
            "domain": one.domain,
            "work": one.work,
            "state": one.state,
            "reason": one.reason.replace(str(folder), "…"),
            "done": _do(one.command, folder / f"done-{number}") if one.command else None,
        }
        for number, one in enumerate(abilities)
    ]
    return found


def _do(command: str, runs: Path) -> str:
    """Run what was promised; empty where it worked, else what it said."""
    words = shlex.split(command)[1:]
    added = SHORTER[words[0]]
    where = {"train": ["--out", str(runs / "policies")], "backtest": []}
    out = where.get(words[0], ["--runs", str(runs)])  # A backtest prints, and keeps no run.
    result = CliRunner().invoke(app, [*words, *added, *out])
    if result.exit_code == 0:
        return ""
    said = str(result.exception or result.output).replace(str(runs.parent), "…")
    return " ".join(said.split())


def describe_files(rows: list[dict[str, Any]]) -> list[str]:
    """The section of the page: one row a file, then what was promised and whether it was kept."""
    lines = [
        "",
        "## Every file the whole way",
        "",
        "Each file alone, with tracts and outlines: imported, linked where its source marks no",
        "duplicates, checked by `records check --what-for`; what that promised was done with the",
        "command it prints. Cells count domains: possible / partly / not.",
        "",
        f"| file | kept of rows | placed by | linked | {' | '.join(WORK)} |",
        f"| --- | ---: | --- | ---: | {' | '.join('---' for _ in WORK)} |",
    ]
    for row in rows:
        if not row["kept_by"]:
            lines.append(f"| {row['file']} | 0 | – | | refused: {row['refused']} | | | |")
            continue
        linked = sum(one["n_linked"] for one in row["links"])
        cells = [_count(row["work"], work) for work in WORK]
        lines.append(
            f"| {row['file']} | {row['kept']:,} of {row['rows_in']:,} | {row['kept_by']} | "
            f"{linked:,} | {' | '.join(cells)} |"
        )
    left = [file for file in COMPLAINTS if file not in {row["file"] for row in rows}]
    if left:
        lines += ["", f"Not taken yet by `python -m docs.real_files`: {', '.join(left)}."]
    tried = [one for row in rows for one in row.get("work", []) if one["done"] is not None]
    broken = [(row["file"], one) for row in rows for one in row.get("work", []) if one["done"]]
    lines += ["", f"{len(tried) - len(broken)} of {len(tried)} promised commands worked."]
    for file, one in broken:
        lines.append(f"- {file}, {one['domain']}, {one['work']}: {one['done']}")
    # A result that was not made by the whole command says so.
    lines += [f"- {row['file']}: {row['by_hand']}" for row in rows if row.get("by_hand")]
    lines += ["", *_reasons(rows)]
    return lines


def _count(work: list[dict[str, Any]], name: str) -> str:
    states = [one["state"] for one in work if one["work"] == name]
    return " / ".join(str(states.count(state)) for state in (POSSIBLE, "partly", "not"))


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """Why heat and housing, which have most rows, stop where they do."""
    lines = ["| file | domain | work | state | why |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        for one in row.get("work", []):
            if one["domain"] in ("heat", "housing") and one["state"] != POSSIBLE:
                cells = (row["file"], one["domain"], one["work"], one["state"], one["reason"])
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def read_kept() -> list[dict[str, Any]]:
    """The files that were taken, as kept; none where there are none."""
    return json.loads(KEPT.read_text())["files"] if KEPT.is_file() else []


def main() -> None:
    """Take every file that is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--city", type=Path, required=True)
    given = parser.parse_args()
    code = hash_code()
    stored = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    rows = stored["files"] if stored.get("code") == code else []
    for file in COMPLAINTS:
        if any(row["file"] == file for row in rows):
            continue
        print(f"{file} …", flush=True)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(walk(given.data, file, given.city, Path(folder)))
        KEPT.write_text(json.dumps({"code": code, "files": rows}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
