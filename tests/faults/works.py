"""The works that are interrupted: each writes one output, and can be done again after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from parity311.audit.spec import AuditSpec
from parity311.city.build import build_city
from parity311.city.ensure import open_or_build
from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.feeds import soda
from parity311.feeds.fetch import fetch_nyc
from parity311.feeds.importing import ImportOptions, import_records
from parity311.pipelines.audit import audit_run
from parity311.pipelines.documents import write_documents
from parity311.records.store import open_records
from parity311.report.folder import list_runs, open_run
from parity311.serving.policy import load_policy
from parity311.storage.hashes import hash_file
from parity311.training import checkpoint, train_run
from tests.contract.broken.twins import make_domain
from tests.faults.server import STALL_SECONDS
from tests.unit.explain.stored_run import make_run
from tests.unit.feeds.cities import sr311_row, write_csv, write_tracts
from tests.unit.feeds.test_fetch import client, nyc, options

OUT = "out"


@dataclass(frozen=True)
class Work:
    """One work on ``folder / OUT``; what it needs lies in ``base``, which is only read."""

    name: str
    do: Callable[[Path, Path], object]
    """do(base, folder): from nothing, or going on where a killed one stopped"""
    digest: Callable[[Path], str]
    """of what is whole in a folder; a Parity311Error where there is nothing whole"""
    prepare: Callable[[Path], object] = lambda base: None
    """writes what the work needs into base, once"""
    before: Callable[[Path, Path], object] = lambda base, folder: None
    """what lies in the folder before the work starts"""
    is_once: bool = True
    """whether a second one on a finished output is refused, not done again"""


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


# A synthetic city


def _build(folder: Path, *, seed: int = 3, overwrite: bool = False) -> None:
    build_city(
        [get_domain("snad").process],
        seed=seed,
        date_from=date(2025, 1, 1),
        date_to=date(2025, 3, 1),
        out=folder / OUT,
        overwrite=overwrite,
    )


def _records_digest(folder: Path) -> str:
    records = open_records(folder / OUT)
    records.validate()
    assert records.sql("SELECT count(*) AS n FROM complaints")["n"][0].as_py() >= 0
    return records.fingerprint[:16]


# Real records


def _write_exports(base: Path) -> None:
    write_csv(base / "rows.csv", [sr311_row(k) for k in range(60)])
    write_tracts(base)


def _import(base: Path, folder: Path, *, overwrite: bool = False) -> None:
    exports = sorted(path for path in base.iterdir() if path.suffix in (".csv", ".geojson"))
    import_records(exports, folder / OUT, ImportOptions(overwrite=overwrite))


def _fetch(base: Path, folder: Path) -> None:
    soda.TIMEOUT_SECONDS = STALL_SECONDS / 2
    server = nyc()
    server.address = (base / "address").read_text()
    fetch_nyc(options(server), folder / OUT, client=client(server))


def _fetched_digest(folder: Path) -> str:
    index = folder / OUT / "fetched.json"
    if not index.is_file():
        raise Parity311Error("not fetched")
    entries = json.loads(index.read_text())["datasets"]
    files = {name: entry["sha256"] for one in entries for name, entry in one["files"].items()}
    found = {name: hash_file(folder / OUT / name) for name in files}
    assert found == files
    return _hash(files)


# Runs


def _runs_digest(folder: Path) -> str:
    """What all the whole runs of a folder hold: they must be the same."""
    found = set()
    for name in list_runs(folder / OUT):
        run = open_run(name, folder / OUT)
        files = {
            name: entry["sha256"]
            for name, entry in run.info["files"].items()
            if name not in ("metrics.json", "report.json") and not name.endswith(".svg")
        }
        found.add(_hash(files))
    if not found:
        raise Parity311Error("no run")
    assert len(found) == 1, found
    return found.pop()


def _source(base: Path):
    return open_run(list_runs(base / "runs")[0], base / "runs")


# Learning


def _train(base: Path, folder: Path) -> None:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(base / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    import jax

    jax.config.update("jax_compilation_cache_dir", str(base / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    checkpoint.Checkpoints.__init__.__defaults__ = (0.0, False)  # after every block
    train_run.run_training(
        make_domain(),
        "dqn",
        out=folder / OUT,
        preference=(0.5, 0.0, 0.5, 0.0),
        seeds=(0, 1),
        steps=120,
        resume=(folder / OUT / "checkpoint").exists(),
        settings={"hidden": (8,), "target_every": 20, "buffer_size": 100, "epsilon_steps": 40},
    )


def _trained_digest(folder: Path) -> str:
    summary = folder / OUT / "training.json"
    if not summary.is_file():
        raise Parity311Error("not trained")
    names = json.loads(summary.read_text())["policies"]
    weights = [load_policy(folder / OUT / name).weights for name in names]
    arrays = [
        hashlib.sha256(one[name].tobytes()).hexdigest() for one in weights for name in sorted(one)
    ]
    curve = json.loads((folder / OUT / "curve.json").read_text())
    return _hash([names, arrays, [entry["reward"] for entry in curve]])


# A retraining cycle


def cycle_base(base: Path) -> None:
    """Half a year of snad to run cycles on."""
    build_city(
        [get_domain("snad").process], "small", 5, "strong", "scarce", workers=1,
        date_from=date(2024, 1, 1), date_to=date(2024, 7, 1), out=base / "city",
    )  # fmt: skip


def _cycle(base: Path, folder: Path) -> None:
    run_small_cycle(base, folder, str(folder / OUT / "policies.db"))


def run_small_cycle(base: Path, folder: Path, database: str) -> None:
    """A short cycle of snad on the base's city, by a registry at this address."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(base / "compiled")
    import jax

    from parity311.evaluation import frontier
    from parity311.lifecycle import trial
    from parity311.lifecycle.cycle import run_cycle
    from parity311.lifecycle.cycle_config import CycleConfig

    jax.config.update("jax_compilation_cache_dir", str(base / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    trial.EPISODES, frontier.SETTLING_GAINS = 8, (1.0,)
    (folder / OUT).mkdir(exist_ok=True)
    run_cycle(
        CycleConfig("snad", "dual_threshold", spec=AuditSpec(n_draws=100)),
        base / "city",
        database=database,
        out=folder / OUT / "cycles",
        by="A. Okafor",
    )


def _cycle_digest(folder: Path) -> str:
    """What was decided, and that the registry has it once and verifies."""
    from parity311.lifecycle.registry import Registry

    decided = sorted((folder / OUT).glob("cycles/snad/decision-*/step.json"))
    if not decided:
        raise Parity311Error("not decided")
    result = json.loads(decided[0].read_text())["result"]
    registry = Registry(folder / OUT / "policies.db")
    assert registry.verify().problems == ()
    versions = [one.version for one in registry.policies()]
    assert versions == ([result["version"]] if result["version"] else []), versions
    return _hash([len(decided), result["outcome"], result["verdict"], result["reasons"], versions])


WORKS = {
    work.name: work
    for work in (
        Work("city", lambda base, folder: _build(folder), _records_digest),
        Work(
            "city over city",
            lambda base, folder: _build(folder, overwrite=True),
            _records_digest,
            before=lambda base, folder: _build(folder, seed=4),
            is_once=False,
        ),
        Work(
            "shared city",
            lambda base, folder: open_or_build(
                folder / OUT,
                [get_domain("snad").process],
                preset="small",
                seed=3,
                participation="measured",
                capacity="calibrated",
                date_from=date(2025, 1, 1),
                date_to=date(2025, 3, 1),
            ),
            _records_digest,
            is_once=False,
        ),
        Work("import", _import, _records_digest, _write_exports),
        Work("fetch", _fetch, _fetched_digest, is_once=False),
        Work("run", lambda base, folder: make_run(folder / OUT), _runs_digest, is_once=False),
        Work(
            "audit",
            lambda base, folder: audit_run(
                _source(base), AuditSpec(n_draws=100), root=folder / OUT
            ),
            _runs_digest,
            lambda base: make_run(base / "runs"),
            is_once=False,
        ),
        Work(
            "documents",
            lambda base, folder: write_documents(
                _source(base), root=folder / OUT, human={}, spec=AuditSpec(n_draws=100)
            ),
            _runs_digest,
            lambda base: make_run(base / "runs"),
            is_once=False,
        ),
        Work("train", _train, _trained_digest, is_once=False),
        Work("cycle", _cycle, _cycle_digest, cycle_base, is_once=False),
    )
}


# Works that the tries must catch


def _write_in_place(folder: Path, *, slow: bool = False) -> None:
    """Two files that belong together, straight into the output, as if nothing could go wrong."""
    try:
        (folder / OUT).mkdir()
        step = 1
    except FileExistsError:
        step = -1 if slow else 1  # who comes second writes in the opposite order
    token = os.urandom(4).hex() if slow else "same"
    for name in ("first", "second")[::step]:
        (folder / OUT / name).write_text(token)
        time.sleep(0.05 if slow else 0.0)


def _in_place_digest(folder: Path) -> str:
    """Takes whatever lies there for whole."""
    if not (folder / OUT / "first").exists():
        raise Parity311Error("nothing")
    second = folder / OUT / "second"
    return _hash([(folder / OUT / "first").read_text(), second.exists() and second.read_text()])


def _is_mixed_digest(folder: Path) -> str:
    texts = {(folder / OUT / name).read_text() for name in ("first", "second")}
    return _hash(len(texts))


def _crash_on_full_disk(base: Path, folder: Path) -> None:
    try:
        (folder / OUT).mkdir()
        (folder / OUT / "first").write_text("one")
    except OSError as error:
        raise ValueError("something went wrong") from error


TWINS = {
    work.name: work
    for work in (
        Work("in place", lambda base, folder: _write_in_place(folder), _in_place_digest),
        Work(
            "unlocked",
            lambda base, folder: _write_in_place(folder, slow=True),
            _is_mixed_digest,
            is_once=False,
        ),
        Work("untold", _crash_on_full_disk, _in_place_digest),
    )
}
"""One that leaves halves behind, one that mixes two writers, one that ends in a traceback."""
