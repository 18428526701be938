"""Trained agents as one file a job: every policy as arrays, with what made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.domains import get_domain
from parity311.errors import TrainingError
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness
from parity311.storage.disk import telling_disk_errors
from parity311.storage.tensors import read_about as tensors_about
from parity311.storage.tensors import read_tensors, write_tensors
from parity311.studies.reproduction.programme import paid_as_published
from parity311.training import agent_for
from parity311.training.checkpoint import named_arrays
from parity311.training.loop import Trained
from parity311.version import __version__

if TYPE_CHECKING:
    from parity311.studies.reproduction.jobs import TrainingJob

POLICY = "policy"


def settings_of(job: TrainingJob) -> dict[str, Any]:
    """A job's hyper-parameters as an agent takes them: lists of a JSON file are tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in job.settings.items()
    }


def harness_of(job: TrainingJob) -> Harness:
    """The domain as the agents of a job see it."""
    term: dict[str, Any] = job.term
    return Harness(domain_of(job), observation_set=job.observation_set, **term)


def domain_of(job: TrainingJob) -> Domain:
    """The domain as it pays the agents of a job."""
    return paid_as_published(job.domain) if job.pays_all else get_domain(job.domain)


def write_trained(path: Path, trained: Trained, job: TrainingJob, **about: Any) -> Path:
    """Write the agents of one whole job, aside and then in place."""
    tensors = {f"{POLICY}{name}": values for name, values in named_arrays(trained.policies).items()}
    tensors |= {
        "preferences": np.asarray(trained.preferences, np.float32),
        "seeds": np.asarray(trained.seeds, np.int64),
        "prices": np.asarray(trained.prices, np.float32),
        "curve_steps": np.asarray([entry["steps"] for entry in trained.curve], np.int64),
        "curve_reward": np.stack([entry["reward"] for entry in trained.curve]).astype(np.float32),
    }
    told = {
        "job": job.name,
        "software_version": __version__,
        "domain_version": get_domain(job.domain).version,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        **about,
    }
    with telling_disk_errors(path, TrainingError):
        return write_tensors(path, tensors, told)


def read_about(path: Path) -> dict[str, Any] | None:
    """What a file of agents says of itself; None where it is missing or not whole."""
    try:
        return tensors_about(path)
    except (OSError, ValueError):
        return None


def read_trained(path: Path, job: TrainingJob) -> Trained:
    """Read the agents of a job; named by its label, so that variants stay apart."""
    harness = harness_of(job)
    agent = agent_for(harness, job.agent, job.steps, settings_of(job))
    try:
        found, _ = read_tensors(path)
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{path} holds no trained agents ({error}); train them with `parity311 reproduce "
            "--stage train`."
        ) from error
    n_agents = len(found["seeds"])
    like = jax.eval_shape(
        lambda keys: agent.policy(
            agent.init(keys, job.n_environments, harness.n_features, harness.n_actions)
        ),
        jax.eval_shape(lambda: jax.random.split(jax.random.key(0), n_agents)),
    )
    return Trained(
        agent=agent._replace(name=job.label),
        harness=harness,
        policies=_fill(path, like, found),
        preferences=found["preferences"],
        seeds=found["seeds"],
        prices=found["prices"],
        curve=[
            {"steps": int(steps), "reward": reward}
            for steps, reward in zip(found["curve_steps"], found["curve_reward"], strict=True)
        ],
    )


def _fill(path: Path, like: Any, found: dict[str, np.ndarray]) -> Any:
    def one(place: Any, leaf: Any) -> jax.Array:
        name = f"{POLICY}{jax.tree_util.keystr(place)}"
        if name not in found or found[name].shape != leaf.shape:
            raise TrainingError(
                f"{path} was trained with another network or domain ({name} differs); train it "
                "again."
            )
        return jnp.asarray(found[name], leaf.dtype)

    return jax.tree_util.tree_map_with_path(one, like)
