"""Params of a backlog from plain arrays: checked before anything is compiled; and an example."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import jnp
from parity311.city.process import ComplaintProcess
from parity311.engines.backlog.process import N_CODES, BacklogParams, BacklogShape
from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA

N_STARTS = 32
"""Backlogs an episode can start from; recorded ones are evenly spaced over the period."""


def make_backlog_params(n_places: int, shape: BacklogShape, **values: Any) -> BacklogParams:
    """Params from arrays, checked: shapes, shares that sum to one, chances between 0 and 1."""
    numbers = {name: np.asarray(value, np.float64) for name, value in values.items()}
    n_starts = len(numbers["start_slot"])
    wanted = {
        "cases_per_day": (n_places, N_CODES),
        "week": (7 * shape.steps_per_day,),
        "season": (12,),
        "repeats_per_day": (),
        "mix": (n_places, N_STRATA),
        "unreported_per_day": (n_places, N_CODES),
        "unreported_mix": (n_places, N_STRATA),
        "unreported_incidents": (N_STRATA,),
        "chance": (n_places, N_CODES),
        "there": (shape.n_ages,),
        "access": (n_places,),
        "returns": (),
        "put_away_per_day": (),
        "lifetime_days": (),
        "n_addresses": (n_places,),
        "start_waiting": (n_starts, n_places, N_CODES * shape.n_ages),
        "start_slot": (n_starts,),
        "start_month": (n_starts,),
    }
    for name, form in wanted.items():
        if numbers[name].shape != form:
            raise InputError(
                f"{name} has shape {numbers[name].shape}; {form} is needed for {n_places} places, "
                f"{shape.n_ages} ages and {n_starts} starts."
            )
        if not np.isfinite(numbers[name]).all() or (numbers[name] < 0).any():
            raise InputError(f"{name} has negative or missing values; give numbers of at least 0.")
    for name in ("chance", "there", "access", "returns"):
        if (numbers[name] > 1).any():
            raise InputError(
                f"{name} has {numbers[name].max():.3g} as its largest value; chances are at most 1."
            )
    for name in ("mix", "unreported_mix"):
        totals = numbers[name].sum(axis=1)
        if not np.allclose(totals, 1.0, atol=1e-4):
            raise InputError(
                f"{name} sums to {totals.min():.3g} at one place; the shares of strata sum to 1."
            )
    likely = numbers["chance"][:, :, None] * numbers["there"] * shape.timely
    open_now = (numbers["start_waiting"] * likely.reshape(n_places, -1)).sum(axis=2)
    numbers["start_actionable"] = open_now @ numbers["mix"]
    whole = ("start_slot", "start_month")
    return BacklogParams(
        **{
            name: jnp.asarray(value, jnp.int32 if name in whole else jnp.float32)
            for name, value in numbers.items()
        }
    )


EXAMPLE_REPORTED = np.array([0.354, 0.42, 0.50, 0.60, 0.729])
"""Share of incidents that the five strata of every example report."""


def example_backlog(
    process: ComplaintProcess,
    shape: BacklogShape,
    place_stratum: np.ndarray,
    place_weight: np.ndarray,
    *,
    cases_per_day: float,
    chance: np.ndarray,
    days_waiting: np.ndarray,
    access: float,
    returns: float,
    repeats_per_day: float,
    n_addresses: float,
) -> BacklogParams:
    """A backlog by hand: five strata with equal incidents, of which 35 to 73 % are reported.

    Parameters
    ----------
    place_stratum, place_weight
        (P,) stratum of each place, and how its stratum's incidents are spread over its places.
    chance
        (4,) or (P, 4) chance of being actionable.
    days_waiting
        (A,) days of arrivals that wait at each age when an episode starts.
    """
    rng = np.random.default_rng(311)
    n_places = len(place_stratum)
    reported = np.append(EXAMPLE_REPORTED, 0.5)[place_stratum]
    total = np.bincount(place_stratum, place_weight, minlength=N_STRATA)[place_stratum]
    incidents = np.where(place_stratum < N_STRATA - 1, place_weight / total, 0.0)
    incidents *= cases_per_day / EXAMPLE_REPORTED.sum()
    cases, hidden = incidents * reported, incidents * (1.0 - reported)
    codes, mix = np.array(process.hazard.code_shares), np.eye(N_STRATA)[place_stratum]
    hours = np.array(process.reporting.hour_shares).reshape(shape.steps_per_day, -1).sum(axis=1)
    week = np.outer(process.reporting.weekday_shares, hours).reshape(-1)
    months = np.array(process.volume.month_shares)
    level = np.exp(0.08 * rng.standard_normal((N_STARTS, 1, 1, 1)) - 0.08**2 / 2)
    mean = level * cases[:, None, None] * codes[:, None] * days_waiting
    lifetime = process.hazard.lifetime_days
    return make_backlog_params(
        n_places,
        shape,
        cases_per_day=cases[:, None] * codes,
        week=week / week.mean(),
        season=months / months.mean(),
        repeats_per_day=repeats_per_day,
        mix=mix,
        unreported_per_day=hidden[:, None] * codes * chance,
        unreported_mix=mix,
        unreported_incidents=hidden @ mix,
        chance=np.broadcast_to(chance, (n_places, N_CODES)),
        there=np.exp(-(np.arange(shape.n_ages) + 0.5) * shape.bin_days / lifetime),
        access=np.full(n_places, access),
        returns=returns,
        put_away_per_day=0.0,
        lifetime_days=lifetime,
        n_addresses=np.full(n_places, n_addresses),
        start_waiting=rng.poisson(mean).reshape(N_STARTS, n_places, -1),
        start_slot=shape.steps_per_day * rng.integers(0, 7, N_STARTS),
        start_month=rng.integers(0, 12, N_STARTS),
    )
