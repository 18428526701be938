"""Steps kept with what equity was counted from, so that new denominators re-weight them.

The paper's fourth calibration step updates the denominators in the replay buffer. A stored step
holds its vector reward and the counters of the equity term before and after it; under new
denominators N̂ both what was paid and what was seen of coverage follow exactly, without a new step:
in the window N̂ enters each stratum's need as a factor. In the mode `dual` they do not: `WHY_NOT`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.errors import TrainingError
from parity311.mdp.contract import EQUITY, N_STRATA, Policy
from parity311.mdp.equity import EquityParams, EquityState, get_mode, hear_complaints
from parity311.mdp.harness import Harness
from parity311.storage.tensors import read_tensors, write_tensors
from parity311.training.offline import Decisions

N_SIDE_BY_SIDE = 8
WANDERS = 0.3
"""Share of the kept actions that are drawn at random: what was never tried is not learned from."""
WHY_NOT = (
    "in `dual` a price follows from every step before it and is seen by the policy: stored steps "
    "were paid by prices that other denominators would not have led to, so the process is simulated"
    " again"
)


class StoredSteps(NamedTuple):
    """Steps in order, (n, ...) each; NumPy arrays."""

    features: np.ndarray
    """(n, n_names) all that the domain observes"""
    next_features: np.ndarray
    stratum: np.ndarray
    """of the complaint in hand"""
    next_stratum: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    """(n, 4) as it was paid"""
    credit: np.ndarray
    """(n, 6) correct escalations that were paid for"""
    terminated: np.ndarray
    truncated: np.ndarray
    correct: np.ndarray
    """(n, 2, 6) correct escalations in the rolling window, before and after the step"""
    seen: np.ndarray
    """(n, 2, 6) need in that window, likewise"""
    complaints: np.ndarray
    """(n, 6) that the step brought"""
    n_steps: np.ndarray
    """(n,) steps counted before it"""
    recent: np.ndarray
    """(n, days, 6) complaints by day before it; no days where the mode keeps none"""
    denominators: np.ndarray
    """(6,) under which all of it was counted"""


def check_reweighs(harness: Harness) -> None:
    """Refuse the mode whose stored steps new denominators cannot re-weight."""
    if harness.equity_mode == "dual":
        raise TrainingError(f"Stored steps cannot be re-weighted: {WHY_NOT}.")


def store_steps(
    harness: Harness,
    params: Any,
    equity: EquityParams,
    policy: Policy,
    n: int,
    key: jax.Array,
) -> StoredSteps:
    """Play about n steps by a policy that tries other actions now and then, and keep them."""
    check_reweighs(harness)
    length = max(-(-n // N_SIDE_BY_SIDE), 1)
    keys = jax.random.split(key, N_SIDE_BY_SIDE)
    kept = jax.tree.map(np.asarray, _play(harness, params, equity, policy, keys, length))
    flat = [values.reshape(N_SIDE_BY_SIDE * length, *values.shape[2:]) for values in kept]
    return StoredSteps(*flat, denominators=np.asarray(equity.denominators))


@partial(jax.jit, static_argnames=("harness", "length"))
def _play(
    harness: Harness, params: Any, equity: Any, policy: Any, keys: jax.Array, length: int
) -> tuple[jax.Array, ...]:
    play = harness.domain.play
    nothing = jnp.zeros((0, N_STRATA))

    def one(key: jax.Array) -> tuple[jax.Array, ...]:
        key_reset, key_steps = jax.random.split(key)
        start = harness.reset(key_reset, params, equity)

        def body(carry: Any, key_step: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
            running, observation = carry
            key_act, key_any, key_which, key_move, key_next = jax.random.split(key_step, 5)
            wild = jax.random.randint(key_any, (), 0, harness.n_actions)
            wanders = jax.random.bernoulli(key_which, WANDERS)
            action = jnp.where(wanders, wild, policy(key_act, observation)).astype(jnp.int32)
            moved = harness.advance(key_move, params, equity, running, action)
            before, after = running.equity, moved.running.equity
            seen = (
                play.observe(params, running.state),
                play.observe(params, moved.running.state),
                play.current_stratum(params, running.state),
                play.current_stratum(params, moved.running.state),
                action,
                moved.reward,
                moved.credit,
                moved.terminated,
                moved.truncated,
                jnp.stack([before.correct, after.correct]),
                jnp.stack([before.correct + before.unserved, after.correct + after.unserved]),
                moved.tally.complaints,
                before.n_steps,
                nothing if before.recent is None else before.recent,
            )
            is_over = moved.terminated | moved.truncated
            fresh = play.initial_state(key_next, params)
            pick = lambda new, old: jnp.where(is_over, new, old)  # noqa: E731
            state = jax.tree.map(pick, fresh, moved.running.state)
            n_steps = jnp.where(is_over, 0, moved.running.n_steps)
            going_on = moved.running._replace(state=state, n_steps=n_steps)
            return (going_on, harness.observe(params, equity, going_on)), seen

        return jax.lax.scan(body, start, jax.random.split(key_steps, length))[1]

    return jax.vmap(one)(keys)


def reweigh(harness: Harness, steps: StoredSteps, equity: EquityParams) -> Decisions:
    """The stored steps as they would be paid and seen under other denominators."""
    check_reweighs(harness)
    mode = get_mode(harness.equity_mode, harness.equity_form)
    old, new = steps.denominators, np.asarray(equity.denominators)
    factor = np.where(old > 0, new / np.where(old > 0, old, 1.0), 1.0)
    window_steps = float(np.asarray(equity.window_steps))
    # A stratum in which no need was seen has its new need from the start on.
    seen = np.where(old > 0, steps.seen * factor, new * window_steps)

    def counters(place: int) -> EquityState:
        return EquityState(
            prices=jnp.zeros((len(steps.action), N_STRATA)),
            posted=jnp.zeros((len(steps.action), N_STRATA)),
            correct=jnp.asarray(steps.correct[:, place]),
            unserved=jnp.asarray(seen[:, place] - steps.correct[:, place], jnp.float32),
            complaints=jnp.zeros((len(steps.action), N_STRATA)),
            n_steps=jnp.asarray(steps.n_steps),
            recent=jnp.asarray(steps.recent) if steps.recent.shape[1] else None,
        )

    def pay(state: EquityState, heard: jax.Array, credit: jax.Array) -> jax.Array:
        known = hear_complaints(equity, state, heard) if mode.n_days else state
        return mode.reward(equity, known, credit)

    def look(features: jax.Array, state: EquityState, stratum: jax.Array) -> jax.Array:
        return harness.select(features, equity, state, stratum)

    before, after = counters(0), counters(1)
    paid = jax.vmap(pay)(before, jnp.asarray(steps.complaints), jnp.asarray(steps.credit))
    reward = steps.reward.copy()
    reward[:, EQUITY] = np.asarray(paid)
    show = jax.vmap(look)
    return Decisions(
        observation=np.asarray(
            show(jnp.asarray(steps.features), before, jnp.asarray(steps.stratum))
        ),
        action=steps.action,
        propensity=np.full(len(steps.action), np.nan),
        reward=reward,
        terminated=steps.terminated,
        truncated=steps.truncated,
        next_observation=np.asarray(
            show(jnp.asarray(steps.next_features), after, jnp.asarray(steps.next_stratum))
        ),
        n_actions=harness.n_actions,
        stratum=steps.stratum,
    )


def write_steps(path: Path, steps: StoredSteps, about: dict[str, Any]) -> Path:
    """Keep stored steps; `about` says of which harness they are."""
    return write_tensors(path, dict(steps._asdict()), about)


def read_steps(path: Path, about: dict[str, Any]) -> StoredSteps | None:
    """Stored steps of this harness; None where there are none, or of another."""
    try:
        arrays, found = read_tensors(path)
    except (OSError, ValueError):
        return None
    return StoredSteps(**arrays) if found == about else None
