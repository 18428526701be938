"""The rooms of the documentation as the site shows them: what stands in which, in what order.

`mkdocs.yml` names this file as a hook. Every page of a room is in its menu without being listed;
those that a newcomer should meet first are named here.
It also puts the changelog into the release notes, where a copy would age.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOMS = {
    "tutorials": "Tutorials",
    "how-to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
}
FIRST = {
    "tutorials": ("first-run", "analyst", "auditor", "researcher"),
    "how-to": ("route-complaints", "audit-a-run", "bring-your-own-city"),
    "reference": ("command-line", "python", "domains", "environments", "metrics", "file-formats"),
    "explanation": ("under-reporting", "coverage-price", "price-of-parity", "audit"),
}
"""Pages that come first in a room, by file name; the others follow by title."""
CHANGELOG = "<!-- changelog -->"
"""Where the release notes have the changelog."""
LAST = (("Glossary", "glossary.md"), ("Release notes", "release-notes.md"))


def title_of(page: Path) -> str:
    """The first heading of a page."""
    lines = page.read_text().splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def arrange(docs: Path, pages: Iterable[str]) -> list[dict[str, Any]]:
    """The menu: a tab a room, its pages in order, then glossary and release notes."""
    found = [Path(page) for page in pages]
    menu: list[dict[str, Any]] = [{"Home": "index.md"}]
    for room, title in ROOMS.items():
        own = [page for page in found if page.parts[0] == room]
        own.sort(key=lambda page: (_place(room, page.stem), title_of(docs / page)))
        menu.append({title: [{title_of(docs / page): page.as_posix()} for page in own]})
    # Pages of results belong to no room; whoever reads the reference finds them.
    results = [page for page in found if page.parts[0] == "results"]
    menu[3]["Reference"] += [{title_of(docs / page): page.as_posix()} for page in results]
    menu[3]["Reference"] += [{title: page} for title, page in LAST if Path(page) in found]
    return menu


def _place(room: str, stem: str) -> int:
    first = FIRST[room]
    return first.index(stem) if stem in first else len(first)


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs once it has found the files: arrange the menu."""
    pages = [file.src_uri for file in files.documentation_pages()]
    config.nav = arrange(Path(config.docs_dir), pages)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for every page: put the changelog where it belongs."""
    del page, files
    if CHANGELOG not in markdown:
        return markdown
    return markdown.replace(CHANGELOG, lower_changelog(Path(config.docs_dir).parent))


def lower_changelog(root: Path) -> str:
    """The changelog's versions, a heading lower, with links as they are from docs/."""
    text = (root / "CHANGELOG.md").read_text()
    versions = text[text.index("\n## ") + 1 :]
    lowered = re.sub(r"^(##+ )", r"#\1", versions, flags=re.MULTILINE)
    return re.sub(r"\]\(docs/", "](", lowered)
