"""Link reports to incidents where the source does not mark duplicates.

A report joins an incident if it names the same problem at the same building (or within a distance),
while the incident is open. The parameters are explicit; in a synthetic city, whose agency marks
duplicates, `choose_rule` says how well they do; `duplicates_truth.py` scores them by the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from parity311.errors import InputError
from parity311.records.cases import CASE_ID
from parity311.records.store import open_records

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


def is_repeat(incident: np.ndarray, received_day: np.ndarray) -> np.ndarray:
    """Whether a report is not the first of its incident."""
    order = np.lexsort((received_day, incident))
    ordered = incident[order]
    repeated = np.ones(len(incident), dtype=bool)
    repeated[order[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]] = False
    return repeated


def _count_pairs(labels: np.ndarray) -> float:
    counts = np.unique(labels, return_counts=True)[1]
    return float((counts * (counts - 1.0) / 2.0).sum())


@dataclass(frozen=True)
class LinkQuality:
    """How well a rule does in a synthetic city, whose agency marks which reports are repeats."""

    city: str
    precision: float
    """Share of the reports it takes as repeats that the city's agency marks as such."""
    recall: float
    """Share of the repeats that the agency marks which it finds."""

    @property
    def balance(self) -> float:
        """Harmonic mean of precision and recall; 0 where there is nothing to find."""
        both = self.precision + self.recall
        return 2.0 * self.precision * self.recall / both if both > 0 else 0.0


@dataclass(frozen=True)
class CityReports:
    """Reports of a synthetic city, with the marks of its agency."""

    city: str
    complaint: np.ndarray
    """Ids, in order."""
    day: np.ndarray
    closed_day: np.ndarray
    building: np.ndarray
    category: np.ndarray
    marked: np.ndarray
    """Number of the case the agency put the report into."""

    def link(self, rule: LinkRule) -> np.ndarray:
        """Incidents by a rule."""
        return link_reports(
            self.day, self.category, rule, building=self.building, closed_day=self.closed_day
        )

    def judge(self, rule: LinkRule) -> LinkQuality:
        """Repeats by a rule against those the agency marks."""
        found, wanted = (is_repeat(labels, self.day) for labels in (self.link(rule), self.marked))
        both = int((found & wanted).sum())
        return LinkQuality(
            city=self.city,
            precision=both / int(found.sum()) if found.any() else 0.0,
            recall=both / int(wanted.sum()) if wanted.any() else 0.0,
        )


def read_city_reports(city: Path, domain: str) -> CityReports:
    """Reports of residents at a known building, of one domain of a synthetic city."""
    rows = open_records(city).sql(
        f"""
SELECT c.complaint_id, epoch(c.received_at) / 86400 AS day, c.category, c.building_id,
  epoch(o.closed_at) / 86400 AS closed, {CASE_ID} AS marked
FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain AND c.building_id IS NOT NULL AND c.channel <> 'OTHER'
ORDER BY c.complaint_id""",
        domain=domain,
    )

    def codes(name: str) -> np.ndarray:
        coded = rows[name].combine_chunks().dictionary_encode().indices
        return coded.fill_null(-1).to_numpy(zero_copy_only=False)

    return CityReports(
        city=city.name,
        complaint=rows["complaint_id"].to_numpy(zero_copy_only=False),
        day=rows["day"].to_numpy(),
        closed_day=rows["closed"].to_numpy(zero_copy_only=False),
        building=codes("building_id"),
        category=codes("category"),
        marked=codes("marked"),
    )


def choose_rule(
    city: Path, domain: str, rules: Sequence[LinkRule], n_categories: int
) -> tuple[LinkRule, LinkQuality]:
    """The rule whose repeats agree best with those a city's agency marks, and how well.

    The city's categories are put together until they are ``n_categories``: a file that tells less
    apart links more that is not one.
    """
    reports = read_city_reports(city, domain)
    reports = replace(reports, category=reports.category % n_categories)
    judged = [(rule, reports.judge(rule)) for rule in rules]
    return max(judged, key=lambda pair: pair[1].balance)
