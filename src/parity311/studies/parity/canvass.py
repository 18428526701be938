"""How far up parity can go: visits to where nobody called, in growing shares.

Nobody escalates what nobody reported, so a routing of complaints can only raise a stratum to what
it reports. A canvass spends visits where the coverage price is highest and finds what is open
there unreported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.evaluation.rollout import Contender
from parity311.mdp import contract
from parity311.mdp.harness import Harness
from parity311.studies.parity.band_prices import Span, settle_band
from parity311.studies.parity.long_run import (
    Years,
    divide,
    interval,
    measure_gap,
    pooled_coverage,
    price_samples,
    resample_years,
    years_of,
)
from parity311.studies.parity.policies import (
    DUAL,
    PLAIN_RULE,
    Policy,
    entry_in_estimate,
    entry_in_truth,
    make_rule,
)
from parity311.studies.parity.world import World


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture:
    """A rule that now and then takes another action instead."""

    rule: Any
    action: jax.Array
    share: jax.Array
    """chance of it in a step"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        key_rule, key_turn = jax.random.split(key)
        own = self.rule(key_rule, observation)
        return jnp.where(jax.random.uniform(key_turn) < self.share, self.action, own)


def mix_canvass(rule: contract.Policy, n_actions: int, share: float) -> Mixture:
    """The rule with a canvass, the last of the actions, in this share of the steps."""
    return Mixture(rule, jnp.int32(n_actions - 1), jnp.float32(share))


def study_canvass(
    world: World,
    shares: Sequence[float],
    capacities: Sequence[float],
    spans: tuple[Span, Span],
    key: jax.Array,
) -> list[dict[str, Any]]:
    """Coverage of the worst-served stratum as visits go where nobody called.

    The stratum that is looked at is the one with the highest price, so prices move. Where years
    start from an empty office they start where they settle at parity in the estimated process;
    where the line goes on they find it while it runs in. Scarce visits bind before reporting
    does, so it is also looked at with more inspectors.
    """
    rounds, years = spans
    harness = Harness(world.canvassing, action_set="extended", carries_on=True)
    key_settle, key_score = jax.random.split(key)
    rule = replace(make_rule(world, harness, DUAL), is_priced=True)
    mixed = [
        Policy(DUAL, mixed_with(rule, harness, share), capacity=capacity, target_gap=0.0)
        for capacity in capacities
        for share in (0.0, *shares)
    ]
    if world.domain.play.carry_on is None:
        entries = [entry_in_estimate(world, harness, one) for one in mixed]
        settled = settle_band(harness, entries, [0.0] * len(mixed), rounds, key_settle)
        mixed = [
            replace(one, contender=replace(found, price_step=None))
            for one, found in zip(mixed, settled, strict=True)
        ]
    plain = mixed_with(make_rule(world, harness, PLAIN_RULE), harness, 0.0)
    every = [*(Policy(PLAIN_RULE, plain, capacity=capacity) for capacity in capacities), *mixed]
    entries = [entry_in_truth(world, harness, one) for one in every]
    played = years.play(harness, entries, key_score)
    weights = resample_years(years.n_plays)
    totals = [years_of(played, place) for place in range(len(every))]
    names = [None] * len(capacities) + [0.0, *shares] * len(capacities)
    return [
        {
            "capacity": one.capacity,
            "share": share,
            **describe_lift(own, totals[capacities.index(one.capacity)], weights),
        }
        for one, share, own in zip(every, names, totals, strict=True)
    ]


def mixed_with(rule: Contender, harness: Harness, share: float) -> Contender:
    """The contender with a canvass in this share of its steps."""
    return replace(rule, policy=mix_canvass(rule.policy, harness.n_actions, share))


def describe_lift(years: Years, reference: Years, weights: np.ndarray) -> dict[str, Any]:
    """How far up the worst served are, beside the least share that is reported at all."""
    reported = divide(years.reported.sum(axis=0), years.actionable.sum(axis=0))[:5]
    worst = np.nanmin(pooled_coverage(years, weights), axis=1)
    return {
        "worst_coverage": interval(worst),
        "coverage": years.coverage.tolist(),
        "least_reported": float(np.nanmin(reported)),
        "gap": measure_gap(years, weights),
        "price": interval(price_samples(years, reference, weights)),
        "correct_a_year": years.throughput,
        "visits_per_complaint": float(years.visits.sum() / years.complaints.sum()),
    }
