"""The desk in a real browser: no page has a violation axe can find; a case by keyboard alone.

Chromium is the system's (`make programs` installs it where it may); without one these tests skip.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.desk_day import (
    audit_of,
    differences,
    log_in,
    open_last_days,
    serving,
    work_days,
)
from tests.conftest import write_folder
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import SmallDesk
from tests.unit.lifecycle.offices import busy_tables

from parity311.feeds.desk_export import import_desk_export

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced colours": {"forced_colors": "active"},
    "320 px": {"viewport": {"width": 320, "height": 640}},
}
PAGES = {
    "": ("/", "/login", "/status", "/choices", "/nowhere"),
    "intake": ("/queue", "/queue?status=decided", "/account", "/survey"),
    "supervisor": ("/office",),
    "auditor": ("/audit",),
    "administrator": ("/accounts", "/keys", "/partners"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallDesk, str]]:
    """A desk at a real address."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    folder = tmp_path_factory.mktemp("browser")
    records = write_folder(folder / "records", busy_tables())
    small = open_small(records, folder / "desk", str(folder / "desk.db"))
    with serving(small) as base:
        yield small, base


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def violations(page: Any) -> list[str]:
    """What axe finds, and whether the page is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    found = [f"{one['id']}: {one['nodes'][0]['html'][:90]}" for one in
             Axe().run(page).response["violations"]]  # fmt: skip
    wide = page.evaluate("document.body.scrollWidth > document.documentElement.clientWidth")
    return [*found, *(["it is wider than the screen"] if wide else [])]


@pytest.mark.parametrize("look", LOOKS)
def test_no_page_has_a_violation(served: tuple[SmallDesk, str], browser: Any, look: str) -> None:
    small, base = served
    found = {}
    for role, paths in PAGES.items():
        # Axe itself is put into the page, which the desk's policy would refuse.
        context = browser.new_context(bypass_csp=True, **LOOKS[look])
        page = context.new_page()
        if role:
            log_in(page, base, small, role)
        for path in paths:
            page.goto(base + path)
            found[path] = violations(page)
            if path == "/queue":
                page.click("tbody a")
                page.wait_for_load_state()
                found["/case"] = violations(page)
        context.close()
    assert {path: some for path, some in found.items() if some} == {}


def test_a_violation_is_noticed(served: tuple[SmallDesk, str], browser: Any) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(f"{served[1]}/login")
    page.evaluate(
        "document.querySelectorAll('label').forEach((one) => one.replaceWith(...one.childNodes))"
    )
    assert any("label" in one for one in violations(page))
    context.close()


def test_a_case_is_decided_by_keyboard_alone(served: tuple[SmallDesk, str], browser: Any) -> None:
    """Under the desk's own policy: log in, move, accept, take back, open, decide otherwise."""
    small, base = served
    context = browser.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
    page.goto(f"{base}/login")
    page.focus("[name=name]")
    page.keyboard.type("intake")
    page.keyboard.press("Tab")
    page.keyboard.type(small.passwords["intake"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/queue")
    before = len(small.log)
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.locator("#status", has_text="Accepted").wait_for()
    assert len(small.log) == before + 1
    page.keyboard.press("u")
    page.locator("#status", has_text="Taken back").wait_for()
    assert small.log[-1].action == "undo"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case/**")
    page.keyboard.press("o")
    assert page.evaluate("document.activeElement.id") == "other-action"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("seen on the street")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**said=overridden")
    assert small.log[-1].action == "override"
    assert problems == []
    assert small.problems == []
    context.close()


def test_days_worked_in_the_browser_leave_the_citys_own_audit(
    served: tuple[SmallDesk, str], browser: Any, tmp_path: Path
) -> None:
    """A few cases; `python -m tests.browser.desk_day CITY` works a whole day of a city."""
    records = served[0].desk.folder.parent / "records"
    small = open_last_days(records, tmp_path, 20)
    work_days(small, browser, tmp_path / "desk.zip", 20, every_hours=48)
    acts = [one.action for one in small.log]
    assert {"accept", "override"} <= set(acts)
    assert small.problems == []
    import_desk_export(records, tmp_path / "desk.zip", tmp_path / "after")
    found = [audit_of(one, tmp_path / "runs") for one in (records, tmp_path / "after")]
    assert differences(*found) == []
    # What differs is noticed.
    assert differences({"a": [1.0, None]}, {"a": [1.5, None]}) == [".a.0: 1.0 and 1.5"]
