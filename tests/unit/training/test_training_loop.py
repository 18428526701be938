"""The training loop: what it refuses, what it repeats, and policies on disk."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import BROKEN, make_domain

from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.errors import InputError, RunError, TrainingError
from parity311.mdp.harness import Harness
from parity311.serving.policy import load_policy
from parity311.training import with_equity
from parity311.training.loop import Trained, check_preferences, train_agents
from parity311.training.saving import save_policy

pytestmark = pytest.mark.slow


HARNESS = Harness(make_domain())
AGENT = make_dqn(DQNConfig(hidden=(16,), target_every=20, buffer_size=400, epsilon_steps=40))
ONE = [[1.0, 0.0, 0.0, 0.0]]


def run(**options: object) -> Trained:
    params = HARNESS.domain.play.example()
    settings = {"preferences": ONE, "seeds": [0, 1], "steps": 60, **options}
    return train_agents(HARNESS, params, AGENT, **settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_training_repeats_itself_and_seeds_differ() -> None:
    one, two = run(), run()
    np.testing.assert_array_equal(one.policies["weight_0"], two.policies["weight_0"])
    assert not np.allclose(one.policies["weight_0"][0], one.policies["weight_0"][1])


def test_progress_is_told_after_every_block() -> None:
    heard: list[tuple[int, int]] = []
    run(progress=lambda taken, total, figures: heard.append((taken, total)), steps=50)
    assert heard == [(20, 60), (40, 60), (60, 60)]


@pytest.mark.slow
def test_every_preference_is_trained_with_every_seed() -> None:
    both = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]]
    trained = run(preferences=both, seeds=[3, 4])
    assert trained.seeds.tolist() == [3, 4, 3, 4]
    np.testing.assert_allclose(trained.preferences[:, 2], [0, 0, 0.5, 0.5])
    action = trained.policy(2)(jax.random.key(0), jnp.zeros(HARNESS.n_features))
    assert int(action) in (0, 1)


@pytest.mark.parametrize(
    "preferences",
    [[[0.5, 0.5]], [[0.5, 0.6, 0.0, 0.0]], [[1.5, -0.5, 0.0, 0.0]], [], [1.0, 0.0, 0.0, 0.0]],
)
def test_preferences_off_the_simplex_are_refused(preferences: list) -> None:
    with pytest.raises(TrainingError):
        check_preferences(preferences)


@pytest.mark.parametrize("options", [{"seeds": []}, {"steps": 0}, {"n_environments": 0}])
def test_empty_training_is_refused(options: dict) -> None:
    with pytest.raises(TrainingError, match="at least 1"):
        run(**options)


@pytest.mark.slow
def test_a_reward_that_is_not_a_number_stops_training() -> None:
    broken = BROKEN["reward is not a number"][0]()
    with pytest.raises(TrainingError, match="not a number"):
        train_agents(Harness(broken), broken.play.example(), AGENT, ONE, [0], 20)


def test_equity_takes_its_weight_from_the_rest() -> None:
    assert with_equity((0.8, 0.2, 0.0, 0.0), 0.5) == pytest.approx((0.4, 0.1, 0.5, 0.0))


def test_a_saved_policy_decides_the_same(tmp_path: Path) -> None:
    trained = run()
    loaded = load_policy(save_policy(tmp_path / "policy", trained, 1))
    seen = np.random.default_rng(0).normal(size=(50, HARNESS.n_features)).astype(np.float32)
    decided = jax.vmap(lambda x: trained.policy(1)(jax.random.key(0), x))(jnp.asarray(seen))
    np.testing.assert_array_equal(loaded.decide(seen), decided)
    assert loaded.manifest["domain"] == "tiny"
    assert loaded.manifest["observation_names"] == list(HARNESS.observation_names)
    with pytest.raises(InputError, match="features"):
        loaded.decide(np.zeros((2, 9)))


def test_a_half_written_policy_is_refused(tmp_path: Path) -> None:
    folder = save_policy(tmp_path / "policy", run(), 0)
    (folder / "policy.safetensors").write_bytes(b"cut off")
    with pytest.raises(RunError, match="no whole policy"):
        load_policy(folder)
    with pytest.raises(RunError, match="no whole policy"):
        load_policy(tmp_path / "nothing")
