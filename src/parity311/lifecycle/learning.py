"""The later steps of a cycle: denominators into buffer and episode start, training, audit.

Where equity is paid as published, what an earlier cycle played is kept with its counts, and new
denominators re-weight it: the agent then learns from stored steps alone. With coverage prices it is
simulated again, from the start; the step says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.agents import all_agents
from parity311.agents.package import read_package
from parity311.audit.cells import read_inputs
from parity311.estimation.correction import FALLBACK
from parity311.estimation.params_file import read_params, write_params
from parity311.estimation.world import World
from parity311.evaluation.compare import agent_contenders
from parity311.evaluation.rollout import Contender
from parity311.lifecycle.calibrating import read_calibration, world_of
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.evidence import NAMES
from parity311.lifecycle.promised import clock_of, hold_to
from parity311.lifecycle.steps import DoneStep, Steps, read_step
from parity311.lifecycle.trial import policy_name, try_policy
from parity311.mdp.contract import EQUITY, Domain
from parity311.mdp.harness import Harness
from parity311.pipelines.audit import FIGURES_FILE, write_audit
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.packages import pack_rule
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records
from parity311.service_levels.levels import levels_to_text
from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import to_json
from parity311.training import agent_for, train
from parity311.training.checkpoint import Checkpoints
from parity311.training.loop import Trained
from parity311.training.offline import train_offline
from parity311.training.saving import origin_of, rule_maker, save_policy
from parity311.training.stored_steps import (
    WHY_NOT,
    read_steps,
    reweigh,
    store_steps,
    write_steps,
)

N_STORED = 20_000
"""Steps that a cycle keeps for the next where equity is paid as published."""
PARAMS, STORED, PACKAGE = "params.safetensors", "stored.safetensors", "policy"
DENOMINATORS = "denominators.json"
CHECKPOINT_SECONDS = 20.0
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Learner:
    """What is learned from, in what, and for what."""

    domain: Domain
    records: Records
    config: CycleConfig
    propensity: DoneStep

    @cached_property
    def world(self) -> World:
        """The domain in the records, with the calibration of the first step."""
        return world_of(self.domain, self.records, self.propensity, self.config)

    @cached_property
    def estimated(self) -> tuple[Any, str]:
        """The estimated process, by the promised clock where one was given; and in words."""
        params, levels = self.world.estimated, self.config.levels
        if levels is None:
            return params, ""
        clock = clock_of(levels, self.records)
        held, has_clock = hold_to(params, clock)
        shown = ", ".join(f"{code} {d:g}" for code, d in zip(SEVERITIES, clock, strict=True))
        if not has_clock:
            return params, (
                f"{self.domain.slug} has no clock of its own in its process: the promises "
                f"({shown} days) are checked, not trained for"
            )
        return held, f"a visit counts within the promised days, by code: {shown}"

    @cached_property
    def harness(self) -> Harness:
        """The domain as the policy sees it."""
        return self.config.harness

    @property
    def is_agent(self) -> bool:
        """Whether it learns; else it is a rule that is made from the estimate."""
        return self.config.agent in all_agents() and self.config.agent not in self.domain.heuristics

    @property
    def about(self) -> dict[str, Any]:
        """What stored steps must be of to be learned from."""
        return {
            "domain": self.domain.slug,
            "domain_version": self.domain.version,
            "term": asdict(self.config.term),
            "features": list(self.harness.observation_names),
            "action_set": self.harness.action_set,
        }

    def params(self, denominators: DoneStep) -> Any:
        """The estimated process, as the fourth step kept it."""
        return read_params(denominators.folder / PARAMS, self.domain.play.example())


def denominators_step(steps: Steps, learner: Learner, strata: DoneStep) -> DoneStep:
    """Step 4: the need of every stratum into buffer and episode start."""
    is_dual = learner.config.term.equity_mode == "dual"
    stored = None if is_dual or not learner.is_agent else find_stored(steps.root, learner)

    def make(folder: Path) -> dict[str, Any]:
        params, clock = learner.estimated
        write_params(folder / PARAMS, params)
        need = np.asarray(learner.harness.need_per_step(params), np.float64)
        if not learner.is_agent:
            way = "set at the start of every episode in which the rule's prices come to rest"
        elif is_dual:
            way = f"simulated again: {WHY_NOT}"
        elif stored is None:
            way = "simulated: no earlier cycle kept steps of this domain and term to re-weight"
        else:
            way = f"re-weighted: the steps that {stored} kept, without a new one"
        found = {
            "need_per_step": need.tolist(),
            "steps_per_day": float(learner.domain.play.steps_per_day(params)),
            "way": way,
            "stored": stored,
            "clock": clock,
        }
        write_text_aside(folder / DENOMINATORS, to_json(found))
        return found

    kept: dict[str, Any] = {"term": learner.config.term, "domain_version": learner.domain.version}
    if learner.config.levels is not None:
        kept["levels"] = levels_to_text(learner.config.levels)
    return steps.take("denominators", {**kept, "agent": learner.is_agent}, make, after=[strata])


def find_stored(root: Path, learner: Learner) -> str | None:
    """Folder of the last whole training under a root whose steps can be re-weighted."""
    found = [
        (one.stat().st_mtime, one.parent.name)
        for one in root.glob(f"train-*/{STORED}")
        if read_step(one.parent) is not None and read_steps(one, learner.about) is not None
    ]
    return max(found)[1] if found else None


def train_step(
    steps: Steps, learner: Learner, denominators: DoneStep, progress: Progress
) -> DoneStep:
    """Train, or make the rule, and pack it; goes on from the checkpoint of one that was killed."""
    config = learner.config

    def make(folder: Path) -> dict[str, Any]:
        params = learner.params(denominators)
        origin = origin_of(learner.world, f"cycle-{denominators.key}")
        package = folder / PACKAGE
        if not learner.is_agent:
            weight = config.preference[EQUITY]
            pack_rule(package, learner.harness, config.agent, params, weight, origin=origin)
        else:
            trained = learn(learner, denominators, folder, progress)
            save_policy(package, trained, 0, params=params, origin=origin)
            if config.term.equity_mode != "dual":
                _keep_steps(folder, learner, params, trained)
        return {"package": PACKAGE, "way": denominators.result["way"]}

    chosen = {
        "agent": config.agent,
        "preference": config.preference,
        "action_set": learner.harness.action_set,
        "seeds": config.n_seeds,
        "seed": config.seed,
        "steps": config.n_steps,
    }
    return steps.take("train", chosen, make, after=[denominators])


def learn(learner: Learner, denominators: DoneStep, folder: Path, progress: Progress) -> Trained:
    """The trained agents: from the process, or from stored steps under the new denominators.

    Where all of it was done before, nothing is: the checkpoint holds the end.
    """
    config, harness = learner.config, learner.harness
    seeds = [config.seed + number for number in range(config.n_seeds)]
    kept = Checkpoints(folder / "checkpoint", every_s=CHECKPOINT_SECONDS, resume=True)
    tell = lambda done, total, _: progress(f"{learner.domain.slug}: training", done, total)  # noqa: E731
    stored = denominators.result["stored"]
    if stored is None:
        return train(
            learner.domain, learner.params(denominators), config.agent, [config.preference], seeds,
            config.n_steps, action_set=harness.action_set, term=config.term, checkpoints=kept,
            progress=tell,
        )  # fmt: skip
    read = read_steps(denominators.folder.parent / stored / STORED, learner.about)
    assert read is not None  # it is part of what the denominators were made from
    agent = agent_for(harness, config.agent, config.n_steps)
    discount = getattr(agent.config, "discount", 0.9)
    equity = harness.equity_params(learner.params(denominators), discount=discount)
    decisions = reweigh(harness, read, equity)
    return train_offline(
        harness, decisions, agent, [config.preference], seeds, config.n_steps,
        checkpoints=kept, progress=tell,
    )  # fmt: skip


def _keep_steps(folder: Path, learner: Learner, params: Any, trained: Trained) -> None:
    discount = getattr(trained.agent.config, "discount", 0.9)
    equity = learner.harness.equity_params(params, discount=discount)
    kept = store_steps(
        learner.harness, params, equity, trained.policy(0), N_STORED,
        jax.random.key(learner.config.seed),
    )  # fmt: skip
    write_steps(folder / STORED, kept, learner.about)


def contender_of(learner: Learner, denominators: DoneStep, trained: DoneStep) -> Contender:
    """The packed policy as one that can be played."""
    config, harness = learner.config, learner.harness
    weight = config.preference[EQUITY]
    name = policy_name(config.agent, weight, learner.is_agent)
    if learner.is_agent:
        agents = learn(learner, denominators, trained.folder, lambda *_: None)
        found = agent_contenders(harness, [agents])[0]
        return Contender(name, found.policy, found.prices, is_priced=weight > 0)
    params = learner.params(denominators)
    policy = rule_maker(harness, config.agent, np.asarray(config.preference))(params, harness)
    prices = np.asarray(read_package(trained.folder / PACKAGE).manifest["prices"])
    return Contender(name, policy, prices if weight > 0 else None, is_priced=weight > 0)


def audit_step(
    steps: Steps, learner: Learner, denominators: DoneStep, trained: DoneStep
) -> DoneStep:
    """Step 5: who would be served, and who was, judged by the specification."""
    config = learner.config

    def make(folder: Path) -> dict[str, Any]:
        params, world, records = learner.params(denominators), learner.world, learner.records
        calibration = read_calibration(learner.propensity)
        is_bounded = learner.propensity.result["used"] != FALLBACK
        setting = world.scenario.words
        trial = try_policy(
            learner.harness, params, calibration,
            contender_of(learner, denominators, trained),
            setting=setting, is_bounded=is_bounded, n_episodes=config.n_episodes, seed=config.seed,
        )  # fmt: skip
        draws = calibration.estimate.area_draws(np.random.default_rng(config.spec.seed))
        inputs = read_inputs(
            records, learner.domain.slug, date_from=world.date_from, date_to=world.date_to,
            incident_draws=draws if is_bounded else None, estimand=config.spec.estimand,
            setting=setting,
        )  # fmt: skip
        manifest = read_package(trained.folder / PACKAGE).manifest
        found = write_audit(
            [inputs], [trial.episodes], config.spec,
            root=folder,
            command=f"cycle {learner.domain.slug}",
            config={"run": manifest["origin"]["run"], "spec_sha256": config.spec.sha256},
            add_data=lambda run: add_records(run, records),
            package={name: manifest[name] for name in NAMES},
        )  # fmt: skip
        return {
            "audit": f"{found['audit']}/{FIGURES_FILE}",
            "page": f"{found['audit']}/{Path(found['page']).name}",
            "trial": trial.figures,
        }

    asked = {"spec": config.spec, "seed": config.seed, "episodes": config.n_episodes}
    return steps.take("audit", asked, make, after=[trained])
