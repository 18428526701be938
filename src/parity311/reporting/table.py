"""What an estimator sees: one row per reported incident, as the agency linked its reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import LiteralString

import numpy as np

from parity311.errors import EstimationError, InputError
from parity311.records.absent import no_such_domain
from parity311.records.cases import CASE_ID, KNOWN
from parity311.records.sql import identifier, literal
from parity311.records.store import Records
from parity311.reporting.areas import Areas
from parity311.reporting.continuing import find_continuing
from parity311.reporting.link_quality import UsedLinks, used_links
from parity311.reporting.weekly import WeeklyReports, weekly_from_records

WINDOW_DAYS = 28
"""The paper's rolling window: four weeks."""
MAX_EXPOSURE_DAYS = 100.0
"""Exposure is cut 100 days after the first report (Liu, Bhandaram and Garg; 30 and 200 are their
robustness checks)."""
MIN_EXPOSURE_DAYS = 0.1
"""Shorter exposures say nothing about the rate and are left out of its fit (same source)."""

BY_AGENCY = "found by the agency"
"""Pattern of incidents that no resident reported first; they need no correction."""
SEPARATOR = "|"
"""Between the factors of a pattern: category, severity code, size of the building."""
OTHER_PATTERN = "other"
MIN_PATTERN_INCIDENTS = 100
"""Levels of a pattern with fewer incidents are put together: too few to tell their rate."""

MANY_UNMARKED = 0.1
"""Share of cases without a mark of duplicates from which on estimates say so."""
LINKED_ALIKE = (
    "Every case is taken as an incident of its own: links made by a rule do not tell which cases "
    "continue another."
)
SIZE_QUERY = (
    "CASE WHEN b.units IS NULL THEN 'unknown' WHEN b.units < 10 THEN 'under 10' "
    "WHEN b.units < 50 THEN '10 to 49' ELSE '50 and more' END"
)
"""Size of the building in dwelling units, in three classes: more people see the same problem."""


