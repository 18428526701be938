"""The desk in a real browser: no page has a violation axe can find; every role by keyboard alone.

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
from tests.unit.desk.staff import START, SmallDesk
from tests.unit.desk.test_more import frontier_run
from tests.unit.desk.test_rooms import release
from tests.unit.lifecycle.offices import busy_tables

from parity311.desk.intake import NewComplaint, take_in
from parity311.feeds.desk_export import import_desk_export
from parity311.pipelines.audit_table import template_text

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced colours": {"forced_colors": "active"},
    "320 px": {"viewport": {"width": 320, "height": 640}},
}
MOST_TABS = 80
"""Steps by which everything on a page is reached."""
PAGES = {
    "": ("/", "/login", "/status", "/choices", "/nowhere"),
    "intake": ("/queue", "/queue?status=decided", "/account", "/survey"),
    "supervisor": ("/office", "/choices"),
    "auditor": ("/audit", "/records"),
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
    small.desk.runs = frontier_run(folder / "runs")
    release(small, folder)
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
            if path == "/records":
                bring_a_table(page)
                found["/records/…"] = violations(page)
        context.close()
    assert {path: some for path, some in found.items() if some} == {}


def bring_a_table(page: Any) -> None:
    """Bring the example of a table as an export, and come to its page."""
    given = {"name": "ours.csv", "mimeType": "text/csv", "buffer": template_text().encode()}
    page.set_input_files("[name=complaints]", given)
    page.click("main button")
    page.wait_for_url("**/records/**")


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


class Keyboard:
    """A browser under the desk's own policy whose user has no mouse."""

    def __init__(self, browser: Any, base: str) -> None:
        self.base, self.context = base, browser.new_context()
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._note)

    def _note(self, one: Any) -> None:
        if one.type in ("error", "warning"):
            self.problems.append(one.text)

    def reach(self, selector: str) -> None:
        """Go on with the tabulator until this has the focus, which can be seen."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("(at) => document.activeElement.matches(at)", selector):
                width = self.page.evaluate(
                    "parseFloat(getComputedStyle(document.activeElement).outlineWidth)"
                )
                assert width >= 1, f"{selector} does not show that it has the focus"
                return
        raise AssertionError(f"{selector} cannot be reached by keyboard on {self.page.url}")

    def write(self, selector: str, words: str) -> None:
        """Go to a field and fill it in."""
        self.reach(selector)
        self.page.keyboard.type(words)

    def press(self, selector: str, until: str) -> None:
        """Go to a button or link, use it and wait for the page it leads to."""
        self.reach(selector)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(until)

    def log_in(self, small: SmallDesk, role: str) -> None:
        """Begin at the public page."""
        self.page.goto(self.base)
        self.press("a[href='/login']", "**/login")
        self.write("[name=name]", role)
        self.write("[name=password]", small.passwords[role])
        self.press("main button", lambda url: "/login" not in url)  # type: ignore[arg-type]

    def done(self) -> None:
        """Nothing was refused by the desk's own policy, and no script failed."""
        assert self.problems == []
        self.context.close()


def test_a_resident_gets_an_answer_by_keyboard(served: tuple[SmallDesk, str], browser: Any) -> None:
    small, base = served
    one = NewComplaint("mine-1", "heat", "HEAT", "B", START, "36005000001", flags={})
    with small.desk.database.writing() as session:
        (taken,) = take_in(session, small.desk.office("heat"), [one], START)
    user = Keyboard(browser, base)
    user.page.goto(base)
    user.press("nav a[href='/status']", "**/status")
    user.write("[name=tracking]", "mine-1")
    user.write("[name=code]", taken.check_code)
    user.reach("main button")
    user.page.keyboard.press("Enter")
    user.page.get_by_text("You told us about heat on March 1, 2024.").wait_for()
    user.reach("[name=language]")
    user.page.keyboard.press("ArrowDown")
    user.press("form.line button", "**language=**")
    assert user.page.get_attribute("html", "lang") != "en"
    user.done()


def test_a_supervisor_suspends_by_keyboard(served: tuple[SmallDesk, str], browser: Any) -> None:
    small, base = served
    user = Keyboard(browser, base)
    user.log_in(small, "supervisor")
    for said, is_in in (("suspended", False), ("resumed", True)):
        user.page.goto(f"{base}/office")
        user.write("[name=reason]", f"{said} to try it")
        user.press("form[action='/office/heat/act'] button", "**said=acted")
        assert (small.desk.registry.deciding("heat") is not None) == is_in
    user.press("nav a[href='/choices']", "**/choices")
    user.write("[name=who]", "Community Board 3")
    user.write("[name=reason]", "The gap matters more to us.")
    user.press("form[action='/choices'] button", "**said=chosen")
    assert small.log[-1].action == "choose"
    user.done()


def test_an_auditor_looks_by_keyboard(served: tuple[SmallDesk, str], browser: Any) -> None:
    """Runs and a table of one's own; a file is chosen in the system's window, not on the page."""
    small, base = served
    user = Keyboard(browser, base)
    user.log_in(small, "auditor")
    user.press("a[href$='/frontier']", "**/frontier")
    user.page.go_back()
    user.reach("[name=table]")
    given = {"name": "ours.csv", "mimeType": "text/csv", "buffer": template_text().encode()}
    user.page.set_input_files("[name=table]", given)
    user.reach("form[action='/audit/table'] button")
    user.page.keyboard.press("Enter")
    user.page.wait_for_url("**/audit/made/**", timeout=120_000)
    assert user.page.locator("h1").count()
    user.done()


def test_an_administrator_lets_people_and_systems_in_by_keyboard(
    served: tuple[SmallDesk, str], browser: Any
) -> None:
    small, base = served
    user = Keyboard(browser, base)
    user.log_in(small, "administrator")
    user.write("form.stack [name=name]", "new-clerk")
    user.write("form.stack [name=password]", "long enough now")
    user.press("form.stack button", "**said=account")
    small.passwords["new-clerk"] = "long enough now"
    assert small.browser("new-clerk").get("/queue").status_code == 200
    user.press("nav a[href='/keys']", "**/keys")
    user.write("[name=name]", "an app")
    user.reach("form[action='/keys'] button")
    user.page.keyboard.press("Enter")
    user.page.get_by_text("shown once").wait_for()
    assert "key" not in user.page.url.removesuffix("/keys")
    user.press("form[action='/keys/end'] button", "**said=account")
    user.reach("form[action='/logout'] button")
    user.page.keyboard.press("Enter")
    user.page.wait_for_url("**/login?said=logged_out")
    user.done()


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
