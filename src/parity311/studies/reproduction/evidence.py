"""What claims are tested with: played episodes, counted filings, facts of the records.

Everything is made when a claim first asks for it and kept; played episodes also on disk, so that a
report that was cut off goes on where it was.

How much each feature weighs in a trained policy, by seed and test episode.

Shapley values of the action scores (exact where features are few, by permutations beyond; in the
paper's programme by the explainer it names for the domain), on observations the policy met in the
true process; a feature's weight is the mean size of its values.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains import get_domain
from parity311.errors import EstimationError
from parity311.estimation.params_file import read_params
from parity311.evaluation.comparison_statistics import Resamples, make_resamples
from parity311.explain.estimators import (
    explain_as_named,
    explainer_of_paper,
    permutation_shapley,
)
from parity311.explain.exact import exact_shapley
from parity311.explain.policy import MAX_EXACT_FEATURES
from parity311.pipelines.keep_policies import N_WATCHED, network_of, watch_complaints
from parity311.pipelines.progress import Report as Progress
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import read_hashed, write_hashed
from parity311.studies.reproduction.boiler_table import Confusion, count_confusion
from parity311.studies.reproduction.jobs import TrainingJob, budget_of, read_plan
from parity311.studies.reproduction.prepare import RARE, SCORE, Where, read_facts_file
from parity311.studies.reproduction.programme import OURS, Programme, get_programme
from parity311.studies.reproduction.scoring import (
    Scored,
    load_scored,
    play_rules,
    save_scored,
    score_part,
)
from parity311.studies.reproduction.selection import (
    Sensitivity,
    escalation_target,
    load_decisions,
    weigh_hidden_reasons,
)
from parity311.studies.reproduction.train_stage import TRAINED
from parity311.studies.reproduction.trained_files import read_trained
from parity311.training.loop import Trained

ROWS_PER_EPISODE = 4
N_BACKGROUND = 16
N_PERMUTATIONS = 3
"""Explained observations, what they are compared with, and walks beyond the exact limit: each seed
and episode is a sample of its own, so few of each suffice."""


@dataclass(frozen=True)
class Weights:
    """Weights of features."""

    names: tuple[str, ...]
    values: np.ndarray
    """(seeds, episodes, features) mean size of the Shapley values"""
    seen: np.ndarray
    """(seeds, features) mean of the observations themselves"""

    def mean_of(self, names: tuple[str, ...]) -> np.ndarray:
        """Mean weight of these features, (seeds, episodes)."""
        return self.values[..., [self.names.index(name) for name in names]].mean(axis=-1)


def weigh_features(trained: Trained, params: Any, seed: int, explainer: str = "") -> Weights:
    """Explain the first preference's agents, one a seed; by our explainer if none is named."""
    n_seeds = len(set(trained.seeds.tolist()))
    found, means = [], []
    for index in range(n_seeds):
        network = network_of(trained.weights(index))
        if network is None:
            raise EstimationError(
                f"Agent {trained.agent.name!r} is no network; explain dqn or reinforce."
            )
        seen, coverage = watch_complaints(trained, index, params, seed + index)
        rows = np.column_stack([seen.features[:, trained.harness.columns], coverage])
        chosen = _choose(len(rows), seed + index)
        values = _attribute(network, rows[chosen.ravel()], rows, seed, explainer)
        found.append(values.reshape(N_WATCHED, ROWS_PER_EPISODE, -1).mean(axis=1))
        means.append(rows.mean(axis=0))
    return Weights(trained.harness.observation_names, np.stack(found), np.stack(means))


def save_weights(path: Path, weights: Weights, identity: str) -> None:
    """Keep what was explained: explaining takes longer than judging."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, identity=np.array(identity), names=np.array(weights.names), values=weights.values,
        seen=weights.seen,
    )  # fmt: skip
    with telling_disk_errors(path):
        write_hashed(path, buffer.getvalue())


def load_weights(path: Path, identity: str) -> Weights | None:
    """What was explained of the same agents by the same explainer; None where nothing was."""
    content = read_hashed(path)
    if content is None:
        return None
    with np.load(io.BytesIO(content)) as kept:
        if str(kept["identity"]) != identity:
            return None
        return Weights(tuple(kept["names"].tolist()), kept["values"], kept["seen"])


def _choose(n_rows: int, seed: int) -> np.ndarray:
    """Some rows of every episode, (episodes, rows)."""
    per_episode = n_rows // N_WATCHED
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, per_episode, (N_WATCHED, ROWS_PER_EPISODE))
    return drawn + per_episode * np.arange(N_WATCHED)[:, None]


def _attribute(
    network: dict[str, np.ndarray],
    chosen: np.ndarray,
    rows: np.ndarray,
    seed: int,
    explainer: str = "",
) -> np.ndarray:
    """Size of every feature's values, averaged over actions, (rows, features)."""
    rng = np.random.default_rng(seed)
    background = rows[rng.choice(len(rows), N_BACKGROUND, replace=False)]
    if explainer:
        found, _ = explain_as_named(network, chosen, background, rows, explainer)
    elif rows.shape[1] <= MAX_EXACT_FEATURES:
        found = exact_shapley(network, chosen, background)
    else:
        found = permutation_shapley(
            network, chosen, background, n_permutations=N_PERMUTATIONS, seed=seed
        )
    return np.abs(found.centred().values).mean(axis=2)


