"""A city exported as portals publish it, imported again, linked, and estimated from."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.audit.spec import AuditSpec
from parity311.city.build import build_city
from parity311.city.export import export_city, portal_shapes
from parity311.domains import get_domain
from parity311.errors import EstimationError, InputError
from parity311.feeds.citymap import named_city_map, packaged_maps
from parity311.feeds.importing import import_records
from parity311.pipelines.audit_records import audit_records
from parity311.records.describe import describe_import
from parity311.records.store import Records, open_records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.estimate import estimate
from parity311.reporting.link_quality import UsedLinks, check_links
from parity311.reporting.link_records import link_records
from parity311.reporting.table import reports_from_records

pytestmark = pytest.mark.slow

PUBLISHED = {
    "nyc_311": {"heat", "housing", "drainage"},
    "nyc_dob": {"drainage"},
    "nyc_hpd": {"heat", "housing"},
    "boston_311": {"heat", "housing", "drainage"},
    "chicago_311": {"housing", "drainage"},
    "los_angeles_311": {"drainage"},
    "san_francisco_311": {"housing", "drainage"},
}


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Two winter months of three domains."""
    folder = tmp_path_factory.mktemp("export") / "city"
    processes = [get_domain(slug).process for slug in ("heat", "housing", "drainage")]
    first, last = date(2024, 11, 1), date(2025, 1, 1)
    build_city(processes, "small", 7, out=folder, workers=1, date_from=first, date_to=last)
    return open_records(folder)


