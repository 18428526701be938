"""Params of the backlog domains: from records only and in time, near the truth as records grow."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from parity311.city.build import build_city
from parity311.domains import drone, elevator, ert, get_domain, housing, scaffold
from parity311.errors import EstimationError, InputError
from parity311.estimation import backlog_cases
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import Calibration, calibrate

pytestmark = pytest.mark.slow

SPLIT = date(2025, 1, 1)
EARLY = date(2023, 4, 1)
MODULES = {"elevator": elevator, "ert": ert, "drone": drone, "scaffold": scaffold}


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small city in which participation differs; housing apart, which has most of the rows."""
    out = tmp_path_factory.mktemp("backlogs") / "city"
    processes = [module.PROCESS for module in MODULES.values()]
    return build_city(processes, "small", 11, "strong", "calibrated", out=out, workers=1)


@pytest.fixture(scope="module")
def records(city: Path) -> Records:
    return open_records(city)


@pytest.fixture(scope="module")
def calibrations(records: Records) -> dict[str, Calibration]:
    return {slug: calibrate(records, slug, date_to=SPLIT, n_draws=50) for slug in MODULES}


@pytest.fixture(scope="module")
def estimated(records: Records, calibrations: dict[str, Calibration]) -> dict[str, Any]:
    return {
        slug: module.DOMAIN.estimate(records, calibrations[slug], SPLIT)
        for slug, module in MODULES.items()
    }


@pytest.fixture(scope="module")
def true(city: Path) -> dict[str, Any]:
    return {slug: module.truth(city, SPLIT) for slug, module in MODULES.items()}


