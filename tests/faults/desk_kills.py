"""Kill the desk's server under load, many times, and look at what is left.

    python -m tests.faults.desk_kills --points 50                     SQLite
    python -m tests.faults.desk_kills --points 50 --postgresql        a server of its own
    python -m tests.faults.desk_kills --points 5 --twin               must find lost decisions

Clerks accept cases and take that back over HTTP, and write down every entry they were told of. The
server is killed (kill -9) at a random moment and started again. Afterwards every entry that was
told is in the log, once and as told, and the chain and the cases verify.
Prints one JSON object; the exit code is 1 where something was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from parity311.desk import cases
from parity311.desk.accounts import Actor, start_login
from parity311.desk.app import make_app
from parity311.desk.ledger import ledger_problems, read_log
from parity311.desk.permissions import Role
from parity311.desk.serve import ServeConfig, open_desk
from parity311.desk.web import COOKIE
from tests.conftest import write_folder
from tests.faults.children import run_child
from tests.postgres import running_server, what_is_lacking
from tests.unit.desk.staff import START
from tests.unit.lifecycle.offices import busy_tables

N_CLERKS = 4
START_SECONDS = 60.0
Told = dict[int, tuple[str, str]]
"""entry -> act and case"""


def main() -> int:
    """Kill as often as was asked for; 1 where a fault was found."""
    parser = argparse.ArgumentParser(description="Kill the desk's server under load.")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--twin", action="store_true", help="Acknowledge before it is kept.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = str(folder / "desk.db")
        if given.postgresql:
            if what_is_lacking():
                print(what_is_lacking(), file=sys.stderr)
                return 3
            address = stack.enter_context(running_server()).address()
        found = try_kills(folder, address, given.points, given.seed, is_twin=given.twin)
    print(json.dumps(found))
    return 1 if found["faults"] else 0


def config_of(folder: Path, address: str) -> ServeConfig:
    """The desk that is killed: heat, twelve complaints at a time, its clock nearly at rest."""
    return ServeConfig(
        records=folder / "records", folder=folder / "desk", database=address, domains=("heat",),
        day=START, days=20, speed=0.001,
    )  # fmt: skip


def try_kills(
    folder: Path, address: str, points: int, seed: int, *, is_twin: bool
) -> dict[str, Any]:
    """Kill at so many points, looking after each."""
    rng = random.Random(seed)
    write_folder(folder / "records", busy_tables(12))
    # Whoever writes today's rule down starts threads that a fork would not have.
    ended = run_child(lambda: open_desk(config_of(folder, address)), folder)
    assert ended.code == 0, ended.words
    told: Told = {}
    faults: list[str] = []
    n_killed = 0
    for _ in range(points):
        desk, _, _ = open_desk(config_of(folder, address))
        with desk.database.writing() as session:
            token = start_login(session, Actor("intake", Role.INTAKE))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(64)
            child = os.fork()
            if child == 0:
                serve_until_killed(folder, address, listening, is_twin=is_twin)
            try:
                work(listening.getsockname()[1], token, told, rng.randint(3, 30), rng)
            finally:
                os.kill(child, signal.SIGKILL)
                n_killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        faults += look(desk, told)
        if faults:
            break
    return {"killed": n_killed, "told": len(told), "faults": faults}


def serve_until_killed(
    folder: Path, address: str, listening: socket.socket, *, is_twin: bool
) -> None:
    """The server, in a process of its own; the twin answers though nothing was written."""
    if is_twin:
        cases._decide = lambda *given, **more: random.randrange(10**9)
    desk, _, _ = open_desk(config_of(folder, address))
    server = uvicorn.Server(uvicorn.Config(make_app(desk), log_level="critical"))
    server.run(sockets=[listening])
    os._exit(0)


def work(port: int, token: str, told: Told, entries: int, rng: random.Random) -> None:
    """Clerks at work until they were told of so many entries, each on cases of their own.

    The kill comes a random moment later: counted in entries, it finds as much work on any machine.
    """
    base = f"http://127.0.0.1:{port}"
    headers = {"Accept": "application/json", "Origin": base, "Cookie": f"{COOKIE}={token}"}
    with httpx.Client(base_url=base, headers=headers, timeout=START_SECONDS) as client:
        lines = client.get("/queue.json").json()["cases"]
        lines += client.get("/queue.json", params={"status": "decided"}).json()["cases"]
    names = sorted(one["complaint_id"] for one in lines)
    enough, ends = len(told) + entries, time.monotonic() + START_SECONDS

    def clerk(number: int) -> None:
        own = names[number::N_CLERKS]
        order = random.Random(rng.random())
        with httpx.Client(base_url=base, headers=headers, timeout=5.0) as client:
            while time.monotonic() < ends:
                name, act = order.choice(own), order.choice(("accept", "undo"))
                try:
                    answer = client.post(f"/case/{name}/{act}")
                except httpx.HTTPError:
                    return
                if answer.status_code == 200:
                    told[answer.json()["entry"]] = (act, name)

    threads = [
        threading.Thread(target=clerk, args=(number,), daemon=True) for number in range(N_CLERKS)
    ]
    for thread in threads:
        thread.start()
    while len(told) < enough and time.monotonic() < ends:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.05))


def look(desk: Any, told: Told) -> list[str]:
    """What is not as it was told."""
    with desk.database.reading() as session:
        found = ledger_problems(session)
        kept = {one.seq: (one.action, one.details.get("case")) for one in read_log(session)}
    for seq, (act, name) in sorted(dict(told).items()):
        if kept.get(seq) != (act, name):
            found.append(f"entry {seq}, {act} {name}, was told and is not there")
    return found


if __name__ == "__main__":
    sys.exit(main())
