"""The whole way of the data in one call: city, correction, learning, comparison, audit, report.

Two versions of the same city are taken through it, because the evidence leaves open how unequally
people report and how scarce visits are: one where both are strong, one as measured.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Condition, Event
from typing import Any

import jax
import numpy as np

from parity311.agents import check_acts
from parity311.audit.assess import audit_inputs
from parity311.audit.cells import AuditInputs, read_inputs
from parity311.audit.episodes import EpisodeInputs
from parity311.city.ensure import open_or_build
from parity311.city.presets import get_preset
from parity311.domains import all_domains, get_domain
from parity311.errors import InputError
from parity311.estimation.correction import FALLBACK, incident_draws, include
from parity311.estimation.world import ESTIMATORS, World, make_world, rows_used, scenario_of
from parity311.evaluation.compare import check_comparable, compare_policies
from parity311.evaluation.comparison_statistics import gap_ranges
from parity311.evaluation.rollout import Contender, Episodes
from parity311.explain.inputs import ExplainInputs
from parity311.explain.policy import find_top_proxy
from parity311.mdp.contract import N_KNOWN_STRATA, Domain
from parity311.mdp.equity import USUAL_TERM, EquityTerm
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.feature_price import feature_sets, price_features
from parity311.pipelines.keep_policies import keep_episodes, keep_policies
from parity311.pipelines.packages import keep_packages, route_last_day
from parity311.pipelines.progress import Report as Progress
from parity311.records.describe import count_located
from parity311.records.store import Records, open_records
from parity311.report.audit_inputs import store_inputs
from parity311.report.describe import add_city
from parity311.report.explain_inputs import store_policies, store_variants
from parity311.report.run_page import write_report
from parity311.report.store import RunWriter, start_run
from parity311.reporting.calibration import Calibration
from parity311.reporting.estimate import check_estimator
from parity311.training import train, with_equity
from parity311.training.loop import Trained

DAYS_A_YEAR = 365.0
MOST_TIMES = 4
"""How many times the usual episodes are played where they are short, at most."""
SIDE_BY_SIDE = 2
"""Domains, or sources of one, taken at once: the project's figures are for two cores."""
Stage = Callable[[str], AbstractContextManager[None]]
"""(name of a part) -> a context that measures it"""
SCENARIOS = (("strong", "scarce"), ("measured", "calibrated"))
"""Participation and capacity of the two cities: where inequality would show, and as measured."""


@dataclass(frozen=True)
class RunConfig:
    """What the whole way depends on.

    Examples
    --------
    >>> parity311.RunConfig(domains=("boiler",)).preset
    'small'
    """

    preset: str = "small"
    """City to build"""
    seed: int = 7
    """Seed of the city, the agents and the test episodes"""
    domains: tuple[str, ...] = ("heat", "boiler")
    """Domains to take through it"""
    agent: str = "priced"
    """Agent that learns, with and without a weight on coverage; its prices can be followed"""
    n_steps: int = 8_000
    """Updates of each agent"""
    n_agent_seeds: int = 2
    """Agents trained for each preference"""
    n_episodes: int = 64
    """Test episodes every policy plays, the same for all; more where they are short"""
    n_years: float = 8.0
    """Simulated years that test episodes come to at least, where a queue is worked off"""
    n_independent_episodes: int = 256
    """The same where steps are independent, episodes short and cheap"""
    equity_weight: float = 0.5
    """α₃ of the agents that are paid for coverage"""
    records: str = ""
    """Folder of imported records to use instead of synthetic cities"""
    estimator: str = ""
    """How complaints become incidents; the usual way if empty, and then complaints as they are
    where that fails"""
    term: EquityTerm = USUAL_TERM
    """Which equity term the agents are paid that have a weight on coverage"""


@dataclass(frozen=True)
class DomainResult:
    """What one domain in one city gave."""

    comparison: dict[str, Any]
    """plain numbers, for JSON and the report"""
    audit_inputs: AuditInputs
    episodes: list[EpisodeInputs]
    explained: list[ExplainInputs]
    variants: list[dict[str, Any]]
    curve: list[dict[str, Any]]
    trained: Trained
    world: World


