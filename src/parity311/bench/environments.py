"""Environment steps per second: the pure step in one program, and through the adapters."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np

from parity311.adapters.setting import make_setting
from parity311.domains import all_domains
from parity311.mdp.harness import Harness, Playable

MOST_SIDE_BY_SIDE = 1024
"""Episodes in one program: enough to fill vector units and to spread the cost of a call."""
CACHED_BYTES = 2 << 20
"""States side by side take at most this, about what the caches of one core hold: with 1024
episodes, domains with a large state lose a sixth of their speed to memory."""
N_CORES = 2
"""The project's figures are for two cores; one program uses one."""
SECONDS = 2.0
"""Time a measurement takes at least."""


@partial(jax.jit, static_argnames=("harness", "n_steps"))
def _play(
    harness: Harness, params: Any, equity: Any, key: jax.Array, running: Any, n_steps: int
) -> tuple[Any, jax.Array]:
    n = running.n_steps.shape[0]
    n_actions = harness.n_actions

    def body(running: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        key_actions, key_steps = jax.random.split(key)
        actions = jax.random.randint(key_actions, (n,), 0, n_actions)
        keys = jax.random.split(key_steps, n)
        moved = jax.vmap(harness.step, in_axes=(0, None, None, 0, 0))(
            keys, params, equity, running, actions
        )
        # Everything a learner reads is read, so that nothing of it is compiled away.
        seen = moved.reward.sum() + moved.observation.sum() + moved.truncated.sum()
        return moved.running, seen

    running, seen = jax.lax.scan(body, running, jax.random.split(key, n_steps))
    return running, seen.sum()


def state_bytes(setting: Playable) -> int:
    """Bytes of one running episode."""
    running, _ = jax.eval_shape(
        lambda: setting.harness.reset(jax.random.key(0), setting.params, setting.equity)
    )
    sizes = (np.prod(x.shape, dtype=int) * x.dtype.itemsize for x in jax.tree.leaves(running))
    return int(sum(sizes))


def fitting_episodes(n_bytes: int) -> int:
    """Episodes of so many bytes that are played side by side: a power of two."""
    n_fitting = max(CACHED_BYTES // n_bytes, 1)
    return min(1 << (n_fitting.bit_length() - 1), MOST_SIDE_BY_SIDE)


def pure_steps_per_second(setting: Playable, n_side_by_side: int) -> float:
    """Steps per second of the compiled step under random actions, on two cores."""
    harness, params, equity = setting.harness, setting.params, setting.equity
    keys = jax.random.split(jax.random.key(0), n_side_by_side)
    start, _ = jax.jit(jax.vmap(lambda key: harness.reset(key, params, equity)))(keys)
    n_steps = 64
    play = partial(_play, harness, params, equity)

    def work(number: int) -> int:
        n, began = 0, time.perf_counter()
        running, key = start, jax.random.key(number)
        while time.perf_counter() - began < SECONDS:
            key, own = jax.random.split(key)
            running, seen = play(own, running, n_steps)
            jax.block_until_ready(seen)
            n += n_steps * n_side_by_side
        return n

    # Twice, the second time from where the first led: nothing is left to compile.
    running, _ = play(jax.random.key(0), start, n_steps)
    jax.block_until_ready(play(jax.random.key(0), running, n_steps))
    began = time.perf_counter()
    with ThreadPoolExecutor(N_CORES) as pool:
        total = sum(pool.map(work, range(N_CORES)))
    return total / (time.perf_counter() - began)


def gymnasium_steps_per_second(slug: str) -> float:
    """Steps per second through the Gymnasium environment under random actions, one episode."""
    from parity311.adapters.environment import ComplaintEnvironment

    environment = ComplaintEnvironment(slug)
    actions = np.random.default_rng(0).integers(environment.setting.harness.n_actions, size=1000)
    environment.reset(seed=0)
    for action in actions[:2]:
        environment.step(action)
    n, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        for action in actions:
            *_, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset()
        n += len(actions)
    return n / (time.perf_counter() - began)


def vector_steps_per_second(slug: str, n_side_by_side: int = MOST_SIDE_BY_SIDE) -> float:
    """Steps per second through the Gymnasium vector environment, all episodes together."""
    from parity311.adapters.environment import ComplaintVectorEnvironment

    environment = ComplaintVectorEnvironment(n_side_by_side, domain=slug)
    rng = np.random.default_rng(0)
    actions = rng.integers(environment.setting.harness.n_actions, size=(16, n_side_by_side))
    environment.reset(seed=0)
    for row in actions[:2]:
        environment.step(row)
    n, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        for row in actions:
            environment.step(row)
        n += actions.size
    return n / (time.perf_counter() - began)


def measure_domain(slug: str) -> dict[str, Any]:
    """Figures of one domain."""
    setting = make_setting(slug)
    n_bytes = state_bytes(setting)
    n_side_by_side = fitting_episodes(n_bytes)
    pure = pure_steps_per_second(setting, n_side_by_side)
    gymnasium = gymnasium_steps_per_second(slug)
    return {
        "domain": slug,
        "pure_steps_per_s": pure,
        "gymnasium_steps_per_s": gymnasium,
        "vector_steps_per_s": vector_steps_per_second(slug),
        "ratio": pure / gymnasium,
        "state_bytes": n_bytes,
        "side_by_side": n_side_by_side,
    }


def measure_domains(domains: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Figures of these domains; of all that have a decision process if none is named."""
    names = domains or tuple(slug for slug, one in all_domains().items() if one.is_playable)
    return [measure_domain(slug) for slug in names]
