"""A backup under load is of one moment, and comes back on either database."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import SmallDesk, cases_of

from parity311.errors import RegistryError
from parity311.lifecycle.backup import back_up, restore


def test_a_backup_is_whole_while_staff_work(
    either: SmallDesk, desk_records: Path, desk_files: Path, tmp_path: Path
) -> None:
    clerk = either.browser("intake")
    names = [one["complaint_id"] for one in cases_of(clerk)]
    clerk.post(f"/case/{names[0]}/accept")
    stops = threading.Event()

    def work() -> None:
        while not stops.is_set():
            clerk.post(f"/case/{names[1]}/accept")
            clerk.post(f"/case/{names[1]}/undo")

    thread = threading.Thread(target=work)
    thread.start()
    out = tmp_path / "copy.db"
    address = either.desk.database.url.render_as_string(hide_password=False)
    try:
        assert back_up(address, out) > 10
    finally:
        stops.set()
        thread.join(timeout=30)
    # It holds what residents wrote and how staff log in: its owner's alone.
    assert out.stat().st_mode & 0o077 == 0
    with pytest.raises(RegistryError, match="never written over"):
        back_up(address, out)
    fresh = tmp_path / "restored.db"
    n_rows = restore(out, str(fresh))
    again = open_small(desk_records, desk_files, str(fresh))
    assert again.problems == []
    assert again.passwords == {}  # the accounts came with it
    assert again.log[0].hash == either.log[0].hash
    assert 0 < len(again.log) <= len(either.log)
    with pytest.raises(RegistryError, match="holds something already"):
        restore(out, address)
    assert n_rows > 10
