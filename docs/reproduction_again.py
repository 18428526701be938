"""Judge the kept figures of a reproduction again, by today's claims and rules, without training.

    python -m docs.reproduction_again small small-paper    write docs/results/reproduction-* anew
    python -m docs.reproduction_again small --anew RUN     with what a run of some domains measured

RUN is the folder of a run of `parity311 reproduce --domains …`: its domains' claims, prices and
jobs take the place of the kept ones, or stand beside them where the kept run left them out.

A figure that is still what its claim asks for is judged by today's rule. Where a claim asks for
something that was not measured, or what was measured is not sound, the figure is withdrawn until
the next run: nothing is kept because it was once printed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from docs.reproduction import PROGRAMMES, RESULTS, keep
from parity311.report.store import start_run
from parity311.resampling import Figure
from parity311.storage.strict_json import write_json
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.attribution import NO_BURDEN, decide_weight
from parity311.studies.reproduction.claims.boiler import FEES, decide_rises
from parity311.studies.reproduction.claims.claim import Claim, Finding, count_once, judge
from parity311.studies.reproduction.claims.elevator import (
    FIRST_DAY,
    PLAYED_IN_BOTH,
    decide_in_both,
    why_level,
)
from parity311.studies.reproduction.claims.equity import decide_gradient, not_of_the_paper
from parity311.studies.reproduction.claims.learning import (
    ASKED,
    EQUAL_CORRECT,
    EQUAL_MISTAKES,
    NO_DRONES,
    decide_hdqn,
    decide_transfer,
)
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.programme import OURS
from parity311.studies.reproduction.protocols import RESIDENTIAL, parts_of
from parity311.studies.reproduction.published import SNAD_COMPLAINTS
from parity311.studies.reproduction.reproduce import (
    CLAIMS_CSV,
    CLAIMS_JSON,
    PRICES_JSON,
    PROGRAMME_JSON,
    flat_row,
    set_beside,
    write_csv,
)
from parity311.studies.reproduction.verdicts import (
    FAILS,
    HOLDS,
    NOT_CLAIMED,
    RECORDS,
    UNTESTED,
    Decision,
    Measured,
    as_level,
    decide_shown,
    decide_sign,
    untested,
)

Row = dict[str, Any]
Kept = dict[str, Row]
NEW = "not measured in the kept run; open until re-run"
NOT_THERE = "not played in the kept run"
UNSOUND = "its interval did not contain its own figure; withdrawn until re-run"


def measured(row: Row) -> Measured:
    """A kept figure with its interval."""
    lower, upper = row["interval"] or (math.nan, math.nan)
    value = math.nan if row["value"] is None else float(row["value"])
    return Measured(value, lower, upper, row["ours"])


def within_range(row: Row, gap_today: float = math.nan) -> Row:
    """A row whose interval ends where its figure does, as it is told now.

    A rate ends at everything; nobody makes fewer mistakes than none; a gap can fall by no more than
    there is (`gap_today`, in points), and rise to everything.
    """
    key, words = row["key"], row["ours"]
    if row["interval"] is None:
        return row
    lower, upper = row["interval"]
    if key.startswith("table_"):
        words = re.sub(r" to 1\.\d+\)", " to 1.000)", words)
        lower, upper = max(lower, 0.0), min(upper, 1.0)
    if key.startswith("snad_enforcements_"):
        lower, upper = max(lower, 0.0), min(upper, float(SNAD_COMPLAINTS))
        words = end_words(words, (0.0, float(SNAD_COMPLAINTS)), 1, "")
    if key.startswith("mistakes_"):
        today = told_of_today(row)
        lower, words = max(lower, -today / 100), end_words(words, (-today, math.inf), 2, "+")
    if key.startswith(("narrows_", "dominated_")):
        least, most = -gap_today, 100 - gap_today
        words = end_words(words, (least, most), 1, "+")
        if key.startswith("narrows_"):
            lower, upper = max(lower, least / 100), min(upper, most / 100)
    return {**row, "ours": words, "interval": [lower, upper]}


def end_words(words: str, ends: tuple[float, float], digits: int, sign: str) -> str:
    """Words whose last interval ends at these; a minus zero is none."""
    found = [*re.finditer(r"\(([-+]?[\d.]+) to ([-+]?[\d.]+)\)", words)]
    if not found:
        return words
    told = (min(max(float(end), ends[0]), ends[1]) for end in found[-1].groups())
    lower, upper = (f"{end:{sign}.{digits}f}" for end in told)
    return f"{words[: found[-1].start()]}({lower} to {upper}){words[found[-1].end() :]}"


def told_of_today(row: Row) -> float:
    """What is told of today's rule beside ours."""
    found = re.search(r" against ([\d.]+)", row["ours"])
    return float(found.group(1)) if found else math.nan


