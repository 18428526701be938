"""Damaged files are found, in one line, wherever they are read; what is accepted is unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.agents.package import MANIFEST, WEIGHTS
from parity311.errors import InputError, RecordsError, RunError, TrainingError
from parity311.feeds.fetch import fetch_nyc
from parity311.feeds.inputs import collect_inputs
from parity311.records.store import open_records
from parity311.report.folder import open_run
from parity311.report.store import start_run
from parity311.serving.policy import load_policy
from parity311.storage.aside import write_text_aside
from parity311.storage.hashes import read_hashed, seal, write_hashed
from parity311.storage.tensors import read_tensors, write_tensors
from parity311.training.checkpoint import Checkpoints, read_checkpoint, write_checkpoint
from tests.conftest import tiny_tables, write_folder
from tests.faults.damage import damage_all
from tests.unit.feeds.soda_server import serving
from tests.unit.feeds.test_fetch import client, nyc, options
from tests.unit.report.test_run_store import CONFIG, fill

pytestmark = pytest.mark.slow


N = 24
"""Damages of each file."""


def make_records(folder: Path) -> Callable[[], Any]:
    write_folder(folder, tiny_tables())

    def read() -> Any:
        records = open_records(folder)
        records.validate()
        counts = records.sql("SELECT count(*), sum(n_visits) FROM complaints JOIN outcomes USING "
                             "(complaint_id)").to_pylist()  # fmt: skip
        return counts, records.table("tracts").to_pylist(), records.manifest

    return read


def make_run(folder: Path) -> Callable[[], Any]:
    with start_run(folder, "c", CONFIG) as run:
        fill(run)

    def read() -> Any:
        opened = open_run(folder / run.id)
        return opened.info, opened.metrics, opened.table("policies").to_pylist()

    return read


def make_checkpoint(folder: Path) -> Callable[[], Any]:
    kept = Checkpoints(folder, resume=True)
    carry = {"weights": np.arange(40, dtype=np.float32), "count": np.int32(3)}
    curve = [{"steps": 20, "reward": np.ones(2, np.float32)}]
    write_checkpoint(kept, {"domain": "heat"}, carry, curve)

    def read() -> Any:
        found = read_checkpoint(kept, {"domain": "heat"}, carry)
        if found is None:
            raise TrainingError("there is none")
        weights = np.asarray(found.carry["weights"]).tolist()
        return weights, int(found.carry["count"]), found.n_blocks

    return read


def make_policy(folder: Path) -> Callable[[], Any]:
    from parity311.storage.hashes import hash_file

    path = write_tensors(folder / WEIGHTS, {"weight_0": np.arange(12, dtype=np.float32)})
    manifest = {"format_version": 1, "agent": "dqn", "weights_sha256": hash_file(path)}
    write_text_aside(folder / MANIFEST, json.dumps(seal(manifest), indent=1))

    def read() -> Any:
        policy = load_policy(folder)
        own = {name: value for name, value in policy.manifest.items() if name in manifest}
        return policy.weights["weight_0"].tolist(), own

    return read


def make_cache(folder: Path) -> Callable[[], Any]:
    write_hashed(folder / "kept.npz", b"figures " * 40)

    def read() -> Any:
        content = read_hashed(folder / "kept.npz")
        if content is None:
            raise RunError("computed again")
        return content

    return read


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_records, make_run, make_checkpoint, make_policy, make_cache])
def test_damage_is_found_or_harmless(tmp_path: Path, make: Any) -> None:
    read = make(tmp_path / "out")
    files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    outcomes, faults = damage_all(tmp_path, iter(files), read, N)
    assert faults == []
    assert outcomes["found"] > 15 * len(files), outcomes


def test_the_check_sees_a_reader_that_accepts_everything(tmp_path: Path) -> None:
    path = tmp_path / "figures.bin"
    path.write_bytes(bytes(range(200)))
    _, faults = damage_all(tmp_path, iter([path]), path.read_bytes, N)
    assert any("accepted" in fault for fault in faults)
    assert any("FileNotFoundError" in fault for fault in faults)


def test_a_damaged_index_of_a_fetch_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for text in ("{", "[]", '{"datasets": 3}', '{"datasets": [{}]}'):
        (tmp_path / "fetched.json").write_text(text)
        with pytest.raises(RecordsError, match="cannot be read"):
            collect_inputs([tmp_path])


def test_arrays_of_an_older_version_have_no_hash_and_are_read(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"x": np.ones(3)}, tmp_path / "old.safetensors")
    assert read_tensors(tmp_path / "old.safetensors")[0]["x"].tolist() == [1.0, 1.0, 1.0]


def test_a_fetch_that_was_changed_is_neither_imported_nor_gone_on_with(tmp_path: Path) -> None:
    with serving(nyc()) as server:
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        index = tmp_path / "nyc" / "fetched.json"
        index.write_text(index.read_text().replace("2024-01-01", "2023-01-01"))
        with pytest.raises(RecordsError, match="changed since it was written"):
            collect_inputs([tmp_path / "nyc"])
        state = tmp_path / "nyc" / "state.json"
        before = state.read_text()
        state.write_text(before.replace("sr311-00001.csv", "sr311-00009.csv"))
        with pytest.raises(InputError, match="new folder"):
            fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        outside = tmp_path / "thesis.txt"
        outside.write_text("years of work")
        content = json.loads(before)
        content["datasets"]["sr311"]["pages"]["../thesis.txt"] = {"rows": 1, "sha256": "0"}
        state.write_text(json.dumps(seal(content)))
        with pytest.raises(InputError, match="is no page of it"):
            fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
    assert outside.read_text() == "years of work"
