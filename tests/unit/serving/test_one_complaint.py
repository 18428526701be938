"""One new complaint is answered as if it had been put into the queue and all were chosen from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.served import PRICES, make_package, random_network

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.mdp.harness import Harness
from parity311.records.journal import Cases, Journal, moment_of
from parity311.records.schema import SEVERITIES
from parity311.serving.choose import choose
from parity311.serving.complaint import read_complaint
from parity311.serving.policy import LoadedPolicy
from parity311.serving.recommend import OpenQueue, open_cases

CAPACITY = 20


def policy_of(slug: str, seed: int = 0) -> LoadedPolicy:
    harness = Harness(get_domain(slug))
    return LoadedPolicy(make_package(harness, random_network(harness, seed), prices=PRICES))


def as_given(journal: Journal, case: Cases) -> dict[str, Any]:
    """The one case as a system would send it."""
    place = {area.tract: geoid for geoid, area in journal.areas.items() if area.tract >= 0}
    building = int(case.building[0])
    given = {
        "complaint_id": str(case.complaint_id[0]),
        "category": case.categories[int(case.category[0])],
        "severity": SEVERITIES[int(case.code[0])],
        "tract": place[int(case.tract[0])],
        "received_at": moment_of(float(case.began[0])).isoformat(),
        "units": float(case.units[0]),
        **{name: bool(values[0]) for name, values in case.flags.items()},
    }
    if building >= 0:
        given["building_id"] = str(journal.building_ids[building])
    return given


def reported_once(journal: Journal, cases: Cases) -> list[int]:
    """Cases that one report tells all about."""
    is_new = (cases.n_reports == 1) & (cases.n_attempts == 0)
    return np.flatnonzero(is_new)[:30].tolist()


@pytest.mark.parametrize("slug", ["snad", "heat"])
def test_the_same_answer_as_in_the_queue(slug: str, journal_of: Callable[[str], Journal]) -> None:
    policy, journal = policy_of(slug), journal_of(slug)
    cases = open_cases(policy, journal)
    all_at_once = choose(policy, journal, cases, CAPACITY)
    visits = np.sort(all_at_once.place[all_at_once.is_visit])
    actions = []
    for row in reported_once(journal, cases):
        others = cases.take(np.delete(np.arange(cases.n), row))
        queue = OpenQueue(policy, journal, others, CAPACITY)
        # Sent as text, as another system does.
        given = json.loads(json.dumps(as_given(journal, cases.take(np.array([row])))))
        one = queue.answer(given)
        np.testing.assert_allclose(
            one.choice.observation[0], all_at_once.observation[row], atol=1e-5
        )
        assert one.choice.action[0] == all_at_once.action[row]
        assert one.choice.price_effect[0] == all_at_once.price_effect[row]
        assert one.choice.today_place[0] == all_at_once.today_place[row]
        actions.append(int(one.choice.action[0]))
    assert len(actions) >= 20
    assert len(set(actions)) > 1
    assert len(visits) > 1


def test_its_place_is_behind_those_that_are_worth_more(
    journal_of: Callable[[str], Journal],
) -> None:
    policy, journal = policy_of("snad"), journal_of("snad")
    cases = open_cases(policy, journal)
    queue = OpenQueue(policy, journal, cases, CAPACITY)
    worths = queue.wanted
    assert len(np.unique(worths)) > 5
    for row in reported_once(journal, cases)[:20]:
        found = queue.answer(as_given(journal, cases.take(np.array([row]))))
        _, alone = policy.observe(journal, cases.take(np.array([row])), np.zeros(1))
        values = policy.values(alone)[0]
        margin = values[policy.escalates].max() - values[~policy.escalates].max()
        lasts = policy.sight.lasts
        assert lasts is not None
        stays = lasts(policy.package.params, journal, cases.take(np.array([row])))[0]
        worth = margin * stays if margin > 0 else margin
        low, high = (worths > worth + 1e-5).sum(), (worths >= worth - 1e-5).sum()
        assert low <= found.choice.place[0] <= high


def test_an_office_answers_with_what_it_does_now(journal_of: Callable[[str], Journal]) -> None:
    policy, journal = policy_of("ert"), journal_of("ert")
    cases = open_cases(policy, journal)
    rows = reported_once(journal, cases)
    case = cases.take(np.array([rows[0]]))
    found = OpenQueue(policy, journal, cases, CAPACITY).answer(as_given(journal, case))
    _, seen = policy.observe(journal, cases, np.zeros(cases.n))
    assert found.choice.action[0] == policy.decide(seen)
    # An emergency that waited longest comes before a new one of the lowest code.
    graver = {**as_given(journal, case), "severity": "A", "received_at": "2024-01-01T00:00"}
    lighter = {**as_given(journal, case), "severity": "D"}
    queue = OpenQueue(policy, journal, cases, CAPACITY)
    places = [int(queue.answer(one).choice.place[0]) for one in (graver, lighter)]
    assert places[0] < places[1]


BAD: dict[str, tuple[Mapping[str, Any], str]] = {
    "lacks": ({"severity": ""}, "lacks severity"),
    "unknown field": ({"colour": "red"}, "has unknown fields colour"),
    "severity": ({"severity": "E"}, "Severity 'E' was given; choose among A, B, C, D"),
    "tract": ({"tract": "1"}, "Tract '1' was given, which the records do not know"),
    "moment": ({"received_at": "yesterday"}, "received_at 'yesterday' was given"),
    "domain": ({"domain": "heat"}, "The complaint is of 'heat', the queue of 'snad'"),
    "units": ({"units": "many"}, "units 'many' was given"),
    "attempts": ({"attempts": [1]}, r"attempts \[1\] was given"),
    "no number": ({"units": float("nan")}, "units nan was given"),
    "below zero": ({"attempts": -1}, "attempts -1 was given"),
    "zone": ({"received_at": "2024-03-01T00:00+00:00"}, "received_at"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_complaint_that_makes_no_sense_is_refused(
    name: str, journal_of: Callable[[str], Journal]
) -> None:
    journal = journal_of("snad")
    good = as_given(journal, journal.take(journal.open_rows[:1]))
    assert read_complaint(journal, good).n == 1
    changed, said = BAD[name]
    with pytest.raises(InputError, match=said):
        read_complaint(journal, {**good, **changed})
    with pytest.raises(InputError, match="one JSON object"):
        read_complaint(journal, [good])  # type: ignore[arg-type]


def test_a_field_is_yes_or_no_and_nothing_else(journal_of: Callable[[str], Journal]) -> None:
    journal = journal_of("heat")
    good = as_given(journal, journal.take(journal.open_rows[:1]))
    for value in (True, False, None):
        case = read_complaint(journal, {**good, "is_no_heat": value})
        assert case.flags["is_no_heat"].tolist() == [bool(value)]
    # Any text would count as yes.
    for value in ("no", "false", 2):
        with pytest.raises(InputError, match=r"is_no_heat .* was given; write true or false"):
            read_complaint(journal, {**good, "is_no_heat": value})


def test_a_building_nobody_reported_before_has_no_past(
    journal_of: Callable[[str], Journal],
) -> None:
    policy, journal = policy_of("snad"), journal_of("snad")
    given = as_given(journal, journal.take(journal.open_rows[:1]))
    queue = OpenQueue(policy, journal, open_cases(policy, journal), CAPACITY)
    seen = [
        queue.answer({**given, "building_id": name}).choice.observation[0]
        for name in ("no such building", None)
    ]
    np.testing.assert_array_equal(seen[0], seen[1])
    assert replace(journal).building_numbers.get("no such building") is None
