"""Parts of the audit page that stand beside the domains: policies in episodes, rules compared.

Service tract by tract: a map and a table, small cells left out, and no verdict.

One tract has too few cases for a verdict of its own; the table is there to be looked up, the map to
show where service goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from parity311.audit.assess import Verdict, verdict_row
from parity311.audit.cells import AuditInputs
from parity311.audit.episodes import EpisodeAudit
from parity311.audit.gap import INSUFFICIENT
from parity311.audit.spec import AuditSpec
from parity311.evaluation.titles import policy_title
from parity311.number_text import format_value
from parity311.report.audit_words import (
    COUNTED,
    GROUPS,
    VERDICTS,
    describe_limit,
    describe_rate,
    list_failures,
    measure_briefly,
    name_denominator,
    name_groups,
    name_worst_off,
)
from parity311.report.pictures import Axis, Cell, Estimate, Series, interval_plot, tract_map
from parity311.report.sections import Column, Picture, Section, TableView
from parity311.report.store import RunWriter

N_SHOWN = 20
"""Tracts on the page; the stored table has all."""
NORMAL_95 = 1.96


def tract_rows(inputs: AuditInputs, spec: AuditSpec) -> list[dict[str, Any]]:
    """One row a tract with its cases and its rate; counts below the minimum are not published."""
    places = inputs.places
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    cases, served = (
        np.bincount(cells.tract, values, minlength=places.n_tracts)
        for values in (cells.n_cases, cells.n_served)
    )
    rows = []
    for k in range(places.n_tracts):
        small = cases[k] < spec.minimum_events
        lower, upper = (np.nan, np.nan) if small else _wilson(served[k], cases[k])
        quintile = int(places.income_quintile[k])
        rows.append(
            {
                "tract": str(places.geoid[k]),
                "borough": str(places.borough[k]),
                "quintile": f"Q{quintile}" if quintile else "unknown",
                "cases": None if small else int(cases[k]),
                "served": None if small else int(served[k]),
                "rate": np.nan if small else float(served[k] / cases[k]),
                "lower": lower,
                "upper": upper,
                "note": f"fewer than {spec.minimum_events} cases" if small else "",
            }
        )
    return rows


def _wilson(served: float, cases: float) -> tuple[float, float]:
    """Ends of Wilson's 95 % interval of a share."""
    share, square = served / cases, NORMAL_95**2
    middle = (share + square / (2 * cases)) / (1 + square / cases)
    half = NORMAL_95 * np.sqrt(share * (1 - share) / cases + square / (4 * cases**2))
    half = half / (1 + square / cases)
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def tract_pictures(
    run: RunWriter, name: str, inputs: AuditInputs, spec: AuditSpec
) -> list[Picture]:
    """The map with its table; none where the run kept no positions."""
    rows = tract_rows(inputs, spec)
    run.add_table(name, rows)
    counted = COUNTED[spec.estimand]
    title = f"{counted.capitalize()} per case, tract by tract"
    position = inputs.places.position
    if position is None or not np.isfinite(position).any():
        return []
    cells = [
        Cell(float(x), float(y), row["rate"], row["borough"])
        for (x, y), row in zip(position, rows, strict=True)
    ]
    axis = Axis(f"{counted} per case", number_format="percent")
    run.draw(name, tract_map, cells, title=title, axis=axis)
    n_shown = sum(row["cases"] is not None for row in rows)
    return [
        Picture(
            name,
            caption=(
                f"Each cell is a tract. {n_shown:,} of {len(rows):,} have {spec.minimum_events} "
                "cases or more; the others are not published. A tract alone has too few cases for "
                "a verdict: much of what differs between neighbours is chance."
            ),
            alt=f"Map of {n_shown:,} tracts by the share of cases {counted}; figures in the table.",
            table=TableView(
                name,
                (
                    Column("tract", "tract", number_format="text"),
                    Column("borough", "borough", number_format="text"),
                    Column("quintile", "income", number_format="text"),
                    Column("cases", "cases", number_format="integer", reason="note"),
                    Column("served", "counted", number_format="integer", reason="note"),
                    Column(
                        "rate", "rate", lower="lower", upper="upper", number_format="percent",
                        reason="note",
                    ),
                ),
                caption=title,
                max_rows=N_SHOWN,
            ),
            title=title,
        )
    ]  # fmt: skip


# The verdict stands first: on a narrow screen the columns behind it are scrolled to.
VERDICT = Column("verdict_words", "verdict", number_format="text")
SIZE_COLUMNS = (
    Column("size_words", "how unequal", number_format="text"),
    Column("rate_words", "mean rate", number_format="text"),
    Column("worst_words", "who, where it fails", number_format="text"),
)
DENOMINATOR = Column("denominator_words", "per", number_format="text")
VERDICT_COLUMNS = (
    VERDICT,
    DENOMINATOR,
    Column("strata_words", "grouped by", number_format="text"),
    *SIZE_COLUMNS,
)


