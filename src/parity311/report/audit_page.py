"""The audit as a page: pictures first, then tables, with words for both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from typing import Any

import numpy as np

from parity311.audit.assess import DomainAudit, Verdict, trend_row
from parity311.audit.cells import AuditInputs
from parity311.audit.episodes import EpisodeAudit
from parity311.audit.gap import FAIL
from parity311.audit.rates import StratumRate
from parity311.audit.spec import ESTIMANDS, AuditSpec
from parity311.evaluation.titles import policy_title
from parity311.number_text import NumberFormat, format_value
from parity311.report import audit_first_screen as first_screen
from parity311.report.audit_comparison import (
    VERDICT_COLUMNS,
    episode_section,
    override_section,
    rules_section,
    tract_pictures,
    tract_rows,
    words_of_verdicts,
)
from parity311.report.audit_files import write_files
from parity311.report.audit_words import (
    COUNTED,
    GROUPS,
    NOUNS,
    PER_DWELLINGS,
    count_verdicts,
    describe_counts,
    describe_denominator,
    describe_groups,
    describe_limit,
    describe_rate,
    explain_denominators,
    list_failures,
    say_disagreement,
    state_finding,
)
from parity311.report.pictures import (
    Axis,
    Estimate,
    Line,
    Reference,
    Series,
    interval_plot,
    line_chart,
)
from parity311.report.sections import Column, Picture, Report, Section, TableView
from parity311.report.store import RunWriter

RATE_COLUMNS = (
    Column("stratum", "stratum", number_format="text"),
    Column("served", "counted", number_format="integer", reason="note"),
    Column("out_of", "out of", number_format="integer", reason="note"),
    Column("rate", "rate", lower="lower", upper="upper", number_format="percent", reason="note"),
    Column("design_effect", "design effect", decimals=1),
    Column("note", "note", number_format="text"),
)
DWELLING_COLUMNS = (
    *RATE_COLUMNS[:3],
    Column(
        "rate_per_1000", "per 1,000 dwellings", lower="lower_per_1000", upper="upper_per_1000",
        decimals=2, reason="note",
    ),
    *RATE_COLUMNS[4:],
)  # fmt: skip
TREND_COLUMNS = (
    Column("name", "test", number_format="text"),
    Column("strata", "across", number_format="text"),
    Column("statistic", "z (F for any shape)", decimals=2, reason="reason"),
    Column(
        "estimate", "change per step", lower="lower", upper="upper", decimals=4, reason="reason"
    ),
    Column("p_value", "p", decimals=3, reason="reason"),
    Column("p_adjusted", "p, corrected", decimals=3),
    Column("correction", "correction", number_format="text"),
)
SCAN_COLUMNS = (
    Column("name", "group", number_format="text"),
    Column("n_cases", "cases", number_format="integer"),
    Column("rate", "rate", number_format="percent"),
    Column("expected_rate", "expected by severity", number_format="percent"),
    Column("p_value", "p, corrected", decimals=3),
)
JOIN_COLUMNS = (
    Column("value", "group", number_format="text"),
    Column("group", "kind", number_format="text"),
    Column("n_cases", "cases", number_format="integer"),
    Column("share_with_tract", "tract known, of cases kept", number_format="percent"),
    Column("share_with_building", "building known", number_format="percent"),
    Column("share_with_income", "income published", number_format="percent"),
)
MAX_SCAN_ROWS = 10


def write_page(
    run: RunWriter,
    audits: Sequence[DomainAudit],
    episodes: Sequence[EpisodeAudit],
    spec: AuditSpec,
    *,
    rules: Sequence[dict[str, Any]] = (),
    published: Sequence[dict[str, Any]] = (),
    inputs: Sequence[AuditInputs] = (),
    estimates: Mapping[str, str] | None = None,
    overrides: Sequence[dict[str, Any]] = (),
) -> Report:
    """Store tables and pictures in the run and return the report that shows them.

    ``inputs`` are those of the audits, in their order; ``estimates`` says by domain how incidents
    were estimated, or why not.
    """
    sections, shown = [], []
    for number, audit in enumerate(audits):
        one = inputs[number] if inputs else None
        played = [e for e in episodes if (e.domain, e.setting) == (audit.domain, audit.setting)]
        said = (estimates or {}).get(audit.domain, "")
        section, lead = _domain_section(run, audit, spec, one, played, said)
        sections.append(section)
        shown += lead
    sections += [episode_section(run, episodes, spec)] if episodes else []
    sections += [override_section(run, overrides)] if overrides else []
    sections += [rules_section(run, rules, published)] if rules else []
    recorded, tried = ([v for one in of for v in one.verdicts] for of in (audits, episodes))
    rates = [
        {"domain": a.domain, "setting": a.setting, **asdict(row)} for a in audits for row in a.rates
    ]
    tracts = [
        {"domain": one.domain, "setting": one.setting, **row}
        for one in inputs
        for row in tract_rows(one, spec)
    ]
    return Report(
        title="Who is served: the audit",
        summary=(count_verdicts(recorded), *_say_tried(tried)),
        cards=first_screen.make_cards(audits, spec),
        tables=(first_screen.short_table(run, audits, spec),),
        answers=first_screen.make_answers(
            audits, episodes, overrides, spec, is_synthetic=run.is_synthetic
        ),
        downloads=write_files(
            run, words_of_verdicts([*recorded, *tried]), {"rates": rates, "tracts": tracts}
        ),
        sections=(
            _shown_section(shown, spec),
            *(replace(section, is_folded=True) for section in (*sections, _method_section(spec))),
        ),
    )


def _say_tried(verdicts: Sequence[Verdict]) -> list[str]:
    """Policies that were only played, apart from what the records tell."""
    if not verdicts:
        return []
    failed = sum(one.comparison.verdict == FAIL for one in verdicts)
    count = f"{failed or 'none'} of {len(verdicts)} comparisons {'is' if failed < 2 else 'are'}"
    return [f"Policies that were only played in test episodes: {count} unequal beyond the limit."]


def _shown_section(pictures: Sequence[Picture], spec: AuditSpec) -> Section:
    """Rates by group and the map of every setting, side by side."""
    return Section(
        heading="Group by group, tract by tract",
        text=(
            f"Counted is whether {ESTIMANDS[spec.estimand]}. Each dot is a group, its line the "
            "95 % interval. Each cell of a map is a tract.",
        ),
        pictures=tuple(pictures),
        is_grid=True,
    )


def primary_verdicts(audit: DomainAudit, spec: AuditSpec) -> list[Verdict]:
    """The verdicts that stand at the top: the primary strata per estimated incident.

    Without an estimate of incidents, per the first denominator that could be used.
    """
    mine = [v for v in audit.verdicts if v.strata == spec.primary_strata]
    usable = [v for v in mine if np.isfinite(v.comparison.gap.estimate)]
    for name in ("actionable", "incidents", *spec.denominators):
        chosen = [v for v in usable if v.denominator == name]
        if chosen:
            return chosen[:1]
    return mine[:1]


def _why_not_due(spec: AuditSpec) -> str:
    """Why cases are left out, in words."""
    if spec.estimand == "as_given":
        return "on which nothing is decided yet"
    return "whose service level had not passed when the records end, served or not,"


def _name(one: DomainAudit | EpisodeAudit, *parts: str) -> str:
    """Name of a table or picture: letters, digits and single hyphens."""
    raw = "-".join((one.domain, one.setting, one.policy, *parts)).lower()
    return re.sub(r"[^a-z0-9_]+", "-", raw.replace("_", "-")).strip("-")


def _domain_section(
    run: RunWriter,
    audit: DomainAudit,
    spec: AuditSpec,
    inputs: AuditInputs | None,
    played: Sequence[EpisodeAudit],
    estimate: str,
) -> tuple[Section, list[Picture]]:
    """A domain's own section, and its pictures that stand in sight."""
    pictures = _rate_pictures(run, audit, spec)
    sequence = _sequence_picture(run, audit, spec, inputs)
    tracts = [] if inputs is None else tract_pictures(run, _name(audit, "tracts"), inputs, spec)
    tables = [_verdict_table(run, audit), *_other_tables(run, audit)]
    failed = list_failures(audit.verdicts)
    text = [f"{first_screen.title_of(audit)}: {failed}"] if failed else []
    lead = primary_verdicts(audit, spec)
    text += [state_finding(v, spec) for v in lead if v.comparison.verdict != FAIL]
    text += say_disagreement(audit.verdicts, audit.denominators_disagree)
    text.append(explain_denominators(audit.verdicts))
    text.append(describe_source(audit, inputs, played))
    notes = [
        f"{audit.n_complaints:,.0f} complaints, {audit.n_cases:,.0f} cases, "
        f"{audit.n_served:,.0f} counted; {audit.n_not_due:,} cases {_why_not_due(spec)} are left "
        "out.",
        "Severity is assigned at intake and may itself be unequal, so every comparison stands with "
        "and without it.",
    ]
    if estimate:
        notes.insert(0, f"How incidents nobody reported were estimated: {estimate}")
    wanted = _name(audit, spec.primary_strata, first_screen.primary_rate(audit, spec))
    lead = [picture for picture in pictures if picture.name == wanted]
    title = first_screen.title_of(audit)
    in_sight = [replace(one, title=f"{title}: {_lower(one.title)}") for one in (*lead, *tracts)]
    section = Section(
        heading=f"Every figure: {title}",
        text=tuple(text),
        pictures=(*(one for one in pictures if one not in lead), *sequence),
        tables=tuple(tables),
        notes=tuple(notes),
    )
    return section, in_sight


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def describe_source(
    audit: DomainAudit, inputs: AuditInputs | None, played: Sequence[EpisodeAudit]
) -> str:
    """Where the figures come from, and why a run's own report shows others."""
    when = "" if inputs is None else f", from {inputs.date_from} until {inputs.date_to}"
    text = (
        f"Here stands service as the records tell it{when}: "
        f"{describe_counts(audit.n_served, audit.n_cases)} counted."
    )
    rates = [
        f"{policy_title(one.policy)} {describe_rate(v.comparison.mean_rate, v.denominator)}"
        for one in played
        for v in one.verdicts
        if v.denominator == "actionable" and np.isfinite(v.comparison.mean_rate)
    ]
    if not rates:
        return text
    return (
        f"{text} The report of the run shows other figures, and the two are not to be compared: it "
        "plays policies in test episodes of the decision process and divides by incidents that a "
        "visit would find actionable there, reported or not (mean over strata: "
        f"{', '.join(rates)}). Levels differ with what is divided by and with the visits of the "
        "period, and strata may stand in another order."
    )


