"""Scaffold incidents, who reports them and how the agency answers: what the city builds."""

from __future__ import annotations

from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import by_year, dob_hazard, dob_process, dob_reporting, dob_service

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

PROCESS = dob_process(
    slug="scaffold",
    categories=_CATEGORIES,
    complaints=by_year(2017, 3_900, 3_900, 4_000, 3_500, 3_700, 3_800, 4_000, 3_800, 3_700, 3_800),
    complaints_per_incident=0.477,
    places=Places(
        exposure_power=0.55,
        exposure_offset=-1.0,
        borough_shares=(0.17, 0.27, 0.43, 0.11, 0.02),
        tract_sd=0.4,
        building_sd=1.2,
        year_sd=0.7,
    ),
    hazard=dob_hazard(60.0, (0.12, 0.55, 0.25, 0.08)),
    reporting=dob_reporting(0.0125, 0.8),
    service=dob_service(
        1.05,
        (Delay(0.3, 0.8), Delay(1.2, 1.3), Delay(2.4, 1.3), Delay(4.0, 1.3)),
    ),
    flags=(Flag("is_over_sidewalk", 0.70, 0.7), Flag("has_fallen_debris", 0.10, 1.2)),
    sources={
        "volume": "code 23: 22,308 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); the three other codes assumed at a tenth of it; "
        "years in proportion to DOB totals",
        "service.leads": "fitted so that the mean closing days of Scaffold Safety in 2020 (5.3) "
        "come out, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to "
        "November 2021",
    },
)
