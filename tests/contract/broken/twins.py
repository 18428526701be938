"""A tiny sound domain, and twins of it that each break one rule of the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.mdp.contract import N_STRATA, Action, Baseline, Domain, Dynamics, Tally, Transition


class Params(NamedTuple):
    worth: jax.Array


class State(NamedTuple):
    level: jax.Array
    n_steps: jax.Array


def initial_state(key: jax.Array, params: Params) -> State:
    del params
    return State(jax.random.uniform(key), jnp.int32(0))


def empty_tally(reward: jax.Array) -> Tally:
    none = jnp.zeros(N_STRATA)
    return Tally(
        reward, none, none, none, none, none, none, none, jnp.float32(0.0), jnp.zeros(1)
    )  # fmt: skip


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    del prices
    paid = params.worth * action.astype(jnp.float32) * state.level
    reward = jnp.stack([paid, jnp.float32(0.0), jnp.float32(0.0), jnp.float32(0.0)])
    return Transition(
        # Who acts today finds less tomorrow: what is decided changes what comes next.
        state=State(jax.random.uniform(key) / (1.0 + action), state.n_steps + 1),
        reward=reward,
        terminated=jnp.zeros((), bool),
        credit=jnp.zeros(N_STRATA),
        tally=empty_tally(reward),
    )


def observe(params: Params, state: State) -> jax.Array:
    del params
    return jnp.stack([state.level])


def make_domain(**functions: Any) -> Domain:
    """The sound domain, with some of its functions replaced."""
    own: dict[str, Any] = {
        "params_type": Params,
        "initial_state": initial_state,
        "transition": transition,
        "observe": observe,
        "current_stratum": lambda params, state: jnp.int32(0),
        "need_per_step": lambda params: jnp.ones(N_STRATA),
        "incidents_per_step": lambda params: jnp.full(N_STRATA, 2.0),
        "steps_per_day": lambda params: jnp.float32(1.0),
        "n_waiting": lambda state: jnp.float32(0.0),
        "capacity_per_step": lambda params: jnp.float32(1.0),
        "example": lambda: Params(jnp.float32(1.0)),
        "estimate": lambda records, calibration, date_to: Params(jnp.float32(1.0)),
        "truth": lambda city, date_from: Params(jnp.float32(1.0)),
    }
    return Domain(
        slug="tiny",
        title="Tiny",
        version=1,
        decision="act or not",
        who_waits="nobody",
        not_for="anything",
        source="made up",
        process=None,  # type: ignore[arg-type]
        actions=(Action("wait", False, 0.0), Action("act", True, 1.0)),
        observation_names=("level",),
        observation_sets={"published": ("level",)},
        outcome_names=("any",),
        max_steps=20,
        dynamics=Dynamics(**{**own, **functions}),
    )


def _reuse_key(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    again = jax.random.uniform(key)
    return moved._replace(state=moved.state._replace(level=moved.state.level + 0.0 * again))


def _end_by_the_clock(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(terminated=moved.state.n_steps >= 20)


def _pay_nan(key: jax.Array, params: Params, state: State, action: Any, prices: Any) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(reward=moved.reward + jnp.log(-moved.state.level))


def _pay_three(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(reward=moved.reward[:3])


def _pay_equity(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(reward=moved.reward + jnp.float32([0.0, 0.0, 1.0, 0.0]))


def _grow(key: jax.Array, params: Params, state: State, action: Any, prices: Any) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(state=moved.state._replace(level=jnp.zeros(2)))


def _more_correct_than_visits(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(tally=moved.tally._replace(correct=jnp.ones(N_STRATA)))


def _leave_the_future_alone(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(state=moved.state._replace(level=jax.random.uniform(key)))


def _lose_a_complaint(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(tally=moved.tally._replace(complaints=jnp.ones(N_STRATA)))


def _visit_too_often(
    key: jax.Array, params: Params, state: State, action: Any, prices: Any
) -> Transition:
    moved = transition(key, params, state, action, prices)
    return moved._replace(tally=moved.tally._replace(visits=jnp.ones(N_STRATA)))


@jax.tree_util.register_pytree_node_class
class _StaticParams:
    """Params that hide a fresh object in their static part, so that no two are alike."""

    worth = 1.0

    def __init__(self) -> None:
        self.hidden = object()

    def tree_flatten(self) -> tuple[tuple[()], object]:
        return (), self.hidden

    @classmethod
    def tree_unflatten(cls, hidden: object, children: tuple[()]) -> _StaticParams:
        made = cls()
        made.hidden = hidden
        return made


def _act_beyond(params: Params, harness: Any) -> Any:
    del params
    return lambda key, seen: jnp.int32(harness.n_actions)


def _rank_a_crew(params: Params, harness: Any) -> Any:
    """A rule, or a planner, made for a domain with more actions."""
    ranked = jnp.arange(harness.n_actions - 2)
    return lambda key, seen: jnp.argmax(ranked).astype(jnp.int32)


BROKEN: dict[str, tuple[Callable[[], Domain], str]] = {
    "reused key": (lambda: make_domain(transition=_reuse_key), "used twice"),
    "ends by the clock": (lambda: make_domain(transition=_end_by_the_clock), "by the clock"),
    "reward is not a number": (lambda: make_domain(transition=_pay_nan), "not finite"),
    "reward too short": (lambda: make_domain(transition=_pay_three), "reward is"),
    "pays equity itself": (lambda: make_domain(transition=_pay_equity), "equity component"),
    "state changes its shape": (lambda: make_domain(transition=_grow), "shape or type"),
    "state without a type": (
        lambda: make_domain(
            initial_state=lambda key, params: State(jnp.full((), 0.5), jnp.int32(0))
        ),
        "without a type",
    ),
    "traced again": (lambda: make_domain(example=_StaticParams), "traced"),
    "more correct than visits": (
        lambda: make_domain(transition=_more_correct_than_visits),
        "more correct",
    ),
    "actions leave the future alone": (
        lambda: make_domain(transition=_leave_the_future_alone),
        "leave the future alone",
    ),
    "need without strata": (
        lambda: make_domain(need_per_step=lambda params: jnp.ones(())),
        "need per step must be",
    ),
    "fewer incidents than actionable ones": (
        lambda: make_domain(incidents_per_step=lambda params: jnp.full(N_STRATA, 0.5)),
        "more incidents are actionable",
    ),
    "a complaint vanishes": (lambda: make_domain(transition=_lose_a_complaint), "vanish"),
    "more visits than inspectors": (lambda: make_domain(transition=_visit_too_often), "allows 1"),
    "observes less than it names": (
        lambda: replace(
            make_domain(),
            observation_names=("level", "other"),
            observation_sets={"published": ("level", "other")},
        ),
        "observation is",
    ),
    "measures less than it names": (
        lambda: replace(make_domain(), measure_names=("level",)),
        "measures is",
    ),
    "set names what is not observed": (
        lambda: replace(make_domain(), observation_sets={"published": ("levle",)}),
        "not observed",
    ),
    "a rule chooses what does not exist": (
        lambda: replace(make_domain(), heuristics={"balanced": _act_beyond}),
        "rule 'balanced' chooses action 2; there are 2, from 0 to 1",
    ),
    "not all of the paper's baselines": (
        lambda: replace(make_domain(), baselines={"balanced": Baseline("", "nobody asked")}),
        "baselines are not all told",
    ),
    "a baseline that nobody plays": (
        lambda: replace(make_domain(), baselines={"balanced": Baseline("balanced", "as now")}),
        "played by 'balanced', which is no rule",
    ),
    "a baseline without a word": (
        lambda: replace(make_domain(), baselines={"tail": Baseline("", "")}),
        "says neither what it does nor why",
    ),
    "a rule that cannot decide": (
        lambda: replace(make_domain(), heuristics={"balanced": _rank_a_crew}),
        "rule 'balanced' cannot decide",
    ),
    "a rule that cannot be made": (
        lambda: replace(make_domain(), heuristics={"balanced": lambda params, harness: 1 / 0}),
        "rule 'balanced' cannot be made: ZeroDivisionError",
    ),
    "a rule that gives a share": (
        lambda: replace(
            make_domain(), heuristics={"balanced": lambda params, harness: lambda key, seen: seen}
        ),
        "not one whole number",
    ),
    "a planner for other actions": (
        lambda: make_domain(solve=lambda params, harness, preference: np.argmax(np.zeros((0, 3)))),
        "the planner cannot solve it: ValueError",
    ),
    "a planner that chooses what does not exist": (
        lambda: make_domain(solve=lambda params, harness, preference: _act_beyond(params, harness)),
        "the planner chooses action 2",
    ),
    "nothing escalates": (
        lambda: replace(make_domain(), actions=(Action("wait", False, 0.0),) * 2),
        "escalates",
    ),
}
"""What is wrong -> (twin, words its rejection must contain)."""
