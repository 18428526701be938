"""The page of a reproduction: verdicts first, then every claim with its figures, by area."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Literal

from parity311.report.pictures import (
    Axis,
    Estimate,
    Line,
    Reference,
    Series,
    bar_chart,
    interval_plot,
    line_chart,
)
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter
from parity311.resampling import Figure
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims.boiler import grid_detection
from parity311.studies.reproduction.claims.elevator import POLICIES
from parity311.studies.reproduction.evidence import Evidence
from parity311.studies.reproduction.programme import CHOICE_TITLES, CHOICES, OURS, PAPER, PROGRAMMES
from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    FOLLOWS,
    HOLDS,
    NOT_CLAIMED,
    RULES,
    UNTESTED,
    VERDICTS,
)
from parity311.training.frontier import MISS_RATIOS

INTRODUCTION = (
    "A paper by Aldridge and others claims that learning agents route New York's complaints better "
    "and more equitably than today's rule. Its data and code are not public. Here its claims are "
    "tested on **synthetic cities**, where what really happened is known: agents learn from what "
    "an agency could see, and are scored under the truth on days they have not learned from: "
    "later ones, but for the boiler table, whose split is at random as published, and for the year "
    "2020 in complaint triage, which the paper calls held out.",
    "A claim that holds here held in such a city, not in New York. A claim that does not hold here "
    "may still hold there. What contradicts itself does so whatever the data: the paper's own "
    "figures were put together again.",
)
PROGRAMME_WORDS = {
    "ours": "**The programme that was run is ours, not the paper's**: its domains, splits, agents "
    "and baselines, but our features, discounts and schedules, and a price on coverage instead of "
    "its equity term. A table below says for every job what differs from what the paper gives. A "
    "claim that does not hold here may hold with the paper's own settings.",
    "paper": "**The programme that was run is the paper's**: its features, actions, "
    "hyper-parameters, equity term, estimate of incidents, splits and baselines. A table below "
    "lists for every job what was used, another one what the paper leaves open and what was chosen "
    "there. The records are not the paper's, and its rewards for speed, cost and retention are "
    "ours, because it does not define them.",
}
"""Whose programme it is, in words."""
OTHER_WORDS = {
    True: "The other programme was run in the same cities; its figure and verdict stand beside.",
    False: "The other programme was not run in these cities: `parity311 reproduce --programme "
    "{other}` sets it beside.",
}
MEANINGS = {
    HOLDS: "the interval of our figure lies on the side the paper claims",
    FAILS: "it lies on the other side, or is as good as zero",
    UNTESTED: "these runs cannot tell, or nothing here could",
    CONTRADICTS: "the paper's own figures or words do not fit together",
    FOLLOWS: "wrong only because of an error that is counted already",
    NOT_CLAIMED: "asked by the paper, or said of other domains: shown, not counted",
}
TONES: dict[str, Literal["good", "bad", "unsure"]] = {
    HOLDS: "good",
    FAILS: "bad",
    UNTESTED: "unsure",
    CONTRADICTS: "bad",
    FOLLOWS: "unsure",
    NOT_CLAIMED: "unsure",
}


SPLIT = (
    "part", "scenario", "split", "days learned from", "days scored on", "rows learned from",
    "rows scored on",
)  # fmt: skip
"""What a job's row says of its split."""


def write_page(
    run: RunWriter,
    evidence: Evidence | None,
    rows: list[dict[str, Any]],
    programme: list[dict[str, Any]],
    *,
    note: str = "",
    name: str = OURS.name,
    prices: list[dict[str, Any]] | None = None,
) -> None:
    """Store tables and pictures and say what the page shows.

    Without evidence (kept figures that are judged again) what needs it is left out, and `name` says
    whose programme it was.
    """
    counted = Counter(row["verdict"] for row in rows)
    name = evidence.programme.name if evidence is not None else name
    other = next(one for one in PROGRAMMES if one != name)
    has_other = _has_other(rows)
    figures = tuple(
        KeyFigure(
            verdict, counted[verdict], note=MEANINGS[verdict], number_format="integer",
            tone=TONES[verdict],
        )
        for verdict in VERDICTS
    )  # fmt: skip
    sections = [_section(run, evidence, area, rows) for area in _areas(rows)]
    run.set_report(
        Report(
            title="The paper's claims, one by one",
            summary=(
                f"Of {len(rows) - counted[NOT_CLAIMED]} claims {counted[HOLDS]} hold, "
                f"{counted[FAILS]} do not hold, {counted[CONTRADICTS]} contradict the paper "
                f"itself, {counted[FOLLOWS]} follow from another and are not counted again, and "
                f"{counted[UNTESTED]} cannot be tested here. {counted[NOT_CLAIMED]} more figures "
                "answer what the paper asks and does not claim.",
                *((note,) if note else ()),
                INTRODUCTION[0],
                PROGRAMME_WORDS[name],
                OTHER_WORDS[has_other].format(other=other),
                *INTRODUCTION[1:],
            ),
            figures=figures,
            pictures=(_verdict_picture(run, rows),),
            sections=(
                *sections,
                *((_prices(run, prices),) if prices else ()),
                *((_both_programmes(run, rows),) if has_other else ()),
                _programme(run, programme),
                *((_choices(run),) if name == PAPER.name else ()),
                _protocols(run, programme),
                _rules(run),
                _definitions(run, rows),
            ),
        )
    )


