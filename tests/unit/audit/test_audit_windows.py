"""What the published gate counts by four weeks: against the audit's own cells and by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import table_of, tiny_tables, write_folder
from tests.unit.audit.audit_city import make_inputs

from parity311.audit.cells import AuditInputs, read_inputs
from parity311.audit.spec import ESTIMANDS, AuditSpec
from parity311.pipelines.audit import apply_published
from parity311.records.store import open_records
from parity311.report.audit_inputs import load_inputs, store_inputs
from parity311.report.folder import open_run
from parity311.report.store import start_run

FROM, TO = date(2024, 1, 1), date(2024, 4, 22)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> AuditInputs:
    """Sixteen weeks of the tiny records; the second complaint repeats the first the same week."""
    tables = tiny_tables()
    rows = tables["complaints"].to_pylist()
    rows[2] |= {"incident_id": "i000", "tract": rows[0]["tract"]}  # ten days later: another week
    rows[1] |= {"incident_id": "i000", "tract": rows[0]["tract"]}  # five days later: the same
    tables["complaints"] = table_of("complaints", rows)
    folder = write_folder(tmp_path_factory.mktemp("tiny") / "records", tables)
    return read_inputs(open_records(folder), "heat", date_from=FROM, date_to=TO)


def test_a_duplicate_is_one_of_the_same_tract_week(inputs: AuditInputs) -> None:
    assert inputs.windows is not None
    assert inputs.windows.n_repeats.sum() == 1
    assert inputs.windows.n_repeats[0, 0] == 1


@pytest.mark.parametrize("estimand", sorted(set(ESTIMANDS) - {"as_given"}))
def test_windows_and_cells_count_the_same(tiny_records: Path, estimand: str) -> None:
    found = read_inputs(
        open_records(tiny_records), "heat", date_from=FROM, date_to=TO, estimand=estimand
    )
    assert found.windows is not None
    assert found.windows.n_complaints.shape == (4, 2)
    for name in ("n_complaints", "n_served"):
        by_tract = np.bincount(found.cells.tract, getattr(found.cells, name), minlength=2)
        np.testing.assert_array_equal(getattr(found.windows, name).sum(axis=0), by_tract)


def test_a_window_that_is_not_due_does_not_speak(tiny_records: Path) -> None:
    """Severity B has 40 days; records that end on August 1 leave the last windows open."""
    records = open_records(tiny_records)
    found = read_inputs(records, "heat", date_from=date(2024, 3, 1), date_to=date(2024, 8, 1))
    assert found.windows is not None
    assert found.windows.n_not_due.sum() > 0
    assert found.windows.complete.tolist() == [0, 1, 2, 3]  # the fourth ends on June 20


def test_they_come_back_from_a_run(inputs: AuditInputs, tmp_path: Path) -> None:
    with start_run(tmp_path, "run", {}) as run:
        store_inputs(run, [inputs])
    (back,) = load_inputs(open_run(run.id, tmp_path))
    assert back.windows is not None
    assert inputs.windows is not None
    np.testing.assert_array_equal(back.windows.n_repeats, inputs.windows.n_repeats)
    np.testing.assert_array_equal(back.places.covariates["median_income"], [40_000.0, 80_000.0])
    spec = AuditSpec()
    assert str(apply_published(back, spec)) == str(apply_published(inputs, spec))
    assert apply_published(back, spec)["n_windows"] == 4


def test_a_run_made_before_says_what_is_missing() -> None:
    found = apply_published(replace(make_inputs(0), windows=None), AuditSpec())
    assert np.isnan(found["largest_gap"])
    assert "make it again" in found["reason"]
