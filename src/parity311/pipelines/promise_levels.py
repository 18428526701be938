"""`parity311 sla promise`: what a policy can promise, from years of it played.

In a synthetic city the generator plays further years. On records alone, imported ones too, years
are drawn from those recorded (`recorded_years`): promises from all but the last, checked on years
drawn from the last, which nobody promised from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.filing_office import FilingOffice
from parity311.city.incumbent import EXPLORATION_SHARE, Rule, severity_then_first_in
from parity311.city.replay import PlayedDomain, Replay, Snapshot, open_replay
from parity311.domains import all_domains, get_domain
from parity311.errors import InputError, unknown_name
from parity311.estimation.world import first_test_day
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.progress import Report as Progress
from parity311.pipelines.recorded_years import play_recorded, read_recorded_cases
from parity311.records.schema import BOROUGHS
from parity311.records.store import Records, open_records
from parity311.report.promise_page import write_promise_page
from parity311.report.store import start_run
from parity311.service_levels.kept import check_city
from parity311.service_levels.levels import (
    LEVELS_FILE,
    ServiceLevels,
    read_levels,
    write_levels,
)
from parity311.service_levels.promises import (
    FOLLOWED_DAYS,
    JudgedCell,
    check_hours,
    count_years,
    coverage,
    days_matrix,
    derive_days,
    find_conflicts,
    judge_cells,
    pooled_cells,
    rank_of_promise,
)
from parity311.service_levels.requests import DISTRICTS, FEWEST, Requests
from parity311.serving.playing import play_by
from parity311.serving.policy import load_policy
from parity311.storage.strict_json import write_json

TODAY = "today"
"""Stands for today's rule where a policy is asked for."""
PAGE, FIGURES_FILE = "promises.html", "promises.json"
FEWER = 0.8
"""Share of the visits that are left when the promise is put under stress."""
N_STRESSED = 3
"""Years played with fewer visits."""


@dataclass(frozen=True)
class PromiseConfig:
    """What promises depend on."""

    policy: str
    """folder of a package, or today"""
    city: str
    """folder of a city, or of records"""
    domain: str = ""
    """of today's rule; a package knows its own"""
    districts: str = "borough"
    share: float = 0.8
    confidence: float = 0.9
    years: int = 19
    check_years: int = 10
    """years played afterwards, that the promises are checked on"""
    levels: str = ""
    """file of designed levels to check against"""
    fewest: int = FEWEST
    is_drawn: bool = False
    """whether years are drawn from the records, and no generator plays"""


Years = tuple[list[Requests], list[Requests], list[Requests]]
"""To promise from, to check on, and with fewer visits."""


