"""The categories, the inspectors, and what a step changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax
from parity311.domains.housing.process import PROCESS
from parity311.domains.housing.trail import Trail
from parity311.engines.backlog import process as engine
from parity311.mdp.contract import N_STRATA

CODES = tuple(category.code for category in PROCESS.categories)
CATEGORIES = tuple(code.lower().replace("/", "_").replace(" ", "_") for code in CODES)
N_CATEGORIES = len(CATEGORIES)
N_PLACES = N_CATEGORIES * N_STRATA
"""A place is a category in a stratum: category first."""

SHAPE = engine.BacklogShape(
    steps_per_day=24, bin_steps=24, n_ages=16, max_steps=336, most_arrivals=9
)
"""Two weeks of hours; ages in days, the last open from the fifteenth on; the busiest place of the
whole city expects two cases of one code in an hour."""
N_AGES = SHAPE.n_ages

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""
SPEED_UNIT = 30.0
"""Severity-weighted days a typical correct escalation saves: three visits of weight 1.5, each a
week before the end of the episode."""
COST_UNIT = 3.0
"""Inspector hours, one a visit, that a typical correct escalation takes."""
RETENTION_UNIT = 10.0
"""Severity-weighted dwelling days that it keeps habitable: weight 1.5 for a week, one dwelling."""
PREFERENCE = (0.5, 0.2, 0.0, 0.3)
"""What the agency wants today, tenants' days and homes first: inspectors are paid whichever
category they serve."""

ACTION_NAMES = (*CATEGORIES, "BALANCED", "COVERAGE_PRICED", "CANVASS", "NO_DISPATCH")
"""The paper's: which category is served. Ours: all categories by code and age (twice: where
coverage has no price, COVERAGE_PRICED is BALANCED); a quarter of the visits where nobody called;
none. Every order weighs strata by their coverage price, where coverage has a weight."""
ACTION_NUMBER = {name: number for number, name in enumerate(ACTION_NAMES)}

_HOURS = (np.arange(24) >= 8) & (np.arange(24) < 18)
_WEEK = np.outer(PROCESS.service.weekday_slots, _HOURS).reshape(-1)
CAPACITY_WEEK = (_WEEK / _WEEK.mean()).astype(np.float32)
"""Visits by hour of the week, mean 1: HPD's weekdays, from 8 to 18 h (assumed)."""


class Params(NamedTuple):
    """The backlog of categories and strata, and the inspectors."""

    backlog: engine.BacklogParams
    visits_per_hour: jax.Array
    """() mean over the week"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""
    start_seen: jax.Array
    """(S, n_names) what is seen of each start"""


class State(NamedTuple):
    """The backlog, the trail of the last hours, and what a policy sees of them."""

    backlog: engine.Backlog
    trail: Trail
    seen: jax.Array
    """(n_names,) kept, because a step's observation is read more often than it changes"""
