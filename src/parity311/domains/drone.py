"""Drones over roofs and facades: from which depot the next drone starts.

What is decided: one of five depots, a borough each. Who waits: residents and passers-by under a
loose wall or roof. Source: no public data set exists for it; the process is that of DOB complaints
a drone could see from above (codes 30, 10, 54). Not for: watching people, or entering by air what
needs consent on the ground.
"""

from __future__ import annotations

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
from parity311.city.profiles import (
    BOROUGH_NO_ACCESS,
    DOB_CODES,
    DOB_MONTH_FACTORS_2020,
    DOB_MONTH_SHARES,
    DOB_SOURCES,
    DOB_WEEKDAY_SHARES,
    DOB_WEEKDAY_SLOTS,
    HOUR_SHARES,
)
from parity311.mdp.contract import Domain

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("30", "shaking or structural stability", 0.7295, 1.6, 0.623, 0.0898, 0.021, 0.021),
    Category("10", "falling or in danger of falling", 0.1736, 1.6, 0.517, 0.0516, 0.035, 0.035,
             lifetime_factor=0.667, rate_factor=1.5),
    Category("54", "bulging or cracked wall", 0.0969, 0.4, 0.672, 0.0864, 0.036, 0.036,
             lifetime_factor=3.333, rate_factor=0.3),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="drone",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 5_500,
            2018: 5_600,
            2019: 5_800,
            2020: 4_900,
            2021: 5_200,
            2022: 5_300,
            2023: 5_700,
            2024: 5_500,
            2025: 5_200,
            2026: 5_400,
        },
        complaints_per_incident=0.504,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.35,
        exposure_offset=-1.0,
        borough_shares=(0.14, 0.39, 0.21, 0.22, 0.04),
        tract_sd=0.35,
        building_sd=1.0,
        year_sd=0.4,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.55, 0.30, 0.10, 0.05),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0125,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.85,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.25,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.4, 1.0), Delay(2.0, 1.5), Delay(5.0, 1.5), Delay(8.0, 1.5)),
        closing=Delay(0.5, 1.0),
        intake=Delay(0.6, 1.5),
        retry=Delay(12.0, 0.8),
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        codes=DOB_CODES,
    ),
    flags=(Flag("is_over_sidewalk", 0.35, 0.8), Flag("has_fallen_debris", 0.12, 1.2)),
    sources=DOB_SOURCES
    | {
        "volume": "code 30: 25,127 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); codes 10 and 54 assumed",
        "service.leads": "assumed: emergencies within a day",
    },
)

DOMAIN = Domain(
    slug="drone",
    title="Drones over roofs and facades",
    version=1,
    decision="For each deployment: one of five depots.",
    who_waits="Residents and passers-by under a loose wall or roof.",
    not_for="Watching people, or replacing consent to enter.",
    source="No public source: DOB complaints of hazards visible from above stand in.",
    process=PROCESS,
)
