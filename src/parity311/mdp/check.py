"""Check that a domain keeps the contract: what a newcomer runs on the thirteenth domain.

Each check looks at what the functions return, not at how they are written; the list of problems
is empty for a sound domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import jax, jnp
from parity311.mdp.contract import (
    BASELINES,
    EQUITY,
    N_REWARDS,
    N_STRATA,
    Domain,
    Policy,
    Transition,
)
from parity311.mdp.harness import Harness

N_EPISODES = 3
"""Episodes of random actions a domain is tried for, each a little longer than its time limit."""
N_ASKED = 256
"""Observations of those episodes that every rule is asked about."""


def check_domain(domain: Domain, params: Any = None, *, with_planner: bool = True) -> list[str]:
    """Problems of a domain's decision process, in plain words; an empty list is what you want.

    Where the domain has a planner it is run once, half a minute for the largest of ours.

    Examples
    --------
    >>> parity311.check_domain(boiler, with_planner=False)
    []
    """
    given = domain.play.example() if params is None else params
    problems = check_declaration(domain) + check_shapes(domain, given) + check_need(domain, given)
    if problems:
        return problems
    seen, moved, waiting, futures = play_at_random(domain, given)
    problems += check_values(seen, moved)
    problems += check_time(domain, np.asarray(moved.terminated))
    problems += check_conservation(moved, waiting) + check_capacity(domain, given, moved)
    problems += check_future(domain, futures) + check_rules(domain, given, seen)
    problems += check_keys(domain, given) + check_tracing(domain)
    return problems + (check_planner(domain, given, seen) if with_planner else [])


def check_declaration(domain: Domain) -> list[str]:
    """Names that do not fit together."""
    problems = []
    for name, features in domain.observation_sets.items():
        missing = [feature for feature in features if feature not in domain.observation_names]
        if missing:
            problems.append(f"observation set {name!r} names {missing}, which are not observed")
    if "published" not in domain.observation_sets:
        problems.append("there is no observation set 'published'")
    if domain.default_observation_set not in domain.observation_sets:
        problems.append(f"the default set {domain.default_observation_set!r} does not exist")
    unknown = [name for name in domain.geographic_features if name not in domain.observation_names]
    if unknown:
        problems.append(f"geographic features {unknown} are not observed")
    if not any(action.escalates for action in domain.actions):
        problems.append("no action escalates")
    if domain.max_steps < 1:
        problems.append("max_steps is not positive")
    if not np.isclose(sum(domain.preference), 1.0) or domain.preference[EQUITY] != 0.0:
        problems.append("the preference does not sum to 1 without equity")
    return problems + _check_baselines(domain)


def _check_baselines(domain: Domain) -> list[str]:
    """Baselines of the paper that are missing, unknown, or not explained."""
    if not domain.baselines:
        return []
    problems = []
    if set(domain.baselines) != set(BASELINES):
        odd = sorted(set(domain.baselines) ^ set(BASELINES))
        problems.append(f"the paper's baselines are not all told, or others are: {odd}")
    for name, baseline in domain.baselines.items():
        if baseline.rule and baseline.rule not in domain.heuristics:
            problems.append(f"baseline {name!r} is played by {baseline.rule!r}, which is no rule")
        if not baseline.words:
            problems.append(f"baseline {name!r} says neither what it does nor why it has none")
    return problems


def _first_step(domain: Domain, params: Any) -> tuple[Any, Transition]:
    play = domain.play
    state = play.initial_state(jax.random.key(0), params)
    prices = jnp.zeros(N_STRATA)
    return state, play.transition(jax.random.key(1), params, state, jnp.int32(0), prices)


def check_shapes(domain: Domain, params: Any) -> list[str]:
    """Shapes and types of what the functions return."""

    def look() -> tuple[Any, Transition, jax.Array]:
        state, moved = _first_step(domain, params)
        return state, moved, domain.play.observe(params, state)

    state, moved, seen = jax.eval_shape(look)
    wanted = [
        ("observation", seen, (len(domain.observation_names),), jnp.float32),
        ("reward", moved.reward, (N_REWARDS,), jnp.float32),
        ("published reward", moved.tally.published_reward, (N_REWARDS,), jnp.float32),
        ("terminated", moved.terminated, (), jnp.bool_),
        ("credit", moved.credit, (N_STRATA,), jnp.float32),
        ("outcomes", moved.tally.outcomes, (len(domain.outcome_names),), jnp.float32),
        ("measures", moved.tally.measures, (len(domain.measure_names),), jnp.float32),
        ("hours", moved.tally.hours, (), jnp.float32),
    ]
    by_stratum = ("correct", "counted", "actionable", "incidents", "reported_actionable")
    for name in (*by_stratum, "complaints", "visits"):
        wanted.append((name, getattr(moved.tally, name), (N_STRATA,), jnp.float32))
    problems = [
        f"{name} is {value.dtype}{list(value.shape)}, not {np.dtype(kind)}{list(shape)}"
        for name, value, shape, kind in wanted
        if value.shape != shape or value.dtype != kind
    ]
    before = jax.tree.map(lambda x: (x.shape, x.dtype), state)
    after = jax.tree.map(lambda x: (x.shape, x.dtype), moved.state)
    if before != after:
        problems.append("a step changes the shape or type of the state")
    # A type that gives way to others is another type after the step: all would compile twice.
    if any(x.weak_type for x in jax.tree.leaves((state, moved.state))):
        problems.append("the state has numbers without a type of their own: name it, float32")
    return problems


def play_at_random(
    domain: Domain, params: Any
) -> tuple[np.ndarray, Transition, np.ndarray, np.ndarray]:
    """Observations, transitions and complaints waiting under random actions, no harness.

    Each is (episodes, steps, ...); the complaints waiting start with those before the first step.
    Last come the observations (actions, steps, features) of the first episode under one action
    throughout: the random numbers are the same. One program plays all of them.
    """
    play = domain.play
    count = play.n_waiting or (lambda state: jnp.float32(0.0))
    waiting_in = lambda state: jnp.asarray(count(state), jnp.float32)  # noqa: E731

    def body(
        state: Any, given: tuple[jax.Array, jax.Array]
    ) -> tuple[Any, tuple[jax.Array, Transition, jax.Array]]:
        key, action = given
        moved = play.transition(key, params, state, action, jnp.zeros(N_STRATA))
        seen = play.observe(params, moved.state)
        return moved.state, (seen, moved._replace(state=()), waiting_in(moved.state))

    def episode(key: jax.Array, actions: jax.Array) -> tuple[jax.Array, Transition, jax.Array]:
        key_start, key_steps = jax.random.split(key)
        start = play.initial_state(key_start, params)
        keys = jax.random.split(key_steps, len(actions))
        seen, moved, waiting = jax.lax.scan(body, start, (keys, actions))[1]
        return seen, moved, jnp.append(waiting_in(start)[None], waiting)

    n_steps, n_each = domain.max_steps + 2, len(domain.actions)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(domain.actions_of("extended")), size=(N_EPISODES, n_steps))
    always = np.broadcast_to(np.arange(n_each)[:, None], (n_each, n_steps))
    actions = np.concatenate([chosen, always]).astype(np.int32)
    keys = jax.random.split(jax.random.key(0), N_EPISODES)
    keys = keys[np.append(np.arange(N_EPISODES), np.zeros(n_each, int))]
    seen, moved, waiting = jax.tree.map(np.asarray, jax.jit(jax.vmap(episode))(keys, actions))
    of_chosen = lambda x: x[:N_EPISODES]  # noqa: E731
    moved = jax.tree.map(of_chosen, moved)
    return of_chosen(seen), moved, of_chosen(waiting), seen[N_EPISODES:]


def check_need(domain: Domain, params: Any) -> list[str]:
    """What coverage divides by: numbers by stratum, and no more actionable ones than there are."""
    play, problems = domain.play, []
    need = np.asarray(play.need_per_step(params))
    every = need if play.incidents_per_step is None else np.asarray(play.incidents_per_step(params))
    for name, values in (("need", need), ("incidents", every)):
        if values.shape != (N_STRATA,) or not np.isfinite(values).all() or (values < 0).any():
            problems.append(f"{name} per step must be {N_STRATA} numbers, none negative")
    if not problems and (need > every * 1.0001 + 1e-9).any():
        problems.append("more incidents are actionable than there are")
    return problems


def check_conservation(moved: Transition, waiting: np.ndarray) -> list[str]:
    """Complaints that arrived must be closed with an outcome or still wait."""
    arrived = moved.tally.complaints.sum(axis=-1)
    closed = moved.tally.outcomes.sum(axis=-1)
    missing = arrived - closed - np.diff(waiting, axis=1)
    worst = float(np.abs(missing).max())
    if worst > 1e-2:
        return [f"up to {worst:g} complaints a step vanish or come from nowhere"]
    return []


def check_capacity(domain: Domain, params: Any, moved: Transition) -> list[str]:
    """No step may make more visits than there are inspectors."""
    if domain.play.capacity_per_step is None:
        return []
    most = float(domain.play.capacity_per_step(params))
    made = float(moved.tally.visits.sum(axis=-1).max())
    return (
        [] if made <= most * 1.0001 + 1e-4 else [f"{made:g} visits in a step that allows {most:g}"]
    )


def check_future(domain: Domain, futures: np.ndarray) -> list[str]:
    """Except where steps are independent cases, what is decided must change what comes next."""
    if domain.play.cases is not None:
        return []
    # Random numbers are the same for all, so any difference is the actions' doing.
    if np.allclose(futures, futures[:1], atol=1e-6):
        return ["actions leave the future alone: every policy sees the same states"]
    return []


def check_rules(domain: Domain, params: Any, seen: np.ndarray) -> list[str]:
    """Rules that cannot be made, or choose what is not among the published actions."""
    harness = Harness(domain)
    problems, policies = [], {}
    for name, make in domain.heuristics.items():
        try:
            policies[f"rule {name!r}"] = make(params, harness)
        except Exception as error:  # whatever a newcomer's rule raises is what they must read
            problems.append(f"rule {name!r} cannot be made: {type(error).__name__}: {error}")
    return problems + _check_policies(policies, harness, seen)


def check_planner(domain: Domain, params: Any, seen: np.ndarray) -> list[str]:
    """A planner that does not fit the domain's actions or features."""
    if domain.play.solve is None:
        return []
    harness = Harness(domain)
    try:
        policy = domain.play.solve(params, harness, np.asarray(domain.preference))
    except Exception as error:  # an optimum for other actions fails inside numpy or JAX
        return [f"the planner cannot solve it: {type(error).__name__}: {error}"]
    return _check_policies({"the planner": policy}, harness, seen)


