"""The agency's decisions as a log: who was visited in time, and what policies are asked."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.domains import all_domains, get_domain
from parity311.errors import EstimationError, InputError
from parity311.evaluation.off_policy import records as agency
from parity311.evaluation.off_policy.backtest import prepare_backtest
from parity311.mdp.harness import Harness
from parity311.records.store import open_records
from parity311.serving.period import SeenComplaints, SeenPeriod


def test_a_visit_counts_only_within_the_service_level(tmp_path: Path) -> None:
    tables = tiny_tables()
    code = ["A" if i % 2 else "B" for i in range(40)]
    place = tables["complaints"].schema.get_field_index("severity")
    tables["complaints"] = tables["complaints"].set_column(place, "severity", pa.array(code))
    found = open_records(write_folder(tmp_path / "records", tables))
    ids = np.array([f"c{i:03d}" for i in range(40)])
    n_visits, is_found = agency._what_happened(found, "heat", ids)
    # Visits come after nine days: in time for code B (40 days), not for code A (one day).
    np.testing.assert_array_equal(n_visits, [i % 2 == 0 for i in range(40)])
    np.testing.assert_array_equal(is_found, [i % 4 == 0 for i in range(40)])
    assert agency.last_known_day(found) == date(2024, 5, 3)


def test_a_policy_is_judged_by_whether_it_sends_somebody() -> None:
    harness = Harness(get_domain("snad"))
    chances = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    found = agency.escalation_chances(chances, harness)
    assert found.shape == (1, 2, 1, 2)
    np.testing.assert_allclose(found[0, :, 0], [[0.2, 0.8], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("slug", "decides"),
    [
        ("housing", "which category"),
        ("electrical_revisit", "For each visit without access"),
        ("drone", "is not on record"),
    ],
)
def test_what_is_not_on_record_is_refused_with_the_reason(
    tiny_records: Path, slug: str, decides: str
) -> None:
    domain = get_domain(slug)
    assert not agency.has_recorded_log(domain)
    with pytest.raises(InputError, match=f"(?s){slug}.*is another thing.*LOG.parquet") as refused:
        agency.read_agency_log(
            Harness(domain),
            open_records(tiny_records),
            None,
            date(2024, 1, 1),
            date(2024, 5, 1),
            np.array([0.5, 0.5, 0.0, 0.0]),
        )
    assert decides in str(refused.value)
    with pytest.raises(InputError, match="is another thing"):
        prepare_backtest(slug, tiny_records)


def test_six_domains_have_their_decisions_on_record() -> None:
    found = {slug for slug, one in all_domains().items() if agency.has_recorded_log(one)}
    assert found == {"boiler", "heat", "crane", "snad", "drainage", "complaint_triage"}


def test_records_to_make_rules_from_go_with_a_log(tiny_records: Path) -> None:
    with pytest.raises(InputError, match=r"--rules-from .* goes with a log"):
        prepare_backtest("heat", tiny_records, rules_from=tiny_records)


def test_too_few_decisions_are_no_log(tiny_records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(get_domain("heat"))
    n = 40
    complaints = SeenComplaints(
        complaint_id=np.array([f"c{i:03d}" for i in range(n)]),
        tract=np.full(n, "36005000001"),
        severity=np.full(n, "B"),
        stratum=np.arange(n) % 2,
        features=np.zeros((n, len(harness.domain.observation_names))),
    )
    # From 11 January 2024 on, five days apart.
    began = 19_733.0 + 5.0 * np.arange(n)
    known = {"code": np.ones(n, np.int64), "units": np.full(n, 20.0), "ahead": np.arange(n)}
    monkeypatch.setattr(agency, "see_period", lambda *_: SeenPeriod(complaints, began, **known))
    arguments = (
        harness,
        open_records(tiny_records),
        None,
        date(2024, 1, 1),
        date(2024, 8, 1),
        np.array([0.5, 0.5, 0.0, 0.0]),
    )
    with pytest.raises(EstimationError, match="at least 200 are needed"):
        agency.read_agency_log(*arguments)
    monkeypatch.setattr(agency, "FEWEST_DECISIONS", 10)
    log = agency.read_agency_log(*arguments)
    assert log.logs.shape == (1, 40, 1)
    assert log.logs.outcome_names[-2:] == ("correct", "visits")
    np.testing.assert_allclose(log.logs.outcome[0, :, 0, -2].sum(), 10)
    # Rewards add up over strata, and a visit for nothing costs.
    reward = log.logs.outcome[0, :, 0]
    np.testing.assert_allclose(reward[:, 1:7].sum(axis=1), reward[:, 0])
    assert reward[1, 0] < 0 < reward[0, 0]
    assert not log.logs.has_propensities
    code, log_waiting, quarter, log_units = log.logs.observation[0, :, 0, -4:].T
    assert (code == 1).all()
    np.testing.assert_allclose(log_waiting, np.log1p(np.arange(n)))
    np.testing.assert_array_equal(quarter[[0, 16, 17, 34, 35]], [0, 0, 1, 1, 2])
    np.testing.assert_allclose(log_units, np.log(21.0))
