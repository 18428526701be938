"""Many preferences × seeds: as one program on a GPU, as one job a core on a CPU.

What a sweep needs is known before it starts: every agent's state (networks, moments, replay
buffer) is counted from its shapes, and a quarter is added for what an update works with. Agents
learn in chunks, which are jobs: how they are cut never depends on the memory there is, because an
agent's result depends on its chunk; memory decides only how many chunks learn at once.

Agents of an earlier `parity311 sweep`, read from its folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from parity311.agents.package import read_package
from parity311.errors import InputError, TrainingError
from parity311.estimation.params_file import read_params
from parity311.jobs.choose import COMPILED, HERE, Workplace
from parity311.jobs.drive import FAILURES, Outcome, check_done
from parity311.jobs.job import MEMORY_MB, Input, Job, Task
from parity311.mdp.equity import USUAL_TERM, EquityTerm, term_of
from parity311.mdp.harness import Harness
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.storage.locks import one_writer
from parity311.training import agent_for
from parity311.training.checkpoint import digest_arrays
from parity311.training.loop import Trained
from parity311.training.train_run import SUMMARY, as_tuples, check_groups


def read_sweep(folder: Path, harness: Harness, params: Any) -> tuple[np.ndarray, Trained]:
    """Menu (n, 4) of a sweep and its agents, every preference with each seed.

    A sweep that learned in another process than `params` is refused: records of the test dates
    among them would flatter every policy.
    """
    found = _find_chunks(folder)
    if not found:
        raise InputError(
            f"{folder} holds no finished sweep; make one with `parity311 sweep "
            f"{harness.domain.slug} --out {folder}`."
        )
    summaries = [(path.parent, _read_summary(path)) for path in found]
    slugs = {summary["domain"] for _, summary in summaries}
    if slugs != {harness.domain.slug}:
        raise InputError(
            f"{folder} is a sweep of {', '.join(sorted(slugs))}, not of {harness.domain.slug}; "
            "name the folder of a sweep of this domain."
        )
    learned_in = read_params(folder / PARAMS, harness.domain.play.example())
    if digest_arrays(learned_in) != digest_arrays(params):
        raise InputError(
            f"{folder} learned from other records or dates than those before the test period; "
            "sweep again with the same --records and --until the first test day."
        )
    rows = [
        (summary["preferences"][place], summary["seeds"][place], path / name)
        for path, summary in summaries
        for place, name in enumerate(summary["policies"])
    ]
    seeds = list(dict.fromkeys(seed for _, seed, _ in rows))
    menu = list(dict.fromkeys(tuple(preference) for preference, _, _ in rows))
    if len(rows) != len(menu) * len(seeds):
        raise InputError(
            f"{folder} has {len(rows)} agents for {len(menu)} preferences and {len(seeds)} seeds; "
            "finish it with `parity311 sweep --resume`."
        )
    packages = [read_package(path) for _, _, path in rows]
    check_term(packages[0].manifest, harness, folder)
    policies = [_nest(package.weights) for package in packages]
    summary = summaries[0][1]
    trained = Trained(
        agent=agent_for(harness, summary["agent"], summary["steps"]),
        harness=harness,
        policies=jax.tree.map(lambda *leaves: np.stack(leaves), *policies),
        preferences=np.asarray([preference for preference, _, _ in rows], np.float32),
        seeds=np.asarray([seed for _, seed, _ in rows]),
        prices=np.zeros((len(rows), 6)),
        curve=[{"steps": summary["steps"]}],
    )
    return np.asarray(menu, np.float32), trained


def _find_chunks(folder: Path) -> list[Path]:
    """Summaries of a sweep's chunks: those it lists, or all where it is of before lists."""
    listed = folder / CHUNKS
    if not listed.is_file():
        return sorted(folder.glob(f"chunk-*/{SUMMARY}"))
    try:
        return [folder / name / SUMMARY for name in json.loads(listed.read_bytes())["chunks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{listed} is no list of chunks ({error}); sweep again.") from error


def check_term(manifest: dict[str, Any], harness: Harness, where: Path) -> None:
    """Refuse a policy that was paid another equity term than the harness pays."""
    paid, asked = asdict(term_of(manifest)), asdict(harness.term)
    if paid != asked:
        differs = ", ".join(
            f"{name} {paid[name]} instead of {asked[name]}"
            for name in paid
            if paid[name] != asked[name]
        )
        raise InputError(f"{where} learned another equity term: {differs}; sweep again with it.")


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(path.read_bytes())
        if {"domain", "agent", "steps", "preferences", "seeds", "policies"} <= set(summary):
            return summary
        reason = "figures are missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    raise InputError(f"{path} is no summary of a training ({reason}); sweep again.")


def _nest(weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Weights by name with slashes as nested mappings."""
    nested: dict[str, Any] = {}
    for name, values in weights.items():
        *parents, last = name.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = values
    return nested


PARAMS = "params.safetensors"
CHUNKS = "sweep.json"
"""Which chunks make up a sweep, in the order of its preferences; written when all are there."""
CPU_CHUNK = 8
"""Agents that learn side by side on one core: more of them no longer fit into its cache."""
WORK_SHARE = 0.25
"""What an update works with (gradients, activations), over the state it works on."""
MEMORY_SHARE = 0.5
"""Share of the free memory a sweep may take."""


class Plan(NamedTuple):
    """How a sweep will run."""

    n_agents: int
    bytes_per_agent: int
    free_bytes: int
    chunk: int
    """agents in a chunk"""

    def describe(self) -> str:
        """One line for the person who waits."""
        total = self.n_agents * self.bytes_per_agent / 1e9
        at_once = self.chunk * self.bytes_per_agent / 1e9
        return (
            f"{self.n_agents} agents of {self.bytes_per_agent / 1e6:.1f} MB, {total:.2f} GB in "
            f"all; {self.chunk} in a chunk of {at_once:.2f} GB, {self.free_bytes / 1e9:.1f} GB free"
        )


def bytes_per_agent(harness: Any, params: Any, agent: Any, n_environments: int) -> int:
    """Memory one more agent takes: its state from its shapes, and a quarter of it to work with."""
    import jax
    import jax.numpy as jnp

    from parity311.training.loop import make_task, start

    def size(n_agents: int) -> int:
        weights = np.full((n_agents, 4), 0.25, np.float32)
        task = make_task(harness, params, weights, {})
        seeds = jax.ShapeDtypeStruct((n_agents,), jnp.uint32)
        shapes = start.eval_shape(harness, agent, n_environments, task, seeds)
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    return int((size(2) - size(1)) * (1.0 + WORK_SHARE))


def free_memory() -> int:
    """Bytes that are free on the device that trains."""
    import jax

    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def plan_sweep(
    harness: Any, params: Any, agent: Any, n_agents: int, n_environments: int, chunk: int = 0
) -> Plan:
    """Decide how many agents learn side by side; an error where they do not fit."""
    import jax

    each = bytes_per_agent(harness, params, agent, n_environments)
    free = free_memory()
    is_cpu = jax.devices()[0].platform == "cpu"
    wanted = min(chunk or (CPU_CHUNK if is_cpu else n_agents), n_agents)
    fits = int(MEMORY_SHARE * free / each)
    if fits < 1:
        raise TrainingError(
            f"One agent takes {each / 1e6:.0f} MB and {free / 1e6:.0f} MB are free; choose a "
            "smaller buffer (--set buffer_size=10000) or network."
        )
    if fits < wanted:
        raise TrainingError(
            f"{wanted} agents side by side take {wanted * each / 1e6:.0f} MB and "
            f"{free / 1e6:.0f} MB are free; name a smaller chunk (--chunk {fits}), which is part "
            "of what a result depends on, or a smaller buffer."
        )
    return Plan(n_agents, each, free, wanted)


def run_sweep(
    slug: str,
    agent: str,
    preferences: np.ndarray,
    seeds: Sequence[int],
    steps: int,
    *,
    out: Path,
    records: Path | None = None,
    until: date | None = None,
    estimator: str = "exposure_rate",
    settings: dict[str, Any] | None = None,
    observation_set: str = "",
    action_set: str = "published",
    term: EquityTerm = USUAL_TERM,
    n_environments: int = 8,
    chunk: int = 0,
    resume: bool = False,
    where: Workplace = HERE,
    progress: Any = None,
    tell: Any = None,
) -> dict[str, Any]:
    """Train every preference with every seed; each chunk is a job with policies of its own.

    Chunks are whole preferences, so an agent's result depends on the chunk's size but not on how
    many workers there are, nor where.
    """
    from parity311.domains import get_domain
    from parity311.estimation.world import open_world
    from parity311.mdp.harness import Harness
    from parity311.records.store import open_records
    from parity311.training import agent_for
    from parity311.training.saving import Origin, origin_of

    domain = get_domain(slug)
    harness = Harness(
        domain, observation_set=observation_set, action_set=action_set, **asdict(term)
    )
    check_groups(records, term)
    origin = Origin(run=out.name)
    if records is None:
        params = domain.play.example()
    else:
        world = open_world(domain, open_records(records, term.strata), until, estimator)
        params, origin = world.estimated, origin_of(world, out.name)
    made = agent_for(harness, agent, steps, settings)
    n_agents = len(preferences) * len(seeds)
    plan = plan_sweep(harness, params, made, n_agents, n_environments, chunk)
    if tell is not None:
        tell(plan.describe())
    per_chunk = max(plan.chunk // len(seeds), 1)
    spec = {
        "slug": slug, "agent": agent, "steps": steps, "settings": settings or {},
        "seeds": list(seeds), "n_environments": n_environments,
        "observation_set": observation_set, "action_set": action_set, "term": asdict(term),
        "origin": asdict(origin),
    }  # fmt: skip
    began = time.monotonic()
    with one_writer(out):
        _keep_params(out, params, domain, resume=resume or where.shard is not None)
    jobs = _chunk_jobs(spec, preferences, per_chunk, out, plan)
    if jobs[0].gpus and not where.n_workers:
        where = replace(where, n_workers=len(jax.local_devices()))
    done = where.run(jobs, folder=out, tell=_follow(jobs, progress))
    summary = {
        "domain": slug,
        "agent": agent,
        "agents": n_agents,
        "preferences": len(preferences),
        "seeds": len(seeds),
        "steps": steps,
        "bytes_per_agent": plan.bytes_per_agent,
        "chunk": plan.chunk,
        "out": str(out),
        "jobs": len(jobs),
        "jobs_left": len(jobs) - len(done),
    }
    if where.shard is None or len(done) == len(jobs):
        check_done(done, len(jobs), out)
        _list_chunks(out, done)
    seconds = time.monotonic() - began
    return summary | {
        "seconds": seconds,
        "agent_steps_per_s": sum(one.result["agents"] for one in done) * steps / seconds,
        "reward": [reward for one in done for reward in one.result["reward"]],
        "policies": [
            f"{one.folder.name}/{name}"
            for one in done
            for name in one.result["policies"]
            if one.folder is not None
        ],
    }


def _chunk_jobs(
    spec: dict[str, Any], preferences: np.ndarray, per_chunk: int, out: Path, plan: Plan
) -> list[Job]:
    """One job a chunk; the process that agents learn in is an input."""
    import jax

    inputs = {"params": Input.of(out / PARAMS)}
    is_cpu = jax.devices()[0].platform == "cpu"
    return [
        Job(
            "parity311.training.sweep:train_chunk",
            {**spec, "preferences": preferences[at : at + per_chunk].tolist()},
            inputs,
            name=f"chunk-{at:04d}",
            program="/".join(str(spec[name]) for name in ("slug", "agent", "steps")),
            memory_mb=MEMORY_MB + int(plan.chunk * plan.bytes_per_agent / 1e6),
            gpus=0 if is_cpu else 1,
        )
        for at in range(0, len(preferences), per_chunk)
    ]


def _follow(jobs: Sequence[Job], progress: Any) -> Any:
    """What tells a bar of steps and reward that a chunk has ended."""
    total = sum(
        len(job.spec["preferences"]) * len(job.spec["seeds"]) * job.spec["steps"] for job in jobs
    )
    rewards: list[float] = []

    def told(ended: int, of: int, outcome: Outcome) -> None:
        if progress is not None and outcome.is_there:
            rewards.append(float(np.mean(outcome.result["reward"])))
            progress(total * ended // of, total, {"reward": float(np.mean(rewards))})

    return told


def _list_chunks(out: Path, done: Sequence[Outcome]) -> None:
    names = [one.folder.name for one in done if one.folder is not None]
    with telling_disk_errors(out / CHUNKS, TrainingError):
        write_text_aside(out / CHUNKS, json.dumps({"chunks": names}, indent=1) + "\n")


def _keep_params(out: Path, params: Any, domain: Any, *, resume: bool) -> None:
    """Write what the agents learn in; a folder that holds another sweep stays as it is."""
    from parity311.estimation.params_file import read_params, write_params
    from parity311.training.checkpoint import digest_arrays

    own = (PARAMS, CHUNKS, "chunk-*", FAILURES, COMPILED)
    # One that no engine took on has its process alone, and nothing to go on with.
    if not holds_own(out, own, "a sweep", TrainingError) or not any(out.glob("chunk-*")):
        write_params(out / PARAMS, params)
        return
    if not resume:
        raise TrainingError(
            f"{out} already holds a sweep; go on with it (--resume), or choose another folder."
        )
    if not (out / PARAMS).exists():
        write_params(out / PARAMS, params)
    kept = read_params(out / PARAMS, domain.play.example())
    if digest_arrays(kept) != digest_arrays(params):
        raise TrainingError(
            f"{out} holds a sweep that learned in another process; resume it with the records and "
            "dates it was started with, or choose another folder."
        )


def train_chunk(task: Task) -> dict[str, Any]:
    """Train one chunk and write its policies, from its checkpoint where an attempt was killed."""
    from parity311.domains import get_domain
    from parity311.estimation.params_file import read_params
    from parity311.training import train
    from parity311.training.checkpoint import Checkpoints
    from parity311.training.saving import Origin
    from parity311.training.train_run import write_trained

    spec = task.spec
    domain = get_domain(spec["slug"])
    params = read_params(task.inputs["params"], domain.play.example())
    trained = train(
        domain, params, spec["agent"], spec["preferences"], spec["seeds"], spec["steps"],
        settings=as_tuples(spec["settings"]), n_environments=spec["n_environments"],
        observation_set=spec["observation_set"], action_set=spec["action_set"],
        term=EquityTerm(**spec["term"]),
        checkpoints=Checkpoints(task.kept / "checkpoint", resume=True),
    )  # fmt: skip
    return write_trained(task.out, trained, params=params, origin=Origin(**spec["origin"]))
