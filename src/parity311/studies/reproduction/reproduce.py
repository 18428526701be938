"""Three stages that may run on three machines: prepare, train, report.

The last stage: every policy played under the truth, every claim judged, one report.

What each job was trained with, beside what the paper gives for it.

The programme that is run is ours: our features, discounts and schedules, chosen so that agents
learn at all. The paper's hyper-parameters (its Tables 3 and 4) are used by no job but REINFORCE's
twenty episodes in heat, and by that one not in every respect; every difference is listed.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.domains import all_domains
from parity311.errors import InputError, unknown_name
from parity311.pipelines.progress import Report as Progress
from parity311.report.store import RunWriter, start_run
from parity311.report.tables import as_cell
from parity311.storage.locks import one_writer
from parity311.storage.strict_json import to_plain, write_json
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import judge_all
from parity311.studies.reproduction.evidence import Evidence
from parity311.studies.reproduction.jobs import BUDGETS
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.prepare import N_TABLE_ROWS
from parity311.studies.reproduction.protocols import parts_of
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX
from parity311.studies.reproduction.side_by_side import Call, run_calls
from parity311.studies.reproduction.train_stage import TRAINED
from parity311.studies.reproduction.trained_files import harness_of, settings_of

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence
    from parity311.studies.reproduction.jobs import Job

WORDS = {
    "learning_rate": "step size",
    "baseline_learning_rate": "step size of the baseline",
    "buffer_size": "buffer",
    "batch_size": "batch",
    "target_every": "target every",
    "discount": "γ",
    "epsilon_start": "first ε",
    "epsilon_end": "last ε",
    "epsilon_steps": "ε falls over",
    "hidden": "layers",
    "baseline_hidden": "layers of the baseline",
    "anneal_steps": "step size falls over",
    "episode_length": "steps of an episode",
    "entropy": "bonus for entropy",
    "conservatism": "CQL's penalty",
}
"""Hyper-parameters in words."""
EITHER_SIZE = {64, 128}
"""Units of a layer of DQN: the text allows both, whatever the table says."""


def published_settings(job: Job) -> dict[str, Any]:
    """What the paper gives for an agent in a domain; what it does not give is left out."""
    if job.agent == "reinforce":
        return dict(paper.REINFORCE_SETTINGS.get(job.domain, {"entropy": 0}))
    if job.agent == "td":
        return dict(paper.TD_SETTINGS)
    given = dict(paper.DQN_SETTINGS)
    if job.agent == "cql":
        given["conservatism"] = paper.CQL_PENALTY
    if job.agent == "hdqn":
        given["hidden"] = paper.HDQN_HIDDEN
    return given


def used_settings(job: Job) -> Any:
    """The configuration a job's agents were made with."""
    from parity311.training import agent_for

    return agent_for(harness_of(job), job.agent, job.steps, settings_of(job)).config


