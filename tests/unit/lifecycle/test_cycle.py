"""A retraining cycle from records to a decision with its reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.lifecycle.offices import audit_row

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import InputError, RegistryError
from parity311.lifecycle import cycle, trial
from parity311.lifecycle.cycle import find_doubts, run_cycle
from parity311.lifecycle.cycle_config import CycleConfig, check_cycle
from parity311.lifecycle.evidence import AuditEvidence
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.weights_file import read_weights, write_weights
from parity311.mdp.equity import PUBLISHED_TERM, EquityTerm

SNAD = CycleConfig("snad", "dual_threshold")
STEPS = ["propensity", "incidents", "strata", "denominators", "train", "audit", "decision"]
TRIAL = {"coverage": 0.3, "coverage_of_today": 0.2, "lead": 0.1, "lead_interval": [0.05, 0.15]}
ESTIMATE = {"used": "exposure_rate", "failed": {}, "is_wide": False}


@pytest.fixture(autouse=True)
def _few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "EPISODES", 16)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine months of snad, reporting uneven and visits scarce."""
    return build_city(
        [get_domain("snad").process], "small", 5, "strong", "scarce", workers=1,
        date_from=date(2024, 1, 1), date_to=date(2024, 10, 1),
        out=tmp_path_factory.mktemp("cycle") / "city",
    )  # fmt: skip


def run(city: Path, folder: Path, config: CycleConfig = SNAD, **options: Any) -> dict[str, Any]:
    """One cycle whose steps and registry lie in a folder."""
    return run_cycle(
        config, city, database=str(folder / "policies.db"), out=folder / "cycles",
        by="A. Okafor", **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def office(city: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder in which one cycle was run, and what it decided."""
    folder = tmp_path_factory.mktemp("office")
    return folder, run(city, folder)


@pytest.mark.slow
class TestWhole:
    def test_it_ends_with_a_state_and_its_reasons(self, office: Any) -> None:
        folder, found = office
        assert found["outcome"] in (cycle.PROPOSED, cycle.HELD, cycle.REFUSED)
        assert found["reasons"][0].startswith(f"audit: {found['verdict']}")
        assert [one["step"] for one in found["steps"]] == STEPS
        assert all(one["files"] for one in found["steps"])
        written = json.loads((Path(found["folder"]) / cycle.DECISION).read_text())
        assert written["reasons"] == found["reasons"]
        text = (Path(found["folder"]) / cycle.DECISION_TEXT).read_text()
        assert all(reason in text for reason in found["reasons"])
        registry = Registry(folder / "policies.db")
        assert registry.verify().problems == ()
        assert [one.version for one in registry.policies()] == (
            [found["version"]] if found["version"] else []
        )

    def test_the_second_time_nothing_is_done(self, office: Any, city: Path) -> None:
        folder, found = office
        again = run(city, folder)
        assert not any(one["is_new"] for one in again["steps"])
        assert {k: v for k, v in again.items() if k != "steps"} == {
            k: v for k, v in found.items() if k != "steps"
        }

    def test_other_weights_begin_at_the_training(self, office: Any, city: Path) -> None:
        folder, _ = office
        found = run(city, folder, replace(SNAD, equity=0.2))
        assert [one["step"] for one in found["steps"] if one["is_new"]] == STEPS[4:]

    def test_a_cycle_killed_after_its_proposal_proposes_nothing_twice(
        self, office: Any, city: Path
    ) -> None:
        folder, found = office
        assert found["version"], "this city's cycle ends in a proposal; choose one that does"
        (Path(found["folder"]) / "step.json").unlink()
        assert run(city, folder)["version"] == found["version"]

    def test_a_failed_audit_is_refused_and_not_registered(
        self, office: Any, city: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, _ = office
        rows = (audit_row("FAIL", "dual_threshold"),)
        failed = AuditEvidence("FAIL", "the gap is at least 10 points", SNAD.spec, rows, "0")
        monkeypatch.setattr(cycle, "read_audit", lambda *_: failed)
        found = run_cycle(
            SNAD, city, database=str(tmp_path / "policies.db"), out=folder / "cycles",
            by="A. Okafor",
        )  # fmt: skip
        assert (found["outcome"], found["version"]) == (cycle.REFUSED, None)
        assert "never goes live" in found["reasons"][1]
        assert Registry(tmp_path / "policies.db").policies() == []

    def test_published_steps_are_stored_and_re_weighted(self, office: Any, city: Path) -> None:
        folder, _ = office
        config = CycleConfig("snad", "dqn", n_steps=60, n_seeds=1, term=PUBLISHED_TERM)
        first = run(city, folder, config)
        assert first["denominators"].startswith("simulated: no earlier")
        second = run(city, folder, replace(config, until=date(2024, 9, 1)))
        assert second["denominators"].startswith("re-weighted: the steps that train-")
        assert any("not served" in one for one in second["reasons"])


@pytest.mark.parametrize(
    ("estimate", "told", "term", "words"),
    [
        ({"used": "raw", "failed": {"exposure_rate": "too few"}}, {}, {}, "too few"),
        ({"is_wide": True}, {}, {}, "is wide"),
        ({}, {"lead": -0.1, "lead_interval": [-0.15, -0.05]}, {}, "10.0 points fewer"),
        ({}, {}, {"equity_mode": "windowed"}, "not served"),
    ],
)
def test_doubts_are_told(estimate: Any, told: Any, term: Any, words: str) -> None:
    config = replace(SNAD, term=EquityTerm(**term))
    (doubt,) = find_doubts(config, ESTIMATE | estimate, TRIAL | told)
    assert words in doubt
    assert find_doubts(SNAD, ESTIMATE, TRIAL) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"domain": "heet"}, "Did you mean 'heat'"),
        ({"agent": "dqm"}, "Did you mean 'dqn'"),
        ({"equity": 1.5}, "allowed is 0 to 1"),
        ({"term": PUBLISHED_TERM}, "follows coverage prices"),
        ({"agent": "priced", "term": PUBLISHED_TERM}, "has none of"),
    ],
)
def test_bad_settings_are_refused_before_any_work(changed: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_cycle(replace(SNAD, **changed), by="A. Okafor", reason="yearly")


def test_nobody_proposes_nothing(tmp_path: Path, city: Path) -> None:
    with pytest.raises(InputError, match="named person"):
        run_cycle(SNAD, city, database=str(tmp_path / "policies.db"), by="-", out=tmp_path)
    with pytest.raises(RegistryError, match="begins with 'mysql'"):
        run_cycle(SNAD, city, database="mysql://x/y", by="A. Okafor", out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_weights_come_back_as_they_were_written(tmp_path: Path) -> None:
    weights = (0.1, 0.2, 0.6, 0.1)
    path = write_weights(tmp_path / "weights.json", "heat", weights)
    assert read_weights(path, "heat") == weights
    assert CycleConfig("heat", weights=weights).preference == weights


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"domain": "crane"}, "for 'crane'"),
        ({"weights": {"speed": 1.0}}, "KeyError"),
        ({"weights_version": 9}, "version 9"),
        (
            {"weights": {"speed": 1.0, "cost": 1.0, "equity": 0.0, "retention": 0.0}},
            "must be at least 0 and sum to 1",
        ),
        (
            {"weights": {"speed": np.nan, "cost": 0.5, "equity": 0.5, "retention": 0.0}},
            "must be at least 0",
        ),
    ],
)
def test_weights_that_are_none_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    path = write_weights(tmp_path / "weights.json", "heat", (0.1, 0.2, 0.6, 0.1))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=words):
        read_weights(path, "heat")
