"""An import that is killed leaves nothing half-imported; run again, it gives the same tables."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.feeds.cities import sr311_row, write_csv, write_tracts

from parity311.feeds.importing import ImportOptions, import_records
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


KILLS_ITSELF = """
import os, signal, sys
from pathlib import Path
from parity311.feeds.importing import ImportOptions, import_records

calls = 0
def report(*_):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

*paths, out = map(Path, sys.argv[2:])
import_records(paths, out, ImportOptions(overwrite=True), report)
"""


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    rows = [
        sr311_row(k, complaint_type=kind, created_date=f"2024-02-{1 + k % 28:02d}T08:00:00.000")
        for k in range(200)
        for kind in ("HEAT/HOT WATER", "PLUMBING")
        if (k % 2 == 0) == (kind == "PLUMBING")
    ]
    return [*write_tracts(tmp_path), write_csv(tmp_path / "rows.csv", rows)]


@pytest.mark.slow
def test_killed_at_random_points_and_run_again(tmp_path: Path, inputs: list[Path]) -> None:
    whole = import_records(inputs, tmp_path / "whole")["fingerprint"]
    out = tmp_path / "records"
    for moment in random.Random(5).sample(range(1, 9), 3):
        arguments = [str(moment), *map(str, inputs), str(out)]
        finished = subprocess.run(
            [sys.executable, "-c", KILLS_ITSELF, *arguments], check=False, timeout=120
        )
        assert finished.returncode == -signal.SIGKILL
        assert not out.exists()
    assert import_records(inputs, out)["fingerprint"] == whole
    assert not list(tmp_path.glob(".*.partial"))


@pytest.mark.parametrize("moment", [1, 4, 7])
def test_interrupted_while_replacing_keeps_the_old_folder(
    tmp_path: Path, inputs: list[Path], moment: int
) -> None:
    out = tmp_path / "records"
    before = import_records(inputs, out)["fingerprint"]
    calls = iter(range(1, 100))

    def report(*_: object) -> None:
        if next(calls) == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_records(inputs, out, ImportOptions(overwrite=True, domains=("heat",)), report)
    assert open_records(out).fingerprint == before
    assert not list(tmp_path.glob(".*.partial"))