def as_kept(row: Row) -> Decision:
    """The decision a row was kept with."""
    return Decision(row["verdict"], row["reason"])


def shown(row: Row) -> Decision:
    """What the paper asks of a domain and does not answer."""
    if row["key"].startswith("throughput_"):
        return decide_shown(measured(row), +1, margin=EQUAL_CORRECT, why=ASKED)
    return decide_shown(measured(row), -1, margin=EQUAL_MISTAKES, why=ASKED)


def level(hangs_on: str, *, has_sign: bool = False) -> Callable[[Row], Decision]:
    """A value that can be met here, not refuted; where it has a sign, that can."""

    def decide(row: Row) -> Decision:
        if has_sign and decide_sign(measured(row), +1).verdict == FAILS:
            return Decision(FAILS, "our whole interval lies on the other side of zero")
        return as_level(as_kept(row), hangs_on)

    return decide


def gradient(row: Row) -> Decision:
    """A trend across quintiles."""
    return decide_gradient(measured(row), +1 if row["key"].startswith("income") else -1)


def transfer(row: Row) -> Decision:
    """A held-out year beside a later one, of which runs of before kept the point alone."""
    return decide_transfer(measured(row), Measured(later_of(row["ours"])))


def later_of(words: str) -> float:
    """What is told of 2025, as a share."""
    found = re.search(r"; ([-+][\d.]+) %.* on 2025", words)
    if found is None:
        raise ValueError(f"no figure of 2025 in {words!r}")
    return float(found.group(1)) / 100


def rises(row: Row) -> Decision:
    """Detection by ratio, of which the points were kept; a step counts as it stands."""
    points = [float(one.split(" at ")[0]) for one in row["ours"].split(", ")]
    steps = [Figure(b - a, b - a, b - a, 0.0) for a, b in pairwise(points)]
    lower, upper = row["interval"]
    return decide_rises(steps, Figure(row["value"], lower, upper, 0.0), row["n_grid_seeds"])


def order_of_elevators(row: Row) -> Decision:
    """An order that was played in this city's office alone: it can hold here, not fail."""
    if row["verdict"] == UNTESTED or PLAYED_IN_BOTH in row["reason"]:
        return as_kept(row)
    if row["verdict"] == HOLDS:
        here = row["reason"].partition(f"; {NOT_THERE}")[0]
        return Decision(HOLDS, f"{here}; {NOT_THERE} with the table's stock and visits")
    return decide_in_both(as_kept(row), untested(NOT_THERE))


def the_level_of_elevators(row: Row) -> Decision:
    """A30, S and activity, with what the table's rows say of the office behind them."""
    found = as_level(Decision(row["verdict"], row["reason"].partition("; its ")[0]), FIRST_DAY)
    return Decision(found.verdict, f"{found.reason.partition('; its ')[0]}; {why_level()}")


def equity(row: Row) -> Decision:
    """Parity, its price and what is left: as it was judged, where the paper speaks of the domain.

    Nothing changed but that elevator is shown and not counted.
    """
    if row["domains"][0] in RESIDENTIAL or row["verdict"] == NOT_CLAIMED:
        return as_kept(row)
    return not_of_the_paper(gradient(row) if "gradient" in row["key"] else as_kept(row))


def weight(row: Row) -> Decision:
    """Which features weigh more."""
    return decide_weight(measured(row))


