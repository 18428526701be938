"""Three stages that may run on three machines: prepare, train, report.

The last stage: every policy played under the truth, every claim judged, one report.

What each job was trained with, beside what the paper gives for it: in our programme features,
discounts and schedules are ours, in the paper's they are its own; every difference is listed. Where
the other programme was run too, its figures and verdicts stand beside, claim by claim.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.domains import all_domains
from parity311.errors import InputError, unknown_name
from parity311.jobs.choose import HERE, Workplace
from parity311.mdp.equity import PUBLISHED_TERM
from parity311.pipelines.progress import Report as Progress
from parity311.report.store import RunWriter, start_run
from parity311.report.tables import as_cell
from parity311.storage.locks import one_writer
from parity311.storage.strict_json import to_plain, write_json
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import judge_all
from parity311.studies.reproduction.claims.equity import price_rows
from parity311.studies.reproduction.evidence import Evidence
from parity311.studies.reproduction.jobs import BUDGETS, Budget
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.prepare import N_TABLE_ROWS, SCORE, prepare, read_facts_file
from parity311.studies.reproduction.programme import (
    OURS,
    PAPER,
    PROGRAMMES,
    get_programme,
    published_settings,
)
from parity311.studies.reproduction.protocols import parts_of
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX
from parity311.studies.reproduction.side_by_side import Call, run_calls
from parity311.studies.reproduction.train_stage import TRAINED
from parity311.studies.reproduction.trained_files import harness_of, settings_of
from parity311.studies.reproduction.verdicts import NOT_CLAIMED, UNTESTED

if TYPE_CHECKING:
    from parity311.mdp.harness import Harness
    from parity311.studies.reproduction.evidence import Evidence
    from parity311.studies.reproduction.jobs import TrainingJob

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


def used_settings(job: TrainingJob) -> Any:
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


def describe_job(job: TrainingJob, split: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One row: features, settings, equity term, split, rows and seeds, and what differs."""
    harness, own = harness_of(job), used_settings(job)
    published = published_settings(job.agent, job.domain)
    given, names, term = split or {}, harness.observation_names, harness.term
    shown = {word: getattr(own, name) for name, word in WORDS.items() if hasattr(own, name)}
    words = f"{term.equity_mode}, {term.equity_form}, over {term.denominator} incidents"
    return {
        "part": job.part,
        "scenario": job.scenario,
        "agent": job.label,
        "features": len(harness.columns),
        "feature names": ", ".join(names if len(names) <= 60 else (*names[:4], "…", names[-1])),
        "discount": own.discount,
        "settings": ", ".join(f"{word} {_show(value)}" for word, value in shown.items()),
        "reward": "as paid" if job.pays_all else "what an action saves",
        "equity": words if _is_paid(job) else "none",
        "steps": job.steps,
        "seeds": len(job.seeds),
        "seed numbers": ", ".join(map(str, job.seeds)),
        "split": given.get("words", ""),
        "days learned from": _days(given, "train"),
        "days scored on": _days(given, "test"),
        "rows learned from": given.get("n_learned"),
        "rows scored on": given.get("n_scored"),
        "differs": "; ".join(_differences(job, harness, own, published, given))
        or "nothing the paper gives",
    }


def _days(split: Mapping[str, Any], which: str) -> str | None:
    """First day, and the day after the last, of one side of a split."""
    ends = [split.get(f"{which}_{end}") for end in ("from", "to")]
    return None if None in ends else f"{ends[0]} to {ends[1]}"


def _is_paid(job: TrainingJob) -> bool:
    return any(preference[2] > 0 for preference in job.preferences)


def _differences(
    job: TrainingJob,
    harness: Harness,
    own: Any,
    published: Mapping[str, Any],
    split: Mapping[str, Any],
) -> list[str]:
    found = []
    n_published, n_used = len(harness.domain.observation_sets["published"]), len(harness.columns)
    if n_used != n_published:
        found.append(f"{n_used} features (published {n_published})")
    found += list_differences(own, published)
    discounts = paper.REINFORCE_DISCOUNTS
    is_free = job.agent == "reinforce" and job.domain not in paper.REINFORCE_SETTINGS
    if is_free and own.discount not in discounts:
        found.append(f"γ {own.discount:g} (published {discounts[0]:g} or {discounts[1]:g})")
    if _is_paid(job) and harness.term != PUBLISHED_TERM:
        found.append("equity by the coverage price (published: a term at every step)")
    n_learned = split.get("n_learned")
    is_drawn = job.domain == "boiler" and not job.pays_all
    if n_learned is not None and is_drawn and n_learned > N_TABLE_ROWS:
        found.append(f"{N_TABLE_ROWS:,} rows drawn from {n_learned:,}")
    return found


