"""Judge the kept figures of a reproduction again, by today's claims and rules, without training.

    python -m docs.reproduction_again PRESET    write docs/results/reproduction-PRESET anew

Figures that are still what a claim asks for are judged by today's rule. Where a claim asks for
something that was not measured, or what was measured is not sound, the figure is withdrawn until
the next run: nothing is kept because it was once printed.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from docs.reproduction import RESULTS, keep
from parity311.report.store import start_run
from parity311.storage.strict_json import write_json
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.attribution import BOARD
from parity311.studies.reproduction.claims.claim import Claim, Finding, count_once, judge
from parity311.studies.reproduction.claims.elevator import EQUAL, POLICIES, rows_below
from parity311.studies.reproduction.claims.equity import (
    decide_gradient,
    decide_narrows,
    decide_parity,
    decide_price,
)
from parity311.studies.reproduction.claims.learning import CHAMPIONS
from parity311.studies.reproduction.jobs import make_jobs
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.prepare import RARE
from parity311.studies.reproduction.reproduce import (
    CLAIMS_CSV,
    CLAIMS_JSON,
    PROGRAMME_JSON,
    describe_job,
    write_csv,
)
from parity311.studies.reproduction.verdicts import (
    FAILS,
    HOLDS,
    Decision,
    Measured,
    decide_count,
    decide_order,
    decide_pairs,
    decide_sign,
    untested,
)

Kept = dict[str, dict[str, Any]]
SAME_FIGURE = (
    "throughput_", "mistakes_", "table_", "boiler_reward_lead", "heat_hdqn", "heat_reward_",
    "steady_", "recurrence_", "dominated_", "elevator_balanced_best",
)  # fmt: skip
"""Claims whose words have changed but neither their figure nor their rule."""
OTHER_AGENT = (
    *(f"{what}_{slug}" for what in ("throughput", "mistakes") for slug in CHAMPIONS),
    "steady_elevator",
    "recurrence_heat",
    "no_single_algorithm",
)
"""Claims that were measured with another agent than the paper's."""
SEEN = "scored on years the estimate had seen; withdrawn until re-run"
OTHER = "measured with another agent than the paper's; withdrawn until re-run"
NEW = "not measured in the kept run; open until re-run"
MIXED = "counted domains scored on years the estimate had seen; withdrawn until re-run"
NO_SHARES = "a fact about New York's records, which are not here; this city's shares were not kept"
UNSOUND = "its interval did not contain its own figure; withdrawn until re-run"


def measured(row: dict[str, Any]) -> Measured:
    """A kept figure with its interval."""
    lower, upper = row["interval"] or (math.nan, math.nan)
    value = math.nan if row["value"] is None else float(row["value"])
    return Measured(value, lower, upper, row["ours"])


def number_after(words: str, text: str) -> float:
    """The percentage that follows these words, as a share."""
    found = re.search(re.escape(words) + r" (-?[\d.]+) %", text)
    if found is None:
        raise ValueError(f"no figure after {words!r} in {text!r}")
    return float(found.group(1)) / 100


def gradient(claim: Claim, kept: Kept) -> Finding:
    """A trend, with the margin within which quintiles are served alike."""
    ours = measured(kept[claim.key])
    claimed = +1 if claim.key.startswith("income") else -1
    return Finding(ours, decide_gradient(ours, claimed))


def parity(claim: Claim, kept: Kept) -> Finding:
    """A gap that cannot leave [0, 1], against today's."""
    ours = measured(kept[claim.key])
    today = number_after("today's rule", ours.words)
    lower, upper = max(ours.lower, 0.0), min(ours.upper, 1.0)
    words = (
        f"gap {100 * ours.value:.1f} % ({100 * lower:.1f} to {100 * upper:.1f}); today's rule "
        f"{100 * today:.1f} %"
    )
    ours = Measured(ours.value, lower, upper, words)
    return Finding(ours, decide_parity(ours, today))


def price(claim: Claim, kept: Kept) -> Finding:
    """A price, where parity was reached and there was something to reach."""
    ours = measured(kept[claim.key])
    gap = number_after("at a gap of", ours.words)
    today = number_after("today's rule", kept[claim.key.replace("price_", "parity_")]["ours"])
    decision = decide_price(ours, gap, today)
    if gap > paper.TAU:
        words = f"a gap of {100 * gap:.1f} % is left; today's rule {100 * today:.1f} %"
        return Finding(Measured(math.nan, words=words), decision)
    return Finding(ours, decision)


