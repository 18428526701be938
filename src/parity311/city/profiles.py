"""Profiles that several domains of one agency share: calendar, access, disposition codes.

Figures are of New York's own records, as collected in the project's fact sheet on the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parity311.city.process import (
    Category,
    ComplaintProcess,
    Delay,
    Flag,
    Hazard,
    Places,
    Reporting,
    Service,
    Volume,
)

DOB_COMPLAINTS = {
    2017: 126_256,
    2018: 128_846,
    2019: 135_472,
    2020: 112_548,
    2021: 119_129,
    2022: 121_448,
    2023: 131_449,
    2024: 125_148,
    2025: 119_471,
    2026: 123_300,
}
"""Complaints received by the Department of Buildings a year; 2026 is four times its first quarter
(AliHasan-786/nyc-housing-inspection-rl; michaelzoorob/dob-complaints-analysis, by month)."""

DOB_MONTH_SHARES = (
    0.075, 0.070, 0.087, 0.083, 0.088, 0.097, 0.089, 0.089, 0.085, 0.086, 0.076, 0.076,
)  # fmt: skip
"""Share of a year's complaints by month, 2021-25 (michaelzoorob)."""

DOB_MONTH_FACTORS_2020 = (
    1.29, 1.20, 0.90, 0.80, 0.84, 0.86, 1.10, 1.09, 1.05, 0.97, 0.96, 1.04,
)  # fmt: skip
"""Months of 2020 against `DOB_MONTH_SHARES`: the spring without construction (michaelzoorob)."""

WEEKDAY_SHARES = (0.155, 0.160, 0.153, 0.146, 0.136, 0.133, 0.117)
"""Heat complaints, Monday first (computed from 6,419 rows of 2020-26)."""

DOB_WEEKDAY_SHARES = (0.175, 0.178, 0.175, 0.170, 0.160, 0.080, 0.062)
"""Complaints to the Department of Buildings, Monday first (assumed: no published pattern)."""

HOUR_SHARES = (
    0.019, 0.011, 0.009, 0.008, 0.009, 0.018, 0.032, 0.045, 0.055, 0.074, 0.079, 0.066,
    0.056, 0.057, 0.059, 0.055, 0.055, 0.050, 0.047, 0.048, 0.048, 0.041, 0.031, 0.027,
)  # fmt: skip
"""Heat complaints by hour (computed from the same rows); used for every domain, as the others
publish none."""

DOB_WEEKDAY_SLOTS = (0.19, 0.19, 0.19, 0.19, 0.18, 0.03, 0.03)
"""Visits of the Department of Buildings, Monday first (assumed: office hours, a weekend crew)."""

HPD_WEEKDAY_SLOTS = (0.155, 0.155, 0.155, 0.155, 0.150, 0.120, 0.110)
"""Visits of the Department of Housing Preservation, Monday first (assumed: seven days a week)."""

BOROUGH_NO_ACCESS = (-0.30, 0.12, -0.55, 0.70, 0.10)
"""Log odds of no access, in the order of BOROUGHS, beyond category and building; fitted so that
no access ends .147, .201, .095, .308, .215 of attended cases (michaelzoorob)."""

DOB_CODES = {
    # A8 78.9, A1/A6 7.4, A9 0.4, other 13.3 % of violations (michaelzoorob).
    "violation": (("A8", 0.789), ("A1", 0.074), ("L1", 0.133), ("A9", 0.004)),
    # I2 39.0, I1 2.6 % of all dispositions.
    "no_violation": (("I2", 0.94), ("I1", 0.06)),
    # First visit C1, last C2; denied C4 at 1.7 against C2 at 14.0 %.
    "no_access": (("C2", 0.89), ("C4", 0.11)),
    "referral": (("F8", 0.4), ("D1", 0.3), ("K1", 0.3)),
    "other": (("XX", 1.0),),
    "duplicate": (("H1", 1.0),),
    "pending": (("J3", 1.0),),
}
"""Disposition codes by class with their weights."""

HPD_CODES = {
    "violation": (("HPD-VIOLATION", 1.0),),
    "no_violation": (("HPD-NO-VIOLATION", 1.0),),
    "restored": (("HPD-RESTORED", 1.0),),
    "no_access": (("HPD-NO-ACCESS", 1.0),),
    "referral": (("HPD-REFERRED", 1.0),),
    "other": (("HPD-ADMIN", 1.0),),
    "duplicate": (("HPD-DUPLICATE", 1.0),),
    "pending": (("HPD-OPEN", 1.0),),
}
"""The classes of HPD's resolution texts; HPD publishes sentences, not codes. A condition found
restored is of the class no_violation."""

HPD_SOURCES = {
    "volume.complaints_per_incident": "fitted so that the yearly complaints come out",
    "volume.month_factors_2020": "none applied",
    "reporting": "assumed",
    "reporting.hour_shares": "311 heat complaints by hour, computed from 6,419 rows",
    "reporting.weekday_shares": "311 heat complaints by weekday, computed from 6,419 rows",
    "service": "assumed",
    "service.codes": "classes of HPD resolution texts",
}
"""Sources that the domains of the Department of Housing Preservation share, by field."""

