"""Loose walls and roofs, who reports them and how the agency answers: what the city builds."""

from __future__ import annotations

from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import by_year, dob_hazard, dob_process, dob_reporting, dob_service

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

PROCESS = dob_process(
    slug="drone",
    categories=_CATEGORIES,
    complaints=by_year(2017, 5_500, 5_600, 5_800, 4_900, 5_200, 5_300, 5_700, 5_500, 5_200, 5_400),
    complaints_per_incident=0.504,
    places=Places(
        exposure_power=0.35,
        exposure_offset=-1.0,
        borough_shares=(0.14, 0.39, 0.21, 0.22, 0.04),
        tract_sd=0.35,
        building_sd=1.0,
        year_sd=0.4,
    ),
    hazard=dob_hazard(60.0, (0.55, 0.30, 0.10, 0.05)),
    reporting=dob_reporting(0.0125, 0.85),
    service=dob_service(
        1.25,
        (Delay(0.4, 1.0), Delay(2.0, 1.5), Delay(5.0, 1.5), Delay(8.0, 1.5)),
    ),
    flags=(Flag("is_over_sidewalk", 0.35, 0.8), Flag("has_fallen_debris", 0.12, 1.2)),
    sources={
        "volume": "code 30: 25,127 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); codes 10 and 54 assumed",
        "service.leads": "assumed: emergencies within a day",
    },
)
