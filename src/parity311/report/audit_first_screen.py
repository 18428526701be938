"""The first screen of an audit, for a tenant group: verdict by verdict, in plain words.

What is unequal stands first, then what may be quoted of it and what may not. No group is named
unless its comparison fails: otherwise the order may be chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity311.audit.assess import DomainAudit, Verdict
from parity311.audit.episodes import EpisodeAudit
from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.audit.spec import AuditSpec
from parity311.domains import all_domains
from parity311.evaluation.titles import policy_title
from parity311.number_text import format_interval, format_value
from parity311.records.strata import INCOME, LABELS
from parity311.report.audit_words import (
    ASKS,
    GROUPS,
    NOUNS,
    count_verdicts,
    describe_rate,
    measure_briefly,
    name_denominator,
    name_groups,
    name_worst_off,
)
from parity311.report.findings import join
from parity311.report.first_screen import FIFTHS, SCENARIOS
from parity311.report.sections import Answer, Card, Column, TableView
from parity311.report.store import RunWriter

SHORT = {PASS: "equal", FAIL: "UNEQUAL", INSUFFICIENT: "cannot tell"}
"""A verdict in a table cell."""
HEADLINES = {
    FAIL: "Unequal beyond the limit",
    PASS: "Equal within the limit",
    INSUFFICIENT: "These records cannot tell",
}
TONES = {FAIL: "bad", PASS: "good", INSUFFICIENT: "unsure"}
TABLE = "verdicts-in-short"
_SETTINGS = {f"{pair[0]} participation, {pair[1]} capacity": w for pair, w in SCENARIOS.items()}


def title_of(one: Verdict | DomainAudit | EpisodeAudit) -> str:
    """Domain, setting and policy of something judged, in plain words."""
    parts = [_domain_title(one.domain)]
    if one.setting:
        parts.append(plain_setting(one.setting))
    if one.policy != "recorded":
        parts.append(policy_title(one.policy))
    return ", ".join(parts)


def plain_setting(setting: str) -> str:
    """A scenario in plain words; any other setting as it is called."""
    return _SETTINGS.get(setting, setting)


def _domain_title(slug: str) -> str:
    domain = all_domains().get(slug)
    return domain.title if domain else slug.replace("_", " ").capitalize()


def make_cards(audits: Sequence[DomainAudit], spec: AuditSpec) -> tuple[Card, ...]:
    """One card a domain and setting: what was counted, who gets how much, and the verdict."""
    return tuple(_card(audit, spec) for audit in audits)


def _card(audit: DomainAudit, spec: AuditSpec) -> Card:
    mine = [v for v in audit.verdicts if v.strata == spec.primary_strata]
    states = [v.comparison.verdict for v in mine]
    state = FAIL if FAIL in states else PASS if set(states) == {PASS} else INSUFFICIENT
    n_fail = states.count(FAIL)
    counted = describe_rate(audit.n_served / audit.n_cases, "cases") if audit.n_cases else "none"
    rows = [
        (
            "Who was served",
            f"{audit.n_served:,.0f} of {audit.n_cases:,.0f} cases in time ({counted}).",
        )
    ]
    if n_fail:
        rows.append(("The verdict", f"Unequal in {n_fail} of {len(mine)} ways of counting."))
        worst = next(v for v in mine if v.comparison.verdict == FAIL)
        who = name_worst_off(worst.comparison, worst.denominator)
        who = in_plain_words(who) if worst.strata == INCOME else who
        rows.append(
            (
                f"Per {name_denominator(worst)}",
                f"{_capital(_say_size(worst))}. {_capital(who)}.",
            )
        )
    elif state == PASS:
        rows.append(("The verdict", f"Equal in all {len(mine)} ways of counting."))
    else:
        told = sum(s != INSUFFICIENT for s in states)
        rows.append(
            (
                "The verdict",
                f"Told in {told} of {len(mine)} ways of counting. No group can be named.",
            )
        )
    return Card(
        title=_domain_title(audit.domain),
        subtitle=plain_setting(audit.setting),
        verdict=HEADLINES[state],
        tone=TONES[state],  # type: ignore[arg-type]
        rows=tuple(rows),
    )


def in_plain_words(text: str) -> str:
    """A sentence with income groups as people call them: Q4 is the second richest fifth."""
    for label, words in zip(LABELS[INCOME], FIFTHS, strict=False):
        text = re.sub(rf"{re.escape(label)}(?!\w)", words.removesuffix(" of the city"), text)
    return text


def short_table(run: RunWriter, audits: Sequence[DomainAudit], spec: AuditSpec) -> TableView:
    """Every denominator's verdict in one small table: a row a question, a column a setting."""
    names = {f"v{number}": audit for number, audit in enumerate(audits)}
    rows = []
    for denominator in dict.fromkeys(
        v.denominator for audit in audits for v in audit.verdicts if v.strata == spec.primary_strata
    ):
        asked = _capital(ASKS.get(denominator, denominator))
        noun = NOUNS.get(denominator, denominator)
        row: dict[str, Any] = {"question": f"{asked}? (per {noun})"}
        for name, audit in names.items():
            row[name] = _short(audit, denominator, spec)
        rows.append(row)
    run.add_table(TABLE, rows or [{"question": "nothing could be compared"}])
    columns = [Column("question", "the question", number_format="text")]
    if rows:
        columns += [
            Column(name, title_of(audit), number_format="text") for name, audit in names.items()
        ]
    groups = GROUPS.get(spec.primary_strata, spec.primary_strata)
    return TableView(TABLE, tuple(columns), caption=f"Every way of counting, across {groups}")


