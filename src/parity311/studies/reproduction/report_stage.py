"""The last stage: every policy played under the truth, every claim judged, one report."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

from parity311.errors import InputError
from parity311.pipelines.progress import Report as Progress
from parity311.report.store import RunWriter, start_run
from parity311.report.tables import as_cell
from parity311.storage.strict_json import to_plain, write_json
from parity311.studies.reproduction.claims import all_claims, judge_all
from parity311.studies.reproduction.evidence import Evidence
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.programme import describe_jobs
from parity311.studies.reproduction.protocols import parts_of
from parity311.studies.reproduction.side_by_side import Call, run_calls
from parity311.studies.reproduction.train_stage import TRAINED

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
