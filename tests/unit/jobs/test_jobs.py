"""Jobs on this machine: kept by content, tried again when lost, told when they fail."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parity311.errors import BusyError, InputError, RunError
from parity311.jobs import local
from parity311.jobs.attempt import (
    OUTCOME,
    attempt,
    describe_difference,
    order_of,
    read_result,
)
from parity311.jobs.choose import choose_engine
from parity311.jobs.drive import Outcome, Shard, check_done, run_jobs
from parity311.jobs.job import Input, Job, Stamp, numerics, this_machine
from parity311.jobs.local import LocalEngine, count_workers
from parity311.storage.aside import host_name
from parity311.storage.locks import one_writer

FUNCTIONS = "tests.unit.jobs.functions"


def make_jobs(notes: Path, n: int = 4, function: str = "draw", **spec: Any) -> list[Job]:
    """Jobs that note every attempt below a folder."""
    return [
        Job(f"{FUNCTIONS}:{function}", {"number": k, "notes": str(notes), **spec}, name=f"{k}")
        for k in range(n)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    """What a folder of results holds, less what was measured on the way and compiled programs."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name != OUTCOME
        and not path.relative_to(folder).parts[0].startswith(".")
    }


def attempts(notes: Path) -> int:
    return len(list(notes.iterdir())) if notes.exists() else 0


def test_a_result_is_kept_under_what_it_depends_on(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.write_text("1")
    job = replace(make_jobs(tmp_path / "notes")[0], inputs={"extra": Input.of(extra)})
    stamp = this_machine()
    others = [
        replace(job, function=f"{FUNCTIONS}:refuse").key(stamp),
        replace(job, spec={**job.spec, "number": 9}).key(stamp),
        replace(job, inputs={}).key(stamp),
        job.key(Stamp("other code", stamp.numerics)),
        job.key(Stamp(stamp.code, "gpu")),
    ]
    assert len({job.key(stamp), *others}) == 6
    # What it is called, and how it is run, is not what it depends on.
    same = replace(job, name="other", program="x", memory_mb=1, gpus=1)
    assert same.key(stamp) == job.key(stamp)
    (tmp_path / "moved").write_text("1")
    assert replace(job, inputs={"extra": Input.of(tmp_path / "moved")}).key(stamp) == job.key(stamp)


def test_two_workers_and_none_write_the_same_and_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    jobs = make_jobs(notes, 6)
    told: list[tuple[int, int]] = []
    first = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "one")
    note = lambda ended, total, _: told.append((ended, total))  # noqa: E731
    second = run_jobs(jobs, LocalEngine(2), folder=tmp_path / "two", tell=note)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert [one.result for one in first] == [one.result for one in second]
    assert told == [(n + 1, 6) for n in range(6)]
    assert attempts(notes) == 12
    again = run_jobs(jobs, LocalEngine(2), folder=tmp_path / "two")
    assert [one.state for one in again] == ["kept"] * 6
    assert [one.result for one in again] == [one.result for one in first]
    assert attempts(notes) == 12


def test_a_changed_file_is_noticed_and_made_again(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path / "notes", 2)
    done = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    before = contents(tmp_path / "out")
    assert done[0].folder is not None
    values = done[0].folder / "values.npy"
    values.write_bytes(values.read_bytes()[:-1] + b"x")
    again = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    assert [one.state for one in again] == ["done", "kept"]
    assert contents(tmp_path / "out") == before


