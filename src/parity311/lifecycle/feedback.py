"""What happens when a policy's own decisions become its training data, in the generator.

Round after round a policy decides in a city where people report less where nobody came, records
form from reports and from what it looked at, it is recalibrated and made anew. Beside that stand
the paper's three mitigations and a correction by the chance of having been selected, each on the
same incidents. The truth scores; nothing that learns reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.cells import read_inputs
from parity311.audit.gap import TAU
from parity311.city.build import draw_setting, enlarge, write_worked
from parity311.city.clock import day_number, to_date
from parity311.city.departures import Departure, get_departure
from parity311.city.incumbent import EXPLORATION_SHARE, Rule, severity_then_first_in
from parity311.city.played import JUDGED_DAYS, PlayedFigures, measure_rounds
from parity311.city.presets import Preset, check_scenario
from parity311.city.process import ComplaintProcess
from parity311.city.simulate import SimulatedDomain, first_worked_day, open_domain
from parity311.domains import get_domain
from parity311.errors import InputError, Parity311Error
from parity311.estimation.world import make_world
from parity311.jobs.choose import HERE, Workplace
from parity311.jobs.drive import check_done
from parity311.jobs.job import Job, Task
from parity311.lifecycle.loop_rules import BonusRule, learn_places, move_prices, sparse_bonus
from parity311.mdp.contract import N_KNOWN_STRATA, N_STRATA, Domain
from parity311.mdp.harness import Harness
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import calibrate
from parity311.resampling import mean_interval
from parity311.serving.playing import play_by
from parity311.serving.policy import load_policy
from parity311.training import with_equity
from parity311.training.saving import origin_of, save_rule

NONE, BONUS, RANDOM, CHECKPOINTS, WEIGHTED = "none", "bonus", "random", "checkpoints", "weighted"
TODAY = "today"
ARMS = {
    TODAY: "today's rule, which learns nothing: what the city does by itself",
    NONE: "nothing is done about it",
    BONUS: "cases of tracts that nobody was sent to lately move ahead in line",
    RANDOM: "a tenth of the visits go to cases drawn at random, with their chance on record",
    CHECKPOINTS: "an audit after every round; beyond the threshold, strata behind count for more",
    WEIGHTED: "random visits, and finds weighed by one over the chance of the visit",
}
"""What is done about the loop, in words."""
LEARNERS = {
    "counts": "goes where most was found for each household of the tract",
    "places": "goes where most was found for each complaint of the tract",
    "thresholds": "the thresholds this project serves, by kinds of complaints",
}
BONUS_SHARE = 0.3
"""Share of the line that a case of a tract without any recent visit moves ahead."""
EQUITY_WEIGHT = 0.5
CALIBRATION_DRAWS = 50
FIRST_DAY = date(2026, 1, 1)
"""First day of the first round, after a year under today's rule. From here on the generator's
volumes do not change from year to year: what drifts is the loop."""
ENDS = 3
"""Rounds at the beginning and at the end whose difference is called drift."""

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class FeedbackConfig:
    """What is played."""

    domain: str = "heat"
    rounds: int = 12
    n_cities: int = 10
    seed: int = 1901
    """of the first city; the others follow"""
    learner: str = "counts"
    arms: tuple[str, ...] = tuple(ARMS)
    participation: str = "strong"
    capacity: str = "scarce"
    world: str = "discouraged"
    """people report less where nobody came; `default`: they do not"""
    round_days: int = 365
    """a year, so that seasons are no drift"""
    n_tracts: int = 60
    tau: float = TAU
    visits: float = 1.0
    """from the first round on, visits there are for a complaint, times those of the capacity"""
    withheld: float | None = None
    """share of reports that are not made where nobody ever comes; the world's own if not given"""


