"""Explaining and documenting a run from its folder."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.unit.explain.networks import make_network, make_priced
from tests.unit.explain.stored_run import ACTIONS, FEATURES, make_policy, make_run
from typer.testing import CliRunner

from parity311.audit.spec import AuditSpec
from parity311.cli.audit import documents_command, explain_command
from parity311.errors import InputError, Parity311Error, RunError
from parity311.explain.policy import explain_policy, take_rows
from parity311.pipelines.documents import (
    DOCUMENTS,
    HUMAN_FIELDS,
    NOT_IN_RUN,
    NOT_PROVIDED,
    fill,
    read_human_fields,
    write_documents,
)
from parity311.pipelines.explain import explain_run
from parity311.report.audit_inputs import load_inputs
from parity311.report.document_facts import impact_rows
from parity311.report.explain_inputs import load_policies, store_policies
from parity311.report.folder import open_run
from parity311.report.store import start_run

pytestmark = pytest.mark.slow


SPEC = AuditSpec(n_draws=200)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def source(root: Path):
    return make_run(root)


def test_a_policy_comes_back_as_it_was(source) -> None:
    (found,) = load_policies(source)
    stored = make_policy()
    assert found.feature_names == FEATURES
    assert found.action_names == ACTIONS
    assert np.array_equal(found.rows, stored.rows)
    assert all(np.array_equal(found.network[k], v) for k, v in stored.network.items())


def test_a_policy_of_two_networks_comes_back_too(tmp_path: Path) -> None:
    stored = replace(make_policy(), network=make_priced(0, (3, 8, 3)))
    with start_run(tmp_path, "run", {}) as run:
        store_policies(run, [stored])
    (found,) = load_policies(open_run(run.id, tmp_path))
    assert list(found.network) == list(stored.network)
    assert all(np.array_equal(found.network[k], v) for k, v in stored.network.items())


@pytest.mark.slow
def test_zip_frequency_is_flagged_with_its_score(root: Path, source) -> None:
    result = explain_run(source, root=root)
    (policy,) = result["policies"]
    assert [flag["feature"] for flag in policy["flagged"]] == ["zip_freq_24h"]
    assert policy["action"] in ("Batch", "Inspect")
    assert policy["explainer_named_in_the_paper"] == "tree"
    page = Path(result["page"]).read_text(encoding="utf-8")
    assert "stands in for the group" in page
    assert "not what causes a hazard" in page
    without = {row["feature"]: row for row in policy["without_feature"]}["zip_freq_24h"]
    assert abs(without["gap_without"]) < abs(without["gap"]) / 2


def test_a_group_without_complaints_is_said() -> None:
    policy = make_policy()
    only_low = take_rows(policy, np.flatnonzero(policy.income_quintile <= 2))
    found = explain_policy(only_low)
    assert found.gap is None


def test_one_complaint_in_two_languages(root: Path, source) -> None:
    english, spanish = (
        explain_run(source, root=root, complaint="c0003", language=language, contact="311")
        for language in ("en", "es")
    )
    assert english["notice"].startswith("Recommended for this complaint:")
    assert spanish["notice"].startswith("Se recomienda para esta queja:")
    assert 0 < len(english["reasons"]) <= 3
    assert all(reason["feature"] != "zip_freq_24h" for reason in english["reasons"])
    with pytest.raises(InputError, match="the nearest are c"):
        explain_run(source, root=root, complaint="c9999")


def test_rows_and_names_must_fit() -> None:
    policy = make_policy()
    with pytest.raises(InputError, match="one name a column"):
        replace(policy, feature_names=FEATURES[:2])
    with pytest.raises(InputError, match="one name an output"):
        replace(policy, action_names=ACTIONS[:2])


def test_a_run_without_policies_says_so(tmp_path: Path) -> None:
    with start_run(tmp_path, "city describe", {}) as run:
        run.add_metrics({"a": 1})
    with pytest.raises(RunError, match="keeps no policy to explain"):
        load_policies(open_run(run.id, tmp_path))


@pytest.fixture(scope="module")
def documents(root: Path, source) -> dict:
    return write_documents(source, root=root, human={"agency_name": "Test agency"}, spec=SPEC)


def test_all_documents_are_written(documents: dict) -> None:
    names = {document.name for document in DOCUMENTS}
    assert names <= set(documents["files"])
    card = Path(documents["files"]["model_card"]).read_text(encoding="utf-8")
    assert "Test agency" in card
    assert "coverage gap 0.12 (0.1 to 0.14)" in card
    assert "Service per" in card
    assert Path(documents["page"]).is_file()


def test_missing_human_fields_say_so_and_are_counted(documents: dict) -> None:
    folder = Path(documents["files"]["documents"]).parent
    plain = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
    rows = [row for name, part in plain.items() if name != "impact_table" for row in part]
    missing = [row for row in rows if row["value"] == NOT_PROVIDED]
    assert len(missing) == documents["n_not_provided"] > 0
    assert all(row["source"] == "nobody" for row in missing)
    assert documents["n_fields"] == len(rows)
    with (folder / "local_law_35.csv").open(encoding="utf-8") as file:
        (entry,) = csv.DictReader(file)
    assert entry["Agency"] == "Test agency"
    assert entry["Vendor"] == NOT_PROVIDED


def test_no_field_is_asked_for_that_nobody_can_fill(documents: dict) -> None:
    """Every field is a person's or a fact that this run, which holds all parts, has."""
    folder = Path(documents["files"]["documents"]).parent
    plain = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
    asked = {field.label: field.key for document in DOCUMENTS for field in document.fields}
    empty = {
        asked[row["field"]]
        for name, part in plain.items()
        if name != "impact_table"
        for row in part
        if row["value"] == NOT_IN_RUN
    }
    # What a domain declares of its decision process fills these, where it has one.
    assert empty <= {"actions", "algorithms", "baselines", "geographic", "features"}


