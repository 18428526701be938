"""Emergency response team: how many crews stand ready in the next hour.

What is decided: one, two or three crews. Who waits: whoever is under a building that moves.
Source: 311 complaints to DOB's Emergency Response Team. Not for: replacing a call to 911.
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
    Category("14", "excavation undermining a neighbour", 0.172, 1.6, 0.394, 0.0884, 0.017, 0.017),
    Category("16", "inadequate shoring", 0.1488, 1.6, 0.38, 0.0865, 0.018, 0.018),
    Category("03", "adjacent building not protected", 0.2352, 0.4, 0.355, 0.0891, 0.021, 0.021,
             lifetime_factor=1.5, rate_factor=0.667),
    Category("12", "unsafe demolition", 0.1779, 1.6, 0.326, 0.0883, 0.012, 0.012,
             lifetime_factor=0.75, rate_factor=1.333),
    Category("18", "unsafe storage of material", 0.1279, 0.4, 0.298, 0.1013, 0.013, 0.013),
    Category("50", "sign in danger of falling", 0.1382, 1.6, 0.347, 0.0872, 0.025, 0.025,
             lifetime_factor=1.5, rate_factor=0.667),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="ert",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={
            2017: 4_876,
            2018: 4_768,
            2019: 3_988,
            2020: 3_665,
            2021: 2_750,
            2022: 2_800,
            2023: 2_900,
            2024: 2_800,
            2025: 2_700,
            2026: 2_700,
        },
        complaints_per_incident=0.528,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.4,
        exposure_offset=-1.0,
        borough_shares=(0.13, 0.36, 0.25, 0.22, 0.04),
        tract_sd=0.4,
        building_sd=1.0,
        year_sd=0.5,
    ),
    hazard=Hazard(
        lifetime_days=20.0,
        code_shares=(0.60, 0.28, 0.09, 0.03),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0375,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.7,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.2,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.4, 1.0), Delay(1.4, 1.0), Delay(2.2, 1.0), Delay(3.0, 1.0)),
        closing=Delay(0.5, 0.8),
        intake=Delay(1.0, 1.0),
        retry=Delay(4.0, 0.7),
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        codes=DOB_CODES,
    ),
    flags=(Flag("is_worker_at_risk", 0.30, 0.7), Flag("is_neighbour_at_risk", 0.35, 0.8)),
    sources=DOB_SOURCES
    | {
        "volume": "Emergency Response Team, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 "
        "counts of 2017 to November 2021; later years assumed",
        "service.leads": "fitted so that the mean closing days of 2020 (5.1) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
    },
)

DOMAIN = Domain(
    slug="ert",
    title="Emergency response team",
    version=1,
    decision="For each hour: 1, 2 or 3 crews.",
    who_waits="Whoever is under a building that moves.",
    not_for="Replacing a call to 911.",
    source="311 complaints to DOB Emergency Response Team, 2017-2026.",
    process=PROCESS,
)
