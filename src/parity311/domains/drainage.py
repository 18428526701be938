"""Drainage: who is sent where water runs off a lot.

What is decided: monitor, inspector or heavy crew. Who waits: the neighbour whose cellar floods.
Source: DOB complaints of codes 85 and 06; their counts are not published. Not for: settling who
pays.
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
    Category("85", "fails to retain water", 0.7381, -0.5, 0.44, 0.1061, 0.042, 0.042),
    Category("06", "change of grade or watercourse", 0.2619, 0.4, 0.379, 0.1061, 0.046, 0.046,
             lifetime_factor=0.75, rate_factor=1.333),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="drainage",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 950,
            2018: 980,
            2019: 1_000,
            2020: 850,
            2021: 950,
            2022: 900,
            2023: 950,
            2024: 900,
            2025: 880,
            2026: 880,
        },
        complaints_per_incident=0.431,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.2,
        exposure_offset=-1.0,
        borough_shares=(0.08, 0.30, 0.05, 0.42, 0.15),
        tract_sd=0.4,
        building_sd=1.0,
    ),
    hazard=Hazard(
        lifetime_days=200.0,
        code_shares=(0.05, 0.35, 0.50, 0.10),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0038,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.8,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.2,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.5, 0.8), Delay(5.0, 1.2), Delay(12.0, 1.2), Delay(20.0, 1.2)),
        closing=Delay(1.0, 1.0),
        intake=Delay(1.0, 1.0),
        retry=Delay(12.0, 0.8),
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        codes=DOB_CODES,
    ),
    flags=(Flag("is_raining", 0.30, 0.6), Flag("has_cellar_flooded", 0.25, 1.0)),
    sources=DOB_SOURCES
    | {
        "volume": "assumed: no count of the two codes is published",
        "service.leads": "assumed",
    },
)

DOMAIN = Domain(
    slug="drainage",
    title="Drainage",
    version=1,
    decision="For each complaint: Monitor, Inspector or HeavyCrew.",
    who_waits="The neighbour whose cellar floods.",
    not_for="Settling who pays.",
    source="DOB complaints of codes 85 and 06, 2017-2026 (volumes assumed).",
    process=PROCESS,
)