DOB_SOURCES = {
    "categories": "shares, outcomes and access of each code fitted so that counts and outcome "
    "shares come out as in michaelzoorob/dob-complaints-analysis (783,289 complaints of 2020-01 to "
    "2026-05) where it gives the code, and are assumed so that the totals come out where not",
    "volume.complaints_per_incident": "fitted so that the yearly complaints come out",
    "volume.month_shares": "DOB complaints by month, 2021-25, michaelzoorob",
    "volume.month_factors_2020": "DOB complaints by month of 2020, michaelzoorob",
    "volume.temperature_slope": "none applied",
    "places": "assumed: heavy-tailed over buildings, as heat complaints are",
    "hazard": "assumed, so that code, flags and recurrence together predict what is actionable "
    "with an AUC near 0.76",
    "hazard.lifetime_days": "assumed: no record says how long an incident lasts; factors by code "
    "keep the expected reports of a life equal",
    "reporting": "assumed",
    "reporting.rate_per_day": "assumed, so that nearly half of the incidents are reported",
    "reporting.zero_inflation": "fitted so that duplicates come out (H1: 7.1 % of all DOB "
    "dispositions)",
    "reporting.hour_shares": "311 heat complaints by hour, computed from 6,419 rows of 2020-26; no "
    "other domain publishes its own",
    "reporting.weekday_shares": "assumed: no pattern is published for DOB",
    "service": "assumed",
    "service.visits_per_complaint": "fitted so that nearly every case is visited in the end",
    "service.borough_no_access": "fitted to no access by borough, michaelzoorob",
    "service.no_access_2020": "assumed: fewer doors opened in 2020",
    "service.codes": "DOB disposition codes, weights of michaelzoorob",
    "flags": "assumed: intake fields of the kind DOB takes down, more or less telling",
}
"""Sources that the domains of the Department of Buildings share, by field of the process."""


def by_year(first: int, *counts: float) -> dict[int, float]:
    """Yearly counts from the first year on."""
    return dict(enumerate(counts, start=first))


def dob_hazard(
    lifetime_days: float,
    code_shares: tuple[float, float, float, float],
    hazard_slope: float = 1.2,
) -> Hazard:
    """How bad and how long; what tells actionable incidents apart is alike in all DOB domains."""
    return Hazard(
        lifetime_days=lifetime_days,
        code_shares=code_shares,
        code_noise_sd=0.5,
        hazard_slope=hazard_slope,
        neglect_slope=0.5,
    )


def dob_reporting(
    rate_per_day: float,
    zero_inflation: float,
    *,
    units_power: float = 0.05,
    reference_units: float = 5.0,
) -> Reporting:
    """Who reports: mostly neighbours and passers-by, so the building's size hardly matters."""
    return Reporting(
        rate_per_day=rate_per_day,
        units_power=units_power,
        reference_units=reference_units,
        zero_inflation=zero_inflation,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    )


DOB_DOORS = {
    "units_no_access": -0.05,
    "renter_no_access": -0.10,
    "foreign_no_access": 0.20,
    "no_access_2020": 0.15,
}
"""Log odds that nobody opens, beyond category and borough: fields of `Service`."""


def dob_service(
    visits_per_complaint: float,
    leads: tuple[Delay, Delay, Delay, Delay],
    *,
    closing: Delay = Delay(0.5, 1.0),
    intake: Delay = Delay(0.6, 1.5),
    retry: Delay = Delay(12.0, 0.8),
    doors: Mapping[str, float] = DOB_DOORS,
    **others: Any,
) -> Service:
    """What the Department of Buildings does about it; `others` are further fields of `Service`."""
    return Service(
        visits_per_complaint=visits_per_complaint,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=leads,
        closing=closing,
        intake=intake,
        retry=retry,
        borough_no_access=BOROUGH_NO_ACCESS,
        codes=DOB_CODES,
        **doors,
        **others,
    )


def dob_process(
    slug: str,
    categories: tuple[Category, ...],
    *,
    complaints: Mapping[int, float],
    complaints_per_incident: float,
    places: Places,
    hazard: Hazard,
    reporting: Reporting,
    service: Service,
    flags: tuple[Flag, ...],
    sources: Mapping[str, str],
) -> ComplaintProcess:
    """A domain of the Department of Buildings: its months are the department's.

    `sources` are those of its own figures, beside the ones all of them share.
    """
    volume = Volume(
        complaints=complaints,
        complaints_per_incident=complaints_per_incident,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    )
    return ComplaintProcess(
        slug=slug,
        agency="DOB",
        categories=categories,
        volume=volume,
        places=places,
        hazard=hazard,
        reporting=reporting,
        service=service,
        flags=flags,
        sources=DOB_SOURCES | dict(sources),
    )
