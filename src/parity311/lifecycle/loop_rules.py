"""Rules that learn from what they themselves looked at, and what may be done about that.

`PlaceRule` is the loop that the paper warns of: it goes where defects were found, takes what nobody
looked into, or nobody reported, for no defect, and so learns from its own choices. What
this project serves (`serving.playing`) tells complaints apart by kinds that say nothing of a place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.city.cases import NO_ACCESS, VIOLATION
from parity311.city.incumbent import Rule, WaitingCases
from parity311.city.simulate import SimulatedDomain
from parity311.mdp.contract import N_STRATA
from parity311.records.schema import SEVERITIES

MEMORY_DAYS = 365.0
"""Days of records that are learned from."""
SHRINKAGE = 20.0
"""Complaints of a tract and code that the code's mean counts for."""
MOST_WEIGHT = 50.0
"""Largest inverse chance of a visit that is used."""
SPARSE_DAYS = 60.0
"""Days over which escalations of a tract are recent."""


@dataclass(frozen=True)
class PlaceRule:
    """Visits go where most was found for each complaint."""

    chance: np.ndarray
    """(n_tracts, 4) share of complaints by tract and code in which a visit found a violation"""
    stratum: np.ndarray
    """(n_tracts,) 0 to 5"""
    prices: np.ndarray
    """(6,) by which share a stratum's chance counts for more"""

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case."""
        tract = waiting.tract.astype(np.int64)
        factor = 1.0 + self.prices[self.stratum[tract]]
        return self.chance[tract, waiting.severity.astype(np.int64)] * factor


@dataclass(frozen=True)
class BonusRule:
    """Another rule, with a bonus for tracts that nobody was sent to lately."""

    rule: Rule
    bonus: np.ndarray
    """(n_tracts,) from 0 to 1, in shares of the line that a case moves ahead"""
    share: float

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case: its place in line, and its tract's bonus."""
        priority = np.asarray(self.rule(waiting), np.float64)
        wanted = np.isfinite(priority)
        place = np.empty(waiting.n)
        place[np.argsort(priority, kind="stable")] = np.arange(waiting.n)
        moved = place / max(waiting.n, 1) + self.share * self.bonus[waiting.tract.astype(np.int64)]
        return np.where(wanted, moved, -np.inf)


def learn_places(
    worked: SimulatedDomain, day: int, *, by_household: bool, is_weighted: bool, prices: np.ndarray
) -> PlaceRule:
    """Make the rule from what is on record of the last year.

    ``by_household`` counts finds for each household instead of for each complaint: who reports less
    is found less, and is then visited less. ``is_weighted`` corrects for who was chosen: a find
    counts by one over the logged chance of its visit, beside all visits weighed alike.
    """
    agency, setting = worked.agency, worked.setting
    cases, log = agency.cases, agency.visits
    n_tracts, n_codes = setting.tracts.n, len(SEVERITIES)
    code_of = agency.reports.code[cases.report[: cases.n]].astype(np.int64)
    tract_of = setting.buildings.tract[cases.building[: cases.n]].astype(np.int64)
    case, time = log.collect("case", np.int64), log.collect("time", np.float64)
    result, chance = log.collect("result", np.int8), log.collect("propensity", np.float64)
    recent = (time >= day - MEMORY_DAYS) & (time < day) & (result != NO_ACCESS)
    case, found = case[recent], (result[recent] == VIOLATION).astype(np.float64)
    weight = np.minimum(1.0 / np.maximum(chance[recent], 1e-6), MOST_WEIGHT)
    at = tract_of[case] * n_codes + code_of[case]
    size = n_tracts * n_codes
    if is_weighted:
        hits = np.bincount(at, weight * found, minlength=size)
        seen = np.bincount(at, weight, minlength=size)
        # As many looks as the weights are worth.
        squares = np.bincount(at, weight**2, minlength=size)
        scale = np.divide(seen, squares, out=np.zeros(size), where=squares > 0)
        hits, seen = hits * scale, seen * scale
    else:
        received = cases.received[: cases.n]
        mine = (received >= day - MEMORY_DAYS) & (received < day)
        hits = np.bincount(at, found, minlength=size)
        seen = np.bincount((tract_of * n_codes + code_of)[mine], minlength=size).astype(float)
        if by_household:
            homes = setting.tracts.households / max(float(setting.tracts.households.mean()), 1e-9)
            usual = seen.reshape(n_tracts, n_codes).mean(axis=0)
            seen = (homes[:, None] * usual).reshape(size)
    hits, seen = hits.reshape(n_tracts, n_codes), seen.reshape(n_tracts, n_codes)
    mean = (hits.sum(axis=0) + 1.0) / (seen.sum(axis=0) + 10.0)
    learned = (hits + SHRINKAGE * mean) / (seen + SHRINKAGE)
    return PlaceRule(learned, setting.stratum, prices)


def sparse_bonus(worked: SimulatedDomain, day: int) -> np.ndarray:
    """(n_tracts,) 1 where nobody was sent lately, falling with the root of who was."""
    log, setting = worked.agency.visits, worked.setting
    case, time = log.collect("case", np.int64), log.collect("time", np.float64)
    recent = (time >= day - SPARSE_DAYS) & (time < day)
    tract = setting.buildings.tract[worked.agency.cases.building[case[recent]]]
    n = np.bincount(tract.astype(np.int64), minlength=setting.tracts.n)
    return 1.0 / np.sqrt(1.0 + n)


def move_prices(prices: np.ndarray, coverage: np.ndarray, step: float = 0.5) -> np.ndarray:
    """(6,) prices after a checkpoint: strata behind the mean coverage (5,) count for more."""
    known = np.nan_to_num(coverage, nan=float(np.nanmean(coverage)))
    mean = max(float(known.mean()), 1e-9)
    moved = prices[: len(known)] + step * (1.0 - known / mean)
    found = np.zeros(N_STRATA)
    found[: len(known)] = np.clip(moved - moved.mean(), -0.9, 3.0)
    return found
