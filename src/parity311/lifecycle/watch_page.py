"""What a look at the policy in office comes to: a page, and a file of metrics for Prometheus."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from parity311.audit.spec import AuditSpec
from parity311.lifecycle.drift import DriftRow
from parity311.lifecycle.lights import AMBER, GREEN, GREY, RED, Light, without_path, worst
from parity311.lifecycle.registry import RegisteredPolicy
from parity311.pipelines.audit_records import add_records
from parity311.records.store import Records
from parity311.report.pictures.axis import Axis
from parity311.report.pictures.curves import line_chart
from parity311.report.pictures.data import Line, Reference
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import start_run
from parity311.service_levels.kept import KeptPromises
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors

Tone = Literal["neutral", "good", "bad", "unsure"]
TONES: dict[str, Tone] = {GREEN: "good", AMBER: "unsure", RED: "bad", GREY: "neutral"}
NUMBERS = {GREY: -1, GREEN: 0, AMBER: 1, RED: 2}
MUCH = 1_000_000
"""Evidence beyond which a page says no more than that."""
TITLES = {
    "disparity": "(a) disparity beyond the baseline",
    "detection": "(b) defects found, against today's rule",
    "friction": "(c) staff friction",
}
MEANS = {
    GREEN: "nothing speaks against it",
    AMBER: "look closely",
    RED: "stop it: today's rule decides until a named person resumes it",
}


@dataclass(frozen=True)
class Watched:
    """What a look found."""

    domain: str
    policy: RegisteredPolicy
    since: date
    until: date
    lights: tuple[Light, ...]
    audit: dict[str, Any]
    """verdicts of what was recorded since, as plain values"""
    drift: tuple[DriftRow, ...]
    notes: tuple[str, ...]
    kept: KeptPromises | None = None
    """promises that were kept, where service levels are in force"""
    seen: str | None = None
    """last act on the domain before the look, which an act in its wake rests on"""
    log_head: str = ""
    """last hash of the registry's log then: a page is outside of the database"""

    @property
    def state(self) -> str:
        """The gravest of the lights."""
        return worst(self.lights)

    def describe(self) -> dict[str, Any]:
        """As plain values, without the history of the lights."""
        return {
            "domain": self.domain,
            "version": self.policy.version,
            "policy_state": self.policy.state,
            "since": self.since,
            "until": self.until,
            "state": self.state,
            "lights": [asdict(without_path(one)) for one in self.lights],
            "audit": self.audit,
            "drift": [asdict(one) for one in self.drift],
            "notes": list(self.notes),
            "promises": None if self.kept is None else self.kept.describe(),
            "log_head": self.log_head,
        }


def write_watch(watched: Watched, records: Records, audit: AuditSpec, runs: Path, done: str) -> str:
    """Write the page of a look as a run; where it lies."""
    config = {"domain": watched.domain, "version": watched.policy.version, "audit": audit}
    with start_run(runs, f"watch {watched.domain}", config) as run:
        add_records(run, records)
        run.set_seeds(audit=audit.seed)
        run.add_table("lights", [_light_row(one) for one in watched.lights])
        run.add_table("drift", [asdict(one) for one in watched.drift])
        run.add_table("verdicts", [_verdict_row(row) for row in watched.audit["verdicts"]])
        if watched.kept is not None:
            run.add_table("promises", kept_rows(watched.kept))
        pictures = _draw(run, watched)
        run.add_metrics(watched.describe() | {"done": done})
        run.set_report(_report(watched, done, pictures))
    return str(run.final_path / "report.html")


def _light_row(light: Light) -> dict[str, Any]:
    return {
        "light": TITLES[light.name],
        "state": light.state,
        "evidence": light.evidence,
        "shown": f"{light.evidence:.2f}" if light.evidence < MUCH else f"over {MUCH:,}",
        "limit": light.limit,
        "tripped_on": str(light.tripped_on or ""),
        "what": light.words,
    }


def _verdict_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("strata", "denominator", "verdict", "reason")}


def _draw(run: Any, watched: Watched) -> tuple[Picture, ...]:
    """How the evidence of each light went, in powers of ten."""
    lines, rows = [], []
    for one in watched.lights:
        if len(one.path) > 1:
            levels = [math.log10(max(value, 1e-2)) for _, value in one.path]
            lines.append(Line(one.name, [day for day, _ in one.path], levels))
            rows += [
                {"light": one.name, "day": str(day), "evidence": value} for day, value in one.path
            ]
    if not lines:
        return ()
    run.add_table("evidence", rows)
    limit = math.log10(watched.lights[0].limit)
    run.draw(
        "evidence", line_chart, lines,
        title="Evidence against each condition",
        x_axis=Axis("day"), y_axis=Axis("evidence, powers of ten", includes=(0.0, limit)),
        reference=Reference(limit, "red from here"),
    )  # fmt: skip
    said = "; ".join(f"{one.name} ends at {one.evidence:.3g}" for one in watched.lights)
    return (
        Picture(
            "evidence",
            "A line that crosses the dashed one turns its light red, whenever anybody looks.",
            f"Evidence by day for each light: {said}; the limit is {watched.lights[0].limit:g}.",
            TableView("evidence"),
        ),
    )


