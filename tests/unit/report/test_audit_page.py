"""What the audit page says first, whom it names, and how it writes small numbers."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import python_calamine
import typer
from tests.unit.audit.audit_city import make_inputs
from tests.unit.explain.stored_run import make_episodes
from typer.testing import CliRunner

from parity311.audit.assess import assess_domain, assess_domains
from parity311.audit.cells import AuditInputs
from parity311.audit.compare import compare_strata
from parity311.audit.episodes import assess_episodes
from parity311.audit.resample import RateDraws
from parity311.audit.spec import AuditSpec
from parity311.cli.audit import audit_command
from parity311.evaluation.titles import policy_title
from parity311.pipelines.audit import audit_run
from parity311.report.audit_comparison import tract_rows
from parity311.report.audit_first_screen import in_plain_words, make_answers, short_table
from parity311.report.audit_inputs import store_inputs
from parity311.report.audit_page import describe_source
from parity311.report.audit_words import (
    GROUPS,
    NOUNS,
    count_verdicts,
    describe_rate,
    measure_briefly,
    name_worst_off,
    say_disagreement,
)
from parity311.report.folder import open_run
from parity311.report.store import start_run

SPEC = AuditSpec(n_draws=200)
LABELS = ("a", "b", "c")


def drawn(rates: list[float], errors: list[float]) -> RateDraws:
    """Strata of a thousand cases and fifty tracts with these rates and standard errors."""
    noise = np.random.default_rng(0).standard_normal((2000, 3))
    draws = np.maximum(np.array(rates) + noise * np.array(errors), 1e-9)
    counts = np.full(3, 1000.0)
    return RateDraws(np.array(rates), draws, np.array(rates) * 1000, counts, np.full(3, 50))


class TestNobodyIsNamedWithoutAFail:
    def test_where_it_cannot_be_told(self) -> None:
        found = compare_strata(drawn([0.0, 0.0, 0.02], [0.01, 0.01, 0.01]), LABELS, SPEC)
        assert found.verdict == "INSUFFICIENT"
        assert (found.worst_off, found.best_off) == ("", "")
        assert name_worst_off(found) == ""

    def test_where_it_passes(self) -> None:
        found = compare_strata(drawn([0.500, 0.501, 0.502], [0.001] * 3), LABELS, SPEC)
        assert found.verdict == "PASS"
        assert (found.worst_off, found.best_off) == ("", "")

    def test_a_fail_names_the_pair_beyond_the_limit_not_the_lowest_by_chance(self) -> None:
        """The first has the lowest rate and an error as large as all differences."""
        found = compare_strata(drawn([0.25, 0.30, 0.60], [0.2, 0.01, 0.01]), LABELS, SPEC)
        assert found.verdict == "FAIL"
        assert (found.worst_off, found.best_off) == ("b", "c")
        assert name_worst_off(found) == "worst off is b"
        burden = replace(SPEC, polarity="burden")
        found = compare_strata(drawn([0.25, 0.30, 0.60], [0.2, 0.01, 0.01]), LABELS, burden)
        assert (found.worst_off, found.best_off) == ("c", "b")

    def test_equal_ones_are_named_together(self) -> None:
        found = compare_strata(drawn([0.3, 0.3, 0.6], [0.01] * 3), LABELS, SPEC)
        assert name_worst_off(found) == "worst off are a, b"

    def test_few_visits_per_home_are_not_called_worst_off(self) -> None:
        found = compare_strata(drawn([0.3, 0.3, 0.6], [0.01] * 3), LABELS, SPEC)
        assert "worst" not in name_worst_off(found, "dwellings")


def with_dwellings(per_tract: float, **changes: float) -> AuditInputs:
    inputs = make_inputs(1, n_months=6, n_tracts=150, **changes)
    places = replace(inputs.places, dwellings=np.full(150, per_tract))
    return replace(inputs, places=places, setting="here")


class TestDenominatorsThatDisagree:
    def test_any_difference_is_said(self) -> None:
        """FAIL beside INSUFFICIENT was passed over; only PASS beside FAIL was said."""
        inputs = with_dwellings(1e3, slope=0.4)
        audit = assess_domain(replace(inputs, incident_draws=None), SPEC)
        said = {v.denominator: v.comparison.verdict for v in audit.verdicts}
        assert said["incidents"] == "INSUFFICIENT"
        assert said["complaints"] == "FAIL"
        assert audit.denominators_disagree == ("income5",)
        (sentence,) = say_disagreement(audit.verdicts, audit.denominators_disagree)
        assert sentence.startswith("The denominators disagree across income quintiles: unequal")
        assert "cannot be told per estimated incident" in sentence

    def test_it_is_on_the_first_screen(self, tmp_path: Path) -> None:
        """The small table sets the answers side by side, and nobody may quote one alone."""
        inputs = replace(with_dwellings(1e3, slope=0.4), incident_draws=None)
        audits = assess_domains([inputs], SPEC)
        with start_run(tmp_path, "audit", {}) as run:
            view = short_table(run, audits, SPEC)
            table = run.path / "tables" / f"{view.name}.csv"
            said = {row["v0"] for row in csv.DictReader(table.read_text().splitlines())}
        assert {"UNEQUAL", "cannot tell"} <= said
        limits = make_answers(audits, [], [], SPEC, is_synthetic=True)[2].lines
        assert any("here they disagree" in line for line in limits)

    def test_agreement_is_not(self) -> None:
        audit = assess_domain(make_inputs(0, n_tracts=20), SPEC)
        assert {v.comparison.verdict for v in audit.verdicts} == {"INSUFFICIENT"}
        assert audit.denominators_disagree == ()


class TestSmallNumbers:
    @pytest.mark.parametrize(
        ("rate", "denominator", "words"),
        [
            (4.63e-7, "complaints", "fewer than 1 in 10,000"),
            (4.63e-7, "dwellings", "fewer than 1 in 10,000"),
            (0.0, "complaints", "0.0\u202f%"),
            (0.00063, "dwellings", "0.63 per 1,000"),
            (0.0123, "dwellings", "12.3 per 1,000"),
            (0.0004, "complaints", "0.04\u202f%"),
            (0.481, "actionable", "48.1\u202f%"),
            (float("nan"), "cases", "not available"),
        ],
    )
    def test_rates(self, rate: float, denominator: str, words: str) -> None:
        assert describe_rate(rate, denominator) == words

    def test_a_rare_rate_is_judged_and_said_by_its_ratio(self) -> None:
        found = compare_strata(drawn([2e-6, 3e-6, 2e-5], [1e-7] * 3), LABELS, SPEC)
        assert found.verdict == "FAIL"
        assert measure_briefly(found).startswith("lowest rate 10\u202f% of the highest, ")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A run in which recorded service fails under two denominators, and one policy of two."""
    root = tmp_path_factory.mktemp("runs")
    inputs = with_dwellings(1e6, slope=0.4)
    episodes = [replace(make_episodes(gap, name), setting="here") for gap, name in
                ((0.3, "balanced"), (0.0, "dqn"))]  # fmt: skip
    with start_run(root, "run", {}) as run:
        run.add_data("city", "ab" * 32, is_synthetic=True, statement="A synthetic city.")
        store_inputs(run, [inputs], episodes)
    spec = replace(SPEC, strata=("income5", "language"))
    return root, audit_run(open_run(run.id, root), spec, root=root)


