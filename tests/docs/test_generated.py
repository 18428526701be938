"""README and docs say what the commands say: generated blocks are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.readability import grade

from docs import generate, readme_figures
from parity311.domains import all_domains

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", generate.FILES)
def test_generated_blocks_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert generate.fill(text) == text, f"{name} is out of date; run `make docs`"


def test_the_check_notices_a_number_written_by_hand() -> None:
    text = (ROOT / "README.md").read_text()
    mark = "<!-- generated: came-out -->\n"
    start = text.index(mark) + len(mark)
    by_hand = text[:start] + "recall 0.99\n" + text[start:]
    assert generate.fill(by_hand) != by_hand


def test_the_picture_of_the_readme_is_what_the_command_draws() -> None:
    assert readme_figures.PICTURE.read_text(encoding="utf-8") == readme_figures.draw()


def test_the_first_screen_of_the_readme_says_what_for_whom_and_what_not() -> None:
    """In plain words, above the two commands: what it does, what came out, for whom, not for."""
    text = (ROOT / "README.md").read_text()
    first = text[: text.index("## Two commands")]
    assert len(first.splitlines()) <= 40
    for wanted in ("today's rule", "**For**", "**Not for**", ".svg", "points"):
        assert wanted in first
    assert not re.search(r"\bbalanced\b", text, re.IGNORECASE)
    prose = re.sub(r"^\|.*$|<!--.*?-->|!\[.*?\)|[*`]|\]\(.*?\)", "", first, flags=re.MULTILINE)
    assert grade(prose) <= 9.0


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_every_domain_and_command_is_documented() -> None:
    cards = (ROOT / "docs" / "reference" / "domains.md").read_text()
    assert all(f"## {slug}:" in cards for slug in all_domains())
    commands = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for path in generate.command_paths():
        assert f"## parity311 {' '.join(path)}" in commands


def test_links_between_documents_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]:
        prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", prose):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"
