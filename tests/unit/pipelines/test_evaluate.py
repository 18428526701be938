"""Policies that play a city's test year, beside what they were expected to do."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from tests.served import PRICES, save_package

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.pipelines import evaluate
from parity311.pipelines.evaluate import FRESH, TODAY, evaluate_policies

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is expected is asked of the packages step by step: sixteen episodes are enough here."""
    monkeypatch.setattr(evaluate, "N_EPISODES", 16)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two years of snad and crane, the second to test on."""
    return build_city(
        [get_domain(slug).process for slug in ("crane", "snad")],
        "small", 5, "strong", "scarce", workers=1,
        date_from=date(2023, 1, 1), date_to=date(2025, 1, 1),
        out=tmp_path_factory.mktemp("played") / "city",
    )  # fmt: skip


def test_policies_play_beside_todays_rule(city: Path, tmp_path: Path) -> None:
    folders = [
        save_package(tmp_path / "today", "snad", "balanced"),
        save_package(tmp_path / "index", "snad", "index"),
        save_package(tmp_path / "priced", "snad", "dual_threshold", prices=PRICES),
    ]
    found = evaluate_policies(
        folders, city, n_replicates=2, progress=lambda *_: None,
        where=Workplace(n_workers=1), kept=tmp_path / "jobs",
    )  # fmt: skip
    (domain,) = found["domains"]
    rows = {row["policy"]: row for row in domain["policies"]}
    assert list(rows) == [TODAY, FRESH, "today", "index", "priced"]
    # What is served as today's rule is today's rule; its lead over itself is none.
    for figure in ("coverage", "gap", "recall", "n_visits"):
        assert rows["today"][figure] == rows[TODAY][figure]
        assert rows["today"][f"{figure}_over_today"]["value"] == 0.0
    index = rows["index"]
    assert index["coverage_over_today"]["value"] != 0.0
    assert len(index["coverage_over_today"]["interval"]) == 2
    lead = index["coverage_over_today"]["value"] - index["expected_over_today"]["coverage"]
    assert index["model_error"]["coverage"] == pytest.approx(lead)


def test_one_staff_for_all(city: Path, tmp_path: Path) -> None:
    folder = save_package(tmp_path / "index", "snad", "index")
    found = evaluate_policies(
        [folder], city, n_replicates=1, is_shared=True, progress=lambda *_: None
    )
    assert found["domains"][0]["policies"][-1]["n_visits"]["value"] > 0


def test_two_of_one_name_are_refused(city: Path, tmp_path: Path) -> None:
    folders = [save_package(tmp_path / part / "index", "snad", "index") for part in "ab"]
    with pytest.raises(InputError, match="folders called 'index'; rename"):
        evaluate_policies(folders, city, progress=lambda *_: None)
