"""Params of the one-complaint-a-step domains: from records, in time, and towards the truth."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from parity311.city.build import build_city
from parity311.domains import complaint_triage, crane, drainage, electrical_revisit, snad
from parity311.domains.electrical_revisit import estimate as revisit_records
from parity311.engines.stream import optimum
from parity311.engines.stream.process import CREW, ROUND, StreamParams
from parity311.engines.stream.worth import kind_shares
from parity311.errors import EstimationError, InputError, RecordsError
from parity311.estimation import stream as stream_records
from parity311.estimation import stream_book, stream_truth
from parity311.estimation.world import make_world
from parity311.mdp.contract import N_STRATA
from parity311.records.sql import add_columns
from parity311.records.store import Records, open_records
from parity311.records.truth import open_truth
from parity311.reporting.calibration import Calibration, calibrate

# Values are iterated for long: what is compiled is worth optimizing.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]

SPLIT = date(2025, 1, 1)
MODULES = (crane, snad, drainage, electrical_revisit)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small city in which participation differs and nearly everything is visited."""
    out = tmp_path_factory.mktemp("streams") / "city"
    processes = [module.PROCESS for module in MODULES]
    return build_city(processes, "small", 7, "strong", "calibrated", out=out, workers=1)


@pytest.fixture(scope="module")
def records(city: Path) -> Records:
    return open_records(city)


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The city of 2019 and 2020, in which arrivals, access and the mix of categories shift."""
    out = tmp_path_factory.mktemp("shift") / "city"
    return build_city(
        [complaint_triage.PROCESS],
        "small",
        7,
        "strong",
        "calibrated",
        date_from=date(2019, 1, 1),
        date_to=date(2021, 1, 1),
        out=out,
        workers=1,
    )


def stream_of(params: Any) -> StreamParams:
    return getattr(params, "stream", params)


KNOWN: dict[tuple[str, date], StreamParams] = {}


def known_from(module: Any, records: Records, start: date) -> StreamParams:
    """What the records from `start` to the split tell; kept, as several tests ask for it."""
    key = (module.OFFICE.slug, start)
    if key not in KNOWN:
        KNOWN[key] = _estimate(module, records, start)
    return KNOWN[key]


def _estimate(module: Any, records: Records, start: date) -> StreamParams:
    found = calibrate(records, module.OFFICE.slug, date_from=start, date_to=SPLIT)
    estimate = module.DOMAIN.estimate
    return stream_of(estimate(records, found, SPLIT, date_from=start))


@pytest.fixture(scope="module")
def compared(records: Records, city: Path) -> dict[str, dict[str, np.ndarray]]:
    """For each domain, by records: error of the chances, their mean over the true mean, the share
    written up, and the mean of what is written up over the true one."""
    found = {}
    for module in MODULES:
        true = stream_of(module.truth(city, SPLIT))
        weight = kind_shares(module.SHAPE, true)
        real = np.asarray(true.kinds, np.float64)[:, 0]
        errors, ratios, shares = [], [], []
        for start in (date(2024, 9, 1), date(2023, 1, 1)):
            params = known_from(module, records, start)
            known = np.asarray(params.kinds, np.float64)[:, 0]
            errors.append(np.sqrt(weight @ (known - real) ** 2))
            ratios.append((weight @ known) / (weight @ real))
            shares.append(float(params.written_share))
        ratio, share = np.array(ratios), np.array(shares)
        found[module.OFFICE.slug] = {
            "error": np.array(errors),
            "ratio": ratio,
            "share": share,
            "written": ratio * share / float(true.written_share),
        }
    return found


def test_chances_come_nearer_to_the_truth_as_records_grow(
    compared: dict[str, dict[str, np.ndarray]],
) -> None:
    errors = np.stack([entry["error"] for entry in compared.values()])
    assert errors[:, 1].mean() < 0.8 * errors[:, 0].mean()
    assert (errors[:, 1] < 0.2).all()


def test_what_visits_write_up_is_known_better_than_what_they_let_pass(
    compared: dict[str, dict[str, np.ndarray]],
) -> None:
    """A quarter or a sixth let pass: what a visit ends is on record, whatever is believed of it."""
    ratios = np.array([entry["ratio"][1] for entry in compared.values()])
    written = np.array([entry["written"][1] for entry in compared.values()])
    assert ((ratios > 0.75) & (ratios < 1.35)).all()
    assert ((written > 0.8) & (written < 1.2)).all()
    # Without what is put back, all chances would be too low.
    assert (ratios * [entry["share"][1] for entry in compared.values()] < 1.05).all()


@pytest.mark.parametrize("module", [crane, snad], ids=lambda module: module.OFFICE.slug)
def test_what_visits_let_pass_before_is_part_of_the_true_chance(
    module: Any, records: Records, city: Path
) -> None:
    """Further cases of an incident are mostly those with nothing to write up."""
    first, last = records.window
    book = stream_book.read_book(module.OFFICE, records, first, last)
    connection = stream_truth.connect_truth(module.OFFICE, records, open_truth(city))
    add_columns(connection, "cases", {"complaint_id": book.complaint_id})
    written = stream_truth.true_reporting(connection, last).written_share
    case = connection.sql(stream_truth.CASES, params={"date_to": last}).fetchnumpy()
    again = case["n_passed"] > 0
    assert again.sum() > 50
    chance = case["chance"].astype(np.float64)
    after = stream_truth.chance_after(chance, case["n_passed"], written)
    real = case["is_actionable"][again].mean()
    error = np.sqrt(real * (1.0 - real) / again.sum())
    assert after[again].mean() == pytest.approx(real, abs=3.0 * error)
    # The broken twin: the chance behind the incident, whatever was found.
    assert chance[again].mean() > real + 3.0 * error
    np.testing.assert_allclose(after[~again], chance[~again], atol=1e-6)


def test_draws_carry_what_is_not_known_of_how_incidents_end(records: Records) -> None:
    """Records drawn anew alone would leave the share written up where it was believed to be."""
    world = make_world(snad.DOMAIN, records, date_to=SPLIT)
    drawn = [stream_of(one) for one in world.draws(3)]
    spread = np.std([float(one.written_share) for one in drawn])
    assert spread > 0.02
    assert np.std([np.log(float(one.lifetime_days)) for one in drawn]) > 0.05
    # What a visit ends is on record: it hardly moves with what is believed of the rest.
    ended = [float((one.kinds[:, 0] * one.written_share).mean()) for one in drawn]
    assert np.std(np.log(ended)) < 0.2


def test_slots_of_days_without_a_visit_are_counted() -> None:
    """Mondays have three slots; on every other one nobody was waiting."""
    n_days = np.array([52, 52, 0, 0, 0, 0, 0])
    monday, tuesday = np.zeros(26, np.int64), np.ones(20, np.int64)
    slots, visits = np.full(46, 3.0), np.ones(46)
    slots[26:] = 1.0
    weekday = np.concatenate([monday, tuesday])
    # Tuesdays have one at most: those without a visit may have had none.
    assert stream_records.count_slots(weekday, slots, visits, n_days) == 3 * 52 + 20
    # Where no slots are on record, visits are all that is known.
    unknown = stream_records.count_slots(weekday, slots * np.nan, visits, n_days)
    assert unknown == 46


def test_the_crew_is_no_larger_than_what_it_is_sent_to() -> None:
    """Else today's rule, which sends it to the gravest code alone, could not use its visits."""
    few, many = snad.example(), crane.example()
    grave = kind_shares(snad.SHAPE, few)[snad.SHAPE.kinds[:, 1] == 3].sum()
    assert grave < stream_records.CREW_SHARE
    for params, share in ((few, grave), (many, stream_records.CREW_SHARE)):
        whole = float(params.crew_per_step + params.visits_per_step)
        assert float(params.crew_per_step) == pytest.approx(share * whole, rel=0.01)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.OFFICE.slug)
