"""Whatever text a file carries stays text: through import, check, estimate and audit."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.feeds.cities import shapes, write_csv
from tests.unit.feeds.test_citymap import CHICAGO, TRACTS, request

from parity311.errors import Parity311Error
from parity311.feeds.citymap import read_city_map
from parity311.feeds.importing import import_records
from parity311.records.quality import check_records
from parity311.records.store import open_records
from parity311.reporting.calibration import calibrate
from parity311.reporting.own_reports import read_own_reports

pytestmark = pytest.mark.slow


PAYLOADS = (
    "'; COPY (SELECT 1) TO 'planted'; --",
    '"; DROP TABLE staged; --',
    "]] {x} $1 ?",
    "two\nlines",
    "NUL\0byte",
    "../../planted",
    "<script>alert(1)</script>",
    "=cmd()",
    "-2+3",
    "\u202ertl\u200f",
    "x" * 10_000,
)


def import_with(payload: str, folder: Path) -> Path:
    """Import a tiny city whose every text is the payload; give the records folder."""
    folder.mkdir(exist_ok=True)
    outline = folder / "tracts.geojson"
    outline.write_text(json.dumps(shapes("geoid10", TRACTS)))
    figures = [
        {"GEOID": geoid, "population": 3000, "households": 1000,
         "median_income": 30_000 * (i + 1), "side": payload, "community_area": 77}
        for i, geoid in enumerate(TRACTS)
    ]  # fmt: skip
    rows = [
        request(
            number,
            SR_NUMBER=f"{payload}-{number}",
            STREET_ADDRESS=payload,
            STATUS=payload if number % 2 else "Completed",
            ORIGIN=payload,
            PARENT_SR_NUMBER=payload if number == 2 else "",
            DUPLICATE=payload if number == 3 else "false",
            SR_TYPE=payload if number == 4 else "Building Violation",
            **{payload.replace("\0", " ").replace("\n", " "): payload},
        )
        for number in range(1, 9)
    ]
    files = [
        outline,
        write_csv(folder / "figures.csv", figures),
        write_csv(folder / "chicago.csv", rows),
    ]
    out = folder / "records"
    import_records(files, out, city_map=read_city_map(CHICAGO))
    return out


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda text: repr(text[:20]))
def test_text_stays_text_from_import_to_audit(
    payload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = import_with(payload, tmp_path / "files")
    records = open_records(out)
    ids = records.table("complaints", "housing")["complaint_id"].to_pylist()
    assert any(payload.strip() in name for name in ids)
    json.dumps(check_records(records), allow_nan=False, default=str)
    found = calibrate(records, "housing", estimator="raw")
    assert found.reported.sum() > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]
    assert not list(tmp_path.rglob("planted*"))


@pytest.mark.parametrize("name", ["it's", "a?b", "a[b]", "*", "domain=heat", "$x; --"])
def test_folders_of_any_name_are_read(name: str, tmp_path: Path) -> None:
    out = import_with("plain", tmp_path / name)
    assert check_records(open_records(out))["domains"]["housing"]["complaints"] > 0


def test_an_unheard_of_domain_is_no_folder_name(tmp_path: Path) -> None:
    text = CHICAGO.read_text()
    for domain in ("quarantine", "../x"):
        path = tmp_path / "map.toml"
        path.write_text(text.replace('domain = "housing"', f'domain = "{domain}"'))
        with pytest.raises(Parity311Error, match="give a domain's slug"):
            read_city_map(path)


def _bytes(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


MALFORMED: dict[str, Callable[[Path], None]] = {
    "empty": _bytes(b""),
    "NUL bytes": _bytes(b"\0" * 1000),
    "invalid UTF-8": _bytes(b"\xff\xfe\xfa,b\n\xc3\x28,1\n"),
    "one long line": _bytes(b"x" * (1 << 22)),
    "deep JSON list": _bytes(b"[" * 200_000),
    "deep JSON rows": _bytes(b'[{"a":' * 100_000),
    "deep Census answer": _bytes(b"[[" + b"[" * 200_000),
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "cut gzip": lambda path: path.write_bytes(gzip.compress(b"a,b\n" * 1000)[:-9]) and None,
}


@pytest.mark.parametrize("make", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_one_line(make: Callable[[Path], None], tmp_path: Path) -> None:
    for name in ("rows.csv", "rows.json"):
        path = tmp_path / name
        make(path)
        with pytest.raises(Parity311Error) as found:
            import_records([path], tmp_path / "out")
        assert len(str(found.value).splitlines()) == 1
        assert not (tmp_path / "out").exists()
        with pytest.raises(Parity311Error) as found:
            read_own_reports(path)
        assert len(str(found.value).splitlines()) == 1


def test_own_reports_with_hostile_names_are_read(tmp_path: Path) -> None:
    for number, payload in enumerate(PAYLOADS):
        if "\0" in payload or "\n" in payload:
            continue
        path = tmp_path / f"[{number}]'?.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["incident_id", "reported_at", "area", payload])
            writer.writerow([payload, "2024-01-02", payload, "1"])
        own = read_own_reports(path)
        assert own.area.tolist() == [payload]
        assert list(own.covariates) == [payload.strip()]


def test_a_line_break_in_a_column_name_is_refused_and_loses_no_rows(tmp_path: Path) -> None:
    """DuckDB takes such a file with Windows line ends for one without rows."""
    path = tmp_path / "own.csv"
    path.write_bytes(b'incident_id,reported_at,area,"two\nlines"\r\n1,2024-01-02,a,1\r\n')
    with pytest.raises(Parity311Error, match="a line break or a lone quotation mark"):
        read_own_reports(path)
    with pytest.raises(Parity311Error, match="line break or a lone quotation mark"):
        import_records([path], tmp_path / "out")


def test_pages_show_text_and_run_none(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from parity311.cli import app

    out, runs = import_with("<script>alert(1)</script>", tmp_path / "files"), tmp_path / "runs"
    shared = ["--runs", str(runs), "--json"]
    audited = CliRunner().invoke(app, ["audit", str(out), *shared])
    given = ["--records", str(out), "--domain", "housing", "--estimator", "raw"]
    estimated = CliRunner().invoke(app, ["reporting", "estimate", *given, *shared])
    for done in (audited, estimated):
        assert done.exit_code == 0, done.output
        json.loads(done.stdout, parse_constant=pytest.fail)
    pages = [path.read_text() for path in runs.rglob("*.html")]
    assert pages
    assert all("<script>alert" not in page for page in pages)