def narrows(claim: Claim, kept: Kept) -> Finding:
    """A change of the gap; what is left was kept without an interval, so it may be anything."""
    ours = measured(kept[claim.key])
    today, left = (number_after(words, ours.words) for words in ("against", "gap"))
    return Finding(ours, decide_narrows(ours, Measured(left, 0.0, 1.0), today))


def board(claim: Claim, kept: Kept) -> Finding:
    """Seeds in which the named board is among the five heaviest features."""
    ours = measured(kept[claim.key])
    seeds = ours.words.partition("by seed: ")[2].split(", ")
    n_found = sum(BOARD in one.split("/") for one in seeds)
    if n_found == 0:
        return withdrawn("whether this city has that board was not kept")
    return Finding(Measured(float(n_found), words=ours.words), decide_count(n_found, len(seeds)))


def cell(kept: Kept, row: str, column: str) -> float:
    """A cell of our elevator table, as it was printed."""
    found = re.search(
        rf"\b{re.escape(column)} (-?[\d.,]+\d)", kept[f"elevator_{row.lower()}"]["ours"]
    )
    if found is None:
        raise ValueError(f"no {column} of {row} was kept")
    return float(found.group(1).replace(",", ""))


def lead(kept: Kept, first: str, second: str) -> Measured:
    """How far one policy is ahead, in BALANCED's rewards; rewards are negative.

    The two intervals are subtracted end from end: wider than the paired one, never narrower.
    """
    mine, theirs = (measured(kept[f"elevator_{row.lower()}"]) for row in (first, second))
    return Measured(theirs.value - mine.value, theirs.lower - mine.upper, theirs.upper - mine.lower)


def elevator_row(claim: Claim, kept: Kept) -> Finding:
    """A policy against those the table puts below it."""
    row = next(name for name in POLICIES if claim.key == f"elevator_{name.lower()}")
    values = {name: measured(kept[f"elevator_{name.lower()}"]).value for name in POLICIES}
    place = sorted(values, key=lambda name: values[name]).index(row) + 1
    own = measured(kept[claim.key])
    words = f"place {place} of {len(POLICIES)}; {own.words}"
    pairs = {name: lead(kept, row, name) for name in rows_below(row)}
    return Finding(Measured(own.value, own.lower, own.upper, words), decide_pairs(pairs, EQUAL))


def elevator_order(claim: Claim, kept: Kept) -> Finding:
    """Share of pairs in the published order, between those clear and those not clearly reversed."""
    del claim
    same, clear, possible = [], [], []
    apart = EQUAL * abs(paper.ELEVATOR_TABLE["BALANCED"][0])
    for first, second in combinations(POLICIES, 2):
        published = paper.ELEVATOR_TABLE[first][0] - paper.ELEVATOR_TABLE[second][0]
        if abs(published) > apart:
            ours, sign = lead(kept, first, second), 1 if published > 0 else -1
            same.append(sign * ours.value > 0)
            clear.append(decide_sign(ours, sign).verdict == HOLDS)
            possible.append(decide_sign(ours, sign).verdict != FAILS)
    share, lower, upper = (sum(each) / len(each) for each in (same, clear, possible))
    words = f"{100 * share:.0f} % of the pairs ({100 * lower:.0f} to {100 * upper:.0f})"
    ours = Measured(share, lower, upper, words)
    return Finding(ours, decide_order(ours))


def elevator_column(claim: Claim, kept: Kept) -> Finding:
    """An order of points without intervals: shown, not judged."""
    column, place = {"a30": ("A30", 1), "s": ("S", 2), "act": ("Act.", 3)}[
        claim.key.removeprefix("elevator_order_")
    ]
    agree = []
    for first, second in combinations(POLICIES, 2):
        one, other = (paper.ELEVATOR_TABLE[name][place] for name in (first, second))
        if one is not None and other is not None and one != other:
            ours = cell(kept, first, column) - cell(kept, second, column)
            agree.append(ours * (one - other) > 0)
    words = f"{100 * sum(agree) / len(agree):.0f} % of the pairs; no interval was kept"
    return Finding(Measured(math.nan, words=words), untested("no interval was kept"))


def elevator_level(claim: Claim, kept: Kept) -> Finding:
    """BALANCED's backlogs and activity, of which only the points were kept."""
    shown = ", ".join(f"{name} {cell(kept, 'BALANCED', name):g}" for name in ("A30", "S", "Act."))
    return Finding(
        Measured(math.nan, words=f"{shown}; no interval was kept"), untested("no interval was kept")
    )


def withdrawn(reason: str) -> Finding:
    """A figure that is not judged, and why."""
    return Finding(Measured(math.nan, words="–"), untested(reason))


