"""The harness: time limits, automatic reset, the equity term and the observation.

A domain says what an action does; the harness says when an episode is cut off, starts the next
one, fills in the equity component of the reward, and shows the policy the features of its set
followed by the coverage feature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of
from parity311.errors import InputError, unknown_name
from parity311.mdp.contract import EQUITY, N_REWARDS, TODAYS_RULE, Domain, Tally, Transition
from parity311.mdp.equity import (
    DENOMINATORS,
    EquityMode,
    EquityParams,
    EquityState,
    EquityTerm,
    equity_params,
    get_mode,
    hear_complaints,
    initial_equity,
)
from parity311.records.strata import INCOME


class Running(NamedTuple):
    """An episode in progress; the equity part outlives it."""

    state: Any
    equity: EquityState
    n_steps: jax.Array
    """() int32 steps taken in this episode"""


class Advance(NamedTuple):
    """One step of an episode, with nothing done about its end."""

    running: Running
    observation: jax.Array
    """(n_features,) what the action led to"""
    reward: jax.Array
    """(4,) what the action saved, equity included"""
    terminated: jax.Array
    """() bool: the process ended; there is no future to value"""
    truncated: jax.Array
    """() bool: time ran out; the future is only cut off"""
    tally: Tally
    credit: jax.Array
    """(6,) correct escalations that were paid for"""


class Step(NamedTuple):
    """One step: what to continue from, what was earned, and whether an episode ended."""

    running: Running
    observation: jax.Array
    """(n_features,) to act on next: the new episode's first where one ended"""
    reward: jax.Array
    """(4,) what the action saved, equity included"""
    terminated: jax.Array
    """() bool: the process ended; there is no future to value"""
    truncated: jax.Array
    """() bool: time ran out; the future is only cut off"""
    final_observation: jax.Array
    """(n_features,) what the action led to, before any reset"""
    tally: Tally