def test_a_field_is_filled_by_its_owner_only() -> None:
    (law,) = [document for document in DOCUMENTS if document.name == "local_law_35"]
    filled = {row.field: row for row in fill(law, {"vendor": "from a run"}, {"vendor": ""})}
    assert filled["Vendor"].value == NOT_PROVIDED
    assert filled["Purpose"].value == NOT_IN_RUN


def test_the_impact_table_by_hand(source) -> None:
    inputs = load_inputs(source)[0]
    rows = {row["category"]: row for row in impact_rows(inputs, SPEC) if row["by"] == "income5"}
    quintile = inputs.places.income_quintile[inputs.cells.tract]
    rates = {
        q: inputs.cells.n_served[quintile == q].sum() / inputs.cells.n_cases[quintile == q].sum()
        for q in range(1, 6)
    }
    lowest = rows["Q1 (lowest income)"]
    assert lowest["selection_rate"] == pytest.approx(rates[1])
    assert lowest["impact_ratio"] == pytest.approx(rates[1] / max(rates.values()))
    assert lowest["below_four_fifths"]
    assert rows["unknown"]["note"] == "category unknown"
    crossed = [row for row in impact_rows(inputs, SPEC) if "×" in row["by"]]
    assert any(row["note"] == "under 2 % of cases" for row in crossed)


def test_human_fields_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "agency.toml"
    path.write_text('vendor = "none"\n')
    assert read_human_fields(path) == {"vendor": "none"}
    path.write_text('vendro = "none"\n')
    with pytest.raises(InputError, match="vendro, which no document asks for"):
        read_human_fields(path)
    with pytest.raises(InputError, match="Cannot read"):
        read_human_fields(tmp_path / "missing.toml")
    assert {field.key for d in DOCUMENTS for field in d.fields} >= set(HUMAN_FIELDS)


def invoke(command, root: Path, *arguments: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*arguments, "--runs", str(root)])


@pytest.mark.slow
def test_the_commands_print(root: Path, source) -> None:
    notice = invoke(explain_command, root, source.id, "--complaint", "c0001")
    assert notice.output.startswith("Recommended for this complaint")
    any_of_them = invoke(explain_command, root, source.id, "--complaint", "any")
    assert any_of_them.output.startswith("Recommended for this complaint")
    explained = invoke(explain_command, root, source.id, "--json")
    assert "explaining heat, strong, scarce, dqn (1 of 1)" in explained.stderr
    plain = json.loads(explained.stdout)
    assert [flag["feature"] for flag in plain["policies"][0]["flagged"]] == ["zip_freq_24h"]
    written = invoke(documents_command, root, source.id)
    assert "fields read 'not provided'" in written.output
    assert "auditing who was served" in written.stderr
    wrong = invoke(explain_command, root, source.id, "--language", "xx")
    assert "language 'xx'" in str(wrong.exception)
    wrong = invoke(explain_command, root, source.id, "--domains", "crane")
    assert isinstance(wrong.exception, Parity311Error)


def test_many_features_are_explained_by_permutations(tmp_path: Path) -> None:
    """Beyond twelve features coalitions are drawn, and there are no exact values to agree with."""
    policy = make_policy(n_rows=60)
    extra = np.random.default_rng(0).standard_normal((60, 10))
    rows = np.column_stack([policy.rows, extra])
    wide = replace(
        policy,
        network=make_network(0, (14, 8, 3)),
        feature_names=(*policy.feature_names, *(f"extra_{i}" for i in range(10))),
        rows=rows,
        background=rows[:10],
    )
    with start_run(tmp_path, "run", {}) as run:
        store_policies(run, [wide])
    source = open_run(run.id, tmp_path)
    (found,) = explain_run(source, root=tmp_path)["policies"]
    assert found["explainer"] == "permutation"
    assert found["agreement"] == []
    assert len(found["importance"]) == 14
    told = explain_run(source, root=tmp_path, complaint=str(wide.complaint_id[0]))
    assert told["notice"]


def test_one_policy_can_be_chosen(root: Path, source) -> None:
    chosen = str(load_policies(source)[0].complaint_id[3])
    told = explain_run(source, root=root, policy="dqn", complaint=chosen)
    assert told["policy"] == "dqn"
    with pytest.raises(InputError, match="dqn"):
        explain_run(source, root=root, policy="dqm", complaint=chosen)
    with pytest.raises(InputError, match="it has heat"):
        explain_run(source, root=root, domains=["crane"])
