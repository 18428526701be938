"""A world: one domain in one place, the process as it is estimated and as it is scored.

Everything is estimated from what was received before a day, and scored on what came from it on. Of
a synthetic city that is its truth. Real records have none: policies are scored in the process as
all records give it, the later ones included. What nobody reported stays unknown, and so does what
would have been found where nobody looked. The report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.errors import EstimationError, InputError
from parity311.mdp.contract import Domain
from parity311.records.resampled import resample
from parity311.records.sql import literal
from parity311.records.store import Records, open_records

if TYPE_CHECKING:
    from parity311.estimation.correction import Correction

TRAIN_SHARE = 0.8
"""Share of a domain's complaints, earliest first, that policies learn from (the paper's split)."""
AS_RECORDED = "as recorded"
RECORDED = "recorded"
"""Stands for the scenario of records that come from no scenario."""
ESTIMATORS = ("exposure_rate", "as_published", "raw")
"""How incidents are counted: corrected for reporting, by the published formula, by complaints."""
ESTIMATOR = ESTIMATORS[0]
"""Used where nothing else is asked for."""


@dataclass(frozen=True)
class Scenario:
    """Which records a result is from, in words."""

    participation: str
    capacity: str

    @property
    def words(self) -> str:
        """For headings and tables."""
        if self.participation == RECORDED:
            return AS_RECORDED
        return f"{self.participation} participation, {self.capacity} capacity"


@dataclass(frozen=True)
class World:
    """One domain in one place. Params are made when they are first asked for.

    Whoever only trains asks for `estimated`, and the truth is never read.

    Examples
    --------
    >>> world.domain.slug, str(world.test_from)
    ('boiler', '2025-01-01')
    >>> world.correction.calibration.estimator
    'filings'
    >>> type(world.estimated) is type(world.scored) is boiler.play.params_type
    True
    """

    domain: Domain
    records: Records
    date_from: date
    """first day that is learned from"""
    date_to: date
    """day before which is learned"""
    test_from: date
    """first day that is scored: `date_to`, but where cases are split at random"""
    correction: Correction
    """what is known of the incidents behind the complaints, by each estimator"""

    @property
    def scenario(self) -> Scenario:
        """Of a synthetic city; real records have none."""
        return scenario_of(self.records)

    @cached_property
    def estimated(self) -> Any:
        """Params that policies learn in."""
        return self.estimate()

    @cached_property
    def others(self) -> Mapping[str, Any]:
        """The same params by every other estimator that could be fitted."""
        names = [name for name in self.correction.calibrations if name != self.correction.used]
        return {name: self.estimate(name) for name in names}

    @cached_property
    def true(self) -> Any:
        """Params of what really happened; an error for real records."""
        return self.truth()

    @cached_property
    def scored(self) -> Any:
        """Params that policies are scored in: the truth, or what all of the real records give."""
        if not self.records.is_real:
            return self.true
        last = self.records.window[1]
        return self.domain.estimate(self.records, self.correction.calibration, last)

    def estimate(self, estimator: str = "", **options: Any) -> Any:
        """Params by an estimator, the used one if empty, with a domain's own options."""
        calibration = self.correction.calibrations[estimator or self.correction.used]
        return self.domain.estimate(self.records, calibration, self.date_to, **options)

    @cached_property
    def unknowns(self) -> Callable[[int], dict[str, Any]]:
        """Options of `estimate` by the number of a draw of what the records leave open."""
        draw = self.domain.play.unknowns
        if draw is None:
            return lambda seed: {}
        return draw(self.records, self.date_from, self.date_to)

    def draws(self, n: int, seed: int = 0) -> list[Any]:
        """Params of so many further estimates, each from records with tracts drawn anew.

        What the records hardly tell (how incidents end) is drawn from the belief about it.
        """
        found = []
        for number in range(n):
            drawn = resample(self.records, self.domain.slug, seed + number)
            world = make_world(
                self.domain,
                drawn,
                date_from=self.date_from,
                date_to=self.date_to,
                estimators=(self.correction.used,),
            )
            found.append(world.estimate(**self.unknowns(seed + number)))
        return found

    def truth(self, **options: Any) -> Any:
        """True params with a domain's own options."""
        # The records themselves, not their folder: the truth has the strata they are grouped by.
        return self.domain.truth(self.records, self.test_from, **options)