@dataclass(frozen=True)
class Harness:
    """A domain with the choices a policy is trained and judged under; hashable, hence static.

    Examples
    --------
    >>> import jax
    >>> harness = parity311.Harness(boiler, max_steps=4)
    >>> equity = harness.equity_params(params)
    >>> running, observation = harness.reset(jax.random.key(0), params, equity)
    >>> observation.shape == (harness.n_features,)
    True
    >>> step, inspect = jax.jit(harness.step), jax.numpy.int32(1)
    >>> moved = step(jax.random.key(1), params, equity, running, inspect)
    >>> moved.reward.shape, bool(moved.truncated)
    ((4,), False)
    """

    domain: Domain
    observation_set: str = ""
    """Name of the features a policy sees; the domain's default if empty"""
    action_set: str = "published"
    """The paper's actions, or 'extended': those and the domain's further ones"""
    equity_mode: str = "dual"
    equity_form: str = "max_gap"
    """Disparity that the modes other than 'dual' pay for"""
    denominator: str = "actionable"
    """What correct escalations are divided by; 'all' incidents is the paper's"""
    strata: str = INCOME
    """Groups that the strata of the params are; told with the policy"""
    max_steps: int = 0
    """Steps until an episode is truncated; the domain's own if zero"""
    carries_on: bool = False
    """Whether who waits at the end of an episode waits in the next; else it starts anew"""

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions of the chosen features among all that the domain observes."""
        chosen = self.observation_set or self.domain.default_observation_set
        return self.domain.observation_indices(chosen)

    @property
    def observation_names(self) -> tuple[str, ...]:
        """What a policy sees, in order; the coverage feature is always last."""
        chosen = (self.domain.observation_names[i] for i in self.columns)
        return (*chosen, *self._mode.feature_names)

    @property
    def n_features(self) -> int:
        """Length of an observation."""
        return len(self.observation_names)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.domain.actions_of(self.action_set))

    @property
    def horizon(self) -> int:
        """Steps until an episode is truncated."""
        return self.max_steps or self.domain.max_steps

    @property
    def term(self) -> EquityTerm:
        """The equity term that is paid, by name."""
        return EquityTerm(self.equity_mode, self.equity_form, self.denominator, self.strata)

    @property
    def _mode(self) -> EquityMode:
        return get_mode(self.equity_mode, self.equity_form)

    def equity_params(self, params: Any, **options: Any) -> EquityParams:
        """Equity parameters from a domain's (estimated) params; options as `equity_params`."""
        play = self.domain.play
        settings = {"step_size": self.domain.price_step, **options}
        if self._mode.n_days and "usual_reports" not in settings:
            settings["usual_reports"] = usual_reports(self, params)
        return equity_params(
            self.need_per_step(params), steps_per_day=play.steps_per_day(params), **settings
        )

    def need_per_step(self, params: Any) -> jax.Array:
        """(6,) incidents a step that correct escalations are divided by, actionable or all."""
        if self.denominator not in DENOMINATORS:
            raise unknown_name("denominator", self.denominator, DENOMINATORS)
        play = self.domain.play
        if self.denominator == "actionable":
            return play.need_per_step(params)
        if play.incidents_per_step is None:
            raise InputError(
                f"Domain {self.domain.slug!r} does not say how many incidents there are, only how "
                "many are actionable; choose the denominator 'actionable'."
            )
        return play.incidents_per_step(params)

    def reset(
        self, key: jax.Array, params: Any, equity: EquityParams, prices: jax.Array | None = None
    ) -> tuple[Running, jax.Array]:
        """Start an episode, with these coverage prices (zero if not given)."""
        state = self.domain.play.initial_state(key, params)
        counters = initial_equity(equity, prices, self._mode.n_days)
        running = Running(state, counters, jnp.int32(0))
        return running, self.observe(params, equity, running)

    def observe(self, params: Any, equity: EquityParams, running: Running) -> jax.Array:
        """What the policy sees, (n_features,)."""
        play = self.domain.play
        features = play.observe(params, running.state)
        stratum = play.current_stratum(params, running.state)
        return self.select(features, equity, running.equity, stratum)

    def select(
        self, features: jax.Array, equity: EquityParams, state: EquityState, stratum: jax.Array
    ) -> jax.Array:
        """What the policy sees (..., n_features) of all the domain's features (..., n_names).

        NumPy or JAX; `stratum` (...) is that of the complaint in hand, or `NOBODY`.
        """
        chosen = features[..., np.array(self.columns)]
        coverage = self._mode.features(equity, state, stratum)
        return namespace_of(chosen, coverage).concatenate([chosen, coverage], axis=-1)

    def learn(
        self, equity: EquityParams, state: EquityState, complaints: jax.Array, correct: jax.Array
    ) -> EquityState:
        """Prices and counters after one more step, in which so much was heard and done.

        NumPy or JAX: `complaints` that came in and `correct` escalations as the agency counts
        them, (6,) each.
        """
        return self._mode.update(equity, hear_complaints(equity, state, complaints), correct)

    def earn(self, equity: EquityParams, state: EquityState, tally: Tally) -> jax.Array:
        """() What the equity term pays for the correct escalations of a step, when they are made.

        Training pays for what an action is expected to bring, when it is ordered: `Advance.reward`.
        """
        if self._mode.n_days:
            state = hear_complaints(equity, state, tally.complaints)
        return self._mode.reward(equity, state, tally.counted)

    def advance(
        self,
        key: jax.Array,
        params: Any,
        equity: EquityParams,
        running: Running,
        action: jax.Array,
    ) -> Advance:
        """Take one action; whoever calls starts the next episode where this one has ended.

        Nothing can be raised from inside a compiled step, so an action that is not one of the
        harness's is paid what is not a number, in place of what a domain would make of it.
        """
        play = self.domain.play
        # In force only for who pays for coverage: all others work as if there were none.
        prices = running.equity.posted * equity.is_visible
        moved = _pay_only(self.n_actions, action, play.transition(
            key, params, running.state, action, prices))  # fmt: skip
        before = running.equity
        if self._mode.n_days:
            before = hear_complaints(equity, before, moved.tally.complaints)
        paid = self._mode.reward(equity, before, moved.credit)
        reward = jnp.where(jnp.arange(N_REWARDS) == EQUITY, paid, moved.reward)
        counted = self.learn(equity, running.equity, moved.tally.complaints, moved.tally.counted)
        n_steps = running.n_steps + 1
        arrived = Running(moved.state, counted, n_steps)
        truncated = (n_steps >= self.horizon) & ~moved.terminated
        observation = self.observe(params, equity, arrived)
        return Advance(
            arrived, observation, reward, moved.terminated, truncated, moved.tally, moved.credit
        )

    def step(
        self,
        key: jax.Array,
        params: Any,
        equity: EquityParams,
        running: Running,
        action: jax.Array,
    ) -> Step:
        """Take one action; where the episode ends, the next one has already begun."""
        key_transition, key_reset = jax.random.split(key)
        moved = self.advance(key_transition, params, equity, running, action)
        arrived = moved.running
        is_over = moved.terminated | moved.truncated
        play = self.domain.play
        carry_on = play.carry_on if self.carries_on else None
        fresh = (
            play.initial_state(key_reset, params)
            if carry_on is None
            else carry_on(params, arrived.state)
        )
        state = jax.tree.map(lambda new, old: jnp.where(is_over, new, old), fresh, arrived.state)
        going_on = Running(state, arrived.equity, jnp.where(is_over, 0, arrived.n_steps))
        # Seen from the fresh state alone, which is often a constant, not from the chosen one.
        first = self.observe(params, equity, going_on._replace(state=fresh))
        return Step(
            going_on,
            jnp.where(is_over, first, moved.observation),
            moved.reward,
            moved.terminated,
            moved.truncated,
            moved.observation,
            moved.tally,
        )