@dataclass
class Loop:
    """One arm in one city, on the way."""

    domain: Domain
    config: FeedbackConfig
    arm: str
    preset: Preset
    worked: SimulatedDomain
    scratch: Path
    prices: np.ndarray = field(default_factory=lambda: np.zeros(N_STRATA))
    rule: Rule | None = None
    n_retrained: int = 0

    @property
    def exploration(self) -> float:
        """Share of the visits that are drawn at random."""
        return EXPLORATION_SHARE if self.arm in (RANDOM, WEIGHTED) else 0.0

    def play(self, first: int, last: int) -> None:
        """Learn from what is on record at a day, then decide until another."""
        rule = severity_then_first_in if self.arm == TODAY else self._learn(first)
        if self.arm == BONUS:
            rule = BonusRule(rule, sparse_bonus(self.worked, first), BONUS_SHARE)
        self.worked = self.worked.go_on(rule, first, replicate=0, exploration=self.exploration)
        self.worked.run(first, last)

    def _learn(self, day: int) -> Rule:
        is_served = self.config.learner == "thresholds"
        records = None
        if is_served or self.arm == CHECKPOINTS:
            records = open_records(
                write_worked(self.scratch / f"{self.arm}-{day}", self.worked, self.preset)
            )
        if self.arm == CHECKPOINTS and records is not None:
            coverage = recorded_coverage(records, self.domain.slug, to_date(day))
            gap = float(np.nanmax(coverage) - np.nanmin(coverage))
            if self.rule is not None and not gap > self.config.tau:
                return self.rule
            if gap > self.config.tau:
                self.n_retrained += 1
                self.prices = move_prices(self.prices, coverage)
        if is_served:
            assert records is not None
            self.rule = self._serve(records, day)
        else:
            self.rule = learn_places(
                self.worked,
                day,
                by_household=self.config.learner == "counts",
                is_weighted=self.arm == WEIGHTED,
                prices=self.prices,
            )
        return self.rule

    def _serve(self, records: Records, day: int) -> Rule:
        """The served thresholds, made from recalibrated records."""
        last = to_date(day)
        first = max(records.window[0], last - timedelta(days=365))
        world = make_world(self.domain, records, date_from=first, date_to=last)
        preference = self.domain.preference
        is_priced = bool(self.prices.any())
        folder = save_rule(
            self.scratch / f"policy-{self.arm}-{day}",
            Harness(self.domain),
            "dual_threshold",
            world.estimated,
            preference=with_equity(preference, EQUITY_WEIGHT) if is_priced else preference,
            prices=np.clip(self.prices, -1.5, 1.5),
            origin=origin_of(world),
        )
        return play_by(load_policy(folder))


def recorded_coverage(records: Records, domain: str, until: date) -> np.ndarray:
    """(5,) cases served over estimated incidents, by quintile, in the last year on record."""
    first = max(records.window[0], until - timedelta(days=365))
    found = calibrate(records, domain, date_from=first, date_to=until, n_draws=CALIBRATION_DRAWS)
    inputs = read_inputs(records, domain, date_from=first, date_to=until)
    stratum = np.where(inputs.places.income_quintile > 0, inputs.places.income_quintile - 1, 5)
    use = inputs.cells.tract >= 0
    served = np.bincount(
        stratum[inputs.cells.tract[use]], inputs.cells.n_served[use], minlength=N_STRATA
    )
    need = found.denominators * (until - first).days / 28.0
    rate = np.divide(served, need, out=np.full(N_STRATA, np.nan), where=need > 0)
    return rate[:N_KNOWN_STRATA]


def check_feedback(config: FeedbackConfig) -> Domain:
    """Refuse what cannot be played; the domain."""
    domain = get_domain(config.domain)
    if not isinstance(domain.process, ComplaintProcess):
        raise InputError(
            f"Domain {domain.slug!r} has mandatory filings, which nobody leaves out because nobody "
            "came; choose one with complaints, such as heat."
        )
    for kind, given, allowed in (
        ("learner", (config.learner,), LEARNERS),
        ("mitigation", config.arms, ARMS),
    ):
        for one in given:
            if one not in allowed:
                raise InputError(f"Unknown {kind} {one!r}; allowed: {', '.join(allowed)}.")
    for name, value, most in (
        ("visits", config.visits, 10.0),
        ("withheld", config.withheld or 0.0, 1.0),
    ):
        if not 0.0 <= value <= most:
            raise InputError(f"{name} is {value}; allowed is 0 to {most:g}. Change it.")
    check_scenario(config.participation, config.capacity)
    get_departure(config.world)
    return domain


def run_feedback(
    config: FeedbackConfig, progress: Progress, *, where: Workplace = HERE, kept: Path | None = None
) -> dict[str, Any]:
    """Play all arms in all cities; rows by city, arm and round, and what they come to.

    A city is a job; with a folder for what is kept, none is played twice.
    """
    check_feedback(config)
    arms = [one for one in config.arms if not (one == WEIGHTED and config.learner == "thresholds")]
    jobs = [
        Job(
            "parity311.lifecycle.feedback:play_job",
            asdict(replace(config, seed=config.seed + number, n_cities=1, arms=tuple(arms))),
            name=f"feedback-{config.domain}-{config.seed + number}",
        )
        for number in range(config.n_cities)
    ]
    told = lambda ended, total, _: progress("cities played", ended, total)  # noqa: E731
    done = where.run(jobs, folder=kept, tell=told)
    check_done(done, len(jobs), kept)
    rows: list[dict[str, Any]] = [
        {name: np.nan if value is None else value for name, value in row.items()}
        for one in done
        for row in one.result["rows"]
    ]
    drift = [drift_of(rows, one) for one in arms]
    return {
        "config": config,
        "arms": {one: ARMS[one] for one in arms},
        "rows": rows,
        "by_round": by_round(rows, arms, config.rounds),
        "drift": drift,
        "why": [*say_why(rows, arms, config), *say_mitigations(drift)],
    }


