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

from parity311.audit.spec import AuditSpec
from parity311.city.build import build_city
from parity311.domains import all_domains, get_domain
from parity311.engines.backlog.rules import stands_in
from parity311.errors import InputError, RegistryError
from parity311.lifecycle import cycle, trial
from parity311.lifecycle.cycle import find_doubts, run_cycle
from parity311.lifecycle.cycle_config import CycleConfig, check_cycle
from parity311.lifecycle.evidence import AuditEvidence
from parity311.lifecycle.promised import hold_to, promise_of
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.weights_file import read_weights, write_weights
from parity311.mdp.equity import PUBLISHED_TERM, EquityTerm
from parity311.pipelines.promise_levels import PromiseConfig
from parity311.service_levels.levels import CellPromise, ServiceLevels, read_levels

SNAD = CycleConfig("snad", "dual_threshold")
STEPS = ["propensity", "incidents", "strata", "denominators", "train", "audit", "decision"]
TRIAL = {"coverage": 0.3, "coverage_of_today": 0.2, "lead": 0.1, "lead_interval": [0.05, 0.15]}
ESTIMATE = {"used": "exposure_rate", "failed": {}, "is_wide": False}


def promised(days: dict[str, int], domain: str = "snad") -> ServiceLevels:
    """Service levels of so many days by district."""
    cells = tuple(CellPromise(district, "*", n) for district, n in days.items())
    return ServiceLevels(domain, "borough", 0.8, 0.5, cells)