def _check_policies(policies: dict[str, Policy], harness: Harness, seen: np.ndarray) -> list[str]:
    """Ask policies at what was seen, and say which actions they take that do not exist."""
    chosen_features = seen.reshape(-1, seen.shape[-1])[:N_ASKED, np.array(harness.columns)]
    # The coverage feature comes last: nobody is behind, or somebody is.
    coverage = np.arange(len(chosen_features)) % 2
    n_more = harness.n_features - chosen_features.shape[1]
    asked = np.column_stack([chosen_features, *[coverage] * n_more]).astype(np.float32)
    problems = []

    def ask(keys: jax.Array, asked: jax.Array) -> dict[str, jax.Array]:
        decided = {}
        for name, policy in policies.items():
            try:
                decided[name] = jax.vmap(policy)(keys, asked)
            except Exception as error:  # as above
                problems.append(f"{name} cannot decide: {type(error).__name__}: {error}")
        return decided

    keys = jax.random.split(jax.random.key(3), len(asked))
    n = harness.n_actions
    # One program for all of them; what a policy raises, it raises while it is traced.
    for name, actions in jax.device_get(jax.jit(ask)(keys, asked)).items():
        if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
            given = f"{actions.dtype}{list(actions.shape[1:])}"
            problems.append(f"{name} gives {given}, not one whole number")
        elif beyond := sorted({int(one) for one in actions if not 0 <= one < n}):
            told = f"{name} chooses action {beyond[0]}; there are {n}, from 0 to {n - 1}"
            problems.append(told)
    return problems