def run_pipeline(
    config: RunConfig, *, runs: Path, cities: Path, progress: Progress
) -> dict[str, Any]:
    """Take the domains through every scenario and write the run; returns what was found."""
    domains = [get_playable(slug) for slug in config.domains]
    get_preset(config.preset)
    check_acts("agent of a run", config.agent)
    check_comparable(config.term)
    if config.estimator:
        check_estimator(config.estimator)
    with start_run(runs, "run", asdict(config)) as run:
        run.set_seeds(city=config.seed, agents=config.n_agent_seeds)
        sources = list(_sources(run, config, cities, progress))
        taken = _take_all(run, domains, sources, config, progress)
        results = [result for result, _ in taken]
        comparisons = [result.comparison for result in results]
        run.add_metrics({"comparisons": comparisons})
        store_inputs(
            run,
            [result.audit_inputs for result in results],
            [one for result in results for one in result.episodes],
        )
        store_policies(run, [one for result in results for one in result.explained])
        store_variants(run, [row for result in results for row in result.variants])
        with run.stage("recommendations"):
            served = route_last_day(run, [(result.world, kept) for result, kept in taken])
        with run.stage("report"):
            write_report(
                run,
                comparisons,
                [result.curve for result in results],
                [result.audit_inputs for result in results],
            )
    return {
        "run": run.id,
        "report": str(run.final_path / "report.html"),
        "config": asdict(config),
        "comparisons": comparisons,
        "recommendations": served,
    }


def _sources(
    run: RunWriter, config: RunConfig, cities: Path, progress: Progress
) -> Iterator[Records]:
    """Imported records, or one synthetic city a scenario; each is recorded as data of the run."""
    if config.records:
        records = open_records(config.records)
        if not records.is_real:
            raise InputError(
                f"{config.records} is a synthetic city; --records takes a folder that `parity311 "
                "records import` wrote."
            )
        add_records(run, records)
        yield records
        return
    with building_beside(config, SCENARIOS[1:], cities) as wait:
        for participation, capacity in SCENARIOS:
            with run.stage(f"city, {participation} and {capacity}"):
                if (participation, capacity) != SCENARIOS[0]:
                    wait()
                records = ensure_city(config, participation, capacity, cities, progress)
            add_city(run, records)
            yield records


class _Stopped(Exception):
    """Another domain failed, or the user has had enough."""


@dataclass
class _Ahead:
    """How far a source of a domain has come, for the next one, which follows it."""

    n_ended: float = 0
    """stages behind it"""
    changed: Condition = field(default_factory=Condition)

    def has_ended(self, n_stages: float) -> None:
        """Tell who follows that so many stages are behind this source."""
        with self.changed:
            self.n_ended = n_stages
            self.changed.notify_all()

    def wait_for(self, n_stages: int) -> None:
        """Wait until so many stages are behind this source."""
        with self.changed:
            self.changed.wait_for(lambda: self.n_ended >= n_stages)


def _take_all(
    run: RunWriter,
    domains: Sequence[Domain],
    sources: Sequence[Records],
    config: RunConfig,
    progress: Progress,
) -> list[tuple[DomainResult, dict[float, Path]]]:
    """Every domain through every source, with its policies as packages.

    Two at a time. Sources of one domain share compiled programs, so a later one enters a stage only
    when the one before has left it and all that the stage compiles is there. Programs and their
    compiler leave Python's lock, so that threads are enough.
    """
    stopped = Event()

    def tell(part: str, so_far: float, total: float) -> None:
        if stopped.is_set():
            raise _Stopped
        progress(part, so_far, total)

    def take_one(
        domain: Domain, records: Records, before: _Ahead | None, own: _Ahead
    ) -> tuple[DomainResult, dict[float, Path]]:
        numbers = count(1)

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            number = next(numbers)
            if before is not None:
                before.wait_for(number)
            if stopped.is_set():
                raise _Stopped
            with run.stage(name):
                yield
            own.has_ended(number)

        try:
            # Opened again: a connection to records serves one thread.
            mine = open_records(records.folder)
            result = take_domain(domain, mine, config, tell, stage)
            with stage(f"{domain.slug} ({scenario_of(mine).words}): packages"):
                return result, keep_packages(run, result.trained, result.world)
        except BaseException:
            stopped.set()
            raise
        finally:
            own.has_ended(math.inf)

    # Whoever is waited for comes earlier in the line than who waits.
    line = [(0, domain) for domain in domains]
    line += [(place, one) for place in range(1, len(sources)) for one in reversed(domains)]
    ahead = {(place, one.slug): _Ahead() for place, one in line}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        taken = {
            (place, one.slug): pool.submit(
                take_one, one, sources[place], ahead.get((place - 1, one.slug)),
                ahead[place, one.slug],
            )
            for place, one in line
        }  # fmt: skip
        try:
            for finished in as_completed(taken.values()):
                # Who was stopped is not why: the one that failed ends too, and says it.
                with suppress(_Stopped):
                    finished.result()
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    places = range(len(sources))
    return [taken[place, domain.slug].result() for domain in domains for place in places]


def get_playable(slug: str) -> Domain:
    """A domain with a decision process, or an error that names those that have one."""
    domain = get_domain(slug)
    if not domain.is_playable:
        names = [name for name, other in all_domains().items() if other.is_playable]
        raise InputError(
            f"Domain {slug!r} has no decision process yet; choose among {', '.join(names)}."
        )
    return domain


