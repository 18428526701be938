"""What limits many small agents on a GPU: time with parts left out, and by kernel.

    python3 benchmarks/gpu_profile.py --out FILE.json [--agents 640] [--quick]

Needs jax, numpy and safetensors only and runs from a copy of the source tree. DQN of the paper's
size in the boiler domain, one environment and one update a step, as `gpu_sweep.py`. Every row is
one compiled block of updates: what the row before has and this one leaves out is what it costs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from gpu_sweep import describe_machine

from parity311.agents import dqn, replay
from parity311.agents.dqn import DQNConfig, make_value_agent
from parity311.domains.boiler import DOMAIN
from parity311.mdp.harness import Harness
from parity311.training import loop
from parity311.training.frontier import boiler_settings

N_TIMED = 3
Block = Callable[[Any], Any]


def setting(n_agents: int, agent: Any) -> tuple[Any, Any, Any]:
    """Harness, task and first carry of so many agents."""
    harness = Harness(DOMAIN)
    weights = np.resize(boiler_settings(), (n_agents, 4))
    task = loop.make_task(harness, DOMAIN.play.example(), weights, {})
    carry = loop.start(harness, agent, 1, task, jnp.arange(n_agents, dtype=jnp.uint32))
    return harness, task, carry


def whole(n_agents: int, agent: Any) -> tuple[Block, Any]:
    """A block as the training runs it."""
    harness, task, carry = setting(n_agents, agent)
    return partial(loop._run_block.__wrapped__, harness, agent, task), carry


def fits_alone(n_agents: int, config: DQNConfig, fit: Callable[..., Any]) -> tuple[Block, Any]:
    """Updates on one and the same batch, without any step of the environment."""
    agent = make_value_agent("dqn", config)
    _, _, carry = setting(n_agents, agent)
    width = carry.agent.buffer.shape[-1]
    rows = jax.random.normal(jax.random.key(0), (n_agents, config.batch_size, width))

    def block(state: Any) -> Any:
        def body(state: Any, _: None) -> Any:
            return fit(config, state, rows)

        return jax.lax.scan(body, state, None, length=config.target_every)

    return block, carry.agent


def only_collects(state: Any, n: int) -> Any:
    """What stands in for an update that is left out."""
    return state._replace(n_steps=state.n_steps + 1), {"loss": jnp.zeros(n)}


def leave_out_fit(config: DQNConfig, keys: Any, state: Any, rollout: Any) -> Any:
    """Write and draw rows, and learn nothing from them."""
    del keys
    rows = replay.pack_rows(rollout)
    buffer = replay.write_rows(state.buffer, state.n_steps, rows)
    batch = replay.sample_rows(buffer, state.n_steps + 1, rows.shape[0], config.batch_size)
    moved = state._replace(buffer=buffer, n_steps=state.n_steps + 1)
    return moved, {"loss": batch.mean(axis=(1, 2))}


def plain_step(network: Any, momentum: Any, square: Any, gradient: Any, *_: Any, **__: Any) -> Any:
    """Gradient descent in the place of Adam: no moments are read or written."""
    return {k: network[k] - 1e-3 * gradient[k] for k in network}, momentum, square


def forward_only(config: DQNConfig, state: Any, rows: jax.Array) -> Any:
    """The loss, without its gradient; it moves one bias, so that nothing is optimised away."""
    _, loss = dqn._loss(state.network, state.target, rows, config)
    moved = {**state.network, "bias_0": state.network["bias_0"] + 1e-9 * loss[:, None]}
    return state._replace(network=moved, n_steps=state.n_steps + 1), {"loss": loss}


def flat_adam(
    network: Any, momentum: Any, square: Any, gradient: Any, n_updates: Any, **given: Any
) -> Any:
    """Adam over all weights of an agent as one array: one kernel where there were six."""
    from parity311.agents.adam import adam_step

    names = sorted(network)
    shapes = [network[k].shape for k in names]
    ends = np.cumsum([int(np.prod(shape[1:])) for shape in shapes])[:-1]
    flat = lambda tree: {  # noqa: E731
        "all": jnp.concatenate([tree[k].reshape(tree[k].shape[0], -1) for k in names], axis=1)
    }
    moved = adam_step(
        flat(network), flat(momentum), flat(square), flat(gradient), n_updates, **given
    )
    split = lambda one: {  # noqa: E731
        k: part.reshape(shape)
        for k, part, shape in zip(names, jnp.split(one["all"], ends, axis=1), shapes, strict=True)
    }
    return tuple(split(one) for one in moved)


def measure(label: str, block: Block, carry: Any, n_agents: int, n_updates: int) -> dict[str, Any]:
    """Compile, run once, time the next blocks."""
    began = time.perf_counter()
    compiled = jax.jit(block).lower(carry).compile()
    compile_s = time.perf_counter() - began
    carry, _ = jax.block_until_ready(compiled(carry))
    times = []
    for _ in range(N_TIMED):
        began = time.perf_counter()
        carry, _ = jax.block_until_ready(compiled(carry))
        times.append(time.perf_counter() - began)
    seconds = float(np.median(times))
    found = {
        "label": label,
        "agents": n_agents,
        "compile_s": compile_s,
        "us_an_update": 1e6 * seconds / n_updates,
        "million_agent_steps_per_s": n_agents * n_updates / seconds / 1e6,
    }
    print(
        f"{label:44s} {n_agents:6d} {compile_s:8.1f} {found['us_an_update']:10.1f} "
        f"{found['million_agent_steps_per_s']:8.3f}",
        flush=True,
    )
    return found


def kernel_times(block: Block, carry: Any) -> list[dict[str, Any]]:
    """Where a block's time goes by the device's own events, the longest first."""
    compiled = jax.jit(block).lower(carry).compile()
    jax.block_until_ready(compiled(carry))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            jax.block_until_ready(compiled(carry))
        path = next(Path(folder).rglob("perfetto_trace.json.gz"))
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {
        e["pid"]: e["args"]["name"]
        for e in events
        if e.get("ph") == "M" and e.get("name") == "process_name"
    }
    spent: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for event in events:
        if event.get("ph") == "X" and "device" in str(names.get(event["pid"], "")).lower():
            spent[event["name"]] += event.get("dur", 0)
            counted[event["name"]] += 1
    total = sum(spent.values()) or 1
    return [
        {"kernel": name, "us": us, "calls": counted[name], "share": us / total}
        for name, us in spent.most_common(25)
    ]


def variants(n: int, config: DQNConfig) -> list[tuple[str, int, Callable[[], tuple[Block, Any]]]]:
    """Rows of the table: label, agents, and what makes the block and its first carry."""
    agent = make_value_agent("dqn", config)
    half = make_value_agent("dqn", replace(config, dtype="bfloat16"))
    collects = agent._replace(update=lambda keys, state, rollout: only_collects(state, n))
    draws = agent._replace(update=partial(leave_out_fit, config))

    def patched(name: str, function: Any, made: Callable[[], tuple[Block, Any]]) -> Any:
        def make() -> tuple[Block, Any]:
            block, carry = made()

            def inside(carry: Any) -> Any:
                with mock.patch.object(dqn, name, function):
                    return block(carry)

            return inside, carry

        return make

    def precise(how: str) -> Any:
        def make() -> tuple[Block, Any]:
            block, carry = whole(n, agent)

            def inside(carry: Any) -> Any:
                with jax.default_matmul_precision(how):
                    return block(carry)

            return inside, carry

        return make

    def unrolled(times: int) -> Any:
        def make() -> tuple[Block, Any]:
            block, carry = whole(n, agent)
            scan = jax.lax.scan

            def inside(carry: Any) -> Any:
                with mock.patch.object(jax.lax, "scan", partial(scan, unroll=times)):
                    return block(carry)

            return inside, carry

        return make

    rows = [
        ("whole update", n, lambda: whole(n, agent)),
        ("  steps of the environment alone", n, lambda: whole(n, collects)),
        ("  steps and replay, no learning", n, lambda: whole(n, draws)),
        ("  learning alone, one batch", n, lambda: fits_alone(n, config, dqn._fit)),
        ("  learning without Adam", n, patched(
            "adam_step", plain_step, lambda: fits_alone(n, config, dqn._fit))),
        ("  loss without gradient", n, lambda: fits_alone(n, config, forward_only)),
        ("whole, Adam on one flat array", n, patched(
            "adam_step", flat_adam, lambda: whole(n, agent))),
        ("whole, bfloat16 between layers", n, lambda: whole(n, half)),
        ("whole, products in TF32", n, precise("tensorfloat32")),
        ("whole, products in bfloat16", n, precise("bfloat16")),
        ("whole, two updates a turn of the loop", n, unrolled(2)),
    ]  # fmt: skip
    rows += [(f"whole, {k} agents", k, partial(whole, k, agent)) for k in (n // 4, 4 * n)]
    rows += [(f"whole, {4 * n} agents, bfloat16", 4 * n, partial(whole, 4 * n, half))]
    return rows


def main() -> None:
    """Print the table as it comes, keep it after every row, end with the kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", type=int, default=640)
    parser.add_argument("--quick", action="store_true", help="try it: small and short")
    parser.add_argument("--cache", type=Path, help="folder for compiled programs, to time it warm")
    given = parser.parse_args()
    if given.cache:
        jax.config.update("jax_compilation_cache_dir", str(given.cache))
    config = DQNConfig(buffer_size=500, target_every=5) if given.quick else DQNConfig()
    found: dict[str, Any] = {"machine": describe_machine(), "rows": [], "kernels": []}
    print(f"{'':44s} {'agents':>6s} {'compile':>8s} {'us/update':>10s} {'M steps':>8s}")
    for label, n_agents, make in variants(given.agents, config):
        try:
            block, carry = make()
            row = measure(label, block, carry, n_agents, config.target_every)
        except Exception as error:  # one row that fails must not cost the others
            row = {"label": label, "error": f"{type(error).__name__}: {error}"[:300]}
            print(f"{label:44s} {row['error']}", flush=True)
        found["rows"].append(row)
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    agent = make_value_agent("dqn", config)
    found["kernels"] = kernel_times(*whole(given.agents, agent))
    for row in found["kernels"][:15]:
        print(f"{row['share']:6.1%} {row['us']:10.0f} us {row['calls']:6d} calls  {row['kernel']}")
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
