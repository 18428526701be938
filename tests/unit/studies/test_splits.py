"""Splits of rare domains on a real folder of records: 80/20 in cranes, 87 later ones in SNAD."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import EstimationError, InputError
from parity311.records.store import Records, open_records
from parity311.studies.reproduction.prepare import (
    RECORDS_TO,
    Where,
    _count,
    check_protocol,
    prepare_part,
    read_facts_file,
    windows_of,
)
from parity311.studies.reproduction.programme import OURS, PAPER, Programme
from parity311.studies.reproduction.protocols import TRAIN_FROM, Part, parts_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Six years of cranes and SNAD in a small city."""
    processes = [get_domain(slug).process for slug in ("crane", "snad")]
    out = tmp_path_factory.mktemp("splits") / "city"
    city = build_city(
        processes, "small", 29, date_from=TRAIN_FROM, date_to=RECORDS_TO, out=out, workers=1
    )
    return open_records(city)


def check_later(split: dict[str, str]) -> None:
    """Fail if a scored day lies before the end of training."""
    assert date.fromisoformat(split["train_to"]) <= date.fromisoformat(split["test_from"]), split


@pytest.mark.parametrize("slug", ["crane", "snad"])
@pytest.mark.parametrize("programme", [OURS, PAPER], ids=lambda one: one.name)
def test_what_is_scored_came_after_what_was_learned_from(
    records: Records, tmp_path: Path, slug: str, programme: Programme
) -> None:
    part, where = parts_of(slug, programme)[0], Where(tmp_path)
    prepare_part(where, records, "measured", part, programme)
    split = read_facts_file(where.split("measured", slug))
    check_later(split)
    share = split["n_learned"] / (split["n_learned"] + split["n_scored"])
    if slug == "crane":
        assert share == pytest.approx(0.8, abs=0.01)
    else:
        assert split["test_from"] == "2024-01-01"
        assert split["n_scored"] >= 87


def test_the_twin_scored_on_a_day_that_was_learned_from() -> None:
    with pytest.raises(AssertionError):
        check_later({"train_to": "2024-01-02", "test_from": "2024-01-01"})


def test_a_split_into_the_years_of_training_is_refused(records: Records) -> None:
    part: Part = replace(parts_of("snad")[0], test_from=date(2023, 12, 31))
    with pytest.raises(InputError, match="days do not overlap"):
        windows_of(records, part)


def test_the_last_87_are_scored_where_fewer_came_in_the_papers_years(records: Records) -> None:
    """A city with 77 of them since January 2024 was refused; half of all cities have fewer."""
    part = parts_of("snad", PAPER)[0]
    n = _count(records, "snad", (part.test_from, RECORDS_TO)) + 10
    learned, scored = windows_of(records, replace(part, least_scored=n))
    assert learned[1] == scored[0] < part.test_from
    assert _count(records, "snad", scored) >= n
    assert _count(records, "snad", (scored[0] + timedelta(days=1), RECORDS_TO)) < n
    check_protocol(records, replace(part, least_scored=n), scored, PAPER)
    assert windows_of(records, part)[1][0] == part.test_from
    none = windows_of(records, replace(part, least_scored=10**6))
    assert none[1][0] == part.test_from


def test_snad_is_refused_where_fewer_than_87_came_later(records: Records) -> None:
    part = parts_of("snad", PAPER)[0]
    days = [date(2026, 3, day) for day in range(1, 32)]
    late = next(day for day in days if _count(records, "snad", (day, RECORDS_TO)) < 87)
    n = _count(records, "snad", (late, RECORDS_TO))
    with pytest.raises(EstimationError, match=f"it has {n} complaints from {late}.*scores 87"):
        check_protocol(records, part, (late, RECORDS_TO), PAPER)
