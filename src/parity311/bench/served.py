"""What serving a policy takes, measured in a process that never loads JAX.

Run by `parity311 bench recommend`, one process a policy and question:

    python -m parity311.bench.served single POLICY RECORDS 1000
    python -m parity311.bench.served queue POLICY RECORDS 100000 [FILE.npz]

A city has a few hundred open cases of a domain. For a long queue they are repeated: each copy has
an id of its own, the place (tract, stratum, building, units) of some other case of the journal, and
came in later than its model by a share drawn at random. Copies have one report in the log and no
visit.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from parity311.records.journal import Journal, moment_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import SEVERITIES
from parity311.records.store import open_records
from parity311.serving.policy import LoadedPolicy, load_policy
from parity311.serving.recommend import OpenQueue, open_cases, usual_capacity

N_WARM = 50
"""Answers before the clock starts."""
PLACE = ("tract", "stratum", "borough", "board", "zip", "building", "units")
"""Fields of a case that say where it is, taken together from one case."""


def read_last_day(policy: LoadedPolicy, folder: Path) -> Journal:
    """The journal of the policy's domain at the end of the records."""
    records = open_records(folder)
    moment = datetime.combine(records.window[1], datetime.min.time())
    return read_journal(records, policy.domain.slug, moment)


def draw_complaints(journal: Journal, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """New complaints as plain data, n different ones: what past cases said, coming in today."""
    rng = np.random.default_rng(seed)
    found = []
    for number, row in enumerate(rng.permutation(np.arange(max(n, journal.n)) % journal.n)[:n]):
        building = journal.building[row]
        found.append(
            {
                "complaint_id": f"new-{number:06d}",
                "category": journal.categories[journal.category[row]],
                "severity": SEVERITIES[journal.code[row]],
                "tract": str(journal.tracts[journal.tract[row]]),
                "building_id": str(journal.building_ids[building]) if building >= 0 else None,
                "units": float(journal.units[row]),
                "received_at": moment_of(journal.as_of - rng.random()).isoformat(),
                **{name: bool(values[row]) for name, values in journal.flags.items()},
            }
        )
    return found


def enlarge(journal: Journal, n_open: int, seed: int = 0) -> Journal:
    """The same journal with so many open cases, if it has fewer; see above how they are made."""
    rng = np.random.default_rng(seed)
    waiting = journal.open_rows
    n_new = max(n_open - len(waiting), 0)
    model = waiting[np.arange(n_new) % len(waiting)]
    place = rng.integers(0, journal.n, n_new)
    later = (journal.as_of - journal.began[model]) * rng.random(n_new)
    began = np.append(journal.began, journal.began[model] + later)
    order = np.argsort(began, kind="stable")
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))

    def lengthen(name: str, values: np.ndarray) -> np.ndarray:
        added = values[place if name in PLACE else model]
        if name in ("last_report", "last_visit"):
            added = np.minimum(added + later, journal.as_of)
        if name == "complaint_id":
            added = np.array([f"{one}-{i:06d}" for i, one in enumerate(added)], object)
        return np.append(values, added)[order]

    by_case = [
        field.name
        for field in fields(Journal)
        if len(np.shape(getattr(journal, field.name))) == 1
        and field.name not in ("building_ids", "tracts", "categories")
        and not field.name.startswith(("report_", "visit_"))
    ]
    heard = np.append(journal.report_at, began[journal.n :])
    whose = np.append(journal.report_case, np.arange(journal.n, len(began)))
    in_time = np.argsort(heard, kind="stable")
    return replace(
        journal,
        **{name: lengthen(name, getattr(journal, name)) for name in by_case if name != "began"},
        began=began[order],
        report_at=heard[in_time],
        report_case=at[whose[in_time]],
        visit_case=np.where(journal.visit_case >= 0, at[journal.visit_case], journal.visit_case),
        flags={name: lengthen(name, values) for name, values in journal.flags.items()},
        further={name: lengthen(name, values) for name, values in journal.further.items()},
    )


def time_single(policy: LoadedPolicy, journal: Journal, n: int) -> dict[str, Any]:
    """Milliseconds for one new complaint, read, decided and explained, beside the queue."""
    queue = OpenQueue(policy, journal, open_cases(policy, journal), usual_capacity(journal))
    given = draw_complaints(journal, N_WARM + n)
    taken = np.zeros((N_WARM + n, 2))
    for row, complaint in zip(taken, given, strict=True):
        begun, worked = time.perf_counter(), time.process_time()
        queue.answer(complaint).rows()
        row[:] = time.perf_counter() - begun, time.process_time() - worked
    wall, cpu = 1e3 * taken[N_WARM:].T
    return {
        "complaints": n,
        "open_cases": queue.cases.n,
        "median_ms": float(np.median(wall)),
        "p99_ms": float(np.quantile(wall, 0.99)),
        "p99_cpu_ms": float(np.quantile(cpu, 0.99)),
    }


def time_queue(
    policy: LoadedPolicy, journal: Journal, n: int, keep: Path | None = None
) -> dict[str, Any]:
    """Seconds for n open cases, with reasons and rows for all; what was seen is kept in a file.

    `decide_seconds` is for the decisions alone, from observations that are there already.
    """
    large = enlarge(journal, n)
    before = _peak_gb()
    begun, worked = time.perf_counter(), time.process_time()
    found = policy.recommend(large)
    decided = time.perf_counter() - begun
    rows = found.rows()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - worked
    peak = _peak_gb()
    seen = found.choice.observation
    begun = time.perf_counter()
    action = policy.decide(seen)
    decide_seconds = time.perf_counter() - begun
    if keep is not None:
        kept: dict[str, Any] = {"seen": seen, "action": action, **policy.weights}
        np.savez(keep, **kept)
    return {
        "cases": len(rows),
        "seconds": seconds,
        "recommend_seconds": decided,
        "rows_seconds": seconds - decided,
        "cpu_seconds": cpu,
        "decide_seconds": decide_seconds,
        "peak_gb": peak,
        "peak_gb_before": before,
        "fallback_share": sum(bool(row["fallback"]) for row in rows) / len(rows),
    }


def _peak_gb() -> float | None:
    """Most memory this process has held, in GB; None where the system does not tell.

    `getrusage` would tell the parent's, which a process inherits through fork and exec.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    said = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(said["VmHWM"].split()[0]) * 1024 / 1e9


def main(arguments: list[str]) -> None:
    """Measure what is asked for and print it as JSON."""
    question, folder, records, n, *keep = arguments
    policy = load_policy(folder)
    journal = read_last_day(policy, Path(records))
    if question == "single":
        found = time_single(policy, journal, int(n))
    else:
        found = time_queue(policy, journal, int(n), Path(keep[0]) if keep else None)
    print(json.dumps({**found, "has_jax": "jax" in sys.modules}))


if __name__ == "__main__":
    main(sys.argv[1:])
