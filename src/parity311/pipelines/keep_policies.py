"""What a run keeps of its policies, so that they can be audited and explained from its folder.

Explained are complaints on record as each policy would have seen them; where a domain decides about
the whole office, or hour by hour, the steps of test episodes instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents.forward import SAVES, part_of
from parity311.arrays import BRIEFLY
from parity311.audit.episodes import EpisodeInputs
from parity311.evaluation.rollout import Contender, Episodes
from parity311.explain.games import is_priced, n_layers
from parity311.explain.inputs import ExplainInputs
from parity311.mdp.contract import (
    COVERAGE_FEATURE,
    EQUITY,
    N_KNOWN_STRATA,
    N_STRATA,
)
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records, open_records
from parity311.records.strata import INCOME
from parity311.serving.period import SeenComplaints, decides_by_case, see_period
from parity311.training.loop import Trained

MAX_KEPT_ROWS = 6000
"""Complaints kept of a policy, drawn at random beyond; each can be explained later."""
N_BACKGROUND = 100
"""Complaints that explanations compare with (shap's own limit for a background)."""
N_WATCHED = 16
"""Test episodes whose steps are kept where a domain decides otherwise than case by case."""
AUDITED_RULES = ("balanced", "dual_threshold")
"""Rules that are audited beside the learned policies: today's, and the one with prices."""


def keep_episodes(
    domain: str,
    setting: str,
    contenders: Sequence[Contender],
    episodes: Episodes,
    agent_names: Sequence[str],
    *,
    n_cases: int | None = None,
    strata: str = INCOME,
) -> list[EpisodeInputs]:
    """Sums of the scored episodes by stratum, agents of one preference averaged over seeds.

    ``n_cases`` is the size of the table that episodes draw from, where they do.
    """
    n_drawn = len(episodes.tally.correct[0]) * episodes.n_steps
    widening = 1.0 if n_cases is None else float(np.sqrt(1.0 + n_drawn / n_cases))
    found = []
    for name in dict.fromkeys(one.name for one in contenders):
        if name not in AUDITED_RULES and name.split("_equity_")[0] not in agent_names:
            continue
        places = [i for i, one in enumerate(contenders) if one.name == name]

        def mean(values: Any, places: list[int] = places) -> np.ndarray:
            return np.asarray(values, np.float64)[places].mean(axis=0)

        tally = episodes.tally
        out_of = {
            "actionable": mean(tally.actionable),
            "incidents": mean(tally.incidents),
            "complaints": mean(tally.complaints),
        }
        correct = mean(tally.correct)
        found.append(EpisodeInputs(domain, setting, name, correct, out_of, widening, strata))
    return found


def keep_policies(
    trained: Trained,
    records: Records,
    estimated: Any,
    *,
    setting: str,
    date_from: date,
    date_to: date,
    seed: int = 0,
) -> list[ExplainInputs]:
    """One policy a preference (the first seed's), with the complaints that explain it.

    The records are grouped as the policy was paid. Without coverage prices, what a policy saw of
    coverage is known only in episodes.
    """
    harness = trained.harness
    seen = None
    if decides_by_case(harness.domain) and harness.equity_mode == "dual":
        period = see_period(harness.domain, records, estimated, date_from, date_to)
        seen = period.complaints
    kept = []
    for index in range(trained.n_agents):
        network = network_of(trained.weights(index))
        if trained.seeds[index] != trained.seeds[0] or not _fits(network, harness):
            continue
        if seen is not None:
            rows, coverage = seen, _coverage(trained, index, seen)
        else:
            rows, coverage = watch_complaints(trained, index, estimated, seed)
        kept.append(_inputs(trained, index, network, rows, coverage, setting, seed))
    if records.strata == INCOME:
        return kept
    tracts = open_records(records, INCOME).table("tracts", columns=["geoid", "income_quintile"])
    known = dict(zip(*(tracts[name].to_pylist() for name in tracts.column_names), strict=True))
    quintile = lambda one: np.array([known.get(tract, 0) for tract in one.tract])  # noqa: E731
    return [replace(one, income_quintile=quintile(one)) for one in kept]


def _fits(network: dict[str, np.ndarray] | None, harness: Harness) -> TypeGuard[dict]:
    """Whether a policy is a network from the observation to one score an action."""
    if network is None:
        return False
    own, n_prices = (part_of(network, SAVES), 1) if is_priced(network) else (network, 0)
    n_in, n_out = own["weight_0"].shape[0], own[f"weight_{n_layers(own) - 1}"].shape[-1]
    return (n_in + n_prices, n_out) == (harness.n_features, harness.n_actions)


def _coverage(trained: Trained, index: int, seen: SeenComplaints) -> np.ndarray:
    """Coverage feature of complaints on record: the price their area had when training ended."""
    is_priced = trained.preferences[index, EQUITY] > 0
    prices = np.asarray(trained.prices[index]) if is_priced else np.zeros(N_STRATA)
    return FEATURE_SCALE * prices[seen.stratum]


def network_of(weights: Any) -> dict[str, np.ndarray] | None:
    """The network that scores actions, as plain arrays; None where a policy is no such network."""
    if not isinstance(weights, Mapping) and hasattr(weights, "_asdict"):
        weights = weights._asdict()
    if isinstance(weights, Mapping):
        if "weight_0" in weights or is_priced(weights):
            return {name: np.asarray(values, np.float64) for name, values in weights.items()}
        for name in ("actor", "policy", "network"):
            if name in weights:
                return network_of(weights[name])
    return None


def _inputs(
    trained: Trained,
    index: int,
    network: dict[str, np.ndarray],
    seen: SeenComplaints,
    coverage: np.ndarray,
    setting: str,
    seed: int,
) -> ExplainInputs:
    harness = trained.harness
    domain = harness.domain
    weight = float(trained.preferences[index, EQUITY])
    name = trained.agent.name
    observations = np.column_stack([seen.features[:, harness.columns], coverage])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(observations))
    rows = np.sort(order[:MAX_KEPT_ROWS])
    # The price of a complaint's area says where it comes from, on purpose.
    places = (*domain.geographic_features, *((COVERAGE_FEATURE,) if weight > 0 else ()))
    actions = domain.actions_of(harness.action_set)
    return ExplainInputs(
        domain=domain.slug,
        setting=setting,
        policy=f"{name}_equity_{weight:.2f}" if weight > 0 else name,
        network=network,
        feature_names=harness.observation_names,
        action_names=tuple(action.name for action in actions),
        geographic=tuple(name for name in places if name in harness.observation_names),
        rows=observations[rows],
        background=observations[order[:N_BACKGROUND]],
        tract=np.asarray(seen.tract)[rows],
        severity=np.asarray(seen.severity)[rows],
        income_quintile=_quintile(np.asarray(seen.stratum)[rows]),
        complaint_id=np.asarray(seen.complaint_id)[rows],
        escalating=tuple(action.name for action in actions if action.escalates),
    )