def _areas(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["area"] for row in rows))


def _slug(area: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in area.lower()).strip("-").replace("--", "-")


def _verdict_picture(run: RunWriter, rows: list[dict[str, Any]]) -> Picture:
    counts = [
        {"area": area, **{v: sum(r["area"] == area and r["verdict"] == v for r in rows)
                          for v in VERDICTS}}
        for area in _areas(rows)
    ]  # fmt: skip
    run.add_table("verdicts", counts)
    series = [
        Series(verdict, [Estimate(row["area"], float(row[verdict])) for row in counts])
        for verdict in VERDICTS
    ]
    run.draw(
        "verdicts", bar_chart, series, title="Verdicts by area", axis=Axis("claims", "integer")
    )
    return Picture(
        "verdicts",
        title="Verdicts by area",
        caption="How many claims of each area hold, fail, contradict the paper or stay open.",
        alt="Number of claims by verdict for every area of the paper.",
        table=TableView("verdicts"),
    )


def _section(
    run: RunWriter, evidence: Evidence | None, area: str, rows: list[dict[str, Any]]
) -> Section:
    own = [row for row in rows if row["area"] == area]
    name = f"claims-{_slug(area)}"
    columns = {**CLAIM_COLUMNS, **(BESIDE_COLUMNS if _has_other(rows) else {})}
    run.add_table(name, [{key: row.get(key) for key in columns} for row in own])
    shown = tuple(Column(key, title, number_format="text") for key, title in columns.items())
    counted = Counter(row["verdict"] for row in own)
    text = ", ".join(f"{counted[v]} {v}" for v in VERDICTS if counted[v])
    return Section(
        heading=area,
        text=(f"Of {len(own)} claims: {text}.",),
        pictures=_pictures(run, evidence, area, own),
        tables=(TableView(name, columns=shown, max_rows=200),),
    )


CLAIM_COLUMNS = {
    "claim": "the paper says", "published": "published", "ours": "ours (95 % interval)",
    "verdict": "verdict", "reason": "why",
}  # fmt: skip
BESIDE_COLUMNS = {
    "beside": "in the other programme", "beside_verdict": "verdict there",
    "why_apart": "why they are apart",
}  # fmt: skip


def _has_other(rows: list[dict[str, Any]]) -> bool:
    return any(row.get("beside_verdict") for row in rows)


def _prices(run: RunWriter, prices: list[dict[str, Any]]) -> Section:
    """Gap and price by the weight of equity."""
    run.add_table("price-by-weight", prices)
    return Section(
        heading="What parity costs by the weight of equity",
        text=(
            "Scenario strong. The gap is between the best and the worst served quintile; the price "
            "is the share of correct escalations given up against the same agent without a weight. "
            "A gap that closes because nobody is visited is no parity: visits stand beside, as a "
            "share of those of the agent without.",
        ),
        tables=(TableView("price-by-weight", max_rows=60),),
    )


def _both_programmes(run: RunWriter, rows: list[dict[str, Any]]) -> Section:
    """How often the two programmes come to which verdicts."""
    pairs = Counter((row["verdict"], row["beside_verdict"] or "–") for row in rows)
    found = [{"here": one, "there": other, "claims": n} for (one, other), n in pairs.items()]
    run.add_table("both-programmes", found)
    n_apart = sum(bool(row["why_apart"]) for row in rows)
    return Section(
        heading="The two programmes beside each other",
        text=(f"On {n_apart} of {len(rows)} claims they come to other verdicts.",),
        tables=(TableView("both-programmes", max_rows=40),),
    )


def _choices(run: RunWriter) -> Section:
    run.add_table("choices", [dict(zip(CHOICE_TITLES, row, strict=True)) for row in CHOICES])
    return Section(
        heading="What the paper leaves open",
        text=("What was chosen there, why, and what another choice does.",),
        tables=(TableView("choices"),),
    )


