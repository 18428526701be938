"""Policies as packages: trained, planned or a rule of thumb, with all that serves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents.package import MANIFEST, WEIGHTS, Arrays, Package, flatten, write_package
from parity311.arrays import BRIEFLY
from parity311.engines.backlog.rules import check_takes_its_action
from parity311.engines.heuristics import rule_arrays
from parity311.errors import unknown_name
from parity311.mdp.contract import N_STRATA, REWARD_NAMES, TODAYS_RULE
from parity311.mdp.harness import Harness
from parity311.records.schema import FORMAT_VERSION as SCHEMA_VERSION
from parity311.records.strata import GROUPED_BY, INCOME
from parity311.version import __version__

if TYPE_CHECKING:
    from parity311.estimation.world import World
    from parity311.training.loop import Trained

PLAN = "plan"
"""Name of the computed optimum among the rules that are saved."""
PACKAGE_FILES = (WEIGHTS, MANIFEST)
"""What a package writes into its folder."""
N_WATCHED = 16
"""Episodes of the estimated process from which it is known what training sees."""


@dataclass(frozen=True)
class Origin:
    """Where a policy's process comes from."""

    records: str = ""
    """fingerprint of the records it was estimated from; empty for a domain's example"""
    learned_from: str = ""
    """first day"""
    learned_to: str = ""
    """day before which; coverage prices are of this day"""
    estimator: str = ""
    scenario: str = ""
    run: str = ""
    """id of the run or training that made it"""


def origin_of(world: World, run: str = "") -> Origin:
    """The origin of what is learned in a world."""
    return Origin(
        records=world.records.fingerprint,
        learned_from=world.date_from.isoformat(),
        learned_to=world.date_to.isoformat(),
        estimator=world.correction.used,
        scenario=world.scenario.words,
        run=run,
    )


def save_policy(
    folder: str | Path,
    trained: Trained,
    index: int = 0,
    *,
    params: Any = None,
    origin: Origin | None = None,
) -> Path:
    """Write one agent of a training as a package.

    With the params it was trained in, the package can be served; without, only decided with.

    Examples
    --------
    >>> folder = parity311.save_policy("policies/first", trained, params=params)
    """
    harness = trained.harness
    alike = (trained.preferences == trained.preferences[index]).all(axis=1)
    others = [i for i in np.flatnonzero(alike) if i != index]
    package = Package(
        weights=flatten(trained.weights(index)),
        manifest={
            **describe(harness, trained.agent.name, trained.preferences[index], origin),
            "prices": [float(x) for x in trained.prices[index]],
            "seed": int(trained.seeds[index]),
        },
        voters=tuple(flatten(trained.weights(int(i))) for i in others),
    )
    policy = trained.policy(index)
    return write_package(Path(folder), _serve_with(package, harness, params, policy))


def save_rule(
    folder: str | Path,
    harness: Harness,
    rule: str,
    params: Any,
    *,
    preference: Sequence[float] | None = None,
    prices: np.ndarray | None = None,
    draws: Sequence[Any] = (),
    origin: Origin | None = None,
) -> Path:
    """Write a rule of thumb of a domain, or its plan, as a package.

    `prices` (6,) are the coverage prices it works under, zero if not given. `draws` are further
    params of the same process: the rule is made from each of them too, and the share that agrees
    is told with every recommendation.

    Examples
    --------
    >>> folder = parity311.save_rule("policies/today", harness, "balanced", params)
    """
    weights = np.asarray(preference if preference is not None else harness.domain.preference)
    make = rule_maker(harness, rule, weights)
    # A plan that is served says by how much it prefers an action; its voters need not.
    policy = make(params, harness, keep_values=True) if rule == PLAN else make(params, harness)
    package = Package(
        weights=rule_arrays(policy, harness),
        manifest={
            **describe(harness, rule, weights, origin),
            "prices": (np.zeros(N_STRATA) if prices is None else prices).tolist(),
            "seed": 0,
        },
        voters=tuple(rule_arrays(make(one, harness), harness) for one in draws),
    )
    return write_package(Path(folder), _serve_with(package, harness, params, policy))


def rule_maker(harness: Harness, rule: str, preference: np.ndarray) -> Callable[..., Any]:
    """(params, harness) -> policy of a rule of the domain, or of its computed optimum."""
    domain = harness.domain
    solve = domain.play.solve
    if rule == PLAN and solve is not None:
        return partial(solve, preference=preference)
    if rule not in domain.heuristics:
        raise unknown_name(f"rule of {domain.slug}", rule, domain.heuristics)
    check_takes_its_action(rule, domain.heuristics[rule], harness)
    return domain.heuristics[rule]


