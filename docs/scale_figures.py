"""Figures of `explanation/scale.md`: engines, killed nodes, many rows, and all cities on paper.

    python -m docs.scale_figures local ray    run `bench scale` on both, and keep what it prints
    python -m docs.scale_figures rows         ask a hundred million rows, and keep the same

What engines agree on and what killed nodes came to is kept by `tests.unit.jobs.engines_agree` and
`tests.unit.jobs.node_kills`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
COMMANDS = {
    "local": ("bench", "scale", "--workers", "2", "--json"),
    "ray": ("bench", "scale", "--workers", "2", "--engine", "ray", "--json"),
    "rows": (
        "bench", "records", "--rows", "100000000", "--out-of-core", "--memory-gb", "2", "--json",
    ),
}  # fmt: skip
FILES = {"local": "scale-bench-local", "ray": "scale-bench-ray", "rows": "scale-out-of-core"}
N_CITIES, N_REQUESTS, N_DOMAINS = 300, 100_000_000, 12
"""Every 311 system of the United States, roughly, and what it receives in a year."""
CYCLES_A_YEAR = 12
HOURS_A_NIGHT = 8
PRUNED = "exact median hours by tract"
"""A query of the kept run that DuckDB answered without the medians, since only their number was
asked; it is asked for their sum since, and counts when it is run again."""
PRICE = 0.05
"""Dollars a core-hour: an assumption."""
CORES = 16
"""Of a machine."""
HOURS_A_YEAR = 8760
GPU_RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
BATCH, N_OBSERVED, N_ACTIONS, BYTES = 64, 7, 2, 4
PEAK_FLOPS = {"float32": 67e12, "bfloat16": 989e12}
PEAK_BYTES = 4.8e12
"""Of an H200, a second, as its maker states them."""
HOUR = 3600.0
GB = 1e9


def keep(name: str) -> None:
    """Run a benchmark and keep what it prints."""
    code = "from parity311.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, *COMMANDS[name]], capture_output=True, text=True, check=True
    )
    (RESULTS / f"{FILES[name]}.json").write_text(found.stdout)


def kept(name: str) -> dict[str, Any]:
    """A result by the name of its file."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def engines_block() -> str:
    """How many files of each study are the same on every engine."""
    found = kept("scale-engines")
    lines = [
        f"On {'; '.join(found['engines'])} ({found['numerics'].split(', jax')[0]}):",
        "",
        "| study | files | the same, byte for byte | but for when it was and how long it took | "
        "different |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for study, row in found["studies"].items():
        lines.append(
            f"| `{study}` | {row['files']} | {row['same']} | {len(row['same_but_for_time'])} | "
            f"{len(row['differ'])} |"
        )
    left = "; ".join(dict.fromkeys(found["left_out"].values()))
    return "\n".join([*lines, "", f"Left out: {left}."])


def kills_block() -> str:
    """What killed nodes came to."""
    found = kept("scale-node-kills")
    rows, n_jobs = found["rows"], found["jobs"]
    n_hit = sum(row["is_under_way"] for row in rows)
    most = max(row["attempts"] for row in rows) - n_jobs
    return (
        f"One node of two was killed in {len(rows)} studies of {n_jobs} jobs, in {n_hit} of them "
        f"while a job of its own was under way. {found['good']} of {len(rows)} ended with every "
        "job done once, the bytes of a run without Ray and, after the next command, nothing "
        f"half-written; at most {most} job was begun a second time. So many without a fault say "
        f"that the share with one is below {_upper(n_hit):.0%} (95 %, one-sided), for short jobs "
        "on one machine."
    )


def _upper(n: int) -> float:
    """Upper end of a share of which none was seen in n tries."""
    return 1.0 - 0.05 ** (1.0 / n)


def bench_block() -> str:
    """What an engine costs."""
    lines = [
        "| engine | start | overhead a job | of 20 s | efficiency asleep | in CPU-seconds | "
        "speed-up | memory a worker | results |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name in measured_engines():
        row = kept(FILES[name])
        figures = (
            f"{name}, {row['workers']} workers on {row['cores']} cores, pieces of "
            f"{row['cpu_seconds_1_worker'] / row['pieces']:.1f} CPU-seconds",
            f"{row['start_s']:.1f} s",
            f"{row['overhead_ms_a_job']:.0f} ms",
            f"{row['overhead_share_of_20_s']:.2%}",
            f"{row['efficiency_asleep']:.2f}",
            f"{row['efficiency_cpu_seconds']:.2f}",
            f"{row['speed_up']:.2f}",
            f"{row['memory_mb_a_worker']:,.0f} MB",
            "the same" if row["same_results"] else "DIFFERENT",
        )
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join([*lines, "", *(loss_line(name) for name in measured_engines())])


def loss_line(name: str) -> str:
    """Where the CPU-seconds of more workers go."""
    row = kept(FILES[name])
    return (
        f"- {name}: a worker loads for {row['cpu_seconds_to_load_each_of_n']:.1f} CPU-seconds; a "
        f"piece takes {row['cpu_seconds_quickest_piece_1_worker']:.2f} where one works and "
        f"{row['cpu_seconds_quickest_piece_n_workers']:.2f} where {row['workers']} do."
    )


def measured_engines() -> list[str]:
    """Engines whose costs were measured and kept."""
    return [name for name in ("local", "ray") if (RESULTS / f"{FILES[name]}.json").is_file()]


def rows_block() -> str:
    """Time, memory and disk of queries over a hundred million rows."""
    found = kept(FILES["rows"])
    lines = [
        f"{found['rows']:,} complaints of seven columns, {found['bytes'] / GB:.2f} GB of Parquet, "
        f"asked within {found['memory_limit_gb']:g} GB on {found['cores']} cores that others used "
        f"too (trust the CPU-seconds); written in {found['write_cpu_seconds']:.0f} CPU-seconds.",
        "",
        "| query | CPU-seconds | seconds | memory at most | spilled to disk | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in found["queries"]:
        if row["query"] == PRUNED:
            continue
        lines.append(
            f"| {row['query']} | {row['cpu_seconds']:.0f} | {row['seconds']:.0f} | "
            f"{row['peak_memory_gb']:.1f} GB | {row['spilled_bytes'] / GB:.1f} GB | "
            f"{'FAILED: ' + row['failed'] if row['failed'] else 'done'} |"
        )
    return "\n".join(lines)


def gpu_block() -> str:
    """What one H200 reached, and how far from its limits that is."""
    lines = [
        "| agents | hidden | numbers | agent-steps a second | with compilation | compiling | "
        "arithmetic | memory |",
        "| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for path in sorted(GPU_RESULTS.glob("h200_gpu_sweep_*.json")):
        row = json.loads(path.read_text())
        rate, weights = row["agent_steps_per_s"], _n_weights(row["hidden"])
        # Forward for the value, backward (twice that), forward for the target.
        arithmetic = rate * BATCH * 8 * weights / PEAK_FLOPS[row["dtype"]]
        # Weights, target and two moments read once, weights and moments written once.
        memory = rate * 7 * BYTES * weights / PEAK_BYTES
        lines.append(
            f"| {row['agents']:,} | {row['hidden']} | {row['dtype']} | {rate / 1e6:.2f} million | "
            f"{row['agent_steps_per_s_with_compilation'] / 1e6:.2f} million | "
            f"{row['seconds_to_first_block']:.0f} of {row['seconds_with_compilation']:.0f} s | "
            f"{arithmetic:.0%} | {memory:.0%} |"
        )
    return "\n".join(lines)


def _n_weights(hidden: int) -> int:
    """Weights and biases of a network of the paper's shape for boiler."""
    sizes = (N_OBSERVED, hidden, hidden, N_ACTIONS)
    return sum((n + 1) * m for n, m in pairwise(sizes))


def paper_block() -> str:
    """Machines, hours and cost of all cities, from measured rates."""
    rates = measured_rates()
    a_night = N_CITIES * N_DOMAINS * rates["cycle_s"] / rates["efficiency"] / HOUR
    reading = N_REQUESTS * rates["row_s"] / rates["efficiency"] / HOUR
    hours = reading + CYCLES_A_YEAR * a_night
    machines = a_night / (CORES * HOURS_A_NIGHT)
    space = N_REQUESTS * rates["row_bytes"] / GB
    lines = [
        "core-hours a year = (R · f + C · D · k · c) / e / 3600",
        "",
        "| | input | value | from |",
        "| --- | --- | ---: | --- |",
        *input_rows(rates),
        "",
        "| what | core-hours a year |",
        "| --- | ---: |",
        f"| records and features of all requests | {reading:,.1f} |",
        f"| cycles of all cities and domains | {CYCLES_A_YEAR * a_night:,.0f} |",
        f"| together | {hours:,.0f} |",
        "",
        f"That is {hours / HOURS_A_YEAR:.1f} cores all year round, ${hours * PRICE:,.0f} a year. "
        f"Where all cycles of a month are to end in one night of {HOURS_A_NIGHT} hours, "
        f"{a_night:,.0f} core-hours need {machines:.1f} machines of {CORES} cores. Records "
        f"take {space:.1f} GB a year in seven columns. †",
    ]
    return "\n".join(lines)


def input_rows(rates: dict[str, float]) -> list[str]:
    """The formula's inputs with where each comes from."""
    n_cycles, n_domains = rates["cycles"], rates["domains"]
    return [
        f"| R | requests a year | {N_REQUESTS:,} | assumed † |",
        f"| C, D | cities, domains in each | {N_CITIES}, {N_DOMAINS} | assumed † |",
        f"| k | cycles of a domain a year | {CYCLES_A_YEAR} | assumed † |",
        f"| f | CPU-seconds a million rows, import and features | {rates['row_s'] * 1e6:.1f} | "
        f"measured, {rates['rows']:,} rows |",
        f"| c | core-seconds a cycle | {rates['cycle_s']:,.0f} | measured on {n_cycles} cycles of "
        f"{n_domains} domains in a city of 200 tracts, whose agent is a rule with learned prices: "
        "seconds × two cores, an upper bound; other domains and cities † |",
        f"| e | efficiency asleep | {rates['efficiency']:.2f} | measured, two workers; of more † |",
        f"| p | dollars a core-hour | {PRICE:.2f} | assumed † |",
    ]


def measured_rates() -> dict[str, float]:
    """The formula's inputs, each from a kept run."""
    records, cycles, rows = kept("bench-records"), kept("cycle-small"), kept(FILES["rows"])
    by_domain: dict[str, float] = {}
    for one in cycles["cycles"]:
        seconds = sum(one["seconds"].values())
        by_domain[one["domain"]] = max(by_domain.get(one["domain"], 0.0), seconds)
    return {
        "row_s": records["cpu_seconds"] / records["rows"],
        "rows": records["rows"],
        "cycle_s": 2 * sum(by_domain.values()) / len(by_domain),
        "cycles": len(cycles["cycles"]),
        "domains": len(by_domain),
        "efficiency": efficiency(),
        "row_bytes": rows["bytes"] / rows["rows"],
    }


def efficiency() -> float:
    """The lowest measured efficiency of an engine in keeping two workers fed."""
    return min(kept(FILES[name])["efficiency_asleep"] for name in measured_engines())


def main(arguments: list[str]) -> int:
    """Run these benchmarks and keep what they print."""
    for name in arguments:
        keep(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
