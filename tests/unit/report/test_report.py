"""The page: from the folder alone, same bytes, accessible, no outside loads."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.faults.limits import room_for

from parity311.errors import RunError
from parity311.report import glossary
from parity311.report.page import mark_words, name_anchors, render_report
from parity311.report.pictures import Axis, Estimate, Series, bar_chart
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter, start_run

VIEW = TableView(
    "policies",
    (
        Column("policy", "Policy"),
        Column("recall", "Recall", "share", "percent", lower="low", upper="high", reason="why"),
    ),
)


def make_report(view: TableView = VIEW) -> Report:
    picture = Picture("recall", "More is **better**.", 'Bars: a < b & "c"', view, "Recall")
    return Report(
        title="Who is served <now>",
        summary=("The learned policy finds **60 %**.", "Second `paragraph`."),
        sections=(
            Section(
                "Boilers",
                ("Finding.", "Detail."),
                (KeyFigure("Recall", 0.6, (0.5, 0.7), "of all", "percent", tone="good"),),
                (picture,),
                (view,),
                ("A limit.",),
            ),
            Section("Boilers", ("Same heading, other anchor.",), pictures=(picture,)),
        ),
        figures=(KeyFigure("Verdict", "PASS"), KeyFigure("Gap", None, note="not measured")),
        pictures=(picture,),
    )


def write_parts(run: RunWriter, *, is_synthetic: bool = True) -> None:
    run.add_data("Small city", "ab" * 32, is_synthetic=is_synthetic, statement="204 tracts.")
    run.add_table(
        "policies",
        [
            {"policy": "dqn", "recall": 0.6, "low": 0.5, "high": 0.7, "why": None},
            {"policy": "<rule>", "recall": None, "low": None, "high": None, "why": "not run"},
            *({"policy": f"p{i}", "recall": 0.1, "low": 0.0, "high": 0.2} for i in range(100)),
        ],
    )
    series = [Series(n, [Estimate("a", 0.5, 0.4, 0.6)]) for n in ("one", "two")]
    run.draw("recall", bar_chart, series, title="Recall", axis=Axis("Recall", "percent"))


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    with start_run(tmp_path / "runs", "parity311 run", {"preset": "<small>"}) as run:
        write_parts(run)
        run.set_seeds(city=7)
        with run.stage("train"):
            run.set_report(make_report())
    return run.final_path


class PageChecker(HTMLParser):
    """Collects what makes a page unsound."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input", "path", "rect", "circle", "line"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.headings: list[int] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            level = int(tag[1])
            if self.headings and level > self.headings[-1] + 1:
                self.faults.append(f"heading level jumps to {tag}")
            self.headings.append(level)
        for name, value in attrs:
            text = value or ""
            if name == "id":
                self.ids.append(text)
            elif name in ("aria-labelledby", "aria-describedby"):
                self.references += text.split()
            elif name in ("href", "src") and text.startswith("#"):
                self.references.append(text[1:])
            elif name in ("href", "src") and re.match(r"(?i)(https?:)?//|data:|javascript:", text):
                self.faults.append(f"outside load {text}")
            elif name.startswith("on") or name == "style":
                self.faults.append(f"{name} attribute")
            elif name != "xmlns" and "url(#" in text:
                self.references += re.findall(r"url\(#([^)]+)\)", text)
        if tag in ("script", "iframe", "link", "img"):
            self.faults.append(f"{tag} element")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"unbalanced {tag}")


def find_page_faults(html: str) -> list[str]:
    checker = PageChecker()
    checker.feed(html)
    checker.close()
    faults = [*checker.faults, *(f"open {tag}" for tag in checker.open)]
    faults += [f"id {i} twice" for i in set(checker.ids) if checker.ids.count(i) > 1]
    faults += [f"nothing has id {r}" for r in checker.references if r not in checker.ids]
    if checker.headings.count(1) != 1:
        faults.append("not exactly one h1")
    for needed in ("main", "nav", "footer", "title"):
        if needed not in checker.tags:
            faults.append(f"no {needed}")
    if not re.search(r'<html lang="\w+">', html):
        faults.append("no language")
    return faults


def test_page_is_sound(run_path: Path) -> None:
    assert find_page_faults((run_path / "report.html").read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('<html lang="en">', "<html>", "no language"),
        ("</main>", "", "unbalanced"),
        ("<h3>What", "<h5>What", "heading level"),
        ('id="main"', 'id="run"', "id run twice"),
        ('<a href="tables/policies.csv">', '<a href="https://example.org/x">', "outside load"),
        ("<footer", "<script>1</script><footer", "script element"),
    ],
)
def test_page_check_rejects_a_broken_twin(run_path: Path, old: str, new: str, fault: str) -> None:
    html = (run_path / "report.html").read_text()
    assert old in html
    assert any(fault in found for found in find_page_faults(html.replace(old, new)))


