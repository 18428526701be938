"""How the paper split, trained and tested each domain, as dates and options of ours.

A part is one way to split one domain: what is learned from, and what later (or other) rows it is
scored on. Most domains have one part; boilers have four, complaint triage two.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.programme import OURS, Programme

TRAIN_FROM = date(2020, 1, 1)
TEST_FROM = date(2025, 1, 1)
"""The paper: "train on 2020-2024, evaluate on 2025"."""
RECORDS_TO = date(2026, 4, 1)
"""The last protocol ends in March 2026 (scaffold's backtest)."""

SCENARIOS = {"measured": ("measured", "calibrated"), "strong": ("strong", "scarce")}
"""Participation and capacity by short name: as the records show them, and where inequality would
show. Claims about learning are tested in the first, claims about equity in the second."""
RESIDENTIAL = ("boiler", "heat", "housing")
"""The paper's "domain[s] with residential implications"."""
EQUITY_DOMAINS = (*RESIDENTIAL, "elevator")
"""Domains whose equity is looked at in the scenario `strong`."""

FIRST_OF_2024 = date(2024, 1, 1)


@dataclass(frozen=True)
class Part:
    """One split of one domain; dates are half-open, None is the records' own end."""

    name: str
    domain: str
    words: str
    """The split as the paper has it, and what ours does differently."""
    train_to: date | None = TEST_FROM
    test_from: date = TEST_FROM
    train_from: date | None = None
    test_to: date | None = None
    split: str = "chronological"
    """'random' draws 80 % of the rows, 'share' takes the first 80 % in time"""
    has_capacity: bool = True
    """False where the paper's agents may inspect as much as their reward is worth"""
    scenarios: tuple[str, ...] = ("measured",)
    is_published: bool = True
    """whether the paper splits so; what is not is left out of its programme"""
    least_scored: int = 0
    """complaints that the published protocol scores, where it says how many"""


Window = tuple[date, date]
"""First day, and the day after the last."""


def is_apart(learned: Window, scored: Window) -> bool:
    """Whether no day that is scored was learned from."""
    return learned[1] <= scored[0] or scored[1] <= learned[0]


CHRONOLOGICAL = "learned from 2020 to 2024, scored on what happens from January 2025 on"


def parts_of(domain: str, programme: Programme = OURS) -> tuple[Part, ...]:
    """Every split of one domain in a programme."""
    found = _all_parts(domain)
    return tuple(part for part in found if part.is_published or not programme.is_published)


def _all_parts(domain: str) -> tuple[Part, ...]:
    scenarios = ("measured", "strong") if domain in EQUITY_DOMAINS else ("measured",)
    own = Part(domain, domain, CHRONOLOGICAL, scenarios=scenarios)
    if domain == "boiler":
        return (own, *_boiler_parts())
    if domain == "crane":
        words = "the first 80 % of the complaints in time, scored on the rest"
        return (Part(domain, domain, words, split="share"),)
    if domain == "scaffold":
        words = (
            "learned from January 2020 to 2023, 2024 left out for validation, scored on 2025 to "
            "March 2026"
        )
        return (Part(domain, domain, words, train_to=FIRST_OF_2024),)
    if domain == "snad":
        words = (
            "learned from earlier complaints, scored on episodes of 87 complaints of 2024-2026, "
            "or of the last 87 where a city has fewer from 2024 on"
        )
        return (
            Part(
                domain, domain, words, train_to=FIRST_OF_2024, test_from=FIRST_OF_2024,
                least_scored=paper.SNAD_COMPLAINTS,
            ),
        )  # fmt: skip
    if domain == "complaint_triage":
        return (own, _transfer_part())
    return (own,)


def _boiler_parts() -> tuple[Part, ...]:
    return (
        Part(
            "boiler_random",
            "boiler",
            "a random 80 % of all filings, scored on the other 20 %; visits as many as pay",
            train_to=None,
            split="random",
            has_capacity=False,
        ),
        Part(
            "boiler_later",
            "boiler",
            f"{CHRONOLOGICAL}; visits as many as pay",
            has_capacity=False,
            is_published=False,
        ),
    )


def _transfer_part() -> Part:
    return Part(
        "complaint_triage_2020",
        "complaint_triage",
        "learned from 2021 to 2024, scored on the year 2020, which was held out",
        train_from=date(2021, 1, 1),
        test_from=date(2020, 1, 1),
        test_to=date(2021, 1, 1),
    )
