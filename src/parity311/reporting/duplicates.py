"""Link reports to incidents where the source does not mark duplicates.

A report joins an incident if it names the same problem at the same building (or within a distance),
while the incident is open. The parameters are explicit; on a synthetic city, where the truth is
known, `score_links` says how well they do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from parity311.errors import InputError
from parity311.records.cases import CASE_ID
from parity311.records.store import open_records
from parity311.records.truth import open_truth

METRES_PER_DEGREE = 111_320.0
"""Metres in one degree of latitude."""


@dataclass(frozen=True)
class LinkRule:
    """When two reports are taken to mean one incident."""

    max_days: float = 14.0
    """Days from an incident's first report during which a report may join it."""
    distance_metres: float | None = None
    """Distance within which places count as one; None: the same building."""
    same_problem: bool = True
    """Whether the category must agree."""
    until_closed: bool = True
    """Whether an incident ends when its first report is closed, where that is known."""

    def __post_init__(self) -> None:
        if not self.max_days > 0 or (
            self.distance_metres is not None and not self.distance_metres > 0
        ):
            raise InputError(
                f"A link rule with max_days {self.max_days} and distance {self.distance_metres} "
                "was given; both must be positive (the distance may be None)."
            )


@dataclass(frozen=True)
class LinkScore:
    """How well links agree with the truth, over pairs of reports."""

    precision: float
    """Share of linked pairs that are one incident."""
    recall: float
    """Share of pairs of one incident that are linked."""
    n_incidents: int
    n_true_incidents: int


def link_reports(
    received_day: np.ndarray,
    category: np.ndarray,
    rule: LinkRule,
    *,
    building: np.ndarray | None = None,
    coordinates: np.ndarray | None = None,
    closed_day: np.ndarray | None = None,
) -> np.ndarray:
    """Number of the incident each report belongs to, by the rule.

    Parameters
    ----------
    received_day, category, building, closed_day
        (n,) time in days, problem, building, and closing in days (NaN while open).
    coordinates
        (n, 2) longitude and latitude in degrees, needed with a distance.
    """
    n = len(received_day)
    problem = np.unique(category, return_inverse=True)[1] if rule.same_problem else np.zeros(n, int)
    place = _places(rule, building, coordinates)
    group = np.unique(np.stack([place, problem], axis=1), axis=0, return_inverse=True)[1].ravel()
    order = np.lexsort((received_day, group))
    ends = np.full(n, np.inf)
    if rule.until_closed and closed_day is not None:
        ends = np.where(np.isfinite(closed_day), closed_day, np.inf)
    incident = np.empty(n, dtype=np.int64)
    current, current_group, until = -1, -1, -np.inf
    for row in order:
        if group[row] != current_group or received_day[row] > until:
            current += 1
            current_group = group[row]
            until = min(received_day[row] + rule.max_days, ends[row])
        incident[row] = current
    return incident


def _places(
    rule: LinkRule, building: np.ndarray | None, coordinates: np.ndarray | None
) -> np.ndarray:
    """Number of the place of every report: its building, or its cluster within the distance."""
    if rule.distance_metres is None:
        if building is None:
            raise InputError(
                "The reports have no building; give one, or a distance and coordinates to link by."
            )
        return np.unique(building, return_inverse=True)[1]
    if coordinates is None:
        raise InputError(
            f"Linking within {rule.distance_metres} m needs longitude and latitude; add them, or "
            "link by building."
        )
    return cluster_within(coordinates, rule.distance_metres)


def cluster_within(coordinates: np.ndarray, distance_metres: float) -> np.ndarray:
    """Number of a leader within the distance: the first point, in order, that is near enough.

    Leaders keep clusters no wider than twice the distance; chains of near points do not run on.
    """
    middle = np.radians(coordinates[:, 1].mean())
    metres = coordinates * METRES_PER_DEGREE * np.array([np.cos(middle), 1.0])
    points, index = np.unique(metres.round(2), axis=0, return_inverse=True)
    near = KDTree(points).query_ball_point(points, distance_metres, return_sorted=True)
    leader = np.full(len(points), -1)
    for point, others in enumerate(near):
        if leader[point] < 0:
            free = [other for other in others if leader[other] < 0]
            leader[free] = point
    return leader[index.ravel()]


def score_links(incident: np.ndarray, true_incident: np.ndarray) -> LinkScore:
    """Precision and recall of linked pairs; NaN where there is no pair to speak of."""
    both = np.unique(np.stack([incident, true_incident], axis=1), axis=0, return_counts=True)[1]
    linked, real = (_count_pairs(part) for part in (incident, true_incident))
    shared = float((both * (both - 1.0) / 2.0).sum())
    return LinkScore(
        precision=shared / linked if linked else np.nan,
        recall=shared / real if real else np.nan,
        n_incidents=len(np.unique(incident)),
        n_true_incidents=len(np.unique(true_incident)),
    )


def _count_pairs(labels: np.ndarray) -> float:
    counts = np.unique(labels, return_counts=True)[1]
    return float((counts * (counts - 1.0) / 2.0).sum())


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
        f"""
SELECT c.complaint_id, epoch(c.received_at) / 86400 AS day, c.category, c.building_id,
  epoch(o.closed_at) / 86400 AS closed, {CASE_ID} AS marked
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
