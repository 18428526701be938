"""Set two runs side by side, from their folders alone, into a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parity311.pipelines.audit import repeat_data
from parity311.report.compare_page import only_in_one, pair_figures, write_comparison
from parity311.report.folder import Run
from parity311.report.store import start_run


def compare_runs(first: Run, second: Run, *, root: Path = Path("runs")) -> dict[str, Any]:
    """Pair what both runs have figures of and write the page; nothing is computed anew."""
    kind, rows = pair_figures(first, second)
    config = {"runs": [first.id, second.id]}
    with start_run(root, f"runs compare {first.id} {second.id}", config) as run:
        repeat_data(run, first)
        known = {entry["fingerprint"] for entry in first.info.get("data", [])}
        repeat_data(run, second, known)
        report = write_comparison(run, first, second)
        run.set_report(report)
    alone = only_in_one(first, second)
    return {
        "comparison": run.id,
        "page": str(run.final_path / "report.html"),
        "kind": kind,
        "summary": report.summary[0],
        "figures": rows,
        "only_first": alone[0],
        "only_second": alone[1],
    }
