"""Rules of thumb for visits without access: whom to see again, and how soon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.domains.electrical_revisit.revisits import DELAYS_DAYS, RevisitParams
from parity311.engines import heuristics
from parity311.engines.stream.process import SEVERITY_WEIGHTS
from parity311.engines.stream.rules import StreamLayout, make_rule
from parity311.engines.stream.worth import kind_shares
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness

N_DELAYS = len(DELAYS_DAYS)
NEVER_LATER = 10.0
"""Step of the calendar's load, in calendars, that no load reaches: the first delay is kept."""
INDEX_LOAD_STEP = 0.2
"""The index books later where the calendar is full, by a delay for each fifth of it (assumed): a
day in a full calendar has a price."""


class RevisitRule(NamedTuple):
    """Close below a bar; above it come back, the later the fuller the calendar."""

    score: Any
    """a `StreamRule` with one bar: 1 where it is worth a revisit"""
    load: jax.Array
    """(n_features,) weight of the features that say how full the calendar is"""
    load_bars: jax.Array
    """(N_DELAYS - 1,) load above which each longer delay is taken; rising"""
    delay_scores: jax.Array
    """(n_features,) what else lengthens the delay"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        load = jnp.dot(self.load + self.delay_scores, observation)
        delay = 1 + (load > self.load_bars).sum()
        return (self.score(key, observation) * delay).astype(jnp.int32)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays: one bar for a revisit at all, then those of the delays."""
        return self.score.arrays(harness) | {
            "delay_slopes": np.asarray(self.load + self.delay_scores),
            "delay_bars": np.sort(np.asarray(self.load_bars)),
        }


def value_of_kinds(layout: StreamLayout, params: RevisitParams) -> np.ndarray:
    """Severity-weighted days that a revisit at its best delay avoids, by kind (n_kinds,)."""
    stream, kinds = params.stream, layout.shape.kinds
    life = float(stream.lifetime_days)
    kept = np.exp(-np.asarray(DELAYS_DAYS) / life)
    best = (np.asarray(params.again, np.float64) * kept).max(axis=1)
    weight = np.asarray(SEVERITY_WEIGHTS)[kinds[:, 1]]
    ended = best * float(stream.written_share)
    return weight * np.asarray(stream.kinds, np.float64)[:, 0] * ended * life


def best_delay(params: RevisitParams, shares: np.ndarray) -> int:
    """Number of the delay at which most is saved over all kinds, in an empty calendar."""
    life = float(params.stream.lifetime_days)
    kept = np.exp(-np.asarray(DELAYS_DAYS) / life)
    saved = (shares[:, None] * np.asarray(params.again, np.float64)).sum(axis=0) * kept
    return int(np.argmax(saved))


def make_revisit_rule(
    layout: StreamLayout,
    params: RevisitParams,
    harness: Harness,
    target: np.ndarray,
    share: float,
    *,
    first_delay: int = 0,
    load_step: float = NEVER_LATER,
    price_gain: float = 0.0,
    delay_slopes: dict[str, float] | None = None,
) -> RevisitRule:
    """Rule that revisits this share, the highest target first, after the first delay or later.

    Each further `load_step` of the calendar's load moves on to the next longer delay.
    """
    score = make_rule(layout, params.stream, harness, target, (share,), price_gain=price_gain)
    names = harness.observation_names
    load, slopes = np.zeros(harness.n_features), np.zeros(harness.n_features)
    if layout.backlog in names:
        load[names.index(layout.backlog)] = 1.0
    for name, slope in (delay_slopes or {}).items():
        if name in names:
            slopes[names.index(name)] = slope
    bars = load_step * (np.arange(1, N_DELAYS) - first_delay) - 1e-4
    numbers = (load, np.where(np.arange(1, N_DELAYS) <= first_delay, -1e6, bars), slopes)
    return RevisitRule(score, *(jnp.asarray(x, jnp.float32) for x in numbers))


