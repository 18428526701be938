"""The two stages of the quality bench: prepare params from cities, then train and score them.

Preparing needs records; training and scoring need jax, numpy and safetensors only and read the
prepared folder, which is small enough to travel. Every part is written as soon as it is measured
and never measured twice, so the second stage can run in slices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from parity311.domains import all_domains, get_domain
from parity311.errors import InputError, Parity311Error
from parity311.estimation.params_file import read_params, write_params
from parity311.estimation.world import make_world
from parity311.jobs.choose import HERE, Workplace
from parity311.jobs.drive import Outcome
from parity311.jobs.job import Input, Job, Task
from parity311.storage.aside import write_text_aside
from parity311.studies.quality.settings import (
    OLDER,
    SETTINGS,
    VARIANTS,
    QualitySetting,
    Recipe,
)

Tell = Callable[[str], None]
Recipes = Mapping[str, Sequence[Recipe]]
"""Recipes by the name of a setting."""
RULES, SWAPPED = "rules", "swaps"
IN_TRUTH = "in_truth_"
"""Prefix of a recipe that learns in the true process: a ceiling, no competitor."""

PARTICIPATION, CAPACITY = "measured", "calibrated"
"""Scenario of the cities: as in the records (where visits are scarce, too few second visits are on
record to estimate electrical revisits)."""


class RecordYears(NamedTuple):
    """Of a regime: from when records are kept, from when they are tested, and to when."""

    date_from: date | None = None
    """the preset's first day if none is given"""
    test_from: date | None = None
    """the last year if none is given"""
    date_to: date | None = None
    """the preset's last day if none is given"""


REGIMES = {
    "": RecordYears(),
    "2020": RecordYears(date(2018, 1, 1), date(2020, 1, 1), date(2021, 1, 1)),
    OLDER: RecordYears(date(2017, 1, 1)),
}
"""Years of the cities, by the regime of a setting."""


class QualityJob(NamedTuple):
    """One piece of work."""

    setting: str
    city_seed: int
    recipe: Recipe | None = None
    """None: the rules and the ceiling"""
    in_truth: bool = False
    """whether the recipe learns in the true process; without a recipe: whether params are swapped
    for the true ones, group by group"""

    @property
    def name(self) -> str:
        """`rules`, or the recipe's name, with a prefix where it learns in the truth."""
        if self.recipe is None:
            return SWAPPED if self.in_truth else RULES
        return f"{IN_TRUTH if self.in_truth else ''}{self.recipe.name}"

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / "parts" / f"{self.setting}-{self.city_seed}-{self.name}.json"


def prepare_city(
    folder: Path, cities: Path, city_seed: int, tell: Tell, settings: Sequence[str] = ()
) -> None:
    """Write estimated and true params of these settings (all if none) for one city.

    What is there already stays as it is.
    """
    chosen = [SETTINGS[name] for name in settings or SETTINGS]
    for regime in sorted({one.regime for one in chosen}):
        slugs = sorted({one.domain for one in chosen if one.regime == regime})
        missing = [
            slug
            for slug in slugs
            if not params_path(folder, slug, regime, city_seed, "true").exists()
        ]
        if not missing:
            continue
        records = _open_city(cities, city_seed, regime, slugs)
        date_to = REGIMES[regime].test_from
        for slug in missing:
            place = partial(params_path, folder, slug, regime, city_seed)
            try:
                world = make_world(get_domain(slug), records, date_to=date_to)
                estimated = world.estimated
            except (Parity311Error, ValueError) as error:
                # One domain that cannot be estimated in one city must not cost the others.
                note = place("failed").with_suffix(".txt")
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(f"{error}\n")
                tell(f"city {city_seed}: {slug} cannot be estimated: {error}")
                continue
            write_params(place("estimated"), estimated)
            write_params(place("true"), world.true)
            tell(f"city {city_seed}{regime and ', ' + regime}: {slug}")


def _open_city(cities: Path, city_seed: int, regime: str, slugs: Sequence[str]) -> Any:
    """The city of this seed, built first where it is not there."""
    from parity311.city.ensure import open_or_build

    name = f"small-{city_seed}-{PARTICIPATION}-{CAPACITY}" + (f"-{regime}" if regime else "")
    processes = [one.process for slug, one in all_domains().items() if not regime or slug in slugs]
    return open_or_build(
        cities / name,
        processes,
        preset="small",
        seed=city_seed,
        participation=PARTICIPATION,
        capacity=CAPACITY,
        date_from=REGIMES[regime].date_from,
        date_to=REGIMES[regime].date_to,
    )


def params_path(folder: Path, slug: str, regime: str, city_seed: int, kind: str) -> Path:
    """File of a domain's params in one city; kind is `estimated` or `true`."""
    name = f"{slug}-{regime}" if regime else slug
    return folder / "params" / str(city_seed) / f"{name}-{kind}.safetensors"


def prepared_seeds(folder: Path) -> list[int]:
    """Seeds of the cities that were prepared in this folder."""
    found = sorted(int(path.name) for path in (folder / "params").glob("*") if path.name.isdigit())
    if not found:
        raise InputError(
            f"{folder} holds no prepared cities; run `parity311 bench quality --prepare` first."
        )
    return found


