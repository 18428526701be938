"""A served policy in the place of today's rule: it plays what it recommends, and nothing else."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from tests.served import PRICES, make_package

from parity311.city.incumbent import WaitingCases, severity_then_first_in
from parity311.city.played import measure_played
from parity311.city.replay import PlayedDomain, Snapshot, open_replay
from parity311.city.simulate import SimulatedDomain
from parity311.domains import get_domain
from parity311.mdp.harness import Harness
from parity311.serving.choose import Routing, order_cases
from parity311.serving.playing import VisitingPolicy, play_by
from parity311.serving.policy import LoadedPolicy

FIRST = date(2024, 3, 1)


@pytest.fixture(scope="module")
def starts(served_city: Path) -> dict[str, Snapshot]:
    """Every domain of the city on the first of March."""
    replay = open_replay(served_city, [get_domain(s).process for s in ("ert", "heat", "snad")])
    return {slug: replay.start(slug, FIRST) for slug in replay.processes}


def visits(played: PlayedDomain) -> np.ndarray:
    """Cases in the order in which they were visited."""
    assert isinstance(played.worked, SimulatedDomain)
    log = played.worked.agency.visits
    return log.collect("case", np.int64)


def policy_for(slug: str, rule: str, prices: np.ndarray | None = None) -> LoadedPolicy:
    return LoadedPolicy(make_package(Harness(get_domain(slug)), rule, prices=prices))


@pytest.mark.parametrize("slug", ["ert", "heat", "snad"])
def test_todays_rule_served_is_todays_rule(slug: str, starts: dict[str, Snapshot]) -> None:
    own = starts[slug].play(severity_then_first_in)
    served = starts[slug].play(play_by(policy_for(slug, "balanced")))
    np.testing.assert_array_equal(visits(own), visits(served))


@pytest.mark.parametrize("slug", ["heat", "snad"])
def test_another_rule_visits_others(slug: str, starts: dict[str, Snapshot]) -> None:
    own = starts[slug].play(severity_then_first_in)
    other = starts[slug].play(play_by(policy_for(slug, "index")))
    assert not np.array_equal(visits(own), visits(other))
    assert measure_played(other, 0.0).n_visits.sum() > 0


def test_prices_follow_what_is_found(starts: dict[str, Snapshot]) -> None:
    policy = policy_for("heat", "dual_threshold", PRICES)
    rule = play_by(policy)
    assert isinstance(rule, VisitingPolicy)
    starts["heat"].play(rule)
    assert rule.prices is not None
    assert not np.allclose(rule.prices, policy.prices)
    assert np.abs(rule.prices).max() <= policy.manifest["price_cap"]
    # A policy without equity has none to move.
    plain = play_by(policy_for("heat", "index"))
    assert isinstance(plain, VisitingPolicy)
    starts["heat"].play(plain)
    assert plain.prices is not None
    assert not plain.prices.any()


def test_an_office_has_those_in_line_whom_nobody_can_visit_yet(starts: dict[str, Snapshot]) -> None:
    """It sees all that is open; it orders those that can be visited."""
    policy = policy_for("ert", "index")
    seen = []

    class Watched(VisitingPolicy):
        def choose(self, waiting: WaitingCases, prices: np.ndarray | None = None) -> Routing:
            found = super().choose(waiting, prices)
            journal = waiting.journal
            rows = np.union1d(journal.open_rows, waiting.rows)
            whole = order_cases(policy, journal, journal.take(rows), 1)
            alone = order_cases(policy, journal, journal.take(waiting.rows), 1)
            seen.append((found.observation[0], whole.observation[0], alone.observation[0]))
            assert sorted(found.place) == list(range(waiting.n))
            return found

    starts["ert"].play(Watched(policy))
    found, whole, alone = (np.array(side) for side in zip(*seen, strict=True))
    np.testing.assert_array_equal(found, whole)
    assert (found != alone).any()


def test_how_often_todays_rule_decided_is_told(starts: dict[str, Snapshot]) -> None:
    harness = Harness(get_domain("snad"))
    trusted = play_by(policy_for("snad", "index"))
    starts["snad"].play(trusted)
    assert trusted.fallback_share == 0.0
    never = play_by(LoadedPolicy(make_package(harness, "index", low=7.0, high=8.0)))
    played = starts["snad"].play(never)
    assert never.fallback_share == 1.0
    own = starts["snad"].play(severity_then_first_in)
    np.testing.assert_array_equal(visits(own), visits(played))
