"""README and docs say what the commands say: generated blocks are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import generate
from parity311.domains import all_domains

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", generate.FILES)
def test_generated_blocks_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert generate.fill(text) == text, f"{name} is out of date; run `make docs`"


def test_the_check_notices_a_number_written_by_hand() -> None:
    text = (ROOT / "README.md").read_text()
    start = text.index("<!-- generated: other-seeds -->") + len("<!-- generated: other-seeds -->\n")
    assert generate.fill(text[:start] + "recall 0.99\n" + text[start:]) != text[:start] + (
        "recall 0.99\n" + text[start:]
    )


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_every_domain_and_command_is_documented() -> None:
    cards = (ROOT / "docs" / "reference" / "domains.md").read_text()
    assert all(f"## {slug}:" in cards for slug in all_domains())
    commands = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for path in generate.command_paths():
        assert f"## parity311 {' '.join(path)}" in commands


def test_links_between_documents_lead_somewhere() -> None:
    import re

    for path in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]:
        prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", prose):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"
