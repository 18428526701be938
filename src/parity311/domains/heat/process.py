"""Heat incidents, who reports them and how the agency answers: what the city builds."""

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
PROCESS = ComplaintProcess(
    slug="heat",
    agency="HPD",
    categories=(
        Category("NO HEAT", "no heat", 0.50, 0.1, 0.155, 0.35, 0.0, 0.115, needs_heating=True),
        Category("NO HOT WATER", "no hot water", 0.20, -0.4, 0.125, 0.35, 0.0, 0.115),
        Category("NO HEAT AND NO HOT WATER", "neither", 0.30, 0.3, 0.185, 0.35, 0.0, 0.115,
                 needs_heating=True),
    ),
    volume=Volume(
        complaints=by_year(
            2017, 210_757, 223_109, 209_225, 164_990, 199_547,
            264_380, 288_000, 312_000, 335_000, 359_000
        ),
        complaints_per_incident=0.845,
        month_shares=(
            0.200, 0.150, 0.095, 0.055, 0.031, 0.024,
            0.012, 0.016, 0.021, 0.081, 0.150, 0.165,
        ),
        temperature_slope=0.03,
    ),
    places=Places(
        exposure_power=0.72,
        exposure_offset=2.0,
        borough_shares=(0.368, 0.286, 0.196, 0.138, 0.012),
        quintile_rates=(365, 368, 288, 212, 118),
        slopes={
            "share_black": 0.30,
            "share_hispanic": 0.12,
            "share_asian": -0.02,
            "share_limited_english": 0.08,
        },
        tract_sd=0.4,
        building_sd=1.45,
        year_sd=0.5,
        month_sd=1.0,
    ),
    hazard=Hazard(
        lifetime_days=3.7,
        code_shares=(0.13, 0.33, 0.38, 0.16),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.55,
    ),
    reporting=Reporting(
        rate_per_day=0.25,
        units_power=0.10,
        hazard_slope=0.32,
        zero_inflation=0.1,
        hour_shares=HOUR_SHARES,
        weekday_shares=WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=0.58,
        weekday_slots=HPD_WEEKDAY_SLOTS,
        leads=(Delay(0.4, 0.5), Delay(1.5, 0.25), Delay(1.95, 0.25), Delay(2.05, 0.25)),
        closing=Delay(0.35, 0.6),
        intake=Delay(1.0, 0.6),
        retry=Delay(1.0, 0.3),
        max_attempts=1,
        expiry_days=14.0,
        scarce_expiry_days=5.0,
        ended_no_access=1.7,
        callback_days=1.5,
        eased=0.68,
        codes=HPD_CODES,
    ),
    flags=(Flag("is_building_wide", 0.666, 1.0),),
    category_flags={"is_no_heat": ("NO HEAT", "NO HEAT AND NO HOT WATER")},
    sources=HPD_SOURCES | {
        "categories": "HPD problem codes; shares and hazard assumed, outcomes fitted so that, of "
        "655 closed heat complaints (computed), duplicates are 30.4, restored or none found 33.6, "
        "no access 24.5, violation 3.4, other 8.1 %",
        "volume": "2017-19 dariusmehri/311-HPD-and-DOB-Complaint-Comparison; 2020-22 "
        "poojachaudhuri/project-4; 2026 359 thousand in the twelve months to October; between "
        "them a straight line",
        "volume.month_shares": "311 heat complaints by month, computed",
        "volume.temperature_slope": "assumed: 3 % more incidents per °F below normal",
        "places": "fitted so that complaints per address and year have the published quantiles "
        "(median 2, p75 5, p90 12, p95 21, p99 60) and Gini .673 (poojachaudhuri/project-4)",
        "places.borough_shares": "fitted so that complaints by borough come out at 35.9, 27.6, "
        "22.0, 13.4, 1.1 % (2020-22)",
        "places.quintile_rates": "fitted so that complaints per 1,000 renter households and three "
        "years come out at 359, 364, 295, 219, 128 by income quintile",
        "places.slopes": "fitted so that tract rates correlate with the shares as computed",
        "places.tract_sd": "fitted likewise",
        "hazard": "assumed, so that code, flags and recurrence together predict what is "
        "actionable with an AUC near 0.76",
        "hazard.lifetime_days": "fitted so that a third of the cases is found restored",
        "reporting.rate_per_day": "fitted so that duplicates come out; half of the incidents are "
        "then reported",
        "service.visits_per_complaint": "fitted so that nearly every case is visited or found "
        "restored within days",
        "service.leads": "fitted so that closing days come out at .98, 1.87, 2.60, 3.23 (quartiles "
        "and p90, Steveelorm80/analytics, 698 rows)",
        "service.callback_days": "fitted so that restored comes out",
        "service.eased": "fitted so that restored and none found come out apart",
        "flags": "ENTIRE BUILDING 66.6 % of heat complaints; how telling it is, assumed",
    },
)
# fmt: on