def departure_of(config: FeedbackConfig) -> Departure:
    """The world that is played in, at the strength asked for."""
    world = get_departure(config.world)
    return world if config.withheld is None else replace(world, reaction=config.withheld)


def play_job(task: Task) -> dict[str, Any]:
    """Play one city, in whatever process."""
    config = FeedbackConfig(**{**task.spec, "arms": tuple(task.spec["arms"])})
    played = play_city(get_domain(config.domain), config, config.seed, config.arms)
    return {"rows": [row for rows in played for row in rows]}


def play_city(domain: Domain, config: FeedbackConfig, seed: int, arms: Sequence[str]) -> Any:
    """Rows of each arm in one city, arm by arm."""
    process = domain.process
    assert isinstance(process, ComplaintProcess)
    first = FIRST_DAY
    # So much longer that what begins on the last day of a round can still be served in time.
    last = first + timedelta(days=config.round_days * config.rounds + int(JUDGED_DAYS) + 1)
    begins = first.replace(year=first.year - 1)
    preset = Preset("feedback", config.n_tracts, begins, last, 0, 0.0)
    setting = draw_setting(
        preset, seed, config.participation, config.capacity, preset.date_from, last,
        departure_of(config),
    )  # fmt: skip
    start = open_domain(process, setting, severity_then_first_in, enlarge(process, preset, setting))
    start.run(first_worked_day(process, setting), day_number(first))
    start.agency.visits_per_complaint *= config.visits
    bounds = [day_number(first) + config.round_days * n for n in range(config.rounds + 1)]
    for arm in arms:
        with tempfile.TemporaryDirectory() as scratch:
            loop = Loop(domain, config, arm, preset, start, Path(scratch))
            for day, ends in pairwise(bounds):
                try:
                    loop.play(day, ends)
                except Parity311Error as error:
                    raise InputError(f"City {seed}, {arm}, {to_date(day)}: {error}") from error
            loop.worked.run(bounds[-1], day_number(last))
            figures = measure_rounds(loop.worked, bounds)
        yield [_row(seed, arm, n + 1, one, loop) for n, one in enumerate(figures)]


def _row(seed: int, arm: str, number: int, found: PlayedFigures, loop: Loop) -> dict[str, Any]:
    """What one round came to, under the truth; discovered and reported told apart."""
    lowest = 0
    return {
        "city": seed,
        "arm": arm,
        "round": number,
        "coverage_lowest": float(found.coverage[lowest]),
        "coverage": float(found.n_correct.sum() / max(found.n_actionable.sum(), 1)),
        "gap": found.gap,
        "reported_lowest": float(found.n_reported[lowest] / max(found.n_incidents[lowest], 1)),
        "reported": float(found.n_reported.sum() / max(found.n_incidents.sum(), 1)),
        "discovered_lowest": int(found.n_correct[lowest]),
        "discovered": int(found.n_correct.sum()),
        "visits_lowest": int(found.n_visits[lowest]),
        "visits": int(found.n_visits.sum()),
        "retrained": loop.n_retrained,
    }


FIGURES = ("coverage_lowest", "coverage", "gap", "reported_lowest", "reported", "visits",
           "visits_lowest", "discovered", "discovered_lowest")  # fmt: skip


def by_round(
    rows: Sequence[dict[str, Any]], arms: Sequence[str], n_rounds: int
) -> list[dict[str, Any]]:
    """Means over cities with 95 % intervals, by arm and round."""
    found = []
    for arm in arms:
        for number in range(1, n_rounds + 1):
            mine = [row for row in rows if row["arm"] == arm and row["round"] == number]
            entry: dict[str, Any] = {"arm": arm, "round": number}
            for name in FIGURES:
                values = np.array([row[name] for row in mine], float)
                entry[name] = float(np.nanmean(values)) if np.isfinite(values).any() else np.nan
                interval = mean_interval(values)
                entry[f"{name}_lower"], entry[f"{name}_upper"] = interval or (np.nan, np.nan)
            found.append(entry)
    return found


