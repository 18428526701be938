"""Where a policy should not decide, today's rule does, and the recommendation says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.served import make_package, random_network

from parity311.agents.forward import score_actions_numpy
from parity311.domains import get_domain
from parity311.mdp.harness import Harness
from parity311.records.journal import Journal
from parity311.serving.policy import LoadedPolicy
from parity311.serving.recommend import Recommendations
from parity311.serving.refusals import LONG_LINE, NOT_REFUSED, OUTSIDE, UNKNOWN_FEATURE, UNSERVED

HARNESS = Harness(get_domain("snad"))
SEVERITY = HARNESS.observation_names.index("complaint_level")
CAPACITY = 20


@pytest.fixture(scope="module")
def journal(journal_of: Callable[[str], Journal]) -> Journal:
    return journal_of("snad")


def policy_with(seen: dict[str, np.ndarray] | None = None, **sight: Any) -> LoadedPolicy:
    """A network that mostly waits, so that the rule, which visits, differs from it."""
    weights = random_network(HARNESS)
    weights["bias_1"] = weights["bias_1"] + np.where(np.arange(HARNESS.n_actions) == 0, 3.0, 0.0)
    package = make_package(HARNESS, {k: v.astype(np.float32) for k, v in weights.items()})
    policy = LoadedPolicy(replace(package, seen={**package.seen, **(seen or {})}))
    policy.__dict__["sight"] = replace(policy.sight, **sight)
    return policy


def check(found: Recommendations, plain: Recommendations, is_refused: np.ndarray, why: int) -> None:
    """Just these cases are refused for this reason, and decided by today's rule."""
    choice, before = found.choice, plain.choice
    np.testing.assert_array_equal(choice.refusal, np.where(is_refused, why, NOT_REFUSED))
    rule = score_actions_numpy(found.policy.package.rule, choice.observation).argmax(axis=-1)
    np.testing.assert_array_equal(choice.action[is_refused], rule[is_refused])
    np.testing.assert_array_equal(choice.action[~is_refused], before.action[~is_refused])
    assert (choice.action != before.action)[is_refused].any()
    assert np.isnan(choice.margin[is_refused]).all()
    assert sorted(choice.place) == list(range(len(found)))
    rows = found.rows()
    told = [row["fallback"] for row in rows if row["fallback"]]
    assert len(told) == is_refused.sum()
    assert found.summary()["fallbacks"] == {told[0]: len(told)}


def test_a_feature_outside_what_training_saw(journal: Journal) -> None:
    plain = policy_with().recommend(journal, capacity=CAPACITY)
    assert plain.summary()["fallbacks"] == {}
    level = plain.choice.observation[:, SEVERITY]
    high = np.full(HARNESS.n_features, 1e6, np.float32)
    low = -high
    # Half of the range from 0 to .3 may lie beyond.
    low[SEVERITY], high[SEVERITY] = 0.0, 0.3
    found = policy_with({"low": low, "high": high}).recommend(journal, capacity=CAPACITY)
    is_beyond = level > 0.46
    assert 0 < is_beyond.sum() < len(found)
    check(found, plain, is_beyond, OUTSIDE + SEVERITY)
    assert "complaint_level lies outside what training saw" in found.summary()["fallbacks"]


def test_within_the_margin_the_policy_decides(journal: Journal) -> None:
    """The same cases, training having seen nearly as much: nothing is refused."""
    plain = policy_with().recommend(journal, capacity=CAPACITY)
    high = np.full(HARNESS.n_features, 1e6, np.float32)
    low = -high
    low[SEVERITY], high[SEVERITY] = 0.0, 0.7
    found = policy_with({"low": low, "high": high}).recommend(journal, capacity=CAPACITY)
    assert found.summary()["fallbacks"] == {}
    np.testing.assert_array_equal(found.choice.action, plain.choice.action)


def test_a_price_beyond_those_of_training_is_no_reason(journal: Journal) -> None:
    high = np.full(HARNESS.n_features, 1e6, np.float32)
    low = -high
    low[-1] = high[-1] = 5.0
    found = policy_with({"low": low, "high": high}).recommend(journal, capacity=CAPACITY)
    assert found.summary()["fallbacks"] == {}


def test_a_feature_that_is_not_known(journal: Journal) -> None:
    plain = policy_with().recommend(journal, capacity=CAPACITY)
    show = plain.policy.sight.show

    def show_some(params: Any, view: Any) -> np.ndarray:
        features = np.array(show(params, view), np.float32)
        features[view.stratum == 1, 0] = np.nan
        return features

    found = policy_with(show=show_some).recommend(journal, capacity=CAPACITY)
    check(found, plain, plain.cases.stratum == 1, UNKNOWN_FEATURE)


def test_a_line_far_longer_than_any_trained_on(journal: Journal) -> None:
    room = 2.0
    wide = policy_with(room=lambda params, journal: 1e9).recommend(journal, capacity=CAPACITY)
    short = policy_with(room=lambda params, journal: room).recommend(journal, capacity=CAPACITY)
    refused = short.choice.refusal == LONG_LINE
    # Five are not too many ahead: twice the room and the case itself.
    wanted = wide.choice.is_visit.sum()
    assert wanted > 10
    assert 0 < (~refused).sum() < len(short)
    check(short, wide, refused, LONG_LINE)


def test_an_action_that_no_case_can_be_given(journal: Journal) -> None:
    plain = policy_with().recommend(journal, capacity=CAPACITY)
    waits = plain.policy.action_names[0]
    found = policy_with(unserved=(waits,)).recommend(journal, capacity=CAPACITY)
    check(found, plain, plain.choice.action == 0, UNSERVED)
    assert waits in next(iter(found.summary()["fallbacks"]))


def test_an_office_falls_back_as_a_whole(journal_of: Callable[[str], Journal]) -> None:
    harness = Harness(get_domain("ert"))
    package = make_package(harness, random_network(harness), low=7.0, high=8.0)
    found = LoadedPolicy(package).recommend(journal_of("ert"), capacity=CAPACITY)
    assert (found.choice.refusal >= OUTSIDE).all()
    ruled = LoadedPolicy(replace(package, weights=package.rule)).recommend(
        journal_of("ert"), capacity=CAPACITY
    )
    np.testing.assert_array_equal(found.choice.place, ruled.choice.place)
    assert sum(found.summary()["fallbacks"].values()) == len(found)
