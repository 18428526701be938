"""What an error advises on real rows works: another estimator, for training and for backtests."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, sr311_row
from tests.unit.feeds.conftest import Importer
from typer.testing import CliRunner

from parity311.audit.spec import AuditSpec
from parity311.cli import app
from parity311.domains import get_domain
from parity311.errors import EstimationError
from parity311.estimation.correction import AS_THEY_ARE
from parity311.estimation.world import make_world, params_for
from parity311.evaluation.off_policy.backtest import prepare_backtest
from parity311.pipelines.audit_records import audit_records
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


FOUND = "The Department inspected the following conditions. Violations were issued."


def heat_without_duplicates(import_rows: Importer, quick: timedelta) -> Path:
    """Two years of heat complaints, one a day, none reported a second time, some closed quickly."""
    rows = []
    for k in range(720):
        longitude, latitude = CENTRES[GEOIDS[k % 4]]
        received = datetime(2022, 1, 1, 9, 30) + timedelta(days=k)
        row = sr311_row(
            k,
            created_date=received.isoformat(),
            closed_date=(received + (quick if k % 2 else timedelta(days=2))).isoformat(),
            latitude=str(latitude),
            longitude=str(longitude),
        )
        rows.append(row | ({"resolution_description": FOUND} if k % 3 == 0 else {}))
    return import_rows(sr311=rows)[0].folder


@pytest.fixture
def without_duplicates(import_rows: Importer) -> Path:
    return heat_without_duplicates(import_rows, timedelta(hours=8))


def test_no_visit_in_time_is_no_chance_to_get_in(import_rows: Importer) -> None:
    """It became NaN, and everything learned from it."""
    records = heat_without_duplicates(import_rows, timedelta(days=2))
    with pytest.raises(EstimationError, match="tells how often inspectors get in"):
        params_for(get_domain("heat"), records, None, "raw")


@pytest.mark.slow
def test_the_advised_estimator_goes_on_where_the_default_cannot(without_duplicates: Path) -> None:
    heat = get_domain("heat")
    with pytest.raises(EstimationError, match="use estimator 'raw'"):
        params_for(heat, without_duplicates)
    assert isinstance(params_for(heat, without_duplicates, None, "raw"), heat.play.params_type)
    with pytest.raises(EstimationError, match="use estimator 'raw'"):
        prepare_backtest("heat", without_duplicates, ["balanced"])
    found = prepare_backtest("heat", without_duplicates, ["balanced"], estimator="raw")
    assert found.about["kind"] == "agency"


def test_an_audit_and_a_run_use_the_estimator_that_was_asked_for(
    without_duplicates: Path, tmp_path: Path
) -> None:
    """What was asked for is used and said; what fails when asked for is an error, never another."""
    found = audit_records(
        without_duplicates, AuditSpec(n_draws=100), root=tmp_path, estimator="raw"
    )
    assert found["estimates"]["heat"].endswith(AS_THEY_ARE)
    heat, records = get_domain("heat"), open_records(without_duplicates)
    world = make_world(heat, records, estimators=("raw",), chosen="raw", may_fail=True)
    assert world.correction.used == "raw"
    with pytest.raises(EstimationError, match="second time"):
        make_world(heat, records, chosen="exposure_rate", may_fail=True)


@pytest.mark.parametrize(
    "command",
    ["train", "sweep", "frontier", "run", "audit", "cycle", "watch", "sla design", "policies make"],
)
def test_every_command_that_estimates_takes_the_option(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"}).output
    assert "--estimator" in shown


def test_a_backtest_has_two_kinds_of_estimators(without_duplicates: Path) -> None:
    """Its own --estimator values policies; the error says where the other one goes."""
    arguments = ["backtest", "heat", "--records", str(without_duplicates), "--estimator"]
    result = CliRunner().invoke(app, [*arguments, "raw"])
    assert "--reporting-estimator raw" in str(result.exception or result.output)
    result = CliRunner().invoke(app, [*arguments, "nonsense"])
    assert "--reporting-estimator" not in str(result.exception or result.output)