def _rate_pictures(run: RunWriter, audit: DomainAudit, spec: AuditSpec) -> list[Picture]:
    """One picture for each grouping and denominator of the primary strata, else one a grouping."""
    pictures = []
    seen = dict.fromkeys((row.strata, row.denominator) for row in audit.rates)
    for strata, denominator in seen:
        rows = [r for r in audit.rates if (r.strata, r.denominator) == (strata, denominator)]
        name = _name(audit, strata, denominator)
        run.add_table(name, [_rate_row(row) for row in rows])
        if strata != spec.primary_strata and denominator != "cases":
            continue
        pictures.append(_rate_picture(run, name, rows, strata, denominator, spec))
    return pictures


def _rate_row(row: StratumRate) -> dict[str, Any]:
    """A row of the table behind a picture; per dwelling also in the unit that is shown."""
    plain = asdict(row)
    if row.denominator == "dwellings":
        ends = ("rate", "lower", "upper")
        plain |= {f"{name}_per_1000": PER_DWELLINGS * plain[name] for name in ends}
    return plain


def _rate_picture(
    run: RunWriter,
    name: str,
    rows: list[StratumRate],
    strata: str,
    denominator: str,
    spec: AuditSpec,
) -> Picture:
    is_dwelling = denominator == "dwellings"
    noun = f"{PER_DWELLINGS:,} dwellings" if is_dwelling else NOUNS.get(denominator, denominator)
    scale = PER_DWELLINGS if is_dwelling else 1
    number_format: NumberFormat = "number" if is_dwelling else "percent"
    counted = f"{COUNTED[spec.estimand]} per {noun}"
    estimates = [
        Estimate(r.stratum, scale * r.rate, scale * r.lower, scale * r.upper, r.note) for r in rows
    ]
    shown = [e for e in estimates if e.is_available]
    title = f"{counted.capitalize()}, by {GROUPS[strata]}"
    run.draw(
        name,
        interval_plot,
        [Series("rate", estimates)],
        title=title,
        axis=Axis(counted, number_format=number_format, includes=(0.0,)),
    )
    words = "; ".join(
        f"{e.label} {format_value(e.value, number_format)} "
        f"({format_value(e.lower, number_format)} to {format_value(e.upper, number_format)})"
        for e in shown
    )
    return Picture(
        name,
        caption=(
            f"Each dot is a stratum's rate per {noun}, the line its 95 % interval over tracts. "
            f"Divided by: {describe_denominator(denominator)}. Grouped by: "
            f"{describe_groups(strata)}."
        ),
        alt=f"Rates with intervals: {words or 'none is available'}.",
        table=TableView(name, DWELLING_COLUMNS if is_dwelling else RATE_COLUMNS, caption=title),
        title=title,
    )


