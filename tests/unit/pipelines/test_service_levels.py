"""Service levels from a city's folder to a page: measured, designed, promised, and refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.city.build import build_city
from parity311.city.incumbent import severity_then_first_in as RULE
from parity311.domains import get_domain
from parity311.errors import EstimationError, InputError
from parity311.jobs.choose import Workplace
from parity311.pipelines.design_levels import TODAY, design_levels
from parity311.pipelines.design_task import CHOICES, DesignConfig
from parity311.pipelines.measure_levels import measure_levels
from parity311.pipelines.promise_levels import PromiseConfig, promise_levels
from parity311.pipelines.recorded_years import draw_years, play_drawn, read_recorded_cases
from parity311.records.store import open_records
from parity311.service_levels import search
from parity311.service_levels.levels import CellPromise, ServiceLevels, read_levels, write_levels

# A year is played a hundred times by one program.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two years of crane, the second to test on; nearly everybody is visited in the end."""
    return build_city(
        [get_domain("crane").process],
        "small", 6, "strong", "calibrated", workers=1,
        date_from=date(2023, 1, 1), date_to=date(2025, 1, 1),
        out=tmp_path_factory.mktemp("levels") / "city",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _two_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second search takes two weights in place of five: it is compared elsewhere."""
    monkeypatch.setattr(search, "N_WEIGHTS", 2)


def silent(*_: object) -> None:
    """Tell nobody."""


def design(city: Path, tmp_path: Path, **changes: object) -> dict:
    """A short search."""
    given = {"generations": 3, "population": 8, "later_draws": 2, "floor": 0.05, **changes}
    config = DesignConfig(str(city), "crane", **given)  # type: ignore[arg-type]
    return design_levels(
        config, root=tmp_path / "runs", out=tmp_path / "out.toml", choice="balanced",
        progress=silent, where=Workplace(n_workers=1), kept=tmp_path / "jobs",
    )  # fmt: skip


def test_waits_are_measured_over_all_requests(city: Path, tmp_path: Path) -> None:
    found = measure_levels(city, root=tmp_path)
    (one,) = found["domains"]
    assert one["whole"]["n"] == sum(row["n"] for row in one["rows"]["district"])
    assert 0.0 < one["whole"]["kept"] <= 1.0
    assert "Promised and kept" in Path(found["page"]).read_text()


def test_a_design_becomes_a_file_that_is_read(city: Path, tmp_path: Path) -> None:
    found = design(city, tmp_path)
    levels = read_levels(tmp_path / "out.toml")
    assert levels.name == "balanced"
    assert len(levels.design) == len(levels.promise) == len(found["cells"])
    assert set(found["chosen"]) == set(CHOICES)
    assert "The frontier" in Path(found["page"]).read_text()
    # Reviews as fit the records; and on the page what the simulation makes of what was recorded.
    assert levels.review_every_days == found["history"]["review_every"]
    assert set(found["as_it_was"]["of_record"]) == {TODAY, *CHOICES}
    assert found["as_it_was"]["requests"] > 100
    assert "error of the simulation" in Path(found["page"]).read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"floor": 0.99}, "visits cannot serve"),
        ({"targets": (("67", 0),), "share": 0.99}, "the nearest visits"),
        ({"targets": (("nothing", 3),)}, "Unknown category 'nothing'"),
        ({"targets": (("67", -1),)}, "a clock runs from 0"),
        ({"fewest": 1_000_000}, "No category has"),
        ({"districts": "ward"}, "Unknown districts"),
    ],
    ids=str,
)
def test_designs_that_cannot_be_are_refused(
    city: Path, tmp_path: Path, changes: dict, said: str
) -> None:
    with pytest.raises((InputError, EstimationError), match=said):
        design(city, tmp_path, **{"capacity_factor": 0.5, **changes})
    assert not (tmp_path / "out.toml").exists()
    assert not list(tmp_path.glob("runs/2*"))


def test_promises_come_from_played_years(city: Path, tmp_path: Path) -> None:
    config = PromiseConfig(
        "today", str(city), "crane", share=0.5, confidence=0.5, years=3, check_years=2
    )
    out = tmp_path / "kept.toml"
    found = promise_levels(config, root=tmp_path / "runs", out=out, progress=silent)
    promised = [row for row in found["cells"] if row["days"] is not None]
    assert promised
    assert all(row["days"] >= row["unrounded_days"] for row in promised)
    assert found["checks"]["rounded"]["kept_share"] >= found["checks"]["unrounded"]["kept_share"]
    assert read_levels(out).due(date(2025, 1, 2), promised[0]["district"], promised[0]["category"])


def test_promises_come_from_years_drawn_from_records(city: Path, tmp_path: Path) -> None:
    """The records alone: promises from the first year, checked on years drawn from the second."""
    config = PromiseConfig(
        "today", str(city), "crane", share=0.5, confidence=0.5, years=3, check_years=2,
        is_drawn=True,
    )  # fmt: skip
    found = promise_levels(config, root=tmp_path / "runs", out=None, progress=silent)
    assert any(row["days"] is not None for row in found["cells"])
    assert found["checks"]["rounded"]["years"] == 2
    assert found["played"].startswith("drawn from 1 recorded year and checked on")
    assert "drawn from 1 recorded year" in Path(found["page"]).read_text()


def test_a_drawn_year_has_the_visits_of_its_weeks(city: Path) -> None:
    cases = read_recorded_cases(open_records(city), "crane", "borough")
    drawn = draw_years(cases, range(cases.n_years), np.random.default_rng(0))
    assert len(drawn.slots) == 728
    assert (np.diff(drawn.journal.began) >= 0).all()
    first, last = (play_drawn(cases, drawn, rule, 0) for rule in (RULE, lambda w: -RULE(w)))
    for one in (first, last):
        assert (one.wait_days >= 0).all()
        assert np.isfinite(one.wait_days).sum() <= drawn.slots.sum()
    grave = first.code == 0
    # The same requests for both; who serves the gravest last lets them wait.
    assert np.array_equal(first.received_day, last.received_day)
    kept = [(one.wait_days[grave] <= 2).mean() for one in (first, last)]
    assert kept[0] > kept[1] + 0.1
    fewer = play_drawn(cases, drawn, RULE, 0, fewer=0.5)
    assert np.isfinite(fewer.wait_days).sum() < np.isfinite(first.wait_days).sum()


def test_less_than_a_year_is_refused(tmp_path: Path) -> None:
    tiny = write_folder(tmp_path / "records", tiny_tables())
    config = PromiseConfig(
        "today", str(tiny), "heat", confidence=0.5, years=1, check_years=0, is_drawn=True
    )
    with pytest.raises(EstimationError, match="give more months"):
        promise_levels(config, root=tmp_path / "runs", out=None, progress=silent)
    with pytest.raises(InputError, match="--records in the place of --city"):
        promise_levels(
            replace(config, is_drawn=False), root=tmp_path / "runs", out=None, progress=silent
        )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "do not cover the city"),
        ({"districts": "community_board"}, "give --districts community_board"),
        ({"share": 0.7}, "give --share 0.7"),
        ({"domain": "heat"}, "are for 'heat'"),
    ],
    ids=str,
)
def test_levels_that_do_not_fit_are_refused_before_any_year_is_played(
    city: Path, tmp_path: Path, changes: dict, said: str
) -> None:
    short = ServiceLevels("crane", "borough", 0.5, 0.5, (CellPromise("Bronx", "67", 3),))
    path = write_levels(tmp_path / "short.toml", replace(short, **changes))
    config = PromiseConfig(
        "today", str(city), "crane", share=0.5, confidence=0.5, years=1, check_years=0,
        levels=str(path),
    )  # fmt: skip
    told: list[object] = []
    with pytest.raises(InputError, match=said):
        promise_levels(
            config, root=tmp_path / "runs", out=None, progress=lambda *one: told.append(one)
        )
    assert not told
    assert not (tmp_path / "runs").exists()


def test_too_few_requests_a_year_are_refused(city: Path, tmp_path: Path) -> None:
    config = PromiseConfig(
        "today", str(city), "crane", confidence=0.5, years=1, check_years=1, fewest=50_000,
        is_drawn=True,
    )  # fmt: skip
    with pytest.raises(EstimationError, match=r"50000 requests a year \(the largest has \d{3,4}\)"):
        promise_levels(config, root=tmp_path / "runs", out=None, progress=silent)
    assert not (tmp_path / "runs").exists()


def test_too_few_years_are_refused_before_any_is_played(tmp_path: Path) -> None:
    config = PromiseConfig("today", "nowhere", "crane", years=3)
    with pytest.raises(InputError, match="play at least 9 years"):
        promise_levels(config, root=tmp_path, out=None, progress=silent)
