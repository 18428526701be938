"""Weights on speed, cost, equity and retention as a file: what people chose, for a cycle to use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.mdp.contract import REWARD_NAMES
from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import to_json

WEIGHTS_VERSION = 1


def read_weights(path: Path, domain: str) -> tuple[float, ...]:
    """The weights (4,) in a file, made for this domain; they sum to 1."""
    try:
        plain = json.loads(path.read_bytes())
        version, made_for, given = plain["weights_version"], plain["domain"], plain["weights"]
        weights = tuple(float(given[name]) for name in REWARD_NAMES)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} holds no weights ({type(error).__name__}: {error}); give a file that "
            "`parity311 weigh` wrote."
        ) from error
    if version != WEIGHTS_VERSION or made_for != domain or set(given) != set(REWARD_NAMES):
        raise InputError(
            f"{path} holds weights of version {version} for {made_for!r}; allowed is version "
            f"{WEIGHTS_VERSION} for {domain!r} with {', '.join(REWARD_NAMES)}. Weigh this domain."
        )
    is_sound = np.isfinite(weights).all() and min(weights) >= 0 and abs(sum(weights) - 1) < 1e-4
    if not is_sound:
        raise InputError(
            f"The weights in {path} are {weights}; they must be at least 0 and sum to 1. Weigh "
            "again."
        )
    return weights


def write_weights(path: Path, domain: str, weights: tuple[float, ...], **more: Any) -> Path:
    """Write weights (4,) with whatever they rest on."""
    named = dict(zip(REWARD_NAMES, map(float, weights), strict=True))
    plain = {"weights_version": WEIGHTS_VERSION, "domain": domain, "weights": named, **more}
    return write_text_aside(path, to_json(plain))
