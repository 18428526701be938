"""Promises and designs in cities nobody had seen: the figures of `explanation/service-levels.md`.

    python -m docs.service_levels_figures FOLDER [--part 1/2]   play what is not there yet
    python -m docs.service_levels_figures FOLDER --keep         keep what there is

Promises are those of today's rule, at 80 % of all requests with a confidence of 90 %, from 19 years
and checked on 20 further ones; from the generator, and drawn from the records alone. Designs are
searched on the years before the last and judged on years drawn from the last.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.pipelines.design_levels import design_levels
from parity311.pipelines.design_task import DesignConfig
from parity311.pipelines.promise_levels import PromiseConfig, promise_levels
from parity311.resampling import mean_interval
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "service-levels.json"
SEEDS = tuple(range(1931, 1937))
DOMAINS = ("crane", "heat", "housing")
SHARE, CONFIDENCE, YEARS, CHECK_YEARS = 0.8, 0.9, 19, 20
FLOORS = {"crane": 0.2, "heat": 0.2, "housing": 0.2}
CHECKS = {"unrounded": "before rounding", "rounded": "as made", "one_year": "from a single year"}


def play(folder: Path, part: str) -> None:
    """Build each city and domain that has no file yet, promise and design in it."""
    number, of = (int(one) for one in part.split("/"))
    tasks = [(seed, slug) for seed in SEEDS for slug in DOMAINS]
    folder.mkdir(parents=True, exist_ok=True)
    for seed, slug in tasks[number - 1 :: of]:
        path = folder / f"{slug}-{seed}.json"
        if path.exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            write_json(path, play_one(Path(scratch), seed, slug))
        print(f"{slug}, {seed}", flush=True)


def play_one(scratch: Path, seed: int, slug: str) -> dict[str, Any]:
    """One domain of one city."""
    city = build_city(
        [get_domain(slug).process], "small", seed, "measured", "calibrated", workers=1,
        out=scratch / "city",
    )  # fmt: skip
    found: dict[str, Any] = {"city": seed, "domain": slug}
    for name, is_drawn in (("played", False), ("drawn", True)):
        config = PromiseConfig(
            "today", str(city), slug, share=SHARE, confidence=CONFIDENCE, years=YEARS,
            check_years=CHECK_YEARS, is_drawn=is_drawn,
        )  # fmt: skip
        told = promise_levels(config, root=scratch / "runs", out=None, progress=_silent)
        found[name] = {
            "checks": told["checks"], "stressed": told["stressed"], "cells": len(told["cells"]),
            "promised": sum(row["days"] is not None for row in told["cells"]),
            "conflicts": _count(told["conflicts"]),
        }  # fmt: skip
    try:
        told = design_levels(
            DesignConfig(str(city), slug, floor=FLOORS[slug]), root=scratch / "runs", out=None,
            choice="balanced", progress=_silent,
        )  # fmt: skip
        names = ("beats_today", "relative", "agreement", "search", "later_years")
        found["design"] = {name: told[name] for name in names}
    except Parity311Error as error:
        found["design"] = {"refused": str(error)}
    return found


def _silent(*_: object) -> None:
    """Tell nobody."""


def _count(conflicts: Sequence[dict[str, Any]]) -> dict[str, int]:
    kinds = [one["kind"] for one in conflicts]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def gather(folder: Path) -> dict[str, Any]:
    """All that was played."""
    rows = [json.loads(one.read_text()) for one in sorted(folder.glob("*-*.json"))]
    return {
        "share": SHARE, "confidence": CONFIDENCE, "years": YEARS, "check_years": CHECK_YEARS,
        "scenario": "measured, calibrated", "rows": rows,
    }  # fmt: skip


def levels_block(kept: Path = KEPT) -> str:
    """Promises and designs, by domain, over cities."""
    if not kept.exists():
        return "Not measured yet: `python -m docs.service_levels_figures FOLDER`, then `--keep`."
    found = json.loads(kept.read_text())
    rows = found["rows"]
    return "\n\n".join((_promise_table(rows), _design_table(rows)))


def _promise_table(rows: Sequence[dict[str, Any]]) -> str:
    head = " | ".join(CHECKS.values())
    lines = [
        f"| domain | years | cities | promised cells | {head} |",
        "| --- | --- " + "| ---: " * 5 + "|",
    ]
    for slug in dict.fromkeys(row["domain"] for row in rows):
        for way, words in (("played", "played by the generator"), ("drawn", "drawn from records")):
            mine = [row[way] for row in rows if row["domain"] == slug]
            promised = sum(one["promised"] for one in mine)
            cells = sum(one["cells"] for one in mine)
            kept = " | ".join(_kept(mine, name) for name in CHECKS)
            lines.append(f"| {slug} | {words} | {len(mine)} | {promised} of {cells} | {kept} |")
    return "\n".join(lines)


def _kept(mine: Sequence[dict[str, Any]], name: str) -> str:
    """Share of cells and years in which promises were kept, over cities with an interval."""
    checks = [one["checks"][name] for one in mine]
    n = sum(one["checked"] for one in checks)
    if not n:
        return "–"
    share = sum(one["checked"] * (one["kept_share"] or 0.0) for one in checks) / n
    values = np.array([one["kept_share"] for one in checks if one["checked"]], float)
    interval = mean_interval(values)
    shown = "" if interval is None else f" [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"
    return f"{100 * share:.1f} %{shown}"


def _design_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| domain | choice | cities | cost against today's rule | inequity | better in both |"
        " ranks alike (all, where all are visited) |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for slug in dict.fromkeys(row["domain"] for row in rows):
        mine = [row["design"] for row in rows if row["domain"] == slug]
        done = [one for one in mine if "refused" not in one]
        for choice in ("efficient", "balanced", "equitable") if done else ():
            cost, inequity = (
                np.mean([one["relative"][choice][i]["value"] for one in done]) - 1 for i in (0, 1)
            )
            both = np.mean([one["beats_today"][choice] for one in done])
            alike = " and ".join(
                f"{np.nanmean([_number(one['agreement'][name]) for one in done]):.2f}"
                for name in ("all", "visited")
            )
            lines.append(
                f"| {slug} | {choice} | {len(done)} | {100 * cost:+.0f} % | {100 * inequity:+.0f} %"
                f" | {100 * both:.0f} % of years | {alike} |"
            )
        if len(done) < len(mine):
            why = next(one["refused"] for one in mine if "refused" in one)
            lines.append(f"| {slug} | refused in {len(mine) - len(done)} | | {why} | | | |")
    return "\n".join(lines)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def main(arguments: Sequence[str]) -> None:
    """Play, or keep what was played."""
    folder, *rest = arguments
    if "--keep" in rest:
        write_json(KEPT, gather(Path(folder)))
        return
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    play(Path(folder), given.get("--part", "1/1"))


if __name__ == "__main__":
    main(sys.argv[1:])