def words_of_verdicts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Rows of verdicts with their words, for tables."""
    return [
        {
            **verdict_row(verdict),
            "policy_words": policy_words(verdict.policy),
            "strata_words": name_groups(verdict),
            "denominator_words": name_denominator(verdict),
            "verdict_words": f"{VERDICTS[verdict.comparison.verdict]} "
            f"({verdict.comparison.verdict})",
            "size_words": measure_briefly(verdict.comparison),
            "worst_words": name_worst_off(verdict.comparison, verdict.denominator),
            "rate_words": describe_rate(verdict.comparison.mean_rate, verdict.denominator),
        }
        for verdict in verdicts
    ]


def policy_words(policy: str) -> str:
    """Whose decisions were judged, by the one name every page uses."""
    return "as recorded" if policy == "recorded" else policy_title(policy)


def episode_section(run: RunWriter, episodes: Sequence[EpisodeAudit], spec: AuditSpec) -> Section:
    """Verdicts of policies that were only played so far, with their rates as a table."""
    verdicts = [verdict for audit in episodes for verdict in audit.verdicts]
    rows = words_of_verdicts(verdicts)
    run.add_table("policies-in-test-episodes", rows)
    rates = [
        {"domain": a.domain, "setting": a.setting, "policy": a.policy, **asdict(row)}
        for a in episodes
        for row in a.rates
    ]
    run.add_table("policy-rates-in-test-episodes", rates)
    told = [v for v in verdicts if v.comparison.verdict != INSUFFICIENT]
    failed = [
        f"{a.domain.replace('_', ' ').capitalize()}, {a.setting}, {policy_title(a.policy)}: {said}"
        for a in episodes
        if (said := list_failures(a.verdicts))
    ]
    columns = (
        VERDICT,
        Column("policy_words", "policy", number_format="text"),
        Column("domain", "domain", number_format="text"),
        Column("setting", "city", number_format="text"),
        DENOMINATOR,
        *SIZE_COLUMNS,
    )
    return Section(
        heading="Policies in test episodes",
        text=(
            f"{len(told)} of {len(verdicts)} comparisons of policies can be told at "
            f"{episodes[0].n_episodes} test episodes each.",
            *failed,
            "These policies decided nothing yet: they were played in the process of the later "
            "year, and episodes stand where tracts stand above.",
        ),
        tables=(TableView("policies-in-test-episodes", columns, caption="By policy"),),
        notes=(
            describe_limit(spec),
            "Where episodes draw cases from one table again and again, bands are widened by what "
            "the table itself leaves open. They take the trained agents as given.",
        ),
    )


def override_section(run: RunWriter, overrides: Sequence[dict[str, Any]]) -> Section:
    """What staff changed, and whether it falls on some more than on others."""
    rows = [
        {
            **{name: value for name, value in row.items() if name not in ("rates", "reasons")},
            "strata_words": GROUPS.get(row["strata"], row["strata"]),
            "verdict_words": f"{VERDICTS[row['verdict']]} ({row['verdict']})",
            "rate_words": describe_rate(row["mean_rate"], "cases"),
        }
        for row in overrides
    ]
    run.add_table("overrides", rows)
    lead = overrides[0]
    name = "overrides-by-stratum"
    run.add_table(name, lead["rates"])
    title = f"Recommendations {lead['counted']}, by {GROUPS[lead['strata']]}"
    estimates = [Estimate(r["stratum"], r["rate"], r["lower"], r["upper"]) for r in lead["rates"]]
    run.draw(
        name, interval_plot, [Series("share", estimates)], title=title,
        axis=Axis("share of recommendations", number_format="percent", includes=(0.0,)),
    )  # fmt: skip
    given = "; ".join(f"{r['reason']} ({r['n_overrides']:,})" for r in lead["reasons"])
    return Section(
        heading="What staff changed",
        text=(
            f"{lead['n_recommendations']:,} recommendations for {lead['domain']}; staff set aside "
            f"{format_value(lead['mean_rate'], 'percent', 1)} of them. Reasons given: "
            f"{given or 'too few to show'}.",
            "An override that takes a visit away weighs on who had been promised one.",
        ),
        pictures=(
            Picture(
                name,
                caption="Each dot is a stratum's share, the line its 95 % interval over tracts.",
                alt="; ".join(
                    f"{e.label} {format_value(e.value, 'percent')}"
                    for e in estimates
                    if e.is_available
                )
                + ".",
                table=TableView(
                    name,
                    (
                        Column("stratum", "stratum", number_format="text"),
                        Column("n", "recommendations", number_format="integer"),
                        Column(
                            "rate", "share", lower="lower", upper="upper", number_format="percent"
                        ),
                    ),
                    caption=title,
                ),
                title=title,
            ),
        ),
        tables=(
            TableView(
                "overrides",
                (
                    VERDICT,
                    Column("domain", "domain", number_format="text"),
                    Column("counted", "counted", number_format="text"),
                    Column("strata_words", "grouped by", number_format="text"),
                    *SIZE_COLUMNS,
                    Column("n_without_tract", "without a tract", number_format="integer"),
                ),
                caption="Overrides and visits taken away, compared over strata",
            ),
        ),
    )


def rules_section(
    run: RunWriter, rules: Sequence[dict[str, Any]], published: Sequence[dict[str, Any]]
) -> Section:
    """How often the published rule and this audit err, and what the former says here."""
    run.add_table("rules", list(rules))
    named = [row | {"strata_words": GROUPS[row["strata"]]} for row in published]
    run.add_table("as-published", named)
    parity = [row for row in rules if row["true_gap"] == 0]
    series = [
        Series(
            name,
            [
                Estimate(f"rate {row['rate']:g}, {row['n_per_stratum']:,} a stratum", row[column])
                for row in parity
            ],
        )
        for name, column in (
            ("published rule flags", "published_errs"),
            ("this audit flags", "ours_failed"),
            ("this audit passes", "ours_passed"),
        )
    ]
    title = "What becomes of equal service"
    run.draw(
        "rules",
        interval_plot,
        series,
        title=title,
        axis=Axis("share of simulated cities", number_format="percent", includes=(0.0,)),
    )
    worst = max(parity, key=lambda row: row["published_errs"])
    return Section(
        heading="The published rule beside this one",
        text=(
            "The published rule compares a point estimate with the limit. In simulated cities with "
            f"equal service it flags up to {format_value(worst['published_errs'], 'percent', 0)} "
            f"({worst['n_per_stratum']:,} cases a stratum at a rate of {worst['rate']:g}); this "
            f"audit flags {format_value(worst['ours_failed'], 'percent', 0)} of the same, passes "
            f"{format_value(worst['ours_passed'], 'percent', 0)} and says **cannot be told** of "
            f"{format_value(worst['ours_insufficient'], 'percent', 0)}.",
            "A rule that never speaks makes no false alarm either, so the three shares stand side "
            "by side.",
        ),
        pictures=(
            Picture(
                "rules",
                caption="Flagged is a false alarm; what is neither flagged nor passed cannot be "
                "told. Equal service, five strata, independent cases.",
                alt="; ".join(
                    f"rate {row['rate']:g} and {row['n_per_stratum']:,} a stratum: published "
                    f"rule flags {format_value(row['published_errs'], 'percent', 0)}, this audit "
                    f"{format_value(row['ours_failed'], 'percent', 0)} and passes "
                    f"{format_value(row['ours_passed'], 'percent', 0)}"
                    for row in parity
                ),
                table=TableView(
                    "rules",
                    (
                        Column("n_per_stratum", "cases a stratum", number_format="integer"),
                        Column("rate", "rate"),
                        Column("true_gap", "true gap"),
                        Column("published_errs", "published rule errs", number_format="percent"),
                        Column("ours_passed", "this audit: PASS", number_format="percent"),
                        Column("ours_failed", "FAIL", number_format="percent"),
                        Column("ours_insufficient", "cannot be told", number_format="percent"),
                    ),
                    caption="Errors of both rules in simulated cities",
                ),
                title=title,
            ),
        ),
        tables=(
            TableView(
                "as-published",
                (
                    Column("domain", "domain", number_format="text"),
                    Column("setting", "city", number_format="text"),
                    Column("strata_words", "grouped by", number_format="text"),
                    Column(
                        "largest_gap",
                        "largest gap, last four weeks",
                        lower="lower",
                        upper="upper",
                        number_format="percent",
                        reason="reason",
                    ),
                    Column("is_suspended", "suspended", number_format="text"),
                    Column("n_suspended", "windows that suspend", number_format="integer"),
                    Column("n_windows", "of", number_format="integer"),
                ),
                caption="What the published rule says of the same cases, window of four weeks by "
                "window, with its own denominator and its 5th to 95th percentile",
            ),
        ),
        notes=(
            "With a true gap an error is letting it pass; with none it is a false alarm.",
            "The published propensity falls as reporting rises, so its denominator inflates need "
            "where people report most.",
        ),
    )
