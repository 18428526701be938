"""A canvas that collects SVG elements, and the measuring of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from parity311.report.pictures.style import LABEL_SIZE, N_SERIES, picture_css

ID_PREFIX = "p311-"
"""Ids inside a picture; a page that embeds several replaces it by one of its own."""

LINE_HEIGHT = 1.25
"""Distance of two baselines as a multiple of the type size."""

_WIDTHS = {
    0.278: " !,./:;[]\\ftI|",
    0.222: "ijl'",
    0.333: "()-r`",
    0.5: "ckszvxyJ_·…",
    0.584: "+<=>×−~",
    0.61: "FTZ",
    0.667: "ABEKPSVXY&",
    0.722: "CDHNRUw",
    0.778: "GOQ",
    0.833: "mM",
    0.889: "%",
    0.944: "W@—",
}
"""Advance widths of Helvetica in em, from its public font metrics; letters not listed: 0.556."""
_EM_WIDTHS = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
WIDTH_SAFETY = 1.15
"""The reader's system font may be wider than Helvetica; DejaVu Sans, the widest usual, by 15 %."""
BOLD_FACTOR = 1.16

_MARKS = ("circle", "square", "triangle", "diamond", "cross", "ring")
_DASHES = ("", "7 4", "2 4", "9 3 2 3", "4 3", "12 4")


