"""How long incidents last, from two signs: what visits find after a wait, and further reports.

Further reports tell when an incident was still there (the calibration's estimate). That rests on a
model of who reports again which records cannot check; where rates differ between incidents reports
stop early, and lifetimes come out short. What visits find falls with the wait; waits follow code,
category and chance, which are known. So the visits' likelihood decides, and the calibration is a
belief beforehand that is worth as much as its errors allow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.estimation.visit_sequences import Sequences, profile_likelihood

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
