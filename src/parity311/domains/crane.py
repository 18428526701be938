"""Cranes and derricks: how fast a complaint about a crane is answered.

What is decided: do nothing, routine inspection, immediate inspection, or stop-work order. Who
waits: workers and passers-by under the load. Source: 311 complaints to the Cranes and Derricks
unit. Not for: approving a lift.
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
    Category("67", "no permit or licence, unsafe", 0.7922, 1.6, 0.339, 0.0302, 0.018, 0.018),
    Category("89", "accident", 0.1102, 1.6, 0.813, 0.01, 0.006, 0.006,
             lifetime_factor=0.333, rate_factor=3.0),
    Category("1F", "annual inspection not done", 0.0977, -0.5, 0.494, 0.018, 0.03, 0.03,
             lifetime_factor=8.0, rate_factor=0.125),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="crane",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 319,
            2018: 284,
            2019: 179,
            2020: 107,
            2021: 70,
            2022: 90,
            2023: 100,
            2024: 100,
            2025: 100,
            2026: 100,
        },
        complaints_per_incident=0.543,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.6,
        exposure_offset=-1.0,
        borough_shares=(0.12, 0.30, 0.38, 0.17, 0.03),
        tract_sd=0.5,
        building_sd=1.2,
        year_sd=1.0,
    ),
    hazard=Hazard(
        lifetime_days=15.0,
        code_shares=(0.55, 0.30, 0.10, 0.05),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.05,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.7,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.1,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.3, 0.9), Delay(0.8, 1.2), Delay(2.0, 1.4), Delay(5.0, 1.4)),
        closing=Delay(0.5, 1.0),
        intake=Delay(0.6, 1.0),
        retry=Delay(12.0, 0.8),
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        codes=DOB_CODES,
    ),
    flags=(Flag("is_over_street", 0.45, 0.7), Flag("is_lifting_now", 0.35, 0.9)),
    sources=DOB_SOURCES
    | {
        "volume": "Cranes and Derricks, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 "
        "counts of 2017 to November 2021; later years assumed",
        "service.leads": "fitted so that the mean closing days of 2020 (4.1) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
    },
)

DOMAIN = Domain(
    slug="crane",
    title="Cranes and derricks",
    version=1,
    decision="For each complaint: Do Nothing, Routine, Immediate or Stop-Work.",
    who_waits="Workers and passers-by under the load.",
    not_for="Approving a lift.",
    source="311 complaints to DOB Cranes and Derricks, 2017-2026.",
    process=PROCESS,
)