def missing_parts(
    folder: Path, settings: Sequence[str], recipes: Recipes | None = None, n_agents: int = 5
) -> list[QualityJob]:
    """Parts that were not measured yet, by digest; `recipes` take the place of a setting's own."""
    found = []
    seeds = prepared_seeds(folder)
    # City by city: the programs that the first compiles serve the others.
    for city_seed in seeds:
        for setting in (SETTINGS[name] for name in settings):
            if setting.n_cities and city_seed not in seeds[: setting.n_cities]:
                continue
            own = setting.recipes if recipes is None else recipes.get(setting.name, ())
            found.append(QualityJob(setting.name, city_seed))
            found += [QualityJob(setting.name, city_seed, recipe) for recipe in own]
            if setting.searches_in_truth:
                others = [recipe for recipe in own if not recipe.is_published]
                found += [QualityJob(setting.name, city_seed, recipe, True) for recipe in others]
    found += [
        QualityJob(name, city_seed, None, True)
        for city_seed in seeds
        for name in settings
        if SETTINGS[name].swaps_params
    ]
    return [
        part
        for part in found
        if _is_prepared(folder, SETTINGS[part.setting], part)
        and not is_measured(folder, part, n_agents)
    ]


def _is_prepared(folder: Path, setting: QualitySetting, part: QualityJob) -> bool:
    path = params_path(folder, setting.domain, setting.regime, part.city_seed, "true")
    return path.exists()


def is_measured(folder: Path, part: QualityJob, n_agents: int) -> bool:
    """Whether a part's file answers this very question: its params, recipe, version and agents.

    Parts of before there were jobs say none of it and count by their recipe and version.
    """
    try:
        kept = json.loads(part.path(folder).read_bytes())
    except (OSError, ValueError):
        return False
    if "asked" in kept:
        return kept["asked"] == job_of(folder, part, n_agents).identity
    own = None if part.recipe is None else json.loads(json.dumps(asdict(part.recipe)))
    version = get_domain(SETTINGS[part.setting].domain).version
    return kept.get("recipe", own) == own and kept.get("version", version) == version


def job_of(folder: Path, part: QualityJob, n_agents: int) -> Job:
    """A part as a job: its params are inputs, its domain's version part of the question."""
    setting = SETTINGS[part.setting]
    place = partial(params_path, folder, setting.domain, setting.regime, part.city_seed)
    return Job(
        "parity311.studies.quality.jobs:measure_part",
        {
            "setting": part.setting,
            "city_seed": part.city_seed,
            "recipe": None if part.recipe is None else asdict(part.recipe),
            "in_truth": part.in_truth,
            "n_agents": n_agents,
            "version": get_domain(setting.domain).version,
        },
        {kind: Input.of(place(kind)) for kind in ("estimated", "true")},
        name=f"{part.setting}-{part.city_seed}-{part.name}",
        program=f"{part.setting}/{part.name}",
    )


def run_parts(
    folder: Path,
    parts: Sequence[QualityJob],
    n_agents: int,
    *,
    where: Workplace = HERE,
    tell: Tell,
    stop_after_s: float = float("inf"),
) -> int:
    """Measure parts as jobs, one thread each; how many are left when the time is up."""
    jobs = [job_of(folder, part, n_agents) for part in parts]
    by_identity = {job.identity: part for job, part in zip(jobs, parts, strict=True)}

    def keep(outcome: Outcome) -> None:
        part = by_identity[outcome.job.identity]
        kept = {**outcome.result, "seconds": round(outcome.seconds, 1)}
        write_text_aside(part.path(folder), json.dumps(kept) + "\n")

    def told(ended: int, total: int, outcome: Outcome) -> None:
        if not outcome.is_there:
            # One part that fails must not cost the others; it stays missing.
            tell(f"{outcome.job.name} failed: {outcome.reason}")
            return
        keep(outcome)
        tell(f"{outcome.job.name}: {outcome.seconds:.0f} s ({ended} of {total})")

    done = where.run(jobs, folder=folder / "jobs", tell=told, stop_after_s=stop_after_s)
    for outcome in done:
        if outcome.is_there and not by_identity[outcome.job.identity].path(folder).exists():
            keep(outcome)
    return len(parts) - sum(outcome.is_there for outcome in done)


def measure_part(task: Task) -> dict[str, Any]:
    """Measure one part, in whatever process."""
    from parity311.studies.quality.measure import measure_recipe, measure_rules, measure_swaps
    from parity311.training.train_run import as_tuples

    spec = task.spec
    recipe = None if spec["recipe"] is None else Recipe(**as_tuples(spec["recipe"]))
    part = QualityJob(spec["setting"], spec["city_seed"], recipe, spec["in_truth"])
    setting = SETTINGS[part.setting]
    ground = read_ground(setting, part.city_seed, task.inputs["estimated"], task.inputs["true"])
    if recipe is None:
        found = measure_swaps(ground) if part.in_truth else measure_rules(ground)
    else:
        seeds = [100 * part.city_seed + number for number in range(spec["n_agents"])]
        found = measure_recipe(ground, recipe, seeds, in_truth=part.in_truth)
        found["recipe"] = spec["recipe"]
    inputs = {name: Input.of(path) for name, path in task.inputs.items()}
    asked = Job("parity311.studies.quality.jobs:measure_part", spec, inputs).identity
    return found | {
        "setting": part.setting,
        "city_seed": part.city_seed,
        "name": part.name,
        "version": spec["version"],
        "asked": asked,
    }


def read_ground(setting: QualitySetting, city_seed: int, estimated_at: Path, true_at: Path) -> Any:
    """A setting in the city whose params lie in these files."""
    from parity311.mdp.harness import Harness
    from parity311.studies.quality.measure import Ground

    domain = get_domain(setting.domain)
    example = domain.play.example()
    change = VARIANTS[setting.variant]
    estimated, true = (change(read_params(path, example)) for path in (estimated_at, true_at))
    harness = Harness(
        domain, observation_set=setting.observation_set, action_set=setting.action_set
    )
    return Ground(setting, harness, estimated, true, city_seed)
