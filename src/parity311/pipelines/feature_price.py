"""What a feature is worth: agents trained without it, beside the one that has it.

Two questions, each answered by training again and scoring on the same later episodes: what does it
cost not to look at where a complaint comes from, and what does the likeliest stand-in for income
bring? The features in use are the domain's default set, which knows nothing from after a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from parity311.evaluation import metrics
from parity311.evaluation.compare import agent_contenders, hold_contender, later_flow
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.contract import EQUITY, Domain, Policy
from parity311.mdp.harness import Harness
from parity311.training import train
from parity311.training.loop import Trained

VARIANT = "variant"
"""Name of the observation set of a domain that was given other features."""


@dataclass(frozen=True)
class FeatureSet:
    """Features to train with, beside those in use."""

    name: str
    features: tuple[str, ...]
    note: str


def feature_sets(domain: Domain, used: Sequence[str], top_proxy: str | None) -> list[FeatureSet]:
    """The features in use, and the sets worth training with instead."""
    used = tuple(name for name in used if name in domain.observation_names)
    places = tuple(name for name in used if name in domain.geographic_features)
    found = [FeatureSet("all features", used, "as used")]
    if places and len(places) < len(used):
        rest = tuple(name for name in used if name not in places)
        found.append(FeatureSet("without place", rest, f"drops {', '.join(places)}"))
    if top_proxy in used and (top_proxy,) != places and len(used) > 1:
        rest = tuple(name for name in used if name != top_proxy)
        note = "drops the feature with the largest proxy score"
        found.append(FeatureSet(f"without {top_proxy}", rest, note))
    return found


def price_features(
    trained: Trained,
    sets: Sequence[FeatureSet],
    estimated: Any,
    true: Any,
    *,
    seeds: Sequence[int],
    n_steps: int,
    n_episodes: int,
    key: jax.Array,
    preference: Sequence[float],
    settings: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Train without equity on every set of features and score all on the same episodes.

    Returns one row a set: reward, recall and coverage gap with intervals, and their change against
    the features in use, resampled together.
    """
    base, held, n_held = trained.harness, [], []
    flow = later_flow(base, estimated, true)
    for number, one in enumerate(sets):
        harness, contenders = _without_equity(
            trained, one, estimated, seeds, n_steps, preference, settings or {}
        )
        own = [hold_contender(harness, flow, contender) for contender in contenders]
        held += (
            own if harness is base else [_see_less(contender, harness, base) for contender in own]
        )
        n_held.append(len(own))
        if progress is not None:
            progress(number + 1, len(sets))
    keys = jax.random.split(key, n_episodes)
    equity = base.equity_params(estimated)
    episodes = evaluate(base, true, held, keys, equity=equity, with_saved=False)
    resampled = metrics.Resampled(
        n_episodes,
        n_drawn=n_episodes * base.horizon,
        n_cases=None if flow is None else len(flow.stratum),
    )
    ends = np.cumsum(n_held)
    scored = [
        metrics.score(episodes, range(end - n, end), resampled, np.asarray(preference))
        for n, end in zip(n_held, ends.tolist(), strict=True)
    ]
    first = _samples(scored[0])
    return [
        _row(one, own, first, resampled, n)
        for one, own, n in zip(sets, scored, n_held, strict=True)
    ]


def _see_less(contender: Contender, harness: Harness, base: Harness) -> Contender:
    """A policy of a smaller set of features where all are shown, so that one program plays all."""
    names = base.observation_names
    places = np.array([names.index(name) for name in harness.observation_names], np.int32)
    return replace(contender, policy=Partial(_decide_on, places, contender.policy))


def _decide_on(
    places: jax.Array, policy: Policy, key: jax.Array, observation: jax.Array
) -> jax.Array:
    return policy(key, observation[places])


def _without_equity(
    trained: Trained,
    features: FeatureSet,
    estimated: Any,
    seeds: Sequence[int],
    n_steps: int,
    preference: Sequence[float],
    settings: dict[str, Any],
) -> tuple[Harness, list[Contender]]:
    """Agents that see these features; those already trained where the features are theirs."""
    harness = trained.harness
    if features.features == harness.observation_names[: len(harness.columns)]:
        plain = [i for i in range(trained.n_agents) if trained.preferences[i, EQUITY] == 0]
        everyone = agent_contenders(harness, [trained])
        return harness, [everyone[i] for i in plain]
    again = train(
        _show_others(harness.domain, features.features),
        estimated,
        trained.agent.name,
        [preference],
        list(seeds),
        n_steps,
        observation_set=VARIANT,
        term=harness.term,
        settings=settings,
    )
    return again.harness, agent_contenders(again.harness, [again])


@cache
def _show_others(domain: Domain, features: tuple[str, ...]) -> Domain:
    """A domain that shows these features: one object, so that every setting shares its programs."""
    return replace(domain, observation_sets={**domain.observation_sets, VARIANT: features})


def _samples(scored: metrics.Scores) -> dict[str, np.ndarray]:
    """What changes are measured of, (1 + B,) each."""
    return {
        "reward": scored.reward,
        "recall": scored.recall,
        "coverage_gap": metrics.gap_samples(scored.coverage),
    }


def _row(
    features: FeatureSet,
    scored: metrics.Scores,
    base: dict[str, np.ndarray],
    resampled: metrics.Resampled,
    n_agents: int,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "variant": features.name,
        "features": ", ".join(features.features),
        "n_features": len(features.features),
        "n_agents": n_agents,
        "note": features.note,
    }
    own = {
        "reward": resampled.figure(scored.reward),
        "recall": resampled.figure(scored.recall, metrics.SHARE),
        "coverage_gap": resampled.gap_figure(scored.coverage),
    }
    for name, values in _samples(scored).items():
        change = resampled.figure(values - base[name])
        for suffix, figure in (("", own[name]), ("_change", change)):
            row[f"{name}{suffix}"] = figure.value
            row[f"{name}{suffix}_lower"] = figure.lower
            row[f"{name}{suffix}_upper"] = figure.upper
    return row
