"""`parity311 sla design`: search designs on past years, judge them on later ones, write levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.errors import EstimationError
from parity311.jobs.choose import HERE, Workplace
from parity311.jobs.drive import check_done
from parity311.jobs.job import Input, Job, Task
from parity311.number_text import in_days
from parity311.pipelines.audit_records import add_records
from parity311.pipelines.design_task import (
    CHOICES,
    DesignConfig,
    DesignTask,
    check_config,
    read_setting,
    read_task,
)
from parity311.pipelines.progress import Report as Progress
from parity311.records.store import Records, open_records
from parity311.report.design_page import write_design_page
from parity311.report.store import start_run
from parity311.service_levels.designs import (
    KEPT_PARTS,
    N_AGES,
    design_from_numbers,
    proportional_numbers,
)
from parity311.service_levels.levels import CellDesign, ServiceLevels, write_levels
from parity311.service_levels.losses import promise_losses, share_within
from parity311.service_levels.promises import (
    FOLLOWED_DAYS,
    N_QUARTERS,
    JudgedCell,
    PlayedYears,
    judge_cells,
)
from parity311.service_levels.requests import count_cells, visits_after
from parity311.service_levels.score import (
    LITERATURE,
    LOSSES,
    OURS,
    REVIEWS,
    DesignScores,
    ScoredYear,
    charge,
    fit_reviews,
    fit_today,
    rank_correlation,
    score_designs,
    scored_year,
    waits_apart,
)
from parity311.service_levels.search import (
    FoundDesigns,
    dominated_area,
    find_unbeaten,
    search_by_weights,
    search_front,
)
from parity311.storage.strict_json import write_json

TODAY = "today's rule"
PAGE, FIGURES_FILE = "design.html", "design.json"
N_PROMISE_YEARS = 19
N_SEARCH_YEARS, N_SELECT_YEARS = 6, 8
"""Years that designs are searched on, and fresh ones they are chosen on: on the two past years of a
small city alone, what was found held on no other."""
SURE = 1.64
"""Standard errors by which a choice must beat today's rule on the years it is chosen on."""
SEARCH_SEED, SELECT_SEED, LATER_SEED, PROMISE_SEED = 0, 1_000, 2_000, 3_000
"""Draws for searching, choosing, judging and promising never meet."""
START_RETENTIONS = (1.0, 0.5, 0.1)
"""What the rules that a search starts from keep at a review."""


def design_levels(
    config: DesignConfig,
    *,
    root: Path,
    out: Path | None,
    choice: str,
    progress: Progress,
    where: Workplace = HERE,
    kept: Path | None = None,
) -> dict[str, Any]:
    """Search, choose, judge on later years, promise, and write the run and the levels."""
    check_config(config, choice)
    records = open_records(config.records)
    # By its whole path, as a job names it: what was read here is not read again.
    whole = replace(config, records=str(records.folder.resolve()), review_every=None)
    task = _read_once(whole, records.fingerprint)
    config = settle_reviews(config, task)
    past = past_years(config, task)
    found, second = _search(config, records, progress, where, kept)
    numbers = _candidates(config, task, past, found, second)
    progress("judging", 0, 1)
    chosen = _choose(config, task, numbers)
    later = _score_later(config, task, numbers)
    progress("judging", 1, 1)
    figures = _describe(config, task, numbers, chosen, later, found, second)
    judged = _promise(config, task, numbers, chosen)
    levels = {name: _levels(config, task, name, numbers[chosen[name]], judged[name])
              for name in CHOICES}  # fmt: skip
    figures["promises"] = {
        name: [_promise_row(one) for one in rows] for name, rows in judged.items()
    }
    with start_run(root, f"sla design {config.domain}", asdict(config)) as run:
        run.set_seeds(search=config.seed)
        add_records(run, records)
        for name, one in levels.items():
            write_levels(run.path / f"service-levels-{name}.toml", one)
        write_json(run.path / FIGURES_FILE, figures)
        run.set_report(write_design_page(run, figures))
        run.add_metrics({"design": figures})
        page = run.name_page(PAGE)
    written = write_levels(out, levels[choice]) if out is not None else None
    levels_path = run.final_path / f"service-levels-{choice}.toml"
    return {"run": run.id, "page": str(page), "levels": str(written or levels_path), **figures}


SEARCHES = {"front": search_front, "weights": search_by_weights}