def list_differences(own: Any, published: Mapping[str, Any]) -> list[str]:
    """Every setting that is not the published one, with both values."""
    found = []
    for name, theirs in published.items():
        ours = getattr(own, name)
        if ours != theirs and not (name == "hidden" and {*ours} <= EITHER_SIZE):
            found.append(f"{WORDS[name]} {_show(ours)} (published {_show(theirs)})")
    return found


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "×".join(str(x) for x in value)
    if value == 0 and isinstance(value, int):
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def describe_job(job: Job, split: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One row: features, discount, other settings, split, rows and seeds, and what differs."""
    harness, own = harness_of(job), used_settings(job)
    n_published = len(harness.domain.observation_sets["published"])
    n_used = len(harness.columns)
    differences = list_differences(own, published_settings(job))
    if n_used != n_published:
        differences.insert(0, f"{n_used} features (published {n_published})")
    discounts = paper.REINFORCE_DISCOUNTS
    is_free = job.agent == "reinforce" and job.domain not in paper.REINFORCE_SETTINGS
    if is_free and own.discount not in discounts:
        differences.append(f"γ {own.discount:g} (published {discounts[0]:g} or {discounts[1]:g})")
    if any(preference[2] > 0 for preference in job.preferences):
        differences.append("equity by the coverage price (published: a term at every step)")
    given = split or {}
    n_learned = given.get("n_learned")
    if n_learned is not None and job.domain == "boiler" and n_learned > N_TABLE_ROWS:
        differences.append(f"{N_TABLE_ROWS:,} rows drawn from {n_learned:,}")
    return {
        "part": job.part,
        "scenario": job.scenario,
        "agent": job.label,
        "features": n_used,
        "discount": own.discount,
        "steps": job.steps,
        "seeds": len(job.seeds),
        "split": given.get("words", ""),
        "rows learned from": n_learned,
        "rows scored on": given.get("n_scored"),
        "differs": "; ".join(differences) or "nothing the paper gives",
    }


def describe_jobs(evidence: Evidence) -> list[dict[str, Any]]:
    """Every job of a reproduction."""
    return [describe_job(job, evidence.split(job.scenario, job.part)) for job in evidence.jobs]


CLAIMS_JSON, CLAIMS_CSV, PROGRAMME_JSON = "claims.json", "claims.csv", "programme.json"
COLUMNS = (
    "key", "area", "claim", "source", "quote", "published", "ours", "value", "lower", "upper",
    "verdict", "reason", "kind", "definition", "follows_from",
)  # fmt: skip


def write_reproduction(
    folder: Path, *, runs: Path, progress: Progress, n_episodes: int = 0, n_workers: int = 1
) -> dict[str, Any]:
    """Judge every claim and write the run; the claims as plain figures."""
    evidence = Evidence(folder, progress, n_episodes)
    check_trained(evidence)
    about = {**evidence.about, "n_jobs": len(evidence.jobs)}
    config = {name: about[name] for name in ("preset", "seed", "domains", "n_jobs")}
    with start_run(runs, "reproduce", config) as run:
        seeds = sorted({seed for job in evidence.jobs for seed in job.seeds})
        run.set_seeds(city=evidence.seed, agents=seeds)
        add_sources(run, evidence)
        with run.stage("episodes"):
            play_parts(evidence, n_workers)
        with run.stage("claims"):
            rows = judge_all(all_claims(), evidence)
        run.add_metrics({"claims": rows})
        write_json(run.path / CLAIMS_JSON, rows)
        write_csv(run.path / CLAIMS_CSV, rows)
        programme = describe_jobs(evidence)
        write_json(run.path / PROGRAMME_JSON, programme)
        run.add_table("claims", [flat_row(row) for row in rows])
        with run.stage("page"):
            write_page(run, evidence, rows, programme)
    return {
        "run": run.id,
        "report": str(run.final_path / "report.html"),
        "verdicts": dict(Counter(row["verdict"] for row in rows)),
        "claims": rows,
        "programme": programme,
    }


def play_parts(evidence: Evidence, n_workers: int) -> None:
    """Play every part, several at once; what was played is kept in the folder."""
    # What the boiler table needs is counted, not played.
    tables = {part.name for part in parts_of("boiler") if not part.has_capacity}
    keys = sorted({(job.scenario, job.part) for job in evidence.jobs if job.part not in tables})
    calls: list[Call] = [(_play_apart, (evidence.folder, evidence.n_episodes, *k)) for k in keys]
    for told in run_calls(calls, n_workers):
        evidence.progress(told, 1, 1)


def _play_apart(folder: Path, n_episodes: int, scenario: str, part: str) -> str:
    Evidence(folder, lambda *_: None, n_episodes).scored(scenario, part)
    return f"played: {scenario} {part}"


def check_trained(evidence: Evidence) -> None:
    """Refuse to report on agents that are not all trained."""
    folder = evidence.where.learn / TRAINED
    missing = [job.name for job in evidence.jobs if not (folder / job.file).exists()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(evidence.jobs)} trainings are missing in {folder}, the first "
            f"is {missing[0]}; run `parity311 reproduce --stage train` first."
        )


def add_sources(run: RunWriter, evidence: Evidence) -> None:
    """Record the cities as the data of the run."""
    for source in evidence.about["sources"].values():
        details = {k: v for k, v in source.items() if k not in ("name", "fingerprint")}
        run.add_data(
            source["name"],
            source["fingerprint"],
            is_synthetic=True,
            statement=(
                f"A synthetic city ({source['preset']}, seed {source['seed']}), with "
                f"{source['participation']} participation and {source['capacity']} capacity, "
                f"{source['date_from']} to {source['date_to']}. No real person or building is in "
                "it."
            ),
            **details,
        )


def flat_row(row: dict[str, Any]) -> dict[str, Any]:
    """A claim as columns of one kind each."""
    lower, upper = row["interval"] or (None, None)
    plain = to_plain({**row, "lower": lower, "upper": upper})
    return {name: plain[name] for name in COLUMNS}


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the claims for a spreadsheet."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            cells = flat_row(row).values()
            writer.writerow([as_cell(cell) if isinstance(cell, str) else cell for cell in cells])


STAGES = ("prepare", "train", "report")


@dataclass(frozen=True)
class ReproduceConfig:
    """What a reproduction depends on."""

    preset: str = "small"
    seed: int = 841
    """Seed of the cities and the agents; one that nobody tuned on"""
    domains: tuple[str, ...] = ()
    """Domains; all twelve if empty"""

    @property
    def chosen(self) -> tuple[str, ...]:
        """The paper's domains, each once, or an error that names one it has not."""
        known = {
            name: one
            for name, one in all_domains().items()
            if one.is_playable and name in DOMAINS_IN_APPENDIX
        }
        for slug in self.domains:
            if slug not in known:
                raise unknown_name("domain", slug, known)
        return tuple(dict.fromkeys(self.domains)) or tuple(known)


def run_stages(
    config: ReproduceConfig,
    *,
    stages: Sequence[str] = STAGES,
    folder: Path,
    cities: Path,
    runs: Path,
    slice_s: float = float("inf"),
    n_workers: int = 0,
    progress: Progress,
) -> dict[str, Any]:
    """Run these stages in order; what the last one found."""
    if config.preset not in BUDGETS:
        raise unknown_name("preset", config.preset, BUDGETS)
    for stage in stages:
        if stage not in STAGES:
            raise unknown_name("stage", stage, STAGES)
    # An unknown domain is refused before anything is written.
    config.chosen  # noqa: B018
    with one_writer(folder):
        return _run_in_order(config, stages, folder, cities, runs, slice_s, n_workers, progress)


def _run_in_order(
    config: ReproduceConfig,
    stages: Sequence[str],
    folder: Path,
    cities: Path,
    runs: Path,
    slice_s: float,
    n_workers: int,
    progress: Progress,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in stages:
        if stage == "prepare":
            from parity311.studies.reproduction.prepare import prepare

            found = prepare(
                folder, config.chosen, preset=config.preset, seed=config.seed, cities=cities,
                progress=progress, n_workers=n_workers or os.cpu_count() or 1,
            )  # fmt: skip
        elif stage == "train":
            found = _train(folder, slice_s, n_workers, progress)
            if found["missing"] and stage != stages[-1]:
                raise InputError(
                    f"{len(found['missing'])} of {found['jobs']} trainings are not finished; run "
                    "the stage again, it goes on where it stopped."
                )
        else:
            found = write_reproduction(
                folder, runs=runs, progress=progress, n_workers=n_workers or os.cpu_count() or 1
            )
    return found


def _train(folder: Path, slice_s: float, n_workers: int, progress: Progress) -> dict[str, Any]:
    from parity311.studies.reproduction.train_stage import run_stage

    return run_stage(
        folder / "learn",
        slice_s=slice_s,
        n_workers=n_workers or os.cpu_count() or 1,
        tell=lambda told: progress(f"training: {told['job']} ({told['seconds']:.0f} s)", 1, 1),
    )
