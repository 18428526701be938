"""Made-up evidence: what claims would be tested with, drawn at random around known effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parity311.audit.assess import PRIMARY_TEST
from parity311.domains import all_domains, elevator, get_domain
from parity311.evaluation.comparison_statistics import Resamples, make_resamples
from parity311.studies.reproduction.boiler_table import N_BLOCKS, Confusion
from parity311.studies.reproduction.evidence import Weights
from parity311.studies.reproduction.jobs import TrainingJob, make_jobs
from parity311.studies.reproduction.programme import OURS, Programme
from parity311.studies.reproduction.scoring import COUNTS, Scored, counting_domain
from parity311.studies.reproduction.selection import Sensitivity

N_SEEDS, N_EPISODES, N_STRATA = 3, 24, 6


class MadeUpEvidence:
    """Learned policies that are better than rules by `effect` (a share), in every domain."""

    def __init__(self, effect: float = 0.3, seed: int = 0, programme: Programme = OURS) -> None:
        self.effect = effect
        self.programme = programme
        self.about: dict[str, Any] = {"sources": {"measured": {"fingerprint": "0"}}}
        self.rng = np.random.default_rng(seed)
        self.domains = tuple(all_domains())
        self.untested: dict[str, str] = {}
        self.jobs = make_jobs(self.domains, "small", 5, programme=programme)
        self._kept: dict[Any, Any] = {}

    def jobs_of(self, scenario: str, part: str) -> list[TrainingJob]:
        return [job for job in self.jobs if (job.scenario, job.part) == (scenario, part)]

    def has_agents(self, scenario: str, part: str, label: str) -> bool:
        return any(job.label == label for job in self.jobs_of(scenario, part))

    def split(self, scenario: str, part: str) -> dict[str, Any]:
        return {"words": f"{part} in time", "n_learned": 900, "n_scored": 100}

    def scored(self, scenario: str, part: str) -> Scored:
        key = (scenario, part)
        if key not in self._kept:
            self._kept[key] = self._play(scenario, part)
        return self._kept[key]

    def scored_elsewhere(
        self, scenario: str, part: str, place: str, change: Callable[[Any], Any]
    ) -> Scored:
        """The same figures in any place: no order turns round."""
        del place, change
        return self.scored(scenario, part)

    def _play(self, scenario: str, part: str) -> Scored:
        jobs = [job for job in self.jobs if (job.scenario, job.part) == key_of(scenario, part)]
        domain = counting_domain(jobs[0].domain)
        rules = self.programme.rules_of(jobs[0].domain)
        names = [name for name in domain.heuristics if not rules or name in rules]
        for job in jobs:
            for preference in job.preferences:
                paid = f"_equity_{preference[2]:.2f}" if preference[2] > 0 else ""
                names += [f"{job.label}{paid}"] * N_SEEDS
        learned = np.array([name not in domain.heuristics for name in names])[:, None]
        shape = (len(names), N_EPISODES)
        luck = self.rng.normal(0, 0.02, (1, N_EPISODES)) + self.rng.normal(0, 0.01, shape)
        gain = 1.0 + self.effect * learned + luck
        arrays: dict[str, Any] = {name: np.full((*shape, N_STRATA), 40.0) for name in COUNTS}
        slope = np.linspace(0.7, 1.3, N_STRATA)
        arrays["correct"] = 8.0 * gain[..., None] * np.where(learned[..., None], 1.0, slope)
        arrays["incidents"] *= 4.0
        arrays["visits"] *= 0.5
        outcomes = self.rng.poisson(20.0, (*shape, len(domain.outcome_names)))
        arrays["outcomes"] = outcomes.astype(float)
        arrays["reward"] = arrays["speed"] = -100.0 / gain
        arrays["hours"] = np.full(shape, 10.0)
        return Scored(domain, tuple(names), arrays, n_steps=100)

    def true(self, scenario: str, part: str, domain: str) -> Any:
        assert domain == "elevator"
        return elevator.example()

    def play_rules(self, domain: str, params: Any, rules: tuple[str, ...]) -> Scored:
        """A backlog that is the stock of the first day, whoever goes."""
        late = float(params.backlog.start_waiting.sum(axis=(1, 2)).mean())
        counting = counting_domain(domain)
        shape = (len(rules), N_EPISODES)
        outcomes = np.full((*shape, len(counting.outcome_names)), 100.0 * late)
        arrays: dict[str, Any] = {name: np.full((*shape, N_STRATA), 40.0) for name in COUNTS}
        arrays |= {"outcomes": outcomes, "reward": np.zeros(shape)}
        return Scored(counting, rules, arrays, n_steps=100)

    def resamples(self, scored: Scored) -> Resamples:
        return make_resamples(N_SEEDS, scored.arrays["reward"].shape[1], n_resamples=200)

    def confusion(self, part: str, label: str) -> Confusion:
        n_agents = 128 if label == "grid" else N_SEEDS
        defects = self.rng.binomial(200, 0.08, (1, N_BLOCKS)).astype(float)
        ratio = np.repeat([5, 10, 15, 20, 26, 30, 40, 50], 16)[:, None]
        share = 0.7 + 0.005 * ratio if label == "grid" else np.full((n_agents, 1), 0.95)
        caught = share * defects
        wasted = 0.3 * (200 - defects) * np.ones((n_agents, 1))
        return Confusion(caught, wasted, 200 - defects - wasted, defects - caught)

    def sensitivity(self, domain: str, label: str, *, is_paid: bool) -> Any:
        change = self.effect if label != "nobody" else 0.0
        advantage = Sensitivity(change, change - 0.1, change + 0.1, 1.8 if change > 0.1 else 1.0)
        equity = Sensitivity(change, change - 0.1, change + 0.1, 1.3 if change > 0.1 else 1.0)
        return advantage, equity

    def explainer(self, domain: str) -> str:
        return get_domain(domain).explainer if self.programme.is_published else ""

    def n_grid_seeds(self) -> int:
        return 1

    def weights(self, scenario: str, domain: str, *labels: str) -> Weights:
        names = counting_domain(domain).observation_names
        if labels[0] == "reinforce_boards" or self.programme.observation_set:
            published = counting_domain(domain).observation_sets["published"]
            names = tuple(published)
        size = (N_SEEDS, 16, len(names))
        values = self.rng.uniform(0.5, 1.0, size)
        return Weights(names, values, self.rng.uniform(size=(N_SEEDS, len(names))))

    def facts(self, scenario: str, domain: str) -> dict[str, Any]:
        def trend(strata: str, value: float) -> dict[str, Any]:
            return {
                "strata": strata, "name": PRIMARY_TEST, "estimate": value, "lower": value - 0.005,
                "upper": value + 0.005, "p_value": 0.001, "reason": "",
            }  # fmt: skip

        return {
            "dispositions": {"violation": 0.34, "no_violation": 0.36, "no_access": 0.3},
            "today": {"trends": [trend("income5", 0.02), trend("race5", -0.02)]},
            "reporting": {
                "as_published_contrast": [-0.2, -0.3, -0.1],
                "exposure_rate_contrast": [0.4, 0.3, 0.5],
            },
        }


def key_of(scenario: str, part: str) -> tuple[str, str]:
    return scenario, part
