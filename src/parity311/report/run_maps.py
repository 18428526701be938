"""Need, service and change by tract: three maps side by side, with one table behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from parity311.audit.cells import AuditInputs
from parity311.audit.spec import AuditSpec
from parity311.evaluation.titles import TODAY
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.records.strata import INCOME
from parity311.report import findings
from parity311.report.findings import Block
from parity311.report.pictures import Axis, Cell, tract_map
from parity311.report.sections import Column, Picture, TableView
from parity311.report.store import RunWriter

PER_HOMES = 1000
DAYS_A_YEAR = 365.25
COLUMNS = (
    Column("tract", "tract", number_format="text"),
    Column("borough", "borough", number_format="text"),
    Column("group", "income group", number_format="text"),
    Column(
        "need", "need: problems a year, 1,000 homes", lower="need_lower", upper="need_upper",
        decimals=0, reason="note",
    ),
    Column("service", "service: found in time", number_format="percent", decimals=0, reason="note"),
    Column("change", "change for its income group", number_format="signed_points"),
)  # fmt: skip


def tract_rows(block: Block, inputs: AuditInputs) -> list[dict[str, Any]]:
    """One row a tract: estimated need, recorded service, and the change of its income group.

    Too few problems in a tract say nothing of its service, and are not published.
    """
    places, cells = inputs.places, inputs.cells
    known = cells.take(cells.tract >= 0)
    served = np.bincount(known.tract, known.n_served, minlength=places.n_tracts)
    draws = inputs.incident_draws
    if draws is None:
        draws = np.bincount(known.tract, known.n_cases, minlength=places.n_tracts)[None, :]
    need = draws.mean(axis=0)
    years = max((inputs.date_to - inputs.date_from).days / DAYS_A_YEAR, 1e-9)
    homes = np.where(places.dwellings > 0, places.dwellings, np.nan)
    scale = PER_HOMES / years / homes
    ends = np.quantile(draws, (0.025, 0.975), axis=0) * scale
    changes = group_changes(block)
    least = AuditSpec().minimum_events
    rows = []
    for k in range(places.n_tracts):
        quintile = int(places.income_quintile[k])
        is_small = need[k] < least
        rows.append(
            {
                "tract": str(places.geoid[k]),
                "borough": str(places.borough[k]),
                "group": f"Q{quintile}" if quintile else "unknown",
                "need": _finite(need[k] * scale[k]),
                "need_lower": _finite(ends[0][k]),
                "need_upper": _finite(ends[1][k]),
                "service": math.nan if is_small else min(float(served[k] / need[k]), 1.0),
                "change": changes[quintile - 1] if quintile else math.nan,
                "note": f"fewer than {least} problems" if is_small else "",
            }
        )
    return rows


def group_changes(block: Block) -> list[float]:
    """Change of each income group's coverage under the learned rule, in shares."""
    paid, today = findings.find_paid(block), findings.find_row(block, TODAY)
    if paid is None or not findings.is_known(block) or block.get("strata", INCOME) != INCOME:
        return [math.nan] * N_KNOWN_STRATA
    return [
        findings.number(paid["coverage"][k]["value"])
        - findings.number(today["coverage"][k]["value"])
        for k in range(N_KNOWN_STRATA)
    ]


def map_pictures(
    run: RunWriter, name: str, block: Block, inputs: AuditInputs
) -> tuple[Picture, ...]:
    """The three maps; none where the run knows no positions."""
    position = inputs.places.position
    if position is None or not np.isfinite(position).any():
        return ()
    rows = tract_rows(block, inputs)
    table = f"tracts-{name}"
    run.add_table(table, rows)
    pictures = []
    for key, title, axis, caption in _maps(block):
        values = [row[key] for row in rows]
        if not any(math.isfinite(value) for value in values):
            continue
        cells = [
            Cell(float(x), float(y), value, row["borough"])
            for (x, y), value, row in zip(position, values, rows, strict=True)
        ]
        picture = f"{key}-{name}"
        run.draw(picture, tract_map, cells, title=title, axis=axis, is_signed=key == "change")
        view = TableView(table, COLUMNS, caption="Every tract", max_rows=20)
        alt = f"Map of {len(rows):,} tracts: {axis.label}; every tract is in the table."
        pictures.append(Picture(picture, caption=caption, alt=alt, table=view, title=title))
    return tuple(pictures)


def _maps(block: Block) -> Sequence[tuple[str, str, Axis, str]]:
    counted = "complaints" if block["estimator"] == "raw" else "problems"
    return (
        (
            "need",
            "Need",
            Axis(f"estimated {counted} a year for 1,000 homes", "integer"),
            "Where things go wrong, reported or not: an estimate. What nobody reports leaves no "
            "trace.",
        ),
        (
            "service",
            "Service in the test year",
            Axis("of the estimated problems, found in time", "percent"),
            "What the records say was done, of all estimated problems; the cards count only those "
            "a visit would confirm. Much of what differs between neighbours is chance.",
        ),
        (
            "change",
            "Change under the learned rule",
            Axis("more or fewer found, of 100 problems", "signed_points"),
            "The change of the income group a tract belongs to: no single tract can be told apart.",
        ),
    )


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan
