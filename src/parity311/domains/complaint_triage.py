"""Complaint triage: what becomes of a complaint about construction or use.

What is decided: ignore, refer to another unit, or take to court. Who waits: neighbours of illegal
work, tenants of illegal conversions. Source: all DOB complaints of 2017-2026 that no other domain
here holds, a third of them raised by the agency itself. Not for: deciding guilt, or screening
tenants of illegal conversions.
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
    DOB_COMPLAINTS,
    DOB_MONTH_FACTORS_2020,
    DOB_MONTH_SHARES,
    DOB_SOURCES,
    DOB_WEEKDAY_SHARES,
    DOB_WEEKDAY_SLOTS,
    HOUR_SHARES,
)
from parity311.mdp.contract import Domain

# Days until a visit is scheduled, by type of 311 complaint; see sources of service.leads.
_BUILDING_USE = Delay(28.0, 1.45)
_CONSTRUCTION = Delay(0.1, 3.8)
_PLUMBING = Delay(9.0, 1.6)
_AGENCY = Delay(0.6, 1.0)
_BOILER = Delay(6.0, 1.5)

# Sum of the yearly complaints that the eight other domains of the agency declare.
_OTHER_DOMAINS = {
    2017: 32_718,
    2018: 34_490,
    2019: 31_824,
    2020: 28_798,
    2021: 29_245,
    2022: 30_776,
    2023: 33_288,
    2024: 34_289,
    2025: 35_317,
    2026: 39_516,
}

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("45", "illegal conversion", 0.1551, 0.4, 0.599, 0.7131, 0.024, 0.024,
             lifetime_factor=4.0, rate_factor=0.25, lead=_BUILDING_USE, factor_2020=0.75),
    Category("05", "work without permit", 0.1138, 0.4, 0.303, 0.2824, 0.03, 0.03,
             lifetime_factor=0.75, rate_factor=1.333, lead=_CONSTRUCTION),
    Category("7J", "the same, occupied dwelling", 0.066, 0.4, 0.208, 0.2056, 0.016, 0.016,
             lifetime_factor=0.75, rate_factor=1.333, lead=_CONSTRUCTION),
    Category("8A", "construction safety action", 0.0243, 1.6, 0.78, 0.0013, 0.006, 0.006,
             lifetime_factor=0.333, rate_factor=3.0, lead=_AGENCY, is_proactive=True),
    Category("7G", "construction safety sweep", 0.0245, -0.5, 0.116, 0.0002, 0.005, 0.005,
             lifetime_factor=0.333, rate_factor=3.0, lead=_AGENCY, is_proactive=True),
    Category("58", "boiler defective or without permit", 0.0477, 0.4, 0.857, 0.16, 0.057, 0.057,
             lifetime_factor=1.5, rate_factor=0.667, lead=_BOILER),
    Category("04", "after-hours work", 0.0628, 0.4, 0.042, 0.0267, 0.012, 0.012,
             lifetime_factor=0.067, rate_factor=6.75, lead=_CONSTRUCTION),
    Category("73", "failure to maintain", 0.0549, -0.5, 0.675, 0.2472, 0.023, 0.023,
             lifetime_factor=3.333, rate_factor=0.3, lead=_BUILDING_USE),
    Category("31", "certificate of occupancy", 0.0368, -0.5, 0.57, 0.3715, 0.03, 0.03,
             lifetime_factor=4.0, rate_factor=0.25, lead=_BUILDING_USE),
    Category("83", "contrary to approved plans", 0.0409, 0.4, 0.556, 0.2567, 0.031, 0.031,
             lead=_CONSTRUCTION),
    Category("66", "plumbing work without permit", 0.0277, 0.4, 0.62, 0.2993, 0.019, 0.019,
             lead=_PLUMBING),
    Category("65", "gas hook-up or piping", 0.0143, 1.6, 0.596, 0.2141, 0.021, 0.021,
             lifetime_factor=0.5, rate_factor=2.0, lead=_CONSTRUCTION),
    Category("86", "work contrary to a stop-work order", 0.0147, 1.6, 0.334, 0.0549, 0.03, 0.03,
             lifetime_factor=0.417, rate_factor=2.4, lead=_CONSTRUCTION),
    Category("91", "site conditions endangering workers", 0.0221, 1.6, 0.354, 0.0124, 0.026, 0.026,
             lifetime_factor=0.2, rate_factor=5.0, lead=_CONSTRUCTION),
    Category("37", "blocked egress", 0.0146, 1.6, 0.413, 0.1935, 0.032, 0.032,
             lifetime_factor=1.5, rate_factor=0.667, lead=_CONSTRUCTION),
    Category("09", "excessive debris", 0.0159, 0.4, 0.271, 0.1189, 0.036, 0.036,
             lifetime_factor=0.417, rate_factor=2.4, lead=_CONSTRUCTION),
    Category("35", "curb cut or driveway", 0.0217, -1.3, 0.536, 0.2895, 0.034, 0.034,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("49", "sign or awning", 0.0202, -0.5, 0.54, 0.1053, 0.038, 0.038,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("55", "zoning", 0.0167, -1.3, 0.238, 0.1858, 0.045, 0.045,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("2N", "COVID-19 order", 0.00386, 0.4, 0.073, 0.0056, 0.005, 0.005,
             lifetime_factor=0.167, rate_factor=6.0, lead=_CONSTRUCTION, factor_2020=28.0),
    Category("5F", "compliance inspection", 0.0727, -0.5, 0.257, 0.0813, 0.03, 0.03,
             lead=_AGENCY, is_proactive=True),
    Category("1Z", "enforcement work order", 0.0419, 0.4, 0.435, 0.0769, 0.035, 0.035,
             lead=_AGENCY, is_proactive=True),
    Category("3B", "routine inspection", 0.0562, -1.3, 0.167, 0.0426, 0.025, 0.025,
             lead=_AGENCY, is_proactive=True),
    Category("6X", "watch list", 0.0313, 0.4, 0.373, 0.1296, 0.04, 0.04,
             lead=_AGENCY, is_proactive=True),
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="complaint_triage",
    agency="DOB",
    categories=_CATEGORIES,
    volume=Volume(
        complaints={year: total - _OTHER_DOMAINS[year] for year, total in DOB_COMPLAINTS.items()},
        complaints_per_incident=0.595,
        month_shares=DOB_MONTH_SHARES,
        month_factors_2020=DOB_MONTH_FACTORS_2020,
    ),
    places=Places(
        exposure_power=0.45,
        exposure_offset=-1.0,
        borough_shares=(0.144, 0.370, 0.136, 0.300, 0.050),
        tract_sd=0.5,
        building_sd=2.0,
        year_sd=0.6,
        month_sd=0.6,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.10, 0.50, 0.28, 0.12),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.5,
    ),
    reporting=Reporting(
        rate_per_day=0.0125,
        units_power=0.05,
        reference_units=5.0,
        zero_inflation=0.80,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.40,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(0.3, 1.0), Delay(3.0, 1.5), Delay(10.0, 1.5), Delay(20.0, 1.5)),
        closing=Delay(0.07, 1.2),
        intake=Delay(0.6, 2.0),
        retry=Delay(5.0, 1.2),
        lead_factor_2020=1.3,
        expiry_days=540.0,
        borough_no_access=BOROUGH_NO_ACCESS,
        units_no_access=-0.05,
        renter_no_access=-0.10,
        foreign_no_access=0.20,
        no_access_2020=0.15,
        n_inspectors=300,
        codes=DOB_CODES,
    ),
    flags=(
        Flag("has_photo", 0.15, 0.8),
        Flag("names_contractor", 0.25, 0.6),
    ),
    sources=DOB_SOURCES
    | {
        "volume": "DOB complaints a year (AliHasan-786/nyc-housing-inspection-rl) less the "
        "volumes the other DOB domains declare",
        "service.leads": "fitted so that closing days come out as for Building/Use (2.6, 36.4, "
        "88, 223) and General Construction (0.25, 1.3, 8.6, 44.5), Steveelorm80/analytics",
        "places.borough_shares": "fitted so that DOB complaints by borough come out, "
        "michaelzoorob/dob-complaints-analysis, 783,289 complaints of 2020-01 to 2026-05",
    },
)

DOMAIN = Domain(
    slug="complaint_triage",
    title="Complaint triage",
    version=1,
    decision="For each complaint: Ignore, Refer or Court.",
    who_waits="Neighbours of illegal work, tenants of illegal conversions.",
    not_for="Deciding guilt, or screening tenants of illegal conversions.",
    source="DOB complaints 2017-2026 less those of the other domains.",
    process=PROCESS,
)
