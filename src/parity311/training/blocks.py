"""Block after block: tell somebody how far it is, keep checkpoints, stop where numbers end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from parity311.errors import TrainingError
from parity311.training.checkpoint import Checkpoints, read_checkpoint, write_checkpoint

Progress = Callable[[int, int, dict[str, float]], None]
"""progress(steps taken, steps in all, figures averaged over agents)"""

Watch = Callable[[int, Any], None]
"""watch(blocks run, carry after the last of them)"""

RunBlock = Callable[[Any], tuple[Any, dict[str, Any]]]
"""(carry) -> (carry, figures (agents,))"""


def run_blocks(
    run_block: RunBlock,
    carry: Any,
    *,
    n_blocks: int,
    steps_per_block: int,
    identity: dict[str, Any],
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    stop_after_s: float = float("inf"),
    watch: Watch | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Run blocks until all are done or the time is up; the carry and the curve then.

    A training that goes on from a checkpoint gives what an uninterrupted one gives: a block
    depends on nothing but its carry.
    """
    curve: list[dict[str, Any]] = []
    began = saved = time.monotonic()
    if checkpoints is not None:
        restored = read_checkpoint(checkpoints, identity, carry)
        if restored is not None:
            carry, curve = restored.carry, restored.curve
    while len(curve) < n_blocks:
        carry, figures = run_block(carry)
        entry = {name: np.asarray(values) for name, values in figures.items()}
        n_taken = (len(curve) + 1) * steps_per_block
        _check_figures(entry, n_taken, checkpoints)
        curve.append({"steps": n_taken, **entry})
        if watch is not None:
            watch(len(curve), carry)
        now = time.monotonic()
        is_last = len(curve) == n_blocks or now - began >= stop_after_s
        if checkpoints is not None and (is_last or now - saved >= checkpoints.every_s):
            write_checkpoint(checkpoints, identity, carry, curve)
            saved = now
        if progress is not None:
            averages = {name: float(values.mean()) for name, values in entry.items()}
            progress(n_taken, n_blocks * steps_per_block, averages)
        if is_last:
            break
    return carry, curve


def _check_figures(
    figures: dict[str, np.ndarray], n_taken: int, checkpoints: Checkpoints | None
) -> None:
    for name, values in figures.items():
        if not np.isfinite(values).all():
            kept = ""
            if checkpoints is not None and checkpoints.path.exists():
                kept = f" The last good checkpoint is {checkpoints.path}."
            raise TrainingError(
                f"The {name} of agent {int(np.argmin(np.isfinite(values)))} is not a number after "
                f"{n_taken} steps; check the params, or lower the learning rate.{kept}"
            )
