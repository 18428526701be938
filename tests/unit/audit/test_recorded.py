"""The audit of what was recorded, on a folder small enough to count by hand."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.audit.assess import audit_inputs
from parity311.audit.cells import cells_from_table, read_inputs, table_from_cells
from parity311.errors import EstimationError, InputError, RunError
from parity311.records.store import open_records

YEAR = (date(2024, 1, 1), date(2025, 1, 1))
# The records end on 1 August and severity B has forty days: reports after 22 June, the last five
# of forty, are not due.
N_DUE = 35


def read(path: Path, **options):
    return read_inputs(open_records(path), "heat", date_from=YEAR[0], date_to=YEAR[1], **options)


def test_counts_by_hand(tiny_records: Path) -> None:
    inputs = read(tiny_records)
    # Every second case in either tract; every fourth, all of tract 1, is a violation found nine
    # days after it came in, within the forty days of severity B.
    assert inputs.n_not_due == 40 - N_DUE
    for name, expected in (("n_complaints", [18, 17]), ("n_cases", [18, 17]), ("n_served", [9, 0])):
        totals = np.bincount(inputs.cells.tract, weights=getattr(inputs.cells, name))
        assert totals.tolist() == expected
    assert inputs.places.dwellings.tolist() == [20, 20]
    assert inputs.cells.n_accessed.sum() == N_DUE


def test_estimands_differ(tiny_records: Path, tmp_path: Path) -> None:
    assert read(tiny_records, estimand="visited").cells.n_served.sum() == N_DUE
    assert read(tiny_records, estimand="enforced").cells.n_served.sum() == 9
    tables = tiny_tables()
    late = [at + timedelta(days=60) for at in tables["visits"]["visited_at"].to_pylist()]
    place = tables["visits"].schema.get_field_index("visited_at")
    tables["visits"] = tables["visits"].set_column(
        place, "visited_at", pa.array(late, pa.timestamp("us"))
    )
    path = write_folder(tmp_path / "late", tables)
    assert read(path).cells.n_served.sum() == 0
    assert read(path, estimand="enforced").cells.n_served.sum() == 9


def test_a_duplicate_is_a_complaint_but_not_a_case(tmp_path: Path) -> None:
    tables = tiny_tables()
    ids = tables["complaints"]["incident_id"].to_pylist()
    ids[2] = ids[0]  # ten days after the first, same tract: reported again
    place = tables["complaints"].schema.get_field_index("incident_id")
    tables["complaints"] = tables["complaints"].set_column(place, "incident_id", pa.array(ids))
    cells = read(write_folder(tmp_path / "r", tables)).cells
    assert cells.n_complaints.sum() == N_DUE
    assert cells.n_cases.sum() == N_DUE - 1


def test_cells_survive_the_table_of_a_run(tiny_records: Path) -> None:
    inputs = read(tiny_records)
    table = table_from_cells(inputs.cells, inputs.places)
    again = cells_from_table(table, inputs.places)
    for name, values in vars(inputs.cells).items():
        assert np.array_equal(getattr(again, name), values)
    with pytest.raises(RunError, match="lacks n_served"):
        cells_from_table(table.drop_columns(["n_served"]), inputs.places)


def test_three_denominators_and_small_strata(tiny_records: Path) -> None:
    draws = np.full((7, 2), 40.0)
    audit = audit_inputs(read(tiny_records, incident_draws=draws))
    rate = {(row["denominator"], row["stratum"][:2]): row for row in audit["rates"]}
    assert rate["complaints", "Q1"]["rate"] == 0.5
    # Forty estimated incidents a tract, of which 35 in 40 are due.
    assert rate["incidents", "Q1"]["rate"] == pytest.approx(9 / 35)
    assert rate["complaints", "Q1"]["note"].startswith("insufficient: fewer than 5 tracts")
    assert np.isnan(rate["complaints", "Q5"]["rate"])
    assert [gap["denominator"] for gap in audit["gaps"]] == ["complaints", "incidents", "dwellings"]
    assert {gap["verdict"] for gap in audit["gaps"]} == {"INSUFFICIENT"}


def test_what_is_wrong_is_said_in_one_line(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    with pytest.raises(InputError, match="Unknown domain 'heta'"):
        read_inputs(records, "heta", date_from=YEAR[0], date_to=YEAR[1])
    with pytest.raises(InputError, match="must be later"):
        read_inputs(records, "heat", date_from=YEAR[1], date_to=YEAR[0])
    with pytest.raises(EstimationError, match="choose dates within"):
        read_inputs(records, "heat", date_from=date(2030, 1, 1), date_to=date(2031, 1, 1))
    with pytest.raises(InputError, match="one column for each of the 2 tracts"):
        read(tiny_records, incident_draws=np.ones((5, 3)))
    with pytest.raises(InputError, match="Unknown estimand"):
        read(tiny_records, estimand="happy")
