"""Params of boiler and heat: from records only and in time, or from the truth on later dates."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from parity311.city.build import build_city
from parity311.domains import boiler, get_domain, heat
from parity311.domains.boiler import filings as filing_records
from parity311.errors import EstimationError, InputError, RecordsError
from parity311.estimation import casebook
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import calibrate

pytestmark = pytest.mark.slow

SPLIT = date(2025, 1, 1)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small city in which participation differs and visits are scarce."""
    out = tmp_path_factory.mktemp("domains") / "city"
    processes = [boiler.PROCESS, heat.PROCESS]
    return build_city(processes, "small", 7, "strong", "scarce", out=out, workers=1)


@pytest.fixture(scope="module")
def records(city: Path) -> Records:
    return open_records(city)


def features_by_filing(records: Records, date_to: date, cut_off: str) -> dict[str, tuple]:
    """What the query knows of each filing before the split, with rows up to `date_to` there."""
    query = filing_records.filings_query(cut_off)
    rows = records.sql(
        query, domain="boiler", date_from=date(2024, 1, 1), date_to=date_to
    ).to_pylist()
    names = ("is_recurrent", "tract_defects", "tract_filings")
    return {
        row["complaint_id"]: tuple(int(row[name]) for name in names)
        for row in rows
        if row["received_at"].date() < date(2024, 7, 1)
    }


def n_changed(records: Records, cut_off: str) -> int:
    """Filings whose features change when later rows are planted."""
    early = features_by_filing(records, date(2024, 7, 1), cut_off)
    late = features_by_filing(records, SPLIT, cut_off)
    assert early.keys() == late.keys()
    return sum(early[name] != late[name] for name in early)


def test_boiler_features_do_not_know_the_future(records: Records) -> None:
    assert n_changed(records, filing_records.CUT_OFF) == 0


def test_without_the_cut_off_they_would(records: Records) -> None:
    assert n_changed(records, "UNBOUNDED FOLLOWING") > 100


def test_boiler_params_come_from_before_the_split(records: Records, city: Path) -> None:
    calibration = calibrate(records, "boiler", date_to=SPLIT)
    estimated = boiler.estimate(records, calibration, SPLIT)
    true = boiler.truth(city, SPLIT)
    known, later = boiler.cases(estimated), boiler.cases(true)
    n_all = len(known.stratum) + len(later.stratum)
    in_window = records.sql(
        "SELECT count(*) AS n FROM complaints WHERE domain = 'boiler' "
        f"AND received_at >= TIMESTAMP '{records.window[0]}'"
    )
    assert n_all <= in_window["n"][0].as_py()
    assert known.is_actionable.mean() == pytest.approx(0.08, abs=0.02)
    assert later.is_actionable.mean() == pytest.approx(0.08, abs=0.02)
    assert 0.08 < known.capacity_share < 0.13
    assert ((known.reported_share > 0.7) & (known.reported_share <= 1.0)).all()
    # What an earlier defect says about the next one dominates.
    recurrent = known.features[:, 0] == 1
    assert known.is_actionable[recurrent].mean() > 3 * known.is_actionable[~recurrent].mean()


def test_boiler_features_lie_on_their_levels(city: Path) -> None:
    cases = boiler.cases(boiler.truth(city, SPLIT))
    for column, n_levels in enumerate(cases.levels):
        values = cases.features[:, column] * (n_levels - 1)
        np.testing.assert_allclose(values, np.rint(values), atol=1e-5)
        assert values.min() >= 0
        assert values.max() <= n_levels - 1


def test_the_leak_free_features_leave_the_fees_out() -> None:
    domain = get_domain("boiler")
    assert domain.default_observation_set == "leak_free"
    assert not any("lff" in name for name in domain.observation_sets["leak_free"])
    assert len(domain.observation_sets["published"]) == 7


def test_the_random_split_parts_the_filings(records: Records, city: Path) -> None:
    calibration = calibrate(records, "boiler", date_to=SPLIT)
    train = boiler.estimate(records, calibration, SPLIT, split="random")
    everything = boiler.estimate(records, calibration, SPLIT)
    assert int(train.n_rows) / int(everything.n_rows) == pytest.approx(0.8, abs=0.02)
    held_out = boiler.truth(city, SPLIT, split="random")
    assert int(held_out.n_rows) > 2000
    with pytest.raises(InputError, match="chronological"):
        boiler.estimate(records, calibration, SPLIT, split="alphabetical")


def test_heat_params_are_near_the_truth(records: Records, city: Path) -> None:
    calibration = calibrate(records, "heat", date_to=SPLIT)
    estimated = heat.estimate(records, calibration, SPLIT)
    true = heat.truth(city, SPLIT)
    log_known = np.log(np.asarray(estimated.actionable))
    log_true = np.log(np.asarray(true.actionable))
    weight = np.asarray(true.kind_shares).mean(axis=0)
    centred = [x - np.average(x, weights=weight) for x in (log_known, log_true)]
    correlation = np.average(centred[0] * centred[1], weights=weight) / np.sqrt(
        np.average(centred[0] ** 2, weights=weight) * np.average(centred[1] ** 2, weights=weight)
    )
    assert correlation > 0.85
    need = [np.asarray(heat.DOMAIN.play.need_per_step(params))[:5] for params in (estimated, true)]
    shares = [values / values.sum() for values in need]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.08)
    np.testing.assert_allclose(estimated.office.capacity, true.office.capacity, rtol=0.4, atol=0.05)
    rate = np.asarray(true.report_rate)
    assert rate[4] > 1.8 * rate[0]
    reported = rate * np.asarray(true.office.lifetime[1])
    busiest = (np.asarray(true.incidents_per_day).T @ (reported / (1 + reported))).max()
    assert busiest == pytest.approx(heat.BUSIEST_MONTH * heat.SLOTS_PER_DAY, rel=0.25)


def test_a_casebook_reads_nothing_after_its_last_day(records: Records) -> None:
    book = casebook.read_casebook(
        records, "heat", date(2024, 1, 1), date(2024, 3, 1), heat.COMPLAINT_KINDS.flags
    )
    assert book.n_days == 60
    assert set(np.unique(book.month)) == {0, 1}
    waits = book.visit_wait[np.isfinite(book.visit_wait)]
    assert waits.min() >= 0
    assert waits.max() <= 60
    np.testing.assert_array_equal(book.days_by_month[:3], [31, 29, 0])


def test_too_few_records_are_refused(tiny_records: Path) -> None:
    with pytest.raises(EstimationError, match="at least"):
        casebook.read_casebook(
            open_records(tiny_records), "heat", date(2024, 1, 1), date(2024, 8, 1), ()
        )


def test_records_without_a_truth_are_refused(tiny_records: Path) -> None:
    with pytest.raises(RecordsError, match="truth"):
        heat.truth(tiny_records, date(2024, 1, 1))
