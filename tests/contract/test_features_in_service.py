"""What serving sees of a case on record is what training saw of it: the same kind, cell, features.

Training reads the records with queries of its own; serving reads a journal. Both have to agree on
every case, not only on those that are open.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from parity311.domains import get_domain
from parity311.domains.boiler.filings import read_filings
from parity311.domains.boiler.params import build_features
from parity311.domains.drone.params import layout_of as lay_out_drone
from parity311.domains.electrical_revisit import OFFICE as REVISITS
from parity311.domains.electrical_revisit import estimate
from parity311.domains.elevator.params import layout_of as lay_out_elevator
from parity311.domains.ert import LAYOUT as ERT
from parity311.domains.heat.decision import COMPLAINT_KINDS
from parity311.domains.housing.params import layout_of as lay_out_housing
from parity311.estimation import backlog_cases
from parity311.estimation.casebook import read_casebook
from parity311.estimation.stream_book import read_book
from parity311.records.journal import Cases, Journal
from parity311.records.journal_reader import read_journal
from parity311.records.schema import VISIT_RESULTS
from parity311.records.store import Records

FIRST, LAST = date(2024, 1, 1), date(2024, 5, 1)


def midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time())


def rows_of(cases: Cases, names: np.ndarray) -> np.ndarray:
    """Where these complaints are among cases; all have to be there."""
    number = {str(name): row for row, name in enumerate(cases.complaint_id)}
    return np.array([number[str(name)] for name in names], np.int64)


def see_all(records: Records, slug: str) -> tuple[Journal, Cases, Any]:
    """Every case of the records, and the view of each with nobody ahead."""
    journal = read_journal(records, slug, midnight(LAST))
    cases = journal.take(np.arange(journal.n))
    sight = get_domain(slug).sight
    assert sight is not None
    params = get_domain(slug).play.example()
    return journal, cases, sight.see(params, journal, cases, np.zeros(cases.n))


@pytest.mark.parametrize("slug", ["complaint_triage", "crane", "drainage", "snad"])
def test_kinds_of_a_stream(slug: str, served_records: Records) -> None:
    office = import_module(f"parity311.domains.{slug}").OFFICE
    book = read_book(office, served_records, FIRST, LAST, fewest=20)
    _, cases, view = see_all(served_records, slug)
    rows = rows_of(cases, book.complaint_id)
    assert len(rows) > 20
    np.testing.assert_array_equal(np.asarray(view.kind)[rows], book.kind)
    np.testing.assert_array_equal(np.asarray(view.stratum)[rows], book.stratum)
    assert len(np.unique(book.kind)) > 3
    # The broken twin: the journal's past of another case is not its own.
    assert (np.roll(np.asarray(view.kind)[rows], 1) != book.kind).any()


def test_kinds_of_heat(served_records: Records) -> None:
    flags = COMPLAINT_KINDS.flags
    book = read_casebook(served_records, "heat", FIRST, LAST, flags)
    _, cases, view = see_all(served_records, "heat")
    rows = rows_of(cases, book.complaint_id)
    assert len(rows) > 100
    np.testing.assert_array_equal(np.asarray(view.kind)[rows], COMPLAINT_KINDS.of(book))
    np.testing.assert_array_equal(np.asarray(view.n_reports)[rows], book.n_reports)


def test_kinds_of_visits_without_access(
    served_records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "FEWEST_VISITS", 10)
    found = estimate.read_visits(REVISITS, served_records, FIRST, LAST)
    journal, cases, _ = see_all(served_records, "electrical_revisit")
    rows = rows_of(cases, found.complaint_id)
    # What is seen is as of the latest visit: the first one, where there was no other.
    is_only = cases.n_attempts[rows] == 1
    rows = rows[is_only]
    assert len(rows) > 10
    assert (journal.visit_result == VISIT_RESULTS.index("no_access")).sum() >= len(rows)
    chosen = cases.take(rows)
    sight = get_domain("electrical_revisit").sight
    assert sight is not None
    params = get_domain("electrical_revisit").play.example()
    view = sight.see(params, journal, chosen, np.zeros(chosen.n))
    np.testing.assert_array_equal(np.asarray(view.kind), found.kind[is_only])


def test_features_of_filings(served_records: Records) -> None:
    rows = read_filings(served_records, "boiler", FIRST, LAST)
    params = get_domain("boiler").play.example()
    base = float(np.asarray(params.is_defective)[: int(params.n_rows)].mean())
    none = np.zeros(len(rows["tract"]))
    # Late fees are known only afterwards: in service they are not there.
    expected = build_features({**rows, "has_lff_45": none, "has_lff_180": none}, base)
    _, cases, view = see_all(served_records, "boiler")
    here = rows_of(cases, rows["complaint_id"])
    np.testing.assert_allclose(np.asarray(view)[here], expected, atol=1e-6)
    assert (expected.std(axis=0) > 0).sum() >= 4


LAYOUTS = {
    "drone": lay_out_drone,
    "elevator": lay_out_elevator,
    "ert": lambda records: ERT,
    "housing": lay_out_housing,
}


@pytest.mark.parametrize("slug", LAYOUTS)
@pytest.mark.parametrize("before", [0, 9, 30])
def test_the_line_of_an_office(slug: str, before: int, served_records: Records) -> None:
    layout = LAYOUTS[slug](served_records)
    moment = LAST - timedelta(days=1 + before)
    until = moment + timedelta(days=1)
    queue = backlog_cases.read_cases(served_records, slug, FIRST, until)
    places = backlog_cases.CasePlaces(layout.place_of(queue), layout.n_places)
    waiting, slots, months = backlog_cases.backlogs(queue, places, layout.shape)
    # At the stroke of midnight itself serving does not know yet what is put away then.
    journal = read_journal(served_records, slug, midnight(moment) + timedelta(seconds=1))
    sight = get_domain(slug).sight
    assert sight is not None
    params = get_domain(slug).play.example()
    line = journal.take(journal.open_rows)
    view = sight.see(params, journal, line, np.zeros(line.n))
    backlog = getattr(view, "backlog", view)
    np.testing.assert_array_equal(np.asarray(backlog.waiting), waiting[-1])
    assert (int(backlog.slot), int(backlog.month)) == (slots[-1], months[-1])
    assert waiting[-1].sum() > 3
