"""Records from object storage: whole and as they were written, or not at all."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import RecordsError
from parity311.records.stage import stage_records
from parity311.records.store import open_records


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A city where a store would have it."""
    folder = tmp_path_factory.mktemp("store") / "city"
    build_city(
        [get_domain("snad").process], "small", 3, workers=1, out=folder,
        date_from=date(2024, 1, 1), date_to=date(2024, 3, 1),
    )  # fmt: skip
    return folder


def test_what_is_staged_is_what_was_stored(stored: Path, tmp_path: Path) -> None:
    (stored / "letters.txt").write_text("not ours, and not copied")
    staged = stage_records(stored.as_uri(), tmp_path / "city")
    (stored / "letters.txt").unlink()
    assert staged.fingerprint == open_records(stored).fingerprint
    assert staged.table("complaints", "snad").equals(
        open_records(stored).table("complaints", "snad")
    )
    assert not (tmp_path / "city" / "letters.txt").exists()


def test_what_was_changed_on_the_way_is_refused_and_nothing_stays(
    stored: Path, tmp_path: Path
) -> None:
    path = stored / "complaints" / "snad.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    try:
        with pytest.raises(RecordsError, match="was changed since"):
            stage_records(stored.as_uri(), tmp_path / "city")
    finally:
        path.write_bytes(whole)
    assert not list(tmp_path.glob("city*"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("city", "is no address"),
        ("nowhere://bucket/city", "Cannot read records at nowhere://bucket/city"),
        ("file:///nowhere/city", "Cannot read records at file:///nowhere/city"),
    ],
)
def test_an_address_that_has_no_records_is_told(address: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=said):
        stage_records(address, tmp_path / "city")
    assert not list(tmp_path.glob("city*"))


def test_a_secret_in_an_address_is_not_printed(tmp_path: Path) -> None:
    with pytest.raises(RecordsError) as told:
        stage_records("s3://key:hidden@bucket/city?scheme=nonsense", tmp_path / "city")
    assert "hidden" not in str(told.value)


def test_a_folder_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(RecordsError, match="holds no records"):
        stage_records(tmp_path.as_uri(), tmp_path / "city")