def _sequence_picture(
    run: RunWriter,
    audit: DomainAudit,
    spec: AuditSpec,
    inputs: AuditInputs | None,
) -> list[Picture]:
    sequence = audit.sequence
    if sequence is None or not np.isfinite(sequence.estimate).any():
        return []
    start = date(2000, 1, 1) if inputs is None else inputs.date_from
    days = [_month_end(start, i) for i in range(len(sequence.estimate))]
    name = _name(audit, "months")
    run.add_table(name, {"month_end": [day.isoformat() for day in days], **asdict(sequence)})
    speaks = np.flatnonzero(np.isfinite(sequence.estimate))
    line = Line(
        "largest gap so far",
        [days[i] for i in speaks],
        *(
            values[speaks].tolist()
            for values in (sequence.estimate, sequence.lower, sequence.upper)
        ),
    )
    run.draw(
        name,
        line_chart,
        [line],
        title="The largest gap, month by month",
        x_axis=Axis("end of month"),
        y_axis=Axis("largest gap per case so far", number_format="percent", includes=(0.0,)),
        reference=Reference(spec.tau, "limit"),
    )
    last = speaks[-1]
    ends = [
        format_value(v[last], "percent")
        for v in (sequence.estimate, sequence.lower, sequence.upper)
    ]
    return [
        Picture(
            name,
            caption=(
                "The band holds at all months together, so it may be looked at every month without "
                "raising false alarms: an alarm is when all of it lies above the limit."
            ),
            alt=(
                f"The largest gap per case so far ends at {ends[0]}, with a band from {ends[1]} to "
                f"{ends[2]}; the limit is {format_value(spec.tau, 'percent')}."
            ),
            table=TableView(
                name,
                (
                    Column("month_end", "until", number_format="text"),
                    Column(
                        "estimate", "largest gap", lower="lower", upper="upper",
                        number_format="percent",
                    ),
                    Column("e_value", "evidence beyond the limit", decimals=2),
                ),
                caption="The largest gap so far, month by month",
            ),
            title="The largest gap, month by month",
        )
    ]  # fmt: skip


