"""The policy in office, looked at: what is read, what is written, and who acts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import write_folder
from tests.unit.lifecycle.offices import WHO, Office, busy_tables
from tests.unit.lifecycle.test_office import propose

from parity311.audit.spec import AuditSpec
from parity311.errors import InputError, RegistryError
from parity311.lifecycle import watch as watching
from parity311.lifecycle.drift import find_drift
from parity311.lifecycle.lights import AMBER, GREEN, GREY, RED, Light, LightSpec
from parity311.lifecycle.office import recommend_in_office
from parity311.lifecycle.watch import act_on, read_survey, watch_and_write, watch_domain
from parity311.lifecycle.watch_page import write_metrics
from parity311.pipelines.overrides import Recommendation
from parity311.records.journal_reader import read_journal
from parity311.records.store import Records, open_records
from parity311.service_levels.levels import CellPromise, ServiceLevels

SINCE = date(2024, 3, 1)
OPTIONS = {"since": SINCE, "spec": LightSpec(), "audit": AuditSpec(n_draws=100)}
REFUSED = Recommendation("heat", "36005000001", True, False, True, "", "2024-04-02")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return open_records(write_folder(tmp_path / "records", busy_tables()))


@pytest.fixture
def version(on_file: Office) -> str:
    version = propose(on_file, "dual_threshold")
    on_file.registry.act("release", version, **WHO)
    return version


def lit(state: str) -> Light:
    """A light of that state."""
    return Light("friction", state, 70.0, 60.0, 0.6, 0.3, "staff set aside 60 %")


def test_a_look_writes_a_page_and_metrics(
    on_file: Office, version: str, records: Records, tmp_path: Path
) -> None:
    for day in (1, 8, 15):
        journal = read_journal(records, "heat", datetime(2024, 4, day))
        recommend_in_office(on_file.registry, "heat", journal, capacity=1, left_share=0.5)
    found = watch_and_write(
        on_file.registry, "heat", records, runs=tmp_path / "runs",
        metrics=tmp_path / "parity311.prom", overrides=[REFUSED] * 3, **OPTIONS,
    )  # fmt: skip
    assert (found["version"], found["state"], found["done"]) == (version, GREEN, "")
    by_name = {one["name"]: one for one in found["lights"]}
    assert by_name["disparity"]["state"] == GREY  # forty complaints say nothing of strata
    assert by_name["friction"]["state"] == GREEN
    assert by_name["detection"]["state"] in (GREEN, GREY)
    page = Path(found["page"]).read_text()
    for words in ("Three lights", "What moved", version):
        assert words in page
    text = (tmp_path / "parity311.prom").read_text()
    assert f'parity311_light{{domain="heat",version="{version}",light="friction"}} 0' in text
    assert text.endswith("\n")
    for line in text.splitlines():
        assert (
            line.startswith("#") or line.rsplit(" ", 1)[1] == "NaN" or float(line.split()[-1]) < 1e9
        )


def test_decisions_and_their_outcomes_make_the_second_light(
    on_file: Office, version: str, records: Records
) -> None:
    for month in (3, 4, 5, 6):
        for day in (2, 9, 16, 23):
            journal = read_journal(records, "heat", datetime(2024, month, day))
            recommend_in_office(on_file.registry, "heat", journal, capacity=2, left_share=0.5)
    found = watch_domain(on_file.registry, "heat", records, **OPTIONS)
    light = next(one for one in found.lights if one.name == "detection")
    assert light.state == GREEN
    assert "left to today's rule" in light.words
    assert len(light.path) == (records.window[1] - SINCE).days


def promised(days: int, domain: str = "heat") -> ServiceLevels:
    """So many days for everybody."""
    return ServiceLevels(domain, "borough", 0.8, 0.9, (CellPromise("*", "*", days),))


def test_service_levels_are_read_by_the_page_and_by_the_second_light(
    on_file: Office, version: str, records: Records, tmp_path: Path
) -> None:
    for month in (3, 4, 5, 6):
        for day in (2, 9, 16, 23):
            journal = read_journal(records, "heat", datetime(2024, month, day))
            recommend_in_office(on_file.registry, "heat", journal, capacity=2, left_share=0.5)
    found = {
        days: watch_and_write(
            on_file.registry, "heat", records, runs=tmp_path / "runs",
            metrics=tmp_path / f"{days}.prom", levels=promised(days), **OPTIONS,
        )
        for days in (9, 8)
    }  # fmt: skip
    kept, broken = (found[days]["promises"]["whole"] for days in (9, 8))
    assert (kept["kept_share"], kept["is_broken"]) == (1.0, False)
    assert (broken["kept_share"], broken["is_broken"]) == (0.0, True)
    assert "Promises" in Path(found[8]["page"]).read_text()
    assert 'category="HEAT"} 1' in (tmp_path / "8.prom").read_text()
    words = {days: next(one["words"] for one in found[days]["lights"] if one["name"] == "detection")
             for days in found}  # fmt: skip
    # Every visit came after nine days: within eight nothing was found in time.
    assert all("within the promised days" in one for one in words.values())
    assert words[8].count("0%") == 2 > words[9].count(" 0%")


def test_levels_of_another_domain_are_refused(
    on_file: Office, version: str, records: Records
) -> None:
    with pytest.raises(InputError, match="for 'crane'"):
        watch_domain(on_file.registry, "heat", records, levels=promised(9, "crane"), **OPTIONS)


@pytest.mark.parametrize(
    ("state", "action", "ends"), [(RED, "suspend", "SUSPENDED"), (AMBER, "watch", "WATCH")]
)
def test_it_acts_in_a_persons_name_alone(
    state: str, action: str, ends: str, on_file: Office, version: str, records: Records,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(watching, "friction_light", lambda *_, **__: lit(state))
    look = lambda **more: watch_and_write(  # noqa: E731
        on_file.registry, "heat", records, runs=tmp_path / "runs", **OPTIONS, **more
    )
    assert look()["done"] == ""
    assert on_file.states[version] == "LIVE"
    assert look(by="A. Okafor")["done"] == action
    assert on_file.states[version] == ends
    last = on_file.registry.log()[-1]
    assert (last.actor, last.action) == ("A. Okafor", action)
    assert "staff set aside 60 %" in last.reason
    # Once is enough.
    assert look(by="A. Okafor")["done"] == ""


def test_what_was_seen_is_told_where_the_act_is_refused(
    on_file: Office, version: str, records: Records, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(watching, "friction_light", lambda *_, **__: lit(RED))
    on_file.now -= timedelta(days=1)
    with pytest.raises(RegistryError, match="jumped back"):
        watch_and_write(
            on_file.registry, "heat", records, runs=tmp_path / "runs", by="A. Okafor",
            metrics=tmp_path / "parity311.prom", **OPTIONS,
        )  # fmt: skip
    assert on_file.states[version] == "LIVE"
    assert 'light="friction"} 2' in (tmp_path / "parity311.prom").read_text()
    assert list((tmp_path / "runs").glob("*/report.html"))


def test_a_suspended_policy_is_not_suspended_again(
    on_file: Office, version: str, records: Records
) -> None:
    found = watch_domain(on_file.registry, "heat", records, **OPTIONS)
    on_file.registry.act("suspend", "heat", **WHO)
    policy = on_file.registry.policies()[0]
    red = replace(found, policy=policy, lights=(lit(RED),))
    assert act_on(on_file.registry, red, "A. Okafor") == ""


def test_evidence_against_one_policy_does_not_stop_the_next(
    on_file: Office, version: str, records: Records
) -> None:
    """Somebody releases another while it is looked."""
    found = watch_domain(on_file.registry, "heat", records, **OPTIONS)
    other = on_file.released()
    red = replace(found, lights=(lit(RED),))
    with pytest.raises(RegistryError, match=f"did release {other}.*after this suspend"):
        act_on(on_file.registry, red, "A. Okafor")
    assert on_file.states == {version: "RETIRED", other: "LIVE"}
    # The broken twin acts on whoever is there.
    act_on(on_file.registry, replace(red, seen=None), "A. Okafor")
    assert on_file.states[other] == "SUSPENDED"


def test_a_look_keeps_where_the_log_ended(on_file: Office, version: str, records: Records) -> None:
    head = watch_domain(on_file.registry, "heat", records, **OPTIONS).log_head
    assert on_file.registry.verify(head).problems == ()
    assert head == on_file.registry.log()[-1].hash


def test_nobody_in_office_is_nobody_to_watch(on_file: Office, records: Records) -> None:
    with pytest.raises(RegistryError, match="nothing to watch"):
        watch_domain(on_file.registry, "heat", records, **OPTIONS)


@pytest.mark.parametrize("since", [None, date(2030, 1, 1), date(2020, 1, 1)])
def test_records_must_reach_beyond_the_release(
    since: Any, on_file: Office, version: str, records: Records
) -> None:
    with pytest.raises(InputError, match="--since DAY"):
        watch_domain(on_file.registry, "heat", records, **OPTIONS | {"since": since})


def test_overrides_need_a_day(on_file: Office, version: str, records: Records) -> None:
    undated = [replace(REFUSED, date="")]
    with pytest.raises(InputError, match="column date"):
        watch_domain(on_file.registry, "heat", records, overrides=undated, **OPTIONS)
    wrong = [replace(REFUSED, date="2 April")]
    with pytest.raises(InputError, match="2026-01-31"):
        watch_domain(on_file.registry, "heat", records, overrides=wrong, **OPTIONS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("when,score\n2024-04-01,0.2\n", "lacks the column date"),
        ("date,score\n2024-04-01,7\n", "allowed is 0 to 1"),
        ("date,score\n2024-04-01,much\n", "Cannot read"),
    ],
)
def test_a_survey_that_is_none_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_survey(path)


def test_what_moved_is_told(records: Records) -> None:
    rows = {one.what: one for one in find_drift(records, "heat", SINCE, records.window[1])}
    assert all(not one.is_moved for one in rows.values())  # forty complaints are too few to say
    assert "too few" in rows["severity codes of complaints"].note


def test_more_than_usual_is_a_shift(tmp_path: Path) -> None:
    tables = busy_tables(1)
    calls = tables["complaints"].to_pylist()
    late = [row for row in calls if row["received_at"] >= datetime(2024, 7, 4)]
    extra = [
        row | {"complaint_id": f"x{n}-{row['complaint_id']}", "severity": "A", "incident_id": None}
        for row in late
        for n in range(60)
    ]
    early = [
        row | {"complaint_id": f"y{n}-{row['complaint_id']}", "incident_id": None}
        for row in calls[:12]
        for n in range(4)
    ]
    tables["complaints"] = tables["complaints"].from_pylist(
        [*calls, *extra, *early], schema=tables["complaints"].schema
    )
    records = open_records(write_folder(tmp_path / "more", tables))
    rows = {one.what: one for one in find_drift(records, "heat", SINCE, date(2024, 8, 1))}
    assert rows["complaints a day"].is_moved
    assert rows["severity codes of complaints"].is_moved
    # So many more complaints, and no visit more: what makes people stop calling.
    visits = rows["visits for each complaint: whether anybody comes"]
    assert visits.is_moved
    assert (visits.now or 0.0) < (visits.before or 0.0)
    assert np.isfinite(rows["complaints a day"].value or np.nan)


def test_metrics_are_whole_or_not_there(
    on_file: Office, version: str, records: Records, tmp_path: Path
) -> None:
    found = watch_domain(on_file.registry, "heat", records, **OPTIONS)
    path = write_metrics(tmp_path / "deep" / "parity311.prom", found)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
