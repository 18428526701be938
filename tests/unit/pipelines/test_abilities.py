"""What `records check --what-for` promises, works; what it denies, it gives a reason for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity311.cli import app
from parity311.pipelines.abilities import NOT, POSSIBLE, WORK, find_abilities
from parity311.records.store import open_records


def test_every_domain_and_work_has_an_answer(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    found = find_abilities(records)
    assert {(one.domain, one.work) for one in found} == {
        (domain, work) for domain in records.domains for work in WORK
    }
    for one in found:
        assert (one.state == POSSIBLE) == (one.reason == "")
        assert (one.state == POSSIBLE) == (one.needed == "")
        assert (one.state == NOT) == (one.command == "")


@pytest.mark.slow
def test_what_is_promised_works(tiny_records: Path, tmp_path: Path) -> None:
    """Every command of the table that takes seconds ends well."""
    for one in find_abilities(open_records(tiny_records)):
        if one.command and one.work in ("reporting correction", "audit"):
            words = [*one.command.split()[1:], "--runs", str(tmp_path / "runs")]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, (one, done.output, done.exception)


def test_the_command_prints_the_table(tiny_records: Path) -> None:
    done = CliRunner().invoke(app, ["records", "check", str(tiny_records), "--what-for"])
    assert done.exit_code == 0, done.output
    assert "it would take" in done.output
