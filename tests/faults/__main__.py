"""Interrupt everything that writes, many times, and count what comes of it.

    python -m tests.faults --points 50                       every work, every kind of fault
    python -m tests.faults --points 50 --works city,train --kinds kill,pair

`make test` keeps a handful of points (`test_faults.py`). Works: city, city over city, shared city,
import, fetch (from a portal that stalls, refuses, cuts and changes), run, audit, documents, train,
cycle; and broken twins that the tries must catch. Kinds: kill (kill -9 at operations and at random
moments, then done again), disk (full or read-only from some operation on, or files that may not
grow), pair (two processes on one output).
Prints one JSON object a line; the exit code is 1 where something was lost, mixed or untold.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa

from parity311.domains import get_domain
from tests.faults.children import run_child
from tests.faults.server import bad_portal
from tests.faults.tries import KINDS, Bench, Found
from tests.faults.works import TWINS, WORKS, Work


def main() -> int:
    """Try what was asked for; 1 where a fault was found."""
    _import_first()
    parser = argparse.ArgumentParser(description="Interrupt everything that writes.")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    n_faults = 0
    for name in given.works.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for found in try_work(
                (WORKS | TWINS)[name], Path(folder), given.kinds, given.points, given.seed
            ):
                n_faults += len(found.faults)
                print(json.dumps(found.to_plain()), flush=True)
    return 1 if n_faults else 0


def _import_first() -> None:
    """Import what every work would: a child that is forked has it, and else imports it anew."""
    get_domain("snad")
    pa.array(np.array(["pandas, where it is installed"], object))


def try_work(work: Work, folder: Path, kinds: str, points: int, seed: int) -> Iterator[Found]:
    """Every kind of fault asked for, on one work."""
    base, tried = folder / "base", folder / "tried"
    base.mkdir()
    tried.mkdir()
    ended = run_child(lambda: work.prepare(base), base)
    assert ended.code == 0, ended.words
    with bad_portal(base / "address") if work.name == "fetch" else nullcontext():
        bench = Bench(work, base, tried, random.Random(seed))
        for kind in kinds.split(","):
            yield KINDS[kind](bench, points)


if __name__ == "__main__":
    sys.exit(main())