def _short(audit: DomainAudit, denominator: str, spec: AuditSpec) -> str:
    for v in audit.verdicts:
        if v.strata == spec.primary_strata and v.denominator == denominator:
            return SHORT[v.comparison.verdict]
    return "not counted"


def make_answers(
    audits: Sequence[DomainAudit],
    episodes: Sequence[EpisodeAudit],
    overrides: Sequence[Mapping[str, Any]],
    spec: AuditSpec,
    *,
    is_synthetic: bool,
) -> tuple[Answer, ...]:
    """What is unequal, what may be quoted, and what may not."""
    return (
        Answer("What is unequal", tuple(_say_unequal(audits, episodes, overrides))),
        Answer("What you may quote", tuple(_say_quotes(audits, spec))),
        Answer("What you may not say", tuple(_say_limits(audits, is_synthetic))),
    )


def _say_unequal(
    audits: Sequence[DomainAudit],
    episodes: Sequence[EpisodeAudit],
    overrides: Sequence[Mapping[str, Any]],
) -> list[str]:
    """One line for each thing and grouping that fails; where nothing does, that."""
    lines = []
    for one in (*audits, *episodes):
        failed = [v for v in one.verdicts if v.comparison.verdict == FAIL]
        played = " in test episodes" if isinstance(one, EpisodeAudit) else ""
        for groups in dict.fromkeys(name_groups(v) for v in failed):
            nouns = [f"per {name_denominator(v)}" for v in failed if name_groups(v) == groups]
            lines.append(f"{title_of(one)}{played}: by {groups}, {join(nouns)}.")
    lines += [
        f"Staff, {_domain_title(str(row['domain']))}: recommendations {row['counted']}, by "
        f"{GROUPS.get(row['strata'], row['strata'])}: {row['size_words']}; {row['worst_words']}."
        for row in overrides
        if row["verdict"] == FAIL
    ]
    verdicts = [v for one in (*audits, *episodes) for v in one.verdicts]
    return lines or [count_verdicts(verdicts)]


def _say_quotes(audits: Sequence[DomainAudit], spec: AuditSpec) -> list[str]:
    """Sentences that hold as they stand: one a setting in which something was told."""
    lines = []
    for audit in audits:
        mine = [v for v in audit.verdicts if v.strata == spec.primary_strata]
        for state, word in ((FAIL, "was not equal"), (PASS, "was equal within the limit")):
            told = [v for v in mine if v.comparison.verdict == state]
            if told:
                lines.append(f"“{title_of(audit)}: service {word} {_say_ways(told, state)}”")
    if not lines:
        return ["Nothing yet: these records cannot tell. You may say that, and ask for more data."]
    return lines


def _say_ways(told: Sequence[Verdict], state: str) -> str:
    """Across which groups, per what; of a fail also how much, the others by name."""
    first, *others = told
    text = f"across {name_groups(first)}, per {name_denominator(first)}"
    if state == FAIL:
        text += f": {_say_size(first)}"
    also = join([f"per {name_denominator(v)}" for v in others]) if others else ""
    return f"{text}. The same holds {also}." if also else f"{text}."


def _say_size(verdict: Verdict) -> str:
    """How unequal, as people say it."""
    comparison = verdict.comparison
    if comparison.measure != "ratio" or not np.isfinite(comparison.ratio.estimate):
        return measure_briefly(comparison)
    ratio = comparison.ratio
    share, band = (
        format_value(ratio.estimate, "percent", 0),
        format_interval(ratio.lower, ratio.upper, "percent", 0),
    )
    return f"the worst served get {share} of what the best served get ({band})"


def _say_limits(audits: Sequence[DomainAudit], is_synthetic: bool) -> list[str]:
    lines = []
    if is_synthetic:
        lines.append("Nothing here about a real place: the city is made up.")
    states = [v.comparison.verdict for audit in audits for v in audit.verdicts]
    if INSUFFICIENT in states:
        lines.append("“Equal” or “unequal” where it reads “cannot tell”. That is no acquittal.")
    if any(audit.denominators_disagree for audit in audits):
        lines.append(
            "One verdict without its way of counting: here they disagree, as each asks another "
            "question."
        )
    return [
        *lines,
        "That an inspector, an owner or a person was unfair: the figures are about areas.",
        "Anything about one tract: it has too few cases.",
    ]


def primary_rate(audit: DomainAudit, spec: AuditSpec) -> str:
    """The denominator that stands on the first screen: a fail first, then what can be told."""
    mine = [v for v in audit.verdicts if v.strata == spec.primary_strata]
    usable = [v for v in mine if np.isfinite(v.comparison.gap.estimate)]
    for state in (FAIL, PASS, INSUFFICIENT):
        for v in usable:
            if v.comparison.verdict == state:
                return v.denominator
    return "cases"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
