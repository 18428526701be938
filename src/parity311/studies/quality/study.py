"""`parity311 bench quality`: prepare, train and score, and say which bars are met."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parity311.errors import InputError, unknown_name
from parity311.studies.quality.jobs import missing_parts, prepare_city, prepared_seeds, run_parts
from parity311.studies.quality.report import report
from parity311.studies.quality.settings import SETTINGS


def choose_settings(given: Sequence[str] | None) -> list[str]:
    """Settings of these domains or of these names; all if none is given."""
    if not given:
        return list(SETTINGS)
    known = {one.domain for one in SETTINGS.values()} | set(SETTINGS)
    for name in given:
        if name not in known:
            raise unknown_name("domain or setting", name, sorted(known))
    return [name for name, one in SETTINGS.items() if {name, one.domain} & set(given)]


LARGEST_CITY_SEED = 10_000_000
"""The agents of a city count up from a hundred times its seed, which must fit into 31 bits."""


def parse_seeds(text: str) -> list[int]:
    """Whole numbers from a text with commas."""
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1]
    if not all(0 <= seed <= LARGEST_CITY_SEED for seed in found):
        raise InputError(
            f"City seeds {text!r} were given; write whole numbers from 0 to "
            f"{LARGEST_CITY_SEED:,}, as in 871,872."
        )
    return found


def bench_quality(
    folder: Path,
    cities: Path,
    *,
    settings: Sequence[str] | None = None,
    n_agents: int = 5,
    city_seeds: str = "",
    only_prepare: bool = False,
    n_workers: int = 0,
    stop_after_s: float = float("inf"),
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Prepare what is missing, measure what is missing, and report what is there."""
    chosen = choose_settings(settings)
    for seed in parse_seeds(city_seeds):
        prepare_city(folder, cities, seed, tell, chosen)
    if only_prepare:
        return {"folder": str(folder), "cities": prepared_seeds(folder)}
    parts = missing_parts(folder, chosen)
    left = run_parts(
        folder,
        parts,
        n_agents,
        n_workers=n_workers or os.cpu_count() or 1,
        tell=tell,
        stop_after_s=stop_after_s,
    )
    return {**report(folder, chosen, prepared_seeds(folder)), "parts_left": left}


def verdict_lines(found: dict[str, Any]) -> list[str]:
    """One line a setting."""
    lines = []
    for row in found["settings"]:
        share = row["share_of_way"]
        shown = "no head-room" if share is None else _interval(share, 100.0, " %")
        agents = ", ".join(sorted(set(row["best_agent"].values())))
        lines.append(
            f"{row['setting']:24s} {row['verdict']:12s} {agents} "
            f"· share of the way {shown} · gain on today's rule "
            f"{_interval(row['gain_on_today'], 100.0, ' %')} · regret {_interval(row['regret'])}"
        )
    return lines


def _interval(figure: dict[str, float | None], factor: float = 1.0, unit: str = "") -> str:
    value, *ends = (figure[name] for name in ("value", "lower", "upper"))
    assert value is not None
    between = [f"{factor * end:.2f}" for end in ends if end is not None]
    return f"{factor * value:.2f}{unit}" + (f" [{', '.join(between)}]" if between else "")
