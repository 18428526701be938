"""Heat and hot water: which of today's complaints get an inspector.

What is decided: each day up to four slots, each given to one complaint (inspect), to a group of
complaints of one building (batch), or kept (defer). Who waits: tenants without heat or hot water.
Who is affected: renters in old housing above all. Source of the process: HPD's heat complaints in
NYC 311, 2017-2026. Not for: deciding whether a landlord broke the law, or ranking tenants.
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
    HOUR_SHARES,
    HPD_CODES,
    HPD_WEEKDAY_SLOTS,
    WEEKDAY_SHARES,
)
from parity311.mdp.contract import Domain

PROCESS = ComplaintProcess(
    slug="heat",
    agency="HPD",
    categories=(
        Category("NO HEAT", "no heat", 0.50, 0.1, 0.15, 0.36, 0.0, 0.115, needs_heating=True),
        Category("NO HOT WATER", "no hot water", 0.20, -0.4, 0.12, 0.36, 0.0, 0.115),
        Category(
            "NO HEAT AND NO HOT WATER", "neither", 0.30, 0.3, 0.18, 0.36, 0.0, 0.115,
            needs_heating=True,
        ),
    ),
    volume=Volume(
        complaints={
            2017: 210_757, 2018: 223_109, 2019: 209_225, 2020: 164_990, 2021: 199_547,
            2022: 264_380, 2023: 288_000, 2024: 312_000, 2025: 335_000, 2026: 359_000,
        },
        complaints_per_incident=0.84,
        month_shares=(
            0.200, 0.150, 0.095, 0.055, 0.031, 0.024, 0.012, 0.016, 0.021, 0.081, 0.150, 0.165,
        ),
        temperature_slope=0.03,
    ),
    places=Places(
        exposure_power=0.75,
        exposure_offset=2.0,
        borough_shares=(0.370, 0.300, 0.180, 0.140, 0.014),
        quintile_rates=(365, 368, 285, 205, 112),
        slopes={
            "share_black": 0.25,
            "share_hispanic": 0.12,
            "share_asian": -0.02,
            "share_limited_english": 0.05,
        },
        tract_sd=0.4,
        building_sd=1.5,
        year_sd=0.4,
        month_sd=0.8,
    ),
    hazard=Hazard(lifetime_days=3.7, code_shares=(0.10, 0.30, 0.40, 0.20)),
    reporting=Reporting(
        rate_per_day=0.26,
        units_power=0.10,
        zero_inflation=0.1,
        hour_shares=HOUR_SHARES,
        weekday_shares=WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=0.75,
        weekday_slots=HPD_WEEKDAY_SLOTS,
        leads=(Delay(0.4, 0.5), Delay(1.3, 0.3), Delay(1.7, 0.3), Delay(1.9, 0.3)),
        closing=Delay(0.25, 0.6),
        intake=Delay(1.0, 0.6),
        retry=Delay(1.0, 0.3),
        max_attempts=1,
        expiry_days=14.0,
        scarce_expiry_days=5.0,
        ended_no_access=1.0,
        callback_days=1.0,
        eased=0.6,
        codes=HPD_CODES,
    ),
    flags=(Flag("is_building_wide", 0.666, 1.0),),
    sources={"": ""},
)

DOMAIN = Domain(
    slug="heat",
    title="Heat and hot water",
    version=1,
    decision="Which of today's complaints get an inspector: inspect, batch or defer.",
    who_waits="Tenants without heat or hot water.",
    not_for="Deciding whether a landlord broke the law, or ranking tenants.",
    source="HPD heat and hot water complaints in NYC 311, 2017-2026.",
    process=PROCESS,
)