def test_rendered_again_gives_the_same_bytes(run_path: Path, tmp_path: Path) -> None:
    before = (run_path / "report.html").read_bytes()
    (run_path / "report.html").unlink()
    assert render_report(run_path).read_bytes() == before
    moved = tmp_path / "elsewhere" / run_path.name
    shutil.copytree(run_path, moved)
    assert render_report(moved).read_bytes() == before
    assert not list(run_path.glob(".report*"))


def test_full_disk_keeps_the_old_page(run_path: Path) -> None:
    before = (run_path / "report.html").read_bytes()
    with room_for(1000), pytest.raises(RunError, match="The disk is full"):
        render_report(run_path)
    assert (run_path / "report.html").read_bytes() == before
    assert not list(run_path.glob(".report*"))


def test_policy_allows_exactly_the_page_style(run_path: Path) -> None:
    html = (run_path / "report.html").read_text()
    (css,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1] or "default-src 'none'" in policy[1]
    assert f"sha256-{digest}" in policy[1]
    assert not re.search(r"@import|url\(", css)


def test_page_says_what_it_must(run_path: Path) -> None:
    html = (run_path / "report.html").read_text()
    assert "Synthetic city" in html
    assert html.index("Synthetic city") < html.index("<main")
    assert html.count("These figures as a table") == 3
    assert "not available: not run" in html
    assert "First 60 of 102 rows" in html
    assert "&lt;rule&gt;" in html
    assert "Who is served &lt;now&gt;" in html
    assert "<strong>60 %</strong>" in html
    assert "Bars: a &lt; b &amp; &#34;c&#34;" in html or 'Bars: a &lt; b &amp; "c"' in html
    assert run_path.name in html
    assert "&lt;small&gt;" in html
    assert html.index('id="boilers"') < html.index('id="boilers-2"')


def test_real_records_are_called_real(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", {}) as run:
        write_parts(run, is_synthetic=False)
        run.set_report(make_report())
    html = (run.final_path / "report.html").read_text()
    assert "Imported records" in html
    assert "Synthetic city" not in html


def test_report_must_name_stored_parts(tmp_path: Path) -> None:
    with start_run(tmp_path, "c", {}) as run:
        with pytest.raises(RunError, match="shows table 'policies', which was not stored"):
            run.set_report(make_report())
        write_parts(run)
        wrong = TableView("policies", (Column("recal", "Recall"),))
        with pytest.raises(RunError, match=r"column 'recal' of table 'policies'.*policy, recall"):
            run.set_report(make_report(wrong))


def test_broken_report_is_one_clear_error(run_path: Path) -> None:
    path = run_path / "report.json"
    plain = json.loads(path.read_text())
    plain["sections"][0]["pictures"][0]["captoin"] = "typo"
    path.write_text(json.dumps(plain))
    run_json = json.loads((run_path / "run.json").read_text())
    del run_json["files"]["report.json"], run_json["seal"]
    (run_path / "run.json").write_text(json.dumps(run_json))
    with pytest.raises(RunError, match=r"sections\.0\.pictures\.0\.captoin"):
        render_report(run_path)
    with pytest.raises(RunError, match="half-written"):
        render_report(run_path.parent / "nothing")


def test_words_carry_two_marks_only() -> None:
    assert mark_words("a **b** `c` <i>&") == "a <strong>b</strong> <code>c</code> &lt;i&gt;&amp;"


def test_anchors_are_distinct() -> None:
    assert name_anchors(["Run", "A b!", "A-b", "…"]) == ["run-2", "a-b", "a-b-2", "section"]


def test_words_that_pages_explain_are_in_the_glossary() -> None:
    table = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
    known = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    for word in glossary.WORDS:
        assert any(word in name for name in known), word


def test_words_link_once_and_never_inside_code() -> None:
    linked = str(glossary.link_words(mark_words("The gap, a gap and `gap`; today's rule")))
    assert linked.count('href="#word-gap"') == 1
    assert "<code>gap</code>" in linked
    assert 'href="#word-today-s-rule"' in linked
    assert list(glossary.used_words(["Gaps of coverage"])) == ["coverage", "gap"]
