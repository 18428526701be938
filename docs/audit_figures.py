"""Figures of `explanation/audit.md` and others, from what the benchmarks printed.

    python -m docs.audit_figures audit shapley records   run these again and keep what they print
    python -m docs.audit_figures recommend desk          the same for serving, and for the desk

`records` imports ten million rows: about five minutes and 7 GB of disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
COMMANDS = {
    "audit": ("bench", "audit", "--json"),
    "shapley": ("bench", "shapley", "--json"),
    "records": ("bench", "records", "--rows", "10000000", "--json"),
    "recommend": ("bench", "recommend", "--json"),
    "desk": ("bench", "desk", "--complaints", "20000", "--json"),
}
ROWS = {
    "false_fail": "equal service, 2,000 cases a stratum",
    "pass_at_parity": "equal service, 5,000 cases",
    "false_fail_at_tau": "a gap that is just the limit, 2,000 cases: FAIL is a false alarm",
    "power": "a gap of 0.10, twice the limit, 2,000 cases",
    "rare_few": "equal service at a rate of 0.05, 2,000 cases",
    "rare_false_fail": "the same, 20,000 cases",
    "rare_false_fail_at_limit": "the same, a ratio that is just the limit: FAIL is a false alarm",
    "even_false_fail": "equal service at a rate of 0.5, 5,000 cases",
}
STATES = ("PASS", "FAIL", "INSUFFICIENT")


def keep(name: str) -> None:
    """Run a benchmark and keep what it prints."""
    code = "from parity311.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, *COMMANDS[name]], capture_output=True, text=True, check=True
    )
    (RESULTS / f"bench-{name}.json").write_text(found.stdout)


def kept(name: str) -> dict[str, Any]:
    """What a benchmark printed when it was last run."""
    return json.loads((RESULTS / f"bench-{name}.json").read_text())


def audit_block() -> str:
    """How often the audit errs."""
    found = kept("audit")
    double = found["design_effect_2"]
    lines = [
        "| in simulated cities (rate 0.2 unless said) | PASS | FAIL | cannot be told | the same "
        "three at design effect 2 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, words in ROWS.items():
        one, two = ([part["shares"][name][state] for state in STATES] for part in (found, double))
        again = " / ".join(f"{share:.1%}" for share in two)
        lines.append(f"| {words} | {' | '.join(f'{share:.1%}' for share in one)} | {again} |")
    return "\n".join(
        [
            *lines,
            "",
            "An audit that cannot tell makes no false alarm either: a row says something about "
            "false alarms only where the third share leaves room. Bands hold the true gap in "
            f"{found['coverage']:.1%} of cities in the worst row ({double['coverage']:.1%} at "
            "design effect 2).",
            "",
            f"Looked at {found['n_looks']} times, monitoring errs in {found['anytime_error']:.1%} "
            f"of histories; a 5 % test repeated as often in {found['repeated_test_error']:.1%}. "
            f"Each figure is from {found['n_trials']:,} simulated cities.",
        ]
    )


def shapley_block() -> str:
    """How fast exact Shapley values are, beside shap."""
    found = kept("shapley")
    lines = [
        "| rows | processor time | shap's | times less |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in ("complaint_states", "continuous"):
        row = found[name]
        lines.append(
            f"| {name.replace('_', ' ')} | {row['cpu_seconds']:.2f} s | "
            f"{row['shap_cpu_seconds']:.0f} s | {row['cpu_ratio']:.0f} |"
        )
    row = found["continuous"]
    return "\n".join(
        [
            *lines,
            "",
            f"{found['n_features']} features, {found['n_background']} background rows, "
            f"{found['n_rows']} rows, a network of {found['network']} units, double precision; the "
            f"largest difference is {found['max_abs_difference']:.0e}. shap uses one core; rows "
            "without repeated values use two here, so that their wall clock is half of the "
            "processor time. In that case the products of the middle layer alone take "
            f"{row['floor_seconds']:.1f} s on two cores of this machine: whoever multiplies them "
            f"all out in double precision is at most {row['floor_ratio']:.0f} times as fast as "
            "shap.",
        ]
    )


def records_block() -> str:
    """How long ten million rows take."""
    found = kept("records")
    load = found.get("load_average")
    beside = "" if load is None else f", with {load:.1f} other programs running"
    return (
        f"{found['rows']:,} rows ({found['csv_gb']:.1f} GB of CSV) import and get their features "
        f"in {found['cpu_seconds']:.0f} s of processor time ({found['seconds']:.0f} s by the clock "
        f"on two shared cores{beside}), with at most {found['peak_gb']:.1f} GB of memory. pandas "
        f"takes {found['ratio_vs_pandas']:.1f} times as long for the same features of "
        f"{found['pandas_rows']:,} rows."
    )


SERVED = {
    "network": "a network",
    "rule": "a rule with twenty voters",
    "office": "a rule for the whole office",
}


def recommend_block() -> str:
    """How fast policies are served, beside SB3's predict in a loop."""
    found = kept("recommend")
    n_cases = found["queue"]["network"]["cases"]
    lines = [
        "| policy | one complaint: median | 99th percentile | its processor time | "
        f"{n_cases:,} open cases | their processor time | peak memory |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, words in SERVED.items():
        single, queue = found["single"][kind], found["queue"][kind]
        peak = "–" if queue["peak_gb"] is None else f"{queue['peak_gb']:.2f} GB"
        lines.append(
            f"| {words} | {single['median_ms']:.1f} ms | {single['p99_ms']:.1f} ms | "
            f"{single['p99_cpu_ms']:.1f} ms | {queue['seconds']:.1f} s | "
            f"{queue['cpu_seconds']:.1f} s | {peak} |"
        )
    loaded, first = (found["start"][name] for name in ("policy_loaded", "first_recommendation"))
    return "\n".join(
        [
            *lines,
            "",
            f"Reasons and rows are in all of them. The command has a policy loaded "
            f"{loaded['seconds']:.1f} s after its start and recommended after "
            f"{first['seconds']:.1f} s ({loaded['cpu_seconds']:.1f} and "
            f"{first['cpu_seconds']:.1f} s of processor time). {_beside_peer(found, n_cases)} "
            f"Load of the {found['cores']} cores at the end: {found['load']:.1f}.",
        ]
    )


DESK_LINES = {
    "score": "recommending for one complaint",
    "score_processor": "the same, of the processor",
    "filing": "a complaint filed by Open311 and stored",
    "queue_page": "a page of the queue",
}


def desk_block() -> str:
    """How the desk fares under load."""
    found = kept("desk")
    lines = ["| the server's own time | median | 99th percentile |", "| --- | ---: | ---: |"]
    for name, words in DESK_LINES.items():
        one = found[name]
        lines.append(f"| {words} | {one['median_ms']:.1f} ms | {one['p99_ms']:.1f} ms |")
    limits, looks = found["limits"], found["memory"]
    (first, low), (last, high) = looks[1], looks[-1]
    reached = [
        f"{name} {'is kept' if value <= limits[limit] else 'is missed'}"
        for name, value, limit in (
            ("5 ms for scoring", found["score"]["p99_ms"], "score_p99_ms"),
            ("100 ms for a page", found["queue_page"]["p99_ms"], "queue_p99_ms"),
        )
    ]
    told = (
        f"{found['rate']:.0f} complaints a second were due for {found['seconds']:.0f} s beside "
        f"{found['open_cases']:,} open cases, with today's rule deciding; {found['held']:.0f} a "
        f"second were taken within that time, {found['refused']} failed. One filing took "
        f"{found['processor_ms_a_filing']:.1f} ms of the processor, all told. Of what was set as a "
        f"limit at the 99th percentile, {' and '.join(reached)}. Memory was {low:.0f} MB after "
        f"{first:,} complaints and {high:.0f} MB after {last:,}. Load of the {found['cores']} "
        f"cores before and after: {found['load_before']:.1f} and {found['load_after']:.1f}; above "
        f"{found['cores']}, others' work is in these times."
    )
    return "\n".join([*lines, "", told])


def _beside_peer(found: dict[str, Any], n_cases: int) -> str:
    """What the peer takes for the same decisions; why it is not there where it is not."""
    peer, ratios = found["peer"], found["ratios"]
    if "reason" in peer:
        return f"The peer was not measured: {peer['reason']}"
    loop, batch = (n_cases * peer[f"{how}_seconds_per_case"] for how in ("loop", "batch"))
    return (
        f"{peer['peer']}, takes {loop:.0f} s for the decisions of the network alone, "
        f"{ratios['all_vs_loop']:.1f} times as long as ours for features, order, decisions, "
        f"reasons and rows; in one batch it takes {batch:.1f} s where ours takes "
        f"{found['queue']['network']['decide_seconds']:.2f} s. It decides alike in "
        f"{peer['same_decisions']:.1%} of the cases."
    )


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        keep(chosen)
