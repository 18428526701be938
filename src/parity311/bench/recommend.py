"""How fast policies are served, beside a plain loop over an SB3 policy's `predict`.

Three policies are made from a city's records and saved as packages: a network (2×64, five seeds of
which four vote, trained for a moment: what it learned does not matter here), a rule of thumb with
twenty voters, and a rule of a domain that decides about the whole office. All are priced, the
dearer case. Every figure is then taken in a fresh process that reads the package, as a server
would.

The peer gets the observations of the long queue and the same weights, and is asked for one decision
after the other, as scripts do; that is less than ours does, who also look the features up, put the
cases in order and give reasons. What it takes for all of them in one batch stands beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity311.bench.training import ask_peer
from parity311.domains import get_domain
from parity311.mdp.contract import N_STRATA

NETWORK, RULE, OFFICE = "snad", "heat", "elevator"
"""Domains of the three policies."""
HIDDEN = (64, 64)
N_SEEDS, N_VOTERS = 5, 20
EQUITY_WEIGHT = 0.2
N_COMPLAINTS, N_CASES = 1000, 100_000
PRICES = np.linspace(0.25, -0.25, N_STRATA)
"""Coverage prices of the rules; the network has learned its own."""
N_STARTS = 5
"""Starts of the command; the median counts."""
N_PREDICTED = 20_000
"""Cases that the peer's loop is timed on; its time grows with them."""
LIMIT_S = 900
PEER = ("torch", "stable-baselines3's DQN, predict called for each case")
START = """
import json, sys, time
from parity311.cli import main
try:
    main()
finally:
    said = {"has_jax": "jax" in sys.modules, "cpu_seconds": time.process_time()}
    print(json.dumps(said), file=sys.stderr)
"""


def bench_recommend(
    records: Path | None = None,
    cities: Path = Path("cities"),
    *,
    n_cases: int = N_CASES,
    n_complaints: int = N_COMPLAINTS,
    n_starts: int = N_STARTS,
) -> dict[str, Any]:
    """Measure single complaints, a long queue and the start of the command; then the peer.

    `records` is a records folder to take cases from, the city of `parity311 run` if not given.

    Returns
    -------
    ``single`` and ``queue`` by kind of policy (`served.time_single`, `served.time_queue`),
    ``start`` (seconds of a fresh process until a policy is loaded and told of, and until it
    recommended), ``peer`` and ``ratios`` (times as long as ours; null where it is missing).
    """
    opened = records or _find_city(cities)
    with TemporaryDirectory() as name:
        folder = Path(name)
        policies = make_policies(folder, opened)
        kept = folder / "seen.npz"
        single, queue = {}, {}
        for kind, package in policies.items():
            single[kind] = _measure("single", package, opened, n_complaints)
            to_keep = [kept] if kind == "network" else []
            queue[kind] = _measure("queue", package, opened, n_cases, *to_keep)
        asked = {
            "policy_loaded": ("policies", "show", policies["network"]),
            "first_recommendation": ("recommend", policies["network"], "--records", opened),
        }
        start = {what: _start(n_starts, *words) for what, words in asked.items()}
        n_timed = str(min(N_PREDICTED, n_cases))
        peer = ask_peer(*PEER, "peers_predict.py", str(kept), n_timed)
    return {
        "single": single,
        "queue": queue,
        "start": start,
        "peer": peer,
        "ratios": compare(queue["network"], peer),
        "network": "-".join(str(size) for size in HIDDEN),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def compare(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, float | None]:
    """How many times as long the peer takes: its loop or batch, by all ours does or decisions."""
    per_case = {"all": ours["seconds"], "decisions": ours["decide_seconds"]}
    return {
        f"{what}_vs_{how}": (
            peer[f"{how}_seconds_per_case"] * ours["cases"] / seconds
            if f"{how}_seconds_per_case" in peer
            else None
        )
        for what, seconds in per_case.items()
        for how in ("loop", "batch")
    }


def _find_city(cities: Path) -> Path:
    """The first city of `parity311 run`, built where it is not there."""
    from parity311.pipelines.progress import progress_bars
    from parity311.pipelines.run import SCENARIOS, RunConfig, ensure_city

    with progress_bars() as progress:
        return ensure_city(RunConfig(), *SCENARIOS[0], cities, progress).folder


def make_policies(folder: Path, records: Path) -> dict[str, Path]:
    """Save the three policies under a folder, made from what the records say; kind -> package."""
    return {
        "network": _save_network(folder / "network", records),
        "rule": _save_index(folder / "rule", RULE, records),
        "office": _save_index(folder / "office", OFFICE, records),
    }


def _save_network(out: Path, records: Path) -> Path:
    from parity311.agents.dqn import DQNConfig, make_dqn
    from parity311.estimation.world import open_world
    from parity311.mdp.harness import Harness
    from parity311.training import with_equity
    from parity311.training.loop import train_agents
    from parity311.training.saving import origin_of, save_policy

    domain = get_domain(NETWORK)
    world = open_world(domain, records)
    harness, params = Harness(domain), world.estimated
    agent = make_dqn(DQNConfig(hidden=HIDDEN))
    preferences = [with_equity(domain.preference, EQUITY_WEIGHT)]
    trained = train_agents(harness, params, agent, preferences, list(range(N_SEEDS)), 1)
    return save_policy(out, trained, params=params, origin=origin_of(world))


def _save_index(out: Path, slug: str, records: Path) -> Path:
    """The index rule; its voters are copies, which take as long as draws of the estimate."""
    from parity311.estimation.world import open_world
    from parity311.mdp.harness import Harness
    from parity311.training import with_equity
    from parity311.training.saving import origin_of, save_rule

    domain = get_domain(slug)
    world = open_world(domain, records)
    return save_rule(
        out, Harness(domain), "index", world.estimated,
        preference=with_equity(domain.preference, EQUITY_WEIGHT),
        prices=PRICES, draws=[world.estimated] * N_VOTERS,
        origin=origin_of(world),
    )  # fmt: skip


def _measure(question: str, package: Path, records: Path, n: int, *keep: Path) -> dict[str, Any]:
    """Ask a fresh process that serves a package; see `served`."""
    words = [question, package, records, n, *keep]
    said = subprocess.run(
        [sys.executable, "-m", "parity311.bench.served", *map(str, words)],
        stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True,
    ).stdout  # fmt: skip
    return json.loads(said.splitlines()[-1])


def _start(n_starts: int, *words: str | Path) -> dict[str, Any]:
    """Seconds of a command in a fresh process, from its start to its end."""
    seconds, told = [], []
    for _ in range(n_starts):
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", START, *map(str, words)],
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )  # fmt: skip
        seconds.append(time.perf_counter() - begun)
        told.append(json.loads(done.stderr.splitlines()[-1]))
    return {
        "seconds": float(np.median(seconds)),
        "cpu_seconds": float(np.median([one["cpu_seconds"] for one in told])),
        "has_jax": any(one["has_jax"] for one in told),
    }
