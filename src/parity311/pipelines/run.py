"""The whole way of the data in one call: city, correction, learning, comparison, audit, report.

Two versions of the same city are taken through it, because the evidence leaves open how unequally
people report and how scarce visits are: one where both are strong, one as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import jax

from parity311.audit.cells import AuditInputs, read_inputs
from parity311.audit.episodes import EpisodeInputs
from parity311.audit.recorded import audit_inputs
from parity311.city.build import build_city
from parity311.city.ensure import open_or_build
from parity311.city.presets import get_preset
from parity311.domains import all_domains, get_domain
from parity311.errors import InputError
from parity311.estimation.correction import (
    FALLBACK,
    Correction,
    calibrate_what_can_be,
    incident_draws,
    include,
)
from parity311.estimation.world import (
    first_test_day,
    rows_used,
    scoring_params,
    setting_of,
)
from parity311.evaluation.compare import compare_policies
from parity311.evaluation.comparison_statistics import gap_ranges
from parity311.evaluation.rollout import Contender, Episodes
from parity311.explain.inputs import ExplainInputs
from parity311.explain.policy import find_top_proxy
from parity311.mdp.contract import Domain
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.feature_price import feature_sets, price_features
from parity311.pipelines.keep_policies import keep_episodes, keep_policies
from parity311.pipelines.progress import Report as Progress
from parity311.records.describe import count_located
from parity311.records.store import Records, open_records
from parity311.report.audit_inputs import store_inputs
from parity311.report.describe import add_city
from parity311.report.explain_inputs import store_policies, store_variants
from parity311.report.run_page import write_report
from parity311.report.store import RunWriter, start_run
from parity311.reporting.calibration import Calibration, calibrate
from parity311.training import train, with_equity
from parity311.training.loop import Trained

SCENARIOS = (("strong", "scarce"), ("measured", "calibrated"))
"""Participation and capacity of the two cities: where inequality would show, and as measured."""

ESTIMATORS = ("exposure_rate", "as_published", "raw")
"""Corrections that are set side by side; which one is used is `Correction.used`."""


@dataclass(frozen=True)
class WholeWayConfig:
    """What the whole way depends on.

    Examples
    --------
    >>> parity311.WholeWayConfig(domains=("boiler",)).preset
    'small'
    """

    preset: str = "small"
    """City to build"""
    seed: int = 7
    """Seed of the city, the agents and the test episodes"""
    domains: tuple[str, ...] = ("boiler", "heat")
    """Domains to take through it"""
    n_steps: int = 8_000
    """Updates of each agent"""
    n_agent_seeds: int = 2
    """Agents trained for each preference"""
    n_episodes: int = 64
    """Test episodes every policy plays, the same for all"""
    n_independent_episodes: int = 256
    """The same where steps are independent, episodes short and cheap"""
    equity_weight: float = 0.5
    """α₃ of the agents that are paid for coverage"""
    records: str = ""
    """Folder of imported records to use instead of synthetic cities"""


@dataclass(frozen=True)
class DomainResult:
    """What one domain in one city gave."""

    domain: Domain
    participation: str
    capacity: str
    observation_set: str
    is_real: bool
    policies: list[dict[str, Any]]
    denominators: list[dict[str, Any]]
    correction: dict[str, Any]
    """Which estimator was used, which failed and why, how well incidents are known"""
    gap_ranges: dict[str, dict[str, float]]
    """By policy, on real records: what the estimate leaves open of its gap"""
    rows: dict[str, dict[str, Any]]
    """Complaints learned from and tested on"""
    located: dict[str, int] | None
    """Rows in scope and rows that found a tract, as the import counted them"""
    audit: dict[str, Any]
    audit_note: str
    """Why the audit has no estimate of incidents, where it has none"""
    audit_inputs: AuditInputs
    episodes: list[EpisodeInputs]
    explained: list[ExplainInputs]
    variants: list[dict[str, Any]]
    curve: list[dict[str, Any]]
    assumptions: str


def run_whole_way(
    config: WholeWayConfig, *, runs: Path, cities: Path, progress: Progress
) -> dict[str, Any]:
    """Take the domains through every scenario and write the run; returns what was found."""
    domains = [get_playable(slug) for slug in config.domains]
    get_preset(config.preset)
    with start_run(runs, "run", asdict(config)) as run:
        run.set_seeds(city=config.seed, agents=config.n_agent_seeds)
        results = []
        for records in _sources(run, config, cities, progress):
            for domain in domains:
                with run.stage(f"{domain.slug}, {records.folder.name}"):
                    results.append(take_domain(domain, records, config, progress))
        comparisons = [as_comparison(result) for result in results]
        run.add_metrics({"comparisons": comparisons})
        store_inputs(
            run,
            [result.audit_inputs for result in results],
            [one for result in results for one in result.episodes],
        )
        store_policies(run, [one for result in results for one in result.explained])
        store_variants(run, [row for result in results for row in result.variants])
        write_report(run, comparisons, [result.curve for result in results])
    return {
        "run": run.id,
        "report": str(run.final_path / "report.html"),
        "config": asdict(config),
        "comparisons": comparisons,
    }


def _sources(
    run: RunWriter, config: WholeWayConfig, cities: Path, progress: Progress
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
    for participation, capacity in SCENARIOS:
        with run.stage(f"city, {participation} and {capacity}"):
            records = ensure_city(config, participation, capacity, cities, progress)
        add_city(run, records)
        yield records


def get_playable(slug: str) -> Domain:
    """A domain with a decision process, or an error that names those that have one."""
    domain = get_domain(slug)
    if not domain.is_playable:
        names = [name for name, other in all_domains().items() if other.is_playable]
        raise InputError(
            f"Domain {slug!r} has no decision process yet; choose among {', '.join(names)}."
        )
    return domain


def ensure_city(
    config: WholeWayConfig, participation: str, capacity: str, cities: Path, progress: Progress
) -> Records:
    """Open the city of this configuration, building it first where it is not there or not whole."""
    folder = cities / f"{config.preset}-{config.seed}-{participation}-{capacity}"
    build = partial(
        build_city,
        tuple(domain.process for domain in all_domains().values()),
        preset=config.preset,
        seed=config.seed,
        participation=participation,
        capacity=capacity,
        out=folder,
        overwrite=True,
        progress=lambda stage, so_far, total: progress(
            f"city ({participation}, {capacity}): {stage}", so_far, total
        ),
    )
    return open_or_build(folder, build)


def take_domain(
    domain: Domain, records: Records, config: WholeWayConfig, progress: Progress
) -> DomainResult:
    """Correct, estimate, train, compare and audit one domain in one city.

    The last year (of real records, the last fifth of the complaints) is for testing; everything
    before it is what the agency may learn from.
    """
    scenario = setting_of(records)
    setting, label = scenario.words, f"{domain.slug} ({scenario.words})"
    date_to, test_from = records.window[1], first_test_day(records, domain.slug)
    correction = _correct(domain, records, test_from, label, progress)
    calibration = correction.calibration
    estimated = domain.estimate(records, calibration, test_from)
    true = scoring_params(domain, records, calibration, test_from)
    trained = _train(domain, estimated, config, label, progress)
    policies, episodes = _compare(trained, estimated, true, config, setting)
    progress(f"{label}: comparison", 1, 1)
    explained = keep_policies(
        trained, records, estimated, setting=setting, date_from=test_from, date_to=date_to
    )
    variants = _price_features(trained, explained, estimated, true, config, label, progress)
    draws, audit_note = incident_draws(records, domain.slug, test_from, config.seed)
    inputs = read_inputs(
        records, domain.slug, date_from=test_from, date_to=date_to, incident_draws=draws
    )
    inputs = replace(inputs, setting=setting)
    progress(f"{label}: audit", 1, 1)
    return DomainResult(
        domain=domain,
        participation=scenario.participation,
        capacity=scenario.capacity,
        observation_set=domain.default_observation_set,
        is_real=records.is_real,
        policies=policies,
        denominators=_denominator_rows(correction.calibrations),
        correction=correction.describe(),
        gap_ranges=_gap_ranges(policies, correction, records),
        rows=rows_used(records, domain.slug, test_from),
        located=count_located(records, domain.slug),
        audit=audit_inputs(inputs),
        audit_note=audit_note,
        audit_inputs=inputs,
        episodes=episodes,
        explained=explained,
        variants=[{"domain": domain.slug, "setting": setting, **row} for row in variants],
        curve=_curve_rows(trained),
        assumptions=calibration.assumptions,
    )


def _compare(
    trained: Trained, estimated: Any, true: Any, config: WholeWayConfig, setting: str
) -> tuple[list[dict[str, Any]], list[EpisodeInputs]]:
    """Compare every policy, and keep the scored episodes for the audit."""
    domain = trained.harness.domain
    cases = domain.play.cases
    kept: list[EpisodeInputs] = []

    def keep(contenders: Sequence[Contender], scored: Episodes) -> None:
        n_cases = None if cases is None else len(cases(true).stratum)
        names = [trained.agent.name]
        kept.extend(keep_episodes(domain.slug, setting, contenders, scored, names, n_cases=n_cases))

    policies = compare_policies(
        trained.harness,
        estimated,
        true,
        [trained],
        n_episodes=_n_episodes(domain, config),
        key=jax.random.key(config.seed),
        preference=domain.preference,
        on_scored=keep,
    )
    return policies, kept


def _correct(
    domain: Domain, records: Records, test_from: date, label: str, progress: Progress
) -> Correction:
    """Every correction of what came before the test period, and the one that is used."""
    date_from = records.window[0]
    if records.is_real:
        found = calibrate_what_can_be(records, domain.slug, ESTIMATORS, date_from, test_from)
        progress(f"{label}: correction", 1, 1)
        return found
    calibrations = {}
    for number, estimator in enumerate(ESTIMATORS):
        calibrations[estimator] = calibrate(
            records, domain.slug, date_from=date_from, date_to=test_from, estimator=estimator
        )
        progress(f"{label}: correction", number + 1, len(ESTIMATORS))
    return Correction(calibrations, {})


def _gap_ranges(
    policies: list[dict[str, Any]], correction: Correction, records: Records
) -> dict[str, dict[str, float]]:
    """What the estimate leaves open of every gap; nothing where the truth is what scores."""
    if not records.is_real or correction.used == FALLBACK:
        return {}
    return gap_ranges(policies, correction)


def _n_episodes(domain: Domain, config: WholeWayConfig) -> int:
    return config.n_episodes if domain.play.cases is None else config.n_independent_episodes


def _price_features(
    trained: Trained,
    explained: list[ExplainInputs],
    estimated: Any,
    true: Any,
    config: WholeWayConfig,
    label: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """What features that say where a complaint comes from, or stand in for income, are worth."""
    domain = trained.harness.domain
    # Training a queue again takes minutes: only for a feature that clearly stands in for income.
    is_queue = domain.play.cases is None
    top = find_top_proxy(explained[0], only_clear=is_queue) if explained else None
    sets = feature_sets(domain, trained.harness.observation_names, top)
    if len(sets) < 2:
        return []
    return price_features(
        trained,
        sets,
        estimated,
        true,
        seeds=[int(seed) for seed in dict.fromkeys(trained.seeds.tolist())],
        n_steps=config.n_steps,
        n_episodes=_n_episodes(domain, config),
        key=jax.random.key(config.seed),
        preference=domain.preference,
        progress=lambda so_far, total: progress(f"{label}: features", so_far, total),
    )


def _train(
    domain: Domain, estimated: Any, config: WholeWayConfig, label: str, progress: Progress
) -> Trained:
    plain = domain.preference
    return train(
        domain,
        estimated,
        "dqn",
        [plain, with_equity(plain, config.equity_weight)],
        [config.seed + number for number in range(config.n_agent_seeds)],
        config.n_steps,
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


def as_comparison(result: DomainResult) -> dict[str, Any]:
    """A domain's result as plain numbers, for JSON."""
    return {
        "domain": result.domain.slug,
        "participation": result.participation,
        "capacity": result.capacity,
        "observation_set": result.observation_set,
        "is_real": result.is_real,
        **result.correction,
        "rows": result.rows,
        "located": result.located,
        "gap_ranges": result.gap_ranges,
        "audit_note": result.audit_note,
        "policies": result.policies,
        "reporting": result.denominators,
        "audit": result.audit,
        "assumptions": result.assumptions,
    }