def _pictures(
    run: RunWriter, evidence: Evidence | None, area: str, own: list[dict[str, Any]]
) -> tuple[Picture, ...]:
    if area.startswith("Learning"):
        return _differences(run, own)
    if area == "Boiler safety" and (evidence is None or "boiler" in evidence.domains):
        return _grid_picture(run, evidence, own)
    if area == "Elevators" and (evidence is None or "elevator" in evidence.domains):
        return _elevator_picture(run, own)
    if area == "Equity":
        return _equity_pictures(run, own)
    return ()


def _estimates(own: list[dict[str, Any]], prefix: str) -> list[Estimate]:
    return [
        Estimate(
            row["key"].removeprefix(prefix).replace("_", " "), row["value"],
            *(row["interval"] or ()), reason=row["reason"],
        )
        for row in own
        if row["key"].startswith(prefix)
    ]  # fmt: skip


def _interval_picture(
    run: RunWriter, name: str, own: list[dict[str, Any]], prefixes: dict[str, str], title: str,
    axis: Axis, caption: str, reference: Reference,
) -> tuple[Picture, ...]:  # fmt: skip
    series = [Series(label, _estimates(own, prefix)) for prefix, label in prefixes.items()]
    series = [one for one in series if one.estimates]
    if not series:
        return ()
    rows = [
        {"of": one.name, "label": e.label, "value": e.value, "lower": e.lower, "upper": e.upper}
        for one in series
        for e in one.estimates
    ]
    run.add_table(name, rows)
    run.draw(name, interval_plot, series, title=title, axis=axis, reference=reference)
    return (
        Picture(
            name, title=title, caption=caption, alt=f"{title}: {caption}", table=TableView(name)
        ),
    )


def _differences(run: RunWriter, own: list[dict[str, Any]]) -> tuple[Picture, ...]:
    zero = Reference(0.0, "today's rule")
    return (
        *_interval_picture(
            run, "throughput", own, {"throughput_": "the paper's agent"},
            "Correct escalations over today's rule",
            Axis("more than today's rule", "percent"),
            "Right of the line a learned policy finds more actionable cases with the same staff.",
            zero,
        ),
        *_interval_picture(
            run, "mistakes", own, {"mistakes_": "the paper's agent"},
            "Mistakes per complaint, less today's rule",
            Axis("difference in misclassified complaints", "percent"),
            "Left of the line a learned policy makes fewer mistakes.", zero,
        ),
        *_interval_picture(
            run, "leads", own, {"lead_": "claimed leader"}, "The claimed leader, less the other",
            Axis("share of today's reward", "percent"),
            "Right of the line the paper's leader leads here too.", Reference(0.0, "equal"),
        ),
    )  # fmt: skip


def _equity_pictures(run: RunWriter, own: list[dict[str, Any]]) -> tuple[Picture, ...]:
    return (
        *_interval_picture(
            run, "parity", own, {"parity_reinforce_": "REINFORCE", "parity_dqn_": "DQN"},
            "Coverage gap of agents that are paid for coverage",
            Axis("gap between best and worst served quintile", "percent", includes=(0.0,)),
            "Left of the line is what the paper's gate would pass.", Reference(paper.TAU, "0.05"),
        ),
        *_interval_picture(
            run, "price", own, {"price_reinforce_": "REINFORCE", "price_dqn_": "DQN"},
            "Throughput given up for it",
            Axis("share of correct escalations", "percent", includes=(0.0, 0.07)),
            "The paper says 4 to 7 %.", Reference(paper.EQUITY_PRICE[0], "4 %, the paper's least"),
        ),
    )  # fmt: skip


def _grid_figures(evidence: Evidence | None, own: list[dict[str, Any]]) -> list[Figure]:
    """Detection by ratio; of kept figures the points alone, from the claim's words."""
    if evidence is not None:
        samples, resamples = grid_detection(evidence)
        return [resamples.figure(column) for column in samples.T]
    words = next((row["ours"] for row in own if row["key"] == "grid_rises"), "")
    found = [float(one.split(" at ")[0]) for one in words.split(", ") if " at " in one]
    return [Figure(value, value, value, 0.0) for value in found]


def _grid_picture(
    run: RunWriter, evidence: Evidence | None, own: list[dict[str, Any]]
) -> tuple[Picture, ...]:
    found = _grid_figures(evidence, own)
    if len(found) != len(MISS_RATIOS):
        return ()
    run.add_table(
        "grid",
        [
            {"ratio": ratio, "detection": f.value, "lower": f.lower, "upper": f.upper,
             "published": paper.GRID_DETECTION.get(ratio)}
            for ratio, f in zip(MISS_RATIOS, found, strict=True)
        ],
    )  # fmt: skip
    has_intervals = evidence is not None
    lines = [
        Line("ours", MISS_RATIOS, [f.value for f in found],
             *(([f.lower for f in found], [f.upper for f in found]) if has_intervals else ())),
        Line("published", list(paper.GRID_DETECTION), list(paper.GRID_DETECTION.values())),
    ]  # fmt: skip
    title = "Detection against the cost of a miss, over 128 settings"
    run.draw(
        "grid", line_chart, lines, title=title,
        x_axis=Axis("cost of a miss, in visits for nothing"), y_axis=Axis("detection", "percent"),
    )  # fmt: skip
    return (
        Picture(
            "grid", title=title,
            caption="Each point is the mean of the 16 settings of one ratio; the paper gives its "
            "ends.",
            alt="Detection rises or falls with the ratio of the cost of a miss to that of a visit.",
            table=TableView("grid"),
        ),
    )  # fmt: skip


