"""Fixtures shared by every room of the suite."""

from __future__ import annotations

import os
import shutil
import tempfile

# Most of the suite's time is compiling programs that run once: without optimizations, and with the
# older emitters of fused loops, that takes a quarter of it. Programs that run for long are worth
# optimizing: see `optimized`. All of it has to be said before the first import of jax.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"
)
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Matrices here are small: threads of the linear algebra only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Workers, and the processes that tests start, share what any of them has compiled, in a folder that
# is the run's own: whoever names it removes it.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", f"{tempfile.gettempdir()}/parity311-compiled-{os.getpid()}"
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Processes that tests start find each other's bytecode, whatever this one was told.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pytest
import typer.main

from parity311.records.schema import TABLES
from parity311.records.store import write_manifest, write_table, writing_records

# Typer makes its commands anew at every call, a tenth of a second; hundreds of tests call one.
typer.main.get_command = cache(typer.main.get_command)

# No test takes the power away: what was written is read by the same system, on disk or not yet. A
# test of what the disk refuses puts its own in this place, and killed processes wait for the disk.
os.fsync = lambda descriptor: None
# Looking for cycles among what JAX and its programs hold takes a fifteenth of the suite's time.
gc.freeze()
gc.set_threshold(50_000, 20, 100)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start modules with slow tests first, so that no worker is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_unconfigure() -> None:
    """Remove what the run compiled, where it was this process that named the folder."""
    compiled = os.environ["JAX_COMPILATION_CACHE_DIR"]
    if compiled.endswith(f"/parity311-compiled-{os.getpid()}"):
        shutil.rmtree(compiled, ignore_errors=True)


def slow_but(quick: Iterable[str], given: Iterable[Any]) -> list[Any]:
    """Parameters, all marked slow but the quick ones: those a developer's loop keeps."""
    names = set(quick)
    return [
        one if getattr(one, "slug", one) in names else pytest.param(one, marks=pytest.mark.slow)
        for one in given
    ]


@contextmanager
def optimizing() -> Iterator[None]:
    """Compile with optimizations what is compiled inside: programs that run for long."""
    jax.clear_caches()
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """Compile what a module runs for long with optimizations; ask for it with `usefixtures`."""
    with optimizing():
        yield


MOST_MEMORY = 2 * 10**9
"""Bytes beyond which a worker drops what it has compiled."""


def used_memory() -> float:
    """Bytes this process holds; no end of them where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return float("inf")


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """Drop compiled programs when they take much room: they are most of a worker's memory."""
    yield
    if used_memory() > MOST_MEMORY:
        jax.clear_caches()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real rows; tests that need it are skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("real rows (../shared/data) are not on this machine")
    return SHARED_DATA


def table_of(name: str, rows: list[dict], **free_fields: pa.DataType) -> pa.Table:
    """A canonical table from rows; columns a row does not give are null."""
    fields = [pa.field(column.name, column.type) for column in TABLES[name].columns]
    fields += [pa.field(field, type_) for field, type_ in free_fields.items()]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def tiny_tables() -> dict[str, pa.Table]:
    """Two tracts, two buildings, forty heat complaints five days apart, closed ten days later."""
    start = datetime(2024, 1, 1, 9)
    tracts = [
        {
            "geoid": f"3600500000{i}",
            "borough": "Bronx",
            "community_board": 201,
            "zip": "10451",
            "longitude": -73.9,
            "latitude": 40.8,
            "neighbours": [f"3600500000{3 - i}"],
            "population": 3000,
            "households": 1000,
            "median_income": 40_000.0 * i,
            "income_quintile": i,
            "median_year_built": 1940,
        }
        for i in (1, 2)
    ]
    buildings = [
        {
            "building_id": f"200000000{i}",
            "tract": f"3600500000{i}",
            "units": 20,
            "year_built": 1930,
            "boilers": 1,
            "elevators": 0,
        }
        for i in (1, 2)
    ]
    complaints, outcomes, visits = [], [], []
    rng = np.random.default_rng(0)
    for number in range(40):
        place = 1 + number % 2
        received = start + timedelta(days=5 * number, hours=int(rng.integers(0, 8)))
        found = "violation" if number % 4 == 0 else "no_violation"
        complaints.append(
            {
                "complaint_id": f"c{number:03d}",
                "incident_id": f"i{number:03d}",
                "domain": "heat",
                "category": "HEAT",
                "severity": "B",
                "received_at": received,
                "tract": f"3600500000{place}",
                "building_id": f"200000000{place}",
                "channel": "PHONE",
                "language": "en",
            }
        )
        outcomes.append(
            {
                "complaint_id": f"c{number:03d}",
                "closed_at": received + timedelta(days=10),
                "disposition": "A8" if found == "violation" else "I2",
                "disposition_class": found,
                "first_visit_at": received + timedelta(days=9),
                "n_visits": 1,
            }
        )
        visits.append(
            {
                "visit_id": f"v{number:03d}",
                "complaint_id": f"c{number:03d}",
                "visited_at": received + timedelta(days=9),
                "attempt": 1,
                "result": found,
                "propensity": 0.9,
                "n_waiting": 3,
                "n_slots": 2,
            }
        )
    return {
        "tracts": table_of("tracts", tracts),
        "buildings": table_of("buildings", buildings),
        "complaints": table_of("complaints", complaints),
        "outcomes": table_of("outcomes", outcomes),
        "visits": table_of("visits", visits),
    }


def write_folder(out: Path, tables: dict[str, pa.Table], **manifest: str) -> Path:
    """Write canonical tables as a records folder of the one domain heat."""
    with writing_records(out, "import") as folder:
        for name, data in tables.items():
            write_table(folder, name, data, "heat" if TABLES[name].by_domain else None)
        details = {"date_from": "2024-01-01", "date_to": "2024-08-01", **manifest}
        write_manifest(folder, "import", details)
    return out


@pytest.fixture
def tiny_records(tmp_path: Path) -> Path:
    """A small, valid records folder."""
    return write_folder(tmp_path / "records", tiny_tables())
