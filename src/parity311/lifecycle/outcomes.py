"""What became of decisions, once outcomes have arrived; and how a shadow would have fared.

A shadow is not followed, so only what somebody visited has an outcome. Cases that both chose are
compared by what was found; those that the shadow alone chose are known only where somebody came
later, and are told apart: they are the ones that today's rule had left waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.lifecycle.office import read_decisions
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.tables import DecisionRow
from parity311.records.compare import wilson
from parity311.records.store import Records

WAITED_DAYS = 28
"""Days after a decision within which a visit counts as its outcome."""

_VISITS = """
SELECT v.complaint_id, v.visited_at, v.result FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.result <> 'no_access' ORDER BY v.visited_at"""


@dataclass(frozen=True)
class DecisionOutcomes:
    """What became of n decisions, (n,) each."""

    is_known: np.ndarray
    """whether somebody got in within `WAITED_DAYS`"""
    is_found: np.ndarray
    """whether that visit found a violation"""
    is_due: np.ndarray
    """whether so many days have passed since"""
    day: np.ndarray
    """day of the decision, from the epoch on"""
    visited: np.ndarray
    """day of that visit; not a time where there was none"""


def read_outcomes(records: Records, rows: Sequence[DecisionRow]) -> DecisionOutcomes:
    """Join decisions to the visits that followed them."""
    if not rows:
        raise InputError("No decision is on record; recommend by the registry first.")
    table = records.sql(_VISITS, domain=rows[0].domain)
    visits: dict[str, list[tuple[np.datetime64, str]]] = {}
    at = table["visited_at"].to_numpy().astype("datetime64[s]")
    names, results = (table[name].to_pylist() for name in ("complaint_id", "result"))
    for name, moment, result in zip(names, at, results, strict=True):
        visits.setdefault(name, []).append((moment, result))
    moment = np.array([row.as_of for row in rows], "datetime64[s]")
    last = np.datetime64(records.window[1])
    room = np.timedelta64(timedelta(days=WAITED_DAYS))
    known, found = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    when = np.full(len(rows), np.datetime64("NaT"), "datetime64[D]")
    for place, row in enumerate(rows):
        after = [
            (visited, result)
            for visited, result in visits.get(row.complaint_id, ())
            if moment[place] <= visited < moment[place] + room
        ]
        known[place] = bool(after)
        if after:
            when[place], found[place] = after[0][0], after[0][1] == "violation"
    is_due = np.asarray(moment + room <= last)
    day = moment.astype("datetime64[D]").astype(int)
    return DecisionOutcomes(known, found, is_due, day, when)


def compare_shadow(registry: Registry, records: Records, version: str) -> dict[str, Any]:
    """What a version in shadow would have sent people to, beside today's rule."""
    rows = read_decisions(registry, version)
    outcomes = read_outcomes(records, rows)
    chosen = np.array([row.is_chosen for row in rows])
    todays = np.array([row.is_todays for row in rows])
    stratum = np.array([row.stratum for row in rows])
    groups = {
        "both": chosen & todays,
        "today's rule alone": ~chosen & todays,
        "the version alone": chosen & ~todays,
    }
    return {
        "version": version,
        "decisions": len(rows),
        "moments": len({row.as_of for row in rows}),
        "same": float((chosen & todays).sum() / max(chosen.sum(), 1)),
        "rows": [_row(name, use, outcomes) for name, use in groups.items()],
        "by_stratum": [
            {
                "stratum": number,
                "version": int((chosen & (stratum == number)).sum()),
                "todays_rule": int((todays & (stratum == number)).sum()),
            }
            for number in np.unique(stratum).tolist()
        ],
    }


def _row(name: str, use: np.ndarray, outcomes: DecisionOutcomes) -> dict[str, Any]:
    """How many of some decisions have an outcome, and in what share a violation was found."""
    due = use & outcomes.is_due
    known = due & outcomes.is_known
    n, hits = int(known.sum()), int((known & outcomes.is_found).sum())
    lower, upper = wilson(hits, n) if n else (None, None)
    return {
        "chosen_by": name,
        "decisions": int(use.sum()),
        "due": int(due.sum()),
        "visited": n,
        "found": hits,
        "found_share": hits / n if n else None,
        "lower": lower,
        "upper": upper,
    }
