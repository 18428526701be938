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


def draw_points(points: Sequence[tuple[str, float, float]], title: str) -> Markup:
    """Named points in a square, with the least and most of both axes."""
    if not points:
        return Markup("")
    across, up = [one[1] for one in points], [one[2] for one in points]
    width, height, pad = 520.0, 300.0, 44.0

    def spot(value: float, values: Sequence[float], size: float) -> float:
        span = max(values) - min(values) or 1.0
        return round(pad + (value - min(values)) / span * (size - 2 * pad), 1)

    parts = [
        f'<path d="M{pad} {height - pad + 14}H{width - pad}M{pad - 14} {pad}V{height - pad}" '
        'class="axis"/>',
        f'<text x="{pad}" y="{height - 8}" class="label">{min(across):.3g}</text>',
        f'<text x="{width - pad}" y="{height - 8}" class="label">{max(across):.3g}</text>',
        f'<text x="0" y="{height - pad}" class="label">{min(up):.3g}</text>',
        f'<text x="0" y="{pad}" class="label">{max(up):.3g}</text>',
    ]
    for name, x, y in points:
        at, over = spot(x, across, width), round(height - spot(y, up, height), 1)
        parts.append(
            f'<circle cx="{at}" cy="{over}" r="5" class="mark"/>'
            f'<text x="{at + 8}" y="{over + 4}" class="label">{escape(name)}</text>'
        )
    return Markup(
        f'<svg class="bars" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


LINE_HEIGHT = 15.0
"""Between names at the ends of lines, so that none is written over another."""
Band = tuple[float, float, float]
"""Value, lower and upper end."""


def draw_shares(
    times: Sequence[str], groups: Mapping[str, Sequence[Band | None]], title: str
) -> Markup:
    """Shares over time with their intervals, a line a group; None: not told."""
    width, height, left, low = 720.0, 260.0, 44.0, 30.0
    step = (width - left - 120) / max(len(times) - 1, 1)

    def over(share: float) -> float:
        return round(10 + (1 - share) * (height - low - 10), 1)

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = over(share)
        parts.append(f'<path d="M{left} {y}H{width - 120}" class="grid"/>')
        parts.append(f'<text x="0" y="{y + 4}" class="label">{share:.0%}</text>')
    for at in range(0, len(times), max(len(times) // 6, 1)):
        x = round(left + at * step, 1)
        parts.append(
            f'<text x="{x}" y="{height - 8}" class="label centre">{escape(times[at])}</text>'
        )
    lines = []
    named: list[float] = []
    for number, (name, values) in enumerate(groups.items()):
        known = [(left + at * step, at, one) for at, one in enumerate(values) if one is not None]
        # What is not told is not drawn over.
        starts = [0, *(n for n in range(1, len(known)) if known[n][1] > known[n - 1][1] + 1)]
        for first, end in zip(starts, [*starts[1:], len(known)], strict=True):
            run = [(x, one) for x, _, one in known[first:end]]
            upper = " ".join(f"{x:.1f},{over(one[2])}" for x, one in run)
            lower = " ".join(f"{x:.1f},{over(one[1])}" for x, one in reversed(run))
            line = " ".join(f"{x:.1f},{over(one[0])}" for x, one in run)
            parts.append(f'<polygon points="{upper} {lower}" class="band-of group{number}"/>')
            lines.append(f'<polyline points="{line}" class="line-mark group{number}"/>')
        for x, _, one in known:
            lines.append(
                f'<path d="M{x:.1f} {over(one[2])}V{over(one[1])}" class="whisker group{number}"/>'
                f'<circle cx="{x:.1f}" cy="{over(one[0])}" r="3" class="dot group{number}"/>'
            )
        if known:
            x, _, one = known[-1]
            y = over(one[0]) + 4
            if any(abs(y - other) < LINE_HEIGHT for other in named):
                y = min(named) - LINE_HEIGHT if y <= min(named) else max(named) + LINE_HEIGHT
            named.append(y)
            lines.append(f'<text x="{x + 6:.1f}" y="{y:.1f}" class="label">{escape(name)}</text>')
    return Markup(
        f'<svg class="wide" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts + lines)}</svg>'
    )