def test_estimated_params_are_near_the_true_ones(module: Any, records: Records, city: Path) -> None:
    known = known_from(module, records, date(2023, 1, 1))
    true = stream_of(module.truth(city, SPLIT))
    assert float(known.visits_per_step) == pytest.approx(float(true.visits_per_step), rel=0.1)
    np.testing.assert_allclose(known.days_per_step, true.days_per_step, rtol=0.25)
    np.testing.assert_allclose(known.access[:5], true.access[:5], atol=0.08)
    shares = [kind_shares(module.SHAPE, params) for params in (known, true)]
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() < 0.25
    assert (np.diff(np.asarray(true.reported_share)[[0, 4]]) > 0.1).all()
    assert stream_of(module.example()).cells.shape == known.cells.shape


@pytest.mark.parametrize("module", [crane, snad, drainage], ids=lambda module: module.OFFICE.slug)
def test_features_do_not_know_the_future(module: Any, records: Records) -> None:
    start, middle = date(2024, 1, 1), date(2024, 7, 1)
    early = stream_book.read_book(module.OFFICE, records, start, middle)
    late = stream_book.read_book(module.OFFICE, records, start, SPLIT)
    n = len(early.kind)
    assert n > 100
    np.testing.assert_array_equal(early.complaint_id, late.complaint_id[:n])
    np.testing.assert_array_equal(early.kind, late.kind[:n])
    # What is known only later differs: later rows were there to be seen.
    assert early.n_visits.sum() < late.n_visits[:n].sum()


def test_a_few_dozen_later_cases_are_scored_though_too_few_to_learn_from(
    records: Records, city: Path
) -> None:
    """The paper tests SNAD on 87 complaints; who is asked to learn from so few is refused."""
    last = records.window[1]

    def count(days: int) -> int:
        start = last - timedelta(days=days)
        return len(stream_book.read_book(snad.OFFICE, records, start, last, fewest=0).kind)

    few = next(days for days in range(5, 365, 5) if 30 <= count(days) < 120)
    start = last - timedelta(days=few)
    assert stream_of(snad.truth(city, start)).cells.shape == snad.example().cells.shape
    with pytest.raises(EstimationError, match="at least 120 are needed"):
        stream_book.read_book(snad.OFFICE, records, start, last)
    with pytest.raises(EstimationError, match="at least 30 are needed"):
        snad.truth(city, last - timedelta(days=3))