def report_of(audited: tuple[Path, dict]) -> dict:
    root, result = audited
    return json.loads((root / result["audit"] / "report.json").read_text(encoding="utf-8"))


class TestTheFirstScreen:
    def test_every_fail_is_in_sight(self, audited: tuple[Path, dict]) -> None:
        """Over denominators, strata and policies."""
        report = report_of(audited)
        _, result = audited
        rows = [*(v for d in result["domains"] for v in d["verdicts"]), *result["policies"]]
        failed = [row for row in rows if row["verdict"] == "FAIL"]
        assert {row["policy"] for row in failed} == {"recorded", "balanced"}
        assert len({row["denominator"] for row in failed}) >= 3
        lines = report["answers"][0]["lines"]
        for row in failed:
            title = "Heat and hot water, here"
            if row["policy"] != "recorded":
                title = f"{title}, {policy_title(row['policy'])} in test episodes"
            is_played = row["policy"] != "recorded" and row["denominator"] == "incidents"
            noun = "incident" if is_played else NOUNS[row["denominator"]]
            (line,) = [
                line for line in lines if line.startswith(f"{title}: by {GROUPS[row['strata']]}, ")
            ]
            assert f"per {noun}" in line
        # What the records tell and what was only played are counted apart.
        recorded, played = (
            [row for row in rows if (row["policy"] == "recorded") == is_recorded]
            for is_recorded in (True, False)
        )
        n_recorded, n_played = (sum(one in failed for one in of) for of in (recorded, played))
        assert report["summary"][0].startswith(f"**{n_recorded} of {len(recorded)} comparisons")
        assert f"{n_played} of {len(played)} comparisons" in report["summary"][1]

    def test_bad_news_comes_first(self, audited: tuple[Path, dict]) -> None:
        report = report_of(audited)
        assert report["answers"][0]["question"] == "What is unequal"
        assert report["cards"][0]["tone"] == "bad"

    def test_what_is_told_may_be_quoted_and_nothing_else(self, audited: tuple[Path, dict]) -> None:
        _, result = audited
        (quotes,) = [a for a in report_of(audited)["answers"] if "may quote" in a["question"]]
        told = [
            row for domain in result["domains"] for row in domain["verdicts"]
            if row["strata"] == "income5" and row["verdict"] != "INSUFFICIENT"
        ]  # fmt: skip
        (line,) = quotes["lines"]
        assert "service was not equal across income quintiles, per complaint" in line
        assert all(f"per {NOUNS[row['denominator']]}" in line for row in told)
        audits = assess_domains([make_inputs(0, n_tracts=20)], SPEC)
        answers = make_answers(audits, [], [], SPEC, is_synthetic=False)
        assert answers[1].lines[0].startswith("Nothing yet")
        assert not any("made up" in line for line in answers[2].lines)

    def test_it_can_be_taken_along(self, audited: tuple[Path, dict]) -> None:
        root, result = audited
        folder = root / result["audit"]
        rows = list(csv.DictReader((folder / "audit.csv").read_text().splitlines()))
        n_verdicts = sum(len(d["verdicts"]) for d in result["domains"]) + len(result["policies"])
        assert len(rows) == n_verdicts
        assert "today's rule" in {row["whose decisions"] for row in rows}
        book = python_calamine.CalamineWorkbook.from_path(folder / "audit.xlsx")
        assert book.sheet_names == ["verdicts", "rates", "tracts"]
        assert len(book.get_sheet_by_name("verdicts").to_python()) == n_verdicts + 1
        assert [file["path"] for file in report_of(audited)["downloads"]] == [
            "audit.csv", "audit.xlsx"
        ]  # fmt: skip

    def test_without_a_fail_it_says_so(self) -> None:
        audits = assess_domains([make_inputs(0, n_tracts=20)], SPEC)
        said = count_verdicts(audits[0].verdicts)
        assert said.startswith("**These records cannot tell** whether service is equal: none of 4")


