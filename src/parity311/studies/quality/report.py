"""From the measured parts to one verdict a setting, every figure with its 95 % interval.

A figure is computed from each city's means over its agents and episodes, paired across policies.
Its interval is between cities: the next city is what a user has, so cities are what is resampled
(jackknife, Student's t). Noise of agents and episodes is in it, because every city has its own.

`parity311 bench quality`: prepare, train and score, and say which bars are met.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import sub as subtract
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity311.errors import InputError, unknown_name
from parity311.evaluation.compare import TODAY
from parity311.jobs.choose import HERE, Workplace
from parity311.resampling import jackknife
from parity311.studies.quality.jobs import (
    IN_TRUTH,
    RULES,
    SWAPPED,
    missing_parts,
    params_path,
    prepare_city,
    prepared_seeds,
    run_parts,
)
from parity311.studies.quality.measure import BELIEVED, CEILING
from parity311.studies.quality.settings import BARS, SETTINGS, QualitySetting


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
    where: Workplace = HERE,
    stop_after_s: float = float("inf"),
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Prepare what is missing, measure what is missing, and report what is there."""
    chosen = choose_settings(settings)
    for seed in parse_seeds(city_seeds):
        prepare_city(folder, cities, seed, tell, chosen)
    if only_prepare:
        return {"folder": str(folder), "cities": prepared_seeds(folder)}
    parts = missing_parts(folder, chosen, n_agents=n_agents)
    left = run_parts(
        folder,
        parts,
        n_agents,
        where=where,
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


FEWEST_CITIES = 3
"""Cities below which there is no interval, and no verdict."""


class CityScores(NamedTuple):
    """What was measured of one setting in one city; rewards are (policies, episodes)."""

    seed: int
    rules: dict[str, np.ndarray]
    """(episodes,) of each rule"""
    agents: dict[str, np.ndarray]
    """(agents, episodes) of each recipe"""
    validation: dict[str, float]
    """mean over agents of each recipe, in the estimated process"""
    published: frozenset[str]
    """recipes with the paper's hyper-parameters"""
    ceiling: np.ndarray
    """(episodes,)"""
    ceiling_name: str
    believed: np.ndarray
    swapped: dict[str, np.ndarray]
    """(episodes,) of the estimate's optimum with something about it changed"""
    is_exact: bool
    learnable_share: float | None = None
    """share of the way that could be learned at all (`ceiling.learnable_share`)"""

    @property
    def best(self) -> str:
        """Of our recipes the one that does best on the validating episodes of the estimate.

        The paper's stands beside them; it counts where there is no other.
        """
        names = [name for name in self.validation if name not in self.published]
        return max(names or self.validation, key=lambda name: self.validation[name])


def read_city(folder: Path, setting: QualitySetting, city_seed: int) -> CityScores | None:
    """Parts of one city; None where one is missing."""
    found = {}
    for path in sorted((folder / "parts").glob(f"{setting.name}-{city_seed}-*.json")):
        part = json.loads(path.read_text())
        found[part["name"]] = part
    wanted = {RULES, *(recipe.name for recipe in setting.recipes)}
    if setting.searches_in_truth:
        ours = (recipe.name for recipe in setting.recipes if not recipe.is_published)
        wanted |= {f"{IN_TRUTH}{name}" for name in ours}
    if not wanted <= set(found):
        return None
    rules = {one["policy"]: np.array(one["rewards"]) for one in found[RULES]["policies"]}
    agents = {
        recipe.name: np.array([one["rewards"] for one in found[recipe.name]["policies"]])
        for recipe in setting.recipes
    }
    validation = {
        recipe.name: float(np.mean([one["validation"] for one in found[recipe.name]["policies"]]))
        for recipe in setting.recipes
    }
    is_exact = bool(found[RULES]["is_exact"])
    name, ceiling = CEILING, rules[CEILING]
    if not is_exact:
        name, ceiling = _best_known(found)
    believed = rules.pop(BELIEVED)
    for other in (CEILING, *setting.left_out):
        rules.pop(other)
    swaps = found.get(SWAPPED, {"policies": []})["policies"]
    swapped = {one["policy"]: np.array(one["rewards"]) for one in swaps}
    published = frozenset(recipe.name for recipe in setting.recipes if recipe.is_published)
    return CityScores(
        city_seed,
        rules,
        agents,
        validation,
        published,
        ceiling,
        name,
        believed,
        swapped,
        is_exact,
        found[RULES].get("learnable_share"),
    )


def _best_known(found: dict[str, Any]) -> tuple[str, np.ndarray]:
    """Of rules, searched rules and agents trained in the truth: the best in a trial apart."""
    policies = [
        (one["trial"], f"{part_name}: {one['policy']}", one["rewards"])
        for part_name, part in found.items()
        if part_name == RULES or part_name.startswith(IN_TRUTH)
        for one in part["policies"]
        if one["policy"] != BELIEVED
    ]
    _, name, rewards = max(policies)
    return name, np.array(rewards)


def rewards_of(cities: Sequence[CityScores], of: Callable[[CityScores], np.ndarray]) -> np.ndarray:
    """Mean reward (cities,) over whatever agents and episodes `of(city)` gives."""
    return np.array([of(city).mean() for city in cities])


def figure(
    statistic: Callable[..., float | np.ndarray], *rewards: np.ndarray
) -> dict[str, float | None]:
    """A statistic of the mean rewards (cities,) over cities, and its interval between cities."""
    whole, ends = jackknife(statistic, *rewards)
    if len(rewards[0]) < FEWEST_CITIES:
        ends = None
    lower, upper = ends or (None, None)
    return {"value": whole, "lower": lower, "upper": upper}


def report_setting(
    folder: Path, setting: QualitySetting, seeds: Sequence[int]
) -> dict[str, Any] | None:
    """Everything that is said of one setting; None where no city is whole."""
    found = [read_city(folder, setting, seed) for seed in seeds]
    cities = [city for city in found if city is not None]
    if not cities:
        return None
    first = cities[0]
    record = {
        "setting": setting.name,
        "domain": setting.domain,
        "bar": setting.bar,
        "says": BARS[setting.bar].says,
        "is_binding": setting.is_binding,
        "cities": [city.seed for city in cities],
        "agents_per_city": len(first.agents[first.best]),
        "episodes_per_city": len(first.ceiling),
        "best_agent": {city.seed: city.best for city in cities},
        "ceiling": "exact" if first.is_exact else "best known",
        "trained_in_truth": setting.searches_in_truth,
        "ceiling_policy": {city.seed: city.ceiling_name for city in cities},
        "lifetime_days": read_lifetimes(folder, setting, seeds),
        "learnable_share": {city.seed: city.learnable_share for city in cities},
        **_figures(cities),
    }
    return record | {"verdict": judge(setting, record)}


def judge(setting: QualitySetting, record: dict[str, Any]) -> str:
    """The bar's verdict; none on a handful of cities."""
    if len(record["cities"]) < FEWEST_CITIES:
        return "too few cities"
    return BARS[setting.bar].judge(record)


def read_lifetimes(
    folder: Path, setting: QualitySetting, seeds: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Mean days until an incident ends by itself, estimated and true, by city.

    Empty where a process has no such number: it is what estimates get wrong most.
    """
    from safetensors.numpy import load_file

    found: dict[int, dict[str, float]] = {}
    for seed in seeds:
        for kind in ("estimated", "true"):
            path = params_path(folder, setting.domain, setting.regime, seed, kind)
            arrays = load_file(path) if path.exists() else {}
            for name in (".lifetime_days", ".stream.lifetime_days"):
                if name in arrays:
                    found.setdefault(seed, {})[kind] = round(float(arrays[name]), 1)
    return found


def _figures(cities: Sequence[CityScores]) -> dict[str, Any]:
    """Every figure of a setting, over all its cities."""
    today = rewards_of(cities, lambda city: city.rules[TODAY])
    best = rewards_of(cities, lambda city: city.agents[city.best])
    ceiling = rewards_of(cities, lambda city: city.ceiling)
    believed = rewards_of(cities, lambda city: city.believed)
    rules = {n: rewards_of(cities, lambda city, n=n: city.rules[n]) for n in cities[0].rules}
    agents = {n: rewards_of(cities, lambda city, n=n: city.agents[n]) for n in cities[0].agents}
    swapped = {
        n: rewards_of(cities, lambda city, n=n: city.swapped[n])
        for n in cities[0].swapped
        if all(n in city.swapped for city in cities)
    }
    room = figure(subtract, ceiling, today)
    surest = room["value"] if room["lower"] is None else room["lower"]
    has_room = surest is not None and surest > 0.0
    top_rule = max(rules, key=lambda name: rules[name].mean())

    def gain(rewards: np.ndarray) -> dict[str, float | None]:
        return figure(lambda x, base: (x - base) / np.abs(base), rewards, today)

    def share(rewards: np.ndarray, end: np.ndarray = ceiling) -> dict[str, float | None] | None:
        if not has_room:
            return None
        return figure(lambda x, base, top: (x - base) / (top - base), rewards, today, end)

    could = [city.learnable_share for city in cities]
    known = np.array([value for value in could if value is not None])
    learnable = today + known * (ceiling - today) if len(known) == len(cities) else None

    return {
        "today": figure(np.asarray, today),
        "head_room": room,
        "has_head_room": has_room,
        "share_of_way": share(best),
        "share_of_way_of_estimated_optimum": share(believed),
        "share_of_learnable": None if learnable is None else share(best, learnable),
        "share_by_city": {city.seed: _share(city) for city in cities} if has_room else None,
        "regret": figure(subtract, ceiling, best),
        "estimation_loss": figure(subtract, ceiling, believed),
        "agent_loss": figure(subtract, believed, best),
        "share_of_way_changed": {name: share(x) for name, x in swapped.items()},
        "gain_on_today": gain(best),
        "difference_to_today": figure(subtract, best, today),
        "difference_to_random": figure(subtract, best, rules["random"]),
        "best_rule": top_rule,
        "difference_to_best_rule": figure(subtract, best, rules[top_rule]),
        "rules": {
            name: {"reward": float(x.mean()), "gain_on_today": gain(x), "share_of_way": share(x)}
            for name, x in rules.items()
        },
        "agents": {
            name: {
                "reward": float(x.mean()),
                "gain_on_today": gain(x),
                "share_of_way": share(x),
                "validation": float(np.mean([city.validation[name] for city in cities])),
            }
            for name, x in agents.items()
        },
    }


def _share(city: CityScores) -> float:
    today = city.rules[TODAY].mean()
    return float((city.agents[city.best].mean() - today) / (city.ceiling.mean() - today))


def report(folder: Path, settings: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """All settings that were measured."""
    found = [report_setting(folder, SETTINGS[name], seeds) for name in settings]
    rows = [row for row in found if row is not None]
    if not rows:
        raise InputError(f"{folder} holds no measured parts of {', '.join(settings)}.")
    return {"settings": rows}