def describe_jobs(evidence: Evidence) -> list[dict[str, Any]]:
    """Every job of a reproduction."""
    return [describe_job(job, evidence.split(job.scenario, job.part)) for job in evidence.jobs]


CLAIMS_JSON, CLAIMS_CSV, PROGRAMME_JSON = "claims.json", "claims.csv", "programme.json"
PRICES_JSON = "prices.json"
BESIDE_JSON = "beside.json"
"""What one programme found, kept in its folder for the report of the other."""
COLUMNS = (
    "key", "area", "claim", "source", "quote", "published", "ours", "value", "lower", "upper",
    "verdict", "reason", "kind", "definition", "follows_from", "beside", "beside_verdict",
    "beside_reason", "why_apart",
)  # fmt: skip


def keep_for_other(
    folder: Path, evidence: Evidence, rows: list[dict[str, Any]], jobs: list[dict[str, Any]]
) -> None:
    """Keep what a programme found, for the report of the other one."""
    about = {"programme": evidence.programme.name, "sources": evidence.about["sources"]}
    write_json(folder / SCORE / BESIDE_JSON, {**about, "claims": rows, "jobs": jobs})


def read_other(folder: Path | None, own: Evidence) -> dict[str, Any] | None:
    """What the other programme found in the same cities; None where it was not run there."""
    if folder is None or not (folder / SCORE / BESIDE_JSON).exists():
        return None
    found = read_facts_file(folder / SCORE / BESIDE_JSON)
    if found["programme"] == own.programme.name:
        raise InputError(f"{folder} holds {found['programme']!r} too; give the other programme's.")
    theirs, ours = (one["sources"] for one in (found, own.about))
    if any(theirs[name] != ours[name] for name in theirs.keys() & ours.keys()):
        raise InputError(f"{folder} was made from other cities; run both programmes in the same.")
    return found


def set_beside(
    rows: list[dict[str, Any]], other: dict[str, Any] | None, programme: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Every claim with the other programme's figure and verdict, and why they are apart."""
    theirs = {row["key"]: row for row in other["claims"]} if other else {}
    ours = programme if other is None or other["programme"] == PAPER.name else other["jobs"]
    found = []
    for row in rows:
        beside = theirs.get(row["key"], {})
        names = {"beside": "ours", "beside_verdict": "verdict", "beside_reason": "reason"}
        told = {name: beside.get(column) for name, column in names.items()}
        is_apart = beside and tells(beside) != tells(row)
        found.append(
            {**row, **told, "why_apart": why_apart(row, beside, ours) if is_apart else None}
        )
    return found


def tells(row: Mapping[str, Any]) -> tuple[str, str]:
    """What a row says: its verdict, and where nothing is claimed what was found."""
    is_shown = row["verdict"] == NOT_CLAIMED
    return row["verdict"], row["reason"] if is_shown else ""


def why_apart(
    row: Mapping[str, Any], beside: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]
) -> str:
    """What could make two programmes come to other verdicts on a claim.

    Either one of them could not be tested, and why; or all in which our jobs of its domains differ
    from the paper's: which of them did it, two runs cannot say.
    """
    for one in (row, beside):
        if one["verdict"] == UNTESTED or any(words in one["reason"] for words in UNDECIDED):
            return f"one of them decides nothing: {one['reason']}"
    slugs = row.get("domains") or ()
    parts = {part.name for slug in slugs for part in parts_of(slug)}
    phrases = [
        phrase for job in ours if job["part"] in parts for phrase in str(job["differs"]).split("; ")
    ]
    counted = Counter(phrases).most_common(N_PHRASES)
    return "ours differs by " + "; ".join(phrase for phrase, _ in counted)


UNDECIDED = ("cannot tell", UNTESTED)
"""Words of a figure that is shown and decides nothing."""
N_PHRASES = 5
"""Differences that are named, those of most jobs first."""


