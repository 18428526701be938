"""The audit of a records folder, imported or synthetic, without any run behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import tiny_tables, write_folder
from typer.testing import CliRunner

from parity311.audit.cells import read_places
from parity311.audit.spec import AuditSpec
from parity311.cli import app
from parity311.errors import InputError
from parity311.pipelines.audit_records import audit_records, is_records_folder
from parity311.records.store import open_records
from parity311.report.folder import open_run

SPEC = AuditSpec(n_draws=150)


def test_the_command_takes_a_folder_of_records(tiny_records: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["audit", str(tiny_records), "--runs", str(tmp_path / "runs")])
    assert found.exit_code == 0, found.output
    assert "heat, recorded" in found.output
    assert "INSUFFICIENT" in found.output


def test_what_cannot_be_estimated_is_said(tiny_records: Path, tmp_path: Path) -> None:
    assert is_records_folder(str(tiny_records))
    result = audit_records(tiny_records, SPEC, root=tmp_path / "runs")
    assert result["estimates"]["heat"]
    verdicts = {row["denominator"]: row for row in result["domains"][0]["verdicts"]}
    assert verdicts["complaints"]["verdict"] == "INSUFFICIENT"
    assert all(row["reason"] for row in verdicts.values())
    (data,) = open_run(result["audit"], tmp_path / "runs").info["data"]
    assert data["fingerprint"] == open_records(tiny_records).fingerprint


def test_the_dates_of_the_specification_hold(tiny_records: Path, tmp_path: Path) -> None:
    whole = audit_records(tiny_records, SPEC, root=tmp_path)
    part = audit_records(tiny_records, replace(SPEC, date_to="2024-03-01"), root=tmp_path)
    assert part["domains"][0]["n_complaints"] < whole["domains"][0]["n_complaints"]
    with pytest.raises(InputError, match="no complaint from 2030"):
        audit_records(
            tiny_records, replace(SPEC, date_from="2030-01-01", date_to="2031-01-01"), root=tmp_path
        )
    with pytest.raises(InputError, match="cannot be read"):
        audit_records(tiny_records, replace(SPEC, date_from="June"), root=tmp_path)


def test_an_unknown_domain_is_named(tiny_records: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="heat"):
        audit_records(tiny_records, SPEC, root=tmp_path, domains=["haet"])


def test_households_stand_for_dwellings_where_no_lot_file_was_given(tmp_path: Path) -> None:
    tables = tiny_tables()
    place = tables["buildings"].schema.get_field_index("units")
    nothing = pa.array([0] * len(tables["buildings"]), pa.int32())
    tables["buildings"] = tables["buildings"].set_column(place, "units", nothing)
    records = open_records(write_folder(tmp_path / "no-units", tables))
    households = records.table("tracts")["households"].to_pylist()
    assert read_places(records).dwellings.tolist() == households