@dataclass
class Evidence:
    """The folder of one reproduction, read as it is needed."""

    folder: Path
    progress: Progress
    n_episodes: int = 0
    """test episodes; the preset's where 0"""
    _scored: dict[tuple[str, str, str], Scored] = field(default_factory=dict)
    _trained: dict[str, Trained] = field(default_factory=dict)
    _weights: dict[tuple[str, str, str], Weights] = field(default_factory=dict)
    _confusions: dict[tuple[str, str], Confusion] = field(default_factory=dict)

    @cached_property
    def where(self) -> Where:
        """The folders."""
        return Where(self.folder)

    @cached_property
    def _plan(self) -> tuple[dict[str, Any], list[TrainingJob]]:
        return read_plan(self.where.learn)

    @property
    def about(self) -> dict[str, Any]:
        """Preset, seed, domains and data of the reproduction."""
        return self._plan[0]

    @property
    def jobs(self) -> list[TrainingJob]:
        """Everything that was trained."""
        return self._plan[1]

    @property
    def programme(self) -> Programme:
        """Whose programme was run."""
        return get_programme(self.about.get("programme", OURS.name))

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains that take part."""
        return tuple(slug for slug in self.about["domains"] if slug not in self.untested)

    @property
    def untested(self) -> dict[str, str]:
        """Domains that have too few cases on one side of their split, and why."""
        return dict(self.about.get("untested", {}))

    def split(self, scenario: str, part: str) -> dict[str, Any]:
        """How a part was split: days and cases on either side."""
        return read_facts_file(self.where.split(scenario, part))

    @property
    def seed(self) -> int:
        """Seed of the test episodes."""
        return int(self.about["seed"])

    def facts(self, scenario: str, domain: str) -> dict[str, Any]:
        """What the records say of a domain."""
        return read_facts_file(self.where.facts(scenario, domain))

    def estimated(self, scenario: str, part: str, domain: str) -> Any:
        """Params from what the agency could see."""
        return read_params(self.where.estimated(scenario, part), get_domain(domain).play.example())

    def true(self, scenario: str, part: str, domain: str, variant: str = "") -> Any:
        """Params of what really happens."""
        path = self.where.true(scenario, part, variant)
        return read_params(path, get_domain(domain).play.example())

    def jobs_of(self, scenario: str, part: str) -> list[TrainingJob]:
        """What was trained in one part."""
        return [job for job in self.jobs if (job.scenario, job.part) == (scenario, part)]

    def trained(self, job: TrainingJob) -> Trained:
        """The agents of a job."""
        if job.name not in self._trained:
            self._trained[job.name] = read_trained(self.where.learn / TRAINED / job.file, job)
        return self._trained[job.name]

    def agents(self, scenario: str, part: str, *labels: str) -> Trained:
        """The agents of one part, of the first of these labels that was trained."""
        by_label = {job.label: job for job in self.jobs_of(scenario, part)}
        return self.trained(next(by_label[label] for label in labels if label in by_label))

    def has_agents(self, scenario: str, part: str, label: str) -> bool:
        """Whether agents of a label were trained in a part."""
        return any(job.label == label for job in self.jobs_of(scenario, part))

    def scored(self, scenario: str, part: str) -> Scored:
        """Every policy of a part, played under the true process."""
        return self.scored_elsewhere(scenario, part, "", lambda true: true)

    def scored_elsewhere(
        self, scenario: str, part: str, place: str, change: Callable[[Any], Any]
    ) -> Scored:
        """The same in another place: in what `change` makes of the true process."""
        key = (scenario, part, place)
        if key not in self._scored:
            jobs = self.jobs_of(scenario, part)
            name = "-".join(word for word in key if word)
            path = self.folder / SCORE / "episodes" / f"{name}.npz"
            identity = self._identity(jobs, scenario, part)
            found = load_scored(path, identity)
            if found is None:
                domain = jobs[0].domain
                found = score_part(
                    domain,
                    self.estimated(scenario, part, domain),
                    change(self.true(scenario, part, domain)),
                    [self.trained(job) for job in jobs],
                    n_episodes=self._episodes,
                    seed=self.seed,
                    n_cases=self._few_cases(scenario, part),
                    rules=self.programme.rules_of(domain),
                )
                save_scored(path, found, identity)
                self.progress(f"played: {' '.join(word for word in key if word)}", 1, 1)
            self._scored[key] = found
        return self._scored[key]

    def _few_cases(self, scenario: str, part: str) -> int | None:
        """Cases of the test period where episodes repeat a few dozen of them again and again."""
        return self.split(scenario, part)["n_scored"] if part in RARE else None

    @property
    def _episodes(self) -> int:
        return self.n_episodes or budget_of(self.about["preset"], self.programme).n_episodes

    def _identity(self, jobs: list[TrainingJob], scenario: str, part: str) -> str:
        few = self._few_cases(scenario, part)
        domain = get_domain(jobs[0].domain)
        rules = self.programme.rules_of(domain.slug) or tuple(domain.heuristics)
        asked = f"{self._episodes} {self.seed} {few} {domain.version} {' '.join(rules)}"
        digest = hashlib.sha256(asked.encode())
        paths = [self.where.learn / TRAINED / job.file for job in jobs]
        for path in (*paths, self.where.estimated(scenario, part), self.where.true(scenario, part)):
            digest.update(path.read_bytes() if path.exists() else b"missing")
        return digest.hexdigest()

    def resamples(self, scored: Scored) -> Resamples:
        """The same resamples for every policy of a part."""
        n_seeds = len({seed for job in self.jobs for seed in job.seeds if job.label != "grid"})
        n_episodes = scored.arrays["reward"].shape[1]
        return make_resamples(n_seeds, n_episodes, table_factor=scored.table_factor)

    def explainer(self, domain: str) -> str:
        """The paper's explainer in its own programme, where it names one; ours if empty."""
        return explainer_of_paper(domain) if self.programme.is_published else ""

    def weights(self, scenario: str, domain: str, *labels: str) -> Weights:
        """How much each feature weighs in the agents of the first label that was trained."""
        key = (scenario, domain, labels[0])
        if key not in self._weights:
            agents = self.agents(scenario, domain, *labels)
            path = self.folder / SCORE / "weights" / f"{'-'.join(key)}.npz"
            identity = self._identity(self.jobs_of(scenario, domain), scenario, domain)
            identity += f" {self.explainer(domain)} {agents.agent.name}"
            found = load_weights(path, identity)
            if found is None:
                params = self.true(scenario, domain, domain)
                found = weigh_features(agents, params, self.seed, self.explainer(domain))
                save_weights(path, found, identity)
                self.progress(f"explained: {domain} {agents.agent.name}", 1, 1)
            self._weights[key] = found
        return self._weights[key]

    def sensitivity(
        self, domain: str, label: str, *, is_paid: bool
    ) -> tuple[Sensitivity, Sensitivity] | str:
        """What a hidden reason could overturn of an agent's advantage and gain; or why not."""
        log = load_decisions(self.where.log("measured", domain))
        if log is None:
            return "the decisions on record were not kept; prepare it again"
        if log.reason:
            return log.reason
        trained = self.agents("measured", domain, label, "reinforce")
        target = escalation_target(trained, log.seen, is_paid=is_paid)
        return weigh_hidden_reasons(log, target)

    def confusion(self, part: str, label: str) -> Confusion:
        """Counts of the boiler agents of one label; with chances that fit what they see."""
        key = (part, label)
        if key not in self._confusions:
            trained = self.agents("measured", part, label)
            variant = "-fees" if trained.harness.observation_set == "published" else ""
            true = self.true("measured", part, "boiler", variant)
            self._confusions[key] = count_confusion(trained, true)
        return self._confusions[key]

    def play_rules(self, domain: str, params: Any, rules: tuple[str, ...]) -> Scored:
        """Rules of a domain in a process that is not this city's: what its figures hang on."""
        return play_rules(domain, params, rules, n_episodes=self._episodes, seed=self.seed)

    def n_grid_seeds(self) -> int:
        """Seeds of each of the 128 boiler settings."""
        return len(next(job for job in self.jobs if job.label == "grid").seeds)
