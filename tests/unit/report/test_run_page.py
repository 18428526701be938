"""The page of the whole way: what it must not say of real records, nor leave out."""

from __future__ import annotations

import csv
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.audit.audit_city import make_inputs
from tests.unit.feeds.cities import CENTRES, GEOIDS, sr311_row, write_csv, write_tracts
from tests.unit.report.made_up_blocks import (
    CURVE,
    EVEN,
    PAID,
    STEEP,
    STEEPER,
    make_block,
)

from parity311.cli.printing import print_comparison
from parity311.estimation.correction import correct
from parity311.estimation.world import first_test_day, rows_used
from parity311.feeds.importing import import_records
from parity311.pipelines.audit_records import add_records
from parity311.records.describe import count_located
from parity311.records.store import Records, open_records
from parity311.report.first_screen import is_level
from parity311.report.run_maps import tract_rows
from parity311.report.run_page import write_report
from parity311.report.run_pictures import TRUTH
from parity311.report.store import start_run

pytestmark = pytest.mark.slow


FALSE_OF_REAL = (
    "true city", "really happened", "public records", "moves it back", "synthetic", "test year",
    "last year", "the truth is known",
)  # fmt: skip
"""What no page on imported records may say."""
FALSE_OF_ANY = (
    "All policies have the same visits",
    "the gap closed by",
    "not closed",
    "dqn_equity",
)
"""What no page may say, whatever the figures."""
N_ROWS = 70
N_LOST = 14


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Heat complaints without duplicates, a fifth of them without a place, imported."""
    folder = tmp_path_factory.mktemp("imported")
    rows = []
    for number in range(N_ROWS):
        x, y = CENTRES[GEOIDS[number % 3]]
        at = f"{2022 + number // 35}-{1 + number % 12:02d}-{1 + number % 28:02d}T09:30:00.000"
        lost = {"latitude": "", "longitude": "", "bbl": "", "incident_address": ""}
        rows.append(
            sr311_row(
                number, created_date=at, closed_date="", longitude=str(x), latitude=str(y),
            )
            | (lost if number % 5 == 0 else {})
        )  # fmt: skip
    paths = [*write_tracts(folder), write_csv(folder / "requests.csv", rows)]
    import_records(paths, folder / "records")
    return open_records(folder / "records")


def block_of(records: Records, **changes: Any) -> dict[str, Any]:
    """A block whose records, rows and correction are real; only the policies are made up."""
    test_from = first_test_day(records, "heat")
    correction = correct(
        records, "heat", ("exposure_rate", "as_published", "raw"), records.window[0], test_from
    )
    reporting = [
        {"estimator": name, "stratum": stratum, "incidents_per_28_days": float(value)}
        for name, found in correction.calibrations.items()
        for stratum, value in zip(found.strata, found.denominators, strict=True)
    ]
    found = {
        **correction.describe(),
        "rows": rows_used(records, "heat", test_from),
        "located": count_located(records, "heat"),
        "reporting": reporting,
        "assumptions": correction.calibration.assumptions,
    }
    return make_block("heat", is_real=True, **(found | changes))


def write(tmp_path: Path, blocks: list[dict[str, Any]], records: Records | None = None) -> Path:
    """A run folder with these blocks."""
    with start_run(tmp_path, "run", {}) as run:
        if records is not None:
            add_records(run, records)
        run.add_metrics({"comparisons": blocks})
        write_report(run, blocks, [CURVE] * len(blocks))
    return run.final_path


def read_words(folder: Path) -> str:
    """The page's words, without marks, pictures and style."""
    page = (folder / "report.html").read_text()
    page = re.sub(r"<(style|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def read_first_screen(folder: Path) -> str:
    """What stands above the sections."""
    page = (folder / "report.html").read_text()
    page = page[page.index("<body>") : page.index("</header>")]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.slow
def test_a_page_on_imported_records_says_nothing_untrue(tmp_path: Path, imported: Records) -> None:
    block = block_of(imported, visits={"balanced": 0.522, PAID: 0.416})
    folder = write(tmp_path, [block], imported)
    words = read_words(folder)
    for phrase in (*FALSE_OF_REAL, *FALSE_OF_ANY):
        assert phrase not in words, phrase
    assert "exposure rate (used)" not in words
    assert f"{N_LOST} of {N_ROWS} rows in scope (20.0%) found no tract" in words
    assert "Visits differ: from 0.416 per complaint (DQN, paid for coverage)" in words
    rows = block["rows"]
    assert rows["learned"]["complaints"] + rows["tested"]["complaints"] == N_ROWS - N_LOST
    assert f"received {rows['tested']['first']} to {rows['tested']['last']}" in words


def test_the_first_screen_says_which_estimator_failed_and_why(
    tmp_path: Path, imported: Records
) -> None:
    block = block_of(imported)
    assert block["estimator"] == "raw"
    reason = block["failed_estimators"]["exposure_rate"]
    folder = write(tmp_path, [block], imported)
    first = read_first_screen(folder)
    assert "complaints stand for incidents" in first
    assert reason.rstrip(".") in first
    kept = json.loads((folder / "metrics.json").read_text())["comparisons"][0]
    assert kept["failed_estimators"]["exposure_rate"] == reason


def test_a_synthetic_page_may_say_true_and_must_say_synthetic(tmp_path: Path) -> None:
    words = read_words(write(tmp_path, [make_block(), make_block("boiler", paid=STEEPER)]))
    assert "what really happened in it" in words
    assert "played in its true process" in words
    for phrase in (*FALSE_OF_ANY, "Imported records"):
        assert phrase not in words, phrase
    # The broken twin of the first test: these words do occur where they are true.
    assert any(phrase in words for phrase in FALSE_OF_REAL)


def test_the_first_screen_covers_every_domain_and_its_bad_news(tmp_path: Path) -> None:
    """Who is served, what would change and its price, side by side; bad news first and as large."""
    blocks = [
        make_block("heat", paid=EVEN),
        make_block("boiler", paid=STEEPER),
        make_block("crane", paid=STEEPER, participation="measured"),
    ]
    folder = write(tmp_path, blocks)
    first = read_first_screen(folder)
    assert first.index("would widen the gap") < first.index("would narrow it in 1 of 3 settings")
    cards = json.loads((folder / "report.json").read_text())["cards"]
    assert [card["title"] for card in cards] == [
        "Heat and hot water", "Boiler safety", "Cranes and derricks"
    ]  # fmt: skip
    assert [card["tone"] for card in cards] == ["good", "bad", "bad"]
    assert cards[1]["verdict"] == "Keep today's rule: the gap would grow"
    for card in cards:
        questions = [question for question, _ in card["rows"]]
        assert questions == ["Who is served today", "What would change", "The price"]
        assert all(answer in first for answer in (card["title"], card["verdict"]))
    served, change, price = (answer for _, answer in cards[0]["rows"])
    assert "30 are found in time in the poorest fifth of the city and 60 in the richest" in served
    assert "**clearly smaller**" in change
    assert "visits for 100 complaints" in price
    assert "What could make this wrong?" in first
    assert "made-up city" in first


def test_where_there_is_nothing_to_close_a_sentence_says_so(tmp_path: Path) -> None:
    level = make_block(today=EVEN, paid=EVEN)
    assert is_level(level)
    assert "There is no gap to close" in read_first_screen(write(tmp_path / "level", [level]))
    steep = make_block()
    assert not is_level(steep)
    assert "no gap to close" not in read_first_screen(write(tmp_path / "steep", [steep]))
    # Rare service is judged by its ratio: 4 of 100 against 2 is no small gap.
    rare = tuple(share / 10 for share in STEEP)
    assert not is_level(make_block(today=rare, paid=rare))


def test_a_gap_known_within_a_factor_only_is_no_figure(tmp_path: Path) -> None:
    spread = {"lower": 0.01, "upper": 0.31, "change_lower": -0.2, "change_upper": 0.2}
    wide = {
        "is_real": True,
        "incidents_known_within": 46.0,
        "gap_ranges": dict.fromkeys(("balanced", "dual_threshold", "dqn", PAID), spread),
    }
    folder = write(tmp_path / "wide", [make_block(is_wide=True, **wide)])
    report = json.loads((folder / "report.json").read_text())
    (card,) = report["cards"]
    assert card["verdict"] == "Keep today's rule: too little is known"
    assert card["rows"][0][1].startswith("Nobody can say")
    first = read_first_screen(folder)
    assert "known only within a factor of 46" in first
    assert "1.0 to 31.0" in first
    titles = [
        column["title"] for section in report["sections"] for table in section["tables"]
        for column in table["columns"]
    ]  # fmt: skip
    assert "gap" not in titles
    narrow = write(tmp_path / "narrow", [make_block(is_wide=False, **wide)])
    (card,) = json.loads((narrow / "report.json").read_text())["cards"]
    assert card["rows"][0][1].startswith("Of 100 problems, 30 are found")


def test_estimates_have_intervals_and_the_truth_beside_them_where_known(tmp_path: Path) -> None:
    true = [0.3, 0.25, 0.2, 0.15, 0.1]
    folder = write(tmp_path / "made-up", [make_block(true_shares=true)])
    text = (folder / "tables/correction-heat-strong.csv").read_text()
    table = list(csv.DictReader(text.splitlines()))
    shares = [float(row["share"]) for row in table if row["estimator"] == TRUTH]
    assert shares == pytest.approx(true)
    estimated = [row for row in table if row["estimator"] == "exposure_rate"]
    assert all(float(row["lower"]) < float(row["share"]) < float(row["upper"]) for row in estimated)
    real = write(tmp_path / "real", [make_block(is_real=True)])
    assert TRUTH not in (real / "tables/correction-heat-recorded.csv").read_text()


def test_maps_of_need_service_and_change_with_a_table(tmp_path: Path) -> None:
    inputs = make_inputs(1, n_months=12, n_tracts=60)
    position = np.random.default_rng(0).uniform((-74.1, 40.6), (-73.8, 40.9), (60, 2))
    placed = replace(inputs, places=replace(
        inputs.places, position=position, dwellings=np.full(60, 500.0)
    ))  # fmt: skip
    block = make_block()
    rows = tract_rows(block, placed)
    assert inputs.incident_draws is not None
    mean = inputs.incident_draws[:, 0].mean()
    years = (inputs.date_to - inputs.date_from).days / 365.25
    assert rows[0]["need"] == pytest.approx(1000 * mean / years / 500, rel=1e-6)
    of_group = {row["group"]: row["change"] for row in rows if row["group"] != "unknown"}
    assert of_group["Q1"] == pytest.approx(0.2, abs=1e-6)
    assert of_group["Q5"] == pytest.approx(-0.1, abs=1e-6)
    with start_run(tmp_path, "run", {}) as run:
        write_report(run, [block], [CURVE], [placed])
    page = run.final_path
    for name in ("need", "service", "change"):
        assert (page / "pictures" / f"{name}-heat-strong.svg").is_file()
    assert (page / "tables" / "tracts-heat-strong.csv").is_file()


def test_printed_names_are_those_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [make_block("boiler", paid=STEEPER), make_block(is_real=True)]
    print_comparison({"comparisons": blocks, "run": "r", "report": "report.html"})
    printed = " ".join(capsys.readouterr().out.split())
    assert "today's rule" in printed
    assert "balanced" not in printed
    assert "dqn_equity" not in printed
    assert "recorded participation" not in printed
    assert "Boiler safety, rich areas call far more often, few visits: Keep today's rule" in printed