@pytest.fixture(autouse=True)
def _few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "EPISODES", 16)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen months of snad, reporting uneven and visits scarce."""
    return build_city(
        [get_domain("snad").process], "small", 5, "strong", "scarce", workers=1,
        date_from=date(2024, 1, 1), date_to=date(2025, 2, 1),
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

    def test_the_same_policy_under_another_audit_is_another_version(
        self, office: Any, city: Path
    ) -> None:
        folder, found = office
        milder = AuditSpec(tau=0.06)
        other = run(city, folder, replace(SNAD, spec=milder))
        assert [one["step"] for one in other["steps"] if one["is_new"]] == STEPS[5:]
        assert other["version"] not in (None, found["version"])
        registry = Registry(folder / "policies.db")
        audits = [registry.stored(one).audit for one in (found["version"], other["version"])]
        assert [json.loads(one)["spec"]["tau"] for one in audits] == [0.05, 0.06]

    def test_a_registry_that_lost_the_proposal_gets_it_again(self, office: Any, city: Path) -> None:
        folder, found = office
        (folder / "policies.db").rename(folder / "gone.db")
        try:
            again = run(city, folder)
            assert [one["step"] for one in again["steps"] if one["is_new"]] == STEPS[6:]
            assert again["outcome"] == found["outcome"]
            held = Registry(folder / "policies.db").policies()
            assert [one.version for one in held] == [again["version"]] == ["snad-1"]
        finally:
            (folder / "gone.db").rename(folder / "policies.db")

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
        second = run(city, folder, replace(config, until=date(2024, 12, 1)))
        assert second["denominators"].startswith("re-weighted: the steps that train-")
        assert any("not served" in one for one in second["reasons"])


@pytest.mark.slow
class TestServiceLevels:
    def test_it_learns_by_the_clock_and_is_held_where_it_breaks_a_promise(
        self, office: Any, city: Path
    ) -> None:
        folder, plain = office
        config = replace(SNAD, levels=promised({"*": 1}))
        found = run(city, folder, config)
        names = [one["step"] for one in found["steps"]]
        assert names == [*STEPS[:6], "promises", "decision"]
        # What was estimated before is there; the need is set anew for another clock.
        assert not any(one["is_new"] for one in found["steps"][:3])
        assert all(one["is_new"] for one in found["steps"][3:])
        assert found["promises"]["breaks"] == found["promises"]["cells"]
        assert found["outcome"] in (cycle.HELD, cycle.REFUSED)
        assert any("breaks" in one and "within 1 day" in one for one in found["reasons"])
        assert "Service levels: of" in (Path(found["folder"]) / cycle.DECISION_TEXT).read_text()
        # Within a day fewer are served in time than within the codes' own levels.
        assert found["trial"]["coverage"] < plain["trial"]["coverage"]

    def test_a_version_and_its_promises_stand_on_one_page(
        self, office: Any, city: Path, tmp_path: Path
    ) -> None:
        folder, found = office
        assert found["version"], "this city's cycle ends in a proposal; choose one that does"
        config = PromiseConfig(
            "", str(city), share=0.5, confidence=0.5, years=1, check_years=0, is_drawn=True
        )
        told = promise_of(
            Registry(folder / "policies.db"), found["version"], config, root=tmp_path / "runs",
            out=tmp_path / "kept.toml", progress=lambda *_: None,
        )  # fmt: skip
        page = Path(told["page"]).read_text()
        for words in ("The policy", found["version"], "A. Okafor", "weight on areas", "Conflicts"):
            assert words in page
        assert told["policy"] == read_levels(tmp_path / "kept.toml").name == found["version"]
        with pytest.raises(InputError, match="Unknown version"):
            promise_of(Registry(folder / "policies.db"), "snad-99", config, root=tmp_path / "no")

    @pytest.mark.parametrize(
        ("levels", "words"),
        [
            (promised({"*": 1}, domain="heat"), "for 'heat'"),
            (promised({"Bronx": 1}), "do not cover the city"),
        ],
        ids=["another domain", "not all districts"],
    )
    def test_levels_of_something_else_are_refused(
        self, levels: ServiceLevels, words: str, city: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match=words):
            run(city, tmp_path, replace(SNAD, levels=levels))
        assert not list(tmp_path.iterdir())


def test_a_process_without_a_clock_is_left_as_it_is() -> None:
    clock = np.array([1.0, 2.0, 3.0, 4.0])
    held, has_clock = hold_to(get_domain("heat").play.example(), clock)
    assert has_clock
    np.testing.assert_allclose(held.office.service_level, clock)
    for slug, is_held in (("crane", True), ("elevator", False)):
        assert hold_to(get_domain(slug).play.example(), clock)[1] == is_held
    crane = hold_to(get_domain("crane").play.example(), clock)[0]
    np.testing.assert_allclose(crane.service_days, clock[::-1])  # a stream counts from D


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
        ({"action_set": "more"}, "Unknown action set 'more'"),
        ({"domain": "drone", "action_set": "published"}, "takes COVERAGE_PRICED, which is none"),
    ],
)
def test_bad_settings_are_refused_before_any_work(changed: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_cycle(replace(SNAD, **changed), by="A. Okafor", reason="yearly")


@pytest.mark.parametrize("slug", list(all_domains()))
def test_a_rule_follows_prices_in_every_domain_or_says_it_cannot(slug: str) -> None:
    """Where only an extended action follows them, a cycle takes the extended ones by itself."""
    config = CycleConfig(slug, "dual_threshold")
    domain = check_cycle(config, by="A. Okafor", reason="yearly")
    assert not stands_in(domain.heuristics["dual_threshold"], config.harness)
    is_more = slug in ("drone", "elevator", "ert", "housing")
    assert config.harness.action_set == ("extended" if is_more else "published")
    assert CycleConfig(slug).harness.action_set == "published"


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


def test_what_an_open_audit_needs_is_told_by_the_band_that_decides() -> None:
    ratio = {"verdict": "INSUFFICIENT", "measure": "ratio", "ratio_lower": 0.5, "ratio_upper": 1.0}
    passed = audit_row("PASS", "dual_threshold")
    told = cycle.what_it_needs([ratio | {"gap_upper": 0.9}, passed], SNAD.spec)
    assert "up to 50 points wide:" in told
    assert "episodes" not in told
    assert "too few events" in cycle.what_it_needs([{"verdict": "INSUFFICIENT"}], SNAD.spec)
    endless = {"verdict": "INSUFFICIENT", "gap": 0.4, "gap_lower": 0.0, "gap_upper": 4.3}
    assert "up to as wide as a gap can be" in cycle.what_it_needs([endless], SNAD.spec)
    assert "80% of what is open" in cycle.what_it_needs([ratio], SNAD.spec, 0.8)


@pytest.mark.parametrize(
    ("measure", "ends", "words"),
    [
        ("ratio", (0.58, 0.88, 1.0), "of 88 %, one 34% as wide would pass"),
        ("ratio", (0.48, 0.68, 0.98), "of 68 %, one 33% as wide would fail"),
        ("gap", (0.0, 0.02, 0.08), "of 2 points, one 50% as wide would pass"),
        ("gap", (0.01, 0.08, 0.2), "of 8 points, one 43% as wide would fail"),
    ],
)
def test_how_narrow_a_band_would_settle_it(
    measure: str, ends: tuple[float, ...], words: str
) -> None:
    names = (f"{measure}_lower", measure, f"{measure}_upper")
    row = {"verdict": "INSUFFICIENT", "measure": measure, **dict(zip(names, ends, strict=True))}
    spec = replace(SNAD.spec, tau=0.05)
    assert abs(spec.smallest_ratio - 0.78) < 0.005
    assert words in cycle.what_it_needs([row], spec)


def test_what_is_open_comes_from_the_trial_or_from_the_records() -> None:
    rng = np.random.default_rng(0)
    need = np.full((400, 6), 100.0)
    served = need * np.array([0.2, 0.3, 0.3, 0.3, 0.4, 0.3])
    noisy = served * rng.normal(1.0, 0.1, served.shape)
    ratios = rng.normal(1.0, 0.1, served.shape)
    known = np.ones_like(ratios)
    assert trial.simulated_share(noisy, need, known) == 1.0
    assert trial.simulated_share(served, need * ratios, ratios) == pytest.approx(0.0, abs=1e-12)
    half = trial.simulated_share(noisy, need * ratios, ratios)
    assert half == pytest.approx(0.5, abs=0.1)
    nobody = np.zeros_like(need)
    assert trial.simulated_share(nobody, nobody, known) is None
    assert trial.simulated_share(served, need, known) is None
