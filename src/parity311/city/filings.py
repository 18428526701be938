"""Filings: equipment that its owner must have inspected and file every year, found in order or not.

A boiler that had a defect last year is likely to have one again; the longer ago, the less. Owners
who neglect a building have more defects, file late and sometimes not at all. Today's rule sends an
inspector to some filings, those with an earlier defect first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from parity311.city.clock import day_number, month_bounds
from parity311.city.incidents import nearest_year
from parity311.city.incumbent import Rule, WaitingCases, choose_visits
from parity311.city.process import FilingProcess
from parity311.city.randomness import named_generator
from parity311.city.setting import CitySetting

_BINS = 41
_ROUNDS = 200
_STAFFING_DAYS = 91
"""Visits follow the filings of the last quarter (assumed)."""
_DEFECT_DAYS_BEFORE = 180.0
"""A defect began at most this long before the inspection that could find it (assumed)."""
_OFFICE_HOURS = (9.0, 17.0)
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


@dataclass(frozen=True)
class FilingVisits:
    """What the agency did: per boiler-year, and one row a visit."""

    has_prior: NDArray[np.bool_]
    """Whether an earlier filing of the boiler showed a defect."""
    closed: NDArray[np.float64]
    outcome: NDArray[np.int8]
    """0 violation, 1 no violation, 2 no access, −1 not visited."""
    visit_time: NDArray[np.float64]
    propensity: NDArray[np.float64]
    n_waiting: NDArray[np.int64]
    n_slots: NDArray[np.int64]


def draw_filings(process: FilingProcess, setting: CitySetting, first: date) -> Filings:
    """Draw every registered boiler's years from ``first`` to the city's last day."""
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
        drawn, state = _draw_year(
            process, setting, year, building, is_high, chain, proneness, state, readiness
        )
        if year >= first.year:
            years.append(drawn)
    every = {name: np.concatenate([part[name] for part in years]) for name in years[0]}
    inside = (every["time"] >= day_number(first)) & (every["time"] < day_number(setting.date_to))
    order = np.flatnonzero(inside)[np.argsort(every["time"][inside], kind="stable")]
    return Filings(**{name: values[order] for name, values in every.items()})


def _draw_year(
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
    generator = named_generator(setting.seed, process.slug, "year", year)
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
    opening, closing = _OFFICE_HOURS
    hour = opening + (closing - opening) * generator.random(n)
    return first + np.floor(generator.random(n) * (last - first)) + hour / 24.0


def visit_filings(
    process: FilingProcess, setting: CitySetting, filings: Filings, rule: Rule
) -> FilingVisits:
    """Work the filings day by day with finite visits; what waits too long is put away unvisited."""
    n = len(filings.time)
    has_prior = _known_defects(filings)
    code = np.where(has_prior, 1, 2).astype(np.int8)
    result = FilingVisits(
        has_prior=has_prior,
        closed=filings.time + process.expiry_days,
        outcome=np.full(n, -1, np.int8),
        visit_time=np.full(n, np.inf),
        propensity=np.full(n, np.nan),
        n_waiting=np.zeros(n, np.int64),
        n_slots=np.zeros(n, np.int64),
    )
    if n == 0:
        return result
    per_filing = (
        process.scarce_visits_per_filing
        if setting.capacity == "scarce"
        else process.visits_per_filing
    )
    filed = np.flatnonzero(filings.is_filed)
    first_day, last_day = int(filings.time[0]), day_number(setting.date_to)
    edges = np.searchsorted(filings.time[filed], np.arange(first_day, last_day + 1))
    recent = np.full(_STAFFING_DAYS, len(filed) / max(last_day - first_day, 1))
    waiting = np.zeros(0, np.int64)
    for day in range(first_day, last_day):
        generator = named_generator(setting.seed, process.slug, "service", day)
        today = filed[edges[day - first_day] : edges[day - first_day + 1]]
        waiting = waiting[filings.time[waiting] > day - process.expiry_days]
        mean = per_filing * recent.mean() * 7.0 * process.weekday_slots[day % 7]
        n_slots = int(np.floor(mean + generator.random()))
        cases = _waiting(setting, filings, waiting, code, has_prior, day)
        choice = choose_visits(generator, rule(cases), n_slots)
        chosen = waiting[choice.position]
        result.n_waiting[chosen], result.n_slots[chosen] = len(waiting), n_slots
        result.propensity[chosen] = choice.propensity
        _look(generator, process, filings, result, day, chosen)
        stays = np.ones(len(waiting), dtype=np.bool_)
        stays[choice.position] = False
        # A filing can be visited from the day after it came in.
        waiting = np.concatenate([waiting[stays], today])
        recent[day % _STAFFING_DAYS] = len(today)
    return result


def _known_defects(filings: Filings) -> NDArray[np.bool_]:
    """Whether an earlier filing of the same boiler showed a defect."""
    shown = filings.is_filed & filings.is_defective
    order = np.lexsort((filings.time, filings.boiler))
    boiler, shows = filings.boiler[order], shown[order].astype(np.int64)
    before = np.cumsum(shows) - shows
    starts = np.flatnonzero(np.diff(boiler, prepend=-1))
    base = np.repeat(before[starts], np.diff(np.append(starts, len(boiler))))
    known = np.empty(len(boiler), dtype=np.bool_)
    known[order] = before > base
    return known


def _waiting(
    setting: CitySetting,
    filings: Filings,
    waiting: NDArray[np.int64],
    code: NDArray[np.int8],
    has_prior: NDArray[np.bool_],
    day: int,
) -> WaitingCases:
    building = filings.building[waiting]
    tract = setting.buildings.tract[building]
    prior = has_prior[waiting].astype(np.int32)
    return WaitingCases(
        day=day,
        severity=code[waiting],
        age_days=day - filings.time[waiting],
        category=np.zeros(len(waiting), np.int8),
        tract=tract,
        stratum=setting.tracts.income_quintile[tract],
        units=setting.buildings.units[building],
        n_attempts=np.zeros(len(waiting), np.int16),
        n_prior_cases=prior,
        n_prior_violations=prior,
        flags=np.column_stack([filings.is_high_pressure[waiting], filings.is_internal[waiting]]),
    )


def _look(
    generator: np.random.Generator,
    process: FilingProcess,
    filings: Filings,
    result: FilingVisits,
    day: int,
    chosen: NDArray[np.int64],
) -> None:
    n = len(chosen)
    opening, closing = _OFFICE_HOURS
    time = day + (opening + (closing - opening) * generator.random(n)) / 24.0
    let_in = generator.random(n) >= process.no_access
    is_alive = filings.is_defective[chosen] & (time < filings.natural_end[chosen])
    result.visit_time[chosen] = time
    result.outcome[chosen] = np.where(~let_in, 2, np.where(is_alive, 0, 1))
    delay = process.closing
    lag = delay.median_days * np.exp(delay.log_sd * generator.standard_normal(n))
    result.closed[chosen] = time + lag
