"""Scaffolds and sidewalk sheds: what is done about a site in the next hour.

What is decided: inspect now, delay, batch, escalate or ignore. Who waits: whoever walks or lives
under it. Source: DOB complaints of codes 23, 24, 1E and 70. Not for: releasing a scaffold for use.
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
    Category("23", "sidewalk shed or supported scaffold", 0.9201, 0.4, 0.372, 0.0023, 0.019, 0.019),
    Category("1E", "suspended scaffold", 0.0449, 1.6, 0.445, 0.0113, 0.021, 0.021,
             lifetime_factor=0.333, rate_factor=3.0),
    Category("24", "sidewalk shed missing", 0.0214, 0.4, 0.398, 0.0023, 0.025, 0.025),
    Category("70", "suspended scaffold left hanging", 0.0136, -0.5, 0.329, 0.0052, 0.021, 0.021),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="scaffold",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 3_900,
            2018: 3_900,
            2019: 4_000,
            2020: 3_500,
            2021: 3_700,
            2022: 3_800,
            2023: 4_000,
            2024: 3_800,
            2025: 3_700,
            2026: 3_800,
        },
        complaints_per_incident=0.477,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.55,
        exposure_offset=-1.0,
        borough_shares=(0.17, 0.27, 0.43, 0.11, 0.02),
        tract_sd=0.4,
        building_sd=1.2,
        year_sd=0.7,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.12, 0.55, 0.25, 0.08),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0125,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.8,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.05,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.3, 0.8), Delay(1.2, 1.3), Delay(2.4, 1.3), Delay(4.0, 1.3)),
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
    flags=(Flag("is_over_sidewalk", 0.70, 0.7), Flag("has_fallen_debris", 0.10, 1.2)),
    sources=DOB_SOURCES
    | {
        "volume": "code 23: 22,308 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); the three other codes assumed at a tenth of it; "
        "years in proportion to DOB totals",
        "service.leads": "fitted so that the mean closing days of Scaffold Safety in 2020 (5.3) "
        "come out, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to "
        "November 2021",
    },
)

DOMAIN = Domain(
    slug="scaffold",
    title="Scaffolds and sidewalk sheds",
    version=1,
    decision="For each site and hour: inspect_now, delay, batch, escalate or ignore.",
    who_waits="Whoever walks or lives under it.",
    not_for="Releasing a scaffold for use.",
    source="DOB complaints of codes 23, 24, 1E and 70, 2017-2026.",
    process=PROCESS,
)
