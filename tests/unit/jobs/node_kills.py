"""Kill a node of a Ray cluster in the middle of a study, many times; write what came of it.

    python -m tests.unit.jobs.node_kills --times 20 --out docs/results/scale-node-kills.json

A head lives through; a second node is started anew for every study and its raylet killed after a
different number of finished jobs. A study must end with every job done once, no folder half there,
and the bytes of a run without Ray. What was found is written after every study.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.unit.jobs.test_jobs import attempts, contents, make_jobs
from tests.unit.jobs.test_on_ray import end_processes, free_port, processes, ray_start

from parity311.jobs.drive import Outcome, run_jobs
from parity311.jobs.local import LocalEngine
from parity311.jobs.on_ray import RayEngine, make_token

N_JOBS = 12
SECONDS = 0.5


def has_begun_below(raylet: int, notes: Path) -> bool:
    """Whether a worker of this raylet has begun a job."""
    for process in {path.name.rsplit("-", 1)[1] for path in notes.iterdir()}:
        try:
            parent = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if int(parent) == raylet:
            return True
    return False


def study_and_kill(
    address: str, room: str, folder: Path, notes: Path, after: int, expected: dict[str, bytes]
) -> dict[str, Any]:
    """One study on two nodes, the second of which is killed after so many finished jobs."""
    first = processes(room, "/raylet")
    ray_start(folder.parent, f"--address={address}")
    second = max(processes(room, "/raylet") - first)
    before, began = attempts(notes), time.monotonic()

    is_killed = False

    def kill(ended: int, total: int, outcome: Outcome) -> None:
        nonlocal is_killed
        del total, outcome
        # Only once a job has begun on the second node: killing one that waits shows nothing.
        if not is_killed and ended >= after and has_begun_below(second, notes):
            is_killed = True
            os.kill(second, signal.SIGKILL)

    jobs = make_jobs(notes, N_JOBS, seconds=SECONDS)
    found = run_jobs(jobs, RayEngine(address), folder=folder, tell=kill)
    left = [path.name for path in folder.iterdir() if "partial" in path.name]
    return {
        "killed_after": after,
        "is_killed": is_killed,
        "is_hit": any(one.tries > 1 for one in found),
        "done": sum(one.state == "done" for one in found),
        "attempts": attempts(notes) - before,
        "tried_again": sum(one.tries > 1 for one in found),
        "half_written": len(left),
        "same_bytes": contents(folder) == expected,
        "seconds": round(time.monotonic() - began, 1),
    }


def main(arguments: list[str]) -> int:
    """Kill as often as asked; 1 where anything was lost, doubled or different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    make_token()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    room = tempfile.mkdtemp(prefix="p311ray")
    port = free_port()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        root, notes = Path(name), Path(name) / "notes"
        notes.mkdir()
        try:
            run_jobs(
                make_jobs(notes, N_JOBS, seconds=SECONDS), LocalEngine(1), folder=root / "expected"
            )
            expected = contents(root / "expected")
            own = ("--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={room}")
            ray_start(root, *own)
            for number in range(given.times):
                row = study_and_kill(
                    f"127.0.0.1:{port}", room, root / f"study-{number}", notes, 1 + number % 6,
                    expected,
                )  # fmt: skip
                rows.append(row)
                print(json.dumps(row), flush=True)
                is_good = [one["done"] == N_JOBS and one["same_bytes"] for one in rows]
                said = {
                    "jobs": N_JOBS, "studies": len(rows), "good": sum(is_good),
                    "kills_while_a_job_ran_there": sum(one["is_hit"] for one in rows),
                    "rows": rows,
                }  # fmt: skip
                given.out.write_text(json.dumps(said, indent=1) + "\n")
        finally:
            end_processes(room)
    return 0 if rows and all(one["done"] == N_JOBS and one["same_bytes"] for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
