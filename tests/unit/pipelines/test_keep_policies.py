"""What a run keeps of its policies, and what features are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from parity311.agents.forward import score_actions_numpy
from parity311.audit.episodes import EpisodeInputs
from parity311.domains import get_domain
from parity311.evaluation.compare import agent_contenders, rule_contenders
from parity311.evaluation.rollout import evaluate
from parity311.explain.games import score_rows
from parity311.explain.policy import explain_policy
from parity311.pipelines import keep_policies as keeping
from parity311.pipelines.explain import explain_complaint, explain_run
from parity311.pipelines.feature_price import feature_sets, price_features
from parity311.pipelines.keep_policies import keep_episodes, keep_policies, network_of
from parity311.records.strata import INCOME
from parity311.report.explain_inputs import store_policies, store_variants
from parity311.report.folder import open_run
from parity311.report.store import start_run
from parity311.serving.period import SeenComplaints, SeenPeriod
from parity311.training import train, with_equity
from parity311.training.loop import Trained

pytestmark = pytest.mark.slow

PLAIN = (0.5, 0.5, 0.0, 0.0)
SETTINGS = {"hidden": (16, 16), "target_every": 100, "buffer_size": 2000}
RECORDS: Any = SimpleNamespace(strata=INCOME)
"""Nothing is read from them here but how their tracts are grouped."""
DATES = {"date_from": date(2025, 1, 1), "date_to": date(2026, 1, 1)}


def filings_on_record(domain, records, params, date_from: date, date_to: date) -> SeenPeriod:
    """The rows of the table in place of records, each with a tract of its stratum."""
    del domain, records, date_from, date_to
    n = 800
    stratum = np.asarray(params.stratum[:n])
    seen = SeenComplaints(
        complaint_id=np.array([f"b{i}" for i in range(n)]),
        tract=np.array([f"t{s}-{i % 20}" for i, s in enumerate(stratum)]),
        severity=np.full(n, "C"),
        stratum=stratum,
        features=np.asarray(params.features[:n], np.float64),
    )
    return SeenPeriod(seen, *(np.zeros(n),) * 4)


@pytest.fixture(autouse=True)
def _table_for_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "see_period", filings_on_record)


@pytest.fixture(scope="module")
def params():
    return get_domain("boiler").play.example()


@pytest.fixture(scope="module")
def trained(params) -> Trained:
    preferences = [PLAIN, with_equity(PLAIN, 0.5)]
    return train(get_domain("boiler"), params, "dqn", preferences, [1, 2], 300, settings=SETTINGS)


def test_one_policy_a_preference_with_complaints_on_record(trained, params) -> None:
    kept = keep_policies(trained, RECORDS, params, setting="here", **DATES)
    assert [one.policy for one in kept] == ["dqn", "dqn_equity_0.50"]
    plain, paid = kept
    assert plain.geographic == ("neighborhood_risk",)
    assert paid.geographic == ("neighborhood_risk", "coverage_price")
    assert np.ptp(plain.rows[:, -1]) == 0
    assert np.ptp(paid.rows[:, -1]) > 0
    assert plain.escalating == ("inspect",)
    mine, found = explain_complaint(kept, str(plain.complaint_id[5]))
    assert found.action in mine.action_names
    flagged = explain_policy(plain).gap
    assert flagged is not None
    share = {feature.feature: feature for feature in flagged.features}["neighborhood_risk"]
    assert share.is_flagged
    assert "says where" in share.note


def test_a_policy_with_prices_outside_is_kept_and_explained(params) -> None:
    preferences = [PLAIN, with_equity(PLAIN, 0.5)]
    boiler = get_domain("boiler")
    priced = train(boiler, params, "priced", preferences, [1], 300, settings=SETTINGS)
    kept = keep_policies(priced, RECORDS, params, setting="here", **DATES)
    assert [one.policy for one in kept] == ["priced", "priced_equity_0.50"]
    paid = kept[1]
    served = score_actions_numpy(paid.network, paid.rows)
    assert score_rows(paid.network, paid.rows) == pytest.approx(served, abs=1e-4)
    found = {row["feature"]: row["importance"] for row in explain_policy(paid).importance}
    assert found["coverage_price"] > 0


def test_steps_of_episodes_stand_in_where_no_case_is_decided_about(trained, params) -> None:
    domain = get_domain("boiler")
    assert domain.sight is not None
    hourly = replace(domain, sight=replace(domain.sight, is_repeated=True))
    harness = replace(trained.harness, domain=hourly, max_steps=20)
    kept = keep_policies(
        replace(trained, harness=harness), RECORDS, params, setting="here", **DATES
    )
    assert len(kept) == 2
    assert kept[0].rows.shape == (16 * 20, harness.n_features)
    assert len(set(kept[0].tract)) == 16
    assert set(kept[0].severity) == {"all"}


def test_what_is_no_network_is_left_out() -> None:
    assert network_of({"table": np.zeros(3)}) is None
    network = {"weight_0": np.zeros((2, 3)), "bias_0": np.zeros(3)}
    assert set(network_of({"actor": network, "critic": network}) or ()) == {"weight_0", "bias_0"}


def test_scored_episodes_are_kept_for_the_audit(trained, params) -> None:
    harness = replace(trained.harness, max_steps=50)
    rules = [one for one in rule_contenders(harness, params) if one.name in ("balanced", "never")]
    contenders = [*rules, *agent_contenders(harness, [trained])]
    episodes = evaluate(harness, params, contenders, jax.random.split(jax.random.key(0), 4))
    kept: Sequence[EpisodeInputs] = keep_episodes(
        "boiler", "here", contenders, episodes, [trained.agent.name]
    )
    assert [one.policy for one in kept] == ["balanced", "dqn", "dqn_equity_0.50"]
    assert all(one.correct.shape == (4, 6) for one in kept)
    assert all((one.correct <= one.out_of["actionable"] + 1e-6).all() for one in kept)


def test_doing_without_place_is_priced(trained, params, tmp_path: Path) -> None:
    domain = trained.harness.domain
    sets = feature_sets(domain, trained.harness.observation_names, "is_internal")
    assert [one.name for one in sets] == ["all features", "without place", "without is_internal"]
    assert "neighborhood_risk" not in sets[1].features
    rows = price_features(
        trained, sets[:2], params, params,
        seeds=[1, 2], n_steps=300, n_episodes=8, key=jax.random.key(0), preference=PLAIN,
        settings=SETTINGS,
    )  # fmt: skip
    used, without = rows
    assert used["reward_change"] == used["recall_change"] == 0
    # In this table three quarters of what a filing tells lie in the feature that is dropped.
    assert without["recall_change_upper"] < 0
    kept = keep_policies(trained, RECORDS, params, setting="here", **DATES)
    with start_run(tmp_path, "run", {}) as run:
        store_policies(run, kept[:1])
        store_variants(run, [{"domain": "boiler", "setting": "here", **row} for row in rows])
    result = explain_run(open_run(run.id, tmp_path), root=tmp_path)
    assert [row["variant"] for row in result["variants"]] == ["all features", "without place"]
    assert "What it costs to do without" in Path(result["page"]).read_text(encoding="utf-8")


def test_the_same_features_are_not_dropped_twice() -> None:
    domain = get_domain("boiler")
    used = domain.observation_sets["leak_free"]
    names = [one.name for one in feature_sets(domain, used, "neighborhood_risk")]
    assert names == ["all features", "without place"]
    assert len(feature_sets(get_domain("heat"), ("queue", "season"), None)) == 1
