"""Three stages that may run on three machines: prepare, train, report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity311.domains import all_domains
from parity311.errors import InputError, unknown_name
from parity311.pipelines.progress import Report as Progress
from parity311.storage.locks import one_writer
from parity311.studies.reproduction.jobs import BUDGETS
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX

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
            from parity311.studies.reproduction.report_stage import write_reproduction

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
