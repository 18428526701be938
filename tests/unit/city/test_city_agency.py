from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from parity311.city.cases import NO_ACCESS, VIOLATION
from parity311.city.incumbent import WaitingCases, severity_then_first_in
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain, simulate_domain
from parity311.domains.heat import PROCESS as HEAT


@pytest.fixture(scope="module")
def simulated(setting: CitySetting) -> SimulatedDomain:
    return simulate_domain(HEAT, setting, severity_then_first_in)


@pytest.fixture(scope="module")
def scarce(tiny_setting: Callable[..., CitySetting]) -> SimulatedDomain:
    return simulate_domain(HEAT, tiny_setting(capacity="scarce"), severity_then_first_in)


def no_report_after_the_end(simulated: SimulatedDomain) -> bool:
    """Whether nobody reported an incident that the city had ended."""
    agency, reports = simulated.agency, simulated.reports
    taken = agency.report_case >= 0
    return bool((reports.time[taken] < agency.city_end[reports.incident[taken]]).all())


def test_reports_stop_when_the_city_ends_an_incident(simulated: SimulatedDomain) -> None:
    assert no_report_after_the_end(simulated)
    agency = simulated.agency
    assert np.isfinite(agency.city_end).sum() > 100
    kept = agency.report_case.copy()
    agency.report_case[:] = 0
    assert not no_report_after_the_end(simulated), "the check must see the dropped reports"
    agency.report_case[:] = kept


def test_a_duplicate_joins_the_case_open_at_its_time(simulated: SimulatedDomain) -> None:
    agency, reports = simulated.agency, simulated.reports
    taken = np.flatnonzero(agency.report_case >= 0)
    case = agency.report_case[taken]
    duplicate = agency.cases.report[case] != taken
    assert 0.2 < duplicate.mean() < 0.4
    assert (reports.incident[taken] == agency.cases.incident[case]).all()
    assert (reports.time[taken] >= agency.cases.received[case]).all()
    later = np.floor(reports.time[taken]) > np.floor(agency.cases.closed[case])
    assert not later[duplicate].any()


def test_a_violation_needs_a_live_actionable_incident(simulated: SimulatedDomain) -> None:
    agency, incidents = simulated.agency, simulated.incidents
    result, case = agency.visits.collect("result", np.int8), agency.visits.collect("case", np.int64)
    time = agency.visits.collect("time", np.float64)
    incident = agency.cases.incident[case]
    written = result == VIOLATION
    assert incidents.is_actionable[incident[written]].all()
    assert (time[written] < incidents.natural_end[incident[written]]).all()
    assert (agency.served[incident[written]] <= time[written]).all()
    assert (result == NO_ACCESS).mean() > 0.1
    assert not np.isfinite(agency.served[~incidents.is_actionable]).any()


def test_visits_never_exceed_the_days_slots(scarce: SimulatedDomain) -> None:
    visits = scarce.agency.visits
    day = np.concatenate(
        [np.full(len(part), index) for index, part in enumerate(visits.columns["case"])]
    )
    n_slots = visits.collect("n_slots", np.int64)
    n_waiting = visits.collect("n_waiting", np.int64)
    counts = np.bincount(day)
    assert (counts[day] == np.minimum(n_slots, n_waiting)).all()
    propensity = visits.collect("propensity", np.float64)
    assert ((propensity > 0) & (propensity <= 1)).all()
    assert (propensity < 1).mean() > 0.03, "some visits were drawn at random"


def test_scarce_visits_go_to_three_in_ten_complaints(
    simulated: SimulatedDomain, scarce: SimulatedDomain
) -> None:
    for run, low, high in ((scarce, 0.27, 0.32), (simulated, 0.45, 0.75)):
        n_visits = len(run.agency.visits.collect("case", np.int64))
        assert low < n_visits / (run.agency.report_case >= 0).sum() < high


def _youngest_first(waiting: WaitingCases) -> np.ndarray:
    return -waiting.age_days


def test_another_rule_can_take_the_place_of_todays(scarce: SimulatedDomain) -> None:
    other = simulate_domain(HEAT, scarce.setting, _youngest_first)

    def mean_code(run: SimulatedDomain) -> float:
        case = run.agency.visits.collect("case", np.int64)
        return float(run.reports.code[run.agency.cases.report[case]].mean())

    assert mean_code(other) > mean_code(scarce) + 0.15
    assert np.array_equal(other.incidents.began, scarce.incidents.began), "the same incidents"


def test_staff_of_one_attempt_close_after_it(simulated: SimulatedDomain) -> None:
    assert simulated.agency.cases.n_attempts.max() == 1
    twice = replace(HEAT, service=replace(HEAT.service, max_attempts=2))
    again = simulate_domain(twice, simulated.setting, severity_then_first_in)
    assert again.agency.cases.n_attempts.max() == 2
