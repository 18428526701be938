"""A stream small enough to be solved in no time: two places, two histories, three actions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from parity311.domains import snad
from parity311.engines.stream.optimum import solve_stream
from parity311.engines.stream.process import StreamParams, StreamShape, StreamState, describe_scene
from parity311.engines.stream.rules import StreamLayout, stream_rules
from parity311.estimation.stream import example_params
from parity311.estimation.stream_dynamics import stream_dynamics
from parity311.mdp.contract import Domain

SHAPE = StreamShape(n_places=2, n_histories=2)
OFFICE = replace(snad.OFFICE, shape=SHAPE)
NAMES = (*snad.PUBLISHED, "backlog", "crew_free", "open_1", "open_2")
READINGS = (
    snad.LAYOUT.readings[0]._replace(factors={"neighbourhood": 1.0}),
    *snad.LAYOUT.readings[1:],
)
LAYOUT = StreamLayout(SHAPE, READINGS, snad.LAYOUT.strong_shares, opens=NAMES[-2:])


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    del params
    seen = describe_scene(SHAPE, state)
    parts = (seen.place, seen.level, seen.history, seen.season, seen.backlog, seen.crew_free)
    return jnp.concatenate([jnp.stack(parts), seen.open_levels])


def example() -> StreamParams:
    """The same access everywhere: the stratum, which no policy sees, then says nothing."""
    return example_params(
        OFFICE,
        place_shares=(0.6, 0.4),
        place_log_odds=(0.0, 0.5),
        level_shares=(0.10, 0.25, 0.55, 0.10),
        history_shares=(0.8, 0.2),
        history_log_odds=(0.0, 0.8),
        actionable=0.25,
        returns_per_day=0.02,
    )


def make_domain() -> Domain:
    """The domain with rules and solution."""
    return replace(
        snad.DOMAIN,
        slug="two_districts",
        observation_names=NAMES,
        observation_sets={"published": snad.PUBLISHED, "extended": NAMES},
        geographic_features=("neighbourhood",),
        heuristics=stream_rules(LAYOUT),
        dynamics=stream_dynamics(
            OFFICE,
            LAYOUT,
            observe=observe,
            example=example,
            truth=snad.truth,
            solve=partial(solve_stream, LAYOUT),
        ),
    )
