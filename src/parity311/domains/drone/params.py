"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from parity311.arrays import jnp
from parity311.domains.drone.decision import N_DEPOTS, SHAPE, Params
from parity311.domains.drone.process import PROCESS
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.params import example_backlog
from parity311.estimation import backlog as backlog_estimate
from parity311.estimation.backlog_cases import addresses_by_place
from parity311.estimation.backlog_dynamics import true_params
from parity311.records.store import Records, open_records


def make_params(backlog: engine.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day; a drone needs nobody to open the door."""
    waiting = float(np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean())
    return Params(
        backlog._replace(access=jnp.ones(N_DEPOTS), returns=jnp.float32(0.0)),
        jnp.float32(visits_per_day / SHAPE.steps_per_day),
        jnp.float32(max(waiting, 1.0)),
    )


def example() -> Params:
    """Five boroughs by hand, a stratum each, that report 35 to 73 % of equal hazards.

    Fifteen cases a day, a third of them actionable, flights for four fifths of them.
    """
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.arange(N_DEPOTS),
        np.ones(N_DEPOTS),
        cases_per_day=15.0,
        chance=np.array([0.42, 0.34, 0.26, 0.18]),
        days_waiting=np.append(np.full(SHAPE.n_ages - 1, 0.3), 1.5),
        access=1.0,
        returns=0.0,
        repeats_per_day=0.02,
        n_addresses=20_000.0,
    )
    return make_params(backlog, 12.0)


def layout_of(records: Records) -> backlog_estimate.BacklogLayout:
    """A place is a borough; a drone looks at all its buildings."""
    n_addresses = np.ones(N_DEPOTS)
    for (_, borough, _), n in addresses_by_place(records).items():
        n_addresses[borough] += n
    return backlog_estimate.BacklogLayout(
        "drone",
        N_DEPOTS,
        lambda located: located.borough.astype(np.int64),
        SHAPE,
        n_addresses,
    )


def truth(city: str | Path, date_from: date) -> Params:
    """The boroughs as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, make_params)
