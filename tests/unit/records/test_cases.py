"""A case is what the agency linked, as it stood before the last day; strata are numbered once."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parity311.mdp.contract import N_STRATA
from parity311.records import cases
from parity311.records.cases import to_array
from parity311.records.sql import connect


@pytest.fixture
def database():
    """Two linked reports, one alone, and one of the last day itself."""
    days = [date(2024, 1, day) for day in (3, 1, 2, 9)]
    connection = connect()
    connection.register(
        "complaints",
        pa.table(
            {
                "complaint_id": ["b", "a", "c", "d"],
                "incident_id": pa.array(["1", "1", None, "1"]),
                "domain": ["heat"] * 4,
                "severity": ["C", "B", "A", "A"],
                "received_at": pa.array(days, pa.date32()).cast(pa.timestamp("us")),
            }
        ),
    )
    return connection


def read_cases(database, query: str) -> list:
    params = {"domain": "heat", "date_to": date(2024, 1, 9)}
    return database.sql(query, params=params).fetchall()


def test_reports_of_one_incident_are_one_case(database) -> None:
    query = f"""WITH own AS ({cases.reports()}), cases AS ({cases.cases("severity")})
SELECT case_id, complaint_id, n_reports, severity FROM cases ORDER BY case_id"""
    assert read_cases(database, query) == [("1", "a", 2, "B"), ("c", "c", 1, "A")]


def test_without_the_last_day_a_later_report_would_be_read(database) -> None:
    leaking = cases.reports().replace("c.received_at < $date_to::TIMESTAMP", "$date_to IS NOT NULL")
    query = f"WITH own AS ({leaking}) SELECT count(*) FROM own WHERE case_id = '1'"
    assert read_cases(database, query) == [(3,)]


def test_strata_are_numbered_as_the_contract_does(database) -> None:
    tracts = "(SELECT unnest([1, 5, 0, NULL]) AS income_quintile) t"
    found = database.sql(f"SELECT {cases.STRATUM} FROM {tracts}").fetchall()
    assert [number for (number,) in found] == [0, 4, N_STRATA - 1, N_STRATA - 1]


def test_a_text_that_is_not_listed_takes_the_number_given(database) -> None:
    expression = cases.numbered("severity", ("A", "B"), -1)
    found = database.sql(f"SELECT {expression} FROM complaints ORDER BY complaint_id").fetchall()
    assert [number for (number,) in found] == [1, -1, 0, 0]


@pytest.mark.parametrize(
    "values",
    [[1, 2, None], [1, 2, 3], [1.5, None], [True, False], [True, None], ["a", None], ["a"], []],
    ids=str,
)
def test_an_array_is_what_pyarrow_gives(values: list[Any]) -> None:
    whole = pa.array(values)
    for given in (whole, pa.concat_arrays([whole, whole]).slice(len(values))):
        found, expected = to_array(given), given.to_numpy(zero_copy_only=False)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
