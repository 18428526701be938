"""The paper's three rollback conditions as lights, on what was recorded since a policy decides.

(a) disparity beyond the baseline by a margin; (b) fewer defects found than by today's rule, which
works beside it on a logged share of the visits; (c) staff friction beyond a threshold. Each is an
e-process, so that looking daily raises no false alarm; the three share one error a year. A light
turns amber before it turns red, amber goes out only when the evidence is well gone, and red stays
until a named person lets the policy decide again: the evidence then begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from parity311.audit.betting import YEAR_DAYS, capital, start_anew
from parity311.audit.sequence import gap_sequence
from parity311.errors import InputError
from parity311.mdp.contract import N_KNOWN_STRATA

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"
DISPARITY, DETECTION, FRICTION = "disparity", "detection", "friction"
ROLLING_DAYS = 60
"""Days over which detection is compared with today's rule."""
BOUND_SLACK = 1e-9


@dataclass(frozen=True)
class LightSpec:
    """What trips, written down before a policy decides."""

    alpha: float = 0.05
    """chance of any false alarm in a year without a fault, over all three lights"""
    gap_margin: float = 0.05
    """by how much the gap may exceed the baseline's"""
    detection_margin: float = 0.0
    """by how much the share of visits that find something may lie below today's rule's"""
    most_overrides: float = 0.3
    """share of recommendations that staff may set aside"""
    most_friction: float = 0.5
    """mean of the staff survey, 0 (none) to 1"""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            highest = 0.5 if name == "alpha" else 1.0
            lowest = 0.0 if name == "detection_margin" else 1e-6
            if not lowest <= value <= highest:
                raise InputError(
                    f"{name} is {value}; allowed is {lowest:g} to {highest:g}. Change it."
                )

    @property
    def limit(self) -> float:
        """Evidence at which a light turns red."""
        return 3.0 / self.alpha

    @property
    def warns(self) -> float:
        """Evidence at which it turns amber."""
        return float(np.sqrt(self.limit))


FADES = 2.0
"""Evidence below which amber goes out."""


@dataclass(frozen=True)
class Light:
    """One condition as it stands."""

    name: str
    state: str
    """green, amber, red, or grey where it cannot be judged"""
    evidence: float
    """e-value at the last look"""
    limit: float
    value: float
    """what is measured now"""
    threshold: float
    """what it is held against"""
    words: str
    tripped_on: date | None = None
    path: tuple[tuple[date, float], ...] = ()
    """evidence by look"""


def follow(evidence: np.ndarray, is_met: np.ndarray, spec: LightSpec) -> tuple[str, int | None]:
    """State after the last look, and the look at which it turned red.

    ``is_met`` (T,) says at which looks the condition itself holds: evidence of a time long gone
    does not trip.
    """
    state = GREEN
    for look, (value, holds) in enumerate(zip(evidence.tolist(), is_met.tolist(), strict=True)):
        if value >= spec.limit and holds:
            return RED, look
        if value >= spec.warns and holds:
            state = AMBER
        elif value < FADES or not holds:
            state = GREEN
    return state, None


def grey(name: str, why: str, spec: LightSpec, threshold: float) -> Light:
    """A light that cannot be judged, and why."""
    return Light(name, GREY, 0.0, spec.limit, float("nan"), threshold, why)


