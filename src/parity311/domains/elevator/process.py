"""Elevator incidents, who reports them and how the agency answers: what the city builds."""

from __future__ import annotations

from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import by_year, dob_hazard, dob_process, dob_reporting, dob_service

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("6S", "single device, no alternate service", 0.4155, 0.4, 0.615, 0.0065, 0.139, 0.06),
    Category("6M", "multiple devices", 0.252, -0.5, 0.562, 0.006, 0.187, 0.08),
    Category("63", "defective or inoperative", 0.1895, 0.4, 0.601, 0.0089, 0.156, 0.067),
    Category("62", "dangerous condition or open shaft", 0.0494, 1.6, 0.682, 0.0069, 0.041, 0.018,
             lifetime_factor=0.375, rate_factor=2.667),
    Category("80", "not inspected or without permit", 0.0745, -1.3, 0.567, 0.0157, 0.119, 0.051,
             lifetime_factor=2.0, rate_factor=0.5),
    Category("81", "accident", 0.00951, 1.6, 0.523, 0.0095, 0.004, 0.002,
             lifetime_factor=0.167, rate_factor=6.0),
    Category("13", "not ready for the fire department", 0.0096, 1.6, 0.437, 0.0039, 0.092, 0.039),
)
# fmt: on

PROCESS = dob_process(
    slug="elevator",
    categories=_CATEGORIES,
    complaints=by_year(
        2017, 13_212, 15_067, 14_491, 14_000, 14_900, 16_200, 17_900, 19_500, 21_098, 25_000
    ),
    complaints_per_incident=0.716,
    places=Places(
        exposure="elevators",
        exposure_power=0.8,
        tract_sd=0.3,
        building_sd=1.1,
        year_sd=0.4,
        slopes={"median_income": -0.15},
    ),
    hazard=dob_hazard(120.0, (0.06, 0.30, 0.49, 0.15), hazard_slope=1.1),
    reporting=dob_reporting(0.0110, 0.1, units_power=0.10, reference_units=80.0),
    service=dob_service(
        0.80,
        (Delay(0.3, 0.8), Delay(2.4, 1.65), Delay(5.5, 1.75), Delay(8.0, 1.75)),
        intake=Delay(1.0, 1.5),
        retry=Delay(10.0, 0.6),
        doors={},
        writing=0.95,
    ),
    flags=(Flag("is_entrapment", 0.06, 1.2), Flag("has_no_other_device", 0.50, 0.5)),
    sources={
        "volume": "DOB elevator complaints: 103,598 in 2020-2025 (the paper); years apportioned "
        "on 311 counts of 2017-2021 and 25.6 thousand in the twelve months to October 2026",
        "service.leads": "fitted so that closing days come out at 0.7, 5.3, 19.1, 105 (quartiles "
        "and p90, Steveelorm80/analytics, 67 rows)",
        "reporting.zero_inflation": "fitted so that what is neither violation, none nor no access "
        "of 6S and 6M comes out",
        "hazard.code_shares": "prototype of the elevator domain: 6, 30, 49 and 15 % by code",
    },
)
