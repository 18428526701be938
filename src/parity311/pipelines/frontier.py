"""`parity311 frontier`: learn a menu of preferences before the test period, score it after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.agents import check_acts, get_entry
from parity311.domains import get_domain
from parity311.errors import EstimationError, InputError, RunError
from parity311.estimation.world import World, make_world
from parity311.evaluation.compare import check_comparable, later_flow
from parity311.evaluation.frontier import Frontier, play_frontier
from parity311.evaluation.frontier_figures import (
    PriceFloor,
    measure_sensitivity,
    name_most_moving,
    price_of_rule,
    summarise_frontier,
)
from parity311.jobs.choose import HERE, Workplace
from parity311.mdp.contract import Domain
from parity311.mdp.equity import USUAL_TERM, EquityTerm
from parity311.mdp.harness import Harness
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.progress import Report as Progress
from parity311.records.store import Records, open_records
from parity311.report.describe import add_city
from parity311.report.frontier_page import write_page
from parity311.report.store import RunWriter, start_run
from parity311.reporting.estimate import check_estimator
from parity311.storage.strict_json import write_json
from parity311.training import train
from parity311.training.checkpoint import digest_arrays
from parity311.training.frontier import load_moocore, spread_preferences
from parity311.training.loop import Trained
from parity311.training.sweep import read_sweep, run_sweep

ESTIMATORS = ("exposure_rate", "raw", "as_published")
"""Corrections that are exchanged; the first is the one that is used"""
FRONTIER_FILE = "frontier.json"


@dataclass(frozen=True)
class FrontierConfig:
    """What a frontier depends on.

    Examples
    --------
    >>> parity311.FrontierConfig("boiler", "cities/small-7-measured-calibrated").agent
    'conditioned'
    """

    domain: str
    city: str
    """Folder of a synthetic city or of imported records"""
    preferences: int = 128
    seeds: int = 5
    agent: str = "conditioned"
    """one network for all of them, or an agent for each; a sweep's own where one is given"""
    steps: int = 10_000
    """Updates of every agent"""
    sweep: str = ""
    """Folder of an earlier sweep to take the agents from"""
    estimator: str = ""
    """How complaints become incidents; the first of `ESTIMATORS` that works if empty"""
    term: EquityTerm = USUAL_TERM
    """Which equity term is paid"""
    has_sensitivity: bool = True
    seed: int = 0
    """Of the test episodes"""


def check_config(config: FrontierConfig) -> Domain:
    """Refuse what cannot work before anything is read or trained."""
    domain = get_domain(config.domain)
    # A domain without a decision process says so here.
    _ = domain.play
    if config.preferences < 2 or config.seeds < 1 or config.steps < 1:
        raise InputError(
            f"{config.preferences} preferences, {config.seeds} seeds and {config.steps} steps were "
            "asked for; a frontier needs at least 2 preferences, 1 seed and 1 step."
        )
    check_acts("agent of a frontier", config.agent)
    check_comparable(config.term)
    load_moocore()
    return domain


def run_frontier(
    config: FrontierConfig, *, runs: Path, progress: Progress, where: Workplace = HERE
) -> dict[str, Any]:
    """Learn, score, measure, write the run; what was found, as plain figures."""
    domain = check_config(config)
    if where != HERE and (config.sweep or get_entry(config.agent).covers_preferences):
        raise InputError(
            f"The agents of this frontier are one piece ({config.sweep or config.agent}), which no "
            "engine divides; leave out --engine, --workers and --shard, or choose an agent that is "
            "trained for each preference, such as --agent dqn."
        )
    records = open_records(Path(config.city), config.term.strata)
    world = read_world(domain, records, config.estimator)
    # What cannot be estimated or scored is told before anything is learned.
    _ = world.estimated, world.scored, world.others
    harness = Harness(domain, **asdict(config.term))
    with start_run(runs, "frontier", asdict(config)) as run:
        run.set_seeds(agents=config.seeds, episodes=config.seed)
        (add_records if records.is_real else add_city)(run, records)
        with run.stage("learning"):
            menu, trained = learn_menu(config, harness, world, runs, progress, where)
        with run.stage("playing"):
            frontier = play_frontier(
                harness, world.estimated, world.scored, menu, trained, seed=config.seed,
                on_seed=lambda so_far, total: progress("playing", so_far, total),
            )  # fmt: skip
        rows: list[dict[str, Any]] = []
        if config.has_sensitivity:
            with run.stage("sensitivity"):
                rows = measure_sensitivity(
                    harness, world.estimated, world.scored, world.others,
                    n_seeds=config.seeds, steps=config.steps, seed=config.seed,
                    progress=lambda so_far, total: progress("assumptions", so_far, total),
                )  # fmt: skip
        made_by = replace(
            config, agent=trained.agent.name, seeds=len(set(trained.seeds.tolist())),
            steps=int(trained.curve[-1]["steps"]),
        )  # fmt: skip
        found = _describe(made_by, harness, world, frontier, rows)
        _write(run, found)
    page = run.final_path / "frontier.html"
    return {"run": run.id, "page": str(page), "config": asdict(config), **found}


