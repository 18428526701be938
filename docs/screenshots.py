"""Keep how pages look: the first screen of each, on a phone, a tablet and a desk, light and dark.

    python -m docs.screenshots [NAME=]PAGE ...    e.g. runs/ID/report.html docs=site/index.html

Needs chromium and playwright, as the tests of the pages do. Pictures keep their most frequent
colours, which text and charts hardly need more than: a third of the bytes.
"""

from __future__ import annotations

import base64
import shutil
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "screens"
SIZES = {390: 844, 820: 1180, 1280: 900}
LARGEST = 100_000
"""Bytes that a kept picture may have; all of them together stay under two million."""
FEWER_COLOURS = """
async (picture) => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + picture;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const drawing = canvas.getContext('2d');
  drawing.drawImage(image, 0, 0);
  const seen = new Uint32Array(drawing.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const one of seen) counts.set(one, (counts.get(one) || 0) + 1);
  const kept = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([one]) => one);
  const parts = (one) => [one & 255, one >> 8 & 255, one >> 16 & 255];
  const places = new Map(kept.map((one, place) => [one, place]));
  const nearest = (one) => {
    const mine = parts(one);
    const from = (other) => parts(other).reduce((sum, v, i) => sum + (v - mine[i]) ** 2, 0);
    const far = kept.map(from);
    return far.indexOf(Math.min(...far));
  };
  for (const one of counts.keys()) if (!places.has(one)) places.set(one, nearest(one));
  let pixels = '';
  for (const one of seen) pixels += String.fromCharCode(places.get(one));
  return {size: [image.width, image.height], palette: kept.flatMap(parts), pixels: btoa(pixels)};
}
"""
"""A picture as places in a palette of its 256 most frequent colours; others go to the nearest."""


def take(page: Path, name: str) -> list[Path]:
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
                seen = base64.b64encode(tab.screenshot(animations="disabled")).decode()
                tab.close()
                # In a page without a policy of its own, or the picture could not be loaded.
                drawing = browser.new_page()
                path = KEPT / f"{name}-{width}-{scheme}.png"
                path.write_bytes(as_png(drawing.evaluate(FEWER_COLOURS, seen)))
                drawing.close()
                found.append(path)
        browser.close()
    return found


def as_png(picture: dict[str, Any]) -> bytes:
    """A picture of a palette and places in it, as a PNG."""
    width, height = picture["size"]
    pixels = base64.b64decode(picture["pixels"])
    # Every row begins with the filter it was written with: none.
    rows = b"".join(b"\0" + pixels[width * row : width * (row + 1)] for row in range(height))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(picture["palette"])),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main(pages: list[str]) -> int:
    """Take all pages; 2 where a picture is too large to be kept."""
    KEPT.mkdir(parents=True, exist_ok=True)
    taken = []
    for page in pages:
        name, _, path = page.rpartition("=")
        taken += take(Path(path), name or Path(path).stem)
    large = [path.name for path in taken if path.stat().st_size > LARGEST]
    for path in taken:
        print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size:,} bytes)")
    if large:
        print(f"error: larger than {LARGEST:,} bytes: {', '.join(large)}", file=sys.stderr)
    return 2 if large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
