"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains.scaffold.process import PROCESS
from parity311.domains.scaffold.sites import make_site_params, site_layout, site_params_from
from parity311.domains.scaffold.state import MAX_STEPS, Params
from parity311.estimation import backlog as backlog_estimate
from parity311.estimation.backlog_cases import read_cases
from parity311.mdp.contract import N_STRATA
from parity311.records.store import Records, open_records


def example() -> Params:
    """Sites by hand: five strata that report 35 to 73 % of equal hazards; visits for half.

    A third of the complaints are about a hazard, and a hazard rises by a code in twenty days.
    """
    reported = np.array([0.354, 0.42, 0.50, 0.60, 0.729, 0.5])
    share = np.append(reported[:5], 0.0)
    first = np.outer(share, PROCESS.hazard.code_shares)
    return make_site_params(
        first,
        np.tile([0.55, 0.38, 0.24, 0.15], (N_STRATA, 1)),
        reported,
        lifetime_days=20.0,
        report_rate=0.1 * reported / 0.5,
        incidents_per_site_day=0.02,
        zip_per_day=np.full(N_STRATA, 0.2),
        access=np.full(N_STRATA, 0.9),
        visits_per_case=0.5,
        hidden_incidents=1.0 / reported - 1.0,
        sites_per_day=10.0,
        max_steps=MAX_STEPS,
        worsening_per_day=0.05,
    )


LAYOUT = site_layout("scaffold", MAX_STEPS)


def estimate(records: Records, calibration: Any, date_to: date) -> Params:
    """Sites as the agency could know them before `date_to`.

    Worsening is left out: the records give a case one code and never another.
    """
    found = backlog_estimate.estimate_backlog(records, calibration, date_to, LAYOUT)
    cases = read_cases(records, "scaffold", records.window[0], date_to)
    return site_params_from(records, found, cases, MAX_STEPS)


def truth(city: str | Path, date_from: date) -> Params:
    """Sites as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    found = backlog_estimate.true_backlog(records, happened, date_from, LAYOUT)
    cases = read_cases(records, "scaffold", date_from, records.window[1])
    return site_params_from(records, found, cases, MAX_STEPS)
