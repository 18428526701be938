"""Two runs of one kind side by side: pairs of figures, and the page that shows them.

Figures that both runs have are paired by what they are about. Two figures are called apart where
their intervals do not overlap, which is stricter than a test of their difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parity311.errors import InputError
from parity311.evaluation.titles import TODAY, is_paid, policy_title
from parity311.number_text import NumberFormat
from parity311.report.folder import Run
from parity311.report.pictures import Axis, Estimate, Series, interval_plot
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.siblings import read_card
from parity311.report.store import RunWriter

Row = dict[str, Any]
ENDS = ("first", "second")
MEASURES: dict[str, tuple[str, NumberFormat, int]] = {
    "recall": ("recall", "percent", 1),
    "coverage_gap": ("gap", "points", 1),
    "visits_per_complaint": ("visits per complaint", "number", 3),
    "reward": ("reward", "number", -1),
}
"""What is compared of a policy: its title, how it is written, digits."""
MOST_DRAWN = 24
"""Rows of the picture; the table has all."""
RANGE_ONLY = "known as a range only"


def pair_figures(first: Run, second: Run) -> tuple[str, list[Row]]:
    """The kind of two runs, and one row for each thing that both have figures of.

    A row has, for every measure, `<measure>_first` and `<measure>_second` with `_lower` and
    `_upper`, and `<measure>_apart`: whether the intervals do not overlap (None: not known).
    """
    kinds = [read_card(run).kind for run in (first, second)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"Run {first.id} was made by `{kinds[0]}`, {second.id} by `{kinds[1]}`; compare two "
            "of one kind (`parity311 runs` lists them)."
        )
    if first.id == second.id:
        raise InputError(f"Both are run {first.id}; name two runs (`parity311 runs` lists them).")
    read = {"run": _policies, "audit": _verdicts}.get(kinds[0], _numbers)
    a, b = read(first.metrics), read(second.metrics)
    return kinds[0], [_pair(key, a[key], b[key]) for key in a if key in b]


def only_in_one(first: Run, second: Run) -> tuple[list[str], list[str]]:
    """What the first run alone has figures of, and what the second alone has."""
    read = {"run": _policies, "audit": _verdicts}.get(read_card(first).kind, _numbers)
    a, b = read(first.metrics), read(second.metrics)
    return [", ".join(k) for k in a if k not in b], [", ".join(k) for k in b if k not in a]


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Row]:
    """Entries of two nested mappings that are not the same, one row each."""
    a, b = dict(_leaves(first)), dict(_leaves(second))
    return [
        {"name": name, "first": _said(a, name), "second": _said(b, name)}
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]


def write_comparison(run: RunWriter, first: Run, second: Run) -> Report:
    """Store the tables and the picture of a comparison and say what its page shows."""
    kind, rows = pair_figures(first, second)
    asked = differing(first.config, second.config)
    versions = differing(first.info.get("versions", {}), second.info.get("versions", {}))
    run.add_table("figures", rows or [{"about": "nothing that both runs have"}])
    run.add_metrics({"kind": kind, "figures": rows, "asked": asked, "versions": versions})
    pictures = _draw(run, kind, rows)
    settings = _asked_section(run, asked, versions)
    figures = Section(
        heading="Figure by figure",
        text=(_say_apart(kind, rows),),
        pictures=pictures,
        tables=(_figures_table(kind, rows),),
        notes=_notes(first, second, rows),
    )
    return Report(
        title="Two runs side by side",
        summary=(
            _say_apart(kind, rows),
            f"First: `{first.id}`, made {first.info['created_at'][:10]}. Second: `{second.id}`, "
            f"made {second.info['created_at'][:10]}. Both by `parity311 {kind}`.",
            _say_data(first, second),
        ),
        figures=_key_figures(kind, rows),
        sections=(figures, settings),
    )


def _policies(metrics: Mapping[str, Any]) -> dict[tuple[str, ...], Row]:
    """Measures of every policy in every setting of a run."""
    found: dict[tuple[str, ...], Row] = {}
    for block in metrics.get("comparisons", []):
        named = (block["domain"].replace("_", " "), block.get("participation"))
        setting = ", ".join(filter(None, (*named, block.get("capacity"))))
        is_range = bool(block.get("is_real")) and bool(block.get("is_wide"))
        for row in block["policies"]:
            measures = {name: _figure(row.get(name)) for name in MEASURES}
            if is_range:
                measures["coverage_gap"] = _figure(None) | {"note": RANGE_ONLY}
            found[(setting, row["policy"])] = measures
    return found


def _verdicts(metrics: Mapping[str, Any]) -> dict[tuple[str, ...], Row]:
    """Verdict and gap of everything an audit judged."""
    judged = [row for domain in metrics.get("domains", []) for row in domain["verdicts"]]
    found: dict[tuple[str, ...], Row] = {}
    for row in (*judged, *metrics.get("policies", [])):
        about = (row["domain"], row["setting"], row["policy"], row["strata"])
        key = (*filter(None, about), f"per {row['denominator']}")
        gap = {"value": row["gap"], "lower": row["gap_lower"], "upper": row["gap_upper"]}
        found[key] = {"gap": _figure(gap), "verdict": row["verdict"]}
    return found


def _numbers(metrics: Mapping[str, Any]) -> dict[tuple[str, ...], Row]:
    """Every number of a run's metrics, by its path."""
    return {
        (name,): {"figure": _figure(value)}
        for name, value in _leaves(metrics)
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _figure(value: Any) -> Row:
    if isinstance(value, Mapping):
        return {end: value.get(end) for end in ("value", "lower", "upper")}
    return {"value": value, "lower": None, "upper": None}


def _pair(key: tuple[str, ...], a: Row, b: Row) -> Row:
    row: Row = {"about": key[0], "policy": policy_title(key[1])} if len(key) == 2 else {}
    row = row or {"about": ", ".join(key)}
    row["policy_id"] = key[1] if len(key) == 2 else ""
    for name, value in a.items():
        if not isinstance(value, Mapping):
            row |= {f"{name}_first": value, f"{name}_second": b[name]}
            continue
        for end, figure in zip(ENDS, (value, b[name]), strict=True):
            row[f"{name}_{end}"] = figure["value"]
            row |= {f"{name}_{end}_{part}": figure[part] for part in ("lower", "upper")}
        row[f"{name}_apart"] = _are_apart(value, b[name])
        if "note" in value or "note" in b[name]:
            row[f"{name}_note"] = RANGE_ONLY
    return row


def _are_apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool | None:
    ends = [figure[part] for figure in (a, b) for part in ("lower", "upper")]
    if any(end is None or not math.isfinite(end) for end in ends):
        return None
    return bool(ends[1] < ends[2] or ends[3] < ends[0])


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested mappings and sequences with their paths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(v, Mapping | list) for v in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{number}" if path else str(number))
    else:
        yield path, value


def _said(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "not there"
    value = values[name]
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def _say_apart(kind: str, rows: Sequence[Row]) -> str:
    if not rows:
        return "The two runs have no figure of the same thing: nothing can be set side by side."
    if kind == "audit":
        changed = [row for row in rows if row["verdict_first"] != row["verdict_second"]]
        if not changed:
            return f"All {len(rows)} verdicts that both audits give are the same."
        named = "; ".join(
            f"{row['about']}: {row['verdict_first']} → {row['verdict_second']}"
            for row in changed[:3]
        )
        more = f"; and {len(changed) - 3} more" if len(changed) > 3 else ""
        return f"**{len(changed)} of {len(rows)} verdicts differ.** {named}{more}."
    if kind != "run":
        n = sum(row["figure_first"] != row["figure_second"] for row in rows)
        return f"{n} of {len(rows)} figures that both runs have are not the same."
    words = [
        _say_direction("recall", rows, "the second finds more in", "less in"),
        _say_direction("coverage_gap", rows, "its gap is wider in", "narrower in"),
    ]
    return f"Of {len(rows)} policies that both runs have, {'; '.join(words)}."


def _say_direction(name: str, rows: Sequence[Row], more: str, less: str) -> str:
    apart = [row for row in rows if row[f"{name}_apart"]]
    up = sum(row[f"{name}_second"] > row[f"{name}_first"] for row in apart)
    known = sum(row[f"{name}_apart"] is not None for row in rows)
    if not known:
        return f"{more.rsplit(' ', 1)[0]} by an amount without interval"
    return f"{more} {up} and {less} {len(apart) - up}, as far as intervals tell"


def _say_data(first: Run, second: Run) -> str:
    prints = [{one["fingerprint"] for one in run.info.get("data", [])} for run in (first, second)]
    if not all(prints):
        return "Which data they used is not recorded for both."
    if prints[0] == prints[1]:
        return "Both used the same data."
    return "They used different data: a difference may be that of the data, not of the policies."


def _key_figures(kind: str, rows: Sequence[Row]) -> tuple[KeyFigure, ...]:
    if kind != "run" or not rows:
        return ()
    counted = [KeyFigure("policies that both have", len(rows), number_format="integer")]
    for name, title in (("recall", "recall"), ("coverage_gap", "the gap")):
        n = sum(bool(row[f"{name}_apart"]) for row in rows)
        note = "intervals that do not overlap"
        counted.append(
            KeyFigure(f"differ in {title}", n, note=note, number_format="integer")
        )  # fmt: skip
    return tuple(counted)


def _figures_table(kind: str, rows: Sequence[Row]) -> TableView:
    caption = "What both runs have a figure of; intervals below each figure."
    if not rows:
        return TableView("figures", (Column("about", "of", number_format="text"),))
    columns = [Column("about", "of", number_format="text")]
    shown: dict[str, tuple[str, NumberFormat, int]]
    if kind == "run":
        columns.append(Column("policy", "policy", number_format="text"))
        shown = {k: MEASURES[k] for k in ("recall", "coverage_gap", "visits_per_complaint")}
    elif kind == "audit":
        columns += [
            Column(f"verdict_{end}", f"verdict, {end}", number_format="text") for end in ENDS
        ]
        shown = {"gap": ("gap", "points", 1)}
    else:
        shown = {"figure": ("figure", "number", -1)}
    noted = {name for row in rows for name in row if name.endswith("_note")}
    for name, (title, number_format, decimals) in shown.items():
        columns += [
            Column(
                f"{name}_{end}", f"{title}, {end}", number_format=number_format,
                decimals=decimals, lower=f"{name}_{end}_lower", upper=f"{name}_{end}_upper",
                reason=f"{name}_note" if f"{name}_note" in noted else "",
            )
            for end in ENDS
        ]  # fmt: skip
    return TableView("figures", tuple(columns), caption, row_title="about")


def _draw(run: RunWriter, kind: str, rows: Sequence[Row]) -> tuple[Picture, ...]:
    """Gaps of today's rule and of paid policies, or of verdicts, first beside second."""
    name = {"run": "coverage_gap", "audit": "gap"}.get(kind)
    if name is None:
        return ()
    shown = [
        row for row in rows
        if row[f"{name}_first"] is not None and row[f"{name}_second"] is not None
        and (kind == "audit" or row["policy_id"] == TODAY or is_paid(row["policy_id"]))
    ][:MOST_DRAWN]  # fmt: skip
    if not shown:
        return ()
    series = [
        Series(
            end,
            [
                Estimate(
                    ": ".join(filter(None, (row["about"], row.get("policy")))),
                    row[f"{name}_{end}"],
                    _or_nan(row[f"{name}_{end}_lower"]),
                    _or_nan(row[f"{name}_{end}_upper"]),
                )
                for row in shown
            ],
        )
        for end in ENDS
    ]
    axis = Axis("gap between the best and the worst served", number_format="points")
    run.draw("gaps", interval_plot, series, title="Gaps, first beside second", axis=axis)
    return (
        Picture(
            "gaps",
            caption="Further left is more even. Where two intervals overlap, the runs do not tell "
            "which is better.",
            alt=f"Gaps with intervals in both runs, {len(shown)} rows.",
            table=_figures_table(kind, rows),
            title="Gaps, first beside second",
        ),
    )


def _asked_section(run: RunWriter, asked: list[Row], versions: list[Row]) -> Section:
    rows = [{"what": "asked", **row} for row in asked]
    rows += [{"what": "version", **row} for row in versions]
    if not rows:
        return Section(
            heading="What was asked differently",
            text=("Nothing: same configuration, same versions of the software.",),
        )
    run.add_table("asked", rows)
    columns = tuple(
        Column(name, title, number_format="text")
        for name, title in (("name", "setting"), ("first", "first"), ("second", "second"),
                            ("what", "kind"))
    )  # fmt: skip
    n = len(asked)
    text = f"{n or 'No'} setting{'s' * (n != 1)} and {len(versions) or 'no'} version"
    return Section(
        heading="What was asked differently",
        text=(f"{text}{'s' * (len(versions) != 1)} of the software differ.",),
        tables=(TableView("asked", columns, "Settings and versions that are not the same."),),
    )


def _notes(first: Run, second: Run, rows: Sequence[Row]) -> tuple[str, ...]:
    alone = only_in_one(first, second)
    notes = [
        f"Only the {end} has figures of: {'; '.join(names[:8])}"
        f"{f'; and {len(names) - 8} more' if len(names) > 8 else ''}."
        for end, names in zip(ENDS, alone, strict=True)
        if names
    ]
    if rows:
        notes.append(
            "Two figures are told apart here only where their intervals do not overlap. That is "
            "stricter than a test: figures that are not apart may still differ."
        )
    return tuple(notes)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
