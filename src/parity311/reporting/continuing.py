"""Cases that continue an earlier one: the agency closed it, the problem went on, somebody called.

An agency links reports to a case while the case is open. A problem that outlives its case is then
counted twice. Whether a case continues the last one of its building shows in what intake took
down: reports of one problem agree in category and code more often than reports of two problems.
How often they agree is known in both cases: from duplicates within a case, and from cases of one
building that were open at the same time. The chance of continuing follows by the mixture of both
(expectation-maximisation), given how the last case ended, how long ago, and the income quintile.

A mixture of pairs that are one problem and pairs that are two, by how they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit

from parity311.records.cases import CASE_ID, KNOWN
from parity311.records.store import Records
from parity311.reporting.areas import Areas

N_ROUNDS = 100
LEAST_INFORMATION = 0.1
MAX_STEP = 2.0
"""Newton steps use at least this share of the complete information and are no longer than this."""
RIDGE = 0.1
"""Precision of the N(0, 1/RIDGE) prior of the mixture's coefficients: keeps empty groups finite."""
N_POOLING_ROUNDS = 8
SD_START = 0.5
SD_RANGE = (0.05, 2.0)
"""Spread of log odds between areas: where the search starts, and its limits."""


def fit_prior(
    groups: list[np.ndarray], kind: np.ndarray, if_same: np.ndarray, if_other: np.ndarray
) -> np.ndarray:
    """Log odds, before looking at its agreement, that a pair is one problem.

    They are additive in indicators of the groups. Pairs that share all groups share them, so the
    work is done on those cells, whatever the number of pairs.

    Parameters
    ----------
    groups
        Labels of every pair: how the earlier case ended, gap, rank, income quintile.
    kind
        (n_pairs,) kind of agreement.
    if_same, if_other
        (n_pairs, 4) chance of each kind; the same for pairs that share all groups.
    """
    code = np.zeros(len(kind), dtype=np.int64)
    for group in groups:
        values, index = np.unique(group, return_inverse=True)
        code = code * len(values) + index
    _, one, cell = np.unique(code, return_index=True, return_inverse=True)
    columns = [np.ones(len(one))]
    for group in groups:
        columns += [(group[one] == value).astype(np.float64) for value in np.unique(group)]
    features = np.column_stack(columns)
    counts = np.bincount(4 * cell + kind, minlength=4 * len(one)).reshape(-1, 4)
    total = counts.sum(axis=1)
    if_same, if_other = if_same[one], if_other[one]
    weights = np.zeros(features.shape[1])
    weights[0] = -1.0
    for _ in range(N_ROUNDS):
        prior = expit(features @ weights)
        odds = prior[:, None] * if_same
        chance = odds / (odds + (1.0 - prior)[:, None] * if_other)
        complete = total * prior * (1.0 - prior)
        # What is missing from complete information slows EM down; most of it is taken off.
        missing = (counts * chance * (1.0 - chance)).sum(axis=1)
        bend = np.maximum(complete - missing, LEAST_INFORMATION * complete)
        information = features.T @ (bend[:, None] * features) + RIDGE * np.eye(len(weights))
        slope = features.T @ ((counts * chance).sum(axis=1) - total * prior) - RIDGE * weights
        step = np.linalg.solve(information, slope)
        weights = weights + step * min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-3:
            break
    return (features @ weights)[cell]


def pool_over_areas(
    logit: np.ndarray, log_ratio: np.ndarray, area: np.ndarray, n_areas: int
) -> tuple[np.ndarray, np.ndarray]:
    """Let the log odds differ between areas, N(0, sd²), as far as the pairs show it.

    Parameters
    ----------
    logit, log_ratio, area
        (n_pairs,) log odds before the agreement, log likelihood ratio of the agreement, area.

    Returns
    -------
    (n_pairs,) chance of one problem, and (n_areas,) standard deviation, from what is uncertain
    about an area's effect, of the number of its pairs that are one problem.
    """
    effects, sd = np.zeros(n_areas), SD_START
    information = np.zeros(n_areas)
    for _ in range(N_POOLING_ROUNDS):
        prior = expit(logit + effects[area])
        chance = expit(logit + effects[area] + log_ratio)
        slope = np.bincount(area, chance - prior, minlength=n_areas)
        bend = prior * (1.0 - prior) - chance * (1.0 - chance)
        information = np.maximum(np.bincount(area, bend, minlength=n_areas), 0.0)
        step = (slope - effects / sd**2) / (information + sd**-2)
        effects = effects + np.clip(step, -1.0, 1.0)
        seen = information > 0
        if seen.any():
            variance = effects[seen] ** 2 + 1.0 / (information[seen] + sd**-2)
            sd = float(np.clip(np.sqrt(variance.mean()), *SD_RANGE))
    chance = expit(logit + effects[area] + log_ratio)
    moved = np.bincount(area, chance * (1.0 - chance), minlength=n_areas)
    return chance, moved / np.sqrt(information + sd**-2)


