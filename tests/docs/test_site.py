"""The documentation as a site: it builds strictly, loads nothing from elsewhere, has every page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs.rooms import arrange, lower_changelog

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
LOADS = {
    "audio": "src", "embed": "src", "iframe": "src", "image": "href", "img": "src",
    "input": "src", "object": "data", "script": "src", "source": "src", "use": "href",
    "video": "src",
}  # fmt: skip
"""Elements that load what an attribute names; `link` does so by its relation."""
LOADING_LINKS = {"icon", "modulepreload", "preconnect", "prefetch", "preload", "stylesheet"}
ELSEWHERE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
MOST_LINES = 150
LONG_PAGES = {"reproduction.md"}
"""Explanations that may still be longer; taken off this list when they are rewritten."""


class _Loads(HTMLParser):
    """What a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        relations = set(given.get("rel", "").lower().split())
        if tag == "link" and relations & LOADING_LINKS:
            self.found.append(given.get("href", ""))
        elif tag in LOADS:
            self.found += [given.get(LOADS[tag], ""), given.get("srcset", "")]
        self.found += styled(given.get("style", ""))


def styled(css: str) -> list[str]:
    """Addresses that a style sheet loads."""
    found = re.findall(r"url\(\s*['\"]?([^'\")]+)", css)
    return found + re.findall(r"@import\s+['\"]([^'\"]+)", css)


def loads_from_elsewhere(text: str, is_style: bool = False) -> list[str]:
    """What a page or style sheet loads from another host."""
    if is_style:
        loaded = styled(text)
    else:
        parser = _Loads()
        parser.feed(text)
        inline = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)
        loaded = parser.found + [one for css in inline for one in styled(css)]
    return [one for one in loaded if ELSEWHERE.match(one)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 30
    assert styles
    for path in pages:
        assert not loads_from_elsewhere(path.read_text()), path
        # The theme fetches a drawing library where a page has a drawing of that kind.
        assert 'class="mermaid"' not in path.read_text()
    for path in styles:
        assert not loads_from_elsewhere(path.read_text(), is_style=True), path


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link href="https://fonts.example" rel="preconnect">',
        '<img src="http://example/x.png">',
        '<p style="background: url(https://example/x.png)">',
        "<style>@import 'https://example/x.css';</style>",
    ],
)
def test_a_load_from_elsewhere_is_noticed(text: str) -> None:
    assert loads_from_elsewhere(text)
    assert not loads_from_elsewhere('<a href="https://example">x</a><img src="assets/x.svg">')


def test_every_page_is_in_the_menu_and_the_search(site: Path) -> None:
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    menu = str(arrange(docs, pages))
    index = (site / "search" / "search_index.json").read_text()
    for page in pages:
        assert page in menu, page
        assert f'"{page.removesuffix(".md")}.html' in index, page
    assert "parity311/leaderboard" not in menu


def test_the_front_page_has_three_doors_light_and_dark(site: Path) -> None:
    front = (site / "index.html").read_text()
    for door in ("analyst", "auditor", "researcher"):
        assert f'href="tutorials/{door}.html"' in front
    assert 'data-md-color-scheme="slate"' in front
    assert 'data-md-color-scheme="default"' in front
    assert "cuts the gap from" in front
    assert (site / "what-came-out.svg").is_file()


class _Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site as a server shows it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def test_the_site_in_a_real_browser(address: str) -> None:
    """Nothing from elsewhere, nothing beyond the screen, nothing axe objects to."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("No chromium on this machine: `make programs` installs it for root on Debian.")
    playwright = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    asked: list[str] = []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            for width, scheme in ((390, "dark"), (1280, "light")):
                size = {"width": width, "height": 900}
                tab = browser.new_context(viewport=size, color_scheme=scheme).new_page()
                tab.set_default_timeout(60_000)
                tab.on("request", lambda request: asked.append(request.url))
                for page in ("index.html", "tutorials/analyst.html", "explanation/audit.html"):
                    tab.goto(address + page)
                    tab.wait_for_timeout(500)
                    assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
                    found = axe.run(tab).response["violations"]
                    told = [(one["id"], one["nodes"][0]["html"][:120]) for one in found]
                    assert not told, (page, width, scheme)
        finally:
            browser.close()
    assert len(asked) > 10
    assert {url for url in asked if not url.startswith((address, "blob:", "data:"))} == set()


def test_the_release_notes_have_the_changelog(site: Path) -> None:
    page = (site / "release-notes.html").read_text()
    assert "After" in page or "Unreleased" in page
    assert "### [Unreleased]" in lower_changelog(ROOT)
    assert "](docs/" not in lower_changelog(ROOT)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/explanation").glob("*.md")), ids=lambda p: p.name
)
def test_an_explanation_can_be_read(path: Path) -> None:
    """Short, with a question at its top; what is tabled beyond a screen is folded away."""
    assert len(path.read_text().splitlines()) <= MOST_LINES or path.name in LONG_PAGES
