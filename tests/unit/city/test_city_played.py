"""What a played period came to, held against the truth on disk."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from parity311.city.clock import day_number
from parity311.city.incumbent import severity_then_first_in
from parity311.city.played import JUDGED_DAYS, PlayedFigures, measure_played
from parity311.city.replay import PlayedDomain, Replay, open_replay
from parity311.domains.boiler import PROCESS as BOILER
from parity311.domains.crane import PROCESS as CRANE
from parity311.domains.heat import PROCESS as HEAT
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.records.store import open_records
from parity311.records.truth import open_truth

FIRST, LAST = date(2024, 3, 1), date(2024, 8, 1)


@pytest.fixture(scope="module")
def replay(small_city: Path) -> Replay:
    return open_replay(small_city, [BOILER, CRANE, HEAT])


def count_on_disk(city: Path, slug: str) -> dict[str, np.ndarray]:
    """The same counts from the tables of truth and records, row by row."""
    records, truth = open_records(city), open_truth(city)
    quintile = {x["geoid"]: x["income_quintile"] for x in records.table("tracts").to_pylist()}
    severity = {
        x["complaint_id"]: (x["severity"], x["received_at"])
        for x in records.table("complaints", slug).to_pylist()
    }
    calls: dict[int, list] = {}
    for row in truth.table("reports", slug).to_pylist():
        calls.setdefault(row["true_incident_id"], []).append(severity[row["complaint_id"]])
    names = [item.name for item in fields(PlayedFigures)]
    counts = {name: np.zeros(6) for name in names if name != "n_visits"}
    last = np.datetime64(LAST)
    for row in truth.table("incidents", slug).to_pylist():
        began = row["began_at"].date()
        if not FIRST <= began < LAST - timedelta(days=int(JUDGED_DAYS)):
            continue
        heard = sorted(calls.get(row["true_incident_id"], []), key=lambda call: call[1])
        level = timedelta(days=SERVICE_LEVEL_DAYS[heard[0][0]]) if heard else None
        if heard and np.datetime64(heard[0][1] + level) > last:
            continue
        stratum = (quintile[row["tract"]] or 6) - 1
        counts["n_incidents"][stratum] += 1
        counts["n_actionable"][stratum] += row["is_actionable"]
        if not heard:
            continue
        counts["n_reported"][stratum] += 1
        counts["n_reported_actionable"][stratum] += row["is_actionable"]
        served, visit = row["served_at"], row["first_visit_at"]
        counts["n_correct"][stratum] += served is not None and served - heard[0][1] <= level
        if visit is not None:
            counts["n_visited"][stratum] += 1
            counts["delay_days"][stratum] += (visit - heard[0][1]).total_seconds() / 86_400
    return counts


def agrees(figures: PlayedFigures, counts: dict[str, np.ndarray]) -> bool:
    """The check: whether the figures are the counts; delays to a second a visit."""
    return all(
        np.allclose(getattr(figures, name), values, atol=0.01, rtol=0)
        for name, values in counts.items()
    )


def agency_visits_to_early_cases(played: PlayedDomain) -> int:
    """Visits of the period to cases from before the records: they cost, and are in none."""
    log, cases = played.worked.agency.visits, played.worked.agency.cases
    time, case = log.collect("time", np.float64), log.collect("case", np.int64)
    is_early = cases.received[case] < day_number(date(2024, 1, 1))
    return int((is_early & (time >= played.first_day)).sum())


@pytest.mark.parametrize("slug", ["crane", "heat"])
def test_figures_are_those_of_the_truth_on_disk(
    replay: Replay, small_city: Path, slug: str
) -> None:
    played = replay.start(slug, FIRST).play(severity_then_first_in)
    figures = measure_played(played)
    counts = count_on_disk(small_city, slug)
    assert figures.n_correct.sum() > 5
    assert agrees(figures, counts)
    for name in counts:
        broken = replace(figures, **{name: getattr(figures, name) + (np.arange(6) == 2)})
        assert not agrees(broken, counts)
    visits = open_records(small_city).table("visits", slug)["visited_at"].to_numpy()
    n_recorded = (visits >= np.datetime64(FIRST)).sum()
    n_early = agency_visits_to_early_cases(played)
    assert figures.n_visits.sum() == n_recorded + n_early


def test_boilers_count_by_year_of_filing(replay: Replay) -> None:
    played = replay.start("boiler", FIRST).play(severity_then_first_in)
    figures, filings = measure_played(played), played.worked.filings
    due = (filings.time >= played.first_day) & (filings.time < played.last_day - JUDGED_DAYS)
    due &= filings.is_defective
    assert figures.n_actionable.sum() == due.sum()
    assert figures.n_reported.sum() == (due & filings.is_filed).sum()
    assert 0 < figures.n_correct.sum() <= figures.n_visited.sum()


def figures_of(correct: list[int], actionable: list[int]) -> PlayedFigures:
    some = {item.name: np.full(6, 10) for item in fields(PlayedFigures)}
    some |= {"n_correct": np.array(correct), "n_actionable": np.array(actionable)}
    return PlayedFigures(**some)


def test_the_gap_is_over_the_known_strata() -> None:
    figures = figures_of([1, 2, 3, 4, 5, 0], [10, 10, 10, 10, 10, 10])
    assert figures.gap == pytest.approx(0.4)
    assert figures.overall["coverage"] == pytest.approx(15 / 60)
    assert figures.overall["gap"] == figures.gap
    assert figures.overall["n_visits"] == 60


def test_what_nobody_needed_has_no_coverage() -> None:
    figures = figures_of([0, 2, 0, 0, 0, 0], [0, 10, 0, 0, 0, 0])
    assert np.isnan(figures.coverage[0])
    assert np.isnan(figures.gap)
