"""What `parity311 reproduce` prints."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table


def print_result(result: dict[str, Any]) -> None:
    """Print what a stage found: claims with verdicts, or how far the work is."""
    if "claims" not in result:
        for name, value in result.items():
            print(f"{name}: {value}")
        return
    table = Table("claim", "published", "ours", "verdict", title="The paper's claims, beside ours")
    for claim in result["claims"]:
        table.add_row(claim["claim"], claim["published"], claim["ours"], claim["verdict"])
    Console().print(table)
    counted = Counter(claim["verdict"] for claim in result["claims"])
    print(", ".join(f"{count} {verdict}" for verdict, count in counted.most_common()))
    print(f"report: {result['report']}")
