"""The desk under load: complaints filed at a steady rate, pages of a long queue, memory.

A small city's desk is filled with complaints of the kinds its records have; all but so many are
closed as they would be. Then the server is started as its user starts it, and complaints are filed
over HTTP at a steady rate while the queue is read. Times are the server's own, as it tells them in
`Server-Timing`; how far the rate was kept is counted outside.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import numpy as np

from parity311.bench.served import draw_complaints
from parity311.errors import InputError

DOMAIN = "heat"
N_OPEN, N_COMPLAINTS = 10_000, 100_000
RATE, SECONDS = 200.0, 60.0
N_SENDERS = 8
AT_ONCE = 50
"""Complaints taken in one transaction where the desk is filled."""
N_LOOKS = 10
START_SECONDS = 180.0
LIMITS = {"score_p99_ms": 5.0, "queue_p99_ms": 100.0}
Sample = tuple[float, dict[str, float], int]
"""When it was answered, the server's own times, its status."""


def bench_desk(
    records: Path,
    *,
    n_open: int = N_OPEN,
    n_complaints: int = N_COMPLAINTS,
    rate: float = RATE,
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """Fill a desk, then load it; rates, times in milliseconds and memory in megabytes."""
    if n_complaints < n_open:
        raise InputError(
            f"{n_complaints} complaints and {n_open} open ones were asked for; give more "
            "complaints than stay open."
        )
    with TemporaryDirectory() as name:
        folder = Path(name)
        memory = _fill_apart(records, folder, n_open, n_complaints)
        load_before = os.getloadavg()[0]
        with _serving(records, folder) as served:
            key, token = _let_in(folder)
            before = _processor_seconds(served[1])
            filed, pages, peak = _load(served, key, token, records, rate, seconds)
            used = _processor_seconds(served[1]) - before
        found = {
            "rate": rate,
            "seconds": seconds,
            "held": sum(at <= seconds and status == 200 for at, _, status in filed) / seconds,
            "sent": len(filed),
            "refused": sum(status != 200 for _, _, status in filed),
            "score": _times(filed, "score"),
            "score_processor": _times(filed, "score-cpu"),
            "filing": _times(filed, "total"),
            "processor_ms_a_filing": 1000 * used / max(len(filed), 1),
            "queue_page": _times(pages, "total"),
            "open_cases": n_open,
            "server_mb": peak,
            "memory": memory,
            "cores": os.cpu_count(),
            "load_before": load_before,
            "load_after": os.getloadavg()[0],
            "limits": LIMITS,
        }
    return found


def _times(samples: list[Sample], name: str) -> dict[str, float]:
    took = np.array(
        [times[name] for _, times, status in samples if status == 200 and name in times]
    )
    if not len(took):
        return {"n": 0}
    return {
        "n": len(took),
        "median_ms": float(np.median(took)),
        "p99_ms": float(np.percentile(took, 99)),
        "highest_ms": float(took.max()),
    }


def _fill_apart(records: Path, folder: Path, n_open: int, n: int) -> list[list[float]]:
    """Fill the desk in a process of its own; its memory by complaints taken in."""
    words = ["fill", str(records), str(folder), str(n_open), str(n)]
    done = subprocess.run(
        [sys.executable, "-m", "parity311.bench.desk", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise InputError(f"The desk could not be filled: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.splitlines()[-1])


def fill(records: Path, folder: Path, n_open: int, n: int) -> list[list[float]]:
    """Take complaints in through the desk's own intake, close the oldest; memory as it goes."""
    from parity311.desk.intake import NewComplaint, record_closing, take_in
    from parity311.desk.keeper import refresh_queues
    from parity311.desk.serve import open_desk
    from parity311.desk.tables import ClosingRow

    desk, _, _ = open_desk(_config(records, folder))
    office = desk.office(DOMAIN)
    given = draw_complaints(office.past, n)
    looks = [[0, _memory_mb(os.getpid())]]
    for start in range(0, n, AT_ONCE):
        now = desk.clock.now()
        some = [
            NewComplaint(
                one["complaint_id"], DOMAIN, one["category"], one["severity"], now, one["tract"],
                building_id=one["building_id"] or "", units=one["units"], source="bench",
            )
            for one in given[start : start + AT_ONCE]
        ]  # fmt: skip
        with desk.database.writing() as session:
            take_in(session, office, some, now)
            for one in given[max(start - n_open, 0) : max(start + AT_ONCE - n_open, 0)]:
                stamp = now.isoformat(timespec="seconds")
                record_closing(session, ClosingRow(
                    complaint_id=one["complaint_id"], domain=DOMAIN, closed_at=stamp,
                    disposition="no_violation",
                ))  # fmt: skip
        refresh_queues(desk)
        done = start + len(some)
        if done * N_LOOKS // n > start * N_LOOKS // n:
            looks.append([done, _memory_mb(os.getpid())])
    return looks


def _config(records: Path, folder: Path) -> Any:
    from parity311.desk.serve import ServeConfig

    return ServeConfig(
        records=records, folder=folder / "desk", database=str(folder / "desk.db"),
        domains=(DOMAIN,), replay=False,
    )  # fmt: skip


def _memory_mb(process: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _processor_seconds(process: int) -> float:
    """What a process has used of the processor."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _serving(records: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """The server, started as its user starts it; its port and process."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    code = "from parity311.cli import main; main()"
    words = ["serve", "--records", records, "--domains", DOMAIN, "--folder", folder / "desk",
             "--database", folder / "desk.db", "--port", port]  # fmt: skip
    with (folder / "serve.log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)], stdout=log, stderr=log
        )
        try:
            _wait_for(port, child, folder / "serve.log")
            yield port, child.pid
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(timeout=60)


def _wait_for(port: int, child: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and child.poll() is None:
        try:
            if _ask(http.client.HTTPConnection("127.0.0.1", port), "GET", "/readyz")[1] == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise InputError(f"The desk did not open: {log.read_text()[-400:]}")


def _let_in(folder: Path) -> tuple[str, str]:
    """A key to file with, and a login to read the queue with."""
    from parity311.desk.accounts import Actor, start_login
    from parity311.desk.keys import make_key
    from parity311.desk.permissions import Role
    from parity311.lifecycle.database import Database

    with Database(folder / "desk.db").writing() as session:
        key = make_key(session, "bench", "bench")
        return key, start_login(session, Actor("intake", Role.INTAKE))


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[dict[str, float], int]:
    """The server's own times by name, and the status."""
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    answer.read()
    told = answer.headers.get("Server-Timing", "")
    parts = (one.split(";dur=") for one in told.split(", ") if ";dur=" in one)
    return {name: float(took) for name, took in parts}, answer.status


def _load(
    served: tuple[int, int], key: str, token: str, records: Path, rate: float, seconds: float
) -> tuple[list[Sample], list[Sample], float]:
    """File at a rate and read the queue once a second; what was answered, and the memory."""
    from parity311.records.journal_reader import read_journal
    from parity311.records.store import open_records

    port, process = served
    opened = open_records(records)
    last = datetime.combine(opened.window[1], datetime.min.time())
    journal = read_journal(opened, DOMAIN, last)
    n = int(rate * seconds)
    bodies = [_body(one, key) for one in draw_complaints(journal, n, seed=1)]
    work: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
    filed: list[Sample] = []
    pages: list[Sample] = []
    began = time.monotonic() + 0.5
    send = partial(_send, port, work, filed, began, seconds)
    threads = [threading.Thread(target=send) for _ in range(N_SENDERS)]
    threads.append(threading.Thread(target=_read_queue, args=(port, token, pages, began, seconds)))
    for one in threads:
        one.start()
    for number, body in enumerate(bodies):
        time.sleep(max(began + number / rate - time.monotonic(), 0.0))
        work.put((number / rate, body))
    peak = _memory_mb(process)
    for _ in range(N_SENDERS):
        work.put(None)
    for one in threads:
        one.join()
    return filed, pages, peak


def _body(one: dict[str, Any], key: str) -> str:
    place = {"address_id": one["building_id"]} if one["building_id"] else {}
    return urlencode(
        {"api_key": key, "service_code": DOMAIN, "attribute[category]": one["category"],
         "lat": "40.7", "long": "-73.95", **place}
    )  # fmt: skip


def _send(
    port: int,
    work: queue.SimpleQueue[tuple[float, str] | None],
    filed: list[Sample],
    began: float,
    seconds: float,
) -> None:
    """File what is due until the time is up; what could not be sent by then is not."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    while (given := work.get()) is not None:
        if time.monotonic() > began + seconds:
            continue
        try:
            times, status = _ask(connection, "POST", "/open311/v2/requests.json", given[1], headers)
        except (OSError, http.client.HTTPException):
            connection.close()
            times, status = {}, 0
        filed.append((time.monotonic() - began, times, status))


def _read_queue(port: int, token: str, pages: list[Sample], began: float, seconds: float) -> None:
    from parity311.desk.web import COOKIE

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    number = 0
    while number < seconds:
        time.sleep(max(began + number - time.monotonic(), 0.0))
        page = 1 + number % 5
        times, status = _ask(
            connection, "GET", f"/queue?page={page}", headers={"Cookie": f"{COOKIE}={token}"}
        )
        pages.append((time.monotonic() - began, times, status))
        number += 1


if __name__ == "__main__":
    _, _, given_records, given_folder, given_open, given_n = sys.argv
    print(json.dumps(fill(Path(given_records), Path(given_folder), int(given_open), int(given_n))))
