"""Cities that are not as estimators assume: worlds to try an estimate in, none to tune it to.

The generator's own form is also the estimators': incidents last an exponential time, people report
at a steady rate, marks of duplicates are exact. A figure that is right only there says nothing of
another city. Every world here departs in one respect, by so much that it matters; lifetimes of
another law have the same mean, and reports that fade are as many where lifetimes are exponential.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gamma
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from parity311.city.process import ComplaintProcess
from parity311.errors import unknown_name

LifetimeLaw: TypeAlias = Literal["exponential", "gamma", "lognormal", "weibull"]

GAMMA_SHAPE = 4.0
"""Shape of Gamma lifetimes: few end soon (reviewed as a departure that misleads)."""
LOGNORMAL_SD = 1.0
"""Sd of the logarithm of lognormal lifetimes: some last very long."""
WEIBULL_SHAPE = 0.7
"""Shape of Weibull lifetimes: what has lasted tends to last."""
TRUST_STEP = 0.1
"""Weight of one more case in how far a tract believes that somebody will come (assumed)."""


@dataclass(frozen=True)
class Readiness:
    """How readily people report something that has lasted for a while, incident by incident.

    The rate is that of the tract, times `boost` at first and falling from there, so that as many
    reports are expected of an exponential lifetime as at a steady rate.
    """

    fading_days: NDArray[np.float64] | None = None
    """(n,) days in which the rate falls to 1/e; None: it is steady"""
    boost: float = 1.0

    def take(self, index: NDArray[np.int64]) -> Readiness:
        """Of the incidents at these positions."""
        days = None if self.fading_days is None else self.fading_days[index]
        return Readiness(days, self.boost)

    def wait(self, steady_days: NDArray[np.float64]) -> NDArray[np.float64]:
        """Days (n,) in which as much is said as in so many at the steady rate; or never."""
        if self.fading_days is None:
            return steady_days
        said = np.minimum(steady_days / (self.boost * self.fading_days), 1.0)
        with np.errstate(divide="ignore"):
            return -self.fading_days * np.log1p(-said)

    def days_between(
        self, began: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Days (n,) at the steady rate that are worth those from low to high."""
        if self.fading_days is None:
            return high - low
        falls = lambda time: np.exp(-(time - began) / self.fading_days)  # noqa: E731
        return self.boost * self.fading_days * (falls(low) - falls(high))

    def time_between(
        self,
        share: NDArray[np.float64],
        began: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Time (n,) by which this share of what is said from low to high has been said."""
        if self.fading_days is None:
            return low + share * (high - low)
        until = self.days_between(began, began, low)
        return began + self.wait(until + share * self.days_between(began, low, high))


STEADY = Readiness()


@dataclass(frozen=True)
class Departure:
    """In what a city departs from what estimators assume; by default in nothing."""

    name: str
    says: str
    """in words, to stand behind "a city where" """
    fading: float | None = None
    """mean lifetimes in which the rate of reports falls to 1/e; None: it does not fall"""
    lifetime_laws: tuple[LifetimeLaw, ...] = ("exponential",)
    """law of the lifetimes of categories, in turn"""
    writing: float | None = None
    """chance that the median inspector writes up what is actionable; None: the domain's own"""
    reaction: float = 0.0
    """share of reports that are not made where nobody ever comes"""
    ties_inspectors: bool = False
    """whether an inspector works in tracts of their own"""
    missed_marks: float = 0.0
    """share of duplicates that nobody marks: they look like cases of their own"""
    one_disposition: bool = False
    """whether only the last visit of a case is on record"""

    def apply(self, process: ComplaintProcess) -> ComplaintProcess:
        """The domain's declaration as it is in this world."""
        if self.writing is None:
            return process
        return replace(process, service=replace(process.service, writing=self.writing))

    def draw_lifetimes(
        self, generator: np.random.Generator, category: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """Lifetimes (n,) of mean one, by category (n,)."""
        life = generator.standard_exponential(len(category))
        for number, law in enumerate(self.lifetime_laws):
            chosen = category % len(self.lifetime_laws) == number
            if law != "exponential":
                life[chosen] = _draw_law(generator, law, int(chosen.sum()))
        return life


def _draw_law(generator: np.random.Generator, law: LifetimeLaw, n: int) -> NDArray[np.float64]:
    """Draws (n,) of mean one."""
    if law == "gamma":
        return generator.standard_gamma(GAMMA_SHAPE, n) / GAMMA_SHAPE
    if law == "lognormal":
        return np.exp(LOGNORMAL_SD * generator.standard_normal(n) - 0.5 * LOGNORMAL_SD**2)
    if law == "weibull":
        return generator.weibull(WEIBULL_SHAPE, n) / gamma(1.0 + 1.0 / WEIBULL_SHAPE)
    return generator.standard_exponential(n)


DEFAULT = Departure("default", "everything is as estimators assume")
WORLDS = {
    world.name: world
    for world in (
        DEFAULT,
        Departure("fading", "people report less the longer it lasts", fading=1.0),
        Departure("gamma", "few incidents end soon", lifetime_laws=("gamma",)),
        Departure("lognormal", "some incidents last very long", lifetime_laws=("lognormal",)),
        Departure(
            "mixed",
            "how long incidents last follows another law in each category",
            lifetime_laws=("exponential", "gamma", "lognormal"),
        ),
        Departure("lenient", "inspectors write up half of what they find", writing=0.55),
        Departure("strict", "inspectors write up nearly all they find", writing=0.90),
        Departure("discouraged", "people report less where nobody came", reaction=0.5),
        Departure("districts", "every inspector has tracts of their own", ties_inspectors=True),
        Departure("unmarked", "a quarter of the duplicates are not marked", missed_marks=0.25),
        Departure("one_disposition", "only a case's last visit is on record", one_disposition=True),
        Departure(
            "unseen",
            "reports fade slowly, what has lasted tends to last, and a tenth of the duplicates is "
            "not marked",
            fading=3.0,
            lifetime_laws=("weibull",),
            missed_marks=0.1,
        ),
    )
}
"""Worlds by name. `unseen` is kept for the last look: nothing may be tuned in it."""


def get_departure(name: str) -> Departure:
    """Return the world of this name, or say which there are."""
    if name not in WORLDS:
        raise unknown_name("world", name, WORLDS)
    return WORLDS[name]
