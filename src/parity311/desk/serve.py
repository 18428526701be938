"""Open a desk on records and a database, and serve it until somebody stops it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from parity311.desk.accounts import SAMPLE_ACCOUNTS, draw_password, hash_password, make_account
from parity311.desk.app import make_app
from parity311.desk.desk import OPENED, CityClock, Desk, TractPlace
from parity311.desk.identity import read_provider
from parity311.desk.intake import NewComplaint, take_backlog
from parity311.desk.keeper import make_keepers
from parity311.desk.offices import DeskOffice, Promised
from parity311.desk.replay import CityReplay, start_replay
from parity311.desk.tables import AccountRow, SettingRow
from parity311.desk.telling import follow_server, make_teller
from parity311.desk.todays_rule import open_todays_rule
from parity311.errors import InputError
from parity311.lifecycle.registry import Registry
from parity311.records.absent import no_such_domain
from parity311.records.journal import Journal, moment_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records, open_records
from parity311.service_levels.kept import check_city
from parity311.service_levels.levels import ServiceLevels, read_levels
from parity311.storage.aside import write_text_aside

ACCOUNTS_FILE = "accounts.txt"
DAYS_BEFORE_END = 30
"""The day that is replayed where none is named, counted back from the end of the records."""
DEMO_DOMAINS = ("heat", "elevator")
THREADS = 40
SWITCH_SECONDS = 0.001


@dataclass(frozen=True)
class ServeConfig:
    """What a desk is started with."""

    records: Path
    folder: Path
    database: str
    domains: tuple[str, ...] = DEMO_DOMAINS
    replay: bool = True
    day: datetime | None = None
    days: int = 1
    speed: float = 60.0
    left_share: float = 0.1
    behind_https: bool = False
    blind_share: float = 0.0
    runs: Path | None = None
    levels: tuple[Path, ...] = ()
    """files of service levels, one a domain at most"""
    provider: Path | None = None
    """file of an identity provider"""
    own_machine: bool = False
    """whether other systems may be on this machine"""


def open_desk(config: ServeConfig) -> tuple[Desk, CityReplay | None, list[tuple[str, str]]]:
    """A desk ready to serve, its replay, and accounts that were made now with their passwords.

    Everything that can be refused is looked at before the database is made.
    """
    records = open_records(config.records)
    for domain in config.domains:
        if domain not in records.domains:
            raise no_such_domain(records, domain)
    moment = _first_moment(records, config)
    places = read_places(records)
    promised = read_promised(config, records, places)
    provider = read_provider(config.provider) if config.provider else None
    journals = {domain: read_journal(records, domain, moment) for domain in config.domains}
    packages = {
        domain: open_todays_rule(config.folder / "todays-rule" / domain, domain)
        for domain in config.domains
    }
    registry = Registry(config.database, makes=True)
    offices = {
        domain: DeskOffice(
            registry,
            domain,
            journals[domain],
            packages[domain],
            config.left_share,
            promised.get(domain),
        )
        for domain in config.domains
    }
    desk = Desk(
        registry=registry,
        offices=offices,
        clock=CityClock(),
        places=places,
        folder=config.folder,
        is_synthetic=not records.is_real,
        behind_https=config.behind_https,
        blind_share=config.blind_share,
        runs=config.runs,
        provider=provider,
        own_machine=config.own_machine,
    )
    take_over(desk, records, moment)
    made = make_sample_accounts(desk)
    replay = None
    if config.replay:
        replay = CityReplay(records, config.domains, moment, config.days)
        start_replay(desk, replay, config.speed)
    return desk, replay, made


def _first_moment(records: Records, config: ServeConfig) -> datetime:
    """The moment from which complaints come to the desk; what was before is its past."""
    first, last = (datetime.combine(day, datetime.min.time()) for day in records.window)
    if not config.replay:
        return last
    moment = config.day or max(last - timedelta(days=DAYS_BEFORE_END), first)
    if not first <= moment <= last - timedelta(days=config.days):
        raise InputError(
            f"{config.days} days from {moment.date()} were asked for; {records.folder} has records "
            f"from {first.date()} to {last.date()}. Choose a day between them."
        )
    return moment


def take_over(desk: Desk, records: Records, moment: datetime) -> None:
    """Put what is open on record at a moment on the desk, where this is its first start."""
    if desk.recall(OPENED) is not None:
        return
    with desk.database.writing() as session:
        for office in desk.offices.values():
            incidents = {
                row["complaint_id"]: row["incident_id"] or ""
                for row in records.sql(_INCIDENTS, domain=office.domain, date_to=moment).to_pylist()
            }
            take_backlog(session, office, open_complaints(office.past, incidents), moment)
        opened = {"at": moment.isoformat(), "domains": list(desk.offices)}
        session.merge(SettingRow(name=OPENED, value=json.dumps(opened)))


_INCIDENTS = """
SELECT complaint_id, incident_id FROM complaints
WHERE domain = $domain AND received_at < $date_to"""


def open_complaints(journal: Journal, incidents: Mapping[str, str]) -> list[NewComplaint]:
    """The open cases of a journal, as complaints that came in before the desk opened."""
    names = {area.tract: geoid for geoid, area in journal.areas.items()}
    found = []
    for at in journal.open_rows.tolist():
        building = int(journal.building[at])
        found.append(
            NewComplaint(
                complaint_id=str(journal.complaint_id[at]),
                domain=journal.domain,
                category=journal.categories[int(journal.category[at])],
                severity=SEVERITIES[int(journal.code[at])],
                received_at=moment_of(float(journal.began[at])),
                tract=names[int(journal.tract[at])],
                building_id=str(journal.building_ids[building]) if building >= 0 else "",
                units=float(journal.units[at]),
                flags={name: bool(values[at]) for name, values in journal.flags.items()},
                n_reports=int(journal.n_reports[at]),
                incident_id=incidents.get(str(journal.complaint_id[at]), ""),
                source="before",
            )
        )
    return found


def read_levels_by_domain(
    paths: Sequence[Path], domains: Sequence[str]
) -> dict[str, ServiceLevels]:
    """Service levels by domain; what is wrong with a file, or not served, is refused."""
    found: dict[str, ServiceLevels] = {}
    for path in paths:
        levels = read_levels(path)
        if levels.domain not in domains or levels.domain in found:
            said = "twice" if levels.domain in found else "and it is not served here"
            raise InputError(
                f"{path} promises for {levels.domain!r} {said}; give one file for each of "
                f"{', '.join(domains)} at most."
            )
        found[levels.domain] = levels
    return found


def read_promised(
    config: ServeConfig, records: Records, places: Mapping[str, TractPlace]
) -> dict[str, Promised]:
    """What each domain's complaints are promised; levels that do not fit the desk are refused."""
    found: dict[str, Promised] = {}
    for levels in read_levels_by_domain(config.levels, config.domains).values():
        check_city(levels, records)
        is_borough = levels.districts == "borough"
        districts = {
            name: place.borough if is_borough else str(place.board)
            for name, place in places.items()
        }
        found[levels.domain] = Promised(levels, districts)
    return found


