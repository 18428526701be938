"""One training as a user asks for it: params from records or the example, policies on disk."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.errors import InputError, TrainingError
from parity311.mdp.equity import USUAL_TERM, EquityTerm
from parity311.records.strata import INCOME
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.storage.locks import one_writer

if TYPE_CHECKING:
    from parity311.mdp.contract import Domain
    from parity311.training.blocks import Progress
    from parity311.training.loop import Trained
    from parity311.training.saving import Origin

SUMMARY = "training.json"
FILES = ("checkpoint", "policy-*", "curve.json", SUMMARY)
"""What a training writes into its folder."""
DEFAULT_STEPS = 20_000
"""Steps of a training where none are asked for: a minute or two on one core."""


def keep_to_one_thread() -> None:
    """Give JAX one thread, where it has not started yet.

    One agent's products are too small to share: with two threads work only moves between them,
    and a step takes 1.7 times as long. A sweep uses one process a core instead.
    """
    if "jax" not in sys.modules:
        os.environ.setdefault("NPROC", "1")


def run_training(
    domain: Domain,
    agent: str,
    *,
    out: Path,
    preference: Sequence[float] | None = None,
    seeds: Sequence[int] = (0,),
    steps: int = DEFAULT_STEPS,
    records: Path | None = None,
    until: date | None = None,
    estimator: str = "exposure_rate",
    decisions: Any = None,
    resume: bool = False,
    stop_after_s: float = float("inf"),
    settings: Mapping[str, Any] | None = None,
    observation_set: str = "",
    action_set: str = "published",
    term: EquityTerm = USUAL_TERM,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train, keep checkpoints, write every agent's policy; what was reached, as plain figures."""
    from parity311.agents import get_entry
    from parity311.estimation.world import open_world
    from parity311.mdp.harness import Harness
    from parity311.records.store import open_records
    from parity311.training import agent_for, train
    from parity311.training.checkpoint import Checkpoints
    from parity311.training.loop import check_preferences
    from parity311.training.offline import train_offline
    from parity311.training.saving import Origin, origin_of

    chosen = list(preference if preference is not None else domain.preference)
    check_preferences([chosen])
    check_groups(records, term)
    harness = Harness(
        domain, observation_set=observation_set, action_set=action_set, **asdict(term)
    )
    # An unknown agent or setting is refused before anything is estimated.
    made = agent_for(harness, agent, steps, settings)
    holds_own(out, FILES, "a training", TrainingError)
    kept = Checkpoints(out / "checkpoint", resume=resume)
    began = time.monotonic()
    params, origin = None, Origin()
    with one_writer(out):
        if get_entry(agent).needs_log or decisions is not None:
            if decisions is None:
                raise InputError(f"Agent {agent!r} learns from logged decisions; give a log.")
            # Without batches the whole log is counted, and once is enough.
            n_updates = steps if hasattr(made.config, "batch_size") else 1
            trained = train_offline(
                harness, decisions, made, [chosen], seeds, n_updates,
                progress=progress, checkpoints=kept, stop_after_s=stop_after_s,
            )  # fmt: skip
        else:
            if records is None:
                params = domain.play.example()
            else:
                world = open_world(domain, open_records(records, term.strata), until, estimator)
                params, origin = world.estimated, origin_of(world, out.name)
            trained = train(
                domain, params, agent, [chosen], seeds, steps,
                observation_set=observation_set, action_set=action_set, term=term,
                settings=settings,
                progress=progress, checkpoints=kept, stop_after_s=stop_after_s,
                keep_values=get_entry(agent).is_planner,
            )  # fmt: skip
        return write_trained(
            out, trained, seconds=time.monotonic() - began, params=params, origin=origin
        )


def check_groups(records: Path | None, term: EquityTerm) -> None:
    """Refuse strata that a domain's example, which stands in for records, does not have."""
    if records is None and term.strata != INCOME:
        raise InputError(
            f"Strata {term.strata!r} were asked for, and the domain's example has {INCOME!r} "
            "alone; train from records (--records FOLDER)."
        )


def write_trained(
    out: Path,
    trained: Trained,
    *,
    seconds: float | None = None,
    params: Any = None,
    origin: Origin | None = None,
) -> dict[str, Any]:
    """Policies of a whole training, its curve, and a summary that is written last.

    With the params the agents learned in, the policies can be served. Without `seconds` the summary
    says nothing of where and how fast: the same wherever it was written.
    """
    from parity311.training.saving import save_policy

    summary: dict[str, Any] = {
        "domain": trained.harness.domain.slug,
        "agent": trained.agent.name,
        "agents": trained.n_agents,
        "steps": trained.curve[-1]["steps"] if trained.curve else 0,
        "is_whole": trained.is_whole,
        "reward": [float(x) for x in trained.curve[-1]["reward"]] if trained.curve else [],
        "preferences": trained.preferences.astype(float).tolist(),
        "seeds": trained.seeds.astype(int).tolist(),
        "policies": [],
    }
    if seconds is not None:
        summary |= {"seconds": seconds, "out": str(out)}
    if not trained.is_whole:
        return summary
    for index in range(trained.n_agents):
        name = f"policy-{index:04d}"
        save_policy(out / name, trained, index, params=params, origin=origin)
        summary["policies"].append(name)
    curve = [
        {name: np.asarray(values).tolist() for name, values in entry.items()}
        for entry in trained.curve
    ]
    _write_json(out / "curve.json", curve)
    _write_json(out / SUMMARY, summary)
    return summary


def _write_json(path: Path, value: Any) -> None:
    with telling_disk_errors(path, TrainingError):
        write_text_aside(path, json.dumps(value, indent=1) + "\n")


def parse_preference(text: str) -> tuple[float, ...] | None:
    """Weights from 'speed,cost,equity,retention'; None where the text is empty."""
    if not text.strip():
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"Preference {text!r} was given; write four weights that sum to 1 (speed, cost, "
            "equity, retention), for example 0.4,0.4,0.2,0."
        ) from None


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Hyper-parameters from 'name=value' texts; a value is JSON, a list becomes a tuple."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InputError(f"Setting {pair!r} was given; write name=value, as in discount=0.9.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[name] = as_tuples(value)
    return found


def as_tuples(value: Any) -> Any:
    """Lists within lists as tuples, which configurations can be told apart by."""
    if isinstance(value, dict):
        return {name: as_tuples(one) for name, one in value.items()}
    return tuple(as_tuples(one) for one in value) if isinstance(value, list) else value
