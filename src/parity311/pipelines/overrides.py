"""What staff changed: recommendations set aside, by who lives there.

A model and the people who use it are one system (in Boston's food inspections, overrides lost what
the model had gained), so their overrides are audited like the model. The log is a CSV file with one
row a recommendation: domain, tract, recommended, taken, and where known a reason and a date.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.cells import AuditInputs
from parity311.audit.compare import Comparison
from parity311.audit.joins import audit_overrides
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import make_grouping
from parity311.domains import get_domain
from parity311.errors import InputError, unknown_name
from parity311.report.audit_words import measure_briefly, name_worst_off

COLUMNS = ("domain", "tract", "recommended", "taken")
GROUPINGS = ("income5", "race5")
MAX_REASONS = 5
OF_ANY_DOMAIN = {"visit": True, "wait": False, "duplicate": False}
"""What the desk writes of a case where a policy decides for the whole office, and of one that
joined another; and whether somebody goes."""


@dataclass(frozen=True)
class Recommendation:
    """One row of the log."""

    domain: str
    tract: str
    recommended_escalates: bool
    taken_escalates: bool
    is_override: bool
    reason: str
    date: str = ""
    """day of the decision, where the log has one (ISO)"""


def read_overrides(path: Path) -> list[Recommendation]:
    """Read a log of recommendations; a wrong column or action is one clear line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path} lacks the column {', '.join(missing)}; a log of overrides has "
                    f"{', '.join(COLUMNS)} and may have reason."
                )
            rows = [_row(row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path} ({error}); name a CSV file in UTF-8.") from error
    if not rows:
        raise InputError(f"{path} holds no recommendation; give a log with at least one row.")
    return rows


def _row(row: dict[str, Any]) -> Recommendation:
    domain = get_domain(row["domain"])
    escalates = {a.name: a.escalates for a in domain.actions_of("extended")} | OF_ANY_DOMAIN
    for name in (row["recommended"], row["taken"]):
        if name not in escalates:
            raise unknown_name(f"action of {domain.slug}", name, escalates)
    return Recommendation(
        domain.slug,
        row["tract"],
        escalates[row["recommended"]],
        escalates[row["taken"]],
        row["recommended"] != row["taken"],
        (row.get("reason") or "").strip(),
        (row.get("date") or "").strip(),
    )


def assess_overrides(
    log: Sequence[Recommendation], inputs: Sequence[AuditInputs], spec: AuditSpec
) -> list[dict[str, Any]]:
    """Audit the log of every domain that was audited: one row a grouping and question."""
    rows: list[dict[str, Any]] = []
    for domain in dict.fromkeys(one.domain for one in log):
        places = next((one.places for one in inputs if one.domain == domain), None)
        if places is None:
            have = ", ".join(dict.fromkeys(one.domain for one in inputs))
            raise InputError(
                f"The log of overrides has {domain!r}, which this run does not audit; it has "
                f"{have}."
            )
        mine = [one for one in log if one.domain == domain]
        index = {name: i for i, name in enumerate(places.geoid)}
        placed = [one for one in mine if one.tract in index]
        tract = np.array([index[one.tract] for one in placed], dtype=np.int64)
        flags = np.array(
            [(o.recommended_escalates, o.taken_escalates, o.is_override) for o in placed], bool
        ).reshape(-1, 3)
        for name in GROUPINGS:
            grouping = make_grouping(name, places)
            recommended, taken, changed = flags.T
            found = audit_overrides(
                tract, recommended, taken, changed, grouping, spec, n_tracts=places.n_tracts
            )
            common = {
                "domain": domain,
                "strata": name,
                "n_recommendations": len(mine),
                "n_without_tract": len(mine) - len(placed),
                "reasons": _reasons(mine, spec.minimum_events),
            }
            for counted, rates, comparison in (
                ("overridden", found.rates, found.comparison),
                ("visit taken away", found.downgraded, found.downgraded_comparison),
            ):
                shares = _shares(grouping.labels, rates, spec)
                rows.append({**common, "counted": counted, **_plain(comparison), "rates": shares})
    return rows


def _reasons(log: Sequence[Recommendation], minimum: int) -> list[dict[str, Any]]:
    """The reasons given most; those given by few are counted together, as small cells are."""
    counts = Counter(one.reason or "none given" for one in log if one.is_override)
    shown = [(name, n) for name, n in counts.most_common(MAX_REASONS) if n >= minimum]
    rest = sum(counts.values()) - sum(n for _, n in shown)
    named = [{"reason": name, "n_overrides": n} for name, n in shown]
    return [*named, {"reason": "other", "n_overrides": rest}] if rest >= minimum else named


def _shares(labels: Sequence[str], rates: Any, spec: AuditSpec) -> list[dict[str, Any]]:
    lower, upper = rates.interval(spec.level)
    found = []
    for k, label in enumerate(labels):
        is_small = rates.out_of[k] < spec.minimum_events
        values = (np.nan, np.nan, np.nan) if is_small else (rates.rates[k], lower[k], upper[k])
        names = ("rate", "lower", "upper")
        n = None if is_small else int(rates.out_of[k])
        shown = {name: float(value) for name, value in zip(names, values, strict=True)}
        found.append({"stratum": label, "n": n, **shown})
    return found


def _plain(comparison: Comparison) -> dict[str, Any]:
    return {
        "verdict": comparison.verdict,
        "measure": comparison.measure,
        "gap": comparison.gap.estimate,
        "gap_lower": comparison.gap.lower,
        "gap_upper": comparison.gap.upper,
        "ratio": comparison.ratio.estimate,
        "ratio_lower": comparison.ratio.lower,
        "ratio_upper": comparison.ratio.upper,
        "mean_rate": comparison.mean_rate,
        "worst_off": comparison.worst_off,
        "reason": comparison.reason,
        "size_words": measure_briefly(comparison),
        "worst_words": name_worst_off(comparison),
    }
