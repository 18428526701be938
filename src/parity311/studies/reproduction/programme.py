"""What each job was trained with, beside what the paper gives for it.

The programme that is run is ours: our features, discounts and schedules, chosen so that agents
learn at all. The paper's hyper-parameters (its Tables 3 and 4) are used by no job but REINFORCE's
twenty episodes in heat, and by that one not in every respect; every difference is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.prepare import N_TABLE_ROWS
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
