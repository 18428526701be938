"""Worlds in which estimators' assumptions are false: each departs where it says it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from parity311.city.build import build_city
from parity311.city.cases import VIOLATION
from parity311.city.departures import (
    DEFAULT,
    STEADY,
    WORLDS,
    Departure,
    Readiness,
    get_departure,
)
from parity311.city.incumbent import severity_then_first_in
from parity311.city.replay import open_replay
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain, simulate_domain
from parity311.city.tables import write_complaints
from parity311.domains.elevator import PROCESS as ELEVATOR
from parity311.domains.heat import PROCESS as HEAT
from parity311.errors import InputError
from parity311.records.store import open_records
from parity311.records.truth import open_truth
from parity311.reporting.validation import case_from_city

N = 100_000


@pytest.mark.parametrize(
    ("law", "variance"),
    [("exponential", 1.0), ("gamma", 0.25), ("lognormal", 1.718), ("weibull", 2.138)],
)
def test_laws_have_mean_one_and_their_own_spread(law: str, variance: float) -> None:
    """Variances by hand: 1, 1/4, e - 1, and Γ(1 + 2/k)/Γ(1 + 1/k)² - 1 at k = 0.7."""
    world = Departure("one", "", lifetime_laws=(law,))  # pyright: ignore[reportArgumentType]
    life = world.draw_lifetimes(np.random.default_rng(0), np.zeros(N, np.int8))
    assert life.mean() == pytest.approx(1.0, abs=0.02)
    assert life.var() == pytest.approx(variance, rel=0.15)


def test_categories_have_their_laws_in_turn() -> None:
    category = np.arange(N, dtype=np.int64).astype(np.int8) % 3
    life = WORLDS["mixed"].draw_lifetimes(np.random.default_rng(1), category.astype(np.int8))
    spread = [life[category == number].var() for number in range(3)]
    assert spread[1] < 0.3 < 0.9 < spread[0] < 1.1 < spread[2]


def test_the_default_draws_what_was_always_drawn() -> None:
    life = DEFAULT.draw_lifetimes(np.random.default_rng(2), np.zeros(50, np.int8))
    np.testing.assert_array_equal(life, np.random.default_rng(2).standard_exponential(50))


def test_fading_keeps_the_expected_number_of_reports() -> None:
    """Over exponential lives of mean L, at a rate falling to 1/e in two of them."""
    life = 5.0 * np.random.default_rng(3).standard_exponential(N)
    fading = Readiness(np.full(N, 10.0), 1.5)
    none = np.zeros(N)
    assert fading.days_between(none, none, life).mean() == pytest.approx(5.0, rel=0.02)
    np.testing.assert_array_equal(STEADY.days_between(none, none, life), life)


def test_fading_waits_as_long_as_it_takes_to_say_as_much() -> None:
    said = np.array([0.0, 2.0, 14.9, 15.0, 20.0])
    fading = Readiness(np.full(5, 10.0), 1.5)
    wait = fading.wait(said)
    assert np.isinf(wait[3:]).all(), "beyond what is ever said"
    np.testing.assert_allclose(
        fading.take(np.arange(3)).days_between(np.zeros(3), np.zeros(3), wait[:3]), said[:3]
    )
    # Half of what is said in the first ten days is said before the fifth.
    half = fading.take(np.arange(1)).time_between(
        np.array([0.5]), np.zeros(1), np.zeros(1), np.array([10.0])
    )
    assert 3.0 < half[0] < 5.0


@pytest.fixture(scope="module")
def worked(tiny_setting: Callable[..., CitySetting]) -> Callable[[str], SimulatedDomain]:
    """Give a tiny city's heat in a world, visits scarce."""
    found: dict[str, SimulatedDomain] = {}

    def work(name: str) -> SimulatedDomain:
        if name not in found:
            setting = replace(tiny_setting(capacity="scarce"), departure=get_departure(name))
            found[name] = simulate_domain(HEAT, setting, severity_then_first_in)
        return found[name]

    return work


def age_at_report(simulated: SimulatedDomain) -> float:
    """Mean days from the beginning of an incident to a report of it, over the mean lifetime."""
    incident = simulated.reports.incident
    age = simulated.reports.time - simulated.incidents.began[incident]
    return float(age.mean()) / HEAT.hazard.lifetime_days


def written_share(simulated: SimulatedDomain) -> float:
    """Violations among visits that could have found one: those to incidents that are actionable."""
    log, agency = simulated.agency.visits, simulated.agency
    incident = agency.cases.incident[log.collect("case", np.int64)]
    result = log.collect("result", np.int8)
    found = simulated.incidents.is_actionable[incident] & np.isfinite(agency.served[incident])
    return float((result[found] == VIOLATION).mean())


def test_reports_come_earlier_where_they_fade(worked: Callable[[str], SimulatedDomain]) -> None:
    assert age_at_report(worked("fading")) < 0.8 * age_at_report(worked("default"))


def test_inspectors_write_up_less_or_more(worked: Callable[[str], SimulatedDomain]) -> None:
    lenient, usual, strict = (
        written_share(worked(name)) for name in ("lenient", "default", "strict")
    )
    assert lenient < usual - 0.1
    assert strict > usual + 0.01


def heard_share(simulated: SimulatedDomain) -> float:
    return float((simulated.agency.report_case >= 0).mean())


