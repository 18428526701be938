"""Train 128 preferences × 5 seeds of the boiler domain as one program, and say how fast it was.

    python3 benchmarks/gpu_sweep.py --out FOLDER [--steps 50000] [--agents 640] [--resume]

Needs jax, numpy and safetensors only, and runs from a copy of the source tree: no package has to be
installed. The paper's hyper-parameters, one environment and one update a step. With `--resume` it
goes on from the folder's checkpoint, so that it can run in slices (`--slice-s`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.domains.boiler import DOMAIN
from parity311.mdp.harness import Harness
from parity311.records.store import READERS
from parity311.training.checkpoint import Checkpoints
from parity311.training.frontier import boiler_settings
from parity311.training.loop import train_agents


def describe_machine() -> dict[str, str]:
    """Name of the device and versions, as far as they can be read."""
    device = jax.devices()[0]
    try:
        driver = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        driver = "none"
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "driver": driver,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "cpu_cores": str(os.cpu_count()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def main() -> None:
    """Train, time every block but the first (which compiles), and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--agents", type=int, default=640)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--slice-s", type=float, default=480.0)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write checkpoints")
    given = parser.parse_args()
    preferences = boiler_settings()
    n_seeds = -(-given.agents // len(preferences))
    preferences = preferences[: given.agents // n_seeds]
    agent = make_dqn(DQNConfig(hidden=(given.hidden, given.hidden), dtype=given.dtype))
    ticks: list[tuple[int, float]] = []
    began = time.perf_counter()
    trained = train_agents(
        Harness(DOMAIN),
        DOMAIN.play.example(),
        agent,
        preferences,
        list(range(n_seeds)),
        given.steps,
        n_environments=1,
        progress=lambda taken, total, figures: ticks.append((taken, time.perf_counter())),
        checkpoints=Checkpoints(given.out, resume=given.resume) if given.keep else None,
        stop_after_s=given.slice_s,
    )
    (first, start), (last, end) = ticks[0], ticks[-1]
    figures = {
        "machine": describe_machine(),
        "agents": trained.n_agents,
        "preferences": len(preferences),
        "seeds": n_seeds,
        "steps": last,
        "hidden": given.hidden,
        "dtype": given.dtype,
        "absent_packages": [name for name in READERS if find_spec(name) is None],
        "seconds_with_compilation": end - began,
        "seconds_to_first_block": start - began,
        "agent_steps_per_s": trained.n_agents * (last - first) / max(end - start, 1e-9),
        "agent_steps_per_s_with_compilation": trained.n_agents * last / (end - began),
        "mean_reward_first_block": float(np.mean(trained.curve[0]["reward"])),
        "mean_reward_last_block": float(np.mean(trained.curve[-1]["reward"])),
        "is_whole": trained.is_whole,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    name = f"gpu_sweep_{trained.n_agents}_{given.hidden}_{given.dtype}.json"
    (given.out / name).write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1), flush=True)


if __name__ == "__main__":
    main()
