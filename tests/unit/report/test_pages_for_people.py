"""Report and audit in a real browser: nothing clipped, nothing axe objects to; words at grade 9."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.readability import grade
from tests.unit.audit.audit_city import make_inputs
from tests.unit.explain.stored_run import make_episodes
from tests.unit.report.made_up_blocks import CURVE, EVEN, STEEP, STEEPER, make_block

from parity311.audit.cells import AuditInputs
from parity311.audit.spec import AuditSpec
from parity311.pipelines.audit import audit_run
from parity311.report.audit_inputs import store_inputs
from parity311.report.folder import open_run
from parity311.report.run_page import write_report
from parity311.report.store import start_run

SETTINGS = (("strong", "scarce"), ("measured", "calibrated"))
WIDTHS = (390, 820, 1280)
MOST_SCREENS = 8
FIRST_SCREEN = 900
HIGHEST_GRADE = 9.0
CLIPPED = """
() => {
  const bad = [];
  const wide = document.documentElement.clientWidth;
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('.skip, svg') || !element.checkVisibility()) continue;
    const box = element.getBoundingClientRect();
    if (!box.width) continue;
    const scrolled = element.closest('.scroll');
    if (!scrolled && box.right > wide + 1) bad.push([element.tagName, element.className, 'wide']);
    const style = getComputedStyle(element);
    const hides = ['hidden', 'clip'].includes(style.overflowX);
    if (hides && element.scrollWidth > element.clientWidth + 1)
      bad.push([element.tagName, element.className, 'clipped']);
  }
  for (const text of document.querySelectorAll('svg text')) {
    const svg = text.ownerSVGElement, frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const box = text.getBoundingClientRect();
    if (box.left < frame.left - 2 || box.right > frame.right + 2)
      bad.push(['text', text.textContent, 'outside its picture']);
  }
  return bad;
}
"""
"""What leaves the screen, its box or its picture, of everything that shows."""


def place_inputs(slope: float, setting: str) -> AuditInputs:
    inputs = make_inputs(1, n_months=6, n_tracts=120, slope=slope)
    position = np.random.default_rng(0).uniform((-74.1, 40.6), (-73.8, 40.9), (120, 2))
    places = replace(inputs.places, position=position, dwellings=np.full(120, 800.0))
    return replace(inputs, places=places, setting=setting)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with good, bad and no news in four settings, and the audit of the same run."""
    root = tmp_path_factory.mktemp("runs")
    news = ((STEEP, EVEN), (EVEN, EVEN), (STEEP, STEEPER), (STEEP, STEEP))
    pairs = [(domain, pair) for domain in ("heat", "housing") for pair in SETTINGS]
    blocks = [
        make_block(domain, participation=pair[0], capacity=pair[1], today=today, paid=paid)
        for (domain, pair), (today, paid) in zip(pairs, news, strict=True)
    ]
    inputs = [
        place_inputs(slope, f"{pair[0]} participation, {pair[1]} capacity")
        for slope, pair in zip((0.4, 0.0), SETTINGS, strict=True)
    ]
    episodes = [replace(make_episodes(0.3, "balanced"), setting=inputs[0].setting)]
    with start_run(root, "run", {}) as run:
        run.add_data("city", "ab" * 32, is_synthetic=True, statement="A synthetic city.")
        store_inputs(run, inputs, episodes)
        write_report(run, blocks, [CURVE] * 4, [*inputs, *inputs])
    audit = audit_run(open_run(run.id, root), AuditSpec(n_draws=200), root=root)
    return {"report": run.final_path / "report.html", "audit": Path(audit["page"])}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium, or a sentence that says what is missing."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("No chromium on this machine: `make programs` installs it for root on Debian.")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=60_000
        )
        try:
            yield started
        finally:
            started.close()


def look_at(browser: Any, page: Path, width: int, scheme: str = "light") -> Any:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    tab.goto(page.as_uri())
    return tab


@pytest.mark.parametrize("name", ["report", "audit"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_clipped(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    tab = look_at(browser, pages[name], width)
    try:
        assert tab.evaluate(CLIPPED) == []
        tall = tab.evaluate("document.documentElement.scrollHeight")
        if width == max(WIDTHS):
            assert tall <= MOST_SCREENS * 800
        # What stands behind headings fits as well.
        tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert tab.evaluate(CLIPPED) == []
        # The broken twin: a word that cannot be broken, in a box that cannot grow.
        tab.evaluate("document.querySelector('h1').style.cssText = 'max-width:none;width:2000px'")
        assert ["H1", "", "wide"] in tab.evaluate(CLIPPED)
    finally:
        tab.context.close()


LOWEST_CARD = """
() => Math.max(...[...document.querySelectorAll('.card')].map(
  (one) => one.getBoundingClientRect().bottom))
"""


@pytest.mark.parametrize("name", ["report", "audit"])
def test_every_verdict_stands_on_the_first_screen(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    """On a usual desk's screen nobody scrolls to read who is served, what changes, the price."""
    tab = look_at(browser, pages[name], max(WIDTHS))
    try:
        assert 0 < tab.evaluate(LOWEST_CARD) <= FIRST_SCREEN
        # The broken twin: a heading that takes the room.
        tab.evaluate("document.querySelector('h1').style.fontSize = '30rem'")
        assert tab.evaluate(LOWEST_CARD) > FIRST_SCREEN
    finally:
        tab.context.close()


@pytest.mark.parametrize("name", ["report", "audit"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = look_at(browser, pages[name], max(WIDTHS), scheme)
    try:
        assert said(axe.run(tab)) == []
        if scheme == "light":  # the broken twin
            tab.evaluate("document.documentElement.removeAttribute('lang')")
            assert said(axe.run(tab)) == ["html-has-lang"]
    finally:
        tab.context.close()


def said(found: Any) -> list[str]:
    return [violation["id"] for violation in found.response["violations"]]


def first_words(page: Path) -> str:
    """Lead, cards and answers as they are read."""
    report = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
    rows = [answer for card in report["cards"] for _, answer in card["rows"]]
    lines = [line for answer in report["answers"] for line in answer["lines"]]
    return "\n".join([*report["summary"], *rows, *lines])


@pytest.mark.parametrize("name", ["report", "audit"])
def test_first_screens_are_read_at_grade_nine(pages: dict[str, Path], name: str) -> None:
    assert grade(first_words(pages[name])) <= HIGHEST_GRADE


def test_the_grade_of_what_only_authors_read_is_higher() -> None:
    """The broken twin: how the report used to begin."""
    before = (
        "Complaints were corrected for under-reporting, policies were learned from what the agency "
        "can see, and scored in the city's last year under what really happened in it. Coverage is "
        "the share of actionable incidents, reported or not, that a visit found in time."
    )
    assert grade(before) > HIGHEST_GRADE
    assert grade("The cat sat on the mat. It was red.") < 2.0