@contextmanager
def building_beside(
    config: RunConfig, scenarios: Sequence[tuple[str, str]], cities: Path
) -> Iterator[Callable[[], None]]:
    """Build cities that are not there in a process each; gives what waits until they are done.

    Whether they came about is for `ensure_city` to say, which builds what is missing.
    """
    at_work: list[subprocess.Popen[bytes]] = []
    for participation, capacity in scenarios:
        out = city_folder(config, participation, capacity, cities)
        if (os.cpu_count() or 1) > 1 and not out.exists():
            command = [
                sys.executable, "-m", "parity311", "city", "build", "--out", str(out),
                "--preset", config.preset, "--seed", str(config.seed),
                "--participation", participation, "--capacity", capacity,
            ]  # fmt: skip
            quiet = subprocess.DEVNULL
            at_work.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))

    def wait() -> None:
        for one in at_work:
            one.wait()

    try:
        yield wait
    finally:
        for one in at_work:
            # Who has ended is left alone.
            one.terminate()
            one.wait()


def city_folder(config: RunConfig, participation: str, capacity: str, cities: Path) -> Path:
    """Where the city of this configuration is kept."""
    return cities / f"{config.preset}-{config.seed}-{participation}-{capacity}"


def ensure_city(
    config: RunConfig, participation: str, capacity: str, cities: Path, progress: Progress
) -> Records:
    """Open the city of this configuration, building it first where it is not there or not whole."""
    label = f"city ({participation}, {capacity})"
    return open_or_build(
        city_folder(config, participation, capacity, cities),
        tuple(domain.process for domain in all_domains().values()),
        preset=config.preset,
        seed=config.seed,
        participation=participation,
        capacity=capacity,
        progress=lambda stage, so_far, total: progress(f"{label}: {stage}", so_far, total),
    )


def take_domain(
    domain: Domain,
    records: Records,
    config: RunConfig,
    progress: Progress,
    stage: Stage = lambda name: nullcontext(),
) -> DomainResult:
    """Correct, estimate, train, compare and audit one domain in one city.

    The last year (of real records, the last fifth of the complaints) is for testing; everything
    before it is what the agency may learn from. ``stage`` measures how long each part takes.
    """
    scenario = scenario_of(records)
    setting, label = scenario.words, f"{domain.slug} ({scenario.words})"
    grouped = open_records(records, config.term.strata)
    with stage(f"{label}: correction"):
        world = make_world(
            domain, grouped, estimators=ESTIMATORS, chosen=config.estimator,
            may_fail=records.is_real or bool(config.estimator),
            tell=lambda so_far, total: progress(f"{label}: correction", so_far, total),
        )  # fmt: skip
        # What cannot be scored is told before anything is learned.
        _ = world.scored
    correction, test_from, date_to = world.correction, world.test_from, records.window[1]
    with stage(f"{label}: training"):
        trained = _train(world, config, label, progress)
    with stage(f"{label}: comparison"):
        policies, episodes = _compare(trained, world, config)
    progress(f"{label}: comparison", 1, 1)
    with stage(f"{label}: reasons"):
        explained = keep_policies(
            trained, grouped, world.estimated, setting=setting, date_from=test_from, date_to=date_to
        )
    with stage(f"{label}: features"):
        variants = _price_features(trained, explained, world, config, label, progress)
    with stage(f"{label}: audit"):
        draws, audit_note = incident_draws(
            records, domain.slug, test_from, config.seed, config.estimator
        )
        inputs = read_inputs(
            records, domain.slug, date_from=test_from, date_to=date_to, incident_draws=draws
        )
        inputs = replace(inputs, setting=setting)
        judged = audit_inputs(inputs, strata=config.term.strata)
    progress(f"{label}: audit", 1, 1)
    comparison = {
        "domain": domain.slug,
        "participation": scenario.participation,
        "capacity": scenario.capacity,
        "observation_set": domain.default_observation_set,
        **asdict(config.term),
        "is_real": records.is_real,
        **correction.describe(),
        "rows": rows_used(records, domain.slug, test_from),
        # Rows in scope and rows that found a tract, as the import counted them.
        "located": count_located(records, domain.slug),
        "simulated_years": _n_episodes(world, config) * _episode_years(world),
        "true_shares": _true_shares(world),
        "gap_ranges": _gap_ranges(policies, world),
        "audit_note": audit_note,
        "policies": policies,
        "reporting": _denominator_rows(correction.calibrations),
        "audit": judged,
        "assumptions": correction.calibration.assumptions,
    }
    priced = [{"domain": domain.slug, "setting": setting, **row} for row in variants]
    return DomainResult(
        comparison, inputs, episodes, explained, priced, _curve_rows(trained), trained, world
    )