def test_verdicts_stand_in_the_first_column(audited: tuple[Path, dict]) -> None:
    """At 390 pixels whatever stands behind it is scrolled to."""
    tables = [table for section in report_of(audited)["sections"] for table in section["tables"]]
    with_verdict = [
        [column["name"] for column in table["columns"]]
        for table in tables
        if any(column["name"] == "verdict_words" for column in table["columns"])
    ]
    assert len(with_verdict) == 2
    assert all(names[0] == "verdict_words" for names in with_verdict)


def test_no_power_of_ten_on_the_page(audited: tuple[Path, dict]) -> None:
    root, result = audited
    page = (root / result["audit"] / "audit.html").read_text(encoding="utf-8")
    assert "×10" not in page
    assert "per 1,000 dwellings" in page


def test_the_command_says_the_measure_that_decided(audited: tuple[Path, dict]) -> None:
    root, result = audited
    app = typer.Typer()
    app.command()(audit_command)
    found = CliRunner().invoke(app, [result["run"], "--runs", str(root)])
    lines = [line for line in found.output.splitlines() if "per dwellings" in line]
    assert lines
    assert all("gap 0.0" not in line for line in lines)
    assert all("of the highest" in line for line in lines)


def test_the_page_says_why_a_run_report_shows_other_figures() -> None:
    inputs = with_dwellings(1e3)
    (audit,) = assess_domains([inputs], SPEC)
    played = [assess_episodes(make_episodes(0.1, "balanced"), SPEC)]
    alone = describe_source(audit, inputs, [])
    assert "from 2024-01-01 until 2025-01-01" in alone
    assert f"{audit.n_served:,.0f} of {audit.n_cases:,.0f}" in alone
    beside = describe_source(audit, inputs, played)
    assert "today's rule 39" in beside
    assert "not to be compared" in beside


class TestTracts:
    def test_small_ones_are_not_published(self) -> None:
        inputs = make_inputs(0, n_tracts=4)
        cells = inputs.cells
        first = [int(np.flatnonzero(cells.tract == k)[0]) for k in range(4)]
        cases, served = np.zeros((2, len(cells.tract)))
        cases[first], served[first] = (9.0, 10.0, 100.0, 0.0), (3.0, 1.0, 20.0, 0.0)
        changed = replace(inputs, cells=replace(cells, n_cases=cases, n_served=served))
        rows = tract_rows(changed, SPEC)
        assert [row["cases"] for row in rows] == [None, 10, 100, None]
        assert rows[0]["served"] is None
        assert np.isnan(rows[0]["rate"])
        assert rows[0]["note"] == "fewer than 10 cases"
        # Wilson's interval of 20 of 100: (0.2 + 0.0192 ± 0.0803) / 1.0384.
        assert rows[2]["lower"] == pytest.approx(0.1334, abs=2e-4)
        assert rows[2]["upper"] == pytest.approx(0.2888, abs=2e-4)

    def test_the_map_is_drawn_where_positions_were_kept(self, tmp_path: Path) -> None:
        inputs = with_dwellings(1e3)
        position = np.random.default_rng(0).uniform((-74.1, 40.6), (-73.8, 40.9), (150, 2))
        placed = replace(inputs, places=replace(inputs.places, position=position))
        with start_run(tmp_path, "run", {}) as run:
            store_inputs(run, [placed])
        found = audit_run(open_run(run.id, tmp_path), SPEC, root=tmp_path)
        page = Path(found["page"]).read_text(encoding="utf-8")
        assert "Served per case, tract by tract" in page
        folder = Path(found["page"]).parent
        assert (folder / "tables" / "heat-here-recorded-tracts.csv").is_file()


def test_groups_are_called_as_people_call_them() -> None:
    assert in_plain_words("worst off is Q4") == "worst off is the second richest fifth"
    both = in_plain_words("worst off are Q1 (lowest income), Q2")
    assert both == "worst off are the poorest fifth, the second poorest fifth"
    assert in_plain_words("worst off is Q10") == "worst off is Q10"
