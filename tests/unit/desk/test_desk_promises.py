"""Promised service levels at the desk: clock, answer, public table, and what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import START, SmallDesk

from parity311.cli import main
from parity311.desk import cases
from parity311.desk.figures import read_promises
from parity311.desk.intake import NewComplaint, record_visit, take_in
from parity311.desk.tables import VisitRow
from parity311.errors import InputError
from parity311.service_levels.levels import CellPromise, ServiceLevels, write_levels

PROMISES = ServiceLevels("heat", "borough", 0.8, 0.9, (CellPromise("*", "*", 7),))


@pytest.fixture
def promising(desk_records: Path, desk_files: Path, tmp_path: Path) -> SmallDesk:
    """A desk that promises every heat complaint received from the second day on seven days."""
    levels = replace(PROMISES, valid_from=START.date() + timedelta(days=1))
    path = write_levels(tmp_path / "levels.toml", levels)
    return open_small(desk_records, desk_files, str(tmp_path / "desk.db"), levels=(path,))


def complain(small: SmallDesk, name: str, days: float) -> str:
    """One complaint so many days after the start; its check code."""
    moment = START + timedelta(days=days)
    one = NewComplaint(name, "heat", "HEAT", "B", moment, "36005000001", flags={"is_no_heat": True})
    with small.desk.database.writing() as session:
        (taken,) = take_in(session, small.desk.office("heat"), [one], moment)
    return taken.check_code


def test_the_clock_shows_the_promised_date(promising: SmallDesk) -> None:
    """Seven days are up at the end of the seventh; who came before the promise has the code's."""
    before, after = complain(promising, "before", 0.5), complain(promising, "after", 1.5)
    with promising.desk.database.reading() as session:
        clocks = [cases.summary_of(cases.find_case(session, name), START)["clock"]
                  for name in ("before", "after")]  # fmt: skip
    assert clocks[0]["rule"] == "code B: 40 days"
    assert clocks[1]["rule"] == "promised: 7 days"
    assert clocks[1]["due_at"] == "2024-03-09T23:59:59"
    clerk = promising.browser("intake")
    assert "(promised: 7 days)" in clerk.get("/case/after").text
    told = [
        promising.browser().post("/status", data={"tracking": name, "code": code}).text
        for name, code in (("before", before), ("after", after))
    ]
    assert "Our goal for this kind is 40 days" in told[0]
    assert "promised a visit within 7 days, by March 9, 2024" in told[1]


def test_what_was_kept_is_told_in_public(promising: SmallDesk) -> None:
    """Forty requests due, thirty visited on the promised day, ten a day later; before it, none."""
    for number in range(40):
        complain(promising, f"one-{number}", 1.5)
    with promising.desk.database.writing() as session:
        for number in range(40):
            on = date(2024, 3, 9) + timedelta(days=number >= 30)
            seen = VisitRow(visit_id=f"v-{number}", complaint_id=f"one-{number}", attempt=1,
                            visited_at=f"{on}T15:00:00", result="no_access")  # fmt: skip
            record_visit(session, seen)
    own = promising.desk.office("heat").promised
    assert own is not None
    promised = {"heat": own}
    with promising.desk.database.reading() as session:
        early, late = (
            read_promises(session, promised, START + timedelta(days=days)) for days in (8, 12)
        )
    assert early[0]["due"] is None
    assert (late[0]["due"], late[0]["share"], late[0]["days"]) == (40, 0.75, 7)
    assert late[0]["lower"] <= 0.75 <= late[0]["upper"]
    promising.desk.clock.set(START + timedelta(days=12))
    page = promising.browser().get("/").text
    assert "What is promised, and what was kept" in page
    assert "80 % in 7 days" in page
    assert "75 %" in page


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((replace(PROMISES, domain="crane"),), "not served here"),
        ((PROMISES, PROMISES), "twice"),
        ((replace(PROMISES, promise=(CellPromise("Queens", "*", 7),)),), "do not cover the city"),
    ],
    ids=["another domain", "twice", "a district without"],
)
def test_levels_that_do_not_fit_are_refused(
    desk_records: Path,
    desk_files: Path,
    tmp_path: Path,
    levels: tuple[ServiceLevels, ...],
    said: str,
) -> None:
    paths = tuple(
        write_levels(tmp_path / f"{number}.toml", one) for number, one in enumerate(levels)
    )
    with pytest.raises(InputError, match=said):
        open_small(desk_records, desk_files, str(tmp_path / "desk.db"), levels=paths)
    assert not (tmp_path / "desk.db").exists()


def test_a_file_that_is_wrong_is_refused_before_a_city_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_levels(tmp_path / "levels.toml", PROMISES)
    path.write_text(path.read_text().replace("days = 7", "days = -7"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["parity311", "serve", "--service-levels", path.name])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "a clock cannot run backwards" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
