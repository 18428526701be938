"""One site: what is wrong, what was reported, and what can be done."""

from __future__ import annotations

from typing import NamedTuple

from parity311.arrays import jax
from parity311.domains.scaffold.sites import SiteParams

MAX_STEPS = 168
"""A site is followed for a week of hours from the complaint that brought it up."""
MOST_TOKENS = 2.0
"""Visits a site's inspector can save up (assumed)."""

INSPECT_NOW, DELAY, BATCH, ESCALATE, IGNORE = range(5)
ACTION_NAMES = ("inspect_now", "delay", "batch", "escalate", "ignore")
OUTCOME_NAMES = ("violation", "no_violation", "no_access", "not_visited")
VIOLATION, NO_VIOLATION, NO_ACCESS, NOT_VISITED = range(4)
NONE, HARMLESS, HAZARD = range(3)
"""What is wrong at the site: nothing, something not actionable, a hazard."""

Params = SiteParams


class State(NamedTuple):
    """One site; times in hours, () each."""

    problem: jax.Array
    """NONE, HARMLESS or HAZARD: latent, only a visit finds out"""
    code: jax.Array
    stratum: jax.Array
    n_created: jax.Array
    n_open: jax.Array
    recurrent: jax.Array
    """complaints of the last week, forgetting with it"""
    zip_freq: jax.Array
    """complaints in the postal code of the last day, forgetting with it"""
    since_resolution: jax.Array
    since_report: jax.Array
    """hours since the first report of what is wrong now"""
    is_counted: jax.Array
    """whether a visit has already found this incident"""
    order: jax.Array
    """0 none, 1 a visit of its own, 2 a place on the next joint trip"""
    tokens: jax.Array
    """visits the inspector has time for"""
    hour: jax.Array
    """int32 hour of the week"""
    n_steps: jax.Array
    is_new: jax.Array
    """whether the first complaint has yet to be counted"""


def is_office_hour(hour: jax.Array) -> jax.Array:
    """Whether inspectors are out: weekdays from 8 to 17 h."""
    return (hour < 5 * 24) & (hour % 24 >= 8) & (hour % 24 < 17)
