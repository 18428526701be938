"""Rules that link reports, scored by the truth of a synthetic city, pair by pair."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from parity311.records.truth import open_truth
from parity311.reporting.duplicates import LinkRule, LinkScore, read_city_reports, score_links

RULES = (
    LinkRule(),
    LinkRule(max_days=7.0),
    LinkRule(max_days=3.0),
    LinkRule(same_problem=False),
    LinkRule(until_closed=False),
)
"""The default rule first, then one parameter changed each time."""


def score_rules(city: Path, domain: str) -> list[dict[str, Any]]:
    """Precision and recall of every rule over pairs of reports, and of the agency's own marks."""
    reports = read_city_reports(city, domain)
    real = open_truth(city).table("reports", domain).sort_by("complaint_id")
    names = real["complaint_id"].to_numpy(zero_copy_only=False)
    true_incident = real["true_incident_id"].to_numpy()[np.searchsorted(names, reports.complaint)]
    out = [_row("rule", rule, score_links(reports.link(rule), true_incident)) for rule in RULES]
    out.append(_row("agency's marks", None, score_links(reports.marked, true_incident)))
    return out


def _row(how: str, rule: LinkRule | None, found: LinkScore) -> dict[str, Any]:
    return {"how": how, "rule": asdict(rule) if rule else None, **asdict(found)}
