"""A file is whole or not there, an output has one writer, and a folder is left to its owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.contract.broken.twins import Params, make_domain
from tests.faults.limits import room_for

from parity311.city import ensure
from parity311.city.ensure import open_or_build
from parity311.errors import BusyError, InputError, RunError, TrainingError
from parity311.records.store import MANIFEST, open_records, read_manifest
from parity311.storage.aside import (
    asides_of,
    dead_asides,
    host_name,
    write_text_aside,
    writing_aside,
)
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.storage.hashes import seal
from parity311.storage.locks import lock_path, one_writer
from parity311.studies.parity.world import prepare_world
from parity311.studies.reproduction.prepare import _claim
from parity311.studies.reproduction.reproduce import ReproduceConfig, run_stages
from parity311.training.sweep import _keep_params
from parity311.training.train_run import FILES, run_training

ROOT = Path(__file__).resolve().parents[3]


def in_another_process(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


KILLED = """
import os, signal, sys
from pathlib import Path
from parity311.storage.aside import writing_aside
from parity311.storage.locks import one_writer
out = Path(sys.argv[1])
with one_writer(out), writing_aside(out) as aside:
    aside.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_is_no_obstacle_and_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    out.write_text("old")
    assert in_another_process(KILLED, out).returncode == -signal.SIGKILL
    assert out.read_text() == "old"
    assert len(asides_of(out)) == 1
    with one_writer(out):
        write_text_aside(out, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    assert out.read_text() == "new"


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    with writing_aside(out) as first:
        first.write_text("first, half")
        write_text_aside(out, "second")
        assert first.exists()
        assert out.read_text() == "second"
        first.write_text("first")
    assert out.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_names_that_only_look_alike_are_left_alone(tmp_path: Path) -> None:
    for name in (".a.partial-backup", ".b.partial-0123abcd", "a.partial-0123abcd"):
        (tmp_path / name).write_text("mine")
    write_text_aside(tmp_path / "a", "new")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    out.write_text("old")
    with room_for(10), pytest.raises(RunError, match="The disk is full.*figures"):  # noqa: SIM117
        with telling_disk_errors(out):
            write_text_aside(out, "x" * 100)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


SECOND = """
import sys
from pathlib import Path
from parity311.errors import BusyError
from parity311.storage.locks import one_writer
try:
    with one_writer(Path(sys.argv[1])):
        print("wrote")
except BusyError as error:
    print(error)
"""


def test_a_second_process_is_told_by_whatever_name_it_comes(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    out = tmp_path / "out"
    with one_writer(out):
        for name in (out, tmp_path / "link" / "out", tmp_path / "x" / ".." / "out"):
            told = in_another_process(SECOND, name).stdout
            assert told.startswith("Another process is writing"), told
    assert in_another_process(SECOND, out).stdout == "wrote\n"
    assert not lock_path(out).exists()


def test_outputs_beside_each_other_do_not_wait(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a"), one_writer(tmp_path / "b"):
        assert in_another_process(SECOND, tmp_path / "c").stdout == "wrote\n"


ASKED: dict[str, Any] = {
    "preset": "small", "seed": 7, "participation": "strong", "capacity": "scarce"
}  # fmt: skip


def as_city(folder: Path, **about: Any) -> Path:
    """The tiny folder as if a city had been built with these options."""
    manifest = read_manifest(folder)
    text = json.dumps(seal({**manifest, "kind": "city", **about}))
    (folder / MANIFEST).write_text(text)
    return folder


def test_who_needs_the_same_city_waits_and_uses_it(
    tiny_records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, elsewhere = as_city(tiny_records, **ASKED), tiny_records.with_name("elsewhere")
    there.rename(elsewhere)
    calls = []

    def build(*given: Any, **options: Any) -> None:
        """The other process finishes while this one is told to wait."""
        calls.append(1)
        elsewhere.rename(there)
        raise BusyError("another")

    monkeypatch.setattr(ensure, "build_city", build)
    assert open_or_build(there, (), **ASKED).domains == ("heat",)
    assert calls == [1]


@pytest.mark.parametrize(
    "other",
    [
        {"preset": "nyc"},
        {"seed": 8},
        {"participation": "measured"},
        {"capacity": "calibrated"},
        {"date_to": date(2031, 1, 1)},
    ],
)
def test_another_city_is_refused_and_left_as_it_is(
    tiny_records: Path, other: dict[str, Any]
) -> None:
    there = as_city(tiny_records, **ASKED)
    before = (there / MANIFEST).read_bytes()
    ((name, value),) = other.items()
    with pytest.raises(InputError, match=f"{name} .* where {value} was asked for.*elsewhere"):
        open_or_build(there, (), **ASKED | other)
    assert (there / MANIFEST).read_bytes() == before
    window = open_records(there).window
    same = open_or_build(there, (), **ASKED, date_from=window[0], date_to=window[1])
    assert same.domains == ("heat",)


def test_imported_records_are_no_city(tiny_records: Path) -> None:
    with pytest.raises(InputError, match="holds imported records"):
        open_or_build(tiny_records, (), **ASKED)


# Folders that grow


def foreign(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    return folder


def train_into(folder: Path) -> None:
    run_training(make_domain(), "dqn", out=folder, preference=(1.0, 0.0, 0.0, 0.0), steps=20)


def prepare_into(folder: Path) -> None:
    prepare_world("heat", folder / "nowhere", folder)


def reproduce_into(folder: Path) -> None:
    _claim(folder, {"preset": "small", "seed": 1, "programme": "ours"})


def sweep_into(folder: Path, *, worth: float = 1.0, resume: bool = False) -> None:
    import jax.numpy as jnp

    _keep_params(folder, Params(jnp.float32(worth)), make_domain(), resume=resume)


@pytest.mark.parametrize("work", [train_into, prepare_into, reproduce_into, sweep_into])
def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, work: Any) -> None:
    folder = foreign(tmp_path / "mine")
    with pytest.raises((InputError, TrainingError), match=r"not parity311's \(thesis.txt\)"):
        work(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    with pytest.raises((InputError, TrainingError), match="is a file"):
        work(folder / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_sweep_keeps_the_params_it_was_started_with(tmp_path: Path) -> None:
    """From its first chunk on; one that no engine took on is begun again."""
    sweep_into(tmp_path / "sweep", worth=3.0)
    sweep_into(tmp_path / "sweep")
    (tmp_path / "sweep" / "chunk-0000").mkdir()
    before = (tmp_path / "sweep" / "params.safetensors").read_bytes()
    with pytest.raises(TrainingError, match="already holds a sweep"):
        sweep_into(tmp_path / "sweep", worth=2.0)
    with pytest.raises(TrainingError, match="learned in another process"):
        sweep_into(tmp_path / "sweep", worth=2.0, resume=True)
    sweep_into(tmp_path / "sweep", resume=True)
    assert (tmp_path / "sweep" / "params.safetensors").read_bytes() == before


def test_a_reproduction_of_another_seed_is_refused(tmp_path: Path) -> None:
    reproduce_into(tmp_path / "r")
    reproduce_into(tmp_path / "r")
    with pytest.raises(InputError, match="was prepared with .*'seed': 1.*choose another folder"):
        _claim(tmp_path / "r", {"preset": "small", "seed": 2, "programme": "ours"})


def test_a_training_and_a_reproduction_have_one_writer(tmp_path: Path) -> None:
    with one_writer(tmp_path / "out"):
        with pytest.raises(BusyError):
            train_into(tmp_path / "out")
        with pytest.raises(BusyError):
            run_stages(
                ReproduceConfig(), folder=tmp_path / "out", cities=tmp_path, runs=tmp_path,
                progress=lambda *_: None,
            )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_our_own_is_gone_on_with(tmp_path: Path) -> None:
    assert not holds_own(tmp_path / "new", FILES, "a training")
    (tmp_path / "policy-0000").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert holds_own(tmp_path, FILES, "a training")


SPILL = """
import os, signal, sys
from parity311.storage.folders import scratch_folder
(scratch_folder() / "spill").mkdir()
print(scratch_folder(), flush=True)
if sys.argv[1] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_process_spills_into_its_own_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    first = in_another_process(SPILL, "ends").stdout.strip()
    assert Path(first).parent == tmp_path
    assert not Path(first).exists()
    killed = in_another_process(SPILL, "dies").stdout.strip()
    assert (Path(killed) / "spill").is_dir()
    assert in_another_process(SPILL, "ends").stdout.strip() not in (first, killed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_what_a_dead_writer_left_is_found_before_its_parent_asks_for_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as writer:
        left = tmp_path / f".one.partial-{host_name()}-{writer.pid}-0123abcd"
        left.mkdir()
        assert dead_asides(tmp_path) == []
        writer.kill()
        os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)
        assert dead_asides(tmp_path) == [left]
