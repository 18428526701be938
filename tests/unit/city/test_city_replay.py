"""A city's days are played again: as they were, or under another rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from parity311.city.agency import Agency
from parity311.city.cases import NO_ACCESS
from parity311.city.clock import day_number
from parity311.city.filing_office import FilingOffice
from parity311.city.incumbent import WaitingCases, severity_then_first_in
from parity311.city.replay import (
    PlayedDomain,
    Replay,
    Snapshot,
    open_replay,
    play_together,
    share_visits,
)
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain, open_domain, simulate_domain
from parity311.city.tables import write_complaints, write_filings
from parity311.domains.boiler import PROCESS as BOILER
from parity311.domains.crane import PROCESS as CRANE
from parity311.domains.electrical_revisit import PROCESS as ELECTRICAL
from parity311.domains.heat import PROCESS as HEAT
from parity311.errors import InputError, RecordsError
from parity311.records.store import table_path

FIRST = date(2024, 4, 17)
"""In the middle of a month, and of a year of filings."""
SLUGS = ("boiler", "crane", "heat")


@pytest.fixture(scope="module")
def replay(small_city: Path) -> Replay:
    return open_replay(small_city, [BOILER, CRANE, HEAT])


@pytest.fixture(scope="module")
def starts(replay: Replay) -> dict[str, Snapshot]:
    return {slug: replay.start(slug, FIRST) for slug in SLUGS}


def swaps_two(waiting: WaitingCases) -> np.ndarray:
    """Today's rule with the first two cases in each other's place."""
    priority = severity_then_first_in(waiting)
    order = np.argsort(-priority)
    if len(order) > 1:
        priority[order[:2]] = priority[order[1::-1]]
    return priority


def youngest_first(waiting: WaitingCases) -> np.ndarray:
    return -waiting.age_days


def grave_alone(waiting: WaitingCases) -> np.ndarray:
    """Today's rule for codes A and B; the others wait."""
    return np.where(waiting.severity < 2, severity_then_first_in(waiting), -np.inf)


def unlike_on_disk(played: PlayedDomain, city: Path, folder: Path) -> list[str]:
    """The check: names of the files that a played domain writes otherwise than the city did."""
    worked = played.worked
    if isinstance(worked, FilingOffice):
        args = (worked.process, worked.setting, worked.filings, worked.visits)
        write_filings(folder, *args)
    else:
        write_complaints(folder, worked)
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.parquet"))
    assert len(found) == 6
    return [
        str(name)
        for name in found
        if not pq.read_table(folder / name).equals(pq.read_table(city / name))
    ]


@pytest.mark.parametrize("slug", SLUGS)
def test_todays_rule_plays_what_lies_on_disk(
    small_city: Path, starts: dict[str, Snapshot], slug: str, tmp_path: Path
) -> None:
    start = starts[slug]
    assert unlike_on_disk(start.play(severity_then_first_in), small_city, tmp_path / "1") == []
    other = unlike_on_disk(start.play(swaps_two), small_city, tmp_path / "2")
    visits = str(table_path(Path(), "visits", slug))
    assert visits in other, "the check must see two cases swapped"
    again = unlike_on_disk(start.play(severity_then_first_in), small_city, tmp_path / "3")
    assert again == [], "playing leaves the snapshot as it was"


def test_a_city_of_another_version_is_refused(replay: Replay) -> None:
    other = replace(replay, setting=replace(replay.setting, seed=6))
    with pytest.raises(RecordsError, match="another version"):
        other.start("crane", FIRST)


def test_days_and_domains_that_are_not_there_are_refused(replay: Replay) -> None:
    for first in (date(2023, 12, 31), date(2024, 8, 1)):
        with pytest.raises(InputError, match="not one of the days"):
            replay.start("crane", first)
    with pytest.raises(InputError, match="crane"):
        replay.start("crnae", FIRST)


def test_replicates_and_shares_outside_their_range_are_refused(
    starts: dict[str, Snapshot],
) -> None:
    for how in ({"replicate": -1}, {"exploration": 1.5}):
        with pytest.raises(InputError, match="outside"):
            starts["crane"].play(severity_then_first_in, **how)


