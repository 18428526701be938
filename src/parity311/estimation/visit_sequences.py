"""What visits tell of how incidents end: to one case, and to the cases that follow at a building.

To one case. After a wait of w days an incident is still there with chance exp(−w / lifetime).
Somebody opens with one chance while it is there and with another once it is over, so that dropping
visits without access would keep too many that were still there; both are fitted. Of what is there a
share, by severity code, is written up. With A, D the chances that the first visit gets in (there,
over), B, E those of the second, s₁, s₂ the chances to last, and c the share written up:

    found s₁Ac,  nothing s₁A(1−c) + (1−s₁)D,  nobody opened s₁(1−A) + (1−s₁)(1−D),

and after a door that stayed shut, with g = (s₁−s₂)(1−A) + (1−s₁)(1−D) the chance that it is over,
found s₂(1−A)Bc,  nothing s₂(1−A)B(1−c) + gE,  shut again s₂(1−A)(1−B) + g(1−E).

Waits count from the first report: how they are scheduled follows code and category, not what was
heard later. That there was no further report before the visit would itself hint at an end.

At a building. A visit that writes a violation up ends the incident; one that does not leaves it to
end by itself, and people may report it again. So after visits that found nothing further cases come
sooner than after those that found something, by as much as incidents go on. The excess fades at
least as fast as incidents end, and faster, because who reports again mostly does so soon: it says
how long they last at least, and no more. What the next visit then finds tells what the first let
pass. With f the share of live incidents written up and w the share of what is actionable that is, a
second look at an incident that is still there finds it with chance f(1 − w) / (1 − f), however much
chances differ between incidents; a look at a new incident with chance f.

After a violation all that follows is new: that is the background, in bins of days, up to a factor.
The agency's marks do not say which case is which, and nobody's truth is read.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import numpy as np

from parity311.records.cases import cases, column, numbered, reports
from parity311.records.schema import SEVERITIES
from parity311.records.sql import literal
from parity311.records.store import Records

FOUND, NOTHING, SHUT_THEN_FOUND, SHUT_THEN_NOTHING, SHUT_TWICE, SHUT = range(6)
"""What the first two visits brought; SHUT: no second one was made."""

RIDGE = 1.0
"""Precision of the belief that a code, a category, or an end makes no difference to log odds: one
pseudo-observation of unit variance a coefficient, as in `parity311.engines.table.scores`."""

N_DOORS = 3
"""Coefficients on doors that no category has of its own: first visit, second visit, and how much
less they open once it is over."""


TOLERANCE = 1e-7
"""Relative change of the log likelihood that ends a fit: a few ten-thousandths of its units."""


class Sequences(NamedTuple):
    """First visits to cases, with a second one where the door stayed shut; (n,) each."""

    code: np.ndarray
    """severity code of the first report, 0 = A … 3 = D"""
    category: np.ndarray
    """code of the complaint"""
    first_days: np.ndarray
    """from the first report to the first visit"""
    second_days: np.ndarray
    """from the first report to the second visit; that to the first where there was none"""
    result: np.ndarray
    """FOUND … SHUT"""

    def take(self, rows: np.ndarray) -> Sequences:
        """These rows of all columns."""
        return Sequences(*(part[rows] for part in self))


def read_sequences(slug: str, records: Records, date_from: date, date_to: date) -> Sequences:
    """Visits before `date_to` to the cases first reported in [date_from, date_to)."""
    rows = records.sql(_VISITS_QUERY, domain=slug, date_from=date_from, date_to=date_to)
    first_days = np.maximum(column(rows, "first_days"), 0.0)
    second_days = column(rows, "second_days")
    has_second = np.isfinite(second_days)
    return Sequences(
        code=column(rows, "code", np.int64),
        category=rows["category"].to_numpy(zero_copy_only=False),
        first_days=first_days,
        second_days=np.where(has_second, np.maximum(second_days, first_days), first_days),
        result=column(rows, "result", np.int64),
    )


_SHUT = literal(SHUT_THEN_FOUND)
_NUMBERS = {"violation": FOUND, "no_access": SHUT_THEN_FOUND}
_VISITS_QUERY = f"""
WITH own AS ({reports()}
), cases AS ({cases("severity", "category")} HAVING min(received_at) >= $date_from::TIMESTAMP
), made AS (
  SELECT complaint_id, visited_at, attempt,
    {numbered("result", _NUMBERS, NOTHING)} AS number
  FROM visits WHERE visited_at < $date_to::TIMESTAMP AND attempt <= 2
)
SELECT {numbered("k.severity", SEVERITIES, len(SEVERITIES) - 1)} AS code,
  k.category,
  epoch(a.visited_at - k.began) / 86400.0 AS first_days,
  CASE WHEN a.number = {_SHUT} THEN epoch(b.visited_at - k.began) / 86400.0
    END AS second_days,
  CASE WHEN a.number <> {_SHUT} THEN a.number
    WHEN b.number IS NULL THEN {literal(SHUT)} ELSE {_SHUT} + b.number END AS result