AGAIN: dict[str, Callable[[Row], Decision]] = {
    "throughput_": shown,
    "mistakes_": shown,
    "heat_closed_": level(RECORDS, has_sign=True),
    "heat_hdqn": lambda row: decide_hdqn(measured(row)),
    "snad_actionable_": level(RECORDS),
    "snad_enforcements_": level(RECORDS),
    "drone_": level(NO_DRONES),
    "transfer_": transfer,
    "table_": level(FEES),
    "boiler_recall_lead": level(FEES, has_sign=True),
    "grid_rises": rises,
    "grid_": level(FEES),
    "elevator_level": the_level_of_elevators,
    "elevator_": order_of_elevators,
    "income_gradient_elevator": equity,
    "race_gradient_elevator": equity,
    "income_gradient_": gradient,
    "race_gradient_": gradient,
    "parity_": equity,
    "price_": equity,
    "narrows_": equity,
    "recurrence_": weight,
    "board": level(NO_BURDEN),
}
"""How a kept figure is judged again, by a claim's key, or its beginning where it ends in _."""


def find_again(claim: Claim, row: Row | None) -> Finding:
    """What today's claim makes of a kept figure."""
    if row is None:
        return withdrawn(NEW)
    ours = measured(row)
    if not ours.is_sound:
        return withdrawn(UNSOUND)
    for name, decide in AGAIN.items():
        is_it = claim.key == name or (name.endswith("_") and claim.key.startswith(name))
        if is_it and row["ours"] != "–":
            return Finding(ours, decide(row))
    if row["ours"] == "–" or row["definition"] == claim.definition:
        return Finding(ours, as_kept(row))
    return withdrawn(NEW)


def withdrawn(reason: str) -> Finding:
    """A figure that is not judged, and why."""
    return Finding(Measured(math.nan, words="–"), untested(reason))


class NoEvidence:
    """Nothing but the paper: what its own figures and words decide."""

    domains: tuple[str, ...] = ()
    untested: dict[str, str] = {}  # noqa: RUF012


def judge_again(kept: Kept) -> list[Row]:
    """Every claim of today on kept figures."""
    rows = []
    for claim in all_claims():
        if claim.kind in ("arithmetic", "text") or (claim.kind == "untested" and not claim.domains):
            rows.append(judge(claim, cast(Any, NoEvidence())))
            continue
        found = find_again(claim, kept.get(claim.key))
        bare = Claim(**{**vars(claim), "domains": (), "test": lambda _, found=found: found})
        row = judge(bare, cast(Any, NoEvidence()))
        rows.append({**row, "domains": list(claim.domains)})
    return count_once(rows)


def read_kept(folder: Path) -> Kept:
    """The claims of a kept run, with what a rule asks of its jobs."""
    rows = json.loads((folder / CLAIMS_JSON).read_text())
    jobs = json.loads((folder / "programme.json").read_text())
    n_seeds = next((job["seeds"] for job in jobs if job["agent"] == "grid"), 0)
    gaps = {
        row["domains"][0]: told_of_today(row) for row in rows if row["key"].startswith("narrows_")
    }
    return {
        row["key"]: {
            **within_range(row, gaps.get(next(iter(row["domains"]), ""), math.nan)),
            "n_grid_seeds": n_seeds,
        }
        for row in rows
    }


def read_jobs(folder: Path) -> list[Row]:
    """What a kept run trained."""
    return json.loads((folder / "programme.json").read_text())


def beside_again(folder: Path, rows: list[Row]) -> list[Row]:
    """Rows with what the other programme found in the same city, judged again too."""
    name, mark = folder.name, PROGRAMMES["paper"]
    other = folder.with_name(name.removesuffix(mark) if name.endswith(mark) else f"{name}{mark}")
    if not (other / CLAIMS_JSON).exists():
        return rows
    is_paper = other.name.endswith(mark)
    found = {
        "programme": "paper" if is_paper else OURS.name,
        "claims": judge_again(read_kept(other)),
        "jobs": read_jobs(other),
    }
    return set_beside(rows, found, read_jobs(folder))


