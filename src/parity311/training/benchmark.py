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


def bench_train(n_steps: int = 3000) -> dict[str, Any]:
    """Steps (CQL: updates) a second of ours and of the peers, and their ratios.

    Ratios are of steps per second on the processor, one thread each, so that what else the machine
    does at the time does not count; those on the clock stand beside them.
    """
    peers = {name: run_peer(name, n_steps) for name in PEERS}
    ours = {name: _run_own(name, n_steps) for name in OURS}

    def compare(kind: str, of_peer: str) -> dict[str, float | None]:
        return {
            ratio: ours[mine][kind] / peers[peer][of_peer] if of_peer in peers[peer] else None
            for ratio, (mine, peer) in RATIOS.items()
        }

    return {
        "steps": n_steps,
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


def run_peer(name: str, n_steps: int, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Speed of a peer in its own environment, or why there is none; settings other than usual."""
    environment, says = PEERS[name]
    python = ROOT / ".venvs" / environment / "bin" / "python"
    script = ROOT / "benchmarks" / "peers_speed.py"
    if not (python.parents[1] / ".installed").exists() or not script.exists():
        return {"peer": says, "reason": f".venvs/{environment} is not built; run `make peers`."}
    finished = subprocess.run(
        [str(python), str(script), name, str(n_steps), json.dumps(dict(settings or {}))],
        capture_output=True, text=True, timeout=PEER_LIMIT_S, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT,
    )  # fmt: skip
    if finished.returncode:
        last = finished.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return {"peer": says, "reason": f"It failed: {last[0]}"}
    return {"peer": says, **json.loads(finished.stdout.strip().splitlines()[-1])}


def _run_own(name: str, n_steps: int) -> dict[str, float]:
    """Ours in a process of its own, with one thread like the peers; a sweep has one a core."""
    n_processes = (os.cpu_count() or 1) if name == "dqn_sweep" else 1
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "parity311.training.benchmark", name, str(n_steps)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "NPROC": "1"},
        )
        for _ in range(n_processes)
    ]  # fmt: skip
    said = [process.communicate(timeout=PEER_LIMIT_S)[0] for process in running]
    found = [json.loads(text.strip().splitlines()[-1]) for text in said]
    return {kind: sum(one[kind] for one in found) for kind in found[0]}


def measure(name: str, n_steps: int) -> dict[str, float]:
    """Agent-steps (CQL: updates) of one of ours per second and per second on the processor."""
    from parity311.agents import agent_config, make_agent
    from parity311.domains import get_domain
    from parity311.mdp.harness import Harness
    from parity311.training.loop import train_agents
    from parity311.training.offline import train_offline

    domain = get_domain("boiler")
    harness, preference = Harness(domain), [domain.preference]
    n_agents = CPU_CHUNK if name == "dqn_sweep" else 1
    agent_name = "dqn" if name == "dqn_sweep" else name
    # The paper's hyper-parameters, which are the defaults; the peers are given the same.
    agent = make_agent(agent_name, agent_config(agent_name))
    per_block = agent.refresh_every * agent.rollout_length
    steps = max(-(-n_steps // per_block), 2) * per_block + per_block
    ticks: list[tuple[int, float, float]] = []

    def tick(taken: int, total: int, figures: dict[str, float]) -> None:
        ticks.append((taken, time.perf_counter(), time.process_time()))

    if name == "cql":
        train_offline(harness, _random_log(harness), agent, preference, [0], steps, progress=tick)
    else:
        seeds = list(range(n_agents))
        train_agents(harness, domain.play.example(), agent, preference, seeds, steps, progress=tick)
    # The first block compiles.
    first, last = ticks[0], ticks[-1]
    taken = n_agents * (last[0] - first[0])
    return {
        "steps_per_s": taken / (last[1] - first[1]),
        "steps_per_cpu_s": taken / (last[2] - first[2]),
    }


def _random_log(harness: Any) -> Any:
    import numpy as np

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
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
