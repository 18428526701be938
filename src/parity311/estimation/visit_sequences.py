"""What visits to a case found, one after the other, and how likely that is under a lifetime.

After a wait of w days an incident is still there with chance exp(−w / lifetime). Somebody opens
with one chance while it is there and with another once it is over, so that dropping visits without
access would keep too many that were still there; both are fitted. Of what is there a share, by
severity code and category, is written up. With A, D the chances that the first visit gets in
(there, over), B, E those of the second, s₁, s₂ the chances to last, and c the share written up:

    found s₁Ac,  nothing s₁A(1−c) + (1−s₁)D,  nobody opened s₁(1−A) + (1−s₁)(1−D),

and after a door that stayed shut, with g = (s₁−s₂)(1−A) + (1−s₁)(1−D) the chance that it is over,
found s₂(1−A)Bc,  nothing s₂(1−A)B(1−c) + gE,  shut again s₂(1−A)(1−B) + g(1−E).

Waits count from the first report: how they are scheduled follows code and category, not what was
heard later. That there was no further report before the visit would itself hint at an end.

How long incidents last, from two signs: what visits find after a wait, and further reports.

Further reports tell when an incident was still there (the calibration's estimate). That rests on a
model of who reports again which records cannot check; where rates differ between incidents reports
stop early, and lifetimes come out short. What visits find falls with the wait; waits follow code,
category and chance, which are known. So the visits' likelihood decides, and the calibration is a
belief beforehand that is worth as much as its errors allow.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import numpy as np

from parity311.records.cases import cases, column, numbered, reports
from parity311.records.schema import SEVERITIES
from parity311.records.sql import literal
from parity311.records.store import Records

GRID_DAYS = np.geomspace(2.0, 2000.0, 29)
"""Mean lifetimes that are tried; a factor of 1.28 apart."""

FINE_DAYS = np.geomspace(2.0, 2000.0, 561)
"""Those the belief is spread over: the likelihood is smooth, and read off a spline."""

CALIBRATED_SD = 0.7
"""Sd of the logarithm by which the calibration is off: the root mean square error, 0.70, in four
domains of nine small synthetic cities (seeds 7 and 501 to 508, measured participation)."""


class Belief(NamedTuple):
    """What is known of the mean lifetime."""

    mean_days: float
    log_sd: float
    """sd of its logarithm"""
    likeliest_days: float
    """by the visits alone"""


def believe_lifetime(
    seen: Sequences, calibrated_days: float, calibrated_sd: float = CALIBRATED_SD
) -> Belief:
    """Posterior of the mean lifetime: the visits' likelihood, the calibration as its prior.

    The mean of the days, not of their logarithm: what a visit in time saves is in proportion to
    how long an incident would have gone on, so this is what a planner who does not know it for
    sure should reckon with.
    """
    # Here, because a machine that only trains has no scipy.
    from scipy.interpolate import CubicSpline

    logs = np.log(FINE_DAYS)
    likelihood = CubicSpline(np.log(GRID_DAYS), profile_likelihood(seen, GRID_DAYS))(logs)
    prior = -0.5 * ((logs - np.log(calibrated_days)) / calibrated_sd) ** 2
    weight = np.exp(likelihood + prior - (likelihood + prior).max())
    weight /= weight.sum()
    spread = weight @ logs**2 - (weight @ logs) ** 2
    return Belief(
        mean_days=float(weight @ FINE_DAYS),
        log_sd=float(np.sqrt(max(spread, 0.0))),
        likeliest_days=float(FINE_DAYS[int(np.argmax(likelihood))]),
    )


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
    """numbered from 0"""
    first_days: np.ndarray
    """from the first report to the first visit"""
    second_days: np.ndarray
    """from the first report to the second visit; that to the first where there was none"""
    result: np.ndarray
    """FOUND … SHUT"""


def read_sequences(slug: str, records: Records, date_from: date, date_to: date) -> Sequences:
    """Visits before `date_to` to the cases first reported in [date_from, date_to)."""
    rows = records.sql(_QUERY, domain=slug, date_from=date_from, date_to=date_to)
    first_days = np.maximum(column(rows, "first_days"), 0.0)
    second_days = column(rows, "second_days")
    has_second = np.isfinite(second_days)
    return Sequences(
        code=column(rows, "code", np.int64),
        category=column(rows, "category", np.int64) - 1,
        first_days=first_days,
        second_days=np.where(has_second, np.maximum(second_days, first_days), first_days),
        result=column(rows, "result", np.int64),
    )


_SHUT = literal(SHUT_THEN_FOUND)
_NUMBERS = {"violation": FOUND, "no_access": SHUT_THEN_FOUND}
_QUERY = f"""
WITH own AS ({reports()}
), cases AS ({cases("severity", "category")} HAVING min(received_at) >= $date_from::TIMESTAMP
), made AS (
  SELECT complaint_id, visited_at, attempt,
    {numbered("result", _NUMBERS, NOTHING)} AS number
  FROM visits WHERE visited_at < $date_to::TIMESTAMP AND attempt <= 2
)
SELECT {numbered("k.severity", SEVERITIES, len(SEVERITIES) - 1)} AS code,
  dense_rank() OVER (ORDER BY k.category) AS category,
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
    return (number[:, None] == np.arange(int(number.max(initial=0)) + 1)).astype(np.float64)


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
