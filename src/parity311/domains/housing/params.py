"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.arrays import jax, jitted, jnp
from parity311.domains.housing.observation import look_at
from parity311.domains.housing.process import PROCESS
from parity311.domains.housing.state import CODES, N_AGES, N_CATEGORIES, N_PLACES, SHAPE, Params
from parity311.domains.housing.trail import average_trail
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.params import example_backlog
from parity311.estimation import backlog as backlog_estimate
from parity311.estimation.backlog_cases import addresses_by_place
from parity311.estimation.backlog_dynamics import true_params
from parity311.mdp.contract import N_STRATA
from parity311.records.store import Records, open_records


def make_params(backlog: engine.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day."""
    waiting = np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean()
    typical = jnp.float32(max(waiting, 1.0))
    params = Params(backlog, jnp.float32(visits_per_day / 24.0), typical, jnp.zeros(0))
    return params._replace(start_seen=look_at_starts(params))


def scale_capacity(params: Params, factor: float) -> Params:
    """The same office with so many times the visits."""
    scaled = params._replace(visits_per_hour=params.visits_per_hour * factor)
    return scaled._replace(start_seen=look_at_starts(scaled))


@jitted()
def look_at_starts(params: Params) -> jax.Array:
    """What is seen of each start, (S, n_names)."""
    trail = average_trail(params.backlog)
    return jax.vmap(lambda start: look_at(params, start, trail))(engine.all_starts(params.backlog))


def example() -> Params:
    """An office by hand: sixty cases a day in the paper's categories, visits for 70 % of them.

    Five strata with equal incidents report 35 to 73 % of them.
    """
    share = np.repeat([category.share for category in PROCESS.categories], N_STRATA)
    found = np.repeat([category.actionable for category in PROCESS.categories], N_STRATA)
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.tile(np.arange(N_STRATA), N_CATEGORIES),
        share,
        cases_per_day=60.0,
        chance=np.minimum(found[:, None] * np.array([0.78, 0.66, 0.54, 0.42]), 0.9),
        days_waiting=np.append(np.full(N_AGES - 1, 0.6), 4.0),
        access=0.6,
        returns=0.0,
        repeats_per_day=0.01,
        n_addresses=2_000.0,
    )
    return make_params(backlog, 0.7 * 60.0)


def place_of(located: Any) -> np.ndarray:
    """Number of each one's category and stratum; a code not listed counts as general."""
    number = {code: i for i, code in enumerate(CODES)}
    general = number["GENERAL"]
    category = np.array([number.get(code, general) for code in located.category], np.int64)
    return category * N_STRATA + located.stratum.astype(np.int64)


def layout_of(records: Records) -> backlog_estimate.BacklogLayout:
    """How the backlog is laid out; a canvass of a stratum looks at its dwellings' buildings."""
    n_addresses = np.ones(N_STRATA)
    for (_, _, stratum), n in addresses_by_place(records, "b.units > 0").items():
        n_addresses[stratum] += n
    n_addresses = np.tile(n_addresses, N_CATEGORIES)
    return backlog_estimate.BacklogLayout("housing", N_PLACES, place_of, SHAPE, n_addresses)


def truth(city: str | Path, date_from: date) -> Params:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, make_params)
