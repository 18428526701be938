"""How well duplicates are found without marks: link rules against the truth of a city."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from parity311.records.store import open_records
from parity311.records.truth import open_truth
from parity311.reporting.duplicates import LinkRule, LinkScore, link_reports, score_links

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
    records, truth = open_records(city), open_truth(city)
    rows = records.sql(
        """
SELECT c.complaint_id, epoch(c.received_at) / 86400 AS day, c.category, c.building_id,
  epoch(o.closed_at) / 86400 AS closed, COALESCE(c.incident_id, c.complaint_id) AS marked
FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain AND c.building_id IS NOT NULL AND c.channel <> 'OTHER'
ORDER BY c.complaint_id""",
        domain=domain,
    )
    real = truth.table("reports", domain).sort_by("complaint_id")
    names = real["complaint_id"].to_numpy(zero_copy_only=False)
    place = np.searchsorted(names, rows["complaint_id"].to_numpy(zero_copy_only=False))
    true_incident = real["true_incident_id"].to_numpy()[place]

    def codes(name: str) -> np.ndarray:
        coded = rows[name].combine_chunks().dictionary_encode().indices
        return coded.fill_null(-1).to_numpy(zero_copy_only=False)

    building, category, marked = codes("building_id"), codes("category"), codes("marked")
    out = []
    for rule in RULES:
        linked = link_reports(
            rows["day"].to_numpy(),
            category,
            rule,
            building=building,
            closed_day=rows["closed"].to_numpy(zero_copy_only=False),
        )
        out.append(_row("rule", rule, score_links(linked, true_incident)))
    out.append(_row("agency's marks", None, score_links(marked, true_incident)))
    return out


def _row(how: str, rule: LinkRule | None, found: LinkScore) -> dict[str, Any]:
    return {"how": how, "rule": asdict(rule) if rule else None, **asdict(found)}