def _compare(
    trained: Trained, world: World, config: RunConfig
) -> tuple[list[dict[str, Any]], list[EpisodeInputs]]:
    """Compare every policy, and keep the scored episodes for the audit."""
    domain, setting = world.domain, world.scenario.words
    cases = domain.play.cases
    kept: list[EpisodeInputs] = []

    def keep(contenders: Sequence[Contender], scored: Episodes) -> None:
        n_cases = None if cases is None else len(cases(world.scored).stratum)
        names = [trained.agent.name]
        kept.extend(
            keep_episodes(
                domain.slug, setting, contenders, scored, names,
                n_cases=n_cases, strata=config.term.strata,
            )
        )  # fmt: skip

    policies = compare_policies(
        trained.harness,
        world.estimated,
        world.scored,
        [trained],
        n_episodes=_n_episodes(world, config),
        key=jax.random.key(config.seed),
        preference=domain.preference,
        on_scored=keep,
    )
    return policies, kept


def _true_shares(world: World) -> list[float] | None:
    """Each known stratum's share of the incidents there really are; None of real records."""
    incidents = world.domain.play.incidents_per_step
    if world.records.is_real or incidents is None:
        return None
    known = np.asarray(incidents(world.scored))[:N_KNOWN_STRATA]
    return (known / known.sum()).tolist() if known.sum() > 0 else None


def _gap_ranges(policies: list[dict[str, Any]], world: World) -> dict[str, dict[str, float]]:
    """What the estimate leaves open of every gap; nothing where the truth is what scores."""
    if not world.records.is_real or world.correction.used == FALLBACK:
        return {}
    return gap_ranges(policies, world.correction)


def _n_episodes(world: World, config: RunConfig) -> int:
    if world.domain.play.cases is not None:
        return config.n_independent_episodes
    wanted = math.ceil(config.n_years / _episode_years(world))
    return min(max(config.n_episodes, wanted), MOST_TIMES * config.n_episodes)


def _episode_years(world: World) -> float:
    """Length of an episode."""
    domain = world.domain
    days = domain.max_steps / float(domain.play.steps_per_day(world.scored))
    return days / DAYS_A_YEAR


def _price_features(
    trained: Trained,
    explained: list[ExplainInputs],
    world: World,
    config: RunConfig,
    label: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """What features that say where a complaint comes from, or stand in for income, are worth."""
    domain = world.domain
    # Training a queue again takes minutes: only for a feature that clearly stands in for income.
    is_queue = domain.play.cases is None
    top = find_top_proxy(explained[0], only_clear=is_queue) if explained else None
    sets = feature_sets(domain, trained.harness.observation_names, top)
    if len(sets) < 2:
        return []
    return price_features(
        trained,
        sets,
        world.estimated,
        world.scored,
        seeds=[int(seed) for seed in dict.fromkeys(trained.seeds.tolist())],
        n_steps=config.n_steps,
        n_episodes=_n_episodes(world, config),
        key=jax.random.key(config.seed),
        preference=domain.preference,
        progress=lambda so_far, total: progress(f"{label}: features", so_far, total),
    )


def _train(world: World, config: RunConfig, label: str, progress: Progress) -> Trained:
    plain = world.domain.preference
    return train(
        world.domain,
        world.estimated,
        config.agent,
        [plain, with_equity(plain, config.equity_weight)],
        [config.seed + number for number in range(config.n_agent_seeds)],
        config.n_steps,
        term=config.term,
        progress=lambda so_far, total, _: progress(f"{label}: training", so_far, total),
    )


def _denominator_rows(calibrations: dict[str, Calibration]) -> list[dict[str, Any]]:
    """Estimated incidents per four weeks, by estimator and stratum."""
    rows = []
    for found in calibrations.values():
        for index, stratum in enumerate(found.strata):
            value = float(found.denominators[index])
            lower, upper = include(value, *found.intervals[index])
            rows.append(
                {
                    "estimator": found.estimator,
                    "stratum": stratum,
                    "incidents_per_28_days": value,
                    "lower": lower,
                    "upper": upper,
                    "complaints_per_28_days": float(found.complaints[index]),
                }
            )
    return rows


def _curve_rows(trained: Trained) -> list[dict[str, Any]]:
    """Learning curve of every agent, one row a block."""
    rows = []
    for entry in trained.curve:
        for index in range(trained.n_agents):
            rows.append(
                {
                    "steps": int(entry["steps"]),
                    "equity_weight": float(trained.preferences[index, 2]),
                    "seed": int(trained.seeds[index]),
                    **{
                        name: float(values[index])
                        for name, values in entry.items()
                        if name != "steps"
                    },
                }
            )
    return rows