def _elevator_picture(run: RunWriter, own: list[dict[str, Any]]) -> tuple[Picture, ...]:
    today = paper.ELEVATOR_TABLE["BALANCED"][0]
    by_key = {row["key"]: row for row in own}
    ours, published, rows = [], [], []
    for name in POLICIES:
        row = by_key.get(f"elevator_{name.lower()}")
        if row is None or row["value"] is None or not math.isfinite(row["value"]):
            continue
        ratio = paper.ELEVATOR_TABLE[name][0] / today
        lower, upper = row["interval"] or (float("nan"), float("nan"))
        ours.append(Estimate(name, row["value"], lower, upper))
        published.append(Estimate(name, ratio))
        rows.append({"policy": name, "published": ratio, "ours": row["value"], "lower": lower,
                     "upper": upper})  # fmt: skip
    if not rows:
        return ()
    run.add_table("elevator-table", rows)
    title = "Backlog of ten policies, over BALANCED's"
    run.draw(
        "elevator-table", interval_plot, [Series("ours", ours), Series("published", published)],
        title=title, axis=Axis("reward over BALANCED's (lower is better)"),
        reference=Reference(1.0, "BALANCED"),
    )  # fmt: skip
    return (
        Picture(
            "elevator-table", title=title,
            caption="One is today's rule; below it, less is left open.",
            alt="Ten policies of the elevator domain, published and ours, relative to BALANCED.",
            table=TableView("elevator-table"),
        ),
    )  # fmt: skip


def _programme(run: RunWriter, programme: list[dict[str, Any]]) -> Section:
    run.add_table("programme", programme)
    return Section(
        heading="What was run, beside what the paper gives",
        text=(
            "Every job with its features, settings, equity term, split, rows and seeds; the last "
            "column names each setting that is not the published one. Where the paper gives none, "
            "ours is not a difference.",
        ),
        tables=(TableView("programme", max_rows=200),),
    )


def _protocols(run: RunWriter, programme: list[dict[str, Any]]) -> Section:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for job in sorted(programme, key=lambda job: (job["scenario"], job["part"])):
        own = {name: job.get(name) for name in SPLIT}
        row = rows.setdefault((job["scenario"], job["part"]), {**own, "agents": []})
        row["agents"].append(job["agent"])
    run.add_table(
        "protocols", [{**row, "agents": ", ".join(row["agents"])} for row in rows.values()]
    )
    seeds = sorted({int(seed) for job in programme for seed in job["seed numbers"].split(", ")})
    return Section(
        heading="How each domain was split, trained and tested",
        text=(
            f"Seeds {', '.join(map(str, seeds))} for every agent; every policy plays the same test "
            "episodes. Scenario measured: people report as measured, visits as in the records. "
            "Scenario strong: the richest quintile reports three times as readily as the poorest, "
            "visits for 30 % of complaints.",
        ),
        tables=(TableView("protocols", max_rows=60),),
    )


def _rules(run: RunWriter) -> Section:
    run.add_table("rules", [{"kind": kind, "rule": rule} for kind, rule in RULES.items()])
    return Section(
        heading="How verdicts are reached",
        text=(
            "By code, from the published figure, ours, and its interval. Intervals are 95 %, from "
            "a bootstrap over training seeds and paired test episodes, around the interquartile "
            "mean over seeds; they take the city as given.",
        ),
        tables=(TableView("rules"),),
    )


def _definitions(run: RunWriter, rows: list[dict[str, Any]]) -> Section:
    run.add_table(
        "definitions",
        [
            {"claim": row["claim"], "where": row["source"], "words": row["quote"],
             "kind": row["kind"], "how": row["definition"]}
            for row in rows
        ],
    )  # fmt: skip
    return Section(
        heading="How each of our figures is computed",
        text=("Section and table numbers are the paper's.",),
        tables=(
            TableView(
                "definitions",
                columns=(
                    Column("claim", "the paper says", number_format="text"),
                    Column("where", "where", number_format="text"),
                    Column("words", "in its words", number_format="text"),
                    Column("kind", "decided by", number_format="text"),
                    Column("how", "ours", number_format="text"),
                ),
                max_rows=300,
            ),
        ),
    )