def _pay_only(n_actions: int, action: jax.Array, moved: Transition) -> Transition:
    """A transition whose rewards are not a number where the action does not exist."""
    exists = (action >= 0) & (action < n_actions)
    pay = lambda reward: jnp.where(exists, reward, jnp.nan)  # noqa: E731
    tally = moved.tally._replace(published_reward=pay(moved.tally.published_reward))
    return moved._replace(reward=pay(moved.reward), tally=tally)


N_HEARD = 64
"""Episodes from which the usual number of complaints is taken: to about one in a hundred."""


def usual_reports(harness: Harness, params: Any) -> np.ndarray:
    """Complaints a step (6,) that a process brings while today's rule decides."""
    plain = replace(harness, equity_mode="dual", denominator="actionable")
    params = jax.tree.map(jnp.asarray, params)
    rule = plain.domain.heuristics[TODAYS_RULE](params, plain)
    heard = _hear(plain, params, plain.equity_params(params), rule, jax.random.key(0))
    return np.asarray(heard)


def _hear(harness: Harness, params: Any, equity: EquityParams, rule: Any, key: Any) -> jax.Array:
    """Mean over episodes side by side and their steps of the complaints (6,) that came in."""

    def episode(key_episode: jax.Array) -> jax.Array:
        key_start, key_steps = jax.random.split(key_episode)

        def step(carry: Any, key_step: jax.Array) -> tuple[Any, jax.Array]:
            running, observation = carry
            key_rule, key_move = jax.random.split(key_step)
            moved = harness.advance(key_move, params, equity, running, rule(key_rule, observation))
            return (moved.running, moved.observation), moved.tally.complaints

        started = harness.reset(key_start, params, equity)
        keys = jax.random.split(key_steps, harness.horizon)
        return jax.lax.scan(step, started, keys)[1].mean(axis=0)

    return jax.jit(jax.vmap(episode))(jax.random.split(key, N_HEARD)).mean(axis=0)


@dataclass(frozen=True)
class Playable:
    """A harness with its params, ready to be stepped."""

    harness: Harness
    params: Any
    equity: EquityParams
    preference: np.ndarray
    """(4,) weights of the scalar reward"""