def read_world(domain: Domain, records: Records, estimator: str = "") -> World:
    """The world that is learned in before the test period and scored in after it."""
    if estimator:
        check_estimator(estimator)
    query = "SELECT count(*) AS n FROM complaints WHERE domain = $domain"
    n = records.sql(query, domain=domain.slug)
    if not int(n["n"][0].as_py()):
        raise EstimationError(
            f"{records.folder} has no complaint of {domain.slug!r}; name a domain that it has, or "
            "other records."
        )
    return make_world(domain, records, estimators=ESTIMATORS, chosen=estimator, may_fail=True)


def learn_menu(
    config: FrontierConfig,
    harness: Harness,
    world: World,
    runs: Path,
    progress: Progress,
    where: Workplace = HERE,
) -> tuple[np.ndarray, Trained]:
    """The menu and its agents: one network, one agent each, or those of an earlier sweep."""
    if config.sweep:
        return read_sweep(Path(config.sweep), harness, world.estimated)
    menu = spread_preferences(harness.domain.preference, config.preferences)
    told = lambda so_far, total, _: progress("learning", so_far, total)  # noqa: E731
    if get_entry(config.agent).covers_preferences:
        trained = train(
            harness.domain, world.estimated, config.agent, menu, range(config.seeds),
            config.steps, term=config.term, progress=told,
        )  # fmt: skip
        return menu, trained
    # One folder a question, so that an interrupted sweep goes on and another is never mistaken.
    asked = f"{len(menu)}x{config.seeds}-{config.steps}-{digest_arrays(world.estimated)[:8]}"
    asked += "".join(f"-{value}" for value in departures(config.term).values())
    folder = runs / f"sweep-{config.domain}-{config.agent}-{asked}"
    summary = run_sweep(
        config.domain, config.agent, menu, range(config.seeds), config.steps, out=folder,
        records=Path(config.city), until=world.test_from, term=config.term,
        estimator=world.correction.calibration.estimator,
        resume=folder.exists(), where=where, progress=told,
    )  # fmt: skip
    if summary["jobs_left"]:
        raise RunError(
            f"{summary['jobs'] - summary['jobs_left']} of {summary['jobs']} chunks are done and "
            f"kept in {folder}; run the other shards, then the same command without --shard."
        )
    return read_sweep(folder, harness, world.estimated)


def _describe(
    config: FrontierConfig,
    harness: Harness,
    world: World,
    frontier: Frontier,
    sensitivity: list[dict[str, Any]],
) -> dict[str, Any]:
    flow = later_flow(harness, world.estimated, world.scored)
    found = summarise_frontier(frontier, PriceFloor(harness, flow))
    for point in found["points"]:
        point["command"] = command_for(
            config,
            frontier.menu[point["place"]],
            world.test_from,
            world.correction.calibration.estimator,
        )
    return {
        "domain": config.domain,
        "setting": world.scenario.words,
        "is_real": world.records.is_real,
        "correction": world.correction.describe(),
        "agent": config.agent,
        "seeds": int(frontier.learned.gap.shape[1]),
        "test_from": str(world.test_from),
        "estimator": world.correction.calibration.estimator,
        "failed_estimators": dict(world.correction.failed),
        **found,
        "dual_rule": price_of_rule(frontier),
        "sensitivity": sensitivity,
        "most_moving": name_most_moving(sensitivity) if sensitivity else None,
    }


def command_for(
    config: FrontierConfig, preference: np.ndarray, test_from: date, estimator: str = ESTIMATORS[0]
) -> str:
    """The command that trains the policies of one point, with the same seeds and budget."""
    weights = ",".join(f"{float(weight):.6g}" for weight in preference)
    chosen = "" if estimator == ESTIMATORS[0] else f"--estimator {estimator} "
    return (
        f"parity311 train {config.domain} --agent {config.agent} --preference {weights} "
        f"--records {config.city} --until {test_from} {chosen}--steps {config.steps} "
        f"--seeds {config.seeds}"
        + "".join(
            f" --{name.replace('_', '-')} {value}"
            for name, value in departures(config.term).items()
        )
    )


def departures(term: EquityTerm) -> dict[str, str]:
    """In what an equity term is not the usual one, by the name of its option."""
    usual = asdict(USUAL_TERM)
    return {name: value for name, value in asdict(term).items() if value != usual[name]}


def _write(run: RunWriter, found: dict[str, Any]) -> None:
    run.add_metrics({"frontier": found})
    run.add_table("frontier", [flatten_point(point) for point in found["points"]])
    run.add_table("rules", [flatten_point(rule) for rule in found["rules"]])
    run.add_table("price_curve", [flatten_point(row) for row in found["price_curve"]])
    if found["sensitivity"]:
        run.add_table("sensitivity", [flatten_point(row) for row in found["sensitivity"]])
    write_json(run.path / FRONTIER_FILE, found)
    (run.path / "frontier.csv").write_bytes((run.path / "tables" / "frontier.csv").read_bytes())
    write_page(run, found)


def flatten_point(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one row: figures as value, lower and upper, a preference as four weights."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name == "preference":
            row |= {f"weight_{part}": weight for part, weight in value.items()}
        elif isinstance(value, Mapping):
            row |= {name if k == "value" else f"{name}_{k}": v for k, v in value.items()}
        else:
            row[name] = value
    return row