def test_a_killed_worker_costs_one_try_and_no_other_job(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    dies = make_jobs(notes, 1, "die_once")[0]
    always = replace(
        make_jobs(notes, 1, "always_die")[0], spec={"number": 8, "notes": str(notes)}, name="8"
    )
    jobs = [dies, always, *make_jobs(tmp_path / "others", 4)]
    found = run_jobs(jobs, LocalEngine(2), folder=tmp_path / "out")
    assert [one.state for one in found] == ["done", "failed", *["done"] * 4]
    assert found[0].result == {"sum": 42}
    assert found[0].tries == 2
    assert found[1].tries == 3
    assert attempts(notes) == 5
    assert attempts(tmp_path / "others") == 4
    assert not list((tmp_path / "out").rglob("half-written"))
    assert not [path for path in (tmp_path / "out").iterdir() if "partial" in path.name]


def test_a_worker_that_dies_for_the_last_time_is_lost_once(tmp_path: Path) -> None:
    """Nobody takes its place where nothing waits, and others are still heard for a while."""
    always = make_jobs(tmp_path / "dies", 1, "always_die")[0]
    slow = replace(
        make_jobs(tmp_path / "slow", 1)[0],
        spec={"number": 1, "notes": str(tmp_path / "slow"), "seconds": 3.0},
    )
    found = run_jobs([always, slow], LocalEngine(2), folder=tmp_path / "out")
    assert [(one.state, one.tries) for one in found] == [("failed", 3), ("done", 1)]


def test_a_worker_that_dies_while_another_ends_is_heard(tmp_path: Path) -> None:
    """It dies at its job between two looks at who has ended, while jobs wait."""

    def kill_the_other(ended: int, *_: Any) -> None:
        while not (notes := list((tmp_path / "slow").glob("*"))):
            time.sleep(0.01)
        process = int(notes[0].name.rsplit("-", 1)[1])
        if ended == 1:
            os.kill(process, signal.SIGKILL)
        while ended == 1 and _is_alive(process):
            time.sleep(0.01)

    jobs = [
        *make_jobs(tmp_path / "slow", 1, "wait_once"),
        *make_jobs(tmp_path / "quick", 3),
    ]
    found = run_jobs(jobs, LocalEngine(2), folder=tmp_path / "out", tell=kill_the_other)
    assert [(one.state, one.tries) for one in found] == [("done", 2), *[("done", 1)] * 3]


def test_a_users_error_fails_at_once_and_the_others_go_on(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    jobs = [
        *make_jobs(notes, 1, "refuse"),
        *make_jobs(tmp_path / "crashed", 1, "crash"),
        *make_jobs(tmp_path / "fine", 2),
    ]
    found = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    assert [one.state for one in found] == ["failed", "failed", "done", "done"]
    assert attempts(notes) == 1
    assert attempts(tmp_path / "crashed") == 3
    kept = sorted((tmp_path / "out" / "failed").glob("*.json"))
    assert len(kept) == 2
    assert any('"number": 0' in path.read_text() and "wrong" in path.read_text() for path in kept)
    with pytest.raises(RunError, match=r"2 of 4 jobs failed, the first is 0 .*The number is wrong"):
        check_done(found, len(jobs), tmp_path / "out")


@pytest.mark.parametrize("function", ["fill_disk", "fill_disk_by_duckdb"])
def test_a_full_disk_stops_everything(tmp_path: Path, function: str) -> None:
    jobs = [*make_jobs(tmp_path / "a", 1, function), *make_jobs(tmp_path / "b", 2)]
    with pytest.raises(RunError, match="No space left"):
        run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    assert attempts(tmp_path / "b") == 0


def test_a_second_driver_of_a_folder_is_told_so(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path / "notes")
    (tmp_path / "out").mkdir()
    with one_writer(tmp_path / "out" / "driver"), pytest.raises(BusyError, match="Another process"):
        run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    # Two shards are two drivers by intent.
    with one_writer(tmp_path / "out" / "driver-0-of-2"):
        run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out", shard=Shard(1, 2))


def test_shards_share_all_jobs_out_and_double_none(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path / "notes", 9)
    for place in range(3):
        found = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out", shard=Shard(place, 3))
        if len(found) < 9:
            with pytest.raises(RunError, match="run the other shards"):
                check_done(found, 9)
    assert attempts(tmp_path / "notes") == 9
    whole = run_jobs(jobs, LocalEngine(1), folder=tmp_path / "out")
    assert [one.state for one in whole] == ["kept"] * 9


def test_workers_of_another_version_are_refused(tmp_path: Path) -> None:
    job = make_jobs(tmp_path / "notes")[0]
    order = order_of(job, Stamp("0" * 64, this_machine().numerics), tmp_path / "out")
    assert "another version of parity311" in attempt(order)["reason"]
    order = order_of(job, Stamp(this_machine().code, "gpu, x86_64 avx2"), tmp_path / "out")
    said = attempt(order)
    assert said["state"] == "failed"
    assert "gpu" in said["reason"]
    assert attempts(tmp_path / "notes") == 0


@pytest.mark.parametrize("name", ["XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION"])
def test_a_setting_that_rounds_otherwise_is_of_another_class(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    plain = numerics()
    monkeypatch.setenv(name, "--b=1 --a=2")
    other = numerics()
    assert other != plain
    said = describe_difference(Stamp("", plain), Stamp("", other))
    assert f"({name}=--a=2 --b=1 in the place of nothing)" in said
    monkeypatch.setenv(name, "--a=2 --b=1")
    assert numerics() == other


def test_a_changed_input_is_refused(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.write_text("1")
    job = replace(make_jobs(tmp_path / "notes")[0], inputs={"extra": Input.of(extra)})
    extra.write_text("2")
    found = run_jobs([job], LocalEngine(1), folder=tmp_path / "out")
    assert "has changed" in found[0].reason
    extra.unlink()
    assert "is not at" in run_jobs([job], LocalEngine(1), folder=tmp_path / "out")[0].reason


def test_more_workers_than_memory_are_refused() -> None:
    jobs = [Job(f"{FUNCTIONS}:draw", {}, memory_mb=1000)] * 50
    assert count_workers(0, jobs, 4_100.0, 16) == 3
    assert count_workers(2, jobs, 4_100.0, 16) == 2
    with pytest.raises(InputError, match=r"40 workers of 1,000 MB need 40.0 GB, and 4.1 GB are"):
        count_workers(40, jobs, 4_100.0, 16)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("spark", "", 0, ""), "Unknown engine 'spark'"),
        (("local", "host:1", 0, ""), "give --engine ray too"),
        (("ray", "nonsense", 0, ""), "write HOST:PORT"),
        (("ray", "127.0.0.1:1", 0, ""), "Nobody answers at 127.0.0.1:1"),
        (("local", "", 0, "3/3"), "counted from 0"),
        (("local", "", 0, "half"), "counted from 0"),
    ],
)
def test_bad_engines_are_refused_in_one_line(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        choose_engine(*given)


def test_an_address_where_another_service_listens_is_refused() -> None:
    """Ray itself would try to join it for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            with server.accept()[0] as opened:
                opened.recv(64)
                opened.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InputError, match=f"Nobody answers at {address} .*is not Ray"):
            choose_engine("ray", address, 0, "")
        thread.join()


def test_an_engine_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity311.jobs.on_ray.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'parity311\[ray\]'"):
        choose_engine("ray", "", 0, "")


DRIVER = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us aside
sys.path.insert(0, {root!r})
from tests.unit.jobs.test_jobs import make_jobs
from parity311.jobs.drive import run_jobs
from parity311.jobs.local import LocalEngine
if __name__ == "__main__":
    jobs = make_jobs(Path({notes!r}), 6, seconds=0.4)
    run_jobs(jobs, LocalEngine(2), folder=Path({out!r}), tell=lambda *_: print("one", flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_driver_leaves_no_worker_and_goes_on(tmp_path: Path, how: int) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    script = tmp_path / "driver.py"
    root = str(Path(__file__).resolve().parents[3])
    script.write_text(DRIVER.format(root=root, notes=str(notes), out=str(out)))
    driver = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "one\n"
        began = time.monotonic()
        driver.send_signal(how)
        driver.wait(10)
        workers = {int(path.name.rsplit("-", 1)[1]) for path in notes.iterdir()}
        while any(_is_alive(one) for one in workers):
            assert time.monotonic() - began < 5.0
            time.sleep(0.05)
    finally:
        driver.kill()
        driver.communicate()
    found = run_jobs(make_jobs(notes, 6, seconds=0.4), LocalEngine(1), folder=out)
    states = [one.state for one in found]
    assert set(states) == {"kept", "done"}
    assert not [path for path in out.iterdir() if "partial" in path.name]


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_worker_has_one_thread_a_library_and_its_machines_programs(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path / "notes", 2, "tell_cache")
    order = order_of(jobs[0], this_machine(), None)
    engine = LocalEngine(2, cache=tmp_path / "compiled")
    try:
        engine.open(jobs, this_machine())
        name = engine.idle()[0]
        process = engine._workers[name]._process.pid  # pyright: ignore[reportPrivateUsage]
        engine.give(name, order)
        said = engine.hear(30.0)[0][1]
        assert said is not None
        assert said["result"] == {"cache": f"{tmp_path}/compiled/{host_name()}"}
        given = Path(f"/proc/{process}/environ").read_text()
        for variable in local.ONE_THREAD:
            assert f"{variable}=1" in given.split("\0")
    finally:
        engine.close()
    assert "PARITY311_THREADS" not in os.environ


def test_a_result_of_another_key_is_no_result(tmp_path: Path) -> None:
    job = make_jobs(tmp_path / "notes")[0]
    found: list[Outcome] = run_jobs([job], LocalEngine(1), folder=tmp_path / "out")
    assert found[0].folder is not None
    assert read_result(found[0].folder, job.key(this_machine()))[0]
    assert not read_result(found[0].folder, "0" * 64)[0]
    (found[0].folder / "job.json").write_text("{}")
    assert not read_result(found[0].folder, job.key(this_machine()))[0]


def test_names_of_partial_folders_say_who_writes(tmp_path: Path) -> None:
    from parity311.storage.aside import own_name

    name = own_name(tmp_path / "x").name
    assert f"{host_name()}-{os.getpid()}-" in name
