"""Play a city's days again under another rule: same places, incidents, reports and streams.

A city folder says what it was drawn from. `open_replay` draws it again, `Replay.start` works a
domain under today's rule up to a day, and `Snapshot.play` goes on from there under any rule, as
often as one likes. Rules are paired: what goes wrong and who calls is the same for all of them. In
a replicate so is what a visit meets (the hour, a locked door, the inspector); in the city on disk a
day's draws are used in the order of its visits, and differ from the first visit on that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from parity311.city.build import draw_setting, enlarge, first_filing_day
from parity311.city.clock import day_number, to_timestamps
from parity311.city.departures import DEFAULT, get_departure
from parity311.city.filing_office import FilingOffice
from parity311.city.filings import draw_filings
from parity311.city.incumbent import EXPLORATION_SHARE, Rule, severity_then_first_in
from parity311.city.presets import Preset, get_preset
from parity311.city.process import FilingProcess, Process
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain, first_worked_day, open_domain
from parity311.errors import InputError, RecordsError, unknown_name
from parity311.records.store import Records, open_records

Worked: TypeAlias = SimulatedDomain | FilingOffice
"""A domain with whoever works its cases."""


@dataclass(frozen=True)
class Replay:
    """A city that is drawn again."""

    records: Records
    preset: Preset
    setting: CitySetting
    processes: Mapping[str, Process]

    def start(self, domain: str, first: date) -> Snapshot:
        """The domain at the start of a day, worked by today's rule until then.

        Raises `RecordsError` where the visits before that day are not those on record: the city
        was drawn by another version.
        """
        if domain not in self.processes:
            raise unknown_name("domain", domain, self.processes)
        setting = self.setting
        if not setting.date_from <= first < setting.date_to:
            raise InputError(
                f"{first} is not one of the days from {setting.date_from} to {setting.date_to} "
                f"(exclusive) of {self.records.folder}; choose one."
            )
        worked, opens = self._open(self.processes[domain])
        first_day = day_number(first)
        worked.run(opens, first_day)
        self._check_is_on_record(worked, first_day)
        return Snapshot(worked, first_day)

    def _open(self, process: Process) -> tuple[Worked, int]:
        """The domain before anybody worked a day of it, and that day."""
        setting, rule = self.setting, severity_then_first_in
        if isinstance(process, FilingProcess):
            filed_from = first_filing_day(process, self.preset, setting)
            filings = draw_filings(process, setting, filed_from)
            office = FilingOffice(process, setting, filings, rule, filed_from)
            return office, office.first_day
        enlargement = enlarge(process, self.preset, setting)
        opened = open_domain(process, setting, rule, enlargement)
        return opened, first_worked_day(process, setting)

    def _check_is_on_record(self, worked: Worked, first_day: int) -> None:
        slug, time = worked.process.slug, worked.recorded_visits()
        made = np.sort(to_timestamps(time[time < first_day]))
        visits = self.records.table("visits", slug, columns=["visited_at"])
        recorded = np.sort(visits["visited_at"].to_numpy().astype("datetime64[us]"))
        recorded = recorded[recorded < to_timestamps(np.array([float(first_day)]))]
        if not np.array_equal(made, recorded):
            raise RecordsError(
                f"{self.records.folder} holds {len(recorded)} visits of {slug!r} before the first "
                f"day; drawn again they are {len(made)}, at other times: another version built "
                "it. Build it anew with `parity311 city build`."
            )


def open_replay(folder: str | Path, processes: Sequence[Process]) -> Replay:
    """Draw the places of the city in a folder again; incidents are drawn when a domain starts.

    Parameters
    ----------
    processes
        What domains declare of their incidents; only the domains in the folder can be played.
    """
    records = open_records(folder)
    details = records.manifest
    rule = severity_then_first_in.__name__
    if records.is_real or details.get("incumbent") != rule:
        worked_by = "imported records" if records.is_real else f"rule {details.get('incumbent')!r}"
        raise InputError(
            f"{folder} holds {worked_by}; only a synthetic city worked by {rule!r} can be played "
            "again. Build one with `parity311 city build`."
        )
    preset = get_preset(details["preset"])
    first, last = (date.fromisoformat(details[name]) for name in ("date_from", "date_to"))
    scenario = (details["participation"], details["capacity"])
    departure = get_departure(details.get("world", DEFAULT.name))
    setting = draw_setting(preset, details["seed"], *scenario, first, last, departure)
    known = {process.slug: process for process in processes if process.slug in records.domains}
    return Replay(records, preset, setting, known)


@dataclass(frozen=True)
class PlayedDomain:
    """A domain whose last days were worked under some rule."""

    worked: Worked
    first_day: int
    """Day number from which the rule decided"""

    @property
    def last_day(self) -> int:
        """Day number after the last."""
        return day_number(self.worked.setting.date_to)


@dataclass(frozen=True)
class Snapshot:
    """A domain at the start of a day; playing on from it leaves it as it is."""

    worked: Worked
    first_day: int

    @property
    def domain(self) -> str:
        """Name of the domain."""
        return self.worked.process.slug

    def play(
        self, rule: Rule, *, replicate: int = 0, exploration: float = EXPLORATION_SHARE
    ) -> PlayedDomain:
        """Work the rest of the city's days under a rule.

        Parameters
        ----------
        rule
            Who is visited, from the waiting cases of a day; see `city.incumbent`.
        replicate
            0 is the city on disk; any other number draws anew what begins on the first day or
            later, with its reports, and the service of every day. Places, weather and everything
            before that day stay, and of filings the year that is under way.
        exploration
            Share of the visits drawn at random; the city's own unless given.
        """
        played = self.open(rule, replicate, exploration)
        played.worked.run(self.first_day, played.last_day)
        return played

    def open(self, rule: Rule, replicate: int, exploration: float) -> PlayedDomain:
        """The domain with this rule in place, before it worked a day."""
        if replicate < 0 or not 0.0 <= exploration <= 1.0:
            raise InputError(
                f"Replicate {replicate} or exploration {exploration} is outside what is allowed; "
                "give a replicate of 0 or more and an exploration between 0 and 1."
            )
        worked = self.worked.go_on(
            rule, self.first_day, replicate=replicate, exploration=exploration
        )
        return PlayedDomain(worked, self.first_day)


def play_together(
    snapshots: Sequence[Snapshot],
    rules: Mapping[str, Rule],
    *,
    replicate: int = 0,
    exploration: float = EXPLORATION_SHARE,
) -> dict[str, PlayedDomain]:
    """Work the rest of the days of several domains with one staff.

    Every day a domain gets the visits it would have by itself, as far as its rule asks for them
    (all cases that are not at -inf); what it leaves goes to domains that ask for more, in
    proportion to what they are short of. That assumes that any inspector can do any domain's visit
    in the same time, in any part of the city, and that a case asked for counts alike whatever its
    domain. Each rule is told the visits its domain would have by itself, what it was trained with.

    Parameters
    ----------
    snapshots
        One a domain, of one city at one day.
    rules
        By domain; today's rule where none is given.
    replicate, exploration
        As in `Snapshot.play`.
    """
    if len({(id(one.worked.setting), one.first_day) for one in snapshots}) != 1:
        raise InputError("Domains that share a staff must start on one day of one `Replay`.")
    played = {
        one.domain: one.open(rules.get(one.domain, severity_then_first_in), replicate, exploration)
        for one in snapshots
    }
    worked = [one.worked for one in played.values()]
    first_day, last_day = snapshots[0].first_day, next(iter(played.values())).last_day
    for day in range(first_day, last_day):
        opened = [one.begin_day(day) for one in worked]
        own = np.array([one.n_slots for one in opened])
        shares = share_visits(own, np.array([one.n_asked for one in opened]))
        for one, plan, n_slots in zip(worked, opened, shares.tolist(), strict=True):
            one.end_day(plan, n_slots)
    return played


def share_visits(own: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Visits (n,) for each of n domains with one staff: its own first, then what others leave.

    Nobody gets more than it asks for. What is left over goes to unmet requests in proportion to
    them; of what rounding leaves, the largest fractions get one each, the earlier domain first.
    """
    given = np.minimum(own, asked)
    left, unmet = int((own - given).sum()), asked - given
    if int(unmet.sum()) <= left:
        return asked.copy()
    exact = left * unmet / int(unmet.sum())
    more = np.floor(exact).astype(np.int64)
    last = np.argsort(more - exact, kind="stable")[: left - int(more.sum())]
    more[last] += 1
    return given + more
