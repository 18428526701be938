"""Bad input through the whole command: a defined verdict with its reason, or one clear line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.audit.audit_city import make_inputs
from tests.unit.explain.stored_run import make_episodes, make_policy

from parity311.audit.cells import AuditInputs
from parity311.audit.episodes import EpisodeInputs
from parity311.audit.spec import AuditSpec, with_options
from parity311.pipelines.audit import audit_run
from parity311.pipelines.explain import explain_run
from parity311.report.audit_inputs import store_inputs
from parity311.report.explain_inputs import store_policies
from parity311.report.folder import Run, open_run
from parity311.report.store import start_run
from parity311.storage.strict_json import to_json

pytestmark = pytest.mark.slow


SPEC = with_options(AuditSpec(n_draws=150), strata="all")


def stored(root: Path, inputs: AuditInputs, episodes: list[EpisodeInputs] | None = None) -> Run:
    with start_run(root, "run", {}) as run:
        store_inputs(run, [inputs], episodes or [])
    return open_run(run.id, root)


def without_quintile(inputs: AuditInputs, quintile: int) -> AuditInputs:
    keep = inputs.places.income_quintile[inputs.cells.tract] != quintile
    return replace(inputs, cells=inputs.cells.take(keep))


def one_tract(inputs: AuditInputs) -> AuditInputs:
    return replace(inputs, cells=inputs.cells.take(inputs.cells.tract == 3))


def no_acs(inputs: AuditInputs) -> AuditInputs:
    places = inputs.places
    nothing = np.full(places.n_tracts, np.nan)
    return replace(
        inputs,
        places=replace(
            places,
            income_quintile=np.zeros(places.n_tracts, np.int64),
            shares={race: nothing for race in places.shares},
        ),
    )


def nobody_served(inputs: AuditInputs) -> AuditInputs:
    nothing = np.zeros_like(inputs.cells.n_served)
    return replace(inputs, cells=replace(inputs.cells, n_served=nothing, n_found=nothing))


def every_case_lost(inputs: AuditInputs) -> AuditInputs:
    return replace(inputs, cells=replace(inputs.cells, tract=np.full_like(inputs.cells.tract, -1)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda inputs: without_quintile(inputs, 1),
        one_tract,
        no_acs,
        nobody_served,
        every_case_lost,
        lambda inputs: replace(inputs, incident_draws=None),
    ],
    ids=["no complaint", "one tract", "no ACS", "nobody served", "all lost", "no estimate"],
)
def test_a_spoiled_city_gets_verdicts_with_reasons(tmp_path: Path, spoil) -> None:
    inputs = spoil(make_inputs(1, n_tracts=60, n_months=2))
    result = audit_run(stored(tmp_path, inputs), SPEC, root=tmp_path)
    verdicts = [row for domain in result["domains"] for row in domain["verdicts"]]
    assert verdicts
    assert all(row["verdict"] in ("PASS", "FAIL", "INSUFFICIENT") for row in verdicts)
    assert all(row["reason"] for row in verdicts)
    json.loads(to_json(result))
    assert Path(result["page"]).is_file()


def test_too_little_never_passes(tmp_path: Path) -> None:
    inputs = one_tract(make_inputs(1, n_tracts=60))
    result = audit_run(stored(tmp_path, inputs), SPEC, root=tmp_path)
    assert {row["verdict"] for row in result["domains"][0]["verdicts"]} == {"INSUFFICIENT"}


def test_a_policy_that_decides_nothing_for_a_group(tmp_path: Path) -> None:
    whole = make_episodes(0.0, "dqn")
    nobody = np.array([0.0, 1, 1, 1, 1, 1])
    no_decision = replace(
        whole,
        correct=whole.correct * nobody,
        out_of={name: values * nobody for name, values in whole.out_of.items()},
    )
    run = stored(tmp_path, make_inputs(1, n_tracts=60), [no_decision])
    rows = audit_run(run, SPEC, root=tmp_path)["policies"]
    assert all(row["verdict"] != "PASS" for row in rows)
    never_served = replace(whole, correct=whole.correct * nobody)
    run = stored(tmp_path, make_inputs(1, n_tracts=60), [never_served])
    rows = audit_run(run, SPEC, root=tmp_path)["policies"]
    assert {row["verdict"] for row in rows} == {"FAIL"}
    assert all(row["worst_off"].startswith("Q1") for row in rows)


def test_a_feature_without_variance_is_said_and_not_flagged(tmp_path: Path) -> None:
    policy = make_policy()
    rows, background = policy.rows.copy(), policy.background.copy()
    rows[:, 3], background[:, 3] = 0.5, 0.5
    with start_run(tmp_path, "run", {}) as run:
        store_policies(run, [replace(policy, rows=rows, background=background)])
    (found,) = explain_run(open_run(run.id, tmp_path), root=tmp_path)["policies"]
    share = {row["feature"]: row for row in found["gap"]["features"]}["zip_freq_24h"]
    assert not share["is_flagged"]
    assert "does not vary" in share["note"]
    assert share["proxy_score"] == 0.0