def _quintile(stratum: np.ndarray) -> np.ndarray:
    """1 … 5 of the known strata; 0 where unknown, or where a step is about nobody in particular."""
    return np.where((stratum >= 0) & (stratum < N_KNOWN_STRATA), stratum + 1, 0)


def watch_complaints(
    trained: Trained, index: int, params: Any, seed: int
) -> tuple[SeenComplaints, np.ndarray]:
    """What one policy saw in episodes of this process, and its coverage feature.

    The episode stands for the tract: it is what is resampled whole.
    """
    harness = trained.harness
    equity = harness.equity_params(params)
    weight = float(trained.preferences[index, EQUITY])
    equity = equity._replace(is_visible=jnp.float32(weight > 0), step_size=jnp.float32(0.0))
    keys = jax.random.split(jax.random.key(seed), N_WATCHED)
    prices = jnp.asarray(trained.prices[index], jnp.float32)
    features, stratum, coverage = _watch(
        harness, params, equity, trained.policy(index), prices, keys
    )
    n_steps = stratum.shape[1]
    names = np.array(
        [
            f"{harness.domain.slug}-e{e:02d}-s{s:04d}"
            for e in range(N_WATCHED)
            for s in range(n_steps)
        ]
    )
    flat = np.asarray(features, np.float64).reshape(len(names), -1)
    seen = SeenComplaints(
        complaint_id=names,
        tract=np.repeat([f"episode {e}" for e in range(N_WATCHED)], n_steps),
        severity=_severity(harness, flat),
        stratum=np.asarray(stratum).reshape(-1),
        features=flat,
    )
    return seen, np.asarray(coverage, np.float64).reshape(len(names), -1)


def _severity(harness: Harness, features: np.ndarray) -> np.ndarray:
    """Severity code where the domain observes one (1 = A … 0 = D), else one layer for all."""
    names = harness.domain.observation_names
    if "severity" not in names:
        return np.full(len(features), "all")
    last = len(SEVERITIES) - 1
    code = np.rint((1.0 - np.clip(features[:, names.index("severity")], 0.0, 1.0)) * last)
    return np.array(SEVERITIES)[code.astype(np.int64)]


@partial(jax.jit, static_argnames=("harness",), compiler_options=BRIEFLY)
def _watch(
    harness: Harness, params: Any, equity: Any, policy: Any, prices: jax.Array, keys: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Features (episodes, steps, n_names), strata and coverage features that one policy met."""
    play = harness.domain.play

    def one_episode(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        key_reset, key_steps = jax.random.split(key)
        start = harness.reset(key_reset, params, equity, prices)

        def body(carry: Any, key_step: jax.Array) -> tuple[Any, Any]:
            running, observation = carry
            state = running.state
            coverage = observation[len(harness.columns) :]
            seen = play.observe(params, state), play.current_stratum(params, state), coverage
            key_act, key_move = jax.random.split(key_step)
            moved = harness.step(key_move, params, equity, running, policy(key_act, observation))
            return (moved.running, moved.observation), seen

        keys_step = jax.random.split(key_steps, harness.horizon)
        return jax.lax.scan(body, start, keys_step)[1]

    return jax.vmap(one_episode)(keys)
