"""The leaderboard: who may race where, guests inside our program, and what the table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness
from parity311.studies.leaderboard import lanes
from parity311.studies.leaderboard.board import BEST_RULE, gather, row_cells
from parity311.studies.leaderboard.guests import as_policy, check_decision, open_policy

LANE = lanes.Lane("snad", "published")


def test_reserved_cities_are_for_guests_alone() -> None:
    assert lanes.choose_seeds("2001-2003", has_guest=True) == [2001, 2002, 2003]
    assert lanes.choose_seeds("501-502,7,502", has_guest=False) == [501, 502, 7]
    with pytest.raises(InputError, match="2001 is reserved"):
        lanes.choose_seeds("2000-2001", has_guest=False)
    for text in ("", "7-3", "x", "1-99999", "1" * 30):
        with pytest.raises(InputError, match="City seeds"):
            lanes.choose_seeds(text, has_guest=True)


def test_lanes_have_both_sets_of_features() -> None:
    assert {one.features for one in lanes.choose_lanes("snad", "")} == set(lanes.FEATURES)
    assert len(lanes.choose_lanes("", "published")) == 12
    for domains, features in (("snat", ""), ("", "theirs")):
        with pytest.raises(InputError):
            lanes.choose_lanes(domains, features)
    with pytest.raises(InputError, match="agent"):
        lanes.choose_agents("plan")


def test_an_address_is_all_that_figures_depend_on(tmp_path: Path) -> None:
    usual = lanes.RaceBudget()
    address = lanes.part_path(tmp_path, LANE, 501, "dqn", usual)
    others = (
        lanes.part_path(tmp_path, lanes.Lane("snad", "ours"), 501, "dqn", usual),
        lanes.part_path(tmp_path, LANE, 502, "dqn", usual),
        lanes.part_path(tmp_path, LANE, 501, "dqn", lanes.RaceBudget(steps=1)),
        lanes.part_path(tmp_path, LANE, 501, "dqn", lanes.RaceBudget(episodes=2)),
    )
    assert len({address, *others}) == 5
    rules = [lanes.part_path(tmp_path, LANE, 501, lanes.RULES, lanes.RaceBudget(n)) for n in (1, 2)]
    assert rules[0] == rules[1]


def test_a_guest_plays_as_the_same_rule_of_ours() -> None:
    domain = get_domain("snad")
    harness, params = Harness(domain, observation_set="published"), domain.play.example()
    seen = []

    def decide(observation: np.ndarray) -> int:
        seen.append(observation.shape)
        return int(observation[0] >= 0)

    policies = [
        Contender("always", domain.heuristics["always"](params, harness)),
        Contender("never", domain.heuristics["never"](params, harness)),
        Contender("guest", as_policy(decide, harness)),
    ]
    keys = jax.random.split(jax.random.key(0), 4)
    played = evaluate(harness, params, policies, keys, n_steps=20)
    reward = np.asarray(played.tally.published_reward)
    np.testing.assert_array_equal(reward[0], reward[2])
    assert not np.array_equal(reward[1], reward[2])
    assert set(seen) == {(harness.n_features,)}


def test_decisions_that_are_none_are_refused() -> None:
    assert check_decision(np.array([2]), 3) == 2
    for given in (3, -1, 1.5, "inspect", [0, 1], None):
        with pytest.raises(InputError, match="whole number from 0 to 2"):
            check_decision(given, 3)


def test_guests_that_cannot_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_guest.py").write_text("number = 3\n")
    for text, said in (
        ("no-such-thing", "MODULE:FUNCTION"),
        ("no_such_module:decide", "cannot be imported"),
        ("own_guest:decide", "cannot be imported"),
        ("own_guest:number", "no function"),
    ):
        with pytest.raises(InputError, match=said):
            open_policy(text)


def _row(policy: str, reward: float, **more: object) -> dict:
    return {"policy": policy, "reward": reward, "is_within_capacity": True, **more}


def test_the_best_rule_is_chosen_by_what_it_promised() -> None:
    by_city = {
        seed: [
            _row("balanced", 1.0 + seed, promised=1.0),
            _row("score", 2.0 + seed, promised=3.0),
            _row("index", 5.0 + seed, promised=2.0),
            _row("always", 9.0 + seed, promised=9.0, is_within_capacity=False),
            _row("ceiling", 6.0 + seed),
            _row("mine:decide", 3.5 + seed, is_guest=True),
            _row("eager:decide", 9.0 + seed, is_guest=True, is_within_capacity=False),
        ]
        for seed in (0, 1, 2)
    }
    found = gather(LANE, by_city)
    by_name = {row["policy"]: row for row in found["rows"]}
    assert list(by_name) == ["ceiling", "mine:decide", BEST_RULE, "balanced", "eager:decide"]
    assert found["best_rules"] == {"score": 3}
    assert by_name[BEST_RULE]["lead"]["value"] == pytest.approx(1.0)
    assert by_name["mine:decide"]["share_of_way"] == pytest.approx(0.5)
    low, high = (by_name["balanced"]["reward"][end] for end in ("lower", "upper"))
    assert low < 2.0 < high
    assert row_cells(by_name["mine:decide"])[-1] == "50 %"
    cells = row_cells(by_name["eager:decide"])
    assert "more visits than there are" in cells[0]
    assert cells[-1] == "–"
    assert row_cells(by_name["balanced"])[2:] == ["–", "–"]


def test_a_plan_that_is_missing_in_a_city_is_left_out_and_named() -> None:
    def rows(seed: int) -> list[dict[str, Any]]:
        return [_row("balanced", 1.0, promised=1.0), _row("ceiling", 6.0)] + (
            [_row("plan", 5.0)] if seed else []
        )

    found = gather(LANE, {seed: rows(seed) for seed in (0, 1, 2)})
    assert found["left_out"] == ["plan"]
    assert "plan" not in [row["policy"] for row in found["rows"]]
    assert gather(LANE, {seed: rows(seed) for seed in (1, 2)})["left_out"] == []
