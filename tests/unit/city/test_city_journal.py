"""The journal of a city at work is what its records show later."""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, time
from pathlib import Path

import numpy as np
import pytest

from parity311.city.agency import Agency
from parity311.city.clock import day_number, to_date
from parity311.city.incumbent import WaitingCases, severity_then_first_in
from parity311.city.journal import CaseLedger
from parity311.city.process import Delay
from parity311.city.replay import open_replay
from parity311.city.setting import CitySetting
from parity311.city.simulate import simulate_domain
from parity311.domains.boiler import PROCESS as BOILER
from parity311.domains.crane import PROCESS as CRANE
from parity311.domains.heat import PROCESS as HEAT
from parity311.errors import InputError
from parity311.records.journal import Journal, day_of
from parity311.records.journal_reader import read_journal
from parity311.records.store import open_records

PLAIN = (
    "complaint_id", "began", "code", "stratum", "borough", "board", "units", "n_reports",
    "last_report", "n_attempts", "last_visit", "settled", "closed",
)  # fmt: skip
EVENTS = ("report_at", "report_case", "visit_at", "visit_case", "visit_result")
NUMBERED = ("building", "zip")


def as_it_began(journal: Journal) -> Journal:
    """The journal without the calls of the day itself, and without cases that are in no record."""
    start = int((journal.complaint_id == "").sum())
    end = int((journal.began < journal.as_of).sum())
    own = slice(start, end)
    cut = {name: getattr(journal, name)[own] for name in (*PLAIN, *NUMBERED, "tract", "category")}
    for case in ("report_case", "visit_case"):
        row = getattr(journal, case)
        inside = (row >= start) & (row < end)
        cut |= {name: getattr(journal, name)[inside] for name in EVENTS if name[:5] == case[:5]}
        cut[case] -= start
    flags = {name: values[own] for name, values in journal.flags.items()}
    further = {name: values[own] for name, values in journal.further.items()}
    return replace(journal, **cut, flags=flags, further=further)


def differences(mine: Journal, recorded: Journal) -> list[str]:
    """The check: names of what differs between two journals; numbers only have to match."""
    found = [
        name
        for name in (*PLAIN, *EVENTS)
        if not equal(getattr(mine, name), getattr(recorded, name))
    ]
    for name, names in (("tract", "tracts"), ("category", "categories")):
        named = [np.asarray(getattr(one, names))[getattr(one, name)] for one in (mine, recorded)]
        found += [] if equal(*named) else [name]
    found += [x for x in NUMBERED if not same_groups(getattr(mine, x), getattr(recorded, x))]
    if not same_groups(mine.further["equipment"], recorded.further["equipment"]):
        found.append("equipment")
    if not equal(mine.further["boilers"], recorded.further["boilers"]):
        found.append("boilers")
    if list(mine.flags) != list(recorded.flags):
        return [*found, "flags"]
    return found + [
        name for name in mine.flags if not equal(mine.flags[name], recorded.flags[name])
    ]


