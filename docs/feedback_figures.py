"""What a policy's own decisions do to it: the figures of `docs/explanation/feedback.md`.

    python -m docs.feedback_figures play FOLDER SCENARIO [--part 1/2]   play what is not there yet
    python -m docs.feedback_figures keep FOLDER                         keep what all of it came to

A scenario is `parity311 feedback` with other settings; every city is a file of its own, so that a
run that was cut off goes on. Settings were fixed on tuning cities before the others were built.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from parity311.lifecycle.feedback import (
    ARMS,
    FeedbackConfig,
    by_round,
    check_feedback,
    drift_of,
    play_city,
    say_why,
)
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "feedback.json"
SCENARIOS = {"stated": FeedbackConfig()}
"""What is played, by name; `stated` is what `parity311 feedback heat --rounds 12` plays."""


def play(folder: Path, name: str, part: str = "1/1", seeds: Sequence[int] = ()) -> None:
    """Play every n-th city of a scenario that has no file yet."""
    config = SCENARIOS[name]
    domain = check_feedback(config)
    number, of = (int(one) for one in part.split("/"))
    wanted = seeds or range(config.seed, config.seed + config.n_cities)
    for seed in list(wanted)[number - 1 :: of]:
        path = folder / f"{name}-{seed}.json"
        if path.exists():
            continue
        rows = [row for rows in play_city(domain, config, seed, config.arms) for row in rows]
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {"config": asdict(replace(config, seed=seed, n_cities=1)), "rows": rows})
        print(f"{name}: city {seed} played", flush=True)


def gather(folder: Path) -> dict[str, Any]:
    """What every scenario that was played came to."""
    found = {}
    for name, config in SCENARIOS.items():
        files = sorted(folder.glob(f"{name}-*.json"))
        rows = [row for one in files for row in json.loads(one.read_text())["rows"]]
        if not rows:
            continue
        arms = [one for one in config.arms if any(row["arm"] == one for row in rows)]
        found[name] = {
            "config": asdict(replace(config, n_cities=len(files))),
            "arms": {one: ARMS[one] for one in arms},
            "by_round": by_round(rows, arms, config.rounds),
            "drift": [drift_of(rows, one) for one in arms],
            "why": say_why(rows, arms, config),
        }
    return found


def main(arguments: Sequence[str]) -> None:
    """Play, or keep what was played."""
    what, folder, *rest = arguments
    if what == "play":
        part = rest[rest.index("--part") + 1] if "--part" in rest else "1/1"
        play(Path(folder), rest[0], part)
    elif what == "keep":
        write_json(KEPT, gather(Path(folder)))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