def revisit_share(params: RevisitParams) -> float:
    """Share of the cases the inspectors can see again."""
    return min(float(params.stream.visits_per_step), 1.0)


def log_values(layout: StreamLayout, params: RevisitParams) -> np.ndarray:
    """Logarithm of what a revisit to each kind is worth."""
    return np.log(np.maximum(value_of_kinds(layout, params), 1e-6))


def worthwhile_share(layout: StreamLayout, params: RevisitParams, harness: Harness) -> float:
    """Share of the cases whose revisit is worth its hours, at most what can be made."""
    stream, preference = params.stream, np.asarray(harness.domain.preference)
    units = np.asarray(stream.kinds, np.float64)[:, 1]
    worth = preference[0] / float(stream.speed_unit)
    worth = value_of_kinds(layout, params) * (
        worth + preference[3] * units / float(stream.keep_unit)
    )
    cost = preference[1] * float(stream.actions.hours[1]) / float(stream.cost_unit)
    share = float(kind_shares(layout.shape, stream) @ (worth > cost))
    return min(share, revisit_share(params))


def score_rule(
    layout: StreamLayout,
    params: RevisitParams,
    harness: Harness,
    price_gain: float = 0.0,
    load_step: float = NEVER_LATER,
) -> Policy:
    """The worthiest first, as many as pay and can be seen again, at the best delay."""
    shares = kind_shares(layout.shape, params.stream)
    return make_revisit_rule(
        layout,
        params,
        harness,
        log_values(layout, params),
        worthwhile_share(layout, params, harness),
        first_delay=best_delay(params, shares),
        price_gain=price_gain,
        load_step=load_step,
    )


def revisit_rules(layout: StreamLayout, typical_delay: int) -> dict[str, Callable[..., Policy]]:
    """Makers of the rules; today's comes back after the typical delay, whoever it is."""
    levels = layout.shape.kinds[:, 1]
    ages = layout.shape.kinds[:, 2] % 3

    def ranked(target: np.ndarray) -> Callable[..., Policy]:
        return lambda params, harness: make_revisit_rule(
            layout, params, harness, target, 0.5 * revisit_share(params)
        )

    def uniform(params: RevisitParams, harness: Harness) -> Policy:
        chances = np.zeros(harness.n_actions)
        chances[0] = 1.0 - revisit_share(params)
        chances[1 : N_DELAYS + 1] = revisit_share(params) / N_DELAYS
        return heuristics.at_random(chances)

    return {
        "balanced": lambda params, harness: heuristics.always(typical_delay + 1),
        "never": lambda params, harness: heuristics.always(0),
        "no_dispatch": lambda params, harness: heuristics.always(0),
        "always": lambda params, harness: heuristics.always(1),
        "random": lambda params, harness: heuristics.at_random(np.ones(harness.n_actions)),
        "uniform": uniform,
        "emerg": ranked(levels + 0.1 * ages),
        "tail": ranked(ages + 0.1 * levels),
        "actionable": lambda params, harness: make_revisit_rule(
            layout,
            params,
            harness,
            np.asarray(params.stream.kinds, np.float64)[:, 0],
            revisit_share(params),
        ),
        "score": partial(score_rule, layout),
        "dual_threshold": partial(score_rule, layout, price_gain=heuristics.PRICE_GAIN),
        "index": partial(score_rule, layout, load_step=INDEX_LOAD_STEP),
    }


def revisit_candidates(
    layout: StreamLayout, params: RevisitParams, harness: Harness
) -> list[RevisitRule]:
    """Rules among which a search looks for the best known: whom, how soon, and how patiently."""
    return [
        make_revisit_rule(
            layout,
            params,
            harness,
            log_values(layout, params),
            share,
            first_delay=first,
            load_step=step,
        )
        for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
        for first in range(N_DELAYS)
        for step in (0.15, 0.3, 10.0)
    ]
