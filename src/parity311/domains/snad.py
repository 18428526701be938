"""Special natural area districts: trees felled and ground moved without leave.

What is decided: defer, inspect or prioritise. Who waits: the neighbours of a slope or a wood.
Source: DOB complaints of code 1B, a few dozen a year. Not for: granting permits.
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
    Category("1B", "tree removal or change of ground", 1.0, 0.4, 0.243, 0.0718, 0.023, 0.023),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="snad",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 105,
            2018: 106,
            2019: 97,
            2020: 42,
            2021: 35,
            2022: 36,
            2023: 38,
            2024: 39,
            2025: 39,
            2026: 36,
        },
        complaints_per_incident=0.478,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.3,
        exposure_offset=-1.0,
        borough_shares=(0.17, 0.0, 0.0, 0.08, 0.75),
        tract_sd=0.5,
        building_sd=0.8,
        tract_share=0.35,
    ),
    hazard=Hazard(
        lifetime_days=120.0,
        code_shares=(0.05, 0.60, 0.25, 0.10),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0065,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.8,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.2,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.5, 0.8), Delay(4.0, 1.5), Delay(8.0, 1.5), Delay(12.0, 1.5)),
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
    flags=(Flag("is_tree_removal", 0.65, 0.5), Flag("is_in_progress", 0.40, 0.9)),
    sources=DOB_SOURCES
    | {
        "volume": "SNAD, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to "
        "November 2021; 87 complaints in 2024-01 to 2026-03 (the paper); years between assumed",
        "service.leads": "fitted so that the mean closing days of 2020-21 (36, 19) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
        "places.borough_shares": "where the special natural area districts lie: Staten Island, "
        "Riverdale, Fort Totten; shares assumed",
    },
)

DOMAIN = Domain(
    slug="snad",
    title="Special natural area districts",
    version=1,
    decision="For each complaint: Defer, Inspect or Prioritise.",
    who_waits="The neighbours of a slope or a wood.",
    not_for="Granting permits.",
    source="DOB complaints of code 1B, 2017-2026.",
    process=PROCESS,
)
