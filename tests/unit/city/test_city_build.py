import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest

from parity311.city.build import build_city
from parity311.city.incumbent import WaitingCases
from parity311.domains.crane import PROCESS as CRANE
from parity311.domains.snad import PROCESS as SNAD
from parity311.errors import InputError, RecordsError
from parity311.records.store import open_records, read_manifest
from parity311.records.truth import open_truth

pytestmark = pytest.mark.slow


PERIOD = {"date_from": date(2024, 1, 1), "date_to": date(2024, 4, 1)}


def hashes(folder: Path, part: str) -> dict[str, str]:
    files = read_manifest(folder)["files"]
    return {name: entry["sha256"] for name, entry in files.items() if part in name}


@pytest.mark.slow
def test_same_arguments_same_bytes_and_a_new_domain_moves_nothing(tmp_path: Path) -> None:
    first = build_city((CRANE,), seed=3, out=tmp_path / "a", **PERIOD)
    again = build_city((CRANE,), seed=3, out=tmp_path / "b", **PERIOD)
    both = build_city((CRANE, SNAD), seed=3, out=tmp_path / "c", **PERIOD)
    other = build_city((CRANE,), seed=4, out=tmp_path / "d", **PERIOD)
    assert read_manifest(first) == read_manifest(again)
    assert hashes(first, "crane") == hashes(both, "crane")
    assert hashes(first, "crane") != hashes(other, "crane")


@pytest.mark.slow
def test_records_are_valid_and_end_with_the_period(small_city: Path) -> None:
    records = open_records(small_city)
    records.validate()
    assert records.domains == ("boiler", "crane", "heat")
    rows = records.sql("""
SELECT max(received_at), count(*), count(*) FILTER (incident_id NOT IN
  (SELECT complaint_id FROM complaints)) FROM complaints""").to_pylist()[0]
    latest, n_rows, n_dangling = rows.values()
    assert latest.date() < date(2024, 8, 1)
    assert n_rows > 5000
    assert n_dangling == 0
    bad = records.sql("""
SELECT count(*) FROM complaints JOIN outcomes o USING (complaint_id)
WHERE o.closed_at < received_at OR o.closed_at >= '2024-08-01' OR o.first_visit_at > o.closed_at
""").to_pylist()[0]
    assert list(bad.values()) == [0]
    visits = records.sql("SELECT max(visited_at) AS last, min(propensity) AS least FROM visits")
    assert visits.to_pylist()[0]["last"].date() < date(2024, 8, 1)
    assert visits.to_pylist()[0]["least"] > 0


def test_truth_agrees_with_the_records(small_city: Path) -> None:
    truth = open_truth(small_city)
    records = open_records(small_city)
    for domain in records.domains:
        incidents, reports = truth.table("incidents", domain), truth.table("reports", domain)
        assert pc.sum(incidents["n_reports"]).as_py() == len(reports)
        n_complaints = len(records.table("complaints", domain))
        assert len(reports) == n_complaints if domain != "boiler" else len(reports) < n_complaints
        reported = pc.greater(incidents["n_reports"], 0)
        assert pc.mean(pc.cast(reported, "float64")).as_py() < 0.99
        assert set(pc.unique(incidents["end_cause"]).to_pylist()) <= {
            "self",
            "repair",
            "city",
            "open",
        }
    assert truth.parameters["heat"]["hazard.lifetime_days"]["unit"]
    assert len(truth.table("reporting")) == 3 * 200


def test_rare_domains_are_enlarged_and_say_so(small_city: Path) -> None:
    manifest = read_manifest(small_city)
    assert set(manifest["enlarged"]) == {"crane"}
    assert manifest["filings_from"] == "2022-01-01"
    assert json.dumps(manifest)


def test_bad_arguments_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Unknown preset 'smal'.*Did you mean 'small'"):
        build_city((CRANE,), "smal", out=tmp_path / "x")
    with pytest.raises(InputError, match="Unknown participation 'weak'"):
        build_city((CRANE,), participation="weak", out=tmp_path / "x")
    with pytest.raises(InputError, match=r"Unknown capacity 'scarse'.*Did you mean 'scarce'"):
        build_city((CRANE,), capacity="scarse", out=tmp_path / "x")
    with pytest.raises(InputError, match="is empty"):
        build_city(
            (CRANE,), out=tmp_path / "x", date_from=date(2024, 2, 1), date_to=date(2024, 2, 1)
        )
    with pytest.raises(InputError, match="is outside"):
        build_city((CRANE,), out=tmp_path / "x", date_from=date(1990, 1, 1))
    assert list(tmp_path.iterdir()) == []


def _fails(waiting: WaitingCases) -> None:
    raise RuntimeError("the rule is broken")


def test_an_existing_city_is_kept_and_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "city"
    with pytest.raises(RuntimeError, match="the rule is broken"):
        build_city((CRANE,), out=out, incumbent=_fails, **PERIOD)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(RecordsError, match="is left as it is"):
        build_city((CRANE,), out=out, **PERIOD)
    assert (out / "mine.txt").read_text() == "keep"


@pytest.mark.slow
def test_a_disk_that_fills_up_is_one_clear_line(tmp_path: Path) -> None:
    script = f"""
import resource
from datetime import date
from parity311.city.build import build_city
from parity311.domains.crane import PROCESS
from parity311.errors import RecordsError
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    build_city((PROCESS,), out={str(tmp_path / "city")!r}, date_from=date(2024, 1, 1),
               date_to=date(2024, 3, 1))
except RecordsError as error:
    print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith("refused: ")
    assert list(tmp_path.iterdir()) == []


def test_progress_reaches_its_total(tmp_path: Path) -> None:
    seen: dict[str, list[float]] = {}

    def report(stage: str, so_far: float, total: float) -> None:
        seen.setdefault(stage, []).append(so_far / total)

    build_city((CRANE, SNAD), out=tmp_path / "city", progress=report, **PERIOD)
    for shares in seen.values():
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)
    assert set(seen) == {"places", "domains"}


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(tmp_path: Path) -> None:
    one = build_city((CRANE, SNAD), seed=3, out=tmp_path / "one", workers=1, **PERIOD)
    two = build_city((CRANE, SNAD), seed=3, out=tmp_path / "two", workers=2, **PERIOD)
    assert read_manifest(one) == read_manifest(two)
