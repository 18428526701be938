"""What claims say of the paper is in the paper, where they say it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.studies import paper_text

from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.arithmetic import DISAGREEMENTS
from parity311.studies.reproduction.claims.claim import Claim

SOURCE = paper_text.source()
needs_paper = pytest.mark.skipif(not SOURCE, reason="the paper is not beside this repository")


def is_cited(claim: Claim) -> bool:
    """The check that needs no paper: every place a claim names is one of the paper's."""
    known = {*paper.SECTIONS, "Abstract", *(f"Table {number}" for number in range(1, 6))}
    return set(paper_text.cited(claim.source)) <= known


def is_quoted(claim: Claim, sections: dict[str, str]) -> bool:
    """The check: the quotation stands in one of the places the claim names."""
    return bool(claim.quote) and any(
        claim.quote in sections.get(place, "") for place in paper_text.cited(claim.source)
    )


def test_every_claim_names_places_the_paper_has() -> None:
    assert [claim.key for claim in all_claims() if not is_cited(claim)] == []
    assert not is_cited(replace(all_claims()[0], source="8.4 Third"))
    assert not is_cited(replace(all_claims()[0], source="somewhere"))


@needs_paper
def test_the_headings_are_the_papers() -> None:
    found = {number: title for number, (title, _) in paper_text.headings(SOURCE).items()}
    assert found == paper.SECTIONS


@needs_paper
def test_every_claim_quotes_the_section_it_names() -> None:
    sections = paper_text.sections(SOURCE)
    wrong = [
        (claim.key, claim.source, claim.quote)
        for claim in all_claims()
        if not is_quoted(claim, sections)
    ]
    assert wrong == []


@needs_paper
def test_a_wrong_section_or_invented_words_are_seen() -> None:
    """The twins: takeaways under 8.1, where they were cited before, and words nobody wrote."""
    sections = paper_text.sections(SOURCE)
    third = next(claim for claim in all_claims() if claim.key == "no_single_algorithm")
    assert is_quoted(third, sections)
    assert not is_quoted(replace(third, source="8.1 Third"), sections)
    assert not is_quoted(replace(third, quote="every algorithm dominates"), sections)
    assert not is_quoted(replace(third, quote=""), sections)


@needs_paper
def test_both_sides_of_a_disagreement_are_quoted() -> None:
    sections = paper_text.sections(SOURCE)
    for one in DISAGREEMENTS:
        for passage in (one.said, *one.against):
            assert passage.words in sections[passage.section], (one.key, passage)


@needs_paper
def test_equations_are_numbered_as_cited() -> None:
    labels = [part.split("}")[0] for part in SOURCE.split(r"\label{eq:")[1:]]
    assert labels.index("dup-rate") + 1 == 2
    assert labels.index("equity-corrected") + 1 == 9
    assert labels.index("equity-variance") + 1 == 11
    assert labels.index("reinforce") + 1 == 12