def test_people_report_less_where_nobody_came(worked: Callable[[str], SimulatedDomain]) -> None:
    discouraged, usual = worked("discouraged"), worked("default")
    assert heard_share(discouraged) < heard_share(usual) - 0.1
    assert (usual.agency.trust == 1.0).all()
    assert discouraged.agency.trust.min() < 0.5 < discouraged.agency.trust.max()


def test_an_inspector_has_tracts_of_their_own(worked: Callable[[str], SimulatedDomain]) -> None:
    """Then tracts differ in what is written up by more than chance."""

    def spread(name: str) -> float:
        simulated = worked(name)
        agency = simulated.agency
        incident = agency.cases.incident[agency.visits.collect("case", np.int64)]
        tract = simulated.setting.buildings.tract[simulated.incidents.building[incident]]
        found = simulated.incidents.is_actionable[incident] & np.isfinite(agency.served[incident])
        written = agency.visits.collect("result", np.int8)[found] == VIOLATION
        n = np.bincount(tract[found], minlength=100)
        share = np.bincount(tract[found], written, 100)[n > 0] / n[n > 0]
        expected = written.mean() * (1.0 - written.mean()) / n[n > 0]
        return float(((share - written.mean()) ** 2 / expected).mean())

    assert spread("districts") > spread("default") + 0.2


def records_of(simulated: SimulatedDomain, folder: Path) -> dict[str, dict[str, np.ndarray]]:
    write_complaints(folder, simulated)
    file = f"{simulated.process.slug}.parquet"
    return {
        name: {
            column: table[column].to_numpy(zero_copy_only=False)
            for column in table.column_names
        }
        for name in ("complaints", "outcomes", "visits", "truth/incidents", "truth/reports")
        for table in [pq.read_table(folder / name / file)]
    }  # fmt: skip


def test_unmarked_duplicates_look_like_cases(
    worked: Callable[[str], SimulatedDomain], tmp_path: Path
) -> None:
    usual = records_of(worked("default"), tmp_path / "default")
    unmarked = records_of(worked("unmarked"), tmp_path / "unmarked")
    further = lambda found: (  # noqa: E731
        found["complaints"]["incident_id"] != found["complaints"]["complaint_id"]
    )
    lost = 1.0 - further(unmarked).sum() / further(usual).sum()
    assert lost == pytest.approx(WORLDS["unmarked"].missed_marks, abs=0.03)
    # Such a case has the answer of the one it belongs to, and the truth knows better.
    is_lost = further(usual) & ~further(unmarked)
    assert (unmarked["outcomes"]["disposition_class"][is_lost] != "duplicate").all()
    for name in ("truth/incidents", "truth/reports"):
        for column, values in usual[name].items():
            np.testing.assert_array_equal(values, unmarked[name][column])


def test_only_the_last_visit_is_on_record(
    worked: Callable[[str], SimulatedDomain], tmp_path: Path
) -> None:
    # Who finds no access to an elevator comes again.
    usual, last = (
        records_of(
            simulate_domain(ELEVATOR, worked(name).setting, severity_then_first_in), tmp_path / name
        )["visits"]
        for name in ("default", "one_disposition")
    )
    assert len(np.unique(usual["complaint_id"])) < len(usual["complaint_id"])
    by_case = dict(zip(usual["complaint_id"], usual["visited_at"], strict=True))
    assert len(last["complaint_id"]) == len(by_case)
    assert all(
        by_case[case] == time
        for case, time in zip(last["complaint_id"], last["visited_at"], strict=True)
    )


def test_a_city_knows_its_world_and_is_played_in_it(tmp_path: Path) -> None:
    city = build_city(
        [HEAT], "small", 5, capacity="scarce", date_from=date(2024, 1, 1),
        date_to=date(2024, 3, 1), out=tmp_path / "city", world="discouraged", workers=1,
    )  # fmt: skip
    assert open_records(city).manifest["world"] == "discouraged"
    replay = open_replay(city, [HEAT])
    played = replay.start("heat", date(2024, 2, 1)).play(severity_then_first_in, replicate=0)
    assert isinstance(played.worked, SimulatedDomain)
    write_complaints(tmp_path / "again", played.worked)
    for name in ("complaints", "visits", "truth/incidents"):
        first, again = (
            pq.read_table(folder / name / "heat.parquet") for folder in (city, tmp_path / "again")
        )
        assert first.equals(again), name


def test_the_truth_tells_the_constants_of_its_world(tmp_path: Path) -> None:
    city = build_city(
        [HEAT], "small", 5, date_from=date(2024, 1, 1), date_to=date(2024, 1, 15),
        out=tmp_path / "city", world="lenient", workers=1,
    )  # fmt: skip
    told = open_truth(city).parameters["heat"]["service.writing"]["value"]
    assert told == WORLDS["lenient"].writing != HEAT.service.writing


def test_another_law_of_lifetimes_is_not_called_known(tmp_path: Path) -> None:
    for world, is_known in (("lenient", True), ("gamma", False)):
        city = build_city(
            [HEAT], "small", 5, date_from=date(2024, 1, 1), date_to=date(2024, 2, 1),
            out=tmp_path / world, world=world, workers=1,
        )  # fmt: skip
        case = case_from_city(city, "heat")
        assert case.knows_lifetime == is_known
        assert case.lifetime.origin == ("known" if is_known else "assumed")


def test_an_unknown_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unknown world 'gama'; allowed: .*Did you mean 'gamma'"):
        build_city([HEAT], world="gama", out=tmp_path / "city")
    assert not list(tmp_path.iterdir())
