"""A menu read off one network, an earlier sweep read back, and who refuses what."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from parity311.agents.conditioned import network_for
from parity311.agents.networks import apply_network
from parity311.domains.boiler import DOMAIN
from parity311.errors import InputError
from parity311.estimation.params_file import write_params
from parity311.mdp.harness import Harness
from parity311.serving.policy import load_policy
from parity311.training import agent_for, train
from parity311.training.frontier import (
    cover,
    find_nondominated,
    hull_of,
    spread_preferences,
    train_conditioned,
)
from parity311.training.sweep import read_sweep
from parity311.training.train_run import write_trained

pytestmark = pytest.mark.slow

SMALL = {"hidden": (8,), "target_every": 20, "buffer_size": 200}
MENU = spread_preferences(DOMAIN.preference, 4)


@pytest.fixture(scope="module")
def params() -> object:
    return DOMAIN.play.example()


def test_a_conditioned_training_gives_a_plain_policy_for_every_preference(
    params: object, tmp_path: Path
) -> None:
    trained = train(DOMAIN, params, "conditioned", MENU, [0, 1], 20, settings=SMALL)
    assert trained.n_agents == 8
    assert trained.seeds.tolist() == [0, 1] * 4
    harness = Harness(DOMAIN)
    whole = train_conditioned(
        harness, params, agent_for(harness, "conditioned", 20, SMALL), [0, 1], 20, n_environments=8
    )
    seen = jax.random.normal(jax.random.key(1), (harness.n_features,))
    for place, preference in enumerate(MENU):
        for number in range(2):
            own = apply_network(trained.weights(2 * place + number), seen)
            read = apply_network(network_for(whole.weights(number), preference), seen)
            np.testing.assert_allclose(own, read, atol=1e-6)
    # Training one preference of the menu alone gives the very policy that was on it.
    alone = train(DOMAIN, params, "conditioned", [MENU[2]], [0, 1], 20, settings=SMALL)
    for name, values in alone.policies.items():
        np.testing.assert_array_equal(values, trained.policies[name][4:6])
    # What is saved can be served: it takes the observation as it is.
    write_trained(tmp_path, trained, seconds=0.0)
    policy = load_policy(tmp_path / "policy-0003")
    assert policy.decide(np.zeros((5, harness.n_features))).shape == (5,)


def test_the_hull_holds_every_menu() -> None:
    corners = np.asarray(hull_of(DOMAIN))
    menu = spread_preferences(DOMAIN.preference, 128)
    assert len(menu) == 128
    assert corners[:, 2].max() >= menu[:, 2].max()
    share = lambda rows: rows[:, 0] / (rows[:, 0] + rows[:, 1])  # noqa: E731
    assert share(corners).min() <= share(menu).min()
    assert share(corners).max() >= share(menu).max()
    assert (np.abs(menu[:, 0] - menu[:, 1]) < 1e-6).any(), "today's trade-off is on the menu"


def test_a_preference_beyond_the_hull_becomes_a_corner() -> None:
    inside = spread_preferences(DOMAIN.preference, 128)
    assert cover(DOMAIN, inside) == hull_of(DOMAIN)
    for beyond in ((0.0, 0.0, 0.0, 1.0), (0.05, 0.05, 0.9, 0.0), (1.0, 0.0, 0.0, 0.0)):
        assert cover(DOMAIN, [beyond]) == (*hull_of(DOMAIN), beyond)


def test_a_domain_that_gives_cost_no_weight_still_has_a_trade_off() -> None:
    menu = spread_preferences((1.0, 0.0, 0.0, 0.0), 32)
    assert len(np.unique(menu.round(6), axis=0)) == 32
    np.testing.assert_allclose(menu.sum(axis=1), 1.0, atol=1e-6)


def test_of_two_points_the_beaten_one_is_dropped() -> None:
    points = np.array([[1.0, 1.0, 0.0], [0.5, 1.0, 0.0], [0.0, 2.0, 0.0]])
    assert find_nondominated(points).tolist() == [True, False, True]


def write_sweep(folder: Path, params: object, **changes: object) -> Path:
    for number, rows in enumerate((MENU[:2], MENU[2:])):
        trained = train(DOMAIN, params, "dqn", rows, [0, 1], 20, settings=SMALL)
        chunk = folder / f"chunk-{number:04d}"
        summary = write_trained(chunk, trained, seconds=0.0)
        (chunk / "training.json").write_text(json.dumps({**summary, **changes}))
    write_params(folder / "params.safetensors", params)
    return folder


def test_a_sweep_is_read_back_as_it_was_trained(params: object, tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", params)
    menu, trained = read_sweep(folder, Harness(DOMAIN), params)
    np.testing.assert_allclose(menu, MENU, atol=1e-6)
    again = train(DOMAIN, params, "dqn", MENU[2:], [0, 1], 20, settings=SMALL)
    np.testing.assert_allclose(trained.policies["bias_0"][4:], again.policies["bias_0"], atol=1e-6)
    # Learned from anything else, the test dates included: refused.
    other = params._replace(units=params.units * 2.0)  # pyright: ignore
    with pytest.raises(InputError, match="--until"):
        read_sweep(folder, Harness(DOMAIN), other)
    (folder / "chunk-0001" / "training.json").unlink()
    from parity311.domains import get_domain

    with pytest.raises(InputError, match="not of heat"):
        read_sweep(folder, Harness(get_domain("heat")), params)
    with pytest.raises(InputError, match="no finished sweep"):
        read_sweep(tmp_path, Harness(DOMAIN), params)


def test_without_moocore_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moocore", None)
    with pytest.raises(InputError, match=r"parity311\[frontier\]"):
        find_nondominated(np.ones((1, 3)))
