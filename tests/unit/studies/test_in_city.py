"""Policies of a parity study in the city itself: what is packed, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.served import save_package

from parity311.errors import InputError
from parity311.evaluation.rollout import Contender
from parity311.serving.policy import load_policy
from parity311.studies.parity.in_city import (
    PACE,
    PlayConfig,
    describe_counts,
    move,
    play_in_city,
    with_settled,
)
from parity311.studies.parity.policies import AGENT, DUAL, STATIC, Policy

NEED = np.tile([2_000, 1_500, 1_000, 800, 500, 60], (3, 1))


def counts(coverage: list[float]) -> dict:
    """Figures of three years in which quintiles are covered so."""
    correct = np.rint(NEED * np.array([*coverage, 0.2]))
    return describe_counts(correct, NEED, 3 * correct)


def test_a_gap_stands_beside_what_noise_alone_would_show() -> None:
    level = counts([0.2] * 5)
    assert level["gap"] == pytest.approx(0.0, abs=1e-3)
    assert level["outer"] == pytest.approx(0.0, abs=1e-3)
    assert level["ratio"] == pytest.approx(1.0, abs=5e-3)
    # A range of five shares of 6,000 to 1,500 incidents: about 2.33 times their standard error.
    assert 0.01 < level["noise"] < 0.04
    apart = counts([0.1, 0.2, 0.2, 0.2, 0.3])
    assert apart["gap"] == pytest.approx(0.2)
    assert apart["gap"] > 4 * apart["noise"]
    assert apart["outer"] == pytest.approx(0.2)
    # The outer quintiles keep their sign, which the gap does not tell.
    turned = counts([0.3, 0.2, 0.2, 0.2, 0.1])
    assert turned["gap"] == pytest.approx(apart["gap"])
    assert turned["outer"] == pytest.approx(-0.2)
    assert turned["correct_a_year"] == pytest.approx(turned["visits_a_year"] / 3)


def test_fewer_incidents_are_noisier() -> None:
    correct = 0.2 * NEED
    few = describe_counts(correct / 25, NEED / 25, correct)
    assert few["noise"] > 3 * describe_counts(correct, NEED, correct)["noise"]


def test_a_package_begins_with_the_prices_that_settled(tmp_path: Path) -> None:
    policy = load_policy(save_package(tmp_path / "dual", "snad", "dual_threshold"))
    prices = np.array([0.5, 0.2, 0.0, -0.3, -0.4, 0.0])
    contender = Contender(DUAL, policy, prices=prices, is_priced=True, price_step=0.0)
    settled = Policy(STATIC, contender, target_gap=0.0)
    packed = with_settled(policy, settled)
    assert packed.manifest["prices"] == pytest.approx(prices)
    assert packed.manifest["price_step"] == pytest.approx(PACE * policy.manifest["price_step"])
    # Who has no prices is packed as it was made.
    assert with_settled(policy, None) is policy


def test_settled_prices_move_on_and_keep_their_start() -> None:
    prices = np.arange(6.0)
    fixed = Contender(DUAL, None, prices=prices, is_priced=True, price_step=0.0)
    rule = Policy(STATIC, fixed, target_gap=0.0)
    moving = move(rule, 0.02)
    assert (moving.family, moving.contender.price_step) == (DUAL, 0.02)
    assert moving.contender.prices is prices
    assert move(replace(rule, family=AGENT), 0.02).family == AGENT


def test_a_domain_that_is_served_otherwise_than_scored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not served with; play it with `parity311 evaluate`"):
        play_in_city("boiler", tmp_path, PlayConfig())
    with pytest.raises(InputError, match="'snad' is not among those"):
        play_in_city("snad", tmp_path, PlayConfig())
