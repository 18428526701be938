"""Keep how pages look: the first screen of each, on a phone and on a desk, light and dark.

    python -m docs.screenshots PAGE [PAGE ...]    e.g. runs/ID/report.html runs/ID/audit.html

Needs chromium and playwright, as the tests of the pages do.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "screens"
SIZES = {390: 844, 820: 1180, 1280: 900}
LARGEST = 150_000
"""Bytes that a kept picture may have."""


def take(page: Path) -> list[Path]:
    """Take the first screen of a page in every size and scheme."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                view = {"width": width, "height": height}
                tab = browser.new_page(viewport=view, color_scheme=scheme)  # type: ignore[arg-type]
                tab.goto(page.resolve().as_uri())
                path = KEPT / f"{page.stem}-{width}-{scheme}.png"
                tab.screenshot(path=path)
                tab.close()
                found.append(path)
        browser.close()
    return found


def main(pages: list[str]) -> int:
    """Take all pages; 2 where a picture is too large to be kept."""
    KEPT.mkdir(parents=True, exist_ok=True)
    taken = [path for page in pages for path in take(Path(page))]
    large = [path.name for path in taken if path.stat().st_size > LARGEST]
    for path in taken:
        print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size:,} bytes)")
    if large:
        print(f"error: larger than {LARGEST:,} bytes: {', '.join(large)}", file=sys.stderr)
    return 2 if large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
