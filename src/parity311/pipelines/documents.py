"""The documents an agency must publish, every figure filled from a run.

What only people know comes from a TOML file; what is missing there reads "not provided".

What each document asks for, as data: a field is filled from the run or by a person.

Sources of the lists: Mitchell et al. 2019 (model cards), Gebru et al. 2021 (datasheets), New York
City Administrative Code 3-119.5 (Local Law 35 of 2022), the UK Algorithmic Transparency Recording
Standard (tiers 1 and 2). Read in part; a lawyer reads them whole before anything is filed.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity311.audit.assess import assess_domains
from parity311.audit.spec import AuditSpec
from parity311.errors import InputError, RunError
from parity311.explain.policy import Tell, explain_policies
from parity311.pipelines.audit import repeat_data
from parity311.pipelines.explain import explanation_to_plain
from parity311.report.audit_inputs import load_inputs
from parity311.report.document_facts import collect_facts, impact_rows
from parity311.report.explain_inputs import load_policies
from parity311.report.folder import Run
from parity311.report.sections import Column, Report, Section, TableView
from parity311.report.store import start_run
from parity311.report.tables import as_cell
from parity311.storage.strict_json import to_json
from parity311.storage.toml_files import read_toml

NOT_PROVIDED = "not provided"
"""Stands where a person has not filled a field."""
NOT_IN_RUN = "not in this run"
"""Stands where the run does not hold what a field asks for."""

HUMAN_FIELDS = {
    "agency_name": "Name of the agency",
    "agency_website": "Web page about the tool",
    "contact": "Contact for questions",
    "owner": "Team responsible for the tool",
    "senior_owner": "Senior responsible person",
    "vendor": "Vendor, if any",
    "vendor_involvement": "What the vendor does",
    "procurement": "How it was procured",
    "first_used": "Month and year it was first used",
    "how_output_is_used": "How staff use the recommendation",
    "human_review": "Who reviews recommendations, and how",
    "staff_training": "Training of the staff who use it",
    "appeal": "How a person can have a decision looked at again",
    "reward_decided_by": "Who decided the weights of the reward",
    "reward_decided_on": "When they were decided",
    "reward_next_review": "When they will be reviewed",
    "impact_assessment": "Impact assessments made, with dates",
    "data_agreements": "Data sharing agreements",
    "outside_access": "Who outside the city can access the data",
    "mitigations": "Mitigations decided by the agency",
    "retention": "How long data and decisions are kept",
    "community_input": "Who outside the agency was heard",
}
"""What only people know; read from a TOML file, marked where missing."""


@dataclass(frozen=True)
class Field:
    """One line of a document."""

    section: str
    label: str
    key: str
    """Key of a fact of the run, or of `HUMAN_FIELDS`."""


@dataclass(frozen=True)
class Document:
    """One document an agency publishes."""

    name: str
    title: str
    basis: str
    """What asks for it, and what was not checked."""
    fields: tuple[Field, ...]


def _document(name: str, title: str, basis: str, *groups: tuple[str, dict[str, str]]) -> Document:
    fields = [
        Field(section, label, key) for section, lines in groups for key, label in lines.items()
    ]
    return Document(name, title, basis, tuple(fields))


DOCUMENTS = (
    _document(
        "model_card",
        "Model card",
        "After Mitchell et al. 2019.",
        (
            "Model details",
            {
                "agency_name": "Organisation",
                "made_at": "Date",
                "software": "Version",
                "algorithms": "Type of model",
                "run_id": "Run",
                "contact": "Questions to",
            },
        ),
        (
            "Intended use",
            {
                "purpose": "Purpose",
                "decisions": "What is recommended",
                "output_use": "What becomes of a recommendation",
                "not_for": "Not for",
            },
        ),
        ("Factors", {"strata": "Groups", "features": "Inputs", "geographic": "Place features"}),
        ("Metrics", {"metrics": "Measured", "audit_rule": "How service is judged"}),
        ("Evaluation data", {"evaluation_data": "Data", "data": "Records"}),
        ("Training data", {"training_data": "Data"}),
        ("Quantitative analyses", {"results": "Results", "verdicts": "Audit"}),
        ("Ethical considerations", {"ethics": "Considerations", "mitigations": "Mitigations"}),
        ("Caveats", {"caveats": "Limits"}),
    ),
    _document(
        "datasheet",
        "Datasheet of the records",
        "After Gebru et al. 2021.",
        ("Motivation", {"purpose": "Why the data are used", "agency_name": "By whom"}),
        (
            "Composition",
            {
                "data": "What they are",
                "data_counts": "How many",
                "features": "What a complaint carries",
                "missing": "What is missing",
                "personal": "Personal data",
            },
        ),
        ("Collection", {"collection": "How they came about", "data_agreements": "Agreements"}),
        ("Preprocessing", {"preprocessing": "What was done"}),
        ("Uses", {"decisions": "Uses", "not_for": "Not for"}),
        ("Distribution", {"outside_access": "Access", "fingerprints": "Fingerprints"}),
        ("Maintenance", {"contact": "Contact", "retention": "Kept for"}),
    ),
    _document(
        "reward_statement",
        "Statement of the reward",
        "The paper's recommendation: reward configurations are public statements of priority.",
        (
            "What counts",
            {
                "reward_terms": "Terms",
                "reward_weights": "Weights",
                "equity_term": "Equity term",
                "reward_strata": "Groups in the reward",
                "training_attributes": "Attributes that enter training",
            },
        ),
        (
            "Who decided",
            {
                "reward_decided_by": "Decided by",
                "reward_decided_on": "On",
                "community_input": "Heard",
                "reward_next_review": "Next review",
            },
        ),
        ("What it led to", {"results": "Results", "verdicts": "Audit"}),
    ),
    _document(
        "local_law_35",
        "Entry for the algorithmic tools report (Local Law 35 of 2022)",
        "NYC Administrative Code 3-119.5, due by 31 December for the year.",
        (
            "Entry",
            {
                "agency_name": "Agency",
                "tool_name": "Name of the tool",
                "description": "Description",
                "purpose": "Purpose",
                "data": "Type and source of data",
                "how_output_is_used": "How its output is used",
                "vendor": "Vendor",
                "vendor_involvement": "Vendor's involvement",
                "first_used": "Month and year first used",
            },
        ),
    ),
    _document(
        "atrs",
        "Algorithmic transparency record (UK ATRS)",
        "UK Algorithmic Transparency Recording Standard, used as a template.",
        (
            "Tier 1",
            {
                "tool_name": "Name",
                "description": "Description",
                "agency_website": "Web page",
                "contact": "Contact",
            },
        ),
        (
            "Tier 2: owner",
            {
                "agency_name": "Organisation",
                "owner": "Team",
                "senior_owner": "Senior responsible owner",
                "vendor": "Supplier",
                "procurement": "Procurement",
                "data_agreements": "Data access",
            },
        ),
        (
            "Tier 2: rationale",
            {"purpose": "Why", "baselines": "What it is compared with", "results": "Benefits"},
        ),
        (
            "Tier 2: decision process",
            {
                "output_use": "Role in the decision",
                "human_review": "Review",
                "appeal": "Appeal",
                "staff_training": "Training",
            },
        ),
        (
            "Tier 2: tool and data",
            {
                "algorithms": "Model",
                "features": "Inputs",
                "actions": "Outputs",
                "data": "Data",
                "training_data": "Training",
                "evaluation_data": "Testing",
                "software": "Software",
            },
        ),
        (
            "Tier 2: risks",
            {
                "impact_assessment": "Assessments",
                "verdicts": "Measured disparities",
                "proxies": "Features that stand in for income",
                "ethics": "Risks",
                "mitigations": "Mitigations",
            },
        ),
    ),
)
"""The LL 144-style impact table is computed, not filled in: see `impact_table`."""


FOLDER = "documents"
PAGE = "documents.html"
IMPACT_COLUMNS = (
    Column("category", "category", number_format="text"),
    Column("by", "by", number_format="text"),
    Column("n_cases", "cases", number_format="integer", reason="note"),
    Column("selection_rate", "selection rate", lower="lower", upper="upper",
           number_format="percent", reason="note"),
    Column("impact_ratio", "impact ratio", decimals=2, reason="note"),
    Column("note", "note", number_format="text"),
)  # fmt: skip


@dataclass(frozen=True)
class FilledField:
    """One line of a document with its value and where that comes from."""

    section: str
    field: str
    value: str
    source: str
    """run, person, or nobody."""


def read_human_fields(path: Path) -> dict[str, str]:
    """Read what only people know; an unknown field is an error that lists the known ones."""
    plain = read_toml(path)
    unknown = [name for name in plain if name not in HUMAN_FIELDS]
    if unknown:
        raise InputError(
            f"{path} gives {', '.join(unknown)}, which no document asks for; the fields are "
            f"{', '.join(HUMAN_FIELDS)}."
        )
    return {name: str(value) for name, value in plain.items()}


def fill(document: Document, facts: dict[str, str], human: dict[str, str]) -> list[FilledField]:
    """Fill every field of a document."""
    filled = []
    for field in document.fields:
        is_human = field.key in HUMAN_FIELDS
        value = (human if is_human else facts).get(field.key, "")
        missing = NOT_PROVIDED if is_human else NOT_IN_RUN
        source = ("person" if is_human else "run") if value else "nobody"
        filled.append(FilledField(field.section, field.label, value or missing, source))
    return filled


def to_markdown(document: Document, rows: list[FilledField]) -> str:
    """A document as Markdown: a heading a section, a line a field."""
    lines = [f"# {document.title}", "", document.basis, ""]
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines += [f"## {section}", ""]
        lines += [f"**{row.field}.** {row.value}", ""]
    return "\n".join(lines)


def write_documents(
    source: Run,
    *,
    root: Path,
    human: dict[str, str],
    spec: AuditSpec | None = None,
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Write all documents of a run as a run of its own: Markdown, CSV, JSON and a page."""
    spec = spec or AuditSpec(n_draws=1000)
    inputs = load_inputs(source)
    tell("auditing who was served")
    audits = assess_domains(inputs, spec)
    facts = collect_facts(source, audits, spec, _explanations(source, tell))
    tell("writing the documents")
    filled = {document.name: fill(document, facts, human) for document in DOCUMENTS}
    impact = [row for one in inputs for row in impact_rows(one, spec)]
    config = {"run": source.id, "spec_sha256": spec.sha256, "human": human}
    with start_run(root, f"documents {source.id}", config) as run:
        repeat_data(run, source)
        folder = run.path / FOLDER
        folder.mkdir()
        for document in DOCUMENTS:
            text = to_markdown(document, filled[document.name])
            (folder / f"{document.name}.md").write_text(text, encoding="utf-8")
            rows = [vars(row) for row in filled[document.name]]
            run.add_table(document.name, rows)
        (folder / "local_law_35.csv").write_text(_entry(filled["local_law_35"]), encoding="utf-8")
        run.add_table("impact_table", impact)
        (folder / "impact_table.csv").write_text(_csv(impact), encoding="utf-8")
        plain = {name: [vars(row) for row in rows] for name, rows in filled.items()}
        plain["impact_table"] = impact
        (folder / "documents.json").write_text(to_json(plain), encoding="utf-8")
        run.set_report(_report(source, filled))
        page = run.name_page(PAGE)
    final = run.final_path / FOLDER
    missing = _count_missing(filled)
    return {
        "documents": run.id,
        "run": source.id,
        "page": str(page),
        "files": {path.stem: str(path) for path in sorted(final.iterdir())},
        "n_fields": sum(len(rows) for rows in filled.values()),
        "n_not_provided": missing,
    }