GAP_EDGES_DAYS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
"""Gaps since an earlier case closed are told apart by doubling; longer ones are not looked at."""
MAX_GAP_DAYS = 128.0
N_EARLIER = 4
"""Cases of the building, last closed first, that a case may continue."""
MIN_PAIRS = 30
"""Agreement rates from fewer pairs are not believed: then every case is an incident of its own."""
MIN_CONTRAST = 0.02
"""Bits by which an agreement must tell one problem from two, or nothing can be said."""
UNTOLD = "Every case is taken as an incident of its own: intake does not tell them apart."


@dataclass(frozen=True)
class BuildingCases:
    """Cases of one domain with a building, in order of building and opening."""

    incident: pa.ChunkedArray
    building: np.ndarray
    """Number of the building."""
    opened_day: np.ndarray
    closed_day: np.ndarray
    """NaN while open."""
    ended: np.ndarray
    """Number of its disposition class."""
    is_violation: np.ndarray
    category: np.ndarray
    severity: np.ndarray
    area: np.ndarray
    quintile: np.ndarray
    """Income quintile of its area, 0 where unknown."""

    def agreement(self, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        """0: neither agrees, 1: the category, 2: the severity code, 3: both."""
        same_category = self.category[one] == self.category[two]
        return same_category + 2 * (self.severity[one] == self.severity[two]).astype(np.int64)


@dataclass(frozen=True)
class Continuing:
    """How likely each case is the first of its incident, and how that was told."""

    is_first: np.ndarray
    """(n_cases,) chance that a case does not continue an earlier one."""
    count_sd: np.ndarray
    """(n_areas,) standard deviation of the number of first cases of an area."""
    agree_if_same: np.ndarray
    """(6, 4) by income quintile: chance of each kind of agreement of two reports of one problem."""
    agree_if_other: np.ndarray
    """(6, 4) the same between two problems of one building."""
    note: str


def find_continuing(
    records: Records, domain: str, incident: np.ndarray, date_to: date, areas: Areas
) -> Continuing:
    """Chance that each case is the first of its incident.

    Parameters
    ----------
    incident
        (n,) identifiers of the cases asked for, sorted.
    areas
        For the income quintiles: intake is noisier in some places than in others, and where people
        report more they also call again more.
    """
    cases = read_cases(records, domain, date_to, areas)
    same = _duplicate_agreement(records, domain, date_to, areas)
    other = _concurrent_agreement(cases)
    is_first = np.ones(len(incident))
    is_told = min(same.sum(), other.sum()) >= MIN_PAIRS
    same, other = _rates(same), _rates(other)
    if not is_told or _contrast(same.mean(axis=0), other.mean(axis=0)) < MIN_CONTRAST:
        return Continuing(is_first, np.zeros(areas.n_areas), same, other, UNTOLD)
    later, earlier, rank = candidate_pairs(cases)
    found = pc.index_in(cases.incident, value_set=pa.array(incident))  # pyright: ignore[reportAttributeAccessIssue]
    place = found.fill_null(-1).to_numpy(zero_copy_only=False)[later]
    asked = place >= 0
    later, earlier, rank, place = (part[asked] for part in (later, earlier, rank, place))
    if not len(later):
        return Continuing(is_first, np.zeros(areas.n_areas), same, other, UNTOLD)
    gap_days = cases.opened_day[later] - cases.closed_day[earlier]
    quintile = cases.quintile[later]
    gap = np.searchsorted(GAP_EDGES_DAYS, gap_days)
    groups = [cases.ended[earlier], gap, rank, quintile, 6 * gap + quintile]
    kind = cases.agreement(later, earlier)
    log_ratio = np.log(same / other)[quintile, kind]
    logit = fit_prior(groups, kind, same[quintile], other[quintile])
    chance, spread = pool_over_areas(logit, log_ratio, cases.area[later], areas.n_areas)
    np.multiply.at(is_first, place, 1.0 - chance)
    # Chance of each case, and what is uncertain about the area's own effect.
    area = np.zeros(len(incident), dtype=np.int64)
    area[place] = cases.area[later]
    own = np.bincount(area, is_first * (1.0 - is_first), minlength=areas.n_areas)
    count_sd = np.sqrt(own + spread**2)
    note = f"{(1 - is_first).sum():.0f} of {len(incident)} cases are taken to continue another."
    return Continuing(is_first, count_sd, same, other, note)


def _rates(pairs: np.ndarray) -> np.ndarray:
    """Agreement rates by quintile; a quintile with few pairs leans on the city."""
    everywhere = (pairs.sum(axis=0) + 0.5) / (pairs.sum() + 2.0)
    return (pairs + MIN_PAIRS * everywhere) / (pairs.sum(axis=1, keepdims=True) + MIN_PAIRS)


def read_cases(records: Records, domain: str, date_to: date, areas: Areas) -> BuildingCases:
    """Cases that residents opened at a building before ``date_to``."""
    rows = records.sql(
        f"""
WITH r AS (
  SELECT c.*, {CASE_ID} AS incident, o.closed_at,
    o.disposition_class AS ended
  FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
  WHERE {KNOWN} AND c.building_id IS NOT NULL AND c.channel <> 'OTHER'
)
SELECT incident, any_value(building_id) AS building, arg_min(tract, received_at) AS tract,
  epoch(min(received_at)) / 86400 AS opened,
  epoch(max(closed_at) FILTER (WHERE ended <> 'duplicate')) / 86400 AS closed,
  arg_min(ended, received_at) AS ended, arg_min(category, received_at) AS category,
  arg_min(severity, received_at) AS severity
FROM r GROUP BY incident ORDER BY building, opened, incident""",
        domain=domain,
        date_to=date_to,
    )

    def codes(name: str) -> tuple[np.ndarray, list]:
        coded = rows[name].combine_chunks().dictionary_encode()
        return coded.indices.fill_null(-1).to_numpy(
            zero_copy_only=False
        ), coded.dictionary.to_pylist()

    tract, tracts = codes("tract")
    ended, classes = codes("ended")
    return BuildingCases(
        incident=rows["incident"],
        building=codes("building")[0].astype(np.int64),
        opened_day=rows["opened"].to_numpy(zero_copy_only=False).astype(np.float64),
        closed_day=rows["closed"].to_numpy(zero_copy_only=False).astype(np.float64),
        ended=ended,
        is_violation=np.array([name == "violation" for name in classes])[ended],
        category=codes("category")[0],
        severity=codes("severity")[0],
        area=areas.match(np.array(tracts, dtype=str))[0][tract],
        quintile=areas.quintile_of(np.array(tracts, dtype=str))[tract],
    )


def candidate_pairs(cases: BuildingCases) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs (case, earlier case of its building it may continue, rank by closing, 0 the last).

    A case that was written up as a violation ended its incident and cannot be continued.
    """
    closed = np.flatnonzero(np.isfinite(cases.closed_day) & ~cases.is_violation)
    closed = closed[np.lexsort((cases.closed_day[closed], cases.building[closed]))]
    # One sortable number per event: buildings lie further apart than any two times.
    span = float(np.nanmax(cases.closed_day) - np.min(cases.opened_day)) + 2.0 * MAX_GAP_DAYS + 1.0
    key = cases.building[closed] * span + cases.closed_day[closed]
    n_before = np.searchsorted(key, cases.building * span + cases.opened_day)
    pairs = []
    for rank in range(N_EARLIER):
        position = n_before - 1 - rank
        later = np.flatnonzero(position >= 0)
        earlier = closed[position[later]]
        near = cases.building[earlier] == cases.building[later]
        near &= cases.opened_day[later] - cases.closed_day[earlier] <= MAX_GAP_DAYS
        pairs.append((later[near], earlier[near], np.full(near.sum(), rank)))
    later, earlier, rank = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return later, earlier, rank


def _concurrent_agreement(cases: BuildingCases) -> np.ndarray:
    """(6, 4) pairs by quintile and agreement: a case and the one before it, still open then."""
    two = np.arange(1, len(cases.incident))
    one = two - 1
    together = (cases.building[one] == cases.building[two]) & (
        cases.closed_day[one] > cases.opened_day[two]
    )
    one, two = one[together], two[together]
    kind = 4 * cases.quintile[two] + cases.agreement(one, two)
    return np.bincount(kind, minlength=24).reshape(6, 4).astype(np.float64)


def _duplicate_agreement(records: Records, domain: str, date_to: date, areas: Areas) -> np.ndarray:
    """(6, 4) duplicates by quintile and agreement with the first report of their case."""
    rows = records.sql(
        """
WITH r AS (
  SELECT tract, category, severity,
    first_value(category) OVER w AS category_1, first_value(severity) OVER w AS severity_1,
    row_number() OVER w AS place
  FROM complaints WHERE domain = $domain AND incident_id IS NOT NULL AND channel <> 'OTHER'
    AND received_at < $date_to::TIMESTAMP
  WINDOW w AS (PARTITION BY incident_id ORDER BY received_at, complaint_id)
)
SELECT tract, CAST(category = category_1 AS INT) + 2 * CAST(severity = severity_1 AS INT) AS kind,
  count(*) AS n
FROM r WHERE place > 1 GROUP BY ALL ORDER BY ALL""",
        domain=domain,
        date_to=date_to,
    )
    quintile = areas.quintile_of(rows["tract"].to_numpy(zero_copy_only=False))
    kind = 4 * quintile + rows["kind"].to_numpy().astype(np.int64)
    found = np.bincount(kind, rows["n"].to_numpy().astype(np.float64), minlength=24)
    return found.reshape(6, 4)


def _contrast(same: np.ndarray, other: np.ndarray) -> float:
    """Jensen-Shannon divergence of the two agreement distributions, in bits."""
    middle = (same + other) / 2
    return float(np.sum(same * np.log2(same / middle) + other * np.log2(other / middle)) / 2)