def shares(values: Any) -> np.ndarray:
    """Values as shares of their sum."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return flat / flat.sum()


QUEUES = ("elevator", "ert", "drone")


@pytest.mark.parametrize("slug", QUEUES)
def test_arrivals_approach_the_truth_as_records_grow(
    slug: str,
    records: Records,
    calibrations: dict[str, Calibration],
    estimated: dict[str, Any],
    true: dict[str, Any],
) -> None:
    """Shares of cases by place and code, after three months and after two years."""
    early = MODULES[slug].DOMAIN.estimate(records, calibrations[slug], EARLY)
    goal = shares(true[slug].backlog.cases_per_day)
    distance = {
        name: 0.5 * np.abs(shares(params.backlog.cases_per_day) - goal).sum()
        for name, params in (("early", early), ("late", estimated[slug]))
    }
    assert distance["late"] < 0.8 * distance["early"]
    assert distance["late"] < 0.2


@pytest.mark.parametrize("slug", QUEUES)
def test_what_is_actionable_is_known_but_for_selection(
    slug: str, estimated: dict[str, Any], true: dict[str, Any]
) -> None:
    """Codes are told apart; the level stays low, because not every visit sees and writes it up."""
    known, goal = (np.asarray(params.backlog.chance) for params in (estimated[slug], true[slug]))
    by_code = known.mean(axis=0), goal.mean(axis=0)
    assert np.corrcoef(*by_code)[0, 1] > 0.8
    ratio = by_code[0].sum() / by_code[1].sum()
    assert 0.6 < ratio < 1.05


@pytest.mark.parametrize("slug", QUEUES)
def test_calendar_access_and_capacity_are_near_the_truth(
    slug: str, estimated: dict[str, Any], true: dict[str, Any]
) -> None:
    known, goal = estimated[slug].backlog, true[slug].backlog
    assert np.corrcoef(known.week, goal.week)[0, 1] > 0.7
    np.testing.assert_allclose(known.access, goal.access, atol=0.12)
    np.testing.assert_allclose(known.mix.sum(axis=1), 1.0, atol=1e-5)
    assert float(known.returns) == pytest.approx(float(goal.returns), abs=0.15)
    pace = {"elevator": "visits", "ert": "visits_per_crew_hour", "drone": "addresses_per_flight"}
    one, two = (np.asarray(getattr(x[slug], pace[slug])) for x in (estimated, true))
    np.testing.assert_allclose(one, two, rtol=0.3)
    waiting = [np.asarray(x.start_waiting).sum(axis=(1, 2)).mean() for x in (known, goal)]
    assert waiting[0] == pytest.approx(waiting[1], rel=0.6)


@pytest.mark.parametrize("slug", MODULES)
def test_the_truth_has_the_strata_reporting_unequally(slug: str, true: dict[str, Any]) -> None:
    """Among actionable incidents the fifth quintile's are reported more often than the first's."""
    if slug == "scaffold":
        reported = 1.0 / (1.0 + np.asarray(true[slug].unreported))
    else:
        from parity311.engines.backlog.process import needs_by_stratum

        known, unknown = (np.asarray(x) for x in needs_by_stratum(true[slug].backlog))
        reported = known / (known + unknown)
    assert reported[4] > 1.2 * reported[0]
    assert ((reported[:5] > 0.1) & (reported[:5] < 0.95)).all()


@pytest.mark.parametrize("slug", MODULES)
def test_a_step_plays_under_estimated_and_true_params(
    slug: str, estimated: dict[str, Any], true: dict[str, Any]
) -> None:
    play = get_domain(slug).play

    @jax.jit
    def step(params: Any) -> Any:
        state = play.initial_state(jax.random.key(0), params)
        prices = np.zeros(6, np.float32)
        moved = play.transition(jax.random.key(1), params, state, np.int32(1), prices)
        return moved.reward, play.observe(params, moved.state), play.need_per_step(params)

    for params in (estimated[slug], true[slug]):
        for values in step(params):
            assert np.isfinite(np.asarray(values)).all()


def test_sites_are_near_the_truth(estimated: dict[str, Any], true: dict[str, Any]) -> None:
    known, goal = estimated["scaffold"], true["scaffold"]
    np.testing.assert_allclose(known.cases, goal.cases, atol=0.06)
    np.testing.assert_allclose(known.access, goal.access, atol=0.05)
    assert float(known.visits_per_hour) == pytest.approx(float(goal.visits_per_hour), rel=0.3)
    assert float(known.worsening) == float(goal.worsening) == 0.0


def test_nothing_after_the_last_day_is_read(records: Records) -> None:
    """The same cases, with the later rows there and without them."""
    cases = backlog_cases.read_cases(records, "elevator", date(2023, 1, 1), EARLY)
    assert cases.began.max() < cases.n_days
    assert np.nanmax(cases.visited) < cases.n_days
    assert cases.left[np.isfinite(cases.left)].max() < cases.n_days
    late = backlog_cases.read_cases(records, "elevator", date(2023, 1, 1), SPLIT)
    # A reader that looked on would know of more closings.
    first = np.isin(late.complaint_id, cases.complaint_id)
    assert np.isfinite(late.left[first]).sum() > np.isfinite(cases.left).sum()


def test_backlogs_are_those_open_at_the_time(records: Records) -> None:
    cases = backlog_cases.read_cases(records, "ert", date(2023, 1, 1), SPLIT)
    places = backlog_cases.CasePlaces(cases.stratum, 6)
    waiting, slots, _ = backlog_cases.backlogs(cases, places, ert.SHAPE)
    moment = np.floor(np.linspace(0.5 * cases.n_days, cases.n_days - 1, 32))[5]
    assert waiting[5].sum() == ((cases.began < moment) & (cases.left > moment)).sum()
    assert (slots % 24 == 0).all()


def test_a_city_without_the_domain_and_too_few_records_are_refused(
    records: Records, calibrations: dict[str, Calibration]
) -> None:
    with pytest.raises(InputError, match="no complaints of domain 'housing'"):
        get_domain("housing").estimate(records, calibrations["ert"], SPLIT)
    with pytest.raises(EstimationError, match="at least 200"):
        ert.DOMAIN.estimate(records, calibrations["ert"], date(2023, 1, 10))


def test_places_of_housing_are_categories_and_strata() -> None:
    class Located:
        category = np.array(["PLUMBING", "NO SUCH CODE", "SAFETY"], object)
        stratum = np.array([0, 5, 3])

    general = housing.CODES.index("GENERAL")
    expected = [housing.CODES.index("PLUMBING") * 6, general * 6 + 5]
    expected.append(housing.CODES.index("SAFETY") * 6 + 3)
    np.testing.assert_array_equal(housing.place_of(Located), expected)
