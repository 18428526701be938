"""The desk killed under load, and a day worked through its pages: figures of `deploy.md`.

    python -m docs.desk_figures play FOLDER CITY    do what has no file yet (an hour)
    python -m docs.desk_figures keep FOLDER         keep what came of it

Servers are killed by `tests.faults.desk_kills`, on SQLite and on a PostgreSQL server of its own;
the day is worked by `tests.browser.desk_day`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "desk-faults.json"
POINTS, SEED = 50, 21
DATABASES = {"SQLite": (), "PostgreSQL": ("--postgresql",)}


def play(folder: Path, city: str) -> None:
    """Kill and work whatever has no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    works: dict[str, tuple[str, ...]] = {
        f"{name}-{SEED}": (
            "tests.faults.desk_kills", "--points", str(POINTS), "--seed", str(SEED), *options
        )
        for name, options in DATABASES.items()
    }  # fmt: skip
    for name, words in (works | {"day": ("tests.browser.desk_day", city)}).items():
        path = folder / f"{name}.json"
        if path.exists():
            continue
        done = subprocess.run(
            [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT
        )
        write_text_aside(path, done.stdout)
        print(f"{path.name}: {done.stdout.strip()}", flush=True)


def gather(folder: Path) -> dict[str, Any]:
    """What came of it: kills by database, and the day."""
    kills = [
        {"database": name, **json.loads(path.read_text())}
        for name in DATABASES
        if (path := folder / f"{name}-{SEED}.json").exists()
    ]
    day = folder / "day.json"
    return {"kills": kills, "day": json.loads(day.read_text()) if day.exists() else None}


def faults_block(kept: Path = KEPT) -> str:
    """Kills, what had been acknowledged, what was lost; and the two audits of a day."""
    if not kept.exists():
        return "Not tried yet: `python -m docs.desk_figures play FOLDER CITY`, then `keep`."
    found = json.loads(kept.read_text())
    lines = [
        "| database | servers killed | acts acknowledged | lost, twice or otherwise |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in found["kills"]:
        lines.append(
            f"| {row['database']} | {row['killed']} | {row['told']:,} | {len(row['faults'])} |"
        )
    text = "\n".join(lines)
    if found["day"] is None:
        return text
    day = found["day"]
    n = len(day["differ"])
    same = "is the city's own, to the last digit" if not n else f"differs in {n} figures"
    return (
        f"{text}\n\nA scripted clerk worked a whole day of a small city in a browser: "
        f"{day['decisions']} decisions, {day['overrides']} of them other than recommended. The "
        f"audit of what was exported in the evening {same}."
    )


def main(arguments: Sequence[str]) -> None:
    """Play, or keep what was played."""
    what, folder, *more = arguments
    if what == "play" and more:
        play(Path(folder), more[0])
    elif what == "keep":
        write_json(KEPT, gather(Path(folder)))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
