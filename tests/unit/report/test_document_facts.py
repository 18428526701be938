"""What documents say of the correction and of the data follows the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity311.audit.spec import AuditSpec
from parity311.report.document_facts import collect_facts
from parity311.report.folder import Run
from parity311.report.store import open_run, start_run

GAP = {"value": 0.12, "lower": 0.1, "upper": 0.14}


def make_run(root: Path, *, is_synthetic: bool, **block: Any) -> Run:
    with start_run(root, "run", {}) as run:
        run.add_data("records", "ab" * 32, is_synthetic=is_synthetic, statement="Rows.")
        policies = [{"policy": "dqn_equity_0.50", "recall": 0.5, "coverage_gap": GAP}]
        named = {"domain": "heat", "participation": "recorded", "capacity": "recorded"}
        run.add_metrics({"comparisons": [{**named, "policies": policies, **block}]})
    return open_run(run.id, root)


def facts_of(run: Run) -> dict[str, str]:
    return collect_facts(run, [], AuditSpec(), [])


def test_incidents_are_added_only_where_they_were(tmp_path: Path) -> None:
    failed = {"exposure_rate": "No duplicates."}
    raw = make_run(
        tmp_path / "raw", is_synthetic=False, is_real=True, is_wide=False, estimator="raw",
        failed_estimators=failed, assumptions="Counts complaints.",
    )  # fmt: skip
    facts = facts_of(raw)
    assert "complaints stand for incidents" in facts["preprocessing"]
    assert "(No duplicates)" in facts["preprocessing"]
    assert "are added" not in facts["preprocessing"]
    assert "synthetic" not in facts["caveats"].lower()
    assert "recorded" not in facts["results"]
    assert "DQN, paid for coverage" in facts["results"]
    fitted = make_run(
        tmp_path / "fitted", is_synthetic=True, is_real=False, is_wide=False,
        estimator="exposure_rate", failed_estimators={}, assumptions="Lifetimes last 14 days.",
    )  # fmt: skip
    facts = facts_of(fitted)
    assert "are added by exposure_rate (Lifetimes last 14 days)" in facts["preprocessing"]
    assert "A synthetic city is a model" in facts["caveats"]


@pytest.mark.parametrize("is_wide", [True, False])
def test_a_gap_known_within_a_factor_is_no_figure(tmp_path: Path, is_wide: bool) -> None:
    run = make_run(
        tmp_path, is_synthetic=False, is_real=True, is_wide=is_wide, estimator="exposure_rate",
        failed_estimators={}, assumptions="As assumed.",
    )  # fmt: skip
    assert ("coverage gap" in facts_of(run)["results"]) is not is_wide


def test_a_run_that_kept_no_estimator_claims_none(tmp_path: Path) -> None:
    facts = facts_of(make_run(tmp_path, is_synthetic=True))
    assert "added" not in facts["preprocessing"]
