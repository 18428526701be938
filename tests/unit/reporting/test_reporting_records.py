"""Reports read from records: what is left out is counted, nothing later is read."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from parity311.city.build import build_city
from parity311.domains.heat import DOMAIN as HEAT
from parity311.errors import InputError
from parity311.records.store import Records, open_records
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.calibration import calibrate
from parity311.reporting.table import reports_from_records


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    out = tmp_path_factory.mktemp("city") / "heat"
    period = {"date_from": date(2024, 1, 1), "date_to": date(2024, 4, 1)}
    return open_records(build_city((HEAT.process,), seed=8, out=out, **period))


@pytest.mark.slow
def test_a_tract_absent_from_the_table_is_left_out_and_counted(records: Records) -> None:
    areas = areas_from_records(records)
    whole = reports_from_records(records, "heat", areas)
    keep = np.arange(areas.n_areas) != int(np.bincount(whole.area).argmax())
    fewer = Areas(
        geoid=areas.geoid[keep],
        borough=areas.borough[keep],
        households=areas.households[keep],
        income_quintile=areas.income_quintile[keep],
        covariates={name: values[keep] for name, values in areas.covariates.items()},
        edges=np.zeros((0, 2), dtype=np.int64),
    )
    table = reports_from_records(records, "heat", fewer)
    n_lost = whole.n_incidents - table.n_incidents
    assert n_lost > 0
    assert table.left_out == {"the tract is not in the tracts table": n_lost}


def test_nothing_after_the_last_date_is_read(records: Records) -> None:
    areas = areas_from_records(records)
    table = reports_from_records(records, "heat", areas, date_to=date(2024, 3, 1))
    assert table.first_report_day.max() < 60
    assert (table.first_report_day + table.exposure_days).max() <= 60 + 1e-9


def test_a_domain_without_complaints_is_refused(records: Records) -> None:
    with pytest.raises(InputError, match="no complaints of domain 'crane'"):
        reports_from_records(records, "crane", areas_from_records(records))


def test_calibration_is_kept_and_found_again(records: Records, tmp_path: Path) -> None:
    first = calibrate(records, "heat", estimator="lower_bound", cache=tmp_path)
    kept = list(tmp_path.glob("calibration-*.npz"))
    assert len(kept) == 1
    again = calibrate(records, "heat", estimator="lower_bound", cache=tmp_path)
    np.testing.assert_array_equal(first.draws, again.draws)
    calibrate(records, "heat", estimator="raw", cache=tmp_path)
    assert len(list(tmp_path.glob("calibration-*.npz"))) == 2