@pytest.fixture(scope="module")
def come_back(city: Records, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """A shape's name -> the records that come back, and what was exported; made once each."""
    made: dict[str, tuple[Records, dict[str, Any]]] = {}

    def again(shape: str) -> tuple[Records, dict[str, Any]]:
        if shape not in made:
            folder = tmp_path_factory.mktemp(shape)
            told = export_city(city, shape, folder / "files")
            own = named_city_map(Path(shape))
            assert (own is None) == (shape not in packaged_maps())
            files = [folder / "files" / name for name in told["files"]]
            import_records(files, folder / "records", city_map=own)
            made[shape] = open_records(folder / "records"), told
        return made[shape]

    return again


def _by_tract(records: Records, domain: str) -> dict[tuple[str, Any], int]:
    rows = records.sql(
        "SELECT tract, CAST(received_at AS DATE) AS day, count(*) AS n FROM complaints "
        "WHERE domain = $domain GROUP BY ALL",
        domain=domain,
    ).to_pylist()
    return {(row["tract"], row["day"]): row["n"] for row in rows}


def test_every_shape_is_tried() -> None:
    assert set(PUBLISHED) == set(portal_shapes())


@pytest.mark.parametrize("shape", PUBLISHED)
def test_every_row_comes_back_in_its_tract_and_on_its_day(
    city: Records, come_back: Callable[..., Any], shape: str
) -> None:
    records, told = come_back(shape)
    assert set(records.domains) == set(told["rows"]) == PUBLISHED[shape]
    for domain in records.domains:
        assert _by_tract(records, domain) == _by_tract(city, domain)
    # Nothing that the portal does not publish came along.
    languages = "SELECT count(language) AS n FROM complaints"
    assert records.sql(languages)["n"][0].as_py() == 0
    tracts = records.table("tracts")
    assert (
        tracts["income_quintile"].to_pylist() == city.table("tracts")["income_quintile"].to_pylist()
    )
    assert min(len(others) for others in tracts["neighbours"].to_pylist()) >= 2


def test_what_a_shape_tells_of_outcomes_and_duplicates(come_back: Callable[..., Any]) -> None:
    def about(shape: str) -> tuple[int, int]:
        row = come_back(shape)[0].sql("""
SELECT count(*) FILTER (WHERE o.disposition_class = 'violation') AS found,
  count(*) FILTER (WHERE c.incident_id <> c.complaint_id) AS repeats
FROM complaints c JOIN outcomes o USING (complaint_id)""")
        return row["found"][0].as_py(), row["repeats"][0].as_py()

    assert min(about("nyc_311")) > 0
    assert min(about("nyc_hpd")) > 0
    chicago = about("chicago_311")
    assert chicago[0] == 0
    assert chicago[1] > 0
    assert about("boston_311") == (0, 0)


def test_links_are_made_measured_and_used(
    city: Records, come_back: Callable[..., Any], tmp_path: Path
) -> None:
    records, _ = come_back("boston_311")
    out = tmp_path / "linked"
    found = {one.domain: one for one in link_records(records.folder, out, lambda: city.folder)}
    heat, housing = found["heat"], found["housing"]
    assert heat.n_unmarked == heat.n_reports
    assert 0 < heat.n_linked < heat.n_reports / 2
    assert heat.quality is not None
    assert 0.5 < heat.quality.precision < 1
    assert housing.describe()["is_weak"]
    linked = open_records(out)
    linked.validate()
    said = describe_import(linked)
    assert f"A rule, not the source, linked {found['drainage'].n_linked:,}" in said
    assert "A rule" not in describe_import(records)
    assert linked.manifest["sources"] == records.manifest["sources"]
    # Estimates refuse what the source does not mark, and are wide where a rule did.
    areas = areas_from_records(linked)
    plain = reports_from_records(records, "heat", areas)
    with pytest.raises(EstimationError, match="records link"):
        estimate(plain, areas)
    table = reports_from_records(linked, "heat", areas)
    assert table.links is not None
    wide = estimate(table, areas, n_draws=100)
    narrow = estimate(replace(table, links=None), areas, n_draws=100)
    totals = [one.area_draws(np.random.default_rng(0)).sum(axis=1) for one in (wide, narrow)]
    assert np.std(totals[0]) > 1.5 * np.std(totals[1])
    assert "linked by a rule" in wide.assumption
    with pytest.raises(EstimationError, match="too weakly linked"):
        estimate(reports_from_records(linked, "housing", areas), areas)
    raw = estimate(reports_from_records(linked, "housing", areas), areas, estimator="raw")
    assert raw.incidents.sum() == housing.n_reports
    with pytest.raises(InputError, match="nothing to link"):
        link_records(out, tmp_path / "again", lambda: city.folder, domains=["heat"])
    assert not (tmp_path / "again").exists()


def test_a_page_says_what_was_done_about_each_domain(
    city: Records, come_back: Callable[..., Any], tmp_path: Path
) -> None:
    """Unmarked, linked well and linked badly: each has its own sentences, and no other's."""
    records, _ = come_back("boston_311")
    link_records(records.folder, tmp_path / "linked", lambda: city.folder)
    said = {}
    for name, folder in (("unmarked", records.folder), ("linked", tmp_path / "linked")):
        spec, domains = AuditSpec(n_draws=100), ["heat", "housing"]
        found = audit_records(folder, spec, root=tmp_path / name, domains=domains)
        page = re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", Path(found["page"]).read_text())
        said[name] = re.sub(r"\s+", " ", html.unescape(page))
        for untrue in ("true city", "synthetic city, 20", "the exposure rate moves it back"):
            assert untrue not in said[name]
        assert "complaints received 2024-11-01 to 2024-12-31" in said[name]
    assert "Duplicates are not marked for" in said["unmarked"]
    assert "linked by a rule" not in said["unmarked"]
    assert "repeats were linked by a rule" in said["linked"]
    assert "too weakly linked to tell how fast people report" in said["linked"]
    assert "A rule, not the source, linked" in said["linked"]


def test_links_that_are_always_right_widen_nothing() -> None:
    """The width itself: none where links are perfect, refused where half are wrong."""
    links = UsedLinks("heat", "city", 1.0, 1.0, n_linked=10, n_repeats=10)
    assert links.log_spread == 0.0
    assert replace(links, precision=0.7).log_spread > replace(links, precision=0.8).log_spread > 0
    assert replace(links, precision=0.7, n_repeats=100).log_spread == pytest.approx(
        replace(links, precision=0.7).log_spread / 10
    )
    check_links(replace(links, precision=0.5))
    # A few weak links among many marks of the source do not spoil them.
    check_links(replace(links, precision=0.1, n_repeats=100))
    with pytest.raises(EstimationError, match="49%"):
        check_links(replace(links, recall=0.49))


def test_what_cannot_be_exported_is_said(city: Records, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'boston_311'"):
        export_city(city, "boston", tmp_path)
    with pytest.raises(InputError, match="no complaint of heat"):
        export_city(city, "nyc_dob", tmp_path / "x", ["heat"])
    assert not (tmp_path / "x" / "complaints.csv").exists()
    (tmp_path / "tracts.csv").write_text("mine\n")
    with pytest.raises(InputError, match="is there already"):
        export_city(city, "nyc_311", tmp_path)
