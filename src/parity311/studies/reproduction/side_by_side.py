"""Calls in several processes, one a core.

One agent's or one domain's products are too small to share between threads.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...]]


def run_calls(calls: Sequence[Call], n_workers: int) -> Iterator[Any]:
    """What the calls return, as they end; in this process where there is one worker."""
    if n_workers == 1 or len(calls) < 2:
        for function, arguments in calls:
            yield function(*arguments)
        return
    # Spawned, because a forked JAX hangs; each takes one core.
    context = multiprocessing.get_context("spawn")
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = "1"
    try:
        with ProcessPoolExecutor(min(n_workers, len(calls)), mp_context=context) as pool:
            running = [pool.submit(function, *arguments) for function, arguments in calls]
            for future in as_completed(running):
                yield future.result()
    finally:
        os.environ.pop("NPROC")
        if before is not None:
            os.environ["NPROC"] = before
