"""Service tract by tract: a map and a table, small cells left out, and no verdict.

One tract has too few cases for a verdict of its own; the table is there to be looked up, the map to
show where service goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.audit.cells import AuditInputs
from parity311.audit.spec import AuditSpec
from parity311.report.audit_words import COUNTED
from parity311.report.pictures import Axis, Cell, tract_map
from parity311.report.sections import Column, Picture, TableView
from parity311.report.store import RunWriter

N_SHOWN = 20
"""Tracts on the page; the stored table has all."""
NORMAL_95 = 1.96


def tract_rows(inputs: AuditInputs, spec: AuditSpec) -> list[dict[str, Any]]:
    """One row a tract with its cases and its rate; counts below the minimum are not published."""
    places = inputs.places
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    cases, served = (
        np.bincount(cells.tract, values, minlength=places.n_tracts)
        for values in (cells.n_cases, cells.n_served)
    )
    rows = []
    for k in range(places.n_tracts):
        small = cases[k] < spec.minimum_events
        lower, upper = (np.nan, np.nan) if small else _wilson(served[k], cases[k])
        quintile = int(places.income_quintile[k])
        rows.append(
            {
                "tract": str(places.geoid[k]),
                "borough": str(places.borough[k]),
                "quintile": f"Q{quintile}" if quintile else "unknown",
                "cases": None if small else int(cases[k]),
                "served": None if small else int(served[k]),
                "rate": np.nan if small else float(served[k] / cases[k]),
                "lower": lower,
                "upper": upper,
                "note": f"fewer than {spec.minimum_events} cases" if small else "",
            }
        )
    return rows


def _wilson(served: float, cases: float) -> tuple[float, float]:
    """Ends of Wilson's 95 % interval of a share."""
    share, square = served / cases, NORMAL_95**2
    middle = (share + square / (2 * cases)) / (1 + square / cases)
    half = NORMAL_95 * np.sqrt(share * (1 - share) / cases + square / (4 * cases**2))
    half = half / (1 + square / cases)
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def tract_pictures(
    run: RunWriter, name: str, inputs: AuditInputs, spec: AuditSpec
) -> list[Picture]:
    """The map with its table; none where the run kept no positions."""
    rows = tract_rows(inputs, spec)
    run.add_table(name, rows)
    counted = COUNTED[spec.estimand]
    title = f"{counted.capitalize()} per case, tract by tract"
    position = inputs.places.position
    if position is None or not np.isfinite(position).any():
        return []
    cells = [
        Cell(float(x), float(y), row["rate"], row["borough"])
        for (x, y), row in zip(position, rows, strict=True)
    ]
    axis = Axis(f"{counted} per case", number_format="percent")
    run.draw(name, tract_map, cells, title=title, axis=axis)
    n_shown = sum(row["cases"] is not None for row in rows)
    return [
        Picture(
            name,
            caption=(
                f"Each cell is a tract. {n_shown:,} of {len(rows):,} have {spec.minimum_events} "
                "cases or more; the others are not published. A tract alone has too few cases for "
                "a verdict: much of what differs between neighbours is chance."
            ),
            alt=f"Map of {n_shown:,} tracts by the share of cases {counted}; figures in the table.",
            table=TableView(
                name,
                (
                    Column("tract", "tract", number_format="text"),
                    Column("borough", "borough", number_format="text"),
                    Column("quintile", "income", number_format="text"),
                    Column("cases", "cases", number_format="integer", reason="note"),
                    Column("served", "counted", number_format="integer", reason="note"),
                    Column(
                        "rate", "rate", lower="lower", upper="upper", number_format="percent",
                        reason="note",
                    ),
                ),
                caption=title,
                max_rows=N_SHOWN,
            ),
            title=title,
        )
    ]  # fmt: skip
