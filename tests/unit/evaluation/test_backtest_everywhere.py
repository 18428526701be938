"""`backtest DOMAIN --records CITY` ends with figures or a reasoned refusal in all twelve."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parity311.city.build import build_city
from parity311.cli import app
from parity311.domains import all_domains, get_domain
from parity311.engines.backlog.rules import stands_in
from parity311.errors import InputError
from parity311.evaluation.off_policy import backtest, rosenbaum, visits
from parity311.evaluation.off_policy.estimate import Options
from parity311.evaluation.off_policy.records import has_recorded_log
from parity311.evaluation.off_policy.records_truth import true_findings
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow
BY_CASE = {"boiler", "heat", "crane", "snad", "drainage", "complaint_triage"}
"""Domains whose decision, whether somebody goes to a case, is on record."""
BY_VISIT = {"elevator", "scaffold"}
"""Those of the paper's backtests: whom the office visited of those who waited is on record."""


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small city with all domains."""
    out = tmp_path_factory.mktemp("backtests") / "city"
    processes = [domain.process for domain in all_domains().values()]
    return build_city(processes, "small", 29, out=out, workers=1)


@pytest.fixture(autouse=True)
def _few_hidden_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two grades and a coarse search: tests/unit/evaluation/test_off_policy.py has them all."""
    monkeypatch.setattr(backtest, "GAMMAS", backtest.GAMMAS[:2])
    monkeypatch.setattr(rosenbaum, "GAMMA_TOLERANCE", 5.0)


def without_example(slug: str) -> Domain:
    """The domain, with an example that must not be asked for."""

    def refuse() -> Any:
        raise AssertionError("rules were made from the example, not from the records")

    domain = get_domain(slug)
    return replace(domain, dynamics=replace(domain.play, example=refuse))


@pytest.mark.parametrize("slug", sorted(all_domains()))
def test_it_ends_with_a_figure_or_a_reason(
    city: Path, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_recorded_log(get_domain(slug)) == (slug in BY_CASE)
    monkeypatch.setattr(backtest, "get_domain", without_example)
    domain = get_domain(slug)
    own = ["balanced", "score", "never"]
    own = [name for name in own if not stands_in(domain.heuristics[name], Harness(domain))]
    rules = [word for name in own for word in ("--policy", name)]
    found = CliRunner().invoke(app, ["backtest", slug, "--records", str(city), *rules, "--json"])
    if slug not in BY_CASE | BY_VISIT:
        assert isinstance(found.exception, InputError)
        said = str(found.exception)
        assert "\n" not in said
        assert get_domain(slug).decision in said
        assert "is not on record" in said
        return
    assert found.exception is None, found.exception
    result = json.loads(found.stdout)
    assert result["n_episodes"] >= 200
    assert result["kind"] == ("visits" if slug in BY_VISIT else "agency")
    assert result["logged"]["overall"]["lower"] <= result["logged"]["overall"]["upper"]
    for row in result["policies"]:
        for one in row["estimators"]:
            assert one["value"] is not None or one["value_reason"], (slug, row["policy"])


def test_the_interval_holds_what_the_visits_would_really_find(
    city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACTIONABLE on elevator's line leaves weights enough: held against the truth of this city."""
    logs: list[Any] = []

    def read(*given: Any) -> Any:
        logs.append(visits.read_visit_log(*given))
        return logs[-1]

    monkeypatch.setattr(backtest, "read_visit_log", read)
    test = backtest.prepare_backtest("elevator", city, ["actionable"])
    (row,) = backtest.run_backtest(test, Options(propensities="logistic"))["policies"]
    found = {one["estimator"]: one["by_outcome"]["correct"] for one in row["estimators"]}
    truth = true_findings(city, "elevator", logs[0], test.candidates[0].target)
    assert found["doubly_robust"]["lower"] <= truth <= found["doubly_robust"]["upper"]
    never = np.zeros_like(test.candidates[0].target)
    assert true_findings(city, "elevator", logs[0], never) == 0.0


def test_a_rule_is_not_valued_under_the_name_of_another(city: Path) -> None:
    """Elevator's published actions have no NO_DISPATCH: what stands in for it is ACTIONABLE."""
    with pytest.raises(InputError, match="'never' of 'elevator' takes NO_DISPATCH, which is none"):
        backtest.prepare_backtest("elevator", city, ["never"])
