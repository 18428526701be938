"""What each document asks for, as data: a field is filled from the run or by a person.

Sources of the lists: Mitchell et al. 2019 (model cards), Gebru et al. 2021 (datasheets), New York
City Administrative Code 3-119.5 (Local Law 35 of 2022), the UK Algorithmic Transparency Recording
Standard (tiers 1 and 2). Read in part; a lawyer reads them whole before anything is filed.
"""

from __future__ import annotations

from dataclasses import dataclass

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
