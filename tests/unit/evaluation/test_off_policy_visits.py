"""An office's visits as a log: by hand, on made-up mornings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parity311.domains import all_domains, get_domain
from parity311.evaluation.off_policy.visits import (
    LineLog,
    Morning,
    _as_logs,
    _first_in_line,
    has_recorded_visits,
    visit_chances,
)
from parity311.mdp.harness import Harness

HALF = np.array([0.5, 0.5, 0.0, 0.0])


def cases_of(code: list[int], began: list[float]) -> Any:
    n = len(code)
    return SimpleNamespace(
        n=n, code=np.array(code), began=np.array(began), stratum=np.zeros(n, np.int64),
        n_attempts=np.zeros(n, np.int64), units=np.full(n, 20.0),
    )  # fmt: skip


def morning_of(slug: str, visited: list[int], found: list[int], **other: Any) -> Morning:
    """Four cases of codes B, A, B, C on day 100; the second and the first came in first."""
    n_features = len(get_domain(slug).observation_names)
    given = {"features": np.zeros((1, n_features)), "priority": None, **other}
    cases = cast(Any, cases_of([1, 0, 1, 2], [90.0, 80.0, 95.0, 85.0]))
    return Morning(100, cases, np.array(visited, bool), np.array(found, bool), **given)


def test_the_papers_two_backtests_are_read_from_visits() -> None:
    found = {slug for slug, one in all_domains().items() if has_recorded_visits(one)}
    assert found == {"elevator", "scaffold"}


def test_a_mode_puts_its_first_in_line_and_leaves_out_whom_it_never_visits() -> None:
    never = -np.inf
    priority = np.array([[1.0, 4.0, 3.0, 2.0], [never, 1.0, never, never]])
    morning = morning_of("elevator", [1, 1, 0, 0], [1, 0, 0, 0], priority=priority)
    harness = Harness(get_domain("elevator"))
    assert _first_in_line(harness, morning, np.array([0])).tolist() == [1, 2]
    assert _first_in_line(harness, morning, np.array([1])).tolist() == [1]


def test_of_sites_the_dearest_action_goes_first_then_code_and_age() -> None:
    domain = get_domain("scaffold")
    names = [action.name for action in domain.actions]
    morning = morning_of("scaffold", [1, 1, 0, 0], [1, 0, 0, 0])

    def first(*chosen: str) -> list[int]:
        actions = np.array([names.index(name) for name in chosen])
        return _first_in_line(Harness(domain), morning, actions).tolist()

    assert first("inspect_now", "inspect_now", "inspect_now", "inspect_now") == [1, 0]
    assert first("inspect_now", "ignore", "inspect_now", "escalate") == [3, 0]
    assert first("delay", "delay", "delay", "batch") == [3]
    assert first("delay", "delay", "delay", "ignore") == []


def test_the_log_tells_of_a_visit() -> None:
    """Three visits on two mornings, one of which found a violation; eight rows."""
    mornings = [
        morning_of("elevator", [1, 1, 0, 0], [1, 0, 0, 0]),
        morning_of("elevator", [0, 0, 1, 0], [0, 0, 0, 0]),
    ]
    logs = _as_logs(mornings, HALF, n_visits=3)
    means = dict(zip(logs.outcome_names, logs.outcome.mean(axis=(0, 1, 2)), strict=True))
    assert means["visits"] == pytest.approx(1.0)
    assert means["correct"] == pytest.approx(1 / 3)
    # Speed ½ · 1/3, less cost ½ · 1 visit at three visits a find.
    assert means["overall"] == pytest.approx(0.5 / 3 - 0.5 / 3)
    assert logs.action[0, :, 0].tolist() == [1, 1, 0, 0, 0, 0, 1, 0]
    code, place, is_first, age, *_ = logs.observation[0, :4, 0].T
    np.testing.assert_array_equal(code, [1, 0, 1, 2])
    np.testing.assert_allclose(place, np.log1p(np.array([1, 0, 2, 3]) / 2))
    np.testing.assert_array_equal(is_first, [1, 1, 0, 0])
    np.testing.assert_allclose(age, np.log1p([10, 20, 5, 15]))


def test_a_policy_makes_as_many_visits_as_were_made() -> None:
    domain = get_domain("elevator")
    harness = Harness(domain)
    modes = [action.name for action in domain.actions]
    priority = np.zeros((len(modes), 4))
    priority[modes.index("TAIL")] = [1.0, 4.0, 3.0, 2.0]
    priority[modes.index("EMERG")] = [4.0, 1.0, 2.0, 3.0]
    mornings = (
        morning_of("elevator", [1, 1, 0, 0], [1, 0, 0, 0], priority=priority),
        morning_of("elevator", [0, 0, 1, 0], [0, 0, 0, 0], priority=priority),
    )
    log = LineLog(_as_logs(list(mornings), HALF, 3), mornings)

    def asked(name: str) -> list[float]:
        found = visit_chances(log, harness, domain.heuristics[name](None, harness))
        np.testing.assert_allclose(found.sum(axis=-1), 1.0)
        return found[0, :, 0, 1].tolist()

    published = Harness(domain, observation_set="published")
    same = visit_chances(log, published, domain.heuristics["tail"](None, published))
    assert same[0, :, 0, 1].tolist() == asked("tail")
    assert asked("tail") == [0, 1, 1, 0, 0, 1, 0, 0]
    assert asked("emerg") == [1, 0, 0, 1, 1, 0, 0, 0]
