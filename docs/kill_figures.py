"""What is left of acts and cycles that were killed: figures of `docs/how-to/release-a-policy.md`.

    python -m docs.kill_figures play FOLDER [acts|cycles]   kill, batch by batch, what was not yet
    python -m docs.kill_figures keep FOLDER                 keep what all batches came to

Acts are killed by `tests.faults.registry_kills`, whole cycles and the release after them by
`tests.faults.cycle_kills`, on SQLite and on a PostgreSQL server of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "policy-kills.json"
WORKS = {
    "acts": ("tests.faults.registry_kills", 50, (19,)),
    "cycles": ("tests.faults.cycle_kills", 25, (19, 20)),
}
"""Module, points of a batch, and a seed for each batch."""
DATABASES = {"SQLite": (), "PostgreSQL": ("--postgresql",)}
TITLES = {
    "acts": "propose, release, suspend, resume, roll back",
    "cycles": "a whole cycle, then its release",
}


def play(folder: Path, works: Sequence[str]) -> None:
    """Run each batch that has no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for work in works:
        module, points, seeds = WORKS[work]
        for seed in seeds:
            for name, options in DATABASES.items():
                path = folder / f"{work}-{name}-{seed}.json"
                if path.exists():
                    continue
                done = subprocess.run(
                    [sys.executable, "-m", module, "--points", str(points), "--seed", str(seed),
                     *options],
                    stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT,
                )  # fmt: skip
                write_text_aside(path, done.stdout)
                print(f"{path.name}: {done.stdout.strip()}", flush=True)


def gather(folder: Path, kept: Path = KEPT) -> list[dict[str, Any]]:
    """A row a work and database: points, kills and what was found.

    One that this folder has no batch of stays as it was kept.
    """
    rows = []
    before = json.loads(kept.read_text()) if kept.exists() else []
    known = {(row["work"], row["database"]): row for row in before}
    for work, (_, _, seeds) in WORKS.items():
        for name in DATABASES:
            files = [folder / f"{work}-{name}-{seed}.json" for seed in seeds]
            found = [json.loads(one.read_text()) for one in files if one.exists()]
            if not found and (work, name) in known:
                rows.append(known[work, name])
                continue
            outcomes: Counter[str] = Counter()
            for one in found:
                outcomes.update(one["outcomes"])
            rows.append(
                {
                    "work": work,
                    "database": name,
                    "points": sum(one["points"] for one in found),
                    "outcomes": dict(sorted(outcomes.items())),
                    "faults": [fault for one in found for fault in one["faults"]],
                }
            )
    return rows


def kills_block(kept: Path = KEPT) -> str:
    """Points, kills that hit, and what was found afterwards."""
    if not kept.exists():
        return "Not tried yet: `python -m docs.kill_figures play FOLDER`, then `keep`."
    lines = [
        "| what was killed | database | points | kills that hit | faults found |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in json.loads(kept.read_text()):
        hits = sum(n for name, n in row["outcomes"].items() if name.endswith("killed"))
        lines.append(
            f"| {TITLES[row['work']]} | {row['database']} | {row['points']} | {hits} | "
            f"{len(row['faults'])} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Play, or keep what was played."""
    what, folder, *works = arguments
    if what == "play":
        play(Path(folder), works or list(WORKS))
    elif what == "keep":
        write_json(KEPT, gather(Path(folder)))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
