"""Train and score what was prepared by `parity311 bench quality --prepare`, on a bare machine.

    python3 benchmarks/quality_sweep.py --folder FOLDER [--workers 16] [--settings snad crane ...]

Needs jax, numpy and safetensors only, and runs from a copy of the source tree. Every part is kept
under FOLDER/parts as soon as it is measured; the same command goes on where it stopped. The report
is made from that folder by `parity311 bench quality --folder FOLDER`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
# One thread a process, on the processor: the networks are too small to share, or for a GPU.
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from parity311.studies.quality.jobs import missing_parts, read_recipes, run_parts
from parity311.studies.quality.settings import SETTINGS


def main() -> None:
    """Measure what is missing, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--cities", nargs="*", type=int, help="seeds; all if none")
    parser.add_argument("--recipes", type=Path, help="JSON: other recipes, by setting")
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop-after-s", type=float, default=float("inf"))
    given = parser.parse_args()
    # What one process compiles the others read; spawned processes take the variable over.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(given.folder / "compiled"))
    recipes = read_recipes(given.recipes) if given.recipes else None
    parts = missing_parts(given.folder, given.settings, recipes)
    parts = [part for part in parts if not given.cities or part.city_seed in given.cities]
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    tell(f"{len(parts)} parts")
    left = run_parts(
        given.folder, parts, given.agents, n_workers=given.workers, tell=tell,
        stop_after_s=given.stop_after_s,
    )  # fmt: skip
    tell(f"{left} parts left")


if __name__ == "__main__":
    main()