def _ends(rows: Sequence[dict[str, Any]], arm: str, name: str) -> dict[int, float]:
    """By city, the mean of the last rounds less that of the first."""
    found = {}
    for city in dict.fromkeys(row["city"] for row in rows):
        mine = [row[name] for row in rows if row["city"] == city and row["arm"] == arm]
        n = min(ENDS, max(len(mine) // 2, 1))
        found[city] = float(np.nanmean(mine[-n:]) - np.nanmean(mine[:n]))
    return found


def drift_of(rows: Sequence[dict[str, Any]], arm: str) -> dict[str, Any]:
    """How coverage of the lowest quintile, the gap and reporting drifted, and what it cost."""
    entry: dict[str, Any] = {"arm": arm}
    for name in ("coverage_lowest", "gap", "reported_lowest", "coverage"):
        own, base = _ends(rows, arm, name), _ends(rows, NONE, name)
        values = np.array(list(own.values()))
        entry[f"{name}_drift"] = _figure(values)
        if base and arm != NONE and set(base) == set(own):
            entry[f"{name}_drift_over_none"] = _figure(values - np.array(list(base.values())))
    for name in ("visits", "discovered"):
        own, base = (_totals(rows, one, name) for one in (arm, NONE))
        entry[name] = _figure(np.array(list(own.values())))
        if arm != NONE and set(base) == set(own) and base:
            share = np.array([own[city] / max(base[city], 1) - 1.0 for city in own])
            entry[f"{name}_over_none"] = _figure(share)
    return entry


def _totals(rows: Sequence[dict[str, Any]], arm: str, name: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for row in rows:
        if row["arm"] == arm:
            found[row["city"]] = found.get(row["city"], 0.0) + row[name]
    return found


def _figure(values: np.ndarray) -> dict[str, Any]:
    return {"value": float(np.nanmean(values)), "interval": mean_interval(values)}


def say_why(
    rows: Sequence[dict[str, Any]], arms: Sequence[str], config: FeedbackConfig
) -> list[str]:
    """What the figures allow to be said of the drift without mitigation, and of its causes."""
    if NONE not in arms:
        return []
    found = drift_of(rows, NONE)
    drift, said = found["coverage_lowest_drift"], []
    interval = drift["interval"]
    is_clear = interval is not None and not interval[0] <= 0.0 <= interval[1]
    points = f"{100 * drift['value']:+.1f} points"
    if is_clear and drift["value"] < 0:
        said.append(f"Without mitigation the lowest quintile's coverage drifts by {points}.")
    elif is_clear:
        said.append(f"Without mitigation the lowest quintile's coverage rises by {points}.")
    else:
        said.append(
            f"Without mitigation no drift of the lowest quintile's coverage is clear ({points})."
        )
    fewer = found["reported_lowest_drift"]
    beside = ""
    if TODAY in arms:
        usual = drift_of(rows, TODAY)["reported_lowest_drift"]["value"]
        beside = f", and by {100 * usual:+.1f} under today's rule"
    said.append(
        f"The share of its incidents that anybody reports changes by {100 * fewer['value']:+.1f} "
        f"points{beside}: that part comes through people, not through what the policy believes."
    )
    if TODAY in arms:
        said.append(_beside_today(rows))
    if config.learner == "places":
        said.append(
            "Finds for each complaint do not depend on who reports: the loop then moves visits "
            "between tracts, not between rich and poor; with `--learner counts` it does."
        )
    if config.learner == "thresholds":
        said.append(
            "These thresholds tell complaints apart by kind, not by place: what was found "
            "elsewhere cannot lower a tract's rank. The loop is in `--learner counts`."
        )
    if config.world == "default":
        said.append(
            "In this world people report as before whether anybody came; `--world discouraged` is "
            "the one where they do not."
        )
    return said


def say_mitigations(drift: Sequence[dict[str, Any]]) -> list[str]:
    """Which mitigations change the drift of the lowest quintile's coverage for sure."""
    compared = {
        row["arm"]: row["coverage_lowest_drift_over_none"]
        for row in drift
        if row["arm"] != TODAY and "coverage_lowest_drift_over_none" in row
    }
    if not compared:
        return []
    clear = [
        f"{arm} ({100 * one['value']:+.1f} points)"
        for arm, one in compared.items()
        if one["interval"] is not None and not one["interval"][0] <= 0.0 <= one["interval"][1]
    ]
    return [
        f"Set one by one beside no mitigation, the drift is clearly another with "
        f"{', '.join(clear) or 'none'} of the {len(compared)} mitigations; intervals are not "
        "widened for so many comparisons."
    ]


def _beside_today(rows: Sequence[dict[str, Any]]) -> str:
    """How far the policy's choices move who is covered at all, whatever it learns."""
    own, other = (
        np.array(
            [
                np.nanmean(
                    [r["coverage_lowest"] for r in rows if (r["city"], r["arm"]) == (c, arm)]
                )
                for c in dict.fromkeys(row["city"] for row in rows)
            ]
        )
        for arm in (NONE, TODAY)
    )
    lead, interval = float((own - other).mean()), mean_interval(own - other)
    shown = f"{100 * lead:+.1f} points"
    if interval is not None and not interval[0] <= 0.0 <= interval[1]:
        return f"Over all rounds it covers the lowest quintile by {shown} against today's rule."
    return (
        f"Over all rounds it covers the lowest quintile as today's rule does, which learns nothing "
        f"({shown}): at this capacity who reports, and how soon, decides more than whom it prefers."
    )