def agency_of(played: PlayedDomain) -> Agency:
    assert isinstance(played.worked, SimulatedDomain)
    return played.worked.agency


def visits_of(agency: Agency, before: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    time, case = (agency.visits.collect(x, np.float64) for x in ("time", "case"))
    return time[time < before], case[time < before]


def test_rules_meet_the_same_incidents_and_calls(starts: dict[str, Snapshot]) -> None:
    for replicate in (0, 3):
        mine, other = (
            agency_of(starts["crane"].play(rule, replicate=replicate))
            for rule in (severity_then_first_in, youngest_first)
        )
        np.testing.assert_array_equal(mine.incidents.began, other.incidents.began)
        np.testing.assert_array_equal(mine.reports.time, other.reports.time)
        np.testing.assert_array_equal(mine.goes_on, other.goes_on)
        assert not np.array_equal(visits_of(mine)[0], visits_of(other)[0])


def hours_of(agency: Agency) -> dict[tuple[int, int], float]:
    """Hour of the day of each visit, by the case's first report and the attempt."""
    time, case = visits_of(agency)
    report = agency.cases.report[case.astype(np.int64)]
    attempt = agency.visits.collect("attempt", np.int64)
    keys = zip(report.tolist(), attempt.tolist(), strict=True)
    return dict(zip(keys, np.round(time % 1.0, 9).tolist(), strict=True))


def test_a_replicates_visits_meet_the_same_under_every_rule(starts: dict[str, Snapshot]) -> None:
    same = {}
    for replicate in (0, 1):
        mine, other = (
            agency_of(starts["crane"].play(rule, replicate=replicate))
            for rule in (severity_then_first_in, youngest_first)
        )
        n_before = len(visits_of(mine, starts["crane"].first_day)[0])
        mine, other = (dict(list(hours_of(one).items())[n_before:]) for one in (mine, other))
        both = mine.keys() & other.keys()
        assert len(both) > 50
        same[replicate] = np.mean([mine[one] == other[one] for one in both])
    assert same[1] > 0.9, "but for emergencies, which are visited two hours after the call"
    assert same[0] < 0.5, "the city's own streams are used in the order of its visits"


def test_a_replicate_keeps_what_went_before_and_draws_the_rest_anew(
    starts: dict[str, Snapshot],
) -> None:
    start, first_day = starts["crane"], starts["crane"].first_day
    plain, one, two, same = (
        agency_of(start.play(severity_then_first_in, replicate=k)) for k in (0, 1, 2, 1)
    )
    np.testing.assert_array_equal(visits_of(one)[0], visits_of(same)[0])
    for other in (one, two):
        for mine, theirs in zip(
            visits_of(plain, first_day), visits_of(other, first_day), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
        n = int(np.searchsorted(plain.reports.time, first_day))
        np.testing.assert_array_equal(plain.report_case[:n], other.report_case[:n])
        np.testing.assert_array_equal(plain.cases.closed[:1], other.cases.closed[:1])
        old = plain.incidents.began < first_day
        kept = other.incidents.began < first_day
        for name in ("building", "began", "natural_end", "is_actionable"):
            mine, theirs = getattr(plain.incidents, name), getattr(other.incidents, name)
            np.testing.assert_array_equal(mine[old], theirs[kept])
        np.testing.assert_array_equal(plain.goes_on[old], other.goes_on[kept])
        new = other.incidents.began[~kept]
        assert not np.isin(new, plain.incidents.began).any()
        assert len(new) == pytest.approx((~old).sum(), abs=5 * np.sqrt((~old).sum()))
        incident = other.reports.incident
        assert (other.reports.time >= other.incidents.began[incident]).all()
        case = other.report_case
        taken = case >= 0
        assert (other.cases.incident[case[taken]] == incident[taken]).all()
    assert not np.isin(visits_of(one)[0][-50:], visits_of(two)[0]).any()


def test_filings_are_drawn_anew_from_the_next_year_on(
    replay: Replay, starts: dict[str, Snapshot]
) -> None:
    def filings_of(start: Snapshot, replicate: int) -> FilingOffice:
        worked = start.play(severity_then_first_in, replicate=replicate).worked
        assert isinstance(worked, FilingOffice)
        return worked

    january = replay.start("boiler", date(2024, 1, 1))
    plain, other = (filings_of(january, k) for k in (0, 1))
    before = plain.filings.time < january.first_day
    n = int(before.sum())
    np.testing.assert_array_equal(plain.filings.time[:n], other.filings.time[:n])
    assert not np.array_equal(plain.filings.is_defective[n:], other.filings.is_defective[n:])
    seen = plain.visits.visit_time < january.first_day
    assert seen.any()
    np.testing.assert_array_equal(
        plain.visits.visit_time[seen], other.visits.visit_time[np.flatnonzero(seen)]
    )
    plain, other = (filings_of(starts["boiler"], k) for k in (0, 1))
    np.testing.assert_array_equal(plain.filings.is_defective, other.filings.is_defective)
    assert not np.array_equal(plain.visits.visit_time, other.visits.visit_time)


def test_not_today_means_no_visit(starts: dict[str, Snapshot]) -> None:
    for slug in ("crane", "heat"):
        agency = agency_of(starts[slug].play(grave_alone))
        time, case = visits_of(agency)
        code = agency.reports.code[agency.cases.report[case.astype(np.int64)]]
        late = time >= starts[slug].first_day + 1
        assert late.sum() > 50
        assert (code[late] < 2).all()
    filings = starts["boiler"].play(grave_alone).worked
    assert isinstance(filings, FilingOffice)
    late = np.isfinite(filings.visits.visit_time)
    late &= filings.visits.visit_time >= starts["boiler"].first_day
    assert late.any()
    assert filings.visits.has_prior[late].all()


def test_the_rule_is_asked_where_visits_suffice_and_told_how_many(
    starts: dict[str, Snapshot],
) -> None:
    told: list[tuple[int, int]] = []

    def notes(waiting: WaitingCases) -> np.ndarray:
        told.append((waiting.n, waiting.n_slots))
        return severity_then_first_in(waiting)

    agency = agency_of(starts["crane"].play(notes))
    assert any(n <= n_slots for n, n_slots in told)
    n_slots = agency.visits.collect("n_slots", np.int64)
    assert set(n_slots[-20:]) <= {given for _, given in told}


def test_no_visit_is_drawn_at_random_without_exploration(starts: dict[str, Snapshot]) -> None:
    shares = []
    for exploration in (0.0, 0.1):
        agency = agency_of(starts["heat"].play(severity_then_first_in, exploration=exploration))
        time, _ = visits_of(agency)
        propensity = agency.visits.collect("propensity", np.float64)
        shares.append((propensity[time >= starts["heat"].first_day + 1] < 1).mean())
    assert shares[0] == 0.0
    assert shares[1] > 0.0


class Returns:
    """Today's rule that comes back after some days, or never."""

    def __init__(self, days: float) -> None:
        self.days = days
        self.asked: list[WaitingCases] = []

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        return severity_then_first_in(waiting)

    def revisit_days(self, waiting: WaitingCases) -> np.ndarray:
        self.asked.append(waiting)
        return np.full(waiting.n, self.days)


def second_visits(agency: Agency) -> np.ndarray:
    """Days from the first to the second visit of a case."""
    time, case = visits_of(agency)
    attempt = agency.visits.collect("attempt", np.int64)
    first = dict(zip(case[attempt == 1], time[attempt == 1], strict=True))
    pairs = zip(case[attempt == 2], time[attempt == 2], strict=True)
    return np.array([np.floor(at) - np.floor(first[one]) for one, at in pairs])


def test_a_rule_says_when_to_come_back(setting: CitySetting) -> None:
    usual = second_visits(simulate_domain(ELECTRICAL, setting, severity_then_first_in, 20.0).agency)
    rule = Returns(14.0)
    later = second_visits(simulate_domain(ELECTRICAL, setting, rule, 20.0).agency)
    assert (usual < 14).any()
    assert len(later) > 10
    assert later.min() >= 14
    for waiting in rule.asked:
        journal, rows = waiting.journal, waiting.rows
        assert (journal.n_attempts[rows] == 1).all(), "the visit without access is known"
        assert (journal.last_visit[rows] >= journal.as_of - 2).all()
        assert np.isinf(journal.settled[rows]).all()


def test_a_rule_closes_instead_of_coming_back(setting: CitySetting) -> None:
    agency = simulate_domain(ELECTRICAL, setting, Returns(np.inf), 20.0).agency
    assert len(second_visits(agency)) == 0
    time, case = visits_of(agency)
    refused = agency.visits.collect("result", np.int64) == NO_ACCESS
    closed = case[refused & (time < day_number(setting.date_to) - 2)].astype(np.int64)
    assert len(closed) > 10
    assert (agency.cases.outcome[closed] == NO_ACCESS).all()
    assert (agency.cases.closed[closed] > agency.cases.first_visit[closed]).all()


def test_decisions_that_are_pending_survive_a_snapshot(setting: CitySetting) -> None:
    day = day_number(setting.date_from)
    whole = open_domain(ELECTRICAL, setting, Returns(np.inf), 20.0)
    whole.run(day - 200, day)
    while not whole.agency.knocked:
        whole.run(day, day + 1)
        day += 1
    pending = whole.agency.knocked[0][0]
    for rule, comes_back in ((severity_then_first_in, True), (Returns(np.inf), False)):
        agency = whole.go_on(rule, day, replicate=0, exploration=0.1).agency
        agency.begin_day(day)
        agency.begin_day(day + 1)
        assert not np.isin(pending, np.concatenate([[-1], *(x for x, _ in agency.knocked)])).any()
        lists = [part for parts in agency.scheduled.values() for part in parts]
        on_list = np.isin(pending, np.concatenate([agency.ready, *lists]))
        assert on_list.all() == comes_back
        assert (agency.cases.outcome[pending] == NO_ACCESS).all() != comes_back


def test_a_staff_of_one_domain_is_that_domains_own(starts: dict[str, Snapshot]) -> None:
    alone = agency_of(starts["crane"].play(youngest_first))
    shared = agency_of(play_together([starts["crane"]], {"crane": youngest_first})["crane"])
    for mine, theirs in zip(visits_of(alone), visits_of(shared), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_visits_that_one_domain_leaves_go_to_another(starts: dict[str, Snapshot]) -> None:
    both = [starts["crane"], starts["heat"]]

    def n_visits(rules: dict, slug: str) -> int:
        time, _ = visits_of(agency_of(play_together(both, rules)[slug]))
        return int((time >= starts[slug].first_day).sum())

    def nobody(waiting: WaitingCases) -> np.ndarray:
        return np.full(waiting.n, -np.inf)

    assert n_visits({"heat": nobody}, "heat") == 0
    assert n_visits({"heat": nobody}, "crane") > n_visits({}, "crane")


def test_domains_of_different_days_share_no_staff(
    replay: Replay, starts: dict[str, Snapshot]
) -> None:
    with pytest.raises(InputError, match="one day"):
        play_together([starts["heat"], replay.start("crane", date(2024, 5, 1))], {})


@pytest.mark.parametrize(
    ("own", "asked", "given"),
    [
        # Everybody asks for more than there is: nobody loses what is its own.
        ([3, 1], [9, 9], [3, 1]),
        # What one leaves goes to the others, by what they are short of.
        ([6, 1, 1], [2, 5, 9], [2, 2, 4]),
        ([5, 5], [2, 3], [2, 3]),
        ([3, 0], [0, 9], [0, 3]),
        ([0, 0], [4, 4], [0, 0]),
    ],
)
def test_visits_are_shared_by_what_is_asked_for(
    own: list[int], asked: list[int], given: list[int]
) -> None:
    assert share_visits(np.array(own), np.array(asked)).tolist() == given