def promise_levels(
    config: PromiseConfig,
    *,
    root: Path,
    out: Path | None,
    progress: Progress,
    about: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Play years of a policy, derive promises, check them on further years, write the page.

    ``about`` are lines on the policy that stand beside its promises: what it is and who let it.
    """
    rank_of_promise(config.years, config.confidence)
    if config.districts not in DISTRICTS:
        raise unknown_name("districts", config.districts, DISTRICTS)
    designed = read_levels(config.levels) if config.levels else None
    domain, make_rule = open_rule(config)
    records = open_records(config.city)
    if designed is not None:
        _check_designed(designed, config, domain, records)
    play = _play_records if config.is_drawn else _play_city
    years, words = play(config, records, domain, make_rule, progress)
    found, judged = judge_years(config, designed, years)
    levels = ServiceLevels(
        domain=domain, districts=config.districts, share=config.share,
        confidence=config.confidence, promise=tuple(one.promise for one in judged),
        name=Path(config.policy).name, valid_from=records.window[1],
        made_from=f"{config.years} years of {Path(config.policy).name} in {Path(config.city).name}",
    )  # fmt: skip
    found |= {
        "domain": domain, "policy": Path(config.policy).name, "city": Path(config.city).name,
        "played": words, "about": [list(row) for row in about],
    }  # fmt: skip
    with start_run(root, f"sla promise {domain}", config) as run:
        add_records(run, records)
        write_levels(run.path / LEVELS_FILE, levels)
        write_json(run.path / FIGURES_FILE, found)
        run.set_report(write_promise_page(run, found))
        run.add_metrics({"promise": found})
        page = run.name_page(PAGE)
    kept = write_levels(out, levels) if out is not None else run.final_path / LEVELS_FILE
    return {"run": run.id, "page": str(page), "levels": str(kept), **found}


def _play_city(
    config: PromiseConfig, records: Records, domain: str, make_rule: Any, progress: Progress
) -> tuple[Years, str]:
    """Years that the generator plays; the year on record is none of them."""
    if records.is_real:
        raise InputError(
            f"{config.city} holds imported records, which no generator plays; draw years from them "
            "with --records in the place of --city."
        )
    replay = open_replay(config.city, [one.process for one in all_domains().values()])
    if domain not in replay.processes:
        raise unknown_name("domain", domain, replay.processes)
    first = first_test_day(records, domain)
    snapshot = _start(replay, domain, first, progress)
    n_all = config.years + config.check_years + N_STRESSED
    years: list[Requests] = []
    for number in range(n_all):
        progress(f"{domain}: years played", number, n_all)
        is_stressed = number >= config.years + config.check_years
        # Replicate 0 is the year on record, which a promise must not have seen.
        years.append(
            read_played(_play(snapshot, make_rule(), number + 1, is_stressed), config.districts)
        )
    progress(f"{domain}: years played", n_all, n_all)
    return split_years(config, years), "played in the synthetic city"


def _play_records(
    config: PromiseConfig, records: Records, domain: str, make_rule: Any, progress: Progress
) -> tuple[Years, str]:
    """Years drawn from the records; the last one is kept to check on."""
    cases = read_recorded_cases(records, domain, config.districts)
    last = cases.n_years - 1
    past, later = range(max(last, 1)), range(last, cases.n_years)
    parts = (
        (config.years, past, 1.0),
        (config.check_years, later, 1.0),
        (N_STRESSED, past, FEWER),
    )
    years, n_all = [], sum(n for n, _, _ in parts)
    for part, (n, drawn_from, fewer) in enumerate(parts):
        for one in play_recorded(
            cases, make_rule, n, years=drawn_from, seed=1000 * part, fewer=fewer
        ):
            progress(f"{domain}: years drawn", len(years), n_all)
            years.append(one)
    progress(f"{domain}: years drawn", n_all, n_all)
    words = (
        f"drawn from {len(past)} recorded year{'s' if len(past) > 1 else ''} and checked on years "
        + ("drawn from the same one" if last == 0 else "drawn from the last recorded one")
        + "; what differs between years by more than their weeks do is not in them"
    )
    return split_years(config, years), words


def split_years(config: PromiseConfig, years: Sequence[Requests]) -> Years:
    """Years with the same categories, to promise from, to check on and under stress."""
    pooled = pool_together(years, config.fewest)
    first, second = config.years, config.years + config.check_years
    return pooled[:first], pooled[first:second], pooled[second:]


def open_rule(config: PromiseConfig) -> tuple[str, Any]:
    """The domain, and what makes a rule anew for every year."""
    if config.policy == TODAY:
        if not config.domain:
            raise InputError("Today's rule was asked for; name its domain with --domain.")
        return get_domain(config.domain).slug, lambda: severity_then_first_in
    policy = load_policy(Path(config.policy))
    if config.domain and config.domain != policy.domain.slug:
        raise InputError(
            f"The policy is for {policy.domain.slug!r} and --domain says {config.domain!r}; leave "
            "--domain out."
        )
    return policy.domain.slug, lambda: play_by(policy)


def check_domain(levels: ServiceLevels, domain: str) -> None:
    """Refuse levels of another domain."""
    if levels.domain != domain:
        raise InputError(
            f"The service levels are for {levels.domain!r} and the policy is for {domain!r}; give "
            "those of its domain."
        )


def _check_designed(
    levels: ServiceLevels, config: PromiseConfig, domain: str, records: Records
) -> None:
    """Refuse designed levels that what is asked for cannot be held against, before any year."""
    check_domain(levels, domain)
    if levels.districts != config.districts:
        raise InputError(
            f"{config.levels} promises by {levels.districts}, and {config.districts} was asked "
            f"for; give --districts {levels.districts}."
        )
    if abs(levels.share - config.share) > 1e-9:
        raise InputError(
            f"{config.levels} promises {levels.share:.0%} of all requests, and {config.share:.0%} "
            f"was asked for; give --share {levels.share:g}."
        )
    check_city(levels, records)


def _start(replay: Replay, domain: str, first: Any, progress: Progress) -> Snapshot:
    progress("to the first test day", 0, 1)
    snapshot = replay.start(domain, first)
    progress("to the first test day", 1, 1)
    return snapshot


def _play(snapshot: Snapshot, rule: Rule, replicate: int, is_stressed: bool) -> PlayedDomain:
    """One year; with fewer visits where it is put under stress."""
    played = snapshot.open(rule, replicate, EXPLORATION_SHARE)
    worked = played.worked
    fewer = FEWER if is_stressed else 1.0
    if isinstance(worked, FilingOffice):
        worked.per_filing *= fewer
    else:
        worked.agency.visits_per_complaint *= fewer
    worked.run(played.first_day, played.last_day)
    return played


def read_played(played: PlayedDomain, districts: str) -> Requests:
    """Requests received in a played year, with their waits, as the office would record them."""
    worked, first, last = played.worked, played.first_day, played.last_day
    if isinstance(worked, FilingOffice):
        rows = np.flatnonzero(worked.filings.is_filed & (worked.filings.time >= first))
        time, visit = worked.filings.time[rows], worked.visits.visit_time[rows]
        building, code = worked.filings.building[rows], worked.code[rows]
        category, names = np.zeros(len(rows), np.int64), ("FILING",)
    else:
        cases, reports = worked.agency.cases, worked.reports
        rows = np.flatnonzero(cases.received[: cases.n] >= first)
        time, visit, building = cases.received[rows], cases.first_visit[rows], cases.building[rows]
        report = cases.report[rows]
        category, code = reports.category[report], reports.code[report]
        names = tuple(entry.code for entry in worked.process.categories)
    tracts = worked.setting.tracts
    tract = worked.setting.buildings.tract[building].astype(np.int64)
    if districts == "borough":
        place = tracts.borough.astype(np.int64)
        labels = [BOROUGHS[b] for b in range(len(BOROUGHS))]
    else:
        boards, place = np.unique(tracts.community_board, return_inverse=True)
        labels = [str(board) for board in boards]
    received = np.floor(time).astype(np.int64)
    seen = visit < last
    wait = np.where(seen, np.floor(np.where(seen, visit, 0.0)) - received, np.inf)
    return Requests(
        received_day=received,
        wait_days=np.maximum(wait, 0.0),
        followed_days=last - 1 - received,
        category=np.asarray(category, np.int64),
        district=np.asarray(place, np.int64)[tract],
        stratum=worked.setting.stratum[tract],
        tract=tract,
        code=np.asarray(code, np.int64),
        categories=names,
        districts=tuple(labels),
        wait_hours=np.where(seen, 24.0 * np.maximum(visit - time, 0.0), np.inf),
    )


def pool_together(years: Sequence[Requests], fewest: int) -> list[Requests]:
    """Years with the same categories: those too small in a year are pooled in all of them."""
    pooled = Requests.joined(years).pooled(fewest, len(years))
    ends = np.cumsum([year.n for year in years])
    return [
        pooled.take(np.arange(end - year.n, end)) for year, end in zip(years, ends, strict=True)
    ]


def judge_years(
    config: PromiseConfig, designed: ServiceLevels | None, years: Years
) -> tuple[dict[str, Any], list[JudgedCell]]:
    """What the years allow to be promised, what was kept of it, and what contradicts it."""
    past, fresh, stressed = (count_years(one) if one else None for one in years)
    assert past is not None
    wanted: dict[tuple[str, str], float | None] = {}
    if designed is not None:
        for district in past.districts:
            for category in past.categories:
                promise = designed.find(district, category)
                wanted[district, category] = None if promise is None else promise.days
    judged = judge_cells(past, config.share, config.confidence, wanted)
    rounded = days_matrix(past, judged, is_rounded=True)
    pooled = pooled_cells(past, judged)
    # Visits to requests that are judged: who is not followed in full is left out of both.
    n_visits = float(past.within[..., -1].sum() / past.n_years)
    single = derive_days_of_one(past, config.share)
    checks: dict[str, Any] = {}
    if fresh is not None:
        unrounded = days_matrix(past, judged, is_rounded=False)
        checks = {
            "hours": check_hours(past, fresh, config.share, config.confidence, rounded, pooled),
            "unrounded": coverage(fresh, unrounded, config.share, pooled),
            "rounded": coverage(fresh, rounded, config.share, pooled),
            "one_year": coverage(fresh, single, config.share),
        }
    stress: dict[str, Any] = {"promises": 0}
    if stressed is not None:
        stress = coverage(stressed, rounded, config.share, pooled) | {"visits": FEWER}
    found = {
        "share": config.share,
        "confidence": config.confidence,
        "years": past.n_years,
        "followed_days": FOLLOWED_DAYS,
        "cells": [_row(one) for one in judged],
        "checks": checks,
        "stressed": stress,
        "conflicts": find_conflicts(past, judged, config.share, n_visits),
    }
    return found, judged


def derive_days_of_one(past: Any, share: float) -> np.ndarray:
    """What one year alone would promise, (B, K); NaN where nothing: it must fail half the time."""
    days = derive_days(replace(past, n=past.n[:1], within=past.within[:1]), share, 0.5)
    return np.where(np.isfinite(days), days, np.nan)


def _row(one: JudgedCell) -> dict[str, Any]:
    promise = one.promise
    raw = one.unrounded_days
    return {
        "district": promise.district, "category": promise.category, "code": promise.code,
        "n_a_year": one.n_a_year, "visited": promise.visited_share, "days": promise.days,
        "unrounded_days": raw if np.isfinite(raw) else None, "designed_days": one.designed_days,
        "verdict": one.verdict, "is_pooled": one.is_pooled, "reason": promise.reason,
        **one.figures,
    }  # fmt: skip
