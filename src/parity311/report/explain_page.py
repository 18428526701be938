"""The explanation as a page: what drives each policy, and what stands in for the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from parity311.evaluation.titles import policy_title
from parity311.explain.estimators import explainer_of_paper
from parity311.number_text import format_interval, format_value
from parity311.report.explain_inputs import file_stem
from parity311.report.pictures import Axis, Estimate, Reference, Series, bar_chart, interval_plot
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter

if TYPE_CHECKING:
    from parity311.explain.policy import PolicyExplanation

LIMITS = (
    "Shapley values describe the policy, not the world: they say what the score depends on, not "
    "what causes a hazard.",
    "A feature can stand in for a group and still be legitimate; the page shows that it does, and "
    "what taking it out would change.",
    "A small value is no proof of harmlessness: features that say the same share their credit.",
    "The background the values compare with is a choice; it is kept with the run.",
    "A coverage price follows the groups on purpose: it is how a policy that is paid for coverage "
    "sees which area is behind. It is flagged all the same, so that nobody has to look for it.",
)
GAP_COLUMNS = (
    Column("feature", "feature", number_format="text"),
    Column("is_geographic", "geographic", number_format="text"),
    Column("mean_value", "mean size"),
    Column("gap_part", "part of the gap", lower="gap_part_lower", upper="gap_part_upper"),
    Column("predictability", "tells groups apart", number_format="percent"),
    Column("proxy_score", "proxy score", lower="proxy_lower", upper="proxy_upper", decimals=2),
    Column("is_flagged", "flagged", number_format="text"),
    Column("note", "why", number_format="text"),
)
AGREEMENT_COLUMNS = (
    Column("explainer", "explainer", number_format="text"),
    Column("largest_difference", "largest difference"),
    Column("mean_difference", "mean difference", number_format="percent"),
    Column("rank_correlation", "rank correlation", decimals=2),
    Column("top_feature_agrees", "same top feature", number_format="text"),
    Column("note", "what it is", number_format="text"),
)
NAMED_COLUMNS = (
    Column("feature", "feature", number_format="text"),
    Column("named", "mean size by the paper's explainer"),
    Column("ours", "by ours"),
    Column("apart", "difference", number_format="signed"),
)
VARIANT_COLUMNS = (
    Column("variant", "trained with", number_format="text"),
    Column("note", "what that means", number_format="text"),
    Column("reward", "reward", lower="reward_lower", upper="reward_upper"),
    Column(
        "reward_change", "change of reward", lower="reward_change_lower",
        upper="reward_change_upper", number_format="signed",
    ),
    Column("recall", "recall", number_format="percent", decimals=1),
    Column(
        "recall_change", "change of recall", lower="recall_change_lower",
        upper="recall_change_upper", number_format="points",
    ),
    Column("coverage_gap", "coverage gap", number_format="points"),
    Column(
        "coverage_gap_change", "change of the gap", lower="coverage_gap_change_lower",
        upper="coverage_gap_change_upper", number_format="points",
    ),
)  # fmt: skip
WITHOUT_COLUMNS = (
    Column("feature", "taken out", number_format="text"),
    Column("gap", "gap with it"),
    Column("gap_without", "gap without it"),
    Column("mean_change", "mean change of the score"),
)


def write_page(
    run: RunWriter,
    explained: Sequence[PolicyExplanation],
    variants: Sequence[dict[str, Any]] = (),
) -> Report:
    """Store tables and pictures in the run and return the report that shows them."""
    sections = [_section(run, one) for one in explained]
    sections += _variant_sections(run, variants)
    return Report(
        title="What drives the recommendations",
        summary=tuple(_finding(one) for one in explained),
        figures=tuple(figure for one in explained for figure in _figures(one)),
        sections=tuple(sections),
    )


def _variant_sections(run: RunWriter, variants: Sequence[dict[str, Any]]) -> list[Section]:
    """What features are worth: one section, one table a domain and setting."""
    if not variants:
        return []
    views, words = [], []
    for domain, setting in dict.fromkeys((row["domain"], row["setting"]) for row in variants):
        rows = [row for row in variants if (row["domain"], row["setting"]) == (domain, setting)]
        name = f"{file_stem(domain, setting)}-variants"
        run.add_table(name, rows)
        title = f"{domain.replace('_', ' ').capitalize()}, {setting}"
        views.append(TableView(name, VARIANT_COLUMNS, caption=title))
        words += [f"{title}: {_cost_words(row)}" for row in rows[1:]]
    return [
        Section(
            heading="What it costs to do without",
            text=(
                "Agents without equity weight were trained again with fewer features and scored on "
                "the same test episodes.",
                *words,
            ),
            tables=tuple(views),
            notes=(
                "Changes are against the features in use, resampled together; their 95 % intervals "
                "are over test episodes and take the trained agents as given.",
            ),
        )
    ]


def _cost_words(row: dict[str, Any]) -> str:
    change = format_value(100 * row["recall_change"], "signed", 1)
    ends = [
        format_value(100 * row[f"recall_change_{end}"], "signed", 1) for end in ("lower", "upper")
    ]
    gap = format_value(row["coverage_gap_change"], "signed_points", 1)
    bounds = format_interval(
        row["coverage_gap_change_lower"], row["coverage_gap_change_upper"], "signed_points", 1
    )
    return (
        f"**{row['variant']}** ({row['note']}) changes recall by {change} points ({ends[0]} to "
        f"{ends[1]}){_doubt(row, 'recall_change')}, and the coverage gap by {gap} ({bounds})"
        f"{_doubt(row, 'coverage_gap_change')}."
    )


def _doubt(row: dict[str, Any], name: str) -> str:
    """Said of a change whose interval holds zero."""
    is_told = row[f"{name}_lower"] > 0 or row[f"{name}_upper"] < 0
    return "" if is_told else ", which is not told from nothing"


def _title(one: PolicyExplanation) -> str:
    parts = (one.inputs.domain.replace("_", " ").capitalize(), one.inputs.setting)
    return f"{', '.join(filter(None, parts))}: {policy_title(one.inputs.policy)}"


def _finding(one: PolicyExplanation) -> str:
    top = one.importance[0]["feature"]
    text = f"{_title(one)} depends most on `{top}`"
    if one.gap is None:
        return f"{text}; low and high income cannot be compared, no complaint of one is here."
    flagged = [feature for feature in one.gap.features if feature.is_flagged]
    if not flagged:
        return f"{text}; no feature is flagged."
    words = ", ".join(
        f"`{f.feature}` (proxy score {f.proxy_score:.2f}, {f.proxy_lower:.2f} to "
        f"{f.proxy_upper:.2f}; {f.note})"
        for f in flagged
    )
    return f"{text}; flagged: {words}."


def _figures(one: PolicyExplanation) -> list[KeyFigure]:
    if one.gap is None or not one.gap.features:
        return []
    top = one.gap.features[0]
    return [
        KeyFigure(
            f"{_title(one)}: largest proxy score, {top.feature}",
            top.proxy_score,
            interval=(top.proxy_lower, top.proxy_upper),
            note="flagged" if top.is_flagged else "not flagged",
            decimals=2,
            tone="bad" if top.is_flagged else "neutral",
        )
    ]


def _section(run: RunWriter, one: PolicyExplanation) -> Section:
    stem = file_stem(one.inputs.domain, one.inputs.setting, one.inputs.policy)
    pictures = [_importance_picture(run, one, stem)]
    tables = []
    if one.gap is not None:
        pictures.append(_gap_picture(run, one, stem))
        run.add_table(f"{stem}-without", [asdict(row) for row in one.without])
        tables.append(
            TableView(
                f"{stem}-without",
                WITHOUT_COLUMNS,
                caption="The gap with each feature taken out of this policy, one at a time",
            )
        )
    named = _named_table(run, one, stem)
    if named is not None:
        tables.append(named)
    if one.agreement:
        tables.append(_agreement_table(run, one, stem))
    geographic = ", ".join(f"`{name}`" for name in one.inputs.geographic) or "none"
    return Section(
        heading=_title(one),
        text=(
            _finding(one),
            f"Explained is what speaks for **{one.action}** (its score less the mean over actions),"
            f" on {len(one.inputs.rows):,} complaints against {len(one.inputs.background):,} "
            f"background ones. Features that say where a complaint comes from: {geographic}.",
        ),
        pictures=tuple(pictures),
        tables=tuple(tables),
        notes=LIMITS,
    )


def _agreement_table(run: RunWriter, one: PolicyExplanation, stem: str) -> TableView:
    run.add_table(f"{stem}-agreement", [asdict(row) for row in one.agreement])
    named = explainer_of_paper(one.inputs.domain)
    paper = f" The paper names **{named}** for this domain." if named else ""
    return TableView(
        f"{stem}-agreement",
        AGREEMENT_COLUMNS,
        caption=f"Other explainers beside the exact values.{paper}",
    )


def _named_table(run: RunWriter, one: PolicyExplanation, stem: str) -> TableView | None:
    """What the explainer the paper names says, beside ours."""
    if one.named is None:
        return None
    found = one.named.agreement
    run.add_table(f"{stem}-named", list(one.named.importance))
    return TableView(
        f"{stem}-named",
        NAMED_COLUMNS,
        caption=(
            f"By the paper's explainer for this domain, **{found.explainer}** ({found.note}), and "
            f"by ours, on the same {one.named.n_rows} complaints: apart by "
            f"{100 * found.mean_difference:.0f} % of the mean size, rank correlation "
            f"{format_value(found.rank_correlation)}."
        ),
    )


def _importance_picture(run: RunWriter, one: PolicyExplanation, stem: str) -> Picture:
    name = f"{stem}-importance"
    run.add_table(name, list(one.importance))
    title = "How much each feature matters"
    estimates = [
        Estimate(
            f"{row['feature']}{' (geographic)' if row['is_geographic'] else ''}", row["importance"]
        )
        for row in one.importance
    ]
    run.draw(
        name, bar_chart, [Series("mean size", estimates)], title=title,
        axis=Axis("mean absolute Shapley value"),
    )  # fmt: skip
    return Picture(
        name,
        caption="Mean size of each feature's Shapley value over complaints and actions.",
        alt="; ".join(f"{e.label} {format_value(e.value)}" for e in estimates) + ".",
        table=TableView(
            name,
            (
                Column("feature", "feature", number_format="text"),
                Column("is_geographic", "geographic", number_format="text"),
                Column("importance", "all actions"),
                Column("for_action", one.action),
            ),
            caption=title,
        ),
        title=title,
    )


def _gap_picture(run: RunWriter, one: PolicyExplanation, stem: str) -> Picture:
    assert one.gap is not None
    name = f"{stem}-gap"
    run.add_table(name, [asdict(feature) for feature in one.gap.features])
    title = f"The gap for {one.action}, split into features"
    estimates = [
        Estimate(f.feature, f.gap_part, f.gap_part_lower, f.gap_part_upper)
        for f in sorted(one.gap.features, key=lambda f: -abs(f.gap_part))
    ]
    run.draw(
        name,
        interval_plot,
        [Series("part of the gap", estimates)],
        title=title,
        axis=Axis(f"{one.gap.group} less {one.gap.reference}", number_format="signed"),
        reference=Reference(0.0, "no gap"),
    )
    return Picture(
        name,
        caption=(
            f"The score of {one.gap.group} is {format_value(one.gap.gap, 'signed')} against "
            f"{one.gap.reference}; the parts sum to it. Lines are 95 % intervals over tracts."
        ),
        alt="; ".join(f"{e.label} {format_value(e.value, 'signed')}" for e in estimates) + ".",
        table=TableView(name, GAP_COLUMNS, caption=title),
        title=title,
    )
