"""Logged decisions: propensities that are right, rows that say what happened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from parity311.adapters.datasets import log_decisions, to_mdp_dataset, to_table, write_parquet
from parity311.adapters.setting import make_setting
from parity311.engines import heuristics
from parity311.errors import InputError

pytestmark = pytest.mark.slow


SETTING = make_setting("boiler", max_steps=50)
RULE = heuristics.always(1)
NAMES = SETTING.harness.observation_names


@pytest.mark.slow
def test_propensities_are_those_of_the_behaviour_policy() -> None:
    logged = log_decisions(SETTING, RULE, n_episodes=40, epsilon=0.2)
    expected = np.where(logged.action == 1, 0.9, 0.1)
    np.testing.assert_allclose(logged.propensity, expected, rtol=1e-6)
    assert (logged.action == 1).mean() == pytest.approx(0.9, abs=0.03)
    # Weighted by them, every action has been tried as often as every other would be.
    assert (1.0 / logged.propensity).mean() == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
def test_table_has_a_row_for_every_decision(tmp_path: Path) -> None:
    logged = log_decisions(SETTING, RULE, n_episodes=4)
    path = write_parquet(logged, SETTING.harness.observation_names, tmp_path / "log.parquet")
    table = pq.read_table(path)
    assert table.num_rows == 200
    assert table["truncated"].to_pylist().count(True) == 4
    assert table["is_allowed"].to_pylist()[0] == [True, True]
    # The next observation of a step is the observation of the following one, within an episode.
    risk, after = (
        np.asarray(table[name].to_pylist()).reshape(4, 50)
        for name in ("observation_neighborhood_risk", "next_neighborhood_risk")
    )
    np.testing.assert_array_equal(risk[:, 1:], after[:, :-1])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_same_seed_same_rows() -> None:
    tables = [
        to_table(log_decisions(SETTING, RULE, n_episodes=2, seed=s), NAMES) for s in (0, 0, 1)
    ]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


def test_without_randomness_there_is_nothing_to_weigh() -> None:
    with pytest.raises(InputError, match=r"ε = 0\.0 was given"):
        log_decisions(SETTING, RULE, n_episodes=1, epsilon=0.0)


@pytest.mark.slow
def test_a_missing_library_is_named() -> None:
    try:
        import d3rlpy  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(InputError, match="make peers"):
            to_mdp_dataset(log_decisions(SETTING, RULE, n_episodes=1), (0.5, 0.5, 0.0, 0.0))