AGAIN: dict[str, Callable[[Claim, Kept], Finding]] = {
    "income_gradient_": gradient,
    "race_gradient_": gradient,
    "parity_": parity,
    "price_": price,
    "narrows_": narrows,
    "board": board,
    "elevator_order_reward": elevator_order,
    "elevator_order_": elevator_column,
    "elevator_level": elevator_level,
    "elevator_outcomes": lambda claim, kept: withdrawn(NO_SHARES),
    **{f"elevator_{name.lower()}": elevator_row for name in POLICIES},
}
"""How a kept figure is judged again, by a claim's key, or its beginning where it ends in _."""


def find_again(claim: Claim, kept: Kept, is_seen: bool) -> Finding:
    """What today's claim makes of the kept figures."""
    row = kept.get(claim.key)
    if is_seen and any(slug in RARE for slug in claim.domains):
        return withdrawn(SEEN)
    if is_seen and claim.key == "no_single_algorithm":
        return withdrawn(MIXED)
    if claim.key in OTHER_AGENT:
        return withdrawn(OTHER)
    for name, test in AGAIN.items():
        if claim.key == name or (name.endswith("_") and claim.key.startswith(name)):
            try:
                return test(claim, kept)
            except KeyError:
                return withdrawn(NEW)
    is_same = row is not None and row["definition"] == claim.definition
    if row is not None and (is_same or claim.key.startswith(SAME_FIGURE)):
        ours = measured(row)
        if not ours.is_sound:
            return withdrawn(UNSOUND)
        return Finding(ours, Decision(row["verdict"], row["reason"]))
    return withdrawn(NEW)


class NoEvidence:
    """Nothing but the paper: what its own figures and words decide."""

    domains: tuple[str, ...] = ()
    untested: dict[str, str] = {}  # noqa: RUF012


def judge_again(kept: Kept, is_seen: bool) -> list[dict[str, Any]]:
    """Every claim of today on kept figures."""
    rows = []
    for claim in all_claims():
        if claim.kind in ("arithmetic", "text") or (claim.kind == "untested" and not claim.domains):
            rows.append(judge(claim, cast(Any, NoEvidence())))
            continue
        finding = find_again(claim, kept, is_seen)
        bare = Claim(**{**vars(claim), "domains": (), "test": lambda _, found=finding: found})
        rows.append(judge(bare, cast(Any, NoEvidence())))
    return count_once(rows)


def complete(kept: Kept) -> list[dict[str, Any]]:
    """Rows that were judged again before, less claims that are gone; new ones are withdrawn."""
    rows = []
    for claim in all_claims():
        found = withdrawn(NEW)
        bare = Claim(**{**vars(claim), "domains": (), "test": lambda _, found=found: found})
        row = kept.get(claim.key) or judge(bare, cast(Any, NoEvidence()))
        rows.append({**row, "value": math.nan if row["value"] is None else row["value"]})
    return rows


def write_again(preset: str) -> Path:
    """Judge a preset's kept figures again and keep what comes of it."""
    folder = RESULTS / f"reproduction-{preset}"
    kept = {row["key"]: row for row in json.loads((folder / CLAIMS_JSON).read_text())}
    manifest = json.loads((folder / "run.json").read_text())
    config = manifest["config"]
    earlier = config.get("judged_again") or manifest["id"]
    is_seen = "scored in the true process of all years" in (folder / "report.html").read_text()
    rows = complete(kept) if "judged_again" in config else judge_again(kept, is_seen)
    jobs = make_jobs(tuple(config["domains"]), preset, config["seed"])
    programme = [describe_job(job) for job in jobs]
    note = (
        f"Judged again from the figures kept of run {earlier}, nothing retrained; figures "
        "that today's claims ask for and that run did not keep, or not soundly, are withdrawn "
        "until it is run again."
    )
    with tempfile.TemporaryDirectory() as runs:
        with start_run(Path(runs), "reproduce", {**config, "judged_again": earlier}) as run:
            run.set_seeds(**manifest["seeds"])
            for source in manifest["data"]:
                given = dict(source)
                run.add_data(given.pop("name"), given.pop("fingerprint"), **given)
            run.add_metrics({"claims": rows})
            write_json(run.path / CLAIMS_JSON, rows)
            write_csv(run.path / CLAIMS_CSV, rows)
            write_json(run.path / PROGRAMME_JSON, programme)
            run.add_table(
                "claims", [{"key": row["key"], "verdict": row["verdict"]} for row in rows]
            )
            write_page(run, None, rows, programme, note=note)
        return keep(run.final_path)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(write_again(given))
