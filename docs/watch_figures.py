"""Whether lights trip when they should: the figures of `docs/how-to/watch-a-policy.md`.

    python -m docs.watch_figures      200 years without a fault and 200 with each, on fresh seeds

The delays were first stated after looking at the seeds 0 to 4 of tests/statistics/test_lights.py;
these are other ones, drawn once with every setting fixed. Years without a fault are drawn alike,
then rough (seasons, tracts and days that differ), then rough with the gap as large as it may be.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from tests.statistics.test_lights import (
    BASELINE,
    MONTHS,
    SINCE,
    SPEC,
    detection,
    disparity,
    friction,
    rough_year,
    survey,
)

from parity311.lifecycle.lights import RED, Light, worst
from parity311.records.compare import wilson
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "watch.json"
N_YEARS = 200
FRESH = 7_000
"""First seed of the draws; one a year."""
BEGAN = SINCE + timedelta(days=120)
ROUGH = {
    "rough years, the gap at its baseline": BASELINE,
    "rough years, the gap at the margin itself": BASELINE + SPEC.gap_margin,
}
FAULTS = {
    "the lowest quintile falls from 5 to 30 points behind": (
        "60 tracts, 12 cases a month each", "3 months",
        lambda rng: disparity(rng, 0.3, from_month=4), MONTHS[4], (MONTHS[7] - MONTHS[4]).days,
    ),
    "finds fall from 30 % to 10 % of visits": (
        "20 visits a day, a tenth left to today's rule", "120 days after outcomes are in",
        lambda rng: detection(rng, 0.1, from_day=120), BEGAN, 120,
    ),
    "the same, more left": (
        "a quarter left to today's rule", "60 days after outcomes are in",
        lambda rng: detection(rng, 0.1, from_day=120, left=0.25), BEGAN, 60,
    ),
    "overrides rise from 20 % to 60 %": (
        "20 recommendations a day", "4 weeks",
        lambda rng: friction(rng, 0.6, from_day=120), BEGAN, 28,
    ),
    "staff answer 0.8 instead of 0.4": (
        "5 answers a week, no log of overrides", "8 weeks",
        lambda rng: survey(rng, 0.8, from_day=120), BEGAN, 56,
    ),
}  # fmt: skip


def measure() -> dict[str, Any]:
    """Share of years that trip, with and without a fault, and after how many days."""
    sound = 0
    for number in range(N_YEARS):
        rng = np.random.default_rng([FRESH, number])
        lights = [disparity(rng, BASELINE), detection(rng, 0.3), friction(rng, 0.25)]
        sound += worst(lights) == RED
    found: dict[str, Any] = {"years": N_YEARS, "tripped_without_fault": sound, "faults": {}}
    found["tripped_in_rough_years"] = {
        name: sum(
            worst(rough_year(np.random.default_rng([FRESH + 100 + place, n]), gap)) == RED
            for n in range(N_YEARS)
        )
        for place, (name, gap) in enumerate(ROUGH.items())
    }
    for place, (name, (volume, stated, draw, began, delay)) in enumerate(FAULTS.items()):
        lights = [draw(np.random.default_rng([FRESH + 1 + place, n])) for n in range(N_YEARS)]
        days = [_days(light, began) for light in lights]
        seen = [one for one in days if one is not None and 0 <= one <= delay]
        found["faults"][name] = {
            "volume": volume, "stated": stated, "within": len(seen),
            "before": sum(one is not None and one < 0 for one in days),
            "median_days": float(np.median([np.inf if one is None else one for one in days])),
        }  # fmt: skip
    return found


def _days(light: Light, began: Any) -> int | None:
    """Days from the fault to the red light."""
    return None if light.tripped_on is None else (light.tripped_on - began).days


def watch_block(kept: Path = KEPT) -> str:
    """The stated delays, and in how many fresh years each fault was seen within it."""
    if not kept.exists():
        return "Not measured yet: `python -m docs.watch_figures`."
    found = json.loads(kept.read_text())
    n = found["years"]
    lines = [
        "| fault | volume | red within | seen within, of fresh years | half of them after |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for name, row in found["faults"].items():
        low, high = wilson(row["within"], n)
        lines.append(
            f"| {name} | {row['volume']} | {row['stated']} | {row['within']} of {n} "
            f"[{100 * low:.0f}, {100 * high:.0f} %] | {row['median_days']:.0f} days |"
        )
    lines += ["", f"Without a fault {_share(found['tripped_without_fault'], n)}; at most 5 % may."]
    for name, tripped in found.get("tripped_in_rough_years", {}).items():
        lines.append(f"{name[0].upper()}{name[1:]}: {_share(tripped, n)}.")
    return "\n".join(lines)


def _share(tripped: int, n: int) -> str:
    low, high = wilson(tripped, n)
    return f"{tripped} of {n} fresh years tripped any light [{100 * low:.1f}, {100 * high:.1f} %]"


if __name__ == "__main__":
    write_json(KEPT, measure())
    sys.exit(0)
