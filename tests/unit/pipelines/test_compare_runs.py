"""Runs listed, set side by side, opened and linked, from real run folders."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.bad_input import Try, call
from tests.unit.explain.stored_run import make_run
from tests.unit.report.made_up_blocks import EVEN, STEEP, STEEPER, make_block
from tests.unit.report.test_report import find_page_faults

from parity311.audit.spec import AuditSpec
from parity311.errors import InputError
from parity311.pipelines.audit import audit_run
from parity311.pipelines.compare_runs import compare_runs
from parity311.report.compare_page import pair_figures
from parity311.report.folder import Run, open_run
from parity311.report.siblings import find_siblings, list_cards, read_card
from parity311.report.store import start_run


def make_blocks(root: Path, seed: int, *blocks: dict[str, Any]) -> Run:
    with start_run(root, "run", {"seed": seed}) as run:
        run.add_data(f"small-{seed}", f"{seed:064d}", is_synthetic=True)
        run.add_metrics({"comparisons": list(blocks)})
    return open_run(run.id, root)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Run]:
    first = make_blocks(tmp_path, 1, make_block(today=STEEP, paid=STEEPER), make_block("boiler"))
    second = make_blocks(tmp_path, 2, make_block(today=STEEP, paid=EVEN))
    return first, second


def test_what_moved_is_told_apart_and_what_did_not_is_not(two: tuple[Run, Run]) -> None:
    kind, rows = pair_figures(*two)
    by_policy = {row["policy_id"]: row for row in rows}
    assert kind == "run"
    assert by_policy["dqn_equity_0.50"]["coverage_gap_apart"] is True
    assert by_policy["balanced"]["coverage_gap_apart"] is False
    assert {row["about"] for row in rows} == {rows[0]["about"]}


def test_the_page_is_sound_and_says_what_differs(two: tuple[Run, Run], tmp_path: Path) -> None:
    result = compare_runs(*two, root=tmp_path)
    html = Path(result["page"]).read_text()
    assert find_page_faults(html) == []
    assert "They used different data" in html
    assert "narrower in 1" in html
    assert any("boiler" in name for name in result["only_first"])
    assert "Only the first has figures of" in html
    assert re.search(r"seed.*?>1<.*?>2<", html, re.DOTALL)


def test_a_gap_known_as_a_range_is_no_figure(tmp_path: Path) -> None:
    runs = [
        make_blocks(tmp_path, n, make_block(is_real=True, is_wide=True, gap_ranges={}))
        for n in (1, 2)
    ]
    _, rows = pair_figures(runs[0], runs[1])
    assert all(row["coverage_gap_first"] is None for row in rows)
    html = Path(compare_runs(runs[0], runs[1], root=tmp_path)["page"]).read_text()
    assert "known as a range only" in html


def test_two_kinds_and_one_run_are_refused(two: tuple[Run, Run], tmp_path: Path) -> None:
    with start_run(tmp_path, "frontier", {}) as run:
        run.add_metrics({"frontier": 1.0})
    other = open_run(run.id, tmp_path)
    with pytest.raises(InputError, match="compare two of one kind"):
        compare_runs(two[0], other, root=tmp_path)
    with pytest.raises(InputError, match="name two runs"):
        compare_runs(two[0], two[0], root=tmp_path)
    assert not list(tmp_path.glob(".partial*"))


def test_other_kinds_show_every_number(tmp_path: Path) -> None:
    found = []
    for value in (1.0, 2.0):
        with start_run(tmp_path, "reporting estimate", {"a": {"b": [1, 2]}}) as run:
            run.add_metrics({"rows": [{"name": "x", "n": value}], "same": 3})
        found.append(open_run(run.id, tmp_path))
    result = compare_runs(*found, root=tmp_path)
    assert result["summary"].startswith("1 of 2 figures")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, list[str]]:
    root = tmp_path_factory.mktemp("audited")
    source = make_run(root)
    spec = AuditSpec(n_draws=100)
    ids = [audit_run(source, spec, root=root, domains=["heat"])["audit"] for _ in range(2)]
    return root, source, ids


def test_pages_link_to_their_siblings(audited: tuple[Path, Run, list[str]]) -> None:
    root, _, ids = audited
    again = compare_runs(open_run(ids[0], root), open_run(ids[1], root), root=root)
    assert "verdicts that both audits give are the same" in again["summary"]
    for page in (root / ids[0] / "audit.html", root / ids[0] / "report.html"):
        html = page.read_text()
        assert find_page_faults(html) == []
        assert f'href="../{again["comparison"]}/report.html"' in html
    links = re.findall(r'href="(\.\./[^"]+)"', Path(again["page"]).read_text())
    assert f"../{ids[0]}/audit.html" in links
    for link in links:
        assert (Path(again["page"]).parent / link).is_file()
    # The damage check still passes: pages are no part of what a run seals.
    assert open_run(ids[0], root).changed_files() == ()


def test_a_run_without_a_page_is_no_sibling(audited: tuple[Path, Run, list[str]]) -> None:
    root, source, ids = audited
    cards = list_cards(root)
    kin = find_siblings(read_card(source), cards)
    assert [card.id for card in kin if card.kind == "audit"] == [ids[-1]]
    own = next(card for card in cards if card.id == ids[0])
    assert source.id not in [card.id for card in find_siblings(own, cards)]


def test_the_commands_list_and_open(
    two: tuple[Run, Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    folder = ("--runs", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    assert call(Try("runs", folder), monkeypatch, tmp_path) == 0
    said = capsys.readouterr().out
    assert two[0].id in said
    assert "unreadable" in said
    assert max(map(len, said.splitlines())) <= max(80, len(str(tmp_path)) + 40)
    assert call(Try("runs", ("--json", *folder)), monkeypatch, tmp_path) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3
    assert call(Try("runs compare", (two[0].id, two[1].id, *folder)), monkeypatch, tmp_path) == 0
    page = Path(capsys.readouterr().out.split("Page: ")[1].strip())
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert call(Try("open", folder), monkeypatch, tmp_path) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert call(Try("open", (two[0].id, *folder)), monkeypatch, tmp_path) == 2
    assert "has no page" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="BROWSER is how Linux names one")
def test_the_browser_is_given_the_page(
    two: tuple[Run, Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import webbrowser

    page = compare_runs(*two, root=tmp_path)["page"]
    browser, heard = tmp_path / "browser", tmp_path / "heard"
    browser.write_text(f'#!/bin/sh\necho "$1" > {heard}\n')
    os.chmod(browser, 0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    assert call(Try("open", ("--runs", str(tmp_path))), monkeypatch, tmp_path) == 0
    assert heard.read_text().strip() == Path(page).as_uri()
    assert page in capsys.readouterr().out