def disparity_light(
    served: np.ndarray,
    need: np.ndarray,
    stratum: np.ndarray,
    *,
    baseline: float,
    months: Sequence[date],
    spec: LightSpec,
) -> Light:
    """(a) The gap of coverage by month and tract, against the baseline's and a margin.

    Parameters
    ----------
    served, need
        (months, n_tracts) cases served, and incidents by the estimate at release.
    stratum
        (n_tracts,) 0 to 4; others are left out.
    baseline
        Largest gap before the policy decided.
    """
    threshold = min(baseline + spec.gap_margin, 0.99)
    known = np.where((stratum >= 0) & (stratum < N_KNOWN_STRATA), stratum, -1)
    n = len(served)
    paths = np.zeros((max(n, 1), n))
    for first in range(n):
        found = gap_sequence(
            served[first:], need[first:], known, n_strata=N_KNOWN_STRATA, tau=threshold
        )
        paths[first, first:] = found.e_value
    if not n:
        return grey(DISPARITY, "no month is on record since", spec, threshold)
    whole = gap_sequence(served, need, known, n_strata=N_KNOWN_STRATA, tau=threshold)
    gap = float(whole.estimate[-1])
    # Months to come keep their share of the stake.
    padded = np.concatenate([paths, np.ones((max(12 - n, 0), n))])
    evidence = start_anew(padded, np.arange(len(padded)))
    if np.isnan(gap):
        return grey(DISPARITY, "too few cases since to compare strata", spec, threshold)
    state, at = follow(evidence, np.nan_to_num(whole.estimate) > baseline, spec)
    words = (
        f"the gap is {100 * gap:.1f} points since; the baseline was {100 * baseline:.1f}, and "
        f"{100 * spec.gap_margin:.3g} more are allowed"
    )
    path = tuple(zip(months, evidence.tolist(), strict=True))
    return Light(
        DISPARITY, state, float(evidence[-1]), spec.limit, gap, threshold, words,
        None if at is None else months[at], path,
    )  # fmt: skip


@dataclass(frozen=True)
class Slots:
    """Visits whose order was drawn, in order, (n,) each."""

    day: np.ndarray
    """from 0 on"""
    is_todays: np.ndarray
    """whether the visit was left to today's rule"""
    chance: np.ndarray
    """with which it went where it went"""
    is_found: np.ndarray
    """whether it found a violation"""


def detection_light(slots: Slots, *, since: date, n_days: int, spec: LightSpec) -> Light:
    """(b) What a visit finds in the policy's order and in today's, on the same days."""
    threshold = -spec.detection_margin
    left = np.where(slots.is_todays, slots.chance, 1.0 - slots.chance)
    is_drawn = (left > 0.0) & (left < 1.0)
    if not is_drawn.any():
        why = "no visit was left to today's rule; recommend with --left-to-today"
        return grey(DETECTION, why, spec, threshold)
    day, todays = slots.day[is_drawn], slots.is_todays[is_drawn]
    found, chance = slots.is_found[is_drawn].astype(float), left[is_drawn]
    usual = _usual_before(found, day, n_days)
    # Weighted by the chance of its order, each visit estimates today's less the policy's share.
    sign = np.where(todays, 1.0 / chance, -1.0 / (1.0 - chance))
    behind = (found - usual) * sign
    low = -1.0 / float(np.minimum(chance, 1.0 - chance).min()) - BOUND_SLACK
    mean = spec.detection_margin
    evidence = capital(behind, day, mean=mean, low=low, n_days=n_days)
    rolling = _rolling(behind, day, n_days)
    state, at = follow(evidence, rolling > mean, spec)
    is_recent = bool((day >= n_days - ROLLING_DAYS).any())
    lead = -float(rolling[-1]) if is_recent else float("nan")
    shares = [_share(found, todays == which) for which in (False, True)]
    recent = f"the lead is {100 * lead:+.1f} points" if is_recent else "no visit was drawn"
    words = (
        f"a visit finds something in {shares[0]} of the policy's and {shares[1]} of those left to "
        f"today's rule; over the last {ROLLING_DAYS} days {recent}"
    )
    days = [since + timedelta(days=n) for n in range(n_days)]
    path = tuple(zip(days, evidence.tolist(), strict=True))
    return Light(
        DETECTION, state, float(evidence[-1]), spec.limit, lead, threshold, words,
        None if at is None else days[at], path,
    )  # fmt: skip


