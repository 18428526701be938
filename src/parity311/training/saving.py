"""A trained policy on disk: the weights as safetensors, everything else as JSON beside them.

What serves a policy needs neither JAX nor the training code: `LoadedPolicy` decides in NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.agents.forward import score_actions_numpy
from parity311.errors import InputError, RunError, unknown_name
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import hash_file, is_seal_broken, seal
from parity311.storage.tensors import read_tensors, write_tensors
from parity311.version import __version__

if TYPE_CHECKING:
    from parity311.training.loop import Trained

FORMAT_VERSION = 1
WEIGHTS = "policy.safetensors"
MANIFEST = "policy.json"


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy read from disk.

    Examples
    --------
    >>> policy.manifest["domain"], policy.manifest["agent"]
    ('boiler', 'dqn')
    >>> import numpy
    >>> policy.decide(numpy.zeros((3, harness.n_features))).shape
    (3,)
    """

    weights: dict[str, np.ndarray]
    manifest: dict[str, Any]

    def values(self, observations: np.ndarray) -> np.ndarray:
        """How much every action is preferred, for observations (..., n_features)."""
        n_features = len(self.manifest["observation_names"])
        if observations.shape[-1] != n_features:
            raise InputError(
                f"An observation has {observations.shape[-1]} features; this policy sees "
                f"{n_features}: {', '.join(self.manifest['observation_names'])}."
            )
        return score_actions_numpy(self.weights, observations)

    def decide(self, observations: np.ndarray) -> np.ndarray:
        """Preferred action for observations (..., n_features)."""
        return self.values(observations).argmax(axis=-1)


def flatten_weights(weights: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """A policy's nested arrays by name, parts joined by a slash."""
    if not isinstance(weights, Mapping):
        return {prefix: np.asarray(weights, order="C")}
    found: dict[str, np.ndarray] = {}
    for name, part in weights.items():
        found |= flatten_weights(part, f"{prefix}/{name}" if prefix else name)
    return found


def save_policy(folder: str | Path, trained: Trained, index: int = 0) -> Path:
    """Write one agent of a training; the manifest is written last, and only a whole one counts.

    Examples
    --------
    >>> folder = parity311.save_policy("policies/first", trained)
    """
    folder = Path(folder)
    harness, domain = trained.harness, trained.harness.domain
    manifest = {
        "format_version": FORMAT_VERSION,
        "software_version": __version__,
        "agent": trained.agent.name,
        "domain": domain.slug,
        "domain_version": domain.version,
        "observation_set": harness.observation_set or domain.default_observation_set,
        "observation_names": list(harness.observation_names),
        "action_set": harness.action_set,
        "action_names": [action.name for action in domain.actions_of(harness.action_set)],
        "equity_mode": harness.equity_mode,
        "preference": [float(x) for x in trained.preferences[index]],
        "prices": [float(x) for x in trained.prices[index]],
        "seed": int(trained.seeds[index]),
    }
    with telling_disk_errors(folder):
        path = write_tensors(folder / WEIGHTS, flatten_weights(trained.weights(index)))
        sealed = seal({**manifest, "weights_sha256": hash_file(path)})
        write_text_aside(folder / MANIFEST, json.dumps(sealed, indent=1) + "\n")
    return folder


def load_policy(folder: str | Path) -> LoadedPolicy:
    """Read a policy and check that it is whole and of this format.

    Examples
    --------
    >>> policy = parity311.load_policy("policies/first")
    """
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        version = manifest["format_version"]
        weights, _ = read_tensors(folder / WEIGHTS)
        is_changed = is_seal_broken(manifest) or _is_other(folder / WEIGHTS, manifest)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(
            f"There is no whole policy in {folder} ({error}); train and save it again."
        ) from error
    if version != FORMAT_VERSION:
        raise unknown_name("format of a saved policy", str(version), [str(FORMAT_VERSION)])
    if is_changed:
        raise RunError(
            f"The policy in {folder} was changed since it was saved; train and save it again."
        )
    return LoadedPolicy(weights, manifest)


def _is_other(weights: Path, manifest: dict[str, Any]) -> bool:
    """Whether these are not the weights the manifest was written with; older ones name none."""
    named = manifest.get("weights_sha256")
    return named is not None and named != hash_file(weights)
