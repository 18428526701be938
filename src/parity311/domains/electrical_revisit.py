"""Electrical revisits: when to come back after nobody opened.

What is decided: close the case, or come back in 1, 3, 7, 14 or 30 days. Who waits: residents next
to defective wiring. Source: DOB electrical complaints, codes 59 and 3A. Not for: forcing entry.
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
    Category("59", "defective or exposed wiring", 0.7549, 0.4, 0.552, 0.198, 0.035, 0.035),
    Category("3A", "unlicensed or improper work", 0.2451, 0.4, 0.487, 0.2231, 0.015, 0.015,
             lifetime_factor=0.333, rate_factor=3.0),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="electrical_revisit",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 3_856,
            2018: 3_785,
            2019: 2_269,
            2020: 1_734,
            2021: 1_640,
            2022: 1_650,
            2023: 1_700,
            2024: 1_650,
            2025: 1_600,
            2026: 1_600,
        },
        complaints_per_incident=0.477,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.35,
        exposure_offset=-1.0,
        borough_shares=(0.15, 0.34, 0.18, 0.29, 0.04),
        tract_sd=0.35,
        building_sd=1.0,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.08, 0.60, 0.25, 0.07),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0125,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.7,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.35,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.3, 0.8), Delay(0.5, 1.2), Delay(0.7, 1.3), Delay(1.0, 1.3)),
        closing=Delay(0.4, 1.0),
        intake=Delay(0.6, 1.2),
        retry=Delay(4.0, 0.7),
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        codes=DOB_CODES,
    ),
    flags=(Flag("is_sparking", 0.12, 1.3), Flag("is_in_apartment", 0.55, 0.3)),
    sources=DOB_SOURCES
    | {
        "volume": "Electrical, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of "
        "2017 to November 2021; later years assumed",
        "service.leads": "fitted so that closing days come out at p50 1.8 and p90 16, computed "
        "from 22 rows",
    },
)

DOMAIN = Domain(
    slug="electrical_revisit",
    title="Electrical revisits",
    version=1,
    decision="For each visit without access: Close, or revisit in 1, 3, 7, 14 or 30 days.",
    who_waits="Residents next to defective wiring.",
    not_for="Forcing entry.",
    source="DOB electrical complaints, codes 59 and 3A, 2017-2026.",
    process=PROCESS,
)
