"""The leaderboard of `docs/reference/leaderboard.md`: our own rows, in cities for tuning.

    python -m docs.leaderboard [--folder FOLDER] [--seeds 2101-2103]

keeps what `parity311 leaderboard --folder FOLDER` has measured so far; a lane with no whole city is
left out, and said to be. A city of the reserved seeds is never among them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from parity311.domains import all_domains
from parity311.evaluation.titles import policy_title
from parity311.studies.leaderboard import lanes as choices
from parity311.studies.leaderboard.board import read_board, row_cells

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "leaderboard.json"
NOT_MEASURED = "Not measured yet: `parity311 leaderboard`, then `python -m docs.leaderboard`."


def leaderboard_block(kept: Path = KEPT) -> str:
    """One table a lane, best first, and which domains are missing."""
    if not kept.exists():
        return NOT_MEASURED
    found = json.loads(kept.read_text())
    lines = [
        f"{_say_cities(found['lanes'])} (their seeds stand with each table), preset small, "
        f"{found['scenario']}; agents with {found['steps']:,} updates, {found['episodes']} "
        "episodes a city. Intervals are 95 % over cities. *Of the way*: from today's rule to the "
        "ceiling or best known; a dash where no head-room is beyond doubt.",
        "",
    ]
    for lane in found["lanes"]:
        lines += [*_lane(lane), ""]
    missing = sorted(set(all_domains()) - {lane["domain"] for lane in found["lanes"]})
    if missing:
        lines.append(f"Not measured yet: {', '.join(missing)}.")
    return "\n".join(lines).rstrip()


def _say_cities(lanes: list[dict[str, Any]]) -> str:
    """Whether anything was tuned in the cities of these rows."""
    fresh = set(choices.choose_seeds(choices.USUAL_SEEDS, False))
    is_fresh = all(set(lane["cities"]) <= fresh for lane in lanes)
    return "Nothing was tuned in these cities" if is_fresh else "Cities are for tuning"


def _lane(lane: dict[str, Any]) -> list[str]:
    cities = ", ".join(str(seed) for seed in lane["cities"])
    rules = ", ".join(
        f"{policy_title(name)} ({n})" if len(lane["best_rules"]) > 1 else policy_title(name)
        for name, n in lane["best_rules"].items()
    )
    absent = ", ".join(policy_title(name) for name in lane.get("left_out", ()))
    lines = [
        f"### {lane['domain']}, {lane['features']} features",
        "",
        f"Version {lane['version']}, cities {cities}. Best rule, as the estimate promised: "
        f"{rules}."
        + (f" Left out, as it could not be made in every city: {absent}." * bool(absent)),
        "",
        "| policy | reward an episode | over today's rule | of the way |",
        "| --- | ---: | ---: | ---: |",
    ]
    return lines + [f"| {' | '.join(row_cells(row))} |" for row in lane["rows"]]


def main() -> None:
    """Keep what a folder holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "leaderboard")
    parser.add_argument("--seeds", default=choices.USUAL_SEEDS)
    parser.add_argument("--steps", type=int, default=choices.N_STEPS)
    parser.add_argument("--episodes", type=int, default=choices.N_EPISODES)
    given = parser.parse_args()
    found = read_board(
        given.folder,
        choices.choose_lanes("", ""),
        choices.choose_seeds(given.seeds, False),
        choices.USUAL_AGENTS,
        choices.RaceBudget(given.steps, given.episodes),
    )
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found['lanes'])} lanes kept")


if __name__ == "__main__":
    main()
