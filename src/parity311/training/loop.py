"""The only training loop: collect, update, and tell somebody how far it is.

A batch of preferences × seeds is one program. The loop never asks what kind of agent it trains:
it collects `rollout_length` steps, calls `update`, and calls `refresh` between blocks.

Planning instead of training: the estimated process is solved, as the agent `plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.agents import list_agents
from parity311.agents.base import Agent, Rollout
from parity311.agents.networks import split_each
from parity311.agents.plan import make_plan
from parity311.arrays import BRIEFLY
from parity311.engines.table.policy import TablePolicy
from parity311.errors import TrainingError
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, N_REWARDS, N_STRATA, Policy
from parity311.mdp.equity import EquityParams
from parity311.mdp.harness import Harness, Running
from parity311.records.strata import INCOME
from parity311.training.blocks import Progress, run_blocks
from parity311.training.checkpoint import Checkpoints, digest_arrays


def plan(
    harness: Harness,
    params: Any,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    *,
    keep_values: bool = False,
) -> Trained:
    """Solve the (estimated) process once for every preference; seeds change nothing.

    `keep_values` keeps what every action is worth in every cell, so that a served plan can say by
    how much it prefers one: two bytes an action and cell, for every agent.
    """
    weights = check_preferences(preferences)
    solve = harness.domain.play.solve
    if solve is None:
        raise TrainingError(
            f"Domain {harness.domain.slug!r} has no exact solution, so there is nothing to plan "
            f"with; choose {list_agents(lambda entry: entry.sweeps)}."
        )
    if (weights[:, EQUITY] > 0).any():
        raise TrainingError(
            "Agent 'plan' does not pay for coverage: its state holds no coverage prices; give "
            "equity no weight, or choose another agent."
        )
    found = []
    for row in weights:
        policy = solve(params, harness, row, **({"keep_values": True} if keep_values else {}))
        assert isinstance(policy, TablePolicy)
        found += [policy.arrays(harness)] * len(seeds)
    n_agents = len(found)
    return Trained(
        agent=make_plan(),
        harness=harness,
        policies=jax.tree.map(lambda *values: np.stack(values), *found),
        preferences=np.repeat(weights, len(seeds), axis=0),
        seeds=np.tile(np.asarray(seeds), len(weights)),
        prices=np.zeros((n_agents, N_STRATA)),
        curve=[],
    )


__all__ = ["Carry", "LearningTask", "Progress", "Trained", "check_preferences", "train_agents"]


class LearningTask(NamedTuple):
    """What is learned in; the equity part and the preferences have an agent axis."""

    params: Any
    equity: EquityParams
    preferences: jax.Array
    """(agents, 4)"""


class Carry(NamedTuple):
    """What a block hands to the next."""

    agent: Any
    running: Running
    observation: jax.Array
    """(agents, environments, n_features)"""
    keys: jax.Array
    """(agents,) one stream of random numbers per agent: the same seed, the same stream, whoever
    learns beside it"""
    n_updates: jax.Array


@dataclass(frozen=True)
class Trained:
    """Trained agents, one per preference and seed.

    Examples
    --------
    >>> decide = trained.policy(0)
    >>> int(decide(jax.random.key(2), observation)) in range(harness.n_actions)
    True
    """

    agent: Agent
    harness: Harness
    policies: Any
    """every agent's policy, with the agent axis"""
    preferences: np.ndarray
    """(agents, 4)"""
    seeds: np.ndarray
    """(agents,)"""
    prices: np.ndarray
    """(agents, 6) coverage prices at the end, averaged over environments"""
    curve: list[dict[str, Any]]
    """figures by block: steps, and (agents,) arrays"""
    is_whole: bool = True
    """False where the time was up before the steps were taken"""
    snapshots: list[Any] = field(default_factory=list)
    """policies on the way, as `policies`, the last of them included; see `n_snapshots`"""

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.seeds)

    def weights(self, index: int) -> Any:
        """One agent's policy as data."""
        return jax.tree.map(lambda values: values[index], self.policies)

    def policy(self, index: int) -> Policy:
        """One agent's policy as decide(key, observation)."""
        return Partial(self.agent.decide, self.weights(index))

    def at_snapshots(self, chosen: Sequence[int]) -> Trained:
        """The same agents, each as it was at the snapshot chosen for it, (agents,) numbers."""
        rows = np.asarray(chosen)
        pick = lambda *values: np.stack([values[row][i] for i, row in enumerate(rows)])  # noqa: E731
        kept = self.snapshots or [self.policies]
        return replace(self, policies=jax.tree.map(pick, *kept), snapshots=[])