def friction_light(
    overridden: np.ndarray,
    decided: np.ndarray,
    *,
    survey: np.ndarray | None = None,
    survey_day: np.ndarray | None = None,
    since: date,
    spec: LightSpec,
) -> Light:
    """(c) The share of recommendations set aside by day, (n_days,), and what staff say of it.

    ``survey`` holds answers from 0 to 1 with their day; days on which nobody decided say nothing.
    """
    n_days = len(decided)
    threshold = spec.most_overrides
    paths, is_over, said = [], [], []
    if decided.sum() > 0:
        day = np.flatnonzero(decided > 0)
        share = overridden[day] / decided[day]
        paths.append(capital(share, day, mean=spec.most_overrides, low=0.0, n_days=n_days))
        is_over.append(_rolling(share, day, n_days) > spec.most_overrides)
        total = overridden.sum() / decided.sum()
        said.append(f"{total:.0%} of {int(decided.sum()):,} recommendations were set aside")
    if survey is not None and len(survey):
        assert survey_day is not None
        paths.append(capital(survey, survey_day, mean=spec.most_friction, low=0.0, n_days=n_days))
        is_over.append(_rolling(survey, survey_day, n_days) > spec.most_friction)
        said.append(f"{len(survey)} answers of staff average {survey.mean():.2f}")
    if not paths:
        return grey(FRICTION, "no log of overrides and no survey were given", spec, threshold)
    evidence = np.mean(paths, axis=0)
    state, at = follow(evidence, np.any(is_over, axis=0), spec)
    days = [since + timedelta(days=n) for n in range(n_days)]
    value = float(overridden.sum() / decided.sum()) if decided.sum() else float("nan")
    if not decided.sum() and survey is not None:
        value = float(survey.mean())
    limits = f"allowed are {spec.most_overrides:.0%} and {spec.most_friction:.2f}"
    return Light(
        FRICTION, state, float(evidence[-1]), spec.limit, value, threshold,
        f"{'; '.join(said)}; {limits}", None if at is None else days[at],
        tuple(zip(days, evidence.tolist(), strict=True)),
    )  # fmt: skip


def _usual_before(found: np.ndarray, day: np.ndarray, n_days: int) -> np.ndarray:
    """(n,) share found on the days before each visit's; a half before there is any."""
    hits = np.bincount(day, found, minlength=n_days).cumsum()
    seen = np.bincount(day, minlength=n_days).cumsum()
    before = np.where(day > 0, day - 1, 0)
    n = np.where(day > 0, seen[before], 0)
    return np.where(n > 0, np.where(day > 0, hits[before], 0.0) / np.maximum(n, 1), 0.5)


def _rolling(values: np.ndarray, day: np.ndarray, n_days: int) -> np.ndarray:
    """(n_days,) mean over the last `ROLLING_DAYS`; 0 where there is nothing."""
    total = np.concatenate([[0.0], np.bincount(day, values, minlength=n_days).cumsum()])
    count = np.concatenate([[0.0], np.bincount(day, minlength=n_days).cumsum()])
    first = np.maximum(np.arange(n_days) + 1 - ROLLING_DAYS, 0)
    n = count[1:] - count[first]
    return np.divide(total[1:] - total[first], n, out=np.zeros(n_days), where=n > 0)


def _share(found: np.ndarray, use: np.ndarray) -> str:
    return f"{found[use].mean():.0%} of {int(use.sum()):,}" if use.any() else "none"


def days_of_year(since: date, until: date) -> tuple[date, int]:
    """First day of the year of evidence that is under way, and its days so far.

    Every year from ``since`` on has the same error of its own; what is older has had its year. The
    last day is the one before ``until``: a year is looked at whole before the next begins.
    """
    passed = max((until - since).days - 1, 0)
    first = since + timedelta(days=(passed // YEAR_DAYS) * YEAR_DAYS)
    return first, (until - first).days


def worst(lights: Sequence[Light]) -> str:
    """The gravest state: what is done about a policy."""
    states = [one.state for one in lights]
    return next((one for one in (RED, AMBER) if one in states), GREEN)


def without_path(light: Light) -> Light:
    """The same without its history, for printing."""
    return replace(light, path=())
