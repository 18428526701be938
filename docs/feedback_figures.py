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
    ENDS,
    FeedbackConfig,
    by_round,
    check_feedback,
    drift_of,
    play_city,
    say_mitigations,
    say_why,
)
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "feedback.json"
SCENARIOS = {
    "stated": FeedbackConfig(),
    "withdrawn": FeedbackConfig(seed=1911, withheld=0.95, visits=0.5),
    "halved": FeedbackConfig(seed=1911, world="default", visits=0.5),
}
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


def gather(folder: Path, kept: Path = KEPT) -> dict[str, Any]:
    """What every scenario came to; one that this folder has no city of stays as it was kept."""
    found = json.loads(kept.read_text()) if kept.exists() else {}
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


TITLES = {
    "stated": "As stated: visits for 30 % of complaints, up to half of the reports not made",
    "withdrawn": "Withdrawn: visits halved again, up to 95 % of the reports not made",
    "halved": "Halved: the same visits, and people report as before",
}


def feedback_block(kept: Path = KEPT) -> str:
    """Drift by scenario and arm with its cost, and what the figures allow to be said."""
    if not kept.exists():
        return "Not played yet: `python -m docs.feedback_figures play FOLDER stated`, then `keep`."
    parts = []
    for name, found in json.loads(kept.read_text()).items():
        config = found["config"]
        parts += [
            f"**{TITLES[name]}** ({config['domain']}, {config['rounds']} rounds, "
            f"{config['n_cities']} of {SCENARIOS[name].n_cities} cities from {config['seed']}):",
            "",
            "| arm | coverage of the lowest quintile, first rounds | drift, points | against none |"
            " its reports, drift | gap, drift | finds against none | visits against none |",
            "| --- " + "| ---: " * 7 + "|",
            *(_row(found, row) for row in found["drift"]),
            "",
            *found["why"],
            *say_mitigations(found["drift"]),
            _say_visits(found),
            "",
        ]
    return "\n".join(parts).rstrip()


def _say_visits(found: dict[str, Any]) -> str:
    """Share of the visits that goes to the lowest quintile, a fifth of all households."""
    shares = {}
    for arm in ("none", "today"):
        rows = [one for one in found["by_round"] if one["arm"] == arm]
        shares[arm] = sum(one["visits_lowest"] for one in rows) / sum(one["visits"] for one in rows)
    return (
        f"Of all visits {shares['none']:.0%} go to the lowest quintile without mitigation and "
        f"{shares['today']:.0%} under today's rule; a fifth of all households live there."
    )


def _row(found: dict[str, Any], row: dict[str, Any]) -> str:
    first = [one for one in found["by_round"] if one["arm"] == row["arm"]][:ENDS]
    begins = sum(one["coverage_lowest"] for one in first) / len(first)
    cells = [row["arm"], f"{100 * begins:.1f} %"]
    cells += [
        show_points(row.get(name))
        for name in ("coverage_lowest_drift", "coverage_lowest_drift_over_none",
                     "reported_lowest_drift", "gap_drift")
    ]  # fmt: skip
    cells += [show_points(row.get(f"{name}_over_none"), " %") for name in ("discovered", "visits")]
    return f"| {' | '.join(cells)} |"


def show_points(figure: dict[str, Any] | None, unit: str = "") -> str:
    """A share in points, or in per cent, with its interval over cities."""
    if figure is None:
        return "–"
    shown = f"{100 * figure['value']:+.1f}{unit}"
    if figure["interval"] is None:
        return shown
    return f"{shown} [{100 * figure['interval'][0]:+.1f}, {100 * figure['interval'][1]:+.1f}]"


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
