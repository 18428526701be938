"""Service levels in the life of a policy: the clock it learns by, and whether it keeps them.

A cycle that is given a file of levels counts an incident as served only within the days promised,
where its process has a clock, and plays the new policy through years drawn from the records to see
which promises it keeps. Nothing is moved: what is not kept is a reason to hold the policy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.arrays import jax, jnp
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.steps import DoneStep, Steps
from parity311.number_text import in_days
from parity311.pipelines.promise_levels import (
    PromiseConfig,
    check_domain,
    judge_years,
    promise_levels,
    split_years,
)
from parity311.pipelines.recorded_years import play_recorded, read_recorded_cases
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.store import Records
from parity311.service_levels.kept import check_city, promised_days
from parity311.service_levels.levels import ServiceLevels, levels_to_text
from parity311.service_levels.promises import BREAKS, INSUFFICIENT, KEEPS
from parity311.service_levels.requests import read_requests
from parity311.serving.playing import play_by
from parity311.serving.policy import load_policy
from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import to_json

PROMISES = "promises.json"
CLOCKS = {"service_level": 1, "service_days": -1}
"""Params that are a clock by severity code, and the order they have the codes in."""
NAMED_CELLS = 5


def check_levels(levels: ServiceLevels, domain: str, records: Records) -> None:
    """Refuse levels of another domain, or that do not cover the city of these records."""
    check_domain(levels, domain)
    check_city(levels, records)


def clock_of(levels: ServiceLevels, records: Records) -> np.ndarray:
    """(4,) days within which a visit counts, by code A to D: what was promised, or its own level.

    Of a code it is what the middle one of its requests is promised, and never later than the
    code's own level.
    """
    own = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
    requests = read_requests(records, levels.domain, districts=levels.districts)
    # What is promised from a day on is what is trained for, whenever the records are from.
    days, _ = promised_days([replace(levels, valid_from=None)], requests)
    found = own.copy()
    for code in range(len(SEVERITIES)):
        mine = days[(requests.code == code) & np.isfinite(days)]
        if len(mine):
            found[code] = min(own[code], max(float(np.median(mine)), 1.0))
    return found


def hold_to(params: Any, clock: np.ndarray) -> tuple[Any, bool]:
    """Params whose clock is this one, (4,) by code A to D; and whether they have any."""
    found = []

    def change(path: Any, leaf: Any) -> Any:
        name = str(getattr(path[-1], "name", "")) if path else ""
        if name not in CLOCKS:
            return leaf
        found.append(name)
        return jnp.asarray(clock[:: CLOCKS[name]], leaf.dtype)

    changed = jax.tree_util.tree_map_with_path(change, params)
    return changed, bool(found)


def promises_step(
    steps: Steps, levels: ServiceLevels, records: Records, package: Path, trained: DoneStep
) -> DoneStep:
    """Play the new policy through drawn years: which of the promises it keeps, and where not."""
    fewest = int(np.ceil(levels.confidence / (1.0 - levels.confidence) - 1e-9))
    config = PromiseConfig(
        str(package), str(records.folder), levels.domain, levels.districts, levels.share,
        levels.confidence, years=fewest, check_years=0, is_drawn=True,
    )  # fmt: skip

    def make(folder: Path) -> dict[str, Any]:
        policy = load_policy(package)
        cases = read_recorded_cases(records, levels.domain, levels.districts)
        years = play_recorded(
            cases, lambda: play_by(policy), fewest, years=range(cases.n_years), seed=0
        )
        found, _ = judge_years(config, levels, split_years(config, list(years)))
        write_text_aside(folder / PROMISES, to_json(found))
        verdicts = [row["verdict"] for row in found["cells"]]
        return {
            "cells": len(verdicts),
            **{name.lower(): verdicts.count(name) for name in (KEEPS, BREAKS, INSUFFICIENT)},
            "broken": [_in_words(row) for row in found["cells"] if row["verdict"] == BREAKS],
            "conflicts": len(found["conflicts"]),
        }

    return steps.take("promises", {"levels": levels_to_text(levels)}, make, after=[trained])


def _in_words(row: dict[str, Any]) -> str:
    within = row["within_target"]
    share = "nobody knows how many" if within is None else f"{within:.0%}"
    return (
        f"{row['category']} in {row['district']}: {share} are visited within "
        f"{in_days(row['designed_days'])}"
    )


def doubts_about(result: dict[str, Any]) -> list[str]:
    """What speaks against releasing a policy, of the promises it was held to."""
    broken: Sequence[str] = result["broken"]
    if not broken:
        return []
    more = len(broken) - NAMED_CELLS
    rest = f"; and {more} more" if more > 0 else ""
    return [
        f"it breaks {len(broken)} of {result['cells']} promises in years drawn from the records: "
        + "; ".join(broken[:NAMED_CELLS])
        + rest
    ]


def describe_version(registry: Registry, version: str) -> list[tuple[str, str]]:
    """Lines on a version for the page of its promises: state, by whose word, paid for what."""
    registry.stored(version)
    policy = next(one for one in registry.policies() if one.version == version)
    acts = [one for one in registry.log() if version in one.details.get("changes", {})]
    lines = [("version", version), ("state", str(policy.state.value))]
    lines += [
        (f"{one.action}, {one.at[:10]}", f"{one.actor}: {one.reason}"[:300]) for one in acts[-3:]
    ]
    return [*lines, *((one.words, one.value) for one in registry.statement(version))]


def promise_of(
    registry: Registry, version: str, config: PromiseConfig, **options: Any
) -> dict[str, Any]:
    """What a registered version can promise, on one page with what it is and who let it."""
    about = describe_version(registry, version)
    with tempfile.TemporaryDirectory() as folder:
        registry.export(version, Path(folder) / version)
        policy = str(Path(folder) / version)
        return promise_levels(replace(config, policy=policy), about=about, **options)
