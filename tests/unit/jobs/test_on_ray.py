"""Jobs on Ray, for real: one machine, two nodes, killed workers and nodes; the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.jobs.test_jobs import attempts, contents, make_jobs

from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Outcome, run_jobs
from parity311.jobs.job import Stamp, this_machine
from parity311.jobs.local import ONE_THREAD, LocalEngine
from parity311.jobs.on_ray import STARTS, RayEngine, make_token
from parity311.storage.aside import host_name

# Ray starts processes by a fork that exec follows at once: what JAX warns of cannot happen.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called"),
    # Of a start that Ray gave up, on a busy machine, and that was tried again.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = Path(__file__).resolve().parents[3]
START_S = 240
"""How long a node may take to start; on an idle machine it takes a few seconds."""
HEAD = "node:__internal_head__"
"""What stands on the command line of the head's raylet."""


class Cluster(NamedTuple):
    """Two nodes of one core each on this machine."""

    address: str
    second: int
    """process of the second node's raylet"""


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ray_start(folder: Path, *arguments: str) -> None:
    """Start a node with one core; nothing is sent home, and a token is asked for."""
    command = [
        str(Path(sys.executable).with_name("ray")), "start", *arguments, "--num-cpus=1",
        "--memory=4000000000", "--object-store-memory=80000000", "--include-dashboard=false",
        "--disable-usage-stats",
    ]  # fmt: skip
    if "--head" not in arguments:
        command = [one for one in command if "dashboard" not in one and "usage" not in one]
    environment = {
        **os.environ, **ONE_THREAD, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "RAY_memory_monitor_refresh_ms": "0",  # who else fills this machine is not tested here
    }  # fmt: skip
    for _ in range(STARTS):
        with (folder / "ray.log").open("ab") as log:
            done = subprocess.run(
                command, env=environment, check=False, timeout=START_S, stdout=log, stderr=log
            )
        if not done.returncode:
            return
        # Ray gives its processes 30 seconds; on a busy machine a head may have begun to listen.
        for option in arguments:
            if option.startswith("--temp-dir="):
                kill_processes(option.removeprefix("--temp-dir="))
    raise RuntimeError((folder / "ray.log").read_text()[-2000:])


def processes(mark: str, name: str = "") -> set[int]:
    """Processes with our folder on their command line, of this name."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                given = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(mark in one for one in given) and given[0].endswith(name):
                found.add(int(entry.name))
    return found


def raylets(room: str, *, of_head: bool) -> set[int]:
    """Raylets of a cluster: the head's, or those of the other nodes."""
    return {
        process
        for process in processes(room, "/raylet")
        if (HEAD in Path(f"/proc/{process}/cmdline").read_text()) == of_head
    }


def kill_processes(room: str) -> None:
    """End what was started with this folder."""
    for process in processes(room) - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def end_processes(room: str) -> None:
    """End what was started with this folder, and remove it."""
    kill_processes(room)
    shutil.rmtree(room, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[None]:
    """A token for this module: Ray reads it when it is first imported, and nobody else does."""
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED")
    before = {name: os.environ.get(name) for name in names}
    make_token()
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and a second node, started as a person would."""
    folder = tmp_path_factory.mktemp("ray")
    room = tempfile.mkdtemp(prefix="p311ray")  # short: names of sockets have a limit
    port = free_port()
    try:
        own = ("--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={room}")
        ray_start(folder, *own)
        ray_start(folder, f"--address=127.0.0.1:{port}")
        (second,) = raylets(room, of_head=False)
        yield Cluster(f"127.0.0.1:{port}", second)
    finally:
        end_processes(room)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where attempts are noted: one place, since a specification is part of a result's key."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> dict[str, bytes]:
    """What the jobs give on this machine, without Ray."""
    folder = tmp_path_factory.mktemp("local") / "out"
    run_jobs(study(notes), LocalEngine(1), folder=folder)
    return contents(folder)


def study(notes: Path) -> list[Any]:
    """Jobs long enough that something can be killed while they run."""
    return make_jobs(notes, 8, seconds=0.3)


def test_one_machine_gives_the_same_bytes(
    tmp_path: Path, notes: Path, expected: dict[str, bytes]
) -> None:
    asks = make_jobs(tmp_path / "asks", 1, "tell_cache")
    found = Workplace("ray", "", 2).run([*asks, *study(notes)], folder=tmp_path / "out")
    assert [one.state for one in found] == ["done"] * 9
    assert found[0].result == {"cache": f"{tmp_path}/out/.compiled/{host_name()}"}
    shutil.rmtree(str(found[0].folder))
    assert contents(tmp_path / "out") == expected


def test_two_nodes_give_the_same_bytes_though_a_worker_and_a_node_are_killed(
    tmp_path: Path,
    notes: Path,
    expected: dict[str, bytes],
    cluster: Cluster,
    capfd: pytest.CaptureFixture[str],
) -> None:
    dies = make_jobs(tmp_path / "dies", 1, "die_once")
    refused = make_jobs(tmp_path / "refused", 1, "refuse")
    jobs = [*dies, *refused, *study(notes)]
    found = run_jobs(jobs, RayEngine(cluster.address), folder=tmp_path / "whole")
    assert [(one.state, one.tries) for one in found[:2]] == [("done", 2), ("failed", 1)]
    assert {(one.state, one.tries) for one in found[2:]} == {("done", 1)}
    assert expected.items() <= contents(tmp_path / "whole").items()
    # What Ray says of a lost worker is not for standard output, where JSON goes.
    assert capfd.readouterr().out == ""
    # One job, so one worker: when it dies nobody is there, and its replacement is waited for. More
    # workers than the cluster has are refused only where there are jobs for them.
    alone = make_jobs(tmp_path / "alone", 1, "die_once")
    found = run_jobs(alone, RayEngine(cluster.address, 3), folder=tmp_path / "alone-out")
    assert [(one.state, one.tries) for one in found] == [("done", 2)]

    with pytest.raises(InputError, match="3 workers .* ask for at most 2"):
        run_jobs(study(notes), RayEngine(cluster.address, 3), folder=tmp_path / "refused-out")

    before = attempts(notes)

    def kill_node(ended: int, total: int, outcome: Outcome) -> None:
        del total, outcome
        if ended == 2:
            os.kill(cluster.second, signal.SIGKILL)

    folder = tmp_path / "killed"
    found = run_jobs(study(notes), RayEngine(cluster.address), folder=folder, tell=kill_node)
    assert [one.state for one in found] == ["done"] * 8
    assert contents(folder) == expected
    assert attempts(notes) - before in (8, 9, 10)
    # A worker may outlive its node by a moment, and with it what it had begun to write: the next
    # command on the folder finds everything done and removes that.
    until = time.monotonic() + 15
    while (left := [path for path in folder.iterdir() if "partial" in path.name]) and (
        time.monotonic() < until
    ):
        time.sleep(0.5)
        again = run_jobs(study(notes), LocalEngine(1), folder=folder)
        assert {one.state for one in again} == {"kept"}
    assert not left


def test_workers_of_another_version_are_refused(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Stamp("0" * 64, this_machine().numerics)
    monkeypatch.setattr("parity311.jobs.drive.this_machine", lambda: other)
    with pytest.raises(InputError, match="another version of parity311"):
        run_jobs(make_jobs(tmp_path, 1), RayEngine(cluster.address), folder=tmp_path / "out")
