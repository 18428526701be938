"""How long an incident lasts when the city does nothing: an assumption, always spelled out.

Reports tell how fast people report while an incident is open. How many incidents nobody reported
depends on how long incidents live, which reports alone do not show; so every count is given under
a named law, and its text is printed beside the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from parity311.errors import InputError, unknown_name

LAWS = ("exponential", "fixed")
BAND = (0.5, 2.0)
"""Factors on the mean lifetime that span the sensitivity band by default: half to double, the
error that studies of reporting delay cannot exclude without inspections."""


@dataclass(frozen=True)
class Lifetime:
    """A law of natural lifetimes (until repair or until it ends by itself, without the city)."""

    law: str = "exponential"
    mean_days: float | None = None
    """Mean in days; None: estimated from how reports thin out after the first one."""
    log_sd: float = 0.0
    """Standard deviation of the belief about log(mean); 0: taken as certain."""
    by_pattern: Mapping[str, float] = field(default_factory=dict)
    """Mean in days of intake patterns (categories) that differ from ``mean_days``."""
    origin: str = "estimated"
    """known (from the truth of a synthetic city or a study), assumed, or estimated."""

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise unknown_name("lifetime law", self.law, LAWS)
        if self.mean_days is not None and not (np.isfinite(self.mean_days) and self.mean_days > 0):
            raise InputError(
                f"A mean lifetime of {self.mean_days!r} days was given; it must be a positive "
                "number of days. Leave it out to have it estimated."
            )
        if self.law == "fixed" and self.mean_days is None:
            raise InputError(
                "A fixed lifetime needs its length, e.g. fixed:14; only the exponential law can be "
                "estimated from reports."
            )

    @property
    def is_estimated(self) -> bool:
        """Whether the mean is estimated from the reports."""
        return self.mean_days is None

    def scaled(self, factor: float) -> Lifetime:
        """The same law with its mean multiplied, for the sensitivity band."""
        if self.mean_days is None:
            raise InputError(
                "An estimated lifetime has no mean to scale before it is fitted; fit it first."
            )
        means = {name: days * factor for name, days in self.by_pattern.items()}
        return replace(self, mean_days=self.mean_days * factor, by_pattern=means, origin="assumed")

    def describe(self, fitted_mean_days: float | None = None) -> str:
        """The assumption in words, as it is printed with every number."""
        if self.law == "fixed":
            return (
                f"Assumes that every incident lasts {self.mean_days:.3g} days unless the city "
                f"ends it ({self.origin})."
            )
        mean = self.mean_days if self.mean_days is not None else fitted_mean_days
        length = "an estimated mean" if mean is None else f"a mean of {mean:.3g} days"
        how = {
            "known": "known",
            "assumed": "assumed",
            "estimated": "estimated from how reports thin out after the first one",
        }[self.origin]
        return (
            f"Assumes that incidents end by themselves at a constant rate, with {length} ({how}); "
            "incidents nobody reported are inferred from it, not seen."
        )


def exponential(mean_days: float, *, origin: str = "assumed", log_sd: float = 0.0) -> Lifetime:
    """Incidents end at a constant rate, 1/mean a day."""
    return Lifetime("exponential", mean_days, log_sd, origin=origin)


def fixed(days: float, *, origin: str = "assumed") -> Lifetime:
    """Every incident lasts the same number of days."""
    return Lifetime("fixed", days, origin=origin)


def estimated() -> Lifetime:
    """Exponential with the mean estimated from the thinning of reports after the first one."""
    return Lifetime()


def parse_lifetime(text: str) -> Lifetime:
    """Read ``estimated``, ``exponential:12`` or ``fixed:7`` (days)."""
    name, _, days = text.strip().partition(":")
    if name == "estimated" and not days:
        return estimated()
    if name not in LAWS:
        raise unknown_name("lifetime", name, ("estimated", "exponential:DAYS", "fixed:DAYS"))
    try:
        mean_days = float(days)
    except ValueError:
        raise InputError(
            f"The lifetime {text!r} gives no number of days; write it like {name}:14."
        ) from None
    return Lifetime(name, mean_days, origin="assumed")