def train_agents(
    harness: Harness,
    params: Any,
    agent: Agent,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    steps: int,
    *,
    n_environments: int = 1,
    equity_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    stop_after_s: float = float("inf"),
    n_snapshots: int = 0,
) -> Trained:
    """Train one agent per preference and seed, side by side.

    Parameters
    ----------
    harness, params
        The domain as the policy sees it, and its (estimated) process.
    agent
        The algorithm with its settings.
    preferences
        (n, 4) weights of speed, cost, equity and retention; each row sums to 1.
    seeds
        Seeds; every preference is trained with each of them.
    steps
        Steps per environment, rounded up to whole blocks; an agent that learns from rollouts of n
        steps makes an update every n of them, others at every step.
    n_environments
        Episodes an agent plays side by side; each update follows one step of all of them.
    equity_options
        Settings of the equity term other than the domain's (see `equity_params`).
    progress
        Called after every block.
    checkpoints
        Where to keep what is needed to go on after an interruption; nowhere if not given.
    stop_after_s
        Stop after the block in which these seconds pass; `Trained.is_whole` is then False.
    n_snapshots
        Policies to keep from the second half of the training, evenly spaced: a later choice among
        them, on episodes of the same process, steadies what a noisy training ends with. Not with
        checkpoints, which do not hold them.
    """
    weights = check_preferences(preferences)
    if not seeds or steps < 1 or n_environments < 1:
        raise TrainingError(
            f"Training got {len(seeds)} seeds, {steps} steps and {n_environments} environments; "
            "each must be at least 1."
        )
    if n_snapshots and checkpoints is not None:
        raise TrainingError(
            f"{n_snapshots} snapshots were asked for with checkpoints, which do not hold them; "
            "leave one of the two out."
        )
    all_weights = np.repeat(weights, len(seeds), axis=0)
    all_seeds = np.tile(np.asarray(seeds), len(weights))
    task = make_task(harness, params, all_weights, equity_options or {})
    carry = start(harness, agent, n_environments, task, jnp.asarray(all_seeds, jnp.uint32))
    steps_per_block = agent.refresh_every * agent.rollout_length
    n_blocks = -(-steps // steps_per_block)
    kept: list[Any] = []
    wanted = snapshot_blocks(n_blocks, n_snapshots)

    def watch(n_run: int, carry: Carry) -> None:
        if n_run in wanted:
            # Copied: the next block writes over the memory of this one.
            kept.append(jax.tree.map(np.array, agent.policy(carry.agent)))

    carry, curve = run_blocks(
        partial(_run_block, harness, agent, task),
        carry,
        n_blocks=n_blocks,
        steps_per_block=steps_per_block,
        identity={
            **identify(harness, agent, all_weights, all_seeds),
            "n_environments": n_environments,
            "equity_options": repr(dict(equity_options or {})),
            "params": digest_arrays(params),
        },
        progress=progress,
        checkpoints=checkpoints,
        stop_after_s=stop_after_s,
        watch=watch,
    )
    return Trained(
        agent=agent,
        harness=harness,
        policies=jax.tree.map(np.asarray, agent.policy(carry.agent)),
        preferences=all_weights,
        seeds=all_seeds,
        prices=np.asarray(carry.running.equity.prices.mean(axis=1)),
        curve=curve,
        is_whole=len(curve) == n_blocks,
        snapshots=kept,
    )


def snapshot_blocks(n_blocks: int, n_snapshots: int) -> set[int]:
    """Blocks after which a policy is kept: spread over the second half, the last included."""
    return {n_blocks - i * (n_blocks // 2) // n_snapshots for i in range(n_snapshots)}


def identify(
    harness: Harness, agent: Agent, weights: np.ndarray, seeds: np.ndarray
) -> dict[str, Any]:
    """What makes a training this one and no other."""
    domain = harness.domain
    # What harnesses did not have is named where it is used, so that earlier trainings go on.
    later = {"denominator": "actionable", "strata": INCOME}
    shown = {
        name: value
        for name, value in vars(harness).items()
        if name != "domain" and later.get(name) != value
    }
    return {
        "domain": domain.slug,
        "domain_version": domain.version,
        "harness": shown,
        "agent": agent.name,
        "settings": asdict(agent.config) if agent.config is not None else None,
        "preferences": weights.tolist(),
        "seeds": seeds.tolist(),
    }


def check_preferences(preferences: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """Preferences as an (n, 4) array on the simplex, or an error that says what is wrong."""
    weights = np.asarray(preferences, np.float32)
    if weights.ndim != 2 or weights.shape[1] != N_REWARDS or len(weights) == 0:
        raise TrainingError(
            f"Preferences have shape {weights.shape}; give one row of four weights (speed, cost, "
            "equity, retention) for each."
        )
    if (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1.0, atol=1e-4):
        raise TrainingError(
            f"Preferences {weights.tolist()} must be at least 0 and each row must sum to 1."
        )
    return weights


def make_task(
    harness: Harness, params: Any, weights: np.ndarray, options: Mapping[str, Any]
) -> LearningTask:
    """Give every agent its own equity term; only those with a weight on it see their feature."""
    n_agents = len(weights)
    equity = harness.equity_params(params, **options)
    equity = jax.tree.map(lambda x: jnp.broadcast_to(x, (n_agents, *jnp.shape(x))), equity)
    is_visible = jnp.asarray(weights[:, EQUITY] > 0, jnp.float32)
    return LearningTask(params, equity._replace(is_visible=is_visible), jnp.asarray(weights))


PRICE_SPREAD = 0.5
"""Sd of the coverage prices training starts from, a third of their cap. Prices drift slowly, so an
agent that starts at zero never sees those under which it will work, and guesses there."""


def draw_prices(keys: jax.Array, equity: EquityParams, n_environments: int) -> jax.Array:
    """Prices to start from, (agents, environments, 6): centred, zero where equity has no weight."""
    draw = partial(jax.random.normal, shape=(n_environments, N_KNOWN_STRATA))
    drawn = PRICE_SPREAD * jax.vmap(draw)(keys)
    cap = equity.price_cap[:, None, None]
    centred = jnp.clip(drawn - drawn.mean(axis=-1, keepdims=True), -cap, cap)
    known = centred * equity.is_visible[:, None, None]
    return jnp.pad(known, ((0, 0), (0, 0), (0, 1)))


class Streams(NamedTuple):
    """Keys (agents,) of a training, each for one thing; numbers are folded into `updates` only."""

    agent: jax.Array
    resets: jax.Array
    prices: jax.Array
    updates: jax.Array


def open_streams(seeds: jax.Array) -> Streams:
    """Every agent's streams, from its own seed (agents,) alone."""
    return Streams(*split_each(jax.vmap(jax.random.key)(seeds), len(Streams._fields)))


def _fold_each(keys: jax.Array, number: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


@partial(jax.jit, static_argnames=("harness", "agent", "n_environments"), compiler_options=BRIEFLY)
def start(
    harness: Harness, agent: Agent, n_environments: int, task: LearningTask, seeds: jax.Array
) -> Carry:
    streams = open_streams(seeds)
    resets = jax.vmap(lambda key: jax.random.split(key, n_environments))(streams.resets)
    start_one = jax.vmap(harness.reset, in_axes=(0, None, None, 0))
    start_all = jax.vmap(start_one, in_axes=(0, None, 0, 0))
    prices = draw_prices(streams.prices, task.equity, n_environments)
    running, observation = start_all(resets, task.params, task.equity, prices)
    state = agent.init(streams.agent, n_environments, harness.n_features, harness.n_actions)
    return Carry(state, running, observation, streams.updates, jnp.int32(0))


@partial(jax.jit, static_argnames=("harness", "agent"), donate_argnames=("carry",))
def _run_block(
    harness: Harness, agent: Agent, task: LearningTask, carry: Carry
) -> tuple[Carry, dict[str, jax.Array]]:
    """Refresh once, then collect and update `refresh_every` times."""
    carry = carry._replace(agent=agent.refresh(carry.agent))

    def body(carry: Carry, _: None) -> tuple[Carry, dict[str, jax.Array]]:
        keys_collect, keys_update = split_each(_fold_each(carry.keys, carry.n_updates), 2)
        carry, rollout = _collect(harness, agent, task, carry, keys_collect)
        state, figures = agent.update(keys_update, carry.agent, rollout)
        figures = {"reward": rollout.reward.mean(axis=(0, 2)), **figures}
        return carry._replace(agent=state, n_updates=carry.n_updates + 1), figures

    carry, figures = jax.lax.scan(body, carry, None, length=agent.refresh_every)
    return carry, {name: values.mean(axis=0) for name, values in figures.items()}


def _collect(
    harness: Harness, agent: Agent, task: LearningTask, carry: Carry, keys: jax.Array
) -> tuple[Carry, Rollout]:
    """Play `rollout_length` steps with the exploring policy."""
    n_environments = carry.observation.shape[1]
    step_one = jax.vmap(harness.step, in_axes=(0, None, None, 0, 0))
    step_all = jax.vmap(step_one, in_axes=(0, None, 0, 0, 0))

    def body(
        now: tuple[Running, jax.Array], index: jax.Array
    ) -> tuple[tuple[Running, jax.Array], Rollout]:
        running, observation = now
        step_keys = _fold_each(keys, index)
        split = jax.vmap(lambda key: jax.random.split(key, n_environments + 1))(step_keys)
        action = agent.explore(split[:, 0], carry.agent, observation)
        moved = step_all(split[:, 1:], task.params, task.equity, running, action)
        reward = jnp.einsum("aek,ak->ae", moved.reward, task.preferences)
        seen = Rollout(
            observation,
            action,
            reward,
            moved.terminated,
            moved.truncated,
            moved.final_observation,
            moved.reward,
            moved.reward[..., EQUITY] * task.preferences[:, EQUITY, None],
        )
        return (moved.running, moved.observation), seen

    start = (carry.running, carry.observation)
    if agent.rollout_length == 1:
        (running, observation), seen = body(start, jnp.int32(0))
        rollout = jax.tree.map(lambda values: values[None], seen)
    else:
        (running, observation), rollout = jax.lax.scan(
            body, start, jnp.arange(agent.rollout_length)
        )
    return carry._replace(running=running, observation=observation), rollout
