"""Rules of a stream: whom they serve, and how they follow queue and price."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import complaint_triage, crane, drainage, electrical_revisit, snad
from parity311.engines.stream import rules as stream_rules
from parity311.engines.stream import worth as stream_worth
from parity311.engines.stream.process import QUEUE_SLOTS
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow


STREAMS = (snad, crane, drainage, complaint_triage)
EXPECTED = {"always", "uniform", "emerg", "tail", "actionable", "index", "expert", "no_dispatch"}


def observations(module: Any, harness: Harness, **known: float) -> jnp.ndarray:
    """What a policy sees of every kind in an empty office, (n_kinds, n_features)."""
    shape = module.SHAPE
    rows = np.zeros((shape.n_kinds, harness.n_features), np.float32)
    names = list(harness.observation_names)
    for part, reading in enumerate(module.LAYOUT.readings):
        level = shape.kinds[:, part] - reading.offset
        if len(reading.factors) == 1:
            ((name, factor),) = reading.factors.items()
            rows[:, names.index(name)] = level / factor
        else:
            # New, neither, recurrent: two flags for one history.
            rows[:, names.index("is_new")] = level == -1
            rows[:, names.index("is_recurrent")] = level == 1
    for name, value in known.items():
        rows[:, names.index(name)] = value
    return jnp.asarray(rows)


def decide(policy: Any, seen: jnp.ndarray) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), len(seen))
    return np.asarray(jax.vmap(policy)(keys, seen))


@pytest.mark.parametrize("module", STREAMS, ids=lambda module: module.OFFICE.slug)
def test_rules_tell_every_kind_apart(module: Any) -> None:
    harness, params = Harness(module.DOMAIN), module.example()
    target = np.arange(module.SHAPE.n_kinds, dtype=np.float64)
    n_strong = len(module.LAYOUT.strong_shares(0.1))
    wanted = (0.5, *[0.0] * n_strong)
    rule = stream_rules.make_rule(module.LAYOUT, params, harness, target, wanted)
    taken = decide(rule, observations(module, harness)) > 0
    shares = stream_worth.kind_shares(module.SHAPE, params)
    # The highest numbers are served, until half of what comes in is.
    assert (np.diff(taken.astype(int)) >= 0).all()
    assert 0.5 <= shares @ taken <= 0.5 + shares[np.argmax(taken)] + 1e-6


@pytest.mark.parametrize("module", STREAMS, ids=lambda module: module.OFFICE.slug)
def test_the_index_orders_less_behind_a_queue_and_never_what_is_worth_less(module: Any) -> None:
    harness, params = Harness(module.DOMAIN), module.example()
    rule = module.DOMAIN.heuristics["index"](params, harness)
    served = []
    for backlog in (0.0, 0.5, 1.0):
        seen = observations(module, harness, **{module.LAYOUT.backlog: backlog})
        served.append(decide(rule, seen) > 0)
    assert (served[0] >= served[1]).all()
    assert (served[1] >= served[2]).all()
    assert served[0].sum() > served[2].sum()


@pytest.mark.parametrize("module", STREAMS, ids=lambda module: module.OFFICE.slug)
def test_the_dual_threshold_follows_the_price(module: Any) -> None:
    harness, params = Harness(module.DOMAIN), module.example()
    rule = module.DOMAIN.heuristics["dual_threshold"](params, harness)
    low, high = (
        decide(rule, observations(module, harness, coverage_price=price)) for price in (-3.0, 3.0)
    )
    assert (high >= low).all()
    assert (high > 0).sum() > (low > 0).sum()


@pytest.mark.parametrize("module", [*STREAMS, electrical_revisit], ids=lambda m: m.OFFICE.slug)
def test_every_domain_has_the_rules_and_its_own(module: Any) -> None:
    assert set(module.DOMAIN.heuristics) >= EXPECTED


def test_balanced_sends_everybody_and_the_crew_to_the_gravest() -> None:
    harness, params = Harness(snad.DOMAIN), snad.example()
    actions = decide(
        snad.DOMAIN.heuristics["balanced"](params, harness), observations(snad, harness)
    )
    assert (actions[snad.SHAPE.kinds[:, 1] == 3] == 2).all()
    assert (actions[snad.SHAPE.kinds[:, 1] < 3] == 1).all()


def test_no_action_is_taken_at_a_loss() -> None:
    harness, params = Harness(crane.DOMAIN), crane.example()
    dear = params._replace(cost_unit=params.cost_unit / 1000.0)
    cheap = params._replace(cost_unit=params.cost_unit * 1000.0)
    assert stream_rules.worthwhile_shares(crane.LAYOUT, dear, harness)[1:] == (0.0, 0.0)
    shares = stream_rules.worthwhile_shares(crane.LAYOUT, cheap, harness)
    assert shares[1] == pytest.approx(float(params.crew_per_step), abs=1e-6)


def test_queue_shares_are_those_of_a_queue() -> None:
    rng = np.random.default_rng(1)
    ordered = np.append(np.full(QUEUE_SLOTS, 0.3), 0.0)
    shares = stream_worth.queue_shares(ordered, 0.4)
    assert shares.sum() == pytest.approx(1.0)
    length, counts = 0, np.zeros(QUEUE_SLOTS + 1)
    for joins, visits in rng.random((40_000, 2)):
        counts[length] += 1
        length = max(length + int(joins < ordered[length]) - int(visits < 0.4), 0)
    np.testing.assert_allclose(shares, counts / counts.sum(), atol=0.02)


def test_a_tuned_bar_earns_more_from_the_queue_than_serving_all() -> None:
    harness, params = Harness(snad.DOMAIN), snad.example()
    score = snad.DOMAIN.heuristics["score"](params, harness)
    served = decide(score, observations(snad, harness)) > 0
    shares = stream_worth.kind_shares(snad.SHAPE, params)
    assert 0.0 < shares @ served < 0.6


def test_candidates_differ() -> None:
    harness, params = Harness(crane.DOMAIN), crane.example()
    found = stream_rules.stream_candidates(crane.LAYOUT, params, harness)
    seen = observations(crane, harness, backlog=0.25)
    assert len({decide(rule, seen).tobytes() for rule in found}) > 10