def set_anew(folder: Path, run: Path) -> Row:
    """Put what a run of some domains measured beside, or in the place of, what was kept.

    It must be of the same programme, preset and seed, and where a domain was kept before of the
    same cities byte for byte; the manifest of both.
    """
    kept, fresh = (json.loads((one / "run.json").read_text()) for one in (folder, run))
    slugs, before = fresh["config"]["domains"], kept["config"]["domains"]
    cities = [(one["name"], one["fingerprint"]) for one in kept["data"]]
    others = [one for one in fresh["data"] if (one["name"], one["fingerprint"]) not in cities]
    same = ("preset", "seed", "programme")
    is_other = any(kept["config"].get(name) != fresh["config"].get(name) for name in same)
    if is_other or (others and set(slugs) & set(before)):
        raise SystemExit(f"{run} is of another programme, preset, seed or city than {folder}.")
    parts = {part.name for slug in slugs for part in parts_of(slug)}
    is_new: dict[str, Callable[[Row], bool]] = {
        PRICES_JSON: lambda row: row["domain"] in slugs,
        PROGRAMME_JSON: lambda row: row["part"] in parts,
    }
    for name, taken in is_new.items():
        old, new = (json.loads((one / name).read_text()) for one in (folder, run))
        rows = [row for row in old if not taken(row)] + [row for row in new if taken(row)]
        write_json(folder / name, rows)
    old, new = (json.loads((one / CLAIMS_JSON).read_text()) for one in (folder, run))
    # What is said of all domains is told by the run that has more of them.
    more = len(slugs) > len(before)
    by_key = {
        row["key"]: row
        for row in new
        if set(row["domains"]) <= set(slugs) and (row["domains"] or more)
    }
    write_json(folder / CLAIMS_JSON, [by_key.get(row["key"], row) for row in old])
    anew = {**kept["config"].get("anew", {}), **dict.fromkeys(slugs, fresh["id"])}
    domains = [*before, *(slug for slug in slugs if slug not in before)]
    n_jobs = len(json.loads((folder / PROGRAMME_JSON).read_text()))
    config = {**kept["config"], "domains": domains, "n_jobs": n_jobs, "anew": anew}
    return {**kept, "config": config, "data": [*kept["data"], *others]}


def write_again(name: str, anew: Path | None = None) -> Path:
    """Judge the figures of a kept run again and keep what comes of it."""
    folder = RESULTS / f"reproduction-{name}"
    manifest = json.loads((folder / "run.json").read_text())
    manifest = set_anew(folder, anew) if anew else manifest
    config = manifest["config"]
    earlier = config.get("judged_again") or manifest["id"]
    later = config.get("anew", {})
    rows = beside_again(folder, judge_again(read_kept(folder)))
    jobs, prices = read_jobs(folder), json.loads((folder / PRICES_JSON).read_text())
    measured_later = f" All but {', '.join(later)}, measured later." if later else ""
    note = (
        f"Judged again, by today's rules, from the figures kept of run {earlier}; nothing was "
        f"trained or played again.{measured_later}"
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
            write_json(run.path / PROGRAMME_JSON, jobs)
            write_json(run.path / PRICES_JSON, prices)
            run.add_table("claims", [flat_row(row) for row in rows])
            programme = config.get("programme", OURS.name)
            write_page(run, None, rows, jobs, note=note, name=programme, prices=prices)
        return keep(run.final_path)


def main(arguments: list[str]) -> None:
    """Judge these kept runs again, or one of them with what was measured anew."""
    parser = argparse.ArgumentParser(description="Judge kept figures of a reproduction again.")
    parser.add_argument("names", nargs="+", help="small, small-paper, …")
    parser.add_argument(
        "--anew", type=Path, help="a run of some domains, in the same cities if kept before"
    )
    given = parser.parse_args(arguments)
    if given.anew is not None and len(given.names) > 1:
        parser.error("a run has one programme: give --anew with one name")
    for name in given.names:
        print(write_again(name, given.anew))


if __name__ == "__main__":
    main(sys.argv[1:])
