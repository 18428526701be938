"""A fetch survives what servers do, and going on after a kill gives the same files."""

from __future__ import annotations

import json
import random
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.unit.feeds.cities import GEOIDS, hpd_row, shapes, sr311_row
from tests.unit.feeds.soda_server import Fault, SodaServer, serving

from parity311.errors import FetchError, InputError, RecordsError
from parity311.feeds.census import all_variables
from parity311.feeds.datasets import BOILER, plan_requests
from parity311.feeds.fetch import FetchOptions, fetch_nyc
from parity311.feeds.importing import import_records
from parity311.feeds.soda import SodaClient
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


N_REQUESTS = 23
PAGE_ROWS = 10


def census_rows() -> list[list[str | None]]:
    """An answer with every variable; one tract's income is not published."""
    names = list(all_variables())
    rows: list[list[str | None]] = [["NAME", *names, "state", "county", "tract"]]
    for i, geoid in enumerate(GEOIDS):
        values = ["1000" if name.endswith("_001E") else "10" for name in names]
        values[names.index("B19013_001E")] = "-666666666" if i == 3 else str(40_000 * (i + 1))
        rows.append([f"Tract {i}", *values, geoid[:2], geoid[2:5], geoid[5:]])
    return rows


def nyc() -> SodaServer:
    """What heat needs, and rows that must not come: another agency, another year."""
    requests = [sr311_row(k) for k in range(N_REQUESTS)]
    requests += [sr311_row(900, agency="NYPD", complaint_type="Noise - Residential")]
    requests += [sr311_row(901, created_date="2019-06-01T00:00:00.000")]
    for row in requests:
        row.setdefault("resolution_action_updated_date", None)
    problem = hpd_row(1, unique_key="50000001", received_date="2024-01-10T00:00:00.000")
    violation = {
        name: None
        for name in (
            "violationid", "class", "inspectiondate", "novdescription", "buildingid", "boroid",
            "postcode", "novissueddate", "currentstatus", "violationstatus", "latitude",
            "longitude", "bin", "bbl",
        )
    }  # fmt: skip
    lot = {"bbl": "2024500012", "unitsres": "24", "yearbuilt": "1931", "bct2020": "2000100",
           "latitude": None, "longitude": None, "ownername": "OWNERNAME"}  # fmt: skip
    return SodaServer(
        {
            "erm2-nwe9": requests,
            "ygpa-z7cr": [problem],
            "wvxf-dwi5": [violation],
            "64uk-42ks": [lot],
        },
        {
            "63ge-mke6": shapes("geoid"),
            "5crt-au7u": shapes("boro_cd", ("204", "205", "111", "112")),
        },
        census_rows(),
    )


def options(server: SodaServer, **changes: Any) -> FetchOptions:
    given: dict[str, Any] = {
        "domains": ("heat",),
        "since": date(2024, 1, 1),
        "census_key": "a-key",
        "page_rows": PAGE_ROWS,
        "portal": server.address,
        "census_address": f"{server.address}/data",
    }
    return FetchOptions(**(given | changes))


def client(server: SodaServer, **changes: Any) -> SodaClient:
    return SodaClient(server.address, sleep=lambda seconds: None, **changes)


