"""Every domain's cycle on one small city: the figures of `docs/results/cycle-small.json`.

    python -m docs.cycle_figures FOLDER [--domains heat,snad] [--part 1/2]   run what is not there
    python -m docs.cycle_figures FOLDER --keep                               keep what there is

Records are those of the synthetic city small 7 under strong participation and scarce capacity,
whose gap is real; the truth is not read. Each domain's thresholds are made twice: without weight on
equity (α₃ = 0) and with half of it. Episodes of the trial are as `parity311 cycle` plays them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parity311.city.build import build_city
from parity311.domains import all_domains
from parity311.lifecycle.cycle import run_cycle
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.registry import Registry
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "cycle-small.json"
SEED, RULE = 7, "dual_threshold"
WEIGHTS = (0.5, 0.0)
COLUMNS = ("outcome", "verdict", "version", "reasons", "denominators", "trial")


def run_all(folder: Path, domains: Sequence[str], part: str) -> None:
    """Run each cycle that has no file yet."""
    city = folder / "city"
    if not city.exists():
        processes = [one.process for one in all_domains().values()]
        build_city(processes, "small", SEED, "strong", "scarce", workers=1, out=city)
    number, of = (int(one) for one in part.split("/"))
    tasks = [(slug, weight) for weight in WEIGHTS for slug in domains]
    for slug, weight in tasks[number - 1 :: of]:
        path = folder / f"{slug}-{weight}.json"
        if path.exists():
            continue
        database = str(folder / f"{slug}-{weight}.db")
        found = run_cycle(
            CycleConfig(slug, RULE, equity=weight), city, database=database,
            out=folder / "cycles", by="Study",
        )  # fmt: skip
        verified = Registry(database).verify()
        plain = {name: found.get(name) for name in COLUMNS}
        seconds = {one["step"]: one["seconds"] for one in found["steps"]}
        write_json(
            path,
            {"domain": slug, "equity": weight, **plain, "problems": verified.problems,
             "seconds": seconds},
        )  # fmt: skip
        print(f"{slug}, {weight}: {found['outcome']}", flush=True)


def gather(folder: Path, kept: Path = KEPT) -> dict[str, Any]:
    """All that was run, in the domains' order; what has no file here stays as it was kept."""
    before = json.loads(kept.read_text())["cycles"] if kept.exists() else []
    known = {(row["domain"], row["equity"]): row for row in before}
    for one in folder.glob("*.json"):
        row = json.loads(one.read_text())
        known[row["domain"], row["equity"]] = row
    order = [(slug, weight) for slug in all_domains() for weight in WEIGHTS]
    rows = [known[one] for one in order if one in known]
    return {"city": f"small {SEED}, strong, scarce", "agent": RULE, "cycles": rows}


def cycle_block(kept: Path = KEPT) -> str:
    """How each cycle ended, and why."""
    if not kept.exists():
        return "Not run yet: `python -m docs.cycle_figures FOLDER`, then `--keep`."
    rows = json.loads(kept.read_text())["cycles"]
    n_all = len(WEIGHTS) * len(all_domains())
    lines = ["| domain | weight on equity | ended | why |", "| --- | ---: | --- | --- |"]
    if len(rows) < n_all:
        lines = [f"Kept so far: {len(rows)} of {n_all} cycles.", "", *lines]
    for row in rows:
        why = "; ".join(row["reasons"]).replace("|", "/")
        lines.append(f"| {row['domain']} | {row['equity']:g} | {row['outcome']} | {why} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Run, or keep what was run."""
    folder, *rest = arguments
    if "--keep" in rest:
        write_json(KEPT, gather(Path(folder)))
        return
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    domains = given["--domains"].split(",") if "--domains" in given else list(all_domains())
    run_all(Path(folder), domains, given.get("--part", "1/1"))


if __name__ == "__main__":
    main(sys.argv[1:])
