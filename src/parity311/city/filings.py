"""Filings: equipment that its owner must have inspected and file every year, found in order or not.

A boiler that had a defect last year is likely to have one again; the longer ago, the less. Owners
who neglect a building have more defects, file late and sometimes not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from parity311.city.clock import day_number, month_bounds
from parity311.city.incidents import nearest_year
from parity311.city.process import FilingProcess
from parity311.city.randomness import again_names, named_generator
from parity311.city.setting import CitySetting

_BINS = 41
_ROUNDS = 200
_DEFECT_DAYS_BEFORE = 180.0
"""A defect began at most this long before the inspection that could find it (assumed)."""
OFFICE_HOURS = (9.0, 17.0)
_MOST_FILED = 0.985
"""Share of registered boilers that can be filed at most (assumed)."""


@dataclass(frozen=True)
class DefectChain:
    """Chance of a defect by years since the last one, for boilers of different proneness."""

    edges: NDArray[np.float64]
    """(n_bins − 1,) bounds of proneness between bins."""
    shift: NDArray[np.float64]
    """(memory + 1,) log odds at state k = years since the last defect; 0: none remembered."""
    stationary: NDArray[np.float64]
    """(n_bins, memory + 1) long-run share of years in each state."""

    @property
    def memory(self) -> int:
        """Years after which a defect is forgotten."""
        return len(self.shift) - 1

    def chance(
        self, proneness: NDArray[np.float64], state: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Chance of a defect this year."""
        return expit(self.shift[state] + proneness)

    def draw_states(
        self, generator: np.random.Generator, proneness: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Draw states in which the chain is at rest."""
        which = np.searchsorted(self.edges, proneness)
        cumulative = np.cumsum(self.stationary, axis=1)[which]
        return (
            (generator.random(len(proneness))[:, None] > cumulative)
            .sum(axis=1)
            .clip(max=self.memory)
        )

    def advance(
        self, state: NDArray[np.int64], is_defective: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """States a year later."""
        older = np.where((state > 0) & (state < self.memory), state + 1, 0)
        return np.where(is_defective, 1, older)


def fit_chain(process: FilingProcess, proneness: NDArray[np.float64]) -> DefectChain:
    """Find log odds by state such that the declared chances hold over all boilers at rest.

    The chance where no defect is remembered follows from the overall share of defects.
    """
    memory = process.memory_years
    table = process.defect_after_years
    target = np.interp(np.arange(1, memory + 1), list(table), list(table.values()))
    points = np.quantile(proneness, (np.arange(_BINS) + 0.5) / _BINS)
    edges = np.quantile(proneness, np.arange(1, _BINS) / _BINS)
    shift = np.concatenate([[logit(0.015)], logit(target)])
    stationary = np.zeros((_BINS, memory + 1))
    for _ in range(_ROUNDS):
        (outside, external), (inside, internal) = _internal_effects(process)
        log_odds = shift[None, :] + points[:, None]
        chance = outside * expit(log_odds + external) + inside * expit(log_odds + internal)
        survival = np.cumprod(1.0 - chance[:, 1:], axis=1)
        years = np.column_stack([np.ones(_BINS), survival])
        in_state = np.column_stack([years[:, -1] / chance[:, 0], years[:, :-1]])
        stationary = in_state / in_state.sum(axis=1, keepdims=True)
        share = (stationary * chance).sum(axis=1).mean()
        seen = (stationary * chance)[:, 1:].mean(axis=0) / stationary[:, 1:].mean(axis=0)
        shift[1:] += 0.5 * (logit(target) - logit(seen))
        shift[0] += 0.5 * (logit(process.defect_share) - logit(share))
    return DefectChain(edges, shift, stationary)


def _internal_effects(process: FilingProcess) -> tuple[tuple[float, float], tuple[float, float]]:
    """Shares and log odds of filings after an external and an internal inspection."""
    share, effect = process.internal_share, process.internal_log_odds
    return (1.0 - share, -effect * share), (share, effect * (1.0 - share))


@dataclass(frozen=True)
class Filings:
    """Boiler-years as arrays of one length, filed or not, in order of date."""

    boiler: NDArray[np.int64]
    building: NDArray[np.int32]
    time: NDArray[np.float64]
    """When it was, or would have been, filed."""
    is_filed: NDArray[np.bool_]
    is_defective: NDArray[np.bool_]
    defect_chance: NDArray[np.float64]
    """Chance of a defect before anybody looked: what a label is drawn with."""
    defect_chance_given_fees: NDArray[np.float64]
    """The same for who already knows the late fees, which a defect makes likelier."""
    is_high_pressure: NDArray[np.bool_]
    is_internal: NDArray[np.bool_]
    late_45: NDArray[np.bool_]
    late_180: NDArray[np.bool_]
    began: NDArray[np.float64]
    """When the defect began (defective ones only)."""
    natural_end: NDArray[np.float64]
    hazard_index: NDArray[np.float64]


def draw_filings(
    process: FilingProcess,
    setting: CitySetting,
    first: date,
    *,
    replicate: int = 0,
    again_from: date | None = None,
) -> Filings:
    """Draw every registered boiler's years from ``first`` to the city's last day.

    ``replicate`` draws the years that begin on or after ``again_from`` anew; 0 is the city's own.
    """
    buildings = setting.buildings
    building = np.repeat(np.arange(buildings.n, dtype=np.int32), buildings.boilers)
    generator = named_generator(setting.seed, process.slug, "registry")
    is_high = generator.random(len(building)) < process.high_pressure_share
    tract_score = generator.standard_normal(setting.tracts.n)
    tract = buildings.tract[building]
    age = (1970 - buildings.year_built[building]) / 50.0
    proneness = (
        process.neglect_sd * setting.neglect[building]
        + process.tract_sd * tract_score[tract]
        + process.age_slope * (age - age.mean())
        + process.high_pressure_log_odds * is_high
    )
    chain = fit_chain(process, proneness)
    state = chain.draw_states(generator, proneness)
    readiness = (
        process.filed_neglect_slope * setting.neglect[building]
        + process.filed_english_slope * setting.standardised("share_limited_english")[tract]
        + setting.log_reporting_effect(process.slug)[tract]
    )
    years = []
    for year in range(process.first_year, setting.date_to.year + 1):
        is_anew = again_from is not None and date(year, 1, 1) >= again_from
        names = (process.slug, "year", year, *again_names(replicate if is_anew else 0))
        drawn, state = _draw_year(
            named_generator(setting.seed, *names),
            process, setting, year, building, is_high, chain, proneness, state, readiness,
        )  # fmt: skip
        if year >= first.year:
            years.append(drawn)
    every = {name: np.concatenate([part[name] for part in years]) for name in years[0]}
    inside = (every["time"] >= day_number(first)) & (every["time"] < day_number(setting.date_to))
    order = np.flatnonzero(inside)[np.argsort(every["time"][inside], kind="stable")]
    return Filings(**{name: values[order] for name, values in every.items()})


def _draw_year(
    generator: np.random.Generator,
    process: FilingProcess,
    setting: CitySetting,
    year: int,
    building: NDArray[np.int32],
    is_high: NDArray[np.bool_],
    chain: DefectChain,
    proneness: NDArray[np.float64],
    state: NDArray[np.int64],
    readiness: NDArray[np.float64],
) -> tuple[dict[str, NDArray], NDArray[np.int64]]:
    """One year of every boiler, and the states after it."""
    n = len(building)
    is_internal = generator.random(n) < process.internal_share
    (_, external), (_, internal) = _internal_effects(process)
    seen = np.where(is_internal, internal, external)
    defect_chance = chain.chance(proneness + seen, state)
    is_defective = generator.random(n) < defect_chance
    share = nearest_year(process.filings, year) * setting.scale / max(n, 1)
    chance = expit(readiness + _intercept(readiness, min(share, _MOST_FILED)))
    is_filed = generator.random(n) < chance
    time = _draw_dates(generator, process, year, n)
    late = process.late_neglect_slope * setting.neglect[building]
    fees = (
        (late + logit(process.late_45_share), process.late_45_log_odds),
        (late + logit(process.late_180_share), process.late_180_log_odds),
    )
    late_45, late_180 = (
        generator.random(n) < expit(without + effect * is_defective) for without, effect in fees
    )
    known = _update_chance(defect_chance, fees, (late_45, late_180))
    drawn = {
        "boiler": np.arange(n),
        "building": building,
        "time": time,
        "is_filed": is_filed,
        "is_defective": is_defective,
        "defect_chance": defect_chance,
        "defect_chance_given_fees": known,
        "is_high_pressure": is_high,
        "is_internal": is_internal,
        "late_45": late_45,
        "late_180": late_180,
        "began": time - _DEFECT_DAYS_BEFORE * generator.random(n),
        "natural_end": time + process.repair_days * generator.standard_exponential(n),
        "hazard_index": generator.standard_normal(n) + 0.5 * is_high,
    }
    return drawn, chain.advance(state, is_defective)


def _update_chance(
    chance: NDArray[np.float64],
    fees: tuple[tuple[NDArray[np.float64], float], ...],
    is_late: tuple[NDArray[np.bool_], ...],
) -> NDArray[np.float64]:
    """Chance of a defect given whether each fee was charged (Bayes; fees independent given it)."""
    log_odds = logit(np.clip(chance, 1e-12, 1.0 - 1e-12))
    for (without, effect), late in zip(fees, is_late, strict=True):
        charged, spared = expit(without + effect), expit(without)
        ratio = np.where(late, charged / spared, (1.0 - charged) / (1.0 - spared))
        log_odds = log_odds + np.log(ratio)
    return expit(log_odds)


def _intercept(readiness: NDArray[np.float64], share: float) -> float:
    """Log odds that give the wanted mean chance."""
    low, high = -15.0, 15.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        mean = float(expit(readiness + middle).mean())
        low, high = (middle, high) if mean < share else (low, middle)
    return 0.5 * (low + high)


def _draw_dates(
    generator: np.random.Generator, process: FilingProcess, year: int, n: int
) -> NDArray[np.float64]:
    """Filing dates over the year, in office hours."""
    shares = np.asarray(process.month_shares)
    month = np.searchsorted(np.cumsum(shares / shares.sum()), generator.random(n), "right")
    bounds = np.array([month_bounds(year, number) for number in range(1, 13)])
    first, last = bounds[np.minimum(month, 11)].T
    opening, closing = OFFICE_HOURS
    hour = opening + (closing - opening) * generator.random(n)
    return first + np.floor(generator.random(n) * (last - first)) + hour / 24.0
