"""Training speed beside the peers', in one run: the same domain, hyper-parameters and updates.

Every learner gets a process of its own and one thread; peers run in the environments that `make
peers` builds, from a checkout. Where one is missing its ratio is null, with the reason beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parity311.training.sweep import CPU_CHUNK

ROOT = Path(__file__).resolve().parents[3]
PEERS = {
    "sb3": ("torch", "stable-baselines3's DQN"),
    "tianshou": ("torch", "tianshou's REINFORCE"),
    "d3rlpy": ("d3rlpy", "d3rlpy's DiscreteCQL"),
}
"""Name -> (environment under .venvs, what it is)"""
OURS = ("dqn", "dqn_sweep", "cql", "reinforce")
RATIOS = {
    "dqn_vs_sb3": ("dqn", "sb3"),
    "dqn_sweep_vs_sb3": ("dqn_sweep", "sb3"),
    "cql_vs_d3rlpy": ("cql", "d3rlpy"),
    "reinforce_vs_tianshou": ("reinforce", "tianshou"),
}
PEER_LIMIT_S = 900
SWEEP_AGENTS = 32
"""Agents of the sweep, shared out among the cores, on each in chunks that fit into its cache."""
N_ROUNDS = 3
"""Rounds in which ours and the peers take turns; the median counts, so that a disturbance of one
round does not."""


def bench_train(n_steps: int = 3000, n_rounds: int = N_ROUNDS) -> dict[str, Any]:
    """Steps (CQL: updates) a second of ours and of the peers, and their ratios.

    Ratios are of steps per second on the processor, one thread each, so that what else the machine
    does at the time does not count; those on the clock stand beside them. The sweep has a process a
    core: its figures are the sum over the cores, against a peer that trains one agent on one.
    """
    rounds = [
        (
            {name: run_peer(name, n_steps) for name in PEERS},
            {name: _run_own(name, n_steps) for name in OURS},
        )
        for _ in range(n_rounds)
    ]
    peers = {name: _median([one[0][name] for one in rounds]) for name in PEERS}
    ours = {name: _median([one[1][name] for one in rounds]) for name in OURS}

    def compare(kind: str, of_peer: str) -> dict[str, float | None]:
        return {
            ratio: ours[mine][kind] / peers[peer][of_peer] if of_peer in peers[peer] else None
            for ratio, (mine, peer) in RATIOS.items()
        }

    return {
        "steps": n_steps,
        "rounds": n_rounds,
        "sweep_agents": SWEEP_AGENTS,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "ours": ours,
        "peers": peers,
        "ratios": compare("steps_per_cpu_s", "steps_per_cpu_s"),
        "ratios_without_peer_environment": compare(
            "steps_per_cpu_s", "steps_per_cpu_s_without_environment"
        ),
        "ratios_on_the_clock": compare("steps_per_s", "steps_per_s"),
    }


def _median(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Median of every figure over the rounds; texts as in the last round that has them all."""
    whole = [one for one in found if "reason" not in one] or found[-1:]
    return {
        name: float(np.median([one[name] for one in whole])) if isinstance(value, float) else value
        for name, value in whole[-1].items()
    }


def run_peer(name: str, n_steps: int, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Speed of a peer in its own environment, or why there is none; settings other than usual."""
    asked = (name, str(n_steps), json.dumps(dict(settings or {})))
    return ask_peer(*PEERS[name], "peers_speed.py", *asked)


def ask_peer(environment: str, says: str, script: str, *arguments: str) -> dict[str, Any]:
    """What a script under benchmarks prints in a peer's environment, or why it cannot."""
    python = ROOT / ".venvs" / environment / "bin" / "python"
    path = ROOT / "benchmarks" / script
    if not (python.parents[1] / ".installed").exists() or not path.exists():
        return {"peer": says, "reason": f".venvs/{environment} is not built; run `make peers`."}
    finished = subprocess.run(
        [str(python), str(path), *arguments],
        capture_output=True, text=True, timeout=PEER_LIMIT_S, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT,
    )  # fmt: skip
    if finished.returncode:
        last = finished.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return {"peer": says, "reason": f"It failed: {last[0]}"}
    return {"peer": says, **json.loads(finished.stdout.strip().splitlines()[-1])}


def _run_own(name: str, n_steps: int) -> dict[str, float]:
    """Ours in a process of its own, with one thread like the peers; a sweep has one a core."""
    n_processes = min(os.cpu_count() or 1, SWEEP_AGENTS) if name == "dqn_sweep" else 1
    n_agents = -(-SWEEP_AGENTS // n_processes) if name == "dqn_sweep" else 1
    asked = [name, str(n_steps), str(n_agents)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "parity311.bench.training", *asked],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "NPROC": "1"},
        )
        for _ in range(n_processes)
    ]  # fmt: skip
    said = [process.communicate(timeout=PEER_LIMIT_S)[0] for process in running]
    found = [json.loads(text.strip().splitlines()[-1]) for text in said]
    return {kind: sum(one[kind] for one in found) for kind in found[0]}


def measure(name: str, n_steps: int, n_agents: int = 1) -> dict[str, float]:
    """Agent-steps (CQL: updates) of one of ours per second and per second on the processor."""
    from parity311.agents import agent_config, make_agent
    from parity311.domains import get_domain
    from parity311.mdp.harness import Harness

    harness = Harness(get_domain("boiler"))
    agent_name = "dqn" if name == "dqn_sweep" else name
    # The paper's hyper-parameters, which are the defaults; the peers are given the same.
    agent = make_agent(agent_name, agent_config(agent_name))
    per_block = agent.refresh_every * agent.rollout_length
    steps = max(-(-n_steps // per_block), 2) * per_block + per_block
    totals = np.zeros(3)
    for at in range(0, n_agents, CPU_CHUNK):
        seeds = list(range(at, min(at + CPU_CHUNK, n_agents)))
        totals += _time_chunk(harness, agent, seeds, steps, is_offline=name == "cql")
    return {"steps_per_s": totals[0] / totals[1], "steps_per_cpu_s": totals[0] / totals[2]}


def _time_chunk(
    harness: Any, agent: Any, seeds: list[int], steps: int, *, is_offline: bool
) -> np.ndarray:
    """Agent-steps, seconds, and seconds on the processor of all blocks but the first (3,)."""
    from parity311.training.loop import train_agents
    from parity311.training.offline import train_offline

    domain = harness.domain
    ticks: list[tuple[float, float, float]] = []

    def tick(taken: int, total: int, figures: dict[str, float]) -> None:
        ticks.append((len(seeds) * taken, time.perf_counter(), time.process_time()))

    options: dict[str, Any] = {"progress": tick}
    if is_offline:
        log = _random_log(harness)
        train_offline(harness, log, agent, [domain.preference], seeds, steps, **options)
    else:
        params = domain.play.example()
        train_agents(harness, params, agent, [domain.preference], seeds, steps, **options)
    # The first block compiles.
    return np.subtract(ticks[-1], ticks[0])


def _random_log(harness: Any) -> Any:
    from parity311.training.offline import Decisions

    rng = np.random.default_rng(0)
    shape = (20, 1000)
    over = np.zeros(shape, bool)
    over[:, -1] = True
    return Decisions(
        observation=rng.normal(size=(*shape, harness.n_features)),
        action=rng.integers(0, harness.n_actions, shape),
        propensity=np.full(shape, 1.0 / harness.n_actions),
        reward=rng.normal(size=(*shape, 4)),
        terminated=over,
        truncated=~over & over,
        next_observation=rng.normal(size=(*shape, harness.n_features)),
        n_actions=harness.n_actions,
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
