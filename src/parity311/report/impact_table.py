"""An impact table in the form of New York's Local Law 144: rates and ratios by category.

That law is about hiring; its table has become the form in which people expect such figures. The
four-fifths line is a convention from there, not a standard of service.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.audit.cells import AuditInputs
from parity311.audit.rates import make_resample, rates_under
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import UNKNOWN, Grouping, income_quintiles, race_majority

SMALL_SHARE = 0.02
"""Categories below this share of cases may be left out under the rule; here they are marked."""
FOUR_FIFTHS = 0.8
"""Convention of 29 CFR 1607.4(D)."""


def impact_rows(inputs: AuditInputs, spec: AuditSpec) -> list[dict[str, Any]]:
    """Selection rate and impact ratio of income groups, majority groups and their intersection."""
    income, race = income_quintiles(inputs.places), race_majority(inputs.places)
    rows: list[dict[str, Any]] = []
    for grouping in (income, race, intersect(income, race)):
        rng = np.random.default_rng(spec.seed)
        resample = make_resample(inputs, spec.n_draws, rng)
        drawn = rates_under(inputs, grouping, "cases", resample, rng)
        if isinstance(drawn, str):
            continue
        lower, upper = drawn.interval(spec.level)
        total = drawn.out_of.sum()
        large = grouping.compared & (drawn.out_of >= spec.minimum_events)
        large &= drawn.out_of >= SMALL_SHARE * total
        best = np.nanmax(np.where(large, drawn.rates, np.nan)) if large.any() else np.nan
        for k, label in enumerate(grouping.labels):
            n = drawn.out_of[k]
            if n == 0:
                continue
            hidden = n < spec.minimum_events
            ratio = float("nan") if hidden or not best > 0 else float(drawn.rates[k] / best)
            rows.append(
                {
                    "domain": inputs.domain,
                    "setting": inputs.setting,
                    "by": grouping.name,
                    "category": label,
                    "n_cases": None if hidden else int(n),
                    "n_selected": None if hidden else int(drawn.events[k]),
                    "selection_rate": float("nan") if hidden else float(drawn.rates[k]),
                    "lower": float("nan") if hidden else float(lower[k]),
                    "upper": float("nan") if hidden else float(upper[k]),
                    "impact_ratio": ratio,
                    "below_four_fifths": bool(ratio < FOUR_FIFTHS),
                    "note": _note(label, n, total, hidden, spec),
                }
            )
    return rows


def _note(label: str, n: float, total: float, hidden: bool, spec: AuditSpec) -> str:
    if hidden:
        return f"fewer than {spec.minimum_events} cases: not published"
    if UNKNOWN in label:
        return "category unknown"
    return "under 2 % of cases" if n < SMALL_SHARE * total else ""


def intersect(first: Grouping, second: Grouping) -> Grouping:
    """Every pair of two groupings of tracts."""
    if first.of_tract is None or second.of_tract is None:
        raise ValueError("only groupings of tracts can be intersected")
    labels = tuple(f"{a} · {b}" for a in first.labels for b in second.labels)
    compared = (first.compared[:, None] & second.compared[None, :]).ravel()
    index = first.of_tract * second.n_strata + second.of_tract
    return Grouping(f"{first.name} × {second.name}", labels, compared, of_tract=index)