def describe(
    harness: Harness, policy: str, preference: np.ndarray, origin: Origin | None
) -> dict[str, Any]:
    """What a manifest says of a policy, but for its numbers."""
    domain = harness.domain
    return {
        "software_version": __version__,
        "schema_version": SCHEMA_VERSION,
        "agent": policy,
        "domain": domain.slug,
        "domain_version": domain.version,
        "observation_set": harness.observation_set or domain.default_observation_set,
        "observation_names": list(harness.observation_names),
        "action_set": harness.action_set,
        "action_names": [action.name for action in domain.actions_of(harness.action_set)],
        "escalating": [action.escalates for action in domain.actions_of(harness.action_set)],
        **asdict(harness.term),
        "preference": [float(x) for x in preference],
        "reward": state_reward(preference, harness.strata),
        "saved_on": date.today().isoformat(),
        "origin": asdict(origin or Origin()),
    }


def state_reward(preference: np.ndarray, strata: str = INCOME) -> str:
    """The reward a policy was made for, as a public statement.

    Areas are told apart by income; that they were told apart by race must be said.
    """
    apart = "" if strata == INCOME else f" (areas are {GROUPED_BY[strata]})"
    words = {
        "speed": "severity-weighted days that people wait less",
        "cost": "inspector hours spent",
        "equity": f"correct escalations in areas that are behind in coverage{apart}",
        "retention": "days that dwellings are kept habitable",
    }
    shares = dict(zip(REWARD_NAMES, np.asarray(preference, np.float64), strict=True))
    parts = [
        f"{'minus ' if name == 'cost' else ''}{share:.0%} {words[name]}"
        for name, share in shares.items()
        if share > 0
    ]
    return "; ".join(parts)


def _serve_with(package: Package, harness: Harness, params: Any, policy: Any) -> Package:
    """The package with what serving needs beside the policy.

    Unchanged without params, and where the domain does not say how it sees cases on record.
    """
    sight = harness.domain.sight
    if params is None or sight is None:
        return package
    equity = harness.equity_params(params)
    steps_per_day = float(harness.domain.play.steps_per_day(params))
    manifest = package.manifest | {
        "denominators": [float(x) for x in equity.denominators],
        "price_step": float(equity.step_size),
        "price_cap": float(equity.price_cap),
        "steps_per_day": steps_per_day,
    }
    today = harness.domain.heuristics[TODAYS_RULE](params, harness)
    prices = jnp.asarray(package.manifest["prices"], jnp.float32)
    met, heard = _watch(harness, params, equity, policy, prices, jax.random.key(0))
    met = np.asarray(met)
    manifest["complaints_per_day"] = float(heard) * steps_per_day
    seen: Arrays = {
        "low": met.min(axis=0),
        "high": met.max(axis=0),
        "typical": np.median(met, axis=0),
    }
    return Package(
        package.weights, manifest, rule_arrays(today, harness),
        sight.keep(params) if sight.keep else params, seen,
        package.voters,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("harness",), compiler_options=BRIEFLY)
def _watch(
    harness: Harness, params: Any, equity: Any, policy: Any, prices: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What is observed in episodes of the process, half of the actions taken at random.

    (n, n_features), and the complaints that come in a step.
    """
    key_reset, key_play = jax.random.split(key)

    def one_episode(key_start: jax.Array, key_steps: jax.Array) -> Any:
        start = harness.reset(key_start, params, equity, prices)

        def body(carry: Any, key_step: jax.Array) -> tuple[Any, Any]:
            running, observation = carry
            key_act, key_any, key_which, key_move = jax.random.split(key_step, 4)
            wild = jax.random.randint(key_any, (), 0, harness.n_actions)
            action = jnp.where(jax.random.bernoulli(key_which), wild, policy(key_act, observation))
            moved = harness.step(key_move, params, equity, running, action)
            heard = moved.tally.complaints.sum()
            return (moved.running, moved.observation), (observation, heard)

        return jax.lax.scan(body, start, jax.random.split(key_steps, harness.horizon))[1]

    starts, plays = jax.random.split(key_reset, N_WATCHED), jax.random.split(key_play, N_WATCHED)
    observed, heard = jax.vmap(one_episode)(starts, plays)
    return observed.reshape(-1, harness.n_features), heard.mean()
