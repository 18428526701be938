"""The audit of a run: stored, read back, judged, shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.unit.explain.stored_run import make_episodes, make_run
from typer.testing import CliRunner

from parity311.audit.episodes import EpisodeInputs, assess_episodes
from parity311.audit.spec import AuditSpec, read_spec
from parity311.cli.audit import audit_command
from parity311.errors import InputError, Parity311Error, RunError
from parity311.pipelines.audit import audit_run
from parity311.report.audit_inputs import (
    load_episodes,
    load_inputs,
    open_run_with,
    restrict,
    store_inputs,
)
from parity311.report.folder import open_run
from parity311.report.store import start_run

SPEC = AuditSpec(n_draws=200, strata=("income5", "language"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def source(root: Path):
    return make_run(root)


@pytest.fixture(scope="module")
def result(root: Path, source) -> dict:
    return audit_run(source, SPEC, root=root)


def test_what_is_stored_comes_back(source) -> None:
    first, second = load_inputs(source)
    assert (first.setting, second.setting) == ("strong, scarce", "measured, calibrated")
    assert first.cells.n_cases.sum() > 1000
    assert first.incident_draws is not None
    assert first.incident_draws.shape[1] == first.places.n_tracts == 150
    balanced, learned = load_episodes(source)
    assert np.array_equal(balanced.correct, make_episodes(0.2, "balanced").correct)
    assert learned.policy == "dqn"


def test_the_figures_and_the_page_are_written(root: Path, result: dict) -> None:
    folder = root / result["audit"]
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert result["page"] == str(folder / "audit.html")
    figures = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert figures["spec_sha256"] == SPEC.sha256
    assert len(figures["domains"]) == 2
    assert read_spec(folder / "audit_spec.toml") == SPEC
    assert "unequal beyond the limit" in page
    assert open_run(result["audit"], root).metrics["spec_sha256"] == SPEC.sha256


def test_every_picture_has_words_and_a_table(root: Path, result: dict) -> None:
    page = (root / result["audit"] / "audit.html").read_text(encoding="utf-8")
    figures = re.findall(r"<figure.*?</figure>", page, flags=re.DOTALL)
    assert len(figures) >= 6
    for figure in figures:
        assert re.search(r"<desc[^>]*>[^<]{20,}</desc>", figure)
        assert "<table" in figure
        assert "<figcaption>" in figure
    tables = re.findall(r"<table.*?</table>", page, flags=re.DOTALL)
    assert all('scope="col"' in table for table in tables)


def test_csv_tables_lie_beside(root: Path, result: dict) -> None:
    tables = {path.stem for path in (root / result["audit"] / "tables").glob("*.csv")}
    stem = "heat-strong-scarce-recorded"
    assert {
        f"{stem}-{part}" for part in ("verdicts", "trends", "scan", "joins", "months")
    } <= tables


def test_policies_in_episodes_have_verdicts(result: dict) -> None:
    verdicts = {(row["policy"], row["denominator"]): row for row in result["policies"]}
    assert verdicts["balanced", "actionable"]["verdict"] == "FAIL"
    assert verdicts["dqn", "actionable"]["verdict"] != "FAIL"


def test_the_published_rule_stands_beside_on_request(root: Path, source) -> None:
    spec = AuditSpec(n_draws=150)
    found = audit_run(source, spec, root=root, with_rules=True, n_rule_trials=4)
    assert {row["setting"] for row in found["as_published"]} == {
        "strong, scarce",
        "measured, calibrated",
    }
    assert "The published rule beside this one" in Path(found["page"]).read_text(encoding="utf-8")


def test_few_episodes_are_insufficient() -> None:
    few = make_episodes(0.0, "dqn")
    short = EpisodeInputs("heat", "", "dqn", few.correct[:3], {"incidents": 3 * few.correct[:3]})
    (verdict,) = assess_episodes(short, SPEC).verdicts
    assert verdict.comparison.verdict == "INSUFFICIENT"
    assert "episodes" in verdict.comparison.reason
    with pytest.raises(InputError, match="allowed are actionable, incidents, complaints"):
        assess_episodes(EpisodeInputs("heat", "", "dqn", few.correct, {"hours": few.correct}), SPEC)


def test_episodes_that_draw_the_same_cases_again_are_less_sure(tmp_path: Path) -> None:
    plain = make_episodes(0.1, "dqn")
    again = replace(plain, widening=3.0)
    sure, unsure = (assess_episodes(one, SPEC).verdicts[0].comparison for one in (plain, again))
    assert unsure.gap.estimate == sure.gap.estimate
    assert unsure.gap.lower < sure.gap.lower
    assert unsure.gap.upper > sure.gap.upper
    with start_run(tmp_path, "run", {}) as run:
        store_inputs(run, [], [plain, replace(again, policy="again")])
    assert [one.widening for one in load_episodes(open_run(run.id, tmp_path))] == [1.0, 3.0]


def test_a_run_without_cells_says_so(tmp_path: Path) -> None:
    with start_run(tmp_path, "city describe", {}) as run:
        run.add_metrics({"a": 1})
    with pytest.raises(RunError, match="keeps no cells to audit"):
        load_inputs(open_run(run.id, tmp_path))


def test_the_latest_is_the_newest_that_can_be_audited(root: Path, source, result: dict) -> None:
    assert open_run("latest", root).id != source.id
    assert open_run_with("audit_cells", "latest", root).id == source.id


def test_a_domain_that_is_not_there_says_so(source) -> None:
    with pytest.raises(InputError, match="it has heat"):
        restrict(load_inputs(source), ["crane"])


def invoke(root: Path, *arguments: str):
    app = typer.Typer()
    app.command()(audit_command)
    return CliRunner().invoke(app, [*arguments, "--runs", str(root)])


def test_the_command_prints_json(root: Path, source, tmp_path: Path) -> None:
    spec = tmp_path / "audit.toml"
    spec.write_text("n_draws = 150\n")
    found = invoke(root, source.id, "--json", "--tau", "0.1", "--spec", str(spec))
    assert found.exit_code == 0
    plain = json.loads(found.output)
    assert plain["spec"]["tau"] == 0.1
    assert plain["spec"]["n_draws"] == 150
    row = plain["domains"][0]["verdicts"][0]
    assert {"verdict", "strata", "denominator", "gap_lower", "gap_upper"} <= set(row)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tau", "1.5"), "between 0 and 1"),
        (("--strata", "incomes"), "Unknown strata"),
        (("--domains", "crane"), "it has heat"),
    ],
)
def test_wrong_options_are_one_line(root: Path, source, arguments, words: str) -> None:
    found = invoke(root, source.id, *arguments)
    assert isinstance(found.exception, Parity311Error)
    assert words in str(found.exception)
    assert "\n" not in str(found.exception)
