"""The reward statement and its difference, in words a council can read."""

from __future__ import annotations

import pytest
from tests.unit.lifecycle.offices import Office, made_package

from parity311.audit.spec import AuditSpec
from parity311.lifecycle.statement import (
    FORMS_IN_WORDS,
    MODES_IN_WORDS,
    NO_AUDIT,
    WEIGHTS_IN_WORDS,
    changed_lines,
    state_policy,
)
from parity311.mdp.contract import REWARD_NAMES
from parity311.mdp.equity import FORMS, MODES, EquityTerm
from parity311.records.strata import GROUPED_BY
from parity311.serving.policy import load_policy

BASE = made_package("heat", 1).manifest


def test_every_mode_form_and_weight_has_words() -> None:
    assert MODES_IN_WORDS.keys() == MODES.keys()
    assert FORMS_IN_WORDS.keys() == FORMS.keys()
    assert WEIGHTS_IN_WORDS.keys() == set(REWARD_NAMES)


CHANGES = {
    "weight_equity": {"preference": [0.4, 0.3, 0.3, 0.0]},
    "equity_mode": {"equity_mode": "per_step"},
    "strata": {"strata": "race5"},
    "denominator": {"denominator": "all"},
    "price_cap": {"price_cap": 2.0},
    "price_step": {"price_step": 0.5},
    "prices": {"prices": [0.1, 0.0, 0.0, 0.0, -0.1, 0.0]},
    "estimator": {"origin": {"estimator": "raw"}},
    "records": {"origin": {"records": "ab" * 32}},
    "learned": {"origin": {"learned_from": "2024-01-01", "learned_to": "2025-01-01"}},
    "need": {"denominators": [1.0] * 6},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_reward_is_a_line(name: str) -> None:
    changed = changed_lines(state_policy(BASE), state_policy({**BASE, **CHANGES[name]}))
    row = next(row for row in changed if row["name"] == name)
    assert row["first"] != row["second"]
    assert all(row.values())


def test_the_form_is_a_line_where_it_is_used() -> None:
    step = {"equity_mode": "per_step"}
    first = state_policy({**BASE, **step, "equity_form": "max_gap"})
    second = state_policy({**BASE, **step, "equity_form": "variance"})
    assert [row["name"] for row in changed_lines(first, second)] == ["equity_form"]
    unused = [state_policy({**BASE, "equity_form": form}) for form in ("max_gap", "variance")]
    assert changed_lines(*unused) == []


def test_tau_is_that_of_the_audit() -> None:
    bare, usual = state_policy(BASE), state_policy(BASE, AuditSpec())
    strict = state_policy(BASE, AuditSpec(tau=0.02))
    assert {row["name"] for row in changed_lines(usual, strict)} == {"tau", "smallest_ratio"}
    assert next(line.value for line in bare if line.name == "tau") == NO_AUDIT
    assert next(line.value for line in usual if line.name == "tau") == "5 points"


def test_the_groups_are_named_in_words() -> None:
    for name, words in GROUPED_BY.items():
        lines = state_policy({**BASE, "strata": EquityTerm(strata=name).strata})
        assert words in {line.value for line in lines}


def test_a_package_is_stated_as_it_lies_on_disk(on_file: Office) -> None:
    plain, priced = (load_policy(folder).manifest for folder in on_file.both_packages())
    rows = {row["name"]: row for row in changed_lines(state_policy(plain), state_policy(priced))}
    assert rows["weight_equity"]["second"] == "30 %"
    assert rows["prices"]["second"].startswith("Q1 +0.50")