def rows_of(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.name not in ("state.json", "fetched.json")
    }


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a fetch in which nothing went wrong."""
    folder = tmp_path_factory.mktemp("sound")
    with serving(nyc()) as server:
        fetch_nyc(options(server), folder, client=client(server))
    return rows_of(folder)


@pytest.mark.slow
def test_fetch_then_import(tmp_path: Path) -> None:
    with serving(nyc()) as server:
        fetched = fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
    entries = {entry["name"]: entry for entry in fetched["datasets"]}
    assert entries["sr311"]["server_rows"] == N_REQUESTS
    assert list(entries["sr311"]["files"]) == [f"sr311-{k:05d}.csv" for k in range(3)]
    assert all(entry["terms"] and entry["retrieved_at"] for entry in entries.values())
    for name, content in rows_of(tmp_path / "nyc").items():
        assert b"OWNERNAME" not in content, name
        assert b"a-key" not in content, name
    manifest = import_records([tmp_path / "nyc"], tmp_path / "records")
    records = open_records(tmp_path / "records")
    assert records.table("complaints", "heat").num_rows == N_REQUESTS
    tracts = {row["geoid"]: row for row in records.table("tracts").to_pylist()}
    assert tracts[GEOIDS[3]]["median_income"] is None
    assert tracts[GEOIDS[0]]["community_board"] == 204
    assert tracts[GEOIDS[0]]["share_renter"] == pytest.approx(0.01)
    source = next(s for s in manifest["sources"] if s["name"] == "sr311")
    assert source["source"].endswith("/d/erm2-nwe9")
    assert source["server_rows"] == source["rows_in"] == N_REQUESTS


@pytest.mark.parametrize(
    ("kind", "on"),
    [
        *(
            (kind, "/resource/erm2-nwe9.csv")
            for kind in ("429", "503", "cut", "truncated", "hang_up")
        ),
        ("truncated", "/resource/erm2-nwe9.json"),
        ("truncated", "/resource/63ge-mke6"),
        ("truncated", "/acs/acs5"),
    ],
)
def test_faults_are_waited_out(tmp_path: Path, sound: dict[str, bytes], kind: str, on: str) -> None:
    server = nyc()
    server.faults = [Fault(kind, on, times=2)]
    pauses: list[str] = []
    with serving(server):
        whole = fetch_nyc(
            options(server),
            tmp_path / "faulty",
            client=client(server, on_retry=lambda reason, pause: pauses.append(reason)),
        )
    assert len(pauses) == 2
    assert {e["name"]: e["server_rows"] for e in whole["datasets"]}["sr311"] == N_REQUESTS
    assert rows_of(tmp_path / "faulty") == sound


def test_a_server_that_never_recovers_is_an_error_and_what_came_is_kept(tmp_path: Path) -> None:
    server = nyc()
    with serving(server):
        server.faults = [Fault("503", "offset=10", times=99)]
        with pytest.raises(FetchError, match="did not answer in 7 attempts"):
            fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        assert (tmp_path / "nyc" / "sr311-00000.csv").is_file()
        assert not (tmp_path / "nyc" / "fetched.json").exists()
        with pytest.raises(RecordsError, match="did not finish"):
            import_records([tmp_path / "nyc"], tmp_path / "records")
        server.faults, server.calls = [], []
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        assert not any("offset=0" in call for call in server.calls if "erm2" in call)


@pytest.mark.parametrize("seed", range(3))
def test_killed_anywhere_and_run_again_gives_the_same_files(
    tmp_path: Path, sound: dict[str, bytes], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped again and again at random calls and in the middle of writes."""
    rng = random.Random(seed)
    deaths = 0

    class KilledError(BaseException):
        pass

    def die_sometimes(*_: Any) -> None:
        if rng.random() < 0.08:
            raise KilledError

    with serving(nyc()) as server:
        monkeypatch.setattr("parity311.storage.disk.os.fsync", die_sometimes)
        while True:
            dying = client(server)

            def call(*args: Any, plain=dying.call, **keywords: Any) -> Any:
                die_sometimes()
                return plain(*args, **keywords)

            dying.call = call  # type: ignore[method-assign]
            try:
                fetch_nyc(options(server), tmp_path / "nyc", client=dying)
                break
            except KilledError:
                deaths += 1
                assert not (tmp_path / "nyc" / "fetched.json").exists()
    assert deaths > 0
    assert rows_of(tmp_path / "nyc") == sound


def test_a_page_changed_on_disk_is_fetched_again(tmp_path: Path) -> None:
    with serving(nyc()) as server:
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        page = tmp_path / "nyc" / "sr311-00001.csv"
        before = page.read_bytes()
        page.write_bytes(before[:-20])
        with pytest.raises(RecordsError, match="was changed since it was fetched"):
            import_records([tmp_path / "nyc"], tmp_path / "records")
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        assert page.read_bytes() == before


def test_a_dataset_that_changed_meanwhile_is_fetched_anew(tmp_path: Path) -> None:
    server = nyc()
    with serving(server):
        server.faults = [Fault("503", "offset=20", times=99)]
        with pytest.raises(FetchError):
            fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        server.faults = []
        server.datasets["erm2-nwe9"].insert(0, sr311_row(500, resolution_action_updated_date=None))
        server.last_modified = "Fri, 17 Jul 2026 17:40:22 GMT"
        fetched = fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
    entry = fetched["datasets"][0]
    assert entry["server_rows"] == N_REQUESTS + 1
    first = (tmp_path / "nyc" / "sr311-00000.csv").read_text()
    assert "50000500" in first