def _explanations(source: Run, tell: Tell) -> list[dict[str, Any]]:
    try:
        policies = load_policies(source)
    except RunError:
        return []  # a run without policies still has documents; the field reads "not provided"
    return [explanation_to_plain(one) for one in explain_policies(policies, tell)]


def _count_missing(filled: dict[str, list[FilledField]]) -> int:
    """Fields that a person still has to fill."""
    return sum(row.value == NOT_PROVIDED for rows in filled.values() for row in rows)


def _entry(rows: list[FilledField]) -> str:
    return _csv([{row.field: row.value for row in rows}])


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([as_cell(name) for name in names])
    for row in rows:
        cells = (row.get(name, "") for name in names)
        writer.writerow([as_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()


def _report(source: Run, filled: dict[str, list[FilledField]]) -> Report:
    missing = _count_missing(filled)
    columns = (
        Column("field", "field", number_format="text"),
        Column("section", "section", number_format="text"),
        Column("value", "value", number_format="text"),
    )
    sections = [
        Section(
            heading=document.title,
            text=(document.basis,),
            tables=(TableView(document.name, columns, caption=document.title),),
        )
        for document in DOCUMENTS
    ]
    sections.append(
        Section(
            heading="Impact table in the form of Local Law 144",
            text=(
                "Selection is being served as the audit counts it; the ratio is to the highest "
                "rate among categories with at least 2 % of cases.",
            ),
            tables=(
                TableView("impact_table", IMPACT_COLUMNS, caption="Impact table", max_rows=200),
            ),
            notes=("The law is about hiring; four fifths is its convention, not a standard here.",),
        )
    )
    return Report(
        title="Documents for publication",
        summary=(
            f"Every figure comes from run `{source.id}`.",
            f"{missing} fields that only people can fill read **{NOT_PROVIDED}**.",
        ),
        sections=tuple(sections),
    )