def _search(
    config: DesignConfig, records: Records, progress: Progress, where: Workplace, kept: Path | None
) -> tuple[FoundDesigns, FoundDesigns]:
    """Both optimisers, each a job, with the same start and about the same evaluations."""
    plain = {name: value for name, value in asdict(config).items() if name != "records"}
    inputs = {"records": Input(str(records.folder.resolve()), records.fingerprint)}
    jobs = [
        Job(
            "parity311.pipelines.design_levels:search_job",
            {**plain, "search": name},
            inputs,
            name=f"design-{config.domain}-{name}",
        )
        for name in SEARCHES
    ]
    told = lambda ended, total, _: progress("searching", ended, total)  # noqa: E731
    done = where.run(jobs, folder=kept, tell=told)
    check_done(done, len(jobs), kept)
    first, second = (_read_designs(one.result) for one in done)
    return first, second


def _read_designs(plain: dict[str, Any]) -> FoundDesigns:
    arrays = [np.asarray(plain[name], np.float64) for name in ("numbers", "losses", "history")]
    return FoundDesigns(arrays[0], arrays[1], arrays[2], plain["n_evaluations"])


def search_job(task: Task) -> dict[str, Any]:
    """One optimiser's search, in whatever process."""
    spec = {**task.spec, "records": str(task.inputs["records"])}
    search = SEARCHES[spec.pop("search")]
    config = DesignConfig(**{**spec, "targets": tuple((c, d) for c, d in spec["targets"])})
    whole = replace(config, review_every=None)
    read = _read_once(whole, open_records(config.records).fingerprint)
    past = past_years(config, read)
    start = np.vstack([proportional_numbers(past[0].setting, kept) for kept in START_RETENTIONS])
    start = np.vstack([_fit_today(read, past)[None], start])

    def evaluate(numbers: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        scores = score_designs(past, numbers, read.need)
        broken = np.maximum(config.floor - scores.least_visited, 0.0)
        return scores.losses[config.losses].mean(axis=0), broken

    found = search(
        evaluate, start, n_generations=config.generations, n_population=config.population,
        seed=config.seed, reference=1.05 * evaluate(start)[0].max(axis=0),
    )  # fmt: skip
    return found._asdict()


@lru_cache(maxsize=1)
def _read_once(config: DesignConfig, fingerprint: str) -> DesignTask:
    """What both searches of a worker need; read once for records of this content."""
    del fingerprint
    return read_task(open_records(config.records), config)


def settle_reviews(config: DesignConfig, task: DesignTask) -> DesignConfig:
    """The same with days between reviews: those given, else as fits the waits on record best."""
    if config.review_every is not None:
        return config
    as_made = replace(config, capacity_factor=1.0)
    years = {days: _recorded_years(replace(as_made, review_every=days), task) for days in REVIEWS}
    found = fit_reviews(task.past, years, task.visited, task.waits, task.need)
    return replace(config, review_every=found)


def _recorded_years(config: DesignConfig, task: DesignTask) -> list[ScoredYear]:
    return [
        scored_year(read_setting(task.past.year(y), config), SEARCH_SEED + config.seed + y)
        for y in range(task.past.n_years)
    ]


def past_years(config: DesignConfig, task: DesignTask) -> list[ScoredYear]:
    """The years that designs are searched on: the past ones, and others drawn from their weeks."""
    rng = np.random.default_rng([SEARCH_SEED + config.seed, N_SEARCH_YEARS])
    recorded = _recorded_years(config, task)
    numbers = range(len(recorded), N_SEARCH_YEARS)
    return recorded + [
        scored_year(read_setting(task.past.draw_year(rng), config), SEARCH_SEED + config.seed + y)
        for y in numbers
    ]


def _fit_today(task: DesignTask, past: Sequence[ScoredYear]) -> NDArray[np.float64]:
    """Today's design, from the years on record."""
    return fit_today(task.past, past[: task.past.n_years], task.visited, task.need)


def _candidates(
    config: DesignConfig,
    task: DesignTask,
    past: Sequence[ScoredYear],
    found: FoundDesigns,
    second: FoundDesigns,
) -> NDArray[np.float64]:
    """Today's design first, then the proportional rules, then what both searches found."""
    today = _fit_today(task, past)
    rules = proportional_numbers(past[0].setting)
    fronts = np.vstack([found.numbers, second.numbers])
    losses = np.vstack([found.losses, second.losses])
    return np.vstack([today, rules, fronts[find_unbeaten(losses)]])


N_RULES = 4
"""Candidates that no search found: today's rule and three proportional ones."""


def _choose(config: DesignConfig, task: DesignTask, numbers: NDArray) -> dict[str, int]:
    """Named choices, from fresh draws of the past years: nothing later is looked at.

    Balanced is the design whose gains over today's rule in cost and in inequity multiply to most,
    of those that surely gain in both; where none does, the one that is surest not to lose.
    """
    rng = np.random.default_rng(SELECT_SEED + config.seed)
    years = [
        scored_year(read_setting(task.past.draw_year(rng), config), SELECT_SEED + config.seed + i)
        for i in range(N_SELECT_YEARS)
    ]
    scores = score_designs(years, numbers, task.need)
    losses = scores.losses[config.losses].mean(axis=0)
    gains, bounds = _against_today(scores.losses[config.losses])
    usable = scores.least_visited >= config.floor - 0.02
    usable[:N_RULES] = False
    usable &= _reaches(config, task, scores, usable)
    if not usable.any():
        worst = float(scores.least_visited[N_RULES:].max(initial=0.0))
        raise EstimationError(
            f"No design visits {config.floor:.0%} of every cell; the nearest one found visits "
            f"{worst:.0%} of its worst cell. Lower the floor, or raise the capacity."
        )
    rows = np.flatnonzero(usable)
    rows = rows[find_unbeaten(losses[rows])]
    is_sure = (bounds[rows] < 0).all(axis=1)
    middle = np.where(is_sure, gains[rows].sum(axis=1), np.inf).argmin()
    if not is_sure.any():
        middle = bounds[rows].max(axis=1).argmin()
    return {
        "efficient": int(rows[losses[rows, 0].argmin()]),
        "balanced": int(rows[middle]),
        "equitable": int(rows[losses[rows, 1].argmin()]),
    }


def _against_today(losses: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """(P, 2) each: mean log of the losses (Y, P, 2) over today's, and its upper bound."""
    logs = np.log(np.maximum(losses, 1e-12)) - np.log(np.maximum(losses[:, :1], 1e-12))
    error = logs.std(axis=0, ddof=1) / np.sqrt(len(logs))
    return logs.mean(axis=0), logs.mean(axis=0) + SURE * error


def _reaches(
    config: DesignConfig, task: DesignTask, scores: DesignScores, usable: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which candidates reach every target in every district; none: what the nearest one does."""
    found = np.ones(len(usable), np.bool_)
    for category, days in config.targets:
        k = task.requests.categories.index(category)
        shares = share_within(scores.at_least.sum(axis=0), scores.received.sum(axis=0), days)
        worst = np.nanmin(shares[:, k], axis=0)
        found &= worst >= config.share
        if not (found & usable).any():
            best = np.where(usable, worst, -1.0)
            place = int(best.argmax())
            district = task.requests.districts[int(np.nanargmin(shares[:, k, place]))]
            raise EstimationError(
                f"No design visits {config.share:.0%} of {category!r} within {in_days(days)} in "
                f"every district; the nearest visits {max(best[place], 0.0):.0%} (in "
                f"{district}, its worst). Give more days, a smaller share, or more capacity."
            )
    return found


def _score_later(config: DesignConfig, task: DesignTask, numbers: NDArray) -> DesignScores:
    """Scores on the later year and on years drawn from its weeks."""
    rng = np.random.default_rng(LATER_SEED + config.seed)
    later = [task.later, *(task.later.draw_year(rng) for _ in range(config.later_draws - 1))]
    years = [
        scored_year(read_setting(one, config), LATER_SEED + config.seed + i)
        for i, one in enumerate(later)
    ]
    return score_designs(years, numbers, task.need)


def _describe(
    config: DesignConfig,
    task: DesignTask,
    numbers: NDArray,
    chosen: Mapping[str, int],
    later: DesignScores,
    found: FoundDesigns,
    second: FoundDesigns,
) -> dict[str, Any]:
    """Figures of the frontier on years nobody optimised on."""
    names = {0: TODAY, 1: "by requests", 2: "by weighted requests", 3: "by weight"}
    points = [
        {
            "name": names.get(place) or ", ".join(n for n, p in chosen.items() if p == place),
            "is_rule": place < N_RULES,
            **_losses_of(later, place),
            "least_visited": float(later.least_visited[place]),
        }
        for place in range(len(numbers))
    ]
    own = later.losses[config.losses]
    both = {name: float((own[:, place] < own[:, 0]).all(axis=1).mean())
            for name, place in chosen.items()}  # fmt: skip
    corner = 1.05 * own[:, :N_RULES].mean(axis=0).max(axis=0)
    poor = later.least_visited < config.floor
    ours, theirs = (later.losses[name].mean(axis=0)[:, 0] for name in (OURS, LITERATURE))
    sums = own.mean(axis=0)
    return {
        "domain": config.domain,
        "districts": task.requests.districts,
        "categories": task.requests.categories,
        "losses": config.losses,
        "losses_words": LOSSES[config.losses],
        "floor": config.floor,
        "share": config.share,
        "later_from": str(task.later_from),
        "later_years": len(own),
        "need": task.need_words,
        "points": points,
        "chosen": {name: int(place) for name, place in chosen.items()},
        "beats_today": both,
        "of_sums": {name: (sums[place] / sums[0]).tolist() for name, place in chosen.items()},
        "n_better_in_both": int((sums[N_RULES:] < sums[0]).all(axis=1).sum()),
        "relative": {
            name: [_interval(own[:, place, i] / own[:, 0, i]) for i in (0, 1)]
            for name, place in chosen.items()
        },
        "cells": _cells(task, chosen, later),
        "history": _score_history(config, task, numbers),
        "as_it_was": _hold_against_record(config, task, numbers, chosen),
        "search": {
            "evaluations": found.n_evaluations,
            "hypervolume": found.history.tolist(),
            "second_evaluations": second.n_evaluations,
            "second_hypervolume": second.history.tolist(),
            "later_hypervolume": dominated_area(own.mean(axis=0)[N_RULES:], corner),
        },
        "agreement": {
            "all": rank_correlation(ours, theirs),
            "visited": rank_correlation(ours[~poor], theirs[~poor]),
            "n_poor": int(poor.sum()),
        },
    }


def _losses_of(scores: DesignScores, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in LOSSES:
        values = scores.losses[name][:, place]
        for i, part in enumerate(("cost", "inequity")):
            row[f"{name}_{part}"] = _interval(values[:, i])
        share = scores.never[name][:, place] / np.maximum(values[:, 0], 1e-12)
        row[f"{name}_never_share"] = float(share.mean())
    return row


def _interval(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean over years with the middle 90 % of them."""
    low, high = np.quantile(values, [0.05, 0.95])
    return {"value": float(values.mean()), "lower": float(low), "upper": float(high)}


def _cells(
    task: DesignTask, chosen: Mapping[str, int], later: DesignScores
) -> list[dict[str, Any]]:
    """Visited share and budget of each cell, today and under each choice, in later years."""
    rows = []
    visited = later.visited
    for b, district in enumerate(task.requests.districts):
        for k, category in enumerate(task.requests.categories):
            row = {"district": district, "category": category,
                   "n": int(later.received[0, b, k]), "today": float(visited[b, k, 0])}  # fmt: skip
            row |= {name: float(visited[b, k, place]) for name, place in chosen.items()}
            rows.append(row)
    return rows


def _score_history(config: DesignConfig, task: DesignTask, numbers: NDArray) -> dict[str, float]:
    """Recorded waits of the past years, scored as the simulation is, beside today's rule in it."""
    recorded = task.visited
    years = past_years(config, task)[: task.past.n_years]
    played = score_designs(years, numbers[:1], task.need)
    apart = waits_apart(played.at_least.sum(axis=0), played.received.sum(axis=0), *task.waits)
    n_played = played.received.sum(axis=(1, 2))
    found = []
    for requests in task.past_requests:
        judged = np.flatnonzero(requests.followed_days >= N_AGES - 1)
        n = count_cells(requests, judged)
        weights = years[0].setting.weights
        one = promise_losses(visits_after(requests, N_AGES), n, weights, task.need)
        found.append((float(one.cost[0]) / max(int(n.sum()), 1), float(one.inequity[0])))
    cost, inequity = np.mean(found, axis=0)
    return {
        "review_every": float(config.review_every or 0),
        "waits_apart": apart,
        "least_visited": float(np.nanmin(recorded)),
        "visited": float(
            np.nansum(recorded * count_cells(task.requests)) / max(task.requests.n, 1)
        ),
        "cost_a_request": float(cost),
        "inequity": float(inequity),
        "simulated_cost_a_request": float((played.losses[OURS][:, 0, 0] / n_played).mean()),
        "simulated_inequity": float(played.losses[OURS][:, 0, 1].mean()),
    }


def _hold_against_record(
    config: DesignConfig, task: DesignTask, numbers: NDArray, chosen: Mapping[str, int]
) -> dict[str, Any]:
    """Cost and inequity of the later year as it was, over those on record for the same requests.

    Today's rule as simulated stands beside the choices: how far it is from one is the error of the
    simulation, and a gain that is no larger is none.
    """
    year = scored_year(read_setting(task.later, config, task.past), LATER_SEED + config.seed)
    places = {TODAY: 0, **chosen}
    played = score_designs([year], numbers[list(places.values())], task.need)
    requests = task.later_requests
    seen, n = visits_after(requests, N_AGES), count_cells(requests)
    recorded = charge(seen, n, year.setting.weights, task.need)[config.losses]
    point = np.array([recorded.cost[0], recorded.inequity[0]])
    ratios = played.losses[config.losses][0] / np.maximum(point, 1e-12)
    return {
        "requests": int(n.sum()),
        "of_record": {name: ratios[place].tolist() for place, name in enumerate(places)},
    }


def _promise(
    config: DesignConfig, task: DesignTask, numbers: NDArray, chosen: Mapping[str, int]
) -> dict[str, list[JudgedCell]]:
    """What each choice can promise, from years drawn from the past ones."""
    rng = np.random.default_rng(PROMISE_SEED + config.seed)
    years = [
        scored_year(read_setting(task.past.draw_year(rng), config), PROMISE_SEED + config.seed + i)
        for i in range(N_PROMISE_YEARS)
    ]
    scores = score_designs(years, numbers[list(chosen.values())], task.need)
    found = {}
    for place, name in enumerate(chosen):
        at_least = scores.at_least[..., place]
        within = at_least[..., :1] - at_least[..., 1 : FOLLOWED_DAYS + 2]
        n = scores.received
        quarters = np.zeros((len(n), N_QUARTERS, *n.shape[1:], FOLLOWED_DAYS + 2), np.int64)
        played = PlayedYears(
            task.requests.districts, task.requests.categories, n, within.astype(np.int64),
            quarters, task.codes,
        )  # fmt: skip
        found[name] = judge_cells(played, config.share, config.confidence)
    return found


def _promise_row(one: JudgedCell) -> dict[str, Any]:
    visited = one.promise.visited_share
    tenths = None if visited is None else round(10 * visited)
    words = ""
    if one.promise.days is not None and tenths is not None:
        within = max(min(round(10 * one.figures["promised_share"]), tenths), 0)
        words = (
            f"Of 10 requests like yours, {within} are visited within {in_days(one.promise.days)}, "
            f"{tenths - within} later, {10 - tenths} not at all."
        )
    elif tenths is not None:
        words = f"Nothing can be promised; of 10 requests like yours {tenths} are visited."
    return {
        "district": one.promise.district, "category": one.promise.category,
        "code": one.promise.code, "days": one.promise.days, "clock": one.designed_days,
        "verdict": one.verdict, "visited": visited, "reason": one.promise.reason, "words": words,
    }  # fmt: skip


def _levels(
    config: DesignConfig,
    task: DesignTask,
    name: str,
    numbers: NDArray,
    judged: Sequence[JudgedCell],
) -> ServiceLevels:
    """The file of one choice."""
    setting = read_setting(task.past, config)
    design = design_from_numbers(setting, numbers[None])
    parts = setting.n_parts
    cells = tuple(
        CellDesign(
            district, category, float(design.budget[b, 0]) / parts,
            float(design.priority[b, k, 0]) / parts, float(design.retention[b, k, 0]) / KEPT_PARTS,
        )
        for b, district in enumerate(setting.districts)
        for k, category in enumerate(setting.categories)
    )  # fmt: skip
    return ServiceLevels(
        domain=config.domain,
        districts=config.districts,
        share=config.share,
        confidence=config.confidence,
        promise=tuple(one.promise for one in judged),
        name=name,
        made_from=f"sla design of {Path(config.records).name}, {N_PROMISE_YEARS} drawn years",
        design=cells,
        review_every_days=config.review_every,
    )