def test_a_column_gone_is_named(tmp_path: Path) -> None:
    server = nyc()
    for row in server.datasets["erm2-nwe9"]:
        row["problem_type"] = row.pop("complaint_type")
    with (
        serving(server),
        pytest.raises(FetchError, match=r"(no|has no) column 'complaint_type'"),
    ):
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))


@pytest.mark.slow
def test_an_optional_column_gone_is_left_out_and_recorded(tmp_path: Path) -> None:
    server = nyc()
    for row in server.datasets["erm2-nwe9"]:
        del row["bbl"]
    with serving(server):
        fetched = fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
    assert fetched["datasets"][0]["missing_columns"] == ["bbl"]
    import_records([tmp_path / "nyc"], tmp_path / "records")


@pytest.mark.slow
def test_whole_exports_and_the_newer_protocol_give_the_same_records(tmp_path: Path) -> None:
    fingerprints = []
    for protocol in ("soda2", "soda3"):
        server = nyc()
        server.token = "a-token"
        with serving(server):
            chosen = options(server, protocol=protocol, app_token="a-token")
            folder = tmp_path / protocol
            fetch_nyc(chosen, folder, client=client(server, app_token="a-token"))
        manifest = import_records([folder], tmp_path / f"{protocol}-records")
        fingerprints.append(manifest["fingerprint"])
    assert fingerprints[0] == fingerprints[1]


def test_a_whole_file_is_checked_against_the_servers_count(tmp_path: Path) -> None:
    server = nyc()
    server.faults = [Fault("truncated", "rows.csv", times=1)]
    path = tmp_path / "rows.csv"
    with serving(server), client(server) as opened:
        n, _ = opened.count("erm2-nwe9", None)
        opened.whole_file("erm2-nwe9", path, n)
    assert path.read_text().count("\n") == n + 1
    assert sum("rows.csv" in call for call in server.calls) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"census_key": None}, "needs a key"),
        ({"protocol": "soda3"}, "needs an app token"),
        ({"protocol": "ftp"}, "Unknown protocol 'ftp'"),
        ({"domains": ("heta",)}, "Did you mean 'heat'"),
    ],
)
def test_bad_choices(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with serving(nyc()) as server, pytest.raises(InputError, match=message):
        fetch_nyc(options(server, **changes), tmp_path / "nyc", client=client(server))


def test_a_wrong_census_key_is_said(tmp_path: Path) -> None:
    with serving(nyc()) as server, pytest.raises(FetchError, match="key is missing or not valid"):
        fetch_nyc(options(server, census_key="no"), tmp_path / "nyc", client=client(server))


def test_a_folder_of_another_query_is_refused(tmp_path: Path) -> None:
    with serving(nyc()) as server:
        fetch_nyc(options(server), tmp_path / "nyc", client=client(server))
        other = options(server, since=date(2023, 1, 1))
        with pytest.raises(InputError, match="another query"):
            fetch_nyc(other, tmp_path / "nyc", client=client(server))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with serving(nyc()) as server, pytest.raises(InputError, match="holds other files"):
        fetch_nyc(options(server), tmp_path / "mine", client=client(server))


def test_queries_ask_for_no_names_and_only_for_what_domains_need() -> None:
    assert not [name for name in BOILER.columns if "name" in name or "license" in name]
    requests = {r.dataset.name: r.where for r in plan_requests(
        ["heat", "boiler"], date(2019, 7, 1), date(2020, 5, 1)
    )}  # fmt: skip
    assert set(requests) == {
        "sr311", "sr311_2010_2019", "hpd_problems", "hpd_violations", "boiler", "footprints",
        "lots", "tract_boundaries", "districts",
    }  # fmt: skip
    assert (
        requests["boiler"] == "(inspection_date like '%/2019%' OR inspection_date like '%/2020%')"
    )
    assert "agency = 'HPD' AND complaint_type in ('HEAT/HOT WATER', 'HEATING')" in str(
        requests["sr311"]
    )


def test_real_error_and_metadata_are_understood(shared_data: Path) -> None:
    from parity311.feeds.soda import ColumnGoneError, _refusal

    body = (shared_data / "dob" / "soda_error_bad_column_http400.json").read_bytes()
    error = _refusal("https://portal", "/resource/ipu4-2q9a.json", 400, body)
    assert isinstance(error, ColumnGoneError)
    assert "'not_a_real_column'" in str(error)
    view = json.loads((shared_data / "boiler" / "views_metadata_16.json").read_text())["52dp-yji6"]
    published = {column["fieldName"] for column in view["columns"]}
    assert set(BOILER.columns) <= published