def make_world(
    domain: Domain,
    records: Records,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    test_from: date | None = None,
    estimators: Sequence[str] = (ESTIMATOR,),
    chosen: str = "",
    may_fail: bool = False,
    tell: Callable[[int, int], None] | None = None,
) -> World:
    """Estimate the incidents behind a domain's complaints, and all that follows when asked for.

    Parameters
    ----------
    date_from
        First day to learn from; the records' first if not given.
    date_to
        Day before which to learn; `first_test_day` if not given.
    test_from
        First day to score on; `date_to` if not given.
    estimators
        How complaints become incidents, each fitted beside the others; the first one is used.
    chosen
        Where estimators may fail, the one to use: it must work.
    may_fail
        Whether an estimator may fail, as they do on real records: complaints as they are stand in
        for the usual one.
    tell
        Called with how many estimators are done, and of how many.

    Examples
    --------
    >>> world = parity311.make_world(boiler, records)
    >>> str(world.date_from), str(world.date_to)
    ('2023-01-01', '2025-01-01')
    """
    from parity311.estimation.correction import correct

    first = date_from or records.window[0]
    last = date_to or first_test_day(records, domain.slug)
    correction = correct(
        records, domain.slug, estimators, first, last, chosen=chosen, may_fail=may_fail, tell=tell
    )
    return World(domain, records, first, last, test_from or last, correction)


def params_for(
    domain: Domain,
    records: Path | None,
    until: date | None = None,
    estimator: str = ESTIMATOR,
) -> Any:
    """Params estimated from records before a day, or the domain's example where none are given.

    ``estimator`` says how complaints become incidents.
    """
    if records is None:
        return domain.play.example()
    return open_world(domain, records, until, estimator).estimated


def open_world(
    domain: Domain, records: Path | Records, until: date | None = None, estimator: str = ESTIMATOR
) -> World:
    """A domain in a records folder, to learn from what came before a day; all of it if not given.

    ``estimator`` says how complaints become incidents.
    """
    opened = open_records(records)
    first, last = opened.window
    if until is not None and not first < until <= last:
        raise InputError(
            f"{opened.folder} has records from {first} to {last}; {until} was given as the day "
            "before which to learn, choose one between them."
        )
    return make_world(domain, opened, date_to=until or last, estimators=(estimator,))


def scenario_of(records: Records) -> Scenario:
    """The scenario of a synthetic city; real records have none."""
    if records.is_real:
        return Scenario(RECORDED, RECORDED)
    return Scenario(records.manifest["participation"], records.manifest["capacity"])


def first_test_day(records: Records, domain: str) -> date:
    """The last year of a synthetic city is for testing, of real records the last fifth."""
    if records.is_real:
        return split_date(records, domain)
    last = records.window[1]
    return date(last.year - 1, last.month, last.day)


def split_date(records: Records, domain: str) -> date:
    """Day before which `TRAIN_SHARE` of a domain's complaints were received."""
    found = records.sql(
        f"SELECT quantile_disc(CAST(received_at AS DATE), {literal(TRAIN_SHARE)}) AS day "
        "FROM complaints WHERE domain = $domain",
        domain=domain,
    )
    day = found["day"][0].as_py()
    if day is None:
        raise EstimationError(
            f"{records.folder} has no complaint of {domain!r}; import some, or leave it out."
        )
    return day


def rows_used(records: Records, domain: str, test_from: date) -> dict[str, dict[str, Any]]:
    """Rows learned from, those of them the correction counts, and rows of the test period.

    How many, first and last day of each. Filings reach further back than the window of a city.
    """
    days = records.sql(
        "SELECT domain, CAST(received_at AS DATE) AS day, count(*) AS n FROM complaints "
        "GROUP BY ALL ORDER BY ALL"
    ).to_pylist()
    own = [row for row in days if row["domain"] == domain]
    parts = {
        "learned": [row for row in own if row["day"] < test_from],
        "corrected": [row for row in own if records.window[0] <= row["day"] < test_from],
        "tested": [row for row in own if row["day"] >= test_from],
    }
    return {
        part: {
            "complaints": sum(row["n"] for row in rows),
            "first": str(rows[0]["day"]) if rows else "",
            "last": str(rows[-1]["day"]) if rows else "",
        }
        for part, rows in parts.items()
    }
