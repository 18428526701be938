"""Housing incidents, who reports them and how the agency answers: what the city builds."""

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
    HOUR_SHARES,
    HPD_CODES,
    HPD_SOURCES,
    HPD_WEEKDAY_SLOTS,
    WEEKDAY_SHARES,
    by_year,
)

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("UNSANITARY CONDITION", "pests or mould", 0.2477, 0.1, 0.553, 0.3948, 0.006, 0.006,
             lead=Delay(8, 1.35)),
    Category("PLUMBING", "plumbing", 0.1459, 0.2, 0.597, 0.4055, 0.004, 0.004,
             lifetime_factor=0.833, rate_factor=1.2, lead=Delay(7.5, 1.6)),
    Category("PAINT/PLASTER", "paint or plaster", 0.1368, -0.3, 0.54, 0.3706, 0.014, 0.014,
             lifetime_factor=2.0, rate_factor=0.5, lead=Delay(5.8, 1.45)),
    Category("DOOR/WINDOW", "door or window", 0.1, -0.2, 0.545, 0.4008, 0.007, 0.007,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(11.5, 1.35)),
    Category("WATER LEAK", "leak", 0.0836, 0.5, 0.622, 0.396, 0.002, 0.002,
             lifetime_factor=0.5, rate_factor=2.0, lead=Delay(6.5, 1.4)),
    Category("GENERAL", "general", 0.0741, -0.3, 0.475, 0.4032, 0.007, 0.007,
             lifetime_factor=1.333, rate_factor=0.75, lead=Delay(10, 1.5)),
    Category("ELECTRIC", "electricity", 0.0679, 0.4, 0.583, 0.4001, 0.004, 0.004,
             lifetime_factor=0.833, rate_factor=1.2, lead=Delay(7.8, 1.4)),
    Category("FLOORING/STAIRS", "floors or stairs", 0.058, 0.0, 0.517, 0.3885, 0.01, 0.01,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(7.3, 1.3)),
    Category("APPLIANCE", "appliance", 0.0562, -0.3, 0.477, 0.4005, 0.004, 0.004,
             lead=Delay(13, 1.1)),
    Category("SAFETY", "safety", 0.0229, 0.6, 0.576, 0.3807, 0.007, 0.007, lead=Delay(6.5, 1.0)),
    Category("ELEVATOR", "elevator", 0.00482, 0.4, 0.562, 0.3878, 0.003, 0.003,
             lifetime_factor=0.667, rate_factor=1.5, lead=Delay(9, 1.0)),
    Category("OUTSIDE BUILDING", "outside", 0.00206, -0.3, 0.472, 0.3811, 0.01, 0.01,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(9, 1.0)),
)
_COMPLAINTS = (
    2017, 351_581, 381_814, 238_527, 249_512, 252_700,
    275_000, 295_000, 310_000, 325_000, 335_000,
)  # from the first year on
_MONTH_SHARES = (
    0.088, 0.080, 0.085, 0.079, 0.082, 0.082, 0.086, 0.088, 0.084, 0.086, 0.080, 0.080,
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="housing",
    agency="HPD",
    categories=_CATEGORIES,
    volume=Volume(
        complaints=by_year(*_COMPLAINTS),
        complaints_per_incident=0.50,
        month_shares=_MONTH_SHARES,
    ),
    places=Places(
        exposure_power=0.75,
        exposure_offset=2.0,
        borough_shares=(0.350, 0.310, 0.190, 0.140, 0.012),
        quintile_rates=(365, 368, 285, 205, 112),
        slopes={"share_black": 0.25, "share_hispanic": 0.12},
        tract_sd=0.4,
        building_sd=1.3,
        year_sd=0.4,
        month_sd=0.6,
        neglect_share=0.5,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.08, 0.37, 0.40, 0.15),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.55,
    ),
    reporting=Reporting(
        rate_per_day=0.0155,
        units_power=0.05,
        reference_units=20.0,
        zero_inflation=0.92,
        hour_shares=HOUR_SHARES,
        weekday_shares=WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.05,
        weekday_slots=HPD_WEEKDAY_SLOTS,
        leads=(Delay(1.0, 0.8), Delay(6.0, 1.2), Delay(8.0, 1.2), Delay(10.0, 1.2)),
        closing=Delay(0.6, 0.8),
        intake=Delay(3.0, 0.8),
        retry=Delay(5.0, 0.6),
        max_attempts=1,
        lead_factor_2020=1.75,
        ended_no_access=0.5,
        callback_days=40.0,
        n_inspectors=300,
        codes=HPD_CODES,
    ),
    flags=(
        Flag("is_emergency", 0.35, 0.9),
        Flag("is_public_area", 0.20, 0.5),
    ),
    sources=HPD_SOURCES
    | {
        "volume": "HPD types other than heat, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, "
        "311 counts of 2017 to November 2021 (2021 scaled to a full year); later years assumed "
        "to follow heat at half its growth",
        "service.leads": "fitted so that closing days come out as in Steveelorm80/analytics "
        "(UNSANITARY 4.7, 8.6, 18.8, 53.8; PLUMBING 2.8, 7.7, 21, 44)",
        "reporting.zero_inflation": "fitted so that duplicates are 2.3 % of closed complaints "
        "(computed from 1,071 rows)",
        "volume.month_shares": "assumed: nearly flat",
        "places": "assumed: heavy-tailed over buildings as heat complaints are",
        "hazard": "assumed, so that intake predicts what is actionable with an AUC near 0.76",
        "hazard.lifetime_days": "assumed: no record says how long an incident lasts",
        "reporting.rate_per_day": "assumed, so that nearly half of the incidents are reported",
        "service.visits_per_complaint": "fitted so that nearly every case is visited in the end",
        "categories": "shares: HPD types of 2020, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021; "
        "outcomes fitted to no access 36.6, violation 21.1, none or corrected 39.2 % of closed "
        "complaints (computed, 1,071 rows)",
        "places.borough_shares": "assumed: as heat",
        "places.quintile_rates": "assumed: as heat",
        "service.lead_factor_2020": "mean closing days of HPD types rose by a third to a half "
        "from 2019 to 2020, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 "
        "to November 2021",
        "service.borough_no_access": "none applied",
        "service.no_access_2020": "none applied",
        "flags": "assumed: HPD records the type of emergency and the space",
    },
)