FROM cases k JOIN made a ON a.complaint_id = k.complaint_id AND a.attempt = 1
  LEFT JOIN made b ON b.complaint_id = k.complaint_id AND b.attempt = 2
ORDER BY k.began, k.complaint_id"""


def profile_likelihood(seen: Sequences, grid_days: np.ndarray) -> np.ndarray:
    """Log likelihood of every lifetime of a grid (n,), the other chances at their best."""
    # Here, because a machine that only trains has no scipy.
    from scipy.optimize import minimize

    codes = _indicators(seen.code)
    doors = _indicators(seen.category)
    design = np.column_stack([np.ones(len(seen.code)), codes, doors])
    start = np.zeros(design.shape[1] + N_DOORS + doors.shape[1])
    found = np.empty(len(grid_days))
    # From the longest down, each from the last one's answer: neighbours hardly differ.
    for place in np.argsort(-grid_days):
        lasting = tuple(
            np.exp(-days / grid_days[place]) for days in (seen.first_days, seen.second_days)
        )
        best = minimize(
            _penalised,
            start,
            (seen.result, lasting, design, doors),
            method="L-BFGS-B",
            jac=True,
            options={"ftol": TOLERANCE},
        )
        start, found[place] = best.x, -best.fun
    return found


def _indicators(number: np.ndarray) -> np.ndarray:
    return (number[:, None] == np.unique(number)).astype(np.float64)


def _penalised(
    beta: np.ndarray,
    result: np.ndarray,
    lasting: tuple[np.ndarray, ...],
    design: np.ndarray,
    doors: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Minus the penalised log likelihood and its gradient."""
    n_shares = design.shape[1]
    first, second, less = beta[n_shares : n_shares + N_DOORS]
    own = doors @ beta[n_shares + N_DOORS :]
    logits = (design @ beta[:n_shares], own + first, own + first - less, own + second)
    logits = (*logits, own + second - less)
    chances = [1.0 / (1.0 + np.exp(-np.clip(logit, -30.0, 30.0))) for logit in logits]
    value, slopes = _probability(result, lasting, *chances)
    value = np.maximum(value, 1e-12)
    # Slope of the log likelihood in each logit: share written up, then the four doors.
    pulls = [
        slope * chance * (1.0 - chance) / value
        for slope, chance in zip(slopes, chances, strict=True)
    ]
    share, there1, over1, there2, over2 = pulls
    gradient = np.concatenate(
        [
            design.T @ share,
            [(there1 + over1).sum(), (there2 + over2).sum(), -(over1 + over2).sum()],
            doors.T @ (there1 + over1 + there2 + over2),
        ]
    )
    weight = np.full(len(beta), RIDGE)
    weight[[0, n_shares, n_shares + 1]] = 1e-6
    loss = -np.log(value).sum() + 0.5 * (weight * beta**2).sum()
    return float(loss), weight * beta - gradient


