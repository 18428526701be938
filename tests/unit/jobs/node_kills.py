"""Kill a node of a Ray cluster while a job runs on it, many times; write what came of it.

    python -m tests.unit.jobs.node_kills --times 20 --out docs/results/scale-node-kills.json

A head lives through; a second node is started anew for every study, and its raylet killed while a
worker of it is inside a job: after a different number of finished jobs, and at a different moment
of the job. A study must end with every job done once, no result half there, and the bytes of a run
without Ray; the same command again must find all of it and remove what the dead had begun. What was
found is written after every study, and a run that was cut off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.unit.jobs.test_jobs import attempts, contents, make_jobs
from tests.unit.jobs.test_on_ray import end_processes, free_port, ray_start, raylets

from parity311.jobs.drive import KEPT_BEFORE, run_jobs
from parity311.jobs.job import this_machine
from parity311.jobs.local import LocalEngine
from parity311.jobs.on_ray import RayEngine, make_token
from parity311.storage.strict_json import read_json

N_JOBS = 12
SECONDS = 0.5
MOMENTS = (0.1, 0.5, 0.9)
"""When in a job its node is killed, as a share of the time that it sleeps."""
LEFT_S = 15.0
"""How long a worker may outlive its node."""


def parent_of(process: int) -> int:
    """Process that started another; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Killer(threading.Thread):
    """Kills a raylet at a moment of a job that one of its workers is inside of."""

    def __init__(self, raylet: int, folder: Path, notes: Path, after: int, moment: float) -> None:
        super().__init__(daemon=True)
        self._raylet, self._folder, self._notes = raylet, folder, notes
        self._after, self._moment = after, moment
        self._seen = set(notes.iterdir())
        self.killed = False

    def run(self) -> None:
        """Wait for a job that begins there once enough have ended."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            fresh = set(self._notes.iterdir()) - self._seen
            self._seen |= fresh
            n_done = len(list(self._folder.glob("*/result.json")))
            if n_done >= self._after and any(self._is_there(note) for note in fresh):
                time.sleep(SECONDS * self._moment)
                os.kill(self._raylet, signal.SIGKILL)
                self.killed = True
                return
            time.sleep(0.01)

    def _is_there(self, note: Path) -> bool:
        return parent_of(int(note.name.rsplit("-", 1)[1])) == self._raylet


def study_and_kill(
    address: str, room: str, folder: Path, notes: Path, number: int, expected: dict[str, bytes]
) -> dict[str, Any]:
    """One study on two nodes, the second of which is killed under a job."""
    first = raylets(room, of_head=False)
    ray_start(folder.parent, f"--address={address}")
    after, moment = 1 + number % 6, MOMENTS[number % len(MOMENTS)]
    killer = Killer(max(raylets(room, of_head=False) - first), folder, notes, after, moment)
    before, began = attempts(notes), time.monotonic()
    killer.start()
    jobs = make_jobs(notes, N_JOBS, seconds=SECONDS)
    found = run_jobs(jobs, RayEngine(address), folder=folder)
    seconds = time.monotonic() - began
    again, n_left = run_again(jobs, folder)
    return {
        "killed_after": after,
        "moment": moment,
        "is_killed": killer.killed,
        # A machine that was slow here may have ended that job, and been given the next one only.
        "is_under_way": attempts(notes) - before > N_JOBS,
        "done": sum(one.state == "done" for one in found),
        "attempts": attempts(notes) - before,
        "tried_again": sum(one.tries > 1 for one in found),
        "kept_by_the_next": again,
        "left_by_the_dead": n_left,
        "same_bytes": contents(folder) == expected,
        "seconds": round(seconds, 1),
    }


def run_again(jobs: list[Any], folder: Path) -> tuple[int, int]:
    """How many jobs the same command finds done, and what of the dead it could not remove."""
    until = time.monotonic() + LEFT_S
    while True:
        found = run_jobs(jobs, LocalEngine(1), folder=folder)
        left = [path for path in folder.iterdir() if "partial" in path.name]
        if not left or time.monotonic() > until:
            return sum(one.state == KEPT_BEFORE for one in found), len(left)
        time.sleep(0.5)


def is_good(row: dict[str, Any]) -> bool:
    """Whether a study lost nothing, doubled nothing and gave the same."""
    is_whole = row["done"] == row["kept_by_the_next"] == N_JOBS and row["same_bytes"]
    is_once = N_JOBS <= row["attempts"] <= N_JOBS + row["tried_again"]
    return is_whole and is_once and row["left_by_the_dead"] == 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Studies of an earlier run of the same code; none where there is no such run."""
    if not path.is_file():
        return []
    kept = read_json(path)
    return kept["rows"] if kept.get("code") == this_machine().code else []


def main(arguments: list[str]) -> int:
    """Kill as often as asked; 1 where anything was lost, doubled or different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="kills while a job runs there (20)")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    make_token()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    room = tempfile.mkdtemp(prefix="p311ray")
    port = free_port()
    rows = read_rows(given.out)
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
            while sum(row["is_under_way"] for row in rows) < given.times:
                number = len(rows)
                address, folder = f"127.0.0.1:{port}", root / f"study-{number}"
                rows.append(study_and_kill(address, room, folder, notes, number, expected))
                print(json.dumps(rows[-1]), flush=True)
                said = {
                    "code": this_machine().code, "jobs": N_JOBS, "studies": len(rows),
                    "good": sum(is_good(one) for one in rows),
                    "kills_while_a_job_ran_there": sum(one["is_under_way"] for one in rows),
                    "rows": rows,
                }  # fmt: skip
                given.out.write_text(json.dumps(said, indent=1) + "\n")
        finally:
            end_processes(room)
    return 0 if rows and all(is_good(one) for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
