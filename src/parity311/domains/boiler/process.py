"""Boilers, their defects and their filings: what the city builds."""

from __future__ import annotations

from parity311.city.process import Delay, FilingProcess
from parity311.city.profiles import DOB_WEEKDAY_SLOTS, by_year

_DEFECT_AFTER_YEARS = {
    1: 0.457, 2: 0.215, 3: 0.140, 4: 0.119, 5: 0.103, 7: 0.078, 10: 0.068, 15: 0.060, 20: 0.056,
}  # fmt: skip

PROCESS = FilingProcess(
    slug="boiler",
    agency="DOB",
    first_year=2017,
    filings=by_year(2017, 88_798, 85_329, *[92_990] * 8),
    defect_after_years=_DEFECT_AFTER_YEARS,
    defect_share=0.08,
    memory_years=20,
    neglect_sd=0.35,
    tract_sd=0.25,
    age_slope=0.10,
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
    sources={
        "first_year": "DOB NOW Safety holds filings from 2017",
        "filings": "2017 and 2018 cyrusblankinship; later years equal, so that 834,338 are filed "
        "by March 2026 (the paper)",
        "defect_after_years": "bendnorman, BIS and DOB NOW; 20 years assumed",
        "defect_share": "8 % (the paper); 13,704 of 168,161 in 2017 to early 2019",
        "memory_years": "assumed: the table ends at 15 years",
        "neglect_sd": "assumed",
        "tract_sd": "assumed",
        "age_slope": "assumed",
        "filed_neglect_slope": "assumed: who neglects a boiler forgets to file it",
        "filed_english_slope": "assumed",
        "month_shares": "assumed: most file in the last quarter",
        "high_pressure_share": "assumed: few dwellings have one",
        "high_pressure_log_odds": "assumed",
        "internal_share": "assumed: the type is often absent",
        "internal_log_odds": "assumed: who looks inside sees more",
        "late_45_share": "assumed",
        "late_45_log_odds": "assumed: repairs delay the filing",
        "late_180_share": "assumed",
        "late_180_log_odds": "assumed: only a defect has a correction to file",
        "late_neglect_slope": "assumed",
        "repair_days": "assumed",
        "visits_per_filing": "assumed: the paper's agents inspect 32 to 36 % of filings",
        "scarce_visits_per_filing": "assumed: a third of it",
        "expiry_days": "assumed",
        "no_access": "assumed: the owner is bound to open",
        "weekday_slots": "assumed: office hours, a weekend crew",
        "closing": "assumed",
    },
)
