"""A run is whole or absent: whatever interrupts its writing."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parity311.errors import RunError
from parity311.report import store
from parity311.report.folder import CONFIG_VERSION
from parity311.report.pictures import Axis, Estimate, Series, interval_plot
from parity311.report.store import RunWriter, list_runs, open_run, start_run

CONFIG = {"preset": "small", "seed": 7}


def draw_picture(width: float = 720) -> str:
    series = [Series("", [Estimate("a", 0.5, 0.4, 0.6)])]
    return interval_plot(series, title="T", axis=Axis("x"), width=width)


def fill(run: Any) -> None:
    run.set_seeds(city=7, training=(0, 1))
    run.add_metrics({"boiler": {"dqn": {"recall": np.float32(0.5)}}})
    run.add_table("policies", [{"policy": "dqn", "recall": 0.5}, {"policy": "rule"}])
    run.add_picture("recall", draw_picture())


def test_complete_run_holds_everything(tmp_path: Path) -> None:
    with start_run(tmp_path, "parity311 run", CONFIG) as run:
        run.add_data("city", "f" * 64, is_synthetic=True, statement="A small city.")
        with run.stage("train"):
            fill(run)
        run.add_metrics({"boiler": {"rule": {"recall": float("nan")}}})
        assert list_runs(tmp_path) == ()
    opened = open_run(run.id, tmp_path)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", opened.id)
    assert opened.config == CONFIG
    assert opened.metrics == {"boiler": {"dqn": {"recall": 0.5}, "rule": {"recall": None}}}
    assert opened.table("policies").to_pylist()[1] == {"policy": "rule", "recall": None}
    assert (opened.path / "tables/policies.csv").read_text() == (
        '"policy","recall"\n"dqn",0.5\n"rule",\n'
    )
    assert opened.picture_names == ("recall",)
    assert opened.info["seeds"] == {"city": 7, "training": [0, 1]}
    assert opened.info["stages"][0]["name"] == "train"
    assert {"parity311", "python", "numpy", "jax"} <= set(opened.info["versions"])
    assert opened.info["data"][0]["fingerprint"] == "f" * 64
    assert [p.name for p in tmp_path.iterdir()] == [run.id]


@pytest.mark.parametrize("given_as", ["id", "path", "beginning", "latest"])
def test_run_is_found(tmp_path: Path, given_as: str) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        fill(run)
    names = {
        "id": run.id,
        "path": str(tmp_path / run.id),
        "beginning": run.id[:-2],
        "latest": "latest",
    }
    assert open_run(names[given_as], tmp_path).id == run.id


# What interrupts a writer, and the check that nothing half-valid is left.


@dataclass
class InPlaceWriter:
    """The broken twin: writes straight into the final folder, as if nothing could go wrong."""

    path: Path
    id: str = "20260101-000000-abcdef"

    def set_seeds(self, **seeds: Any) -> None:
        (self.path / "run.json").write_text(
            json.dumps({"id": self.id, "config_version": CONFIG_VERSION, "files": {}})
        )

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        (self.path / "metrics.json").write_text("{}")

    def add_table(self, name: str, table: Any) -> None: ...

    def add_picture(self, name: str, svg: str) -> None: ...


@contextmanager
def start_in_place(root: Path, command: str, config: Any) -> Iterator[InPlaceWriter]:
    writer = InPlaceWriter(root / InPlaceWriter.id)
    writer.path.mkdir()
    yield writer


Starter = Callable[[Path, str, Any], AbstractContextManager[Any]]


def leaves_only_whole_runs(start: Starter, root: Path, error: BaseException) -> bool:
    """Interrupt a writer before its end; True if no run is then visible."""

    def write() -> None:
        with start(root, "c", CONFIG) as run:
            fill(run)
            raise error

    with pytest.raises(type(error)):
        write()
    return list_runs(root) == () and not any(p.name[0] != "." for p in root.iterdir())


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(1)])
def test_interrupted_run_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    assert leaves_only_whole_runs(start_run, tmp_path, error)
    assert list(tmp_path.iterdir()) == []


def test_check_rejects_a_writer_that_writes_in_place(tmp_path: Path) -> None:
    assert not leaves_only_whole_runs(start_in_place, tmp_path, ValueError("broken"))


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {repo!r})
from parity311.report.store import start_run
from tests.unit.report.test_run_store import CONFIG, fill, start_in_place
with {starter}(Path({root!r}), "c", CONFIG) as run:
    fill(run)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_writer(root: Path, starter: str) -> None:
    repo = str(Path(__file__).resolve().parents[3])
    code = KILLED.format(repo=repo, root=str(root), starter=starter)
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
    assert result.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_killed_run_is_removed_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kill_writer(tmp_path, "start_run")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".partial-")
    assert list_runs(tmp_path) == ()
    with pytest.raises(RunError, match="half-written"):
        open_run(left, tmp_path)
    with caplog.at_level(logging.WARNING), start_run(tmp_path, "c", CONFIG) as run:
        fill(run)
    assert run.removed == (left.name.removeprefix(".partial-"),)
    assert "Removed 1 interrupted run(s)" in caplog.text
    assert list_runs(tmp_path) == (run.id,)
    assert not left.exists()


def test_killed_writer_in_place_would_leave_a_run(tmp_path: Path) -> None:
    kill_writer(tmp_path, "start_in_place")
    assert list_runs(tmp_path) == (InPlaceWriter.id,)


def test_a_run_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", CONFIG) as first:
        fill(first)
        with start_run(tmp_path, "c", CONFIG) as second:
            fill(second)
        assert second.removed == ()
    assert sorted(list_runs(tmp_path)) == sorted((first.id, second.id))
    assert len({first.id, second.id}) == 2


def test_the_latest_of_several_in_one_second_is_the_last(tmp_path: Path) -> None:
    made = []
    for _ in range(6):
        with start_run(tmp_path, "c", CONFIG) as run:
            fill(run)
        made.append(run.id)
    assert list_runs(tmp_path) == tuple(made)
    assert open_run("latest", tmp_path).id == made[-1]


# A disk that fills up: /dev/full refuses every write as a full disk does.

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the system has no /dev/full"
)


def fill_table(run: RunWriter) -> None:
    (run.path / "tables/big.parquet").symlink_to("/dev/full")
    run.add_table("big", {"x": np.arange(1000)})


def fill_picture(run: RunWriter) -> None:
    (run.path / "pictures/big.svg").symlink_to("/dev/full")
    run.add_picture("big", draw_picture())


def fill_metrics(run: RunWriter) -> None:
    (run.path / "metrics.json").symlink_to("/dev/full")


def fill_elsewhere(run: RunWriter) -> None:
    with Path("/dev/full").open("wb") as file:
        file.write(b"something of the caller")


@needs_dev_full
@pytest.mark.parametrize("step", [fill_table, fill_picture, fill_metrics, fill_elsewhere])
def test_full_disk_is_one_clear_error(tmp_path: Path, step: Callable[[RunWriter], None]) -> None:
    def write() -> None:
        with start_run(tmp_path, "c", CONFIG) as run:
            fill(run)
            step(run)

    with pytest.raises(RunError) as caught:
        write()
    assert "The disk is full" in str(caught.value)
    assert f"{tmp_path}/.partial-" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Cannot write"):
        start_run(tmp_path / "file", "c", CONFIG)


# Opening


def write_run(root: Path) -> Path:
    with start_run(root, "c", CONFIG) as run:
        fill(run)
    return root / run.id


def test_unknown_run_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no complete run"):
        open_run("20260101-000000-abcdef", tmp_path)
    path = write_run(tmp_path)
    with pytest.raises(RunError, match=f"does not exist; nearest in .*: {path.name}"):
        open_run(path.name[:-1] + "z", tmp_path)


def test_beginning_of_several_ids_is_not_enough(tmp_path: Path) -> None:
    write_run(tmp_path)
    write_run(tmp_path)
    with pytest.raises(RunError, match="beginning of several"):
        open_run("20", tmp_path)


def test_damaged_run_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    (path / "tables/policies.csv").write_text("half")
    with pytest.raises(RunError, match=r"incomplete: tables/policies\.csv"):
        open_run(path)
    (path / "run.json").unlink()
    with pytest.raises(RunError, match="half-written"):
        open_run(path)


def test_changed_content_is_found(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path))
    assert run.changed_files() == ()
    table = run.path / "tables/policies.csv"
    table.write_text(table.read_text().replace("0.5", "0.9"))
    assert run.changed_files() == ("tables/policies.csv",)
    with pytest.raises(RunError, match=r"tables/policies\.csv missing or changed since"):
        open_run(run.id, tmp_path)


def test_a_changed_letter_of_run_json_is_found(tmp_path: Path) -> None:
    path = write_run(tmp_path) / "run.json"
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(RunError, match=r"run\.json was changed since the run was made"):
        open_run(path.parent)


def test_a_folder_that_only_looks_like_an_interrupted_run_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / ".partial-backup"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    (tmp_path / ".partial-20260101-000000-abcdef").symlink_to(mine)
    with start_run(tmp_path, "c", CONFIG) as run:
        fill(run)
    assert run.removed == ()
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_other_config_version_is_refused(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", {**CONFIG, "config_version": 99}) as run:
        fill(run)
    with pytest.raises(RunError, match="config_version 99, parity311 .* reads 1"):
        open_run(run.id, tmp_path)


def test_unknown_parts_are_named(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path))
    with pytest.raises(RunError, match="has no table 'nothing'; it has policies"):
        run.table("nothing")
    with pytest.raises(RunError, match="has no picture 'nothing'; it has recall"):
        run.picture("nothing")


# Parts


@pytest.mark.parametrize("name", ["", "Has Space", "../up", "a/b", "x-narrow", "-x"])
def test_names_of_parts_are_checked(tmp_path: Path, name: str) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        with pytest.raises(RunError, match="Rename it"):
            run.add_table(name, {"x": [1]})
        with pytest.raises(RunError, match="Rename it"):
            run.add_picture(name, draw_picture())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        fill(run)
        with pytest.raises(RunError, match="already holds a table"):
            run.add_table("policies", {"x": [1]})
        with pytest.raises(RunError, match=r"metrics\.boiler\.dqn\.recall was given twice"):
            run.add_metrics({"boiler": {"dqn": {"recall": 1.0}}})


def test_pictures_must_be_svg(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        for broken in ("<svg", "<html/>", '<svg xmlns="http://www.w3.org/2000/svg"/>'):
            with pytest.raises(RunError, match="SVG"):
                run.add_picture("broken", broken)


def test_tables_from_columns_rows_and_arrow(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        run.add_table("columns", {"x": np.array([1.0, np.nan]), "y": ["a", None]})
        run.add_table("arrow", pa.table({"x": [float("nan")], "neighbours": [["a", "b"]]}))
        run.add_table("empty", [])
        with pytest.raises(RunError, match="Cannot store table 'ragged'"):
            run.add_table("ragged", {"x": [1, 2], "y": [1]})
    opened = open_run(run.id, tmp_path)
    assert opened.table("columns").column("x").null_count == 1
    assert (opened.path / "tables/arrow.csv").read_text().splitlines()[1] == ',"[""a"", ""b""]"'
    assert opened.table("empty").num_rows == 0


def test_draw_stores_a_wide_and_a_narrow_version(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", CONFIG) as run:
        run.draw("recall", draw_picture)
    opened = open_run(run.id, tmp_path)
    assert opened.picture_names == ("recall",)
    assert 'viewBox="0 0 320 ' in (opened.picture("recall", is_narrow=True) or "")


def test_config_may_be_a_dataclass_and_changes_the_id(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class RunConfig:
        seed: int

    with (
        start_run(tmp_path, "c", RunConfig(1)) as one,
        start_run(tmp_path, "c", RunConfig(2)) as two,
    ):
        pass
    assert one.id[-6:] != two.id[-6:]
    assert open_run(one.id, tmp_path).config == {"seed": 1}


def test_public_names() -> None:
    assert set(store.__all__) == {"Run", "RunWriter", "list_runs", "open_run", "start_run"}
    assert os.access(Path(store.__file__).parent / "templates/report.html.j2", os.R_OK)