def check_values(observations: np.ndarray, moved: Transition) -> list[str]:
    """Numbers that are not numbers, counts that cannot be, and equity paid by the domain."""
    problems = []
    for name, values in (
        ("observation", observations),
        ("reward", moved.reward),
        ("published reward", moved.tally.published_reward),
        ("credit", moved.credit),
    ):
        if not np.isfinite(values).all():
            problems.append(f"{name} is not finite in some of {values.size} random values")
    for name, values in moved.tally._asdict().items():
        if name != "published_reward" and (values < 0).any():
            problems.append(f"{name} is negative")
    if (moved.tally.correct > moved.tally.visits + 1e-6).any():
        problems.append("there are more correct escalations than visits")
    if np.nan_to_num(moved.reward)[..., EQUITY].any():
        problems.append("the domain fills in the equity component, the harness's business")
    return problems


def check_time(domain: Domain, terminated: np.ndarray) -> list[str]:
    """Whether the domain ends episodes by the clock, which is the harness's business."""
    first = np.where(terminated.any(axis=1), terminated.argmax(axis=1) + 1, 0)
    if (first > 0).all() and len(set(first.tolist())) == 1 and first[0] >= domain.max_steps - 1:
        return [f"terminated is set by the clock, after {first[0]} steps in every episode"]
    return []


def check_keys(domain: Domain, params: Any) -> list[str]:
    """Whether a random key is used twice."""
    try:
        with jax.debug_key_reuse(True):
            jax.jit(lambda: _first_step(domain, params)).eval_shape()
    except jax.errors.KeyReuseError as error:
        return [f"a random key is used twice: {str(error).splitlines()[0]}"]
    return []


def check_tracing(domain: Domain) -> list[str]:
    """Whether params made again in the same shapes compile the step again."""
    n_traces = 0

    def step(given: Any) -> Any:
        nonlocal n_traces
        n_traces += 1
        return domain.play.initial_state(jax.random.key(0), given)

    compiled = jax.jit(step)
    for _ in range(2):
        compiled.eval_shape(domain.play.example())
    return [] if n_traces == 1 else [f"the same shapes are traced {n_traces} times"]


def check_harness(harness: Harness, params: Any = None) -> list[str]:
    """Problems of a domain in its harness: truncation, reset, and what a policy sees."""
    given = harness.domain.play.example() if params is None else params
    equity = harness.equity_params(given)
    running, observation = jax.jit(harness.reset)(jax.random.key(0), given, equity)
    problems = []
    if observation.shape != (harness.n_features,):
        problems.append(f"the policy sees {observation.shape}, not ({harness.n_features},)")
    last = running._replace(n_steps=jnp.int32(harness.horizon - 1))
    moved = jax.jit(harness.step)(jax.random.key(1), given, equity, last, jnp.int32(0))
    if not bool(moved.truncated | moved.terminated):
        problems.append(f"the episode goes on after {harness.horizon} steps")
    if int(moved.running.n_steps) != 0:
        problems.append("the clock is not reset with the episode")
    return problems