def read_places(records: Records) -> dict[str, TractPlace]:
    """Every tract with its position."""
    rows = records.sql(
        "SELECT geoid, borough, community_board, longitude, latitude FROM tracts ORDER BY geoid"
    ).to_pylist()
    return {
        row["geoid"]: TractPlace(
            row["geoid"], row["borough"] or "", row["community_board"], row["longitude"],
            row["latitude"],
        )
        for row in rows
    }  # fmt: skip


def make_sample_accounts(desk: Desk) -> list[tuple[str, str]]:
    """One account a role where there is none at all, with passwords drawn now.

    They are also kept in a file that only this user can read, until somebody removes it.
    """
    with desk.database.writing() as session:
        if session.scalars(select(AccountRow).limit(1)).first() is not None:
            return []
        made = [(name, draw_password()) for name in SAMPLE_ACCOUNTS]
        for name, password in made:
            make_account(session, name, SAMPLE_ACCOUNTS[name], hash_password(password))
    path = desk.folder / ACCOUNTS_FILE
    before = os.umask(0o077)
    try:
        write_text_aside(path, "".join(f"{name} {password}\n" for name, password in made))
    finally:
        os.umask(before)
    return made


def serve(desk: Desk, replay: CityReplay | None, host: str, port: int,
          tell: Callable[[str], None]) -> None:  # fmt: skip
    """Serve until a signal ends it; requests that began are finished."""
    import anyio.to_thread
    import uvicorn

    teller = make_teller()
    keepers = desk.more["keepers"] = make_keepers(desk, replay, teller)
    follow_server(teller)

    def starts() -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        # Who answers does not wait long for who works beside.
        sys.setswitchinterval(SWITCH_SECONDS)
        for one in keepers:
            one.start()
        tell(f"The desk is open at http://{host}:{port}")

    def stops() -> None:
        for one in keepers:
            one.stop()

    app = make_app(desk, starts=starts, stops=stops, teller=teller)
    with desk.database.kept_open():
        uvicorn.run(
            app, host=host, port=port, log_level="warning", log_config=None, access_log=False,
            timeout_graceful_shutdown=10, server_header=False,
        )  # fmt: skip