def _probability(
    result: np.ndarray,
    lasting: tuple[np.ndarray, ...],
    share: np.ndarray,
    open1: np.ndarray,
    over1: np.ndarray,
    open2: np.ndarray,
    over2: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Probability of each case's result, and its slope in each of the five chances; (n,) each."""
    (s1, s2), zero = lasting, np.zeros(len(result))
    let_pass, shut1, ended = 1.0 - share, 1.0 - open1, s1 - s2
    gone = ended * shut1 + (1.0 - s1) * (1.0 - over1)

    def chosen(*columns: np.ndarray) -> np.ndarray:
        return np.choose(result, columns)

    value = chosen(
        s1 * open1 * share,
        s1 * open1 * let_pass + (1.0 - s1) * over1,
        s2 * shut1 * open2 * share,
        s2 * shut1 * open2 * let_pass + gone * over2,
        s2 * shut1 * (1.0 - open2) + gone * (1.0 - over2),
        s1 * shut1 + (1.0 - s1) * (1.0 - over1),
    )
    by_share, by_open2 = s1 * open1, s2 * shut1
    slopes = [
        chosen(by_share, -by_share, by_open2 * open2, -by_open2 * open2, zero, zero),
        chosen(
            s1 * share,
            s1 * let_pass,
            -s2 * open2 * share,
            -s2 * open2 * let_pass - ended * over2,
            -s2 * (1.0 - open2) - ended * (1.0 - over2),
            -s1,
        ),
        (1.0 - s1) * chosen(zero, zero + 1.0, zero, -over2, over2 - 1.0, zero - 1.0),
        by_open2 * chosen(zero, zero, share, let_pass, zero - 1.0, zero),
        gone * chosen(zero, zero, zero, zero + 1.0, zero - 1.0, zero),
    ]
    return value, slopes


EDGES_DAYS = np.array([0.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0, 365.0])
"""Edges of the bins in which the rate of new incidents is taken as steady."""
FACTOR_CASES = 30.0
"""Cases that the belief in an equal background after both kinds of visit is worth (assumed: known
to a fifth)."""
BIN_CASES = 2.0
"""Cases at the mean rate that are lent to every bin (assumed)."""
AGAIN_CASES, AGAIN_DAYS = 0.5, 25.0
"""Half a case in 25 days that an incident goes on: hardly a belief about how often it is reported
again (assumed)."""
FADING_LIVES = np.geomspace(1.0, 1.0 / 16.0, 12)
"""Lifetimes in which the excess may fade, all alike beforehand (assumed)."""
N_ROUNDS = 60
"""Rounds after which background and excess are told apart."""
SHARE_CASES = 20.0
"""Cases at its category's share written up that are lent to a severity code (assumed)."""


class FurtherCases(NamedTuple):
    """Cases looked into and closed, and the next one at the same building; (n,) each."""

    category: np.ndarray
    """code of the complaint"""
    code: np.ndarray
    """severity code, 0 = A … 3 = D"""
    is_found: np.ndarray
    looked_days: np.ndarray
    """from the first report to the look"""
    closed_days: np.ndarray
    """from the look to the closing"""
    watched_days: np.ndarray
    """from the closing to the next case, or as long as was watched, a year at most"""
    is_followed: np.ndarray
    next_code: np.ndarray
    next_looked_days: np.ndarray
    """from the next case's first report to its look; NaN where nobody looked"""
    is_next_found: np.ndarray

    def take(self, rows: np.ndarray) -> FurtherCases:
        """These rows of all columns."""
        return FurtherCases(*(part[rows] for part in self))


def read_further(slug: str, records: Records, date_from: date, date_to: date) -> FurtherCases:
    """Cases first reported from `date_from` on, looked into and closed before `date_to`."""
    rows = records.sql(_FURTHER_QUERY, domain=slug, date_from=date_from, date_to=date_to)
    next_days, until = column(rows, "next_days"), column(rows, "until_days")
    is_followed = np.isfinite(next_days) & (next_days < EDGES_DAYS[-1])
    watched = np.where(is_followed, next_days, np.minimum(until, EDGES_DAYS[-1]))
    found = FurtherCases(
        category=rows["category"].to_numpy(zero_copy_only=False),
        code=column(rows, "code", np.int64),
        is_found=column(rows, "is_found") > 0,
        looked_days=np.maximum(column(rows, "looked_days"), 0.0),
        closed_days=np.maximum(column(rows, "closed_days"), 0.0),
        watched_days=watched,
        is_followed=is_followed,
        next_code=np.nan_to_num(column(rows, "next_code"), nan=0.0).astype(np.int64),
        next_looked_days=column(rows, "next_looked_days"),
        is_next_found=column(rows, "is_next_found") > 0,
    )
    # A case that came before the closing is another incident, or a mark that was missed.
    return found.take(watched > 0.0)


_CODE = numbered("k.severity", SEVERITIES, len(SEVERITIES) - 1)
_FURTHER_QUERY = f"""
WITH own AS ({reports()}
), cases AS ({cases("severity", "category", "building_id")}
), looks AS (
  SELECT complaint_id, min(visited_at) FILTER (WHERE result <> 'no_access') AS looked_at,
    max(CAST(result = 'violation' AS INT)) AS is_found
  FROM visits WHERE visited_at < $date_to::TIMESTAMP GROUP BY complaint_id
), known AS (
  SELECT k.category, {_CODE} AS code, k.building_id, k.began, v.looked_at, v.is_found,
    CASE WHEN o.closed_at < $date_to::TIMESTAMP THEN o.closed_at END AS closed_at
  FROM cases k LEFT JOIN looks v USING (complaint_id) LEFT JOIN outcomes o USING (complaint_id)
  WHERE k.building_id IS NOT NULL
), followed AS (
  SELECT *, lead(began) OVER place AS next_at, lead(code) OVER place AS next_code,
    lead(looked_at) OVER place AS next_looked_at, lead(is_found) OVER place AS is_next_found
  FROM known WINDOW place AS (PARTITION BY building_id, category ORDER BY began)
)
SELECT category, code, is_found, next_code, COALESCE(is_next_found, 0) AS is_next_found,
  epoch(looked_at - began) / 86400.0 AS looked_days,
  epoch(closed_at - looked_at) / 86400.0 AS closed_days,
  epoch(next_at - closed_at) / 86400.0 AS next_days,
  epoch($date_to::TIMESTAMP - closed_at) / 86400.0 AS until_days,
  epoch(next_looked_at - next_at) / 86400.0 AS next_looked_days
FROM followed
WHERE looked_at IS NOT NULL AND closed_at IS NOT NULL AND began >= $date_from::TIMESTAMP
ORDER BY began, building_id"""


def follow_likelihood(
    seen: FurtherCases, grid_days: np.ndarray, grid_written: np.ndarray
) -> np.ndarray:
    """Log likelihood of mean lifetimes and shares written up, (n_days, n_written).

    How soon cases follow speaks against lifetimes shorter than the excess takes to fade; what is
    found at the next one for a share.
    """
    found = np.empty((len(grid_days), len(grid_written)))
    for number, lifetime in enumerate(grid_days):
        fading = lifetime * FADING_LIVES
        each = np.stack([_at_lifetime(seen, lifetime, days, grid_written) for days in fading])
        peak = each.max(axis=0)
        found[number] = peak + np.log(np.exp(each - peak).mean(axis=0))
    return found


class WentOn(NamedTuple):
    """What came after visits that wrote nothing up."""

    n_there: float
    """incidents that were still there"""
    n_followed: float
    """of which a further case came"""


def count_followed(seen: FurtherCases, lifetime_days: float) -> WentOn:
    """Incidents that were there and not written up, and how many came back as a further case.

    Over the ways in which the excess may fade, as likely as each is.
    """
    goes_on = _goes_on(seen, _share_if_there(seen, lifetime_days), lifetime_days)
    fits = [_tell_apart(seen, goes_on, lifetime_days * lives) for lives in FADING_LIVES]
    weight = np.array([fit.likelihood for fit in fits])
    weight = np.exp(weight - weight.max())
    same = np.array([fit.is_same.sum() for fit in fits])
    return WentOn(float(goes_on.sum()), float(weight @ same / weight.sum()))


def _goes_on(seen: FurtherCases, share: np.ndarray, lifetime_days: float) -> np.ndarray:
    """Chance that each was there and not written up, given what was found, (n,)."""
    lasting, own = np.exp(-seen.looked_days / lifetime_days), share[seen.code]
    return np.where(seen.is_found, 0.0, lasting * (1.0 - own) / (1.0 - lasting * own))


def _at_lifetime(
    seen: FurtherCases, lifetime_days: float, fading_days: float, written: np.ndarray
) -> np.ndarray:
    share = _share_if_there(seen, lifetime_days)
    fit = _tell_apart(seen, _goes_on(seen, share, lifetime_days), fading_days)
    is_looked = seen.is_followed & ~seen.is_found & np.isfinite(seen.next_looked_days)
    asked, same = seen.take(is_looked), fit.is_same[is_looked]
    late = np.exp(-np.maximum(asked.next_looked_days, 0.0) / lifetime_days)
    first, fresh = share[asked.code], share[asked.next_code]
    again = first[:, None] / (1.0 - first[:, None]) * (1.0 - written)
    chance = (1.0 - same)[:, None] * fresh[:, None] + same[:, None] * again
    chance = np.clip(late[:, None] * chance, 1e-6, 1.0 - 1e-6)
    marks = np.where(asked.is_next_found[:, None], np.log(chance), np.log1p(-chance))
    return fit.likelihood + marks.sum(axis=0)


def _share_if_there(seen: FurtherCases, lifetime_days: float) -> np.ndarray:
    """Share written up of what is still there, by severity code (4,), lent the category's."""
    lasting = np.exp(-seen.looked_days / lifetime_days)
    n = np.bincount(seen.code, lasting, minlength=len(SEVERITIES))
    hits = np.bincount(seen.code, seen.is_found, minlength=len(SEVERITIES))
    whole = seen.is_found.sum() / max(lasting.sum(), 1.0)
    return np.clip((hits + SHARE_CASES * whole) / (n + SHARE_CASES), 0.01, 0.95)


class Parted(NamedTuple):
    """Background and excess told apart."""

    likelihood: float
    is_same: np.ndarray
    """(n,) chance that a case followed that is about the same incident"""


def _tell_apart(seen: FurtherCases, goes_on: np.ndarray, fading_days: float) -> Parted:
    """Fit the rates of new incidents and of further reports, by rounds of telling them apart."""
    ends = np.minimum(seen.watched_days[:, None], EDGES_DAYS[1:])
    watched = ends - np.minimum(seen.watched_days[:, None], EDGES_DAYS[:-1])
    after = [watched[rows].sum(axis=0) for rows in (seen.is_found, ~seen.is_found)]
    faded = [
        np.exp(-days / fading_days)
        for days in (seen.closed_days, seen.closed_days + seen.watched_days)
    ]
    exposure = fading_days * float(goes_on @ (faded[0] - faded[1]))
    came = seen.is_followed
    place = np.searchsorted(EDGES_DAYS[1:-1], seen.watched_days[came], side="right")
    is_nothing, at_event = ~seen.is_found[came], (goes_on * faded[1])[came]
    mean = (len(place) + 1.0) / (watched.sum() + 1.0)
    rate, factor, again = np.full(len(after[0]), mean), 1.0, mean
    new = is_same = np.zeros(len(place))
    for _ in range(N_ROUNDS):
        new = rate[place] * np.where(is_nothing, factor, 1.0)
        is_same = again * at_event / (new + again * at_event)
        again = (AGAIN_CASES + is_same.sum()) / (AGAIN_DAYS + exposure)
        fresh = (1.0 - is_same)[is_nothing].sum()
        factor = (FACTOR_CASES + fresh) / (FACTOR_CASES + rate @ after[1])
        counts = np.bincount(place, 1.0 - is_same, minlength=len(rate))
        rate = (counts + BIN_CASES) / (after[0] + factor * after[1] + BIN_CASES / mean)
    new = rate[place] * np.where(is_nothing, factor, 1.0)
    likelihood = np.log(new + again * at_event).sum() - again * exposure
    likelihood -= rate @ (after[0] + factor * after[1])
    # What was lent is part of the belief that the rounds climb.
    likelihood += AGAIN_CASES * np.log(again) - AGAIN_DAYS * again
    likelihood += FACTOR_CASES * (np.log(factor) - factor)
    likelihood += BIN_CASES * (np.log(rate / mean) - rate / mean).sum()
    same = np.zeros(len(goes_on))
    same[came] = is_same
    return Parted(float(likelihood), same)
