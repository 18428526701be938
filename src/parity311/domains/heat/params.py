"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains.heat.decision import (
    COMPLAINT_KINDS,
    KINDS,
    SLOTS_PER_DAY,
    Params,
)
from parity311.domains.heat.estimate import (
    OfficeFigures,
    estimate_figures,
    scale_to_office,
    true_figures,
)
from parity311.domains.heat.example import example_office
from parity311.domains.heat.process import PROCESS
from parity311.records.store import Records, open_records

BUSIEST_MONTH = 0.75
"""Cases per slot in the busiest month: the office is the share of the city that this makes."""

EXAMPLE_CALL_BACK_DAYS = 1.5
"""Of the hand-made example; records tell theirs."""
REPAIR_DAYS = 1.0
"""Days from a violation to the repair (assumed; class C violations are due within 24 hours)."""
LINKED_SHARE = 0.9
"""Share of further reports recognised as duplicates when they arrive (assumed)."""


def example() -> Params:
    """A small office by hand: five equal strata that report 35 to 73 % of their incidents.

    22 % of incidents are actionable, what the office sees tells them apart with an AUC of 0.76,
    and inspectors can visit 30 % of the complaints.
    """
    month = np.array(PROCESS.volume.month_shares)
    return example_office(
        KINDS,
        # By building-wide, no heat, level of units and severity code.
        part_shares=((0.4, 0.6), (0.3, 0.7), (0.3, 0.3, 0.25, 0.15), (0.1, 0.3, 0.4, 0.2)),
        part_log_odds=(1.0, 0.6, 0.25, -0.75),
        actionable=0.22,
        complaints_per_day=BUSIEST_MONTH * SLOTS_PER_DAY * month / month.max(),
        visits_per_complaint=0.3,
        lifetime_days=3.7,
        call_back_days=EXAMPLE_CALL_BACK_DAYS,
        repair_days=REPAIR_DAYS,
    )


def make_params(figures: OfficeFigures) -> Params:
    """Scale a city down to one office whose busiest month nearly fills its slots."""
    return scale_to_office(
        figures,
        BUSIEST_MONTH * SLOTS_PER_DAY,
        linked_share=LINKED_SHARE,
        repair_days=REPAIR_DAYS,
    )


def scale_capacity(params: Params, factor: float) -> Params:
    """The same office with so many times the visits."""
    return params._replace(office=params.office._replace(capacity=params.office.capacity * factor))


def estimate(records: Records, calibration: Any, date_to: date) -> Params:
    """The office as the agency could know it before `date_to`."""
    return make_params(estimate_figures(records, calibration, COMPLAINT_KINDS, date_to))


def truth(city: str | Path, date_from: date) -> Params:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    silent, calls = PROCESS.reporting.zero_inflation, PROCESS.service.callback_days
    assert calls is not None
    return make_params(true_figures(records, happened, COMPLAINT_KINDS, date_from, silent, calls))