@dataclass(frozen=True)
class Look:
    """How a series looks: colour, mark and dash; the pairs differ for the first 36 series."""

    index: int

    @property
    def colour(self) -> int:
        """Index of the colour."""
        return self.index % N_SERIES

    @property
    def variant(self) -> int:
        """Index of mark, dash and hatch."""
        return (self.index + self.index // N_SERIES) % N_SERIES

    @property
    def dash(self) -> str:
        """Dash pattern of its lines; empty for a solid one."""
        return _DASHES[self.variant]


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Estimate the width of a text in units, on the safe side."""
    em = sum(_EM_WIDTHS.get(c, 0.556 if ord(c) < 0x2E80 else 1.0) for c in text)
    return em * size * WIDTH_SAFETY * (BOLD_FACTOR if is_bold else 1.0)


def wrap_text(text: str, size: float, max_width: float, *, is_bold: bool = False) -> list[str]:
    """Break a text into lines that fit; a word too long for a line is broken inside."""
    lines: list[str] = []
    current = ""
    for word in filter(None, text.split(" ")):  # no-break spaces hold
        candidate = f"{current} {word}" if current else word
        if text_width(candidate, size, is_bold=is_bold) <= max_width:
            current = candidate
            continue
        if current:
            lines.append(current)
        *full, current = _break_word(word, size, max_width, is_bold)
        lines += full
    return [*lines, current] if current or not lines else lines


def _break_word(word: str, size: float, max_width: float, is_bold: bool) -> list[str]:
    pieces: list[str] = []
    while text_width(word, size, is_bold=is_bold) > max_width and len(word) > 1:
        end = len(word) - 1
        while end > 1 and text_width(word[:end], size, is_bold=is_bold) > max_width:
            end -= 1
        # Break behind a joint where there is one: snake_case, paths, hyphens.
        joint = max((word.rfind(c, 1, end) for c in "_/-."), default=-1) + 1
        cut = joint if joint > end // 3 else end
        pieces.append(word[:cut])
        word = word[cut:]
    return [*pieces, word]


def number(value: float) -> str:
    """Write a coordinate with at most two decimals; an undefined one is a mistake of the chart."""
    if not math.isfinite(value):
        raise ValueError(f"coordinate {value!r} is not finite")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


class Canvas:
    """Collects the elements of one picture."""

    def __init__(self, width: float) -> None:
        self.width = float(width)
        self._parts: list[str] = []
        self._definitions: dict[str, str] = {}

    @property
    def parts(self) -> tuple[str, ...]:
        """What was drawn so far, to be put inside another element."""
        return tuple(self._parts)

    def element(self, tag: str, content: str = "", **attributes: str | float) -> None:
        """Add an element; a trailing underscore of a name is dropped, inner ones become hyphens."""
        self._parts.append(_element(tag, content, attributes))

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        anchor: str = "start",
        style: str = "ink",
        size: float = LABEL_SIZE,
    ) -> None:
        """Write one line; y is its baseline."""
        self.element(
            "text", escape(content), class_=style, x=x, y=y, font_size=size, text_anchor=anchor
        )

    def lines(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        *,
        anchor: str = "start",
        style: str = "ink",
        size: float = LABEL_SIZE,
    ) -> float:
        """Write lines below each other, the first baseline at y; return the last baseline."""
        for i, line in enumerate(lines):
            self.text(x, y + i * size * LINE_HEIGHT, line, anchor=anchor, style=style, size=size)
        return y + max(0, len(lines) - 1) * size * LINE_HEIGHT

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, dash: str = "") -> None:
        """Draw a straight line."""
        dashes = {"stroke_dasharray": dash} if dash else {}
        self.element("line", class_=style, x1=x1, y1=y1, x2=x2, y2=y2, **dashes)

    def path(self, d: str, style: str, dash: str = "") -> None:
        """Draw a path."""
        dashes = {"stroke_dasharray": dash} if dash else {}
        self.element("path", class_=style, d=d, **dashes)

    def rect(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """Draw a rectangle."""
        self.element("rect", class_=style, x=x, y=y, width=max(0.0, width), height=height)

    def mark(self, look: Look, x: float, y: float, radius: float = 5.0) -> None:
        """Draw the mark of a series."""
        style, shape = f"f{look.colour}", _MARKS[look.variant]
        if shape == "circle":
            self.element("circle", class_=style, cx=x, cy=y, r=radius)
        elif shape == "ring":
            ring = f"hollow l{look.colour} outline"
            self.element("circle", class_=ring, cx=x, cy=y, r=radius - 0.6)
        else:
            self.path(_mark_path(shape, x, y, radius), style)

    def hatched(self, look: Look, x: float, y: float, width: float, height: float) -> None:
        """Draw a bar in the colour and the hatch of a series."""
        self.rect(x, y, width, height, f"f{look.colour}")
        if look.variant:
            name = f"{ID_PREFIX}hatch-{look.variant}"
            self._definitions[name] = _hatch(name, look.variant)
            self.element(
                "rect", x=x, y=y, width=max(0.0, width), height=height, fill=f"url(#{name})"
            )

    def finish(self, height: float, title: str, description: str) -> str:
        """Return the whole document."""
        size = f"{number(self.width)} {number(height)}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {size}" '
            f'role="img" aria-labelledby="{ID_PREFIX}title {ID_PREFIX}desc">'
            f'<title id="{ID_PREFIX}title">{escape(title)}</title>'
            f'<desc id="{ID_PREFIX}desc">{escape(description)}</desc>'
            f"<style>{picture_css()}</style>"
        )
        definitions = "".join(self._definitions[name] for name in sorted(self._definitions))
        paper = _element("rect", "", {"class_": "paper", "width": self.width, "height": height})
        defs = f"<defs>{definitions}</defs>" if definitions else ""
        return "\n".join([head + defs, paper, *self._parts, "</svg>"]) + "\n"


def _element(tag: str, content: str, attributes: dict[str, str | float]) -> str:
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}="
        f"{quoteattr(value if isinstance(value, str) else number(value))}"
        for name, value in attributes.items()
        if (name, value) != ("text_anchor", "start")
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def _mark_path(shape: str, x: float, y: float, r: float) -> str:
    if shape == "square":
        corners = [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)]
    elif shape == "triangle":
        corners = [(0.0, -1.15), (1.08, 0.78), (-1.08, 0.78)]
    elif shape == "diamond":
        corners = [(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)]
    else:  # cross: a plus turned by an eighth
        a, b = 0.36, 1.15
        plus = [(a, a), (a, b), (-a, b), (-a, a), (-b, a), (-b, -a), (-a, -a), (-a, -b)]
        plus += [(a, -b), (a, -a), (b, -a), (b, a)]
        s = math.sqrt(0.5)
        corners = [(s * (u - v), s * (u + v)) for u, v in plus]
    points = " ".join(f"{number(x + r * u)} {number(y + r * v)}" for u, v in corners)
    return f"M{points}z"


def _hatch(name: str, variant: int) -> str:
    drawings = {
        1: '<path class="gap" d="M-2 2l4-4M0 8l8-8M6 10l4-4"/>',
        2: '<path class="paper" d="M1 1h2v2h-2zM5 5h2v2h-2z"/>',
        3: '<path class="gap" d="M0 4h8"/>',
        4: '<path class="gap" d="M0 0l8 8M0 8l8-8"/>',
        5: '<path class="gap" d="M4 0v8"/>',
    }
    return (
        f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f"{drawings[variant]}</pattern>"
    )
