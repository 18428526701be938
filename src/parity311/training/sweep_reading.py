"""Agents of an earlier `parity311 sweep`, read from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.errors import InputError
from parity311.estimation.params_file import read_params
from parity311.mdp.harness import Harness
from parity311.training import agent_for
from parity311.training.checkpoint import digest_arrays
from parity311.training.loop import Trained
from parity311.training.saving import load_policy
from parity311.training.sweep import PARAMS
from parity311.training.train_run import SUMMARY


def read_sweep(folder: Path, harness: Harness, params: Any) -> tuple[np.ndarray, Trained]:
    """Menu (n, 4) of a sweep and its agents, every preference with each seed.

    A sweep that learned in another process than `params` is refused: records of the test dates
    among them would flatter every policy.
    """
    found = sorted(folder.glob(f"chunk-*/{SUMMARY}"))
    if not found:
        raise InputError(
            f"{folder} holds no finished sweep; make one with `parity311 sweep "
            f"{harness.domain.slug} --out {folder}`."
        )
    summaries = [(path.parent, _read_summary(path)) for path in found]
    slugs = {summary["domain"] for _, summary in summaries}
    if slugs != {harness.domain.slug}:
        raise InputError(
            f"{folder} is a sweep of {', '.join(sorted(slugs))}, not of {harness.domain.slug}; "
            "name the folder of a sweep of this domain."
        )
    learned_in = read_params(folder / PARAMS, harness.domain.play.example())
    if digest_arrays(learned_in) != digest_arrays(params):
        raise InputError(
            f"{folder} learned from other records or dates than those before the test period; "
            "sweep again with the same --records and --until the first test day."
        )
    rows = [
        (summary["preferences"][place], summary["seeds"][place], path / name)
        for path, summary in summaries
        for place, name in enumerate(summary["policies"])
    ]
    seeds = list(dict.fromkeys(seed for _, seed, _ in rows))
    menu = list(dict.fromkeys(tuple(preference) for preference, _, _ in rows))
    if len(rows) != len(menu) * len(seeds):
        raise InputError(
            f"{folder} has {len(rows)} agents for {len(menu)} preferences and {len(seeds)} seeds; "
            "finish it with `parity311 sweep --resume`."
        )
    policies = [_nest(load_policy(path).weights) for _, _, path in rows]
    summary = summaries[0][1]
    trained = Trained(
        agent=agent_for(harness, summary["agent"], summary["steps"]),
        harness=harness,
        policies=jax.tree.map(lambda *leaves: np.stack(leaves), *policies),
        preferences=np.asarray([preference for preference, _, _ in rows], np.float32),
        seeds=np.asarray([seed for _, seed, _ in rows]),
        prices=np.zeros((len(rows), 6)),
        curve=[{"steps": summary["steps"]}],
    )
    return np.asarray(menu, np.float32), trained


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(path.read_bytes())
        if {"domain", "agent", "steps", "preferences", "seeds", "policies"} <= set(summary):
            return summary
        reason = "figures are missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    raise InputError(f"{path} is no summary of a training ({reason}); sweep again.")


def _nest(weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Weights by name with slashes as nested mappings."""
    nested: dict[str, Any] = {}
    for name, values in weights.items():
        *parents, last = name.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = values
    return nested