def write_reproduction(
    folder: Path,
    *,
    runs: Path,
    progress: Progress,
    n_episodes: int = 0,
    where: Workplace = HERE,
    beside: Path | None = None,
) -> dict[str, Any]:
    """Judge every claim and write the run; the claims as plain figures.

    ``beside`` is the folder of the other programme.
    """
    evidence = Evidence(folder, progress, n_episodes)
    check_trained(evidence)
    other = read_other(beside, evidence)
    config = {name: evidence.about[name] for name in ("preset", "seed", "domains")} | {
        "n_jobs": len(evidence.jobs),
        "programme": evidence.programme.name,
        "beside": other["programme"] if other else "",
    }
    with start_run(runs, "reproduce", config) as run:
        seeds = sorted({seed for job in evidence.jobs for seed in job.seeds})
        run.set_seeds(city=evidence.seed, agents=seeds)
        add_sources(run, evidence)
        with run.stage("episodes"):
            play_parts(evidence, where)
        with run.stage("claims"):
            rows = judge_all(all_claims(), evidence)
            prices = price_rows(evidence)
        programme = describe_jobs(evidence)
        keep_for_other(folder, evidence, rows, programme)
        rows = set_beside(rows, other, programme)
        run.add_metrics({"claims": rows})
        write_json(run.path / CLAIMS_JSON, rows)
        write_csv(run.path / CLAIMS_CSV, rows)
        write_json(run.path / PROGRAMME_JSON, programme)
        write_json(run.path / PRICES_JSON, prices)
        run.add_table("claims", [flat_row(row) for row in rows])
        with run.stage("page"):
            write_page(run, evidence, rows, programme, prices=prices)
    return {
        "run": run.id,
        "report": str(run.final_path / "report.html"),
        "programme_name": evidence.programme.name,
        "verdicts": dict(Counter(row["verdict"] for row in rows)),
        "claims": rows,
        "programme": programme,
    }


def play_parts(evidence: Evidence, where: Workplace) -> None:
    """Play every part, several at once; what was played is kept in the folder."""
    # What the boiler table needs is counted, not played.
    tables = {part.name for part in parts_of("boiler") if not part.has_capacity}
    keys = sorted({(job.scenario, job.part) for job in evidence.jobs if job.part not in tables})
    calls: list[Call] = [(play_apart, (evidence.folder, evidence.n_episodes, *k)) for k in keys]
    run_calls(calls, where, lambda told: evidence.progress(told, 1, 1))


def play_apart(folder: str, n_episodes: int, scenario: str, part: str) -> str:
    """Play one part, in whatever process."""
    Evidence(Path(folder), lambda *_: None, n_episodes).scored(scenario, part)
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
    return {name: plain.get(name) for name in COLUMNS}


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
    programme: str = OURS.name
    """Whose features, settings, equity term and protocols: paper or ours"""

    def folder(self, runs: Path, programme: str = "") -> Path:
        """Where the stages of a programme meet, its own if none is named."""
        name = programme or self.programme
        mark = "" if name == OURS.name else f"-{name}"
        return runs / f"reproduction-{self.preset}-{self.seed}{mark}"

    def other_folder(self, runs: Path) -> Path:
        """Where those of the other programme meet."""
        return self.folder(runs, next(name for name in PROGRAMMES if name != self.programme))

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
    where: Workplace = HERE,
    progress: Progress,
    budget: Budget | None = None,
    beside: Path | None = None,
) -> dict[str, Any]:
    """Run these stages in order; what the last one found.

    ``beside`` is the folder of the other programme, where it was run; ``budget`` replaces the
    preset's.
    """
    get_programme(config.programme)
    if config.preset not in BUDGETS:
        raise unknown_name("preset", config.preset, BUDGETS)
    for stage in stages:
        if stage not in STAGES:
            raise unknown_name("stage", stage, STAGES)
    # An unknown domain is refused before anything is written.
    config.chosen  # noqa: B018
    if where.shard is not None and list(stages) != ["train"]:
        raise InputError(
            "A shard was asked for; only the trainings can be shared out so: prepare first, then "
            "give --stage train --shard, and report when all are there."
        )
    found: dict[str, Any] = {}
    with one_writer(_claimed(folder, where)):
        for stage in stages:
            if stage == "prepare":
                found = prepare(
                    folder, config.chosen, preset=config.preset, seed=config.seed, cities=cities,
                    progress=progress, workplace=where, budget=budget,
                    programme=get_programme(config.programme), required=config.domains,
                )  # fmt: skip
            elif stage == "train":
                found = _train(folder, slice_s, where, progress)
                if found["missing"] and stage != stages[-1]:
                    raise InputError(
                        f"{len(found['missing'])} of {found['jobs']} trainings are not finished; "
                        "run the stage again, it goes on where it stopped."
                    )
            else:
                found = write_reproduction(
                    folder, runs=runs, progress=progress, where=where,
                    n_episodes=budget.n_episodes if budget else 0, beside=beside,
                )  # fmt: skip
    return found


def _claimed(folder: Path, where: Workplace) -> Path:
    """What this process alone works on: the folder, or its shard of it."""
    if where.shard is None:
        return folder
    return folder.with_name(f"{folder.name}.shard-{where.shard.place}-of-{where.shard.n}")


def _train(folder: Path, slice_s: float, where: Workplace, progress: Progress) -> dict[str, Any]:
    from parity311.studies.reproduction.train_stage import run_stage

    return run_stage(
        folder / "learn",
        slice_s=slice_s,
        where=where,
        tell=lambda told: progress(f"training: {told['job']} ({told['seconds']:.0f} s)", 1, 1),
    )