def equal(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype == object or first.dtype.kind in "UT":
        return first.tolist() == second.tolist()
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def same_groups(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two numberings tell the same rows apart."""
    if len(first) != len(second):
        return False
    pairs = len(set(zip(first.tolist(), second.tolist(), strict=True)))
    return pairs == len(np.unique(first)) == len(np.unique(second))


class Looking:
    """Today's rule, with what it could look up on some days."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.seen: dict[int, tuple[WaitingCases, Journal]] = {}

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        if waiting.day % self.step == 0:
            self.seen[waiting.day] = waiting, waiting.journal
        return severity_then_first_in(waiting)


@pytest.mark.parametrize("process", [CRANE, HEAT, BOILER], ids=lambda process: process.slug)
def test_a_city_at_work_knows_what_its_records_show_later(small_city: Path, process) -> None:
    records = open_records(small_city)
    rule = Looking(17)
    start = open_replay(small_city, [process]).start(process.slug, to_date(day_number_of(90)))
    start.play(rule)
    assert len(rule.seen) >= 6
    n_of_the_day = 0
    for day, (waiting, journal) in rule.seen.items():
        moment = datetime.combine(to_date(day), time())
        recorded = read_journal(records, process.slug, moment)
        mine = as_it_began(journal)
        assert journal.moment == moment
        assert differences(mine, recorded) == []
        assert set(recorded.open_rows) == set(mine.open_rows)
        n_of_the_day += int((journal.began >= journal.as_of).sum())
        age = journal.as_of - journal.began[waiting.rows]
        np.testing.assert_allclose(age, waiting.age_days, atol=1.1 / 86_400)
        assert (journal.code[waiting.rows] == waiting.severity).all()
        assert (journal.n_attempts[waiting.rows] == waiting.n_attempts).all()
        assert np.isin(waiting.rows, journal.open_rows).all()
    assert (n_of_the_day > 0) == (process is not BOILER), "filings wait until the day after"


def day_number_of(n_days: int) -> int:
    """Day number so many days after the small city's first."""
    return day_number(datetime(2024, 1, 1).date()) + n_days


def test_the_check_finds_a_visit_too_many_and_a_closing_too_early(small_city: Path) -> None:
    rule = Looking(17)
    open_replay(small_city, [CRANE]).start("crane", to_date(day_number_of(90))).play(rule)
    day, (_, journal) = list(rule.seen.items())[-1]
    recorded = read_journal(
        open_records(small_city), "crane", datetime.combine(to_date(day), time())
    )
    mine = as_it_began(journal)
    broken = {
        "n_attempts": mine.n_attempts + (np.arange(mine.n) == 3),
        "closed": np.minimum(mine.closed, mine.as_of),
        "tract": np.roll(mine.tract, 1),
        "building": np.zeros(mine.n, np.int64),
        "visit_at": mine.visit_at[:-1],
    }
    for name, values in broken.items():
        assert differences(replace(mine, **{name: values}), recorded) == [name]


MOMENTS = (datetime(2024, 2, 10), datetime(2024, 5, 1, 14, 30), datetime(2024, 7, 31, 23, 59, 59))
NAMES = ("tracts", "categories", "building_ids")


def unlike(mine: Journal, recorded: Journal) -> list[str]:
    """The check: fields that differ between two journals of one numbering, defects included."""
    found = [] if mine.as_of == recorded.as_of else ["as_of"]
    for item in fields(Journal):
        first, second = getattr(mine, item.name), getattr(recorded, item.name)
        if item.name in ("flags", "further"):
            found += [name for name in second if not equal(first[name], second[name])]
        elif item.name in NAMES:
            # Names that came later follow those that were there.
            found += [] if list(first[: len(second)]) == list(second) else [item.name]
        elif isinstance(second, np.ndarray):
            found += [] if equal(first, second) else [item.name]
    return found


@pytest.mark.parametrize("slug", ["crane", "heat", "boiler"])
def test_a_rewound_journal_is_what_was_read_then(small_city: Path, slug: str) -> None:
    records = open_records(small_city)
    latest = read_journal(records, slug, datetime(2024, 8, 1))
    for moment in MOMENTS:
        recorded = read_journal(records, slug, moment)
        mine = latest.rewind(day_of(moment))
        assert mine.moment == moment
        assert unlike(mine, recorded) == []
        assert differences(mine, recorded) == []
        assert mine.open_rows.tolist() == recorded.open_rows.tolist()
    again = latest.rewind(day_of(MOMENTS[2])).rewind(day_of(MOMENTS[0]))
    assert unlike(again, read_journal(records, slug, MOMENTS[0])) == []
    assert latest.rewind(latest.began[0]).n == 0
    with pytest.raises(InputError, match="is later"):
        latest.rewind(latest.as_of + 1.0)


@pytest.mark.parametrize(
    "forgotten",
    ["n_reports", "last_report", "n_attempts", "last_visit", "settled", "closed", "defect",
     "report_at", "report_case", "visit_at", "visit_case", "visit_result"],
)  # fmt: skip
def test_a_rewind_that_forgets_to_cut_a_field_is_found(small_city: Path, forgotten: str) -> None:
    records = open_records(small_city)
    slug = "boiler" if forgotten == "defect" else "heat"
    latest = read_journal(records, slug, datetime(2024, 8, 1))
    recorded = read_journal(records, slug, MOMENTS[1])
    mine = latest.rewind(day_of(MOMENTS[1]))
    if forgotten == "defect":
        broken = replace(
            mine, further={**mine.further, "defect": latest.further["defect"][: mine.n]}
        )
    else:
        n = None if forgotten.startswith(("report_", "visit_")) else mine.n
        broken = replace(mine, **{forgotten: getattr(latest, forgotten)[:n]})
    assert unlike(broken, recorded) == [forgotten]


def ledger_of(agency: Agency) -> CaseLedger:
    return CaseLedger(
        agency.process, agency.model.setting, agency.reports, agency.report_case, agency.cases,
        agency.visits,
    )  # fmt: skip


def test_cases_from_before_the_records_are_known_while_they_wait(setting: CitySetting) -> None:
    rule = Looking(1)
    simulated = simulate_domain(CRANE, setting, rule, 20.0)
    first = day_number(setting.date_from)
    waiting, journal = rule.seen[first + 1]
    early = journal.began < journal.as_of - 1
    assert early.any()
    assert (journal.complaint_id[early] == "").all(), "they are in no record"
    assert (journal.complaint_id[~early] != "").all()
    assert (waiting.rows >= 0).all()
    later, _ = ledger_of(simulated.agency).read(first + 1, np.zeros(0, np.int64))
    assert (later.began >= journal.as_of - 1).all()


def test_a_call_that_found_it_ended_is_known_before_the_visit_was_due(
    setting: CitySetting,
) -> None:
    slow = tuple(Delay(30.0, 0.1) for _ in range(4))
    patient = replace(HEAT, service=replace(HEAT.service, leads=slow, callback_days=1.0))
    simulated = simulate_domain(patient, setting, severity_then_first_in)
    day = day_number(setting.date_to)
    journal, _ = ledger_of(simulated.agency).read(day, np.zeros(0, np.int64))
    cases = simulated.agency.cases
    own = slice(cases.n - journal.n, cases.n)
    unprocessed = np.isinf(cases.closed[own]) & (cases.callback[own] < day)
    assert unprocessed.any()
    assert np.isfinite(journal.closed[unprocessed]).all()
    processed = cases.closed[own] < day
    assert (np.isfinite(journal.closed) == (processed | unprocessed)).all()


def test_no_journal_is_kept_where_nobody_asks(setting: CitySetting) -> None:
    assert simulate_domain(CRANE, setting, severity_then_first_in).agency.ledger is None


def test_waiting_cases_made_by_hand_have_no_journal(
    waiting_by_hand: Callable[..., WaitingCases],
) -> None:
    with pytest.raises(InputError, match="no journal"):
        _ = waiting_by_hand([0, 1]).rows