@dataclass(frozen=True)
class ReportTable:
    """Reported incidents as arrays of length n_incidents, and reports per area and window."""

    area: np.ndarray
    """Index of the incident's area."""
    first_report_day: np.ndarray
    """Days from ``date_from`` to the first report."""
    n_further: np.ndarray
    """Reports after the first while the exposure lasted."""
    last_delay_days: np.ndarray
    """Days from the first to the last report within the exposure; 0 where there is only one."""
    exposure_days: np.ndarray
    """Days from the first report to the earliest of first visit, closing, 100 days, ``date_to``."""
    found_ended: np.ndarray
    """Whether the exposure ended with a call that found the incident over, without a visit."""
    called_until_days: np.ndarray
    """Days after the first report until which such calls could come: until the day of the visit,
    never where the case was put away at intake."""
    pattern: np.ndarray
    """Index into ``patterns``: what was known at intake that changes how often it is reported."""
    patterns: tuple[str, ...]
    weight: np.ndarray
    """Chance that the case is the first of its incident (1 unless it continues an earlier one)."""
    count_sd: np.ndarray
    """(n_areas,) standard deviation of the sum of weights; 0 where cases are incidents."""
    n_reports: np.ndarray
    """(n_areas, n_windows) reports received."""
    n_duplicates: np.ndarray
    """(n_areas, n_windows) of those, reports of an incident that was already reported."""
    date_from: date
    date_to: date
    window_days: int = WINDOW_DAYS
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows of the source that are not used, by reason."""
    notes: tuple[str, ...] = ()
    """What was decided about the rows, in words."""
    covariates: dict[str, np.ndarray] = field(default_factory=dict)
    """(n_incidents,) numbers that are known of an incident; for regressions only."""
    is_unmarked: np.ndarray | None = None
    """(n_incidents,) whether the source does not say if there were duplicates; None: it always
    does."""
    links: UsedLinks | None = None
    """Duplicates that a rule linked; None: the source marks them, or nobody does."""
    weekly: WeeklyReports | None = None
    """Reports by area and week with the paper's duplicates; only `as_published` reads them."""

    @property
    def n_incidents(self) -> int:
        """Number of reported incidents."""
        return len(self.area)

    @property
    def n_unmarked(self) -> int:
        """Incidents of which the source does not say whether they were reported again."""
        return 0 if self.is_unmarked is None else int(self.is_unmarked.sum())

    @property
    def n_areas(self) -> int:
        """Number of areas, with or without reports."""
        return self.n_reports.shape[0]

    @property
    def n_windows(self) -> int:
        """Number of windows that the dates touch."""
        return self.n_reports.shape[1]

    @property
    def n_days(self) -> float:
        """Days covered."""
        return float((self.date_to - self.date_from).days)

    @property
    def window(self) -> np.ndarray:
        """Window of every incident, by its first report."""
        return np.minimum(self.first_report_day // self.window_days, self.n_windows - 1).astype(
            np.int64
        )

    @property
    def informs_rate(self) -> np.ndarray:
        """Incidents whose exposure is long enough to say something about the reporting rate."""
        return (self.exposure_days > MIN_EXPOSURE_DAYS) & self.is_resident

    @property
    def is_resident(self) -> np.ndarray:
        """Incidents whose first report came from a resident."""
        return np.array([name != BY_AGENCY for name in self.patterns])[self.pattern]

    def incidents_by_window(self) -> np.ndarray:
        """Reported incidents, (n_areas, n_windows)."""
        flat = self.area.astype(np.int64) * self.n_windows + self.window
        counts = np.bincount(flat, self.weight, minlength=self.n_areas * self.n_windows)
        return counts.reshape(self.n_areas, self.n_windows)

    def take(self, rows: np.ndarray) -> ReportTable:
        """The same table with these rows (in this order); reports per window stay as they are."""
        return replace(
            self,
            area=self.area[rows],
            first_report_day=self.first_report_day[rows],
            n_further=self.n_further[rows],
            last_delay_days=self.last_delay_days[rows],
            exposure_days=self.exposure_days[rows],
            found_ended=self.found_ended[rows],
            called_until_days=self.called_until_days[rows],
            pattern=self.pattern[rows],
            weight=self.weight[rows],
            covariates={name: values[rows] for name, values in self.covariates.items()},
            is_unmarked=None if self.is_unmarked is None else self.is_unmarked[rows],
        )


