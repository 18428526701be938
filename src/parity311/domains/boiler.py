"""Boiler safety: which annual filings get an inspector.

What is decided: for each filing, inspect or defer. Who waits: the residents behind a defective
boiler. Who is affected: old multifamily housing above all. Source: DOB NOW Safety Boiler filings,
2017-2026. Not for: replacing the mandatory inspection, or judging an owner. The rows are mandatory
filings, not complaints: the need behind them is a defective boiler-year, filed or not.
"""

from __future__ import annotations

from parity311.city.process import Delay, FilingProcess
from parity311.city.profiles import DOB_WEEKDAY_SLOTS
from parity311.mdp.contract import Domain

PROCESS = FilingProcess(
    slug="boiler",
    agency="DOB",
    first_year=2017,
    filings={
        2017: 88_798, 2018: 85_329, 2019: 90_000, 2020: 88_000, 2021: 90_500, 2022: 91_500,
        2023: 92_000, 2024: 92_500, 2025: 92_500, 2026: 92_900,
    },
    defect_after_years={
        1: 0.457, 2: 0.215, 3: 0.140, 4: 0.119, 5: 0.103, 7: 0.078, 10: 0.068, 15: 0.060, 20: 0.056,
    },
    defect_share=0.08,
    memory_years=20,
    neglect_sd=0.35,
    tract_sd=0.25,
    age_slope=0.10,
    filed_share=0.93,
    filed_neglect_slope=-0.5,
    filed_english_slope=-0.2,
    month_shares=(0.03, 0.03, 0.04, 0.04, 0.05, 0.06, 0.07, 0.08, 0.10, 0.14, 0.16, 0.20),
    high_pressure_share=0.04,
    high_pressure_log_odds=0.4,
    internal_share=0.35,
    internal_log_odds=0.5,
    late_45_share=0.06,
    late_45_log_odds=1.5,
    late_180_share=0.02,
    late_180_log_odds=2.5,
    late_neglect_slope=0.6,
    repair_days=240.0,
    visits_per_filing=0.30,
    scarce_visits_per_filing=0.10,
    expiry_days=60.0,
    no_access=0.05,
    weekday_slots=DOB_WEEKDAY_SLOTS,
    closing=Delay(5.0, 0.8),
    sources={"": ""},
)

DOMAIN = Domain(
    slug="boiler",
    title="Boiler safety",
    version=1,
    decision="For each annual filing: inspect or defer.",
    who_waits="Residents behind a defective boiler.",
    not_for="Replacing the mandatory inspection, or judging an owner.",
    source="DOB NOW Safety Boiler filings, 2017-2026.",
    process=PROCESS,
)