def test_without_the_cut_off_they_would(records: Records) -> None:
    start, middle = date(2024, 1, 1), date(2024, 7, 1)
    late = "UNBOUNDED FOLLOWING"
    early = stream_book.read_book(crane.OFFICE, records, start, middle, late)
    found = stream_book.read_book(crane.OFFICE, records, start, SPLIT, late)
    assert (early.kind != found.kind[: len(early.kind)]).sum() > 20


def test_revisits_do_not_know_the_future(records: Records) -> None:
    office, start, middle = electrical_revisit.OFFICE, date(2024, 1, 1), date(2024, 7, 1)
    early = revisit_records.read_visits(office, records, start, middle)
    late = revisit_records.read_visits(office, records, start, SPLIT)
    n = len(early.kind)
    np.testing.assert_array_equal(early.complaint_id, late.complaint_id[:n])
    np.testing.assert_array_equal(early.kind, late.kind[:n])
    assert np.isfinite(early.delay_days).sum() < np.isfinite(late.delay_days[:n]).sum()


@pytest.fixture(scope="module")
def triage(shifted: Path) -> tuple[StreamParams, StreamParams]:
    """What 2019 taught, and what 2020 was."""
    records, split = open_records(shifted), date(2020, 1, 1)
    calibration = calibrate(records, "complaint_triage", date_to=split)
    before = complaint_triage.DOMAIN.estimate(records, calibration, split)
    return before, complaint_triage.truth(shifted, split, date_to=date(2021, 1, 1))


def test_triage_sees_the_shift_of_2020(triage: tuple[StreamParams, StreamParams]) -> None:
    before, during = triage
    details = [
        np.bincount(
            np.asarray(params.cells).ravel() // N_STRATA // 16, minlength=4
        ) / np.asarray(params.cells).size
        for params in (before, during)
    ]  # fmt: skip
    # Orders about COVID-19 come up: worksites gain, dwellings lose.
    assert details[1][1] > details[0][1] + 0.03
    assert details[1][2] < details[0][2]
    assert float(during.access[:5].mean()) < float(before.access[:5].mean()) + 0.02


def test_what_2019_teaches_survives_2020(
    triage: tuple[StreamParams, StreamParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimum of the process estimated before, played in what really came."""
    monkeypatch.setattr(optimum, "TOLERANCE", 1e-3)
    before, during = triage
    shape, weights = complaint_triage.SHAPE, np.asarray(complaint_triage.DOMAIN.preference)
    known, true = (optimum.tabulate(shape, params, weights)[0] for params in (before, during))
    orders = optimum.order_values(shape, known, optimum.iterate(shape, known).values)
    learned = optimum.iterate(shape, true, jnp.argmax(orders, axis=0))
    best = optimum.iterate(shape, true)
    is_grave = shape.kinds[:, 1].reshape((-1,) + (1,) * (orders.ndim - 2)) == 3
    today = jnp.broadcast_to(jnp.where(is_grave, CREW, ROUND), orders.shape[1:])
    now = optimum.iterate(shape, true, today)
    share = float((learned.gain - now.gain) / (best.gain - now.gain))
    assert 0.6 < share <= 1.0


def test_a_city_without_the_domain_is_refused(shifted: Path) -> None:
    records = open_records(shifted)
    for module in (crane, electrical_revisit):
        with pytest.raises(InputError, match="complaint_triage"):
            module.DOMAIN.estimate(records, None, date(2020, 1, 1))


@pytest.mark.parametrize("module", [crane, electrical_revisit], ids=lambda m: m.OFFICE.slug)
def test_too_few_records_are_refused_with_how_many_are_needed(
    module: Any, records: Records
) -> None:
    start = date(2024, 12, 1)
    with pytest.raises(EstimationError, match="at least"):
        module.DOMAIN.estimate(records, None, SPLIT, date_from=start)


def test_records_without_a_truth_are_refused(tiny_records: Path) -> None:
    with pytest.raises(RecordsError, match="truth"):
        snad.truth(tiny_records, date(2024, 1, 1))


def test_spread_keeps_shares() -> None:
    shares = np.array([0.5, 0.3, 0.1999, 0.0001])
    rows = stream_records.spread(shares, 4096)
    counts = np.bincount(rows, minlength=4)
    assert counts.sum() == 4096
    np.testing.assert_allclose(counts / 4096, shares, atol=1.0 / 4096)


def test_calibration_gives_the_reported_share(records: Records) -> None:
    found: Calibration = calibrate(records, "snad", date_to=SPLIT)
    params = snad.DOMAIN.estimate(records, found, SPLIT)
    expected = np.clip(found.reported / found.denominators, 0.02, 1.0)
    np.testing.assert_allclose(params.reported_share, expected, rtol=1e-5)