def count_windows(date_from: date, date_to: date, window_days: int = WINDOW_DAYS) -> int:
    """Number of windows that [date_from, date_to) touches."""
    n_days = (date_to - date_from).days
    if n_days <= 0:
        raise InputError(
            f"The dates run from {date_from} to {date_to}, which is no day at all; the second must "
            "be later."
        )
    if window_days < 1:
        raise InputError(
            f"A window of {window_days} days was given; it must hold at least one day, e.g. 28d."
        )
    return -(-n_days // window_days)


def reports_from_records(
    records: Records,
    domain: str,
    areas: Areas,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    max_exposure_days: float = MAX_EXPOSURE_DAYS,
    by_pattern: tuple[str, ...] = ("category", "severity"),
    link_continuing: bool = True,
    window_days: int = WINDOW_DAYS,
    least_of_pattern: int = MIN_PATTERN_INCIDENTS,
) -> ReportTable:
    """Collect the reported incidents of a domain first reported in [date_from, date_to).

    Exposure opens at the first report and closes at the earliest of the first visit, the closing,
    ``max_exposure_days`` later, and ``date_to``; nothing after ``date_to`` is read. A report whose
    source gives no incident is an incident of its own. With ``link_continuing`` a case that likely
    continues an earlier one of its building counts by the chance that it does not.
    """
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    date_from = date_from or records.window[0]
    date_to = date_to or records.window[1]
    n_windows = count_windows(date_from, date_to, window_days)
    rows = records.sql(
        _incidents_query(by_pattern),
        domain=domain,
        date_from=date_from,
        date_to=date_to,
        exposure_seconds=int(max_exposure_days * 86400),
    )
    if rows.num_rows == 0:
        raise EstimationError(
            f"No complaints of {domain!r} were received from {date_from} to {date_to}; choose "
            f"dates within {records.window[0]} to {records.window[1]}."
        )
    codes = rows["tract"].to_numpy(zero_copy_only=False)
    area, known = areas.match(codes)
    counts = records.sql(
        _REPORTS_QUERY,
        domain=domain,
        date_from=date_from,
        date_to=date_to,
        window_days=window_days,
    )
    n_reports, n_duplicates = _reports_by_window(counts, areas, n_windows)
    weight, count_sd, notes = np.ones(int(known.sum())), np.zeros(areas.n_areas), ()
    links = used_links(records, domain)
    if links is not None and links.share > MANY_UNMARKED:
        # A rule links what agrees, so within its cases everything does: nothing to compare with.
        link_continuing, notes = False, (LINKED_ALIKE,)
    if link_continuing:
        names = rows["incident"].to_numpy(zero_copy_only=False)[known]
        found = find_continuing(records, domain, names, date_to, areas)
        weight, count_sd, notes = found.is_first, found.count_sd, (found.note,)
    patterns, pattern = group_patterns(
        rows["pattern"].to_numpy(zero_copy_only=False)[known], least_of_pattern
    )

    def column(name: str) -> np.ndarray:
        return rows[name].to_numpy(zero_copy_only=False)[known]

    left_out = {"the tract is not in the tracts table": int((~known).sum())}
    return ReportTable(
        area=area[known],
        first_report_day=column("first_report_day").astype(np.float64),
        n_further=column("n_further").astype(np.int64),
        last_delay_days=column("last_delay_days").astype(np.float64),
        exposure_days=column("exposure_days").astype(np.float64),
        found_ended=column("found_ended").astype(bool),
        called_until_days=np.minimum(column("called_until_days"), column("exposure_days")),
        pattern=pattern,
        patterns=patterns,
        weight=weight,
        count_sd=count_sd,
        n_reports=n_reports,
        n_duplicates=n_duplicates,
        date_from=date_from,
        date_to=date_to,
        window_days=window_days,
        left_out={reason: n for reason, n in left_out.items() if n},
        notes=(*notes, *_unmarked_note(column("is_unmarked").astype(bool))),
        is_unmarked=column("is_unmarked").astype(bool),
        links=links,
        weekly=weekly_from_records(records, domain, areas, date_from, date_to),
    )


def _unmarked_note(is_unmarked: np.ndarray) -> tuple[str, ...]:
    """What is to be said where the source does not mark the duplicates of many incidents."""
    share = is_unmarked.mean() if len(is_unmarked) else 0.0
    if share <= MANY_UNMARKED:
        return ()
    return (
        f"Duplicates are not marked for {share:.0%} of the cases, which count as reported once: "
        "rates and shares reported come out too low as far as those were reported again.",
    )


def _incidents_query(by: tuple[str, ...]) -> LiteralString:
    """SQL: one row per reported incident, with its exposure and the reports within it.

    A duplicate's own closing is clerical, so only closings of other classes end the exposure.
    """
    between: LiteralString = f" || {literal(SEPARATOR)} || "
    parts = between.join(f"CAST(arg_min({identifier(name)}, heard) AS VARCHAR)" for name in by)
    kind = parts if by else literal("")
    is_agency = f"arg_min(channel, heard) = 'OTHER' THEN {literal(BY_AGENCY)}"
    pattern = f"CASE WHEN {is_agency} ELSE {kind} END"
    return f"""
WITH r AS (
  SELECT c.*, {CASE_ID} AS incident, c.received_at AS heard,
    o.first_visit_at, o.disposition_class,
    {SIZE_QUERY} AS size,
    LEAST(o.first_visit_at, CASE WHEN o.disposition_class <> 'duplicate' THEN o.closed_at END)
      AS ended,
    CASE WHEN o.disposition_class = 'no_violation' AND o.n_visits = 0 THEN o.closed_at END AS called
  FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
    LEFT JOIN buildings b ON b.building_id = c.building_id
  WHERE {KNOWN}
), i AS (
  SELECT incident, min(heard) AS opens, arg_min(tract, heard) AS tract, {pattern} AS pattern,
    GREATEST(min(heard), LEAST(min(ended), $date_to::TIMESTAMP,
      min(heard) + to_seconds($exposure_seconds))) AS closes,
    bool_and(incident_id IS NULL) AS is_unmarked, min(called) AS called, arg_min(CASE
      WHEN first_visit_at IS NOT NULL THEN date_trunc('day', first_visit_at)
      WHEN disposition_class IN ('other', 'referral') THEN heard ELSE $date_to::TIMESTAMP END,
      heard) AS called_until
  FROM r GROUP BY incident HAVING min(heard) >= $date_from::TIMESTAMP
)
SELECT i.incident, any_value(i.tract) AS tract, any_value(i.pattern) AS pattern,
  any_value(i.is_unmarked) AS is_unmarked,
  epoch(any_value(i.opens) - $date_from::TIMESTAMP) / 86400.0 AS first_report_day,
  epoch(any_value(i.closes) - any_value(i.opens)) / 86400.0 AS exposure_days,
  count(*) FILTER (WHERE r.heard <= i.closes) - 1 AS n_further,
  epoch(max(r.heard) FILTER (WHERE r.heard <= i.closes) - any_value(i.opens)) / 86400.0
    AS last_delay_days,
  COALESCE(any_value(i.called) <= any_value(i.closes), false) AS found_ended,
  GREATEST(epoch(any_value(i.called_until) - any_value(i.opens)) / 86400.0, 0) AS called_until_days
FROM i JOIN r USING (incident) GROUP BY i.incident ORDER BY i.incident"""


WINDOW_QUERY = "date_diff('day', $date_from::TIMESTAMP, received_at) // $window_days"
"""SQL for the window that a report falls into."""

_REPORTS_QUERY = f"""
WITH r AS (
  SELECT tract, received_at,
    row_number() OVER (PARTITION BY {CASE_ID}
      ORDER BY received_at, complaint_id) > 1 AS is_duplicate
  FROM complaints c WHERE {KNOWN}
)
SELECT tract, {WINDOW_QUERY} AS "window",
  count(*) AS n_reports, count(*) FILTER (WHERE is_duplicate) AS n_duplicates
FROM r WHERE received_at >= $date_from::TIMESTAMP GROUP BY ALL ORDER BY ALL"""


def group_patterns(
    names: np.ndarray, least: int = MIN_PATTERN_INCIDENTS
) -> tuple[tuple[str, ...], np.ndarray]:
    """Distinct patterns and the index of every row's; levels that are rare become one."""
    found, index = np.unique(names.astype(str), return_inverse=True)
    count = np.bincount(index)
    factors = [name.split(SEPARATOR) for name in found]
    n_factors = max((len(part) for part in factors), default=0)
    for factor in range(n_factors):
        levels: dict[str, int] = {}
        for part, n in zip(factors, count, strict=True):
            if part != [BY_AGENCY]:
                levels[part[factor]] = levels.get(part[factor], 0) + int(n)
        for part in factors:
            if part != [BY_AGENCY] and levels[part[factor]] < least:
                part[factor] = OTHER_PATTERN
    merged, again = np.unique([SEPARATOR.join(part) for part in factors], return_inverse=True)
    return tuple(str(name) for name in merged), again[index]


def _reports_by_window(counts, areas: Areas, n_windows: int) -> tuple[np.ndarray, np.ndarray]:
    area, known = areas.match(counts["tract"].to_numpy(zero_copy_only=False))
    window = counts["window"].to_numpy(zero_copy_only=False).astype(np.int64)
    shape = (areas.n_areas, n_windows)
    totals = []
    for name in ("n_reports", "n_duplicates"):
        total = np.zeros(shape)
        values = counts[name].to_numpy(zero_copy_only=False).astype(np.float64)
        np.add.at(total, (area[known], window[known]), values[known])
        totals.append(total)
    return totals[0], totals[1]
