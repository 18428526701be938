"""Small pictures drawn on the server, as SVG without styles of its own: the page's CSS colours it.

Each has a title and a description, and the page has the same as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, radians

from markupsafe import Markup, escape

from parity311.desk.desk import TractPlace

WIDTH, HEIGHT = 260.0, 260.0
PAD = 10.0


def draw_place(places: Mapping[str, TractPlace], tract: str) -> Markup:
    """Where a tract lies among the city's."""
    here = places.get(tract)
    if here is None or len(places) < 2:
        return Markup("")
    across = [one.longitude for one in places.values()]
    up = [one.latitude for one in places.values()]
    squeeze = cos(radians(sum(up) / len(up)))
    size = max((max(across) - min(across)) * squeeze, max(up) - min(up)) or 1.0
    scale = (WIDTH - 2 * PAD) / size

    def spot(one: TractPlace) -> tuple[float, float]:
        x = PAD + (one.longitude - min(across)) * squeeze * scale
        return round(x, 1), round(HEIGHT - PAD - (one.latitude - min(up)) * scale, 1)

    dots = []
    for one in places.values():
        x, y = spot(one)
        dots.append(f'<circle cx="{x}" cy="{y}" r="2.2" class="tract"/>')
    x, y = spot(here)
    words = f"Tract {here.geoid}, {here.borough}, community board {here.board}"
    return Markup(
        f'<svg class="map" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-labelledby="map-title map-text"><title id="map-title">Where it is</title>'
        f'<desc id="map-text">{escape(words)}, among the {len(places)} tracts of the city.</desc>'
        f'{"".join(dots)}<circle cx="{x}" cy="{y}" r="7" class="here"/>'
        f'<circle cx="{x}" cy="{y}" r="2.5" class="here-centre"/></svg>'
    )


def draw_bars(rows: Sequence[tuple[str, float]], title: str, unit: str = "") -> Markup:
    """Bars side by side, one a row, longest to the edge."""
    most = max((value for _, value in rows), default=0.0) or 1.0
    height = 26 * len(rows) + 6
    parts = []
    for place, (name, value) in enumerate(rows):
        y, length = 6 + 26 * place, round(300 * value / most, 1)
        parts.append(
            f'<text x="0" y="{y + 13}" class="label">{escape(name)}</text>'
            f'<rect x="150" y="{y}" width="{max(length, 1)}" height="17" class="bar"/>'
            f'<text x="{156 + length}" y="{y + 13}" class="label">{value:g}{escape(unit)}</text>'
        )
    return Markup(
        f'<svg class="bars" viewBox="0 0 520 {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