def _report(watched: Watched, done: str, pictures: tuple[Picture, ...]) -> Report:
    policy, state = watched.policy, watched.state
    acted = {"suspend": " It was suspended.", "watch": " It is looked at closely now."}.get(
        done, ""
    )
    moved = [one.what for one in watched.drift if one.is_moved]
    verdicts = watched.audit["verdicts"]
    worst_row = next(
        (row for v in ("FAIL", "INSUFFICIENT", "PASS") for row in verdicts if row["verdict"] == v),
        {"verdict": "INSUFFICIENT", "denominator": "complaints"},
    )
    return Report(
        title=f"{watched.domain}: {policy.version} since {watched.since}",
        summary=(
            f"The lights are {state}: {MEANS[state]}.{acted}",
            f"{policy.version} is {policy.state}; the audit of what was recorded since says "
            f"{worst_row['verdict']} at worst, counted by {worst_row['denominator']}.",
            f"Moved since: {'; '.join(moved)}." if moved else "Nothing clearly moved since.",
        ),
        figures=tuple(
            KeyFigure(TITLES[one.name], one.state, note=one.words, tone=TONES[one.state])
            for one in watched.lights
        ),
        sections=(
            Section(
                "Three lights",
                (
                    "Each light weighs evidence that its condition is met; evidence may be looked "
                    "at on any day without raising false alarms.",
                ),
                pictures=pictures,
                tables=(TableView("lights", (
                    Column("light", "condition"), Column("state", "light"),
                    Column("shown", "evidence"), Column("limit", "red from"),
                    Column("tripped_on", "red since"), Column("what", "what was seen"),
                )),),
                notes=(
                    "All three together alarm falsely in at most one of twenty years without a "
                    "fault. Grey means that it cannot be judged: see what it lacks.",
                    *watched.notes,
                    "The registry's log ended with this entry when the look began; whether it "
                    f"still holds it: `parity311 policies verify --head {watched.log_head}`.",
                ),
            ),
            *_promises(watched.kept),
            Section(
                "Audit",
                (f"Who was served from {watched.since} to {watched.until}, as recorded.",),
                tables=(TableView("verdicts"),),
            ),
            Section(
                "What moved",
                ("The last four weeks beside the year before the policy decided.",),
                tables=(TableView("drift"),),
                notes=("Seasons move these figures too: a shift is a question, not a verdict.",),
            ),
        ),
    )  # fmt: skip


def kept_rows(kept: KeptPromises) -> list[dict[str, Any]]:
    """A row a cell, the whole first."""
    return [asdict(one) for one in (kept.whole, *kept.cells)]


KEPT_COLUMNS = (
    Column("category", "category"), Column("district", "district"), Column("days", "days"),
    Column("n_due", "requests due"), Column("n_overdue", "still not visited"),
    Column("kept_share", "kept", number_format="percent"),
    Column("lower", "at least", number_format="percent"),
    Column("upper", "at most", number_format="percent"),
    Column("evidence", "evidence of a breach", decimals=2), Column("is_broken", "broken"),
)  # fmt: skip


def _promises(kept: KeptPromises | None) -> list[Section]:
    """What was kept of the service levels in force."""
    if kept is None:
        return []
    broken = [one for one in kept.cells if one.is_broken]
    named = "; ".join(f"{one.category} in {one.district}" for one in broken[:5])
    return [
        Section(
            "Promises",
            (
                f"Promised is a visit in time to {kept.share:.0%} of ALL requests. Counted are "
                "requests whose day has passed, open ones included.",
                f"Broken, by evidence that may be looked at on any day: {named}."
                if broken
                else "No promise is shown to be broken.",
            ),
            tables=(TableView("promises", KEPT_COLUMNS),),
            notes=(
                f"{kept.n_without:,} requests were promised nothing. Bands hold on all days at "
                "once; a cell that keeps its promise is called broken in at most one of twenty "
                "years. Shares of fewer than ten requests are not shown.",
            ),
        )
    ]


def write_metrics(path: Path, watched: Watched) -> Path:
    """Write metrics in Prometheus' text format, in one step for whoever scrapes them."""
    name = f'domain="{watched.domain}",version="{watched.policy.version}"'
    lines: list[str] = []

    def add(metric: str, words: str, rows: list[tuple[str, float | None]]) -> None:
        lines.extend((f"# HELP {metric} {words}", f"# TYPE {metric} gauge"))
        for label, value in rows:
            shown = "NaN" if value is None or math.isnan(value) else f"{value:.10g}"
            lines.append(f"{metric}{{{name}{label}}} {shown}")

    lit = [(f',light="{one.name}"', one) for one in watched.lights]
    add("parity311_light", "-1 not judged, 0 green, 1 amber, 2 red.",
        [(label, NUMBERS[one.state]) for label, one in lit])  # fmt: skip
    add("parity311_light_evidence", "E-value of the light.",
        [(label, one.evidence) for label, one in lit])  # fmt: skip
    add("parity311_light_limit", "E-value from which it is red.",
        [(label, one.limit) for label, one in lit])  # fmt: skip
    add("parity311_light_value", "What the light measures.",
        [(label, one.value) for label, one in lit])  # fmt: skip
    add("parity311_policy_in_office", "1 for the state it is in.",
        [(f',state="{watched.policy.state}"', 1.0)])  # fmt: skip
    add("parity311_drift", "Index of a mixture, or ratio of a rate.",
        [(f',what="{one.what}",measure="{one.measure}"', one.value)
         for one in watched.drift])  # fmt: skip
    if watched.kept is not None:
        cells = [
            (f',district="{_label(one.district)}",category="{_label(one.category)}"', one)
            for one in (watched.kept.whole, *watched.kept.cells)
        ]
        add("parity311_promises_kept", "Share of due requests visited in time.",
            [(label, one.kept_share) for label, one in cells])  # fmt: skip
        add("parity311_promises_broken", "1 where evidence says that fewer are kept than promised.",
            [(label, float(one.is_broken)) for label, one in cells])  # fmt: skip
    with telling_disk_errors(path):
        return write_text_aside(path, "\n".join(lines) + "\n")


def _label(text: str) -> str:
    """A value as Prometheus quotes it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
