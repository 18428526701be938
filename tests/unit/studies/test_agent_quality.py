"""Parts that are measured apart are paired, and a snapshot is chosen by what it earns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import Params, make_domain

from parity311.agents import agent_config, make_agent
from parity311.engines import heuristics
from parity311.evaluation.rollout import Contender
from parity311.mdp.harness import Harness
from parity311.studies.quality import measure as quality
from parity311.studies.quality.settings import QualitySetting, Recipe
from parity311.training.loop import Trained

pytestmark = pytest.mark.slow

DOMAIN = replace(
    make_domain(
        candidates=lambda params, harness: [heuristics.always(0), heuristics.always(1)],
    ),
    preference=(1.0, 0.0, 0.0, 0.0),
    max_steps=6,
    heuristics={
        "balanced": lambda params, harness: heuristics.at_random(np.ones(2)),
        "never": lambda params, harness: heuristics.always(0),
    },
    agent_settings={"dqn": {"hidden": (8,), "target_every": 10, "buffer_size": 200}},
)
RECIPE = Recipe("dqn", "dqn", 120, 4, {"learning_rate": 1e-2})
SETTING = QualitySetting("tiny", "tiny", "share", (RECIPE,), n_scored=24, n_validating=16)


def ground(seed: int = 1) -> quality.Ground:
    estimated, true = Params(jnp.float32(1.0)), Params(jnp.float32(2.0))
    return quality.Ground(SETTING, Harness(DOMAIN), estimated, true, seed)


def play(names: dict[str, Any], place: quality.Ground, *, is_true: bool = True) -> np.ndarray:
    contenders = [Contender(name, policy) for name, policy in names.items()]
    return quality.rewards_of(place, contenders, "score", 24, is_true=is_true)


def test_a_policy_meets_the_same_episodes_whoever_plays_beside_it() -> None:
    act, wait = heuristics.always(1), heuristics.always(0)
    together, alone = play({"act": act, "wait": wait}, ground()), play({"act": act}, ground())
    np.testing.assert_array_equal(together[0], alone[0])
    assert not np.array_equal(alone[0], play({"act": act}, ground(seed=2))[0])
    # What really happens pays twice what is believed.
    np.testing.assert_allclose(alone, 2.0 * play({"act": act}, ground(), is_true=False), rtol=1e-5)


def test_rules_come_with_the_best_of_the_estimate_and_a_ceiling() -> None:
    found = quality.measure_rules(ground())
    rewards = {one["policy"]: np.mean(one["rewards"]) for one in found["policies"]}
    assert set(rewards) == {"balanced", "never", quality.BELIEVED, quality.CEILING}
    assert rewards[quality.CEILING] == max(rewards.values())
    assert not found["is_exact"]


def test_every_agent_gets_the_snapshot_that_earns_most() -> None:
    place = ground()
    harness = place.harness

    def table(action: int) -> dict[str, np.ndarray]:
        """A linear network that always prefers one action, for one agent."""
        bias = np.zeros((1, 2), np.float32)
        bias[:, action] = 1.0
        return {"weight_0": np.zeros((1, harness.n_features, 2), np.float32), "bias_0": bias}

    agent = make_agent("dqn", agent_config("dqn"))
    snapshots = [table(0), table(1), table(0)]
    zeros = np.zeros((1, 6))
    trained = Trained(
        agent, harness, table(0), np.eye(1, 4, dtype=np.float32), np.arange(1), zeros, [],
        snapshots=snapshots,
    )  # fmt: skip
    chosen, earned = quality.choose_snapshots(place, trained, is_true=False)
    assert chosen.tolist() == [1]
    assert earned[0] > 0.0


def test_a_recipe_learns_in_the_estimate_and_gives_the_same_numbers_twice() -> None:
    first = quality.measure_recipe(ground(), RECIPE, [5, 6])
    again = quality.measure_recipe(ground(), RECIPE, [5, 6])
    assert first == again
    assert [one["seed"] for one in first["policies"]] == [5, 6]
    never = play({"never": heuristics.always(0)}, ground()).mean()
    assert np.mean([one["rewards"] for one in first["policies"]]) > never
    assert all(one["trial"] is None for one in first["policies"])