def _month_end(start: date, index: int) -> date:
    month = start.year * 12 + start.month - 1 + index + 1
    return date(month // 12, month % 12 + 1, 1)


def _verdict_table(run: RunWriter, audit: DomainAudit) -> TableView:
    name = _name(audit, "verdicts")
    run.add_table(name, words_of_verdicts(audit.verdicts))
    return TableView(
        name, VERDICT_COLUMNS, caption="Every grouping under every denominator", row_title=""
    )


def _other_tables(run: RunWriter, audit: DomainAudit) -> list[TableView]:
    views = []
    for part, rows, columns, caption in (
        (
            "trends",
            [trend_row(trend) for trend in audit.trends],
            TREND_COLUMNS,
            "Trends across ordered strata. The first two take rows as independent and are shown "
            "for comparison only; the one marked Holm is the primary contrast.",
        ),
        (
            "scan",
            [asdict(group) for group in audit.scan.subgroups[:MAX_SCAN_ROWS]],
            SCAN_COLUMNS,
            f"Groups nobody listed: the most deviant of {audit.scan.n_tested} intersections "
            f"({audit.scan.n_too_small} more are too small to test), p corrected for all of them.",
        ),
        (
            "joins",
            [asdict(row) for row in audit.joins],
            JOIN_COLUMNS,
            "Who is lost on the way: cases that could be placed.",
        ),
    ):
        if rows:
            name = _name(audit, part)
            run.add_table(name, rows)
            views.append(TableView(name, columns, caption=caption))
    return views


def _method_section(spec: AuditSpec) -> Section:
    return Section(
        heading="How it was judged",
        text=(
            describe_limit(spec),
            "Tracts are resampled whole, because the people, the buildings and the staff of a "
            "tract go together; the uncertainty of who reports is carried along. A stratum with "
            f"fewer than {spec.minimum_events} to count or fewer than {spec.minimum_tracts} tracts "
            "is too small to judge, and while there is one nothing passes.",
            f"The specification was fixed beforehand; its hash is `{spec.sha256[:16]}`.",
        ),
        notes=(
            "Race strata serve this audit only; they are in no reward and no feature unless the "
            "reward statement says so.",
            "A band covers a largest gap in 95 of 100 audits; a test given severity says nothing "
            "about how severity was assigned.",
        ),
    )
