"""Calls as jobs: one agent's or one domain's products are too small to share between threads.

What a call makes it writes itself, whole or not at all, into the folder of the reproduction, which
every worker must see; a stage knows what is there by its own digests and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parity311.jobs.attempt import find_function
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Outcome, check_done
from parity311.jobs.job import Job, Task

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, and plain arguments: numbers, text, paths, lists of them."""


def run_calls(
    calls: Sequence[Call], where: Workplace, tell: Callable[[Any], None] = lambda told: None
) -> list[Any]:
    """What the calls return, each told as it ends; where one fails, the others go on first."""
    jobs = [
        Job(
            "parity311.studies.reproduction.side_by_side:do_call",
            {
                "function": f"{function.__module__}:{function.__name__}",
                "arguments": [_plain(one) for one in arguments],
            },
            name=function.__name__.strip("_"),
            program=function.__name__,
        )
        for function, arguments in calls
    ]

    def told(ended: int, total: int, outcome: Outcome) -> None:
        del ended, total
        if outcome.is_there:
            tell(outcome.result)

    done = where.run(jobs, tell=told)
    check_done(done, len(jobs) if where.shard is None else len(done))
    return [one.result for one in done]


def _plain(value: Any) -> Any:
    return str(value.resolve()) if isinstance(value, Path) else value


def do_call(task: Task) -> Any:
    """Do one call, in whatever process."""
    return find_function(task.spec["function"])(*task.spec["arguments"])  # type: ignore[call-arg]
