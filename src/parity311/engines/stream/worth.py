"""What visits to the kinds of a stream are worth, and how many the office can make."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.engines.stream.process import (
    MAX_VISITS,
    N_LEVELS,
    N_SEASONS,
    SEVERITY_WEIGHTS,
    StreamParams,
    StreamShape,
    waiting_factors,
)
from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA


def check_params(shape: StreamShape, params: StreamParams) -> None:
    """Refuse params of the wrong shape or with chances that cannot be, before anything compiles."""
    wanted = {
        "kinds": (shape.n_kinds, 2),
        "days_per_step": (N_SEASONS,),
        "access": (N_STRATA,),
        "comes_back": (shape.n_places,),
        "reported_share": (N_STRATA,),
        "service_days": (N_LEVELS,),
    }
    for name, size in wanted.items():
        given = np.shape(getattr(params, name))
        if given != size:
            raise InputError(f"{name} has shape {given}; this office needs {size}.")
    cells = np.asarray(params.cells)
    if cells.shape[0] != N_SEASONS or cells.min() < 0 or cells.max() >= shape.n_kinds * N_STRATA:
        raise InputError(
            f"cells has shape {cells.shape} and values {cells.min()} to {cells.max()}; give one "
            f"row a season, values 0 to {shape.n_kinds * N_STRATA - 1} (kind × 6 + stratum)."
        )
    chances = {name: np.asarray(getattr(params, name)) for name in CHANCES}
    chances["kinds[:, 0]"] = np.asarray(params.kinds)[:, 0]
    for name, values in chances.items():
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise InputError(
                f"{name} has a chance of {values.min():.3g} to {values.max():.3g}; chances lie "
                "between 0 and 1."
            )
    for name in ("days_per_step", "lifetime_days"):
        if not (np.asarray(getattr(params, name)) > 0.0).all():
            raise InputError(f"{name} is {np.asarray(getattr(params, name))}; give days above 0.")


CHANCES = (
    "access",
    "crew_per_step",
    "comes_back",
    "reported_share",
    "written_share",
    "goes_on",
)
"""Fields of the params that are chances or shares."""


def kind_shares(shape: StreamShape, params: StreamParams) -> np.ndarray:
    """Share of each kind among what comes in, over the year (n_kinds,)."""
    kinds = np.asarray(params.cells) // N_STRATA
    counts = np.stack([np.bincount(row, minlength=shape.n_kinds) for row in kinds])
    steps = 1.0 / np.asarray(params.days_per_step, np.float64)
    return (steps / steps.sum()) @ counts / kinds.shape[1]


def value_of_kinds(shape: StreamShape, params: StreamParams) -> np.ndarray:
    """Severity-weighted days that a visit now avoids, by kind (n_kinds,), at mean access."""
    weight = np.asarray(SEVERITY_WEIGHTS)[shape.kinds[:, 1]]
    chance = np.asarray(params.kinds)[:, 0]
    ended = float(params.access.mean()) * float(params.written_share)
    return weight * chance * ended * float(params.lifetime_days)


def queue_loss(params: StreamParams) -> float:
    """Log share of a visit's worth that a full queue ahead loses, over the year's mean."""
    factors = np.asarray(waiting_factors(params), np.float64).mean(axis=0)
    return float(np.log(factors[0] / max(factors[-1], 1e-9)))


UTILISATION = 0.85
"""Share of the round's visits that rules without an eye on the queue give out: at all of them the
queue would be always full, and everybody would wait for ever (assumed)."""


class Shares(NamedTuple):
    """Shares of complaints the office can give to anybody, and to the crew."""

    anybody: float
    crew: float


def capacity_shares(params: StreamParams) -> Shares:
    """What round and crew can do per complaint without drowning."""
    crew = float(params.crew_per_step)
    visits = UTILISATION * float(params.visits_per_step)
    return Shares(min(crew + visits, 1.0), min(crew, 1.0))


def queue_shares(ordered: np.ndarray, visits_per_step: float) -> np.ndarray:
    """How often each length of the queue occurs if so many are ordered at it, (n,)."""
    n = len(ordered)
    least = int(np.floor(visits_per_step))
    law = {least: 1.0 - (visits_per_step - least), least + 1: visits_per_step - least}
    moves = np.zeros((n, n))
    for length in range(n):
        for joins, chance in ((1, ordered[length]), (0, 1.0 - ordered[length])):
            for visits, share in law.items():
                after = max(min(length + joins, n - 1) - min(visits, MAX_VISITS), 0)
                moves[length, after] += chance * share
    shares = np.full(n, 1.0 / n)
    for _ in range(10):
        moves = moves @ moves
    return shares @ moves
