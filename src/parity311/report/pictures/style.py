"""Colours and type of the pictures, and the style sheet they share with the report page.

Series colours: hues after Okabe and Ito (2008), shifted in lightness so that any two stay apart for
normal sight and for simulated deuteranopia, protanopia and tritanopia (CIELAB distance at least 15,
Machado et al. 2009), and reach 3:1 against the paper (WCAG 2.1, 1.4.11); text reaches 4.5:1
(1.4.3).
"""

from __future__ import annotations

FONT_FAMILY = (
    '-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans",'
    '"Liberation Sans",sans-serif'
)
LABEL_SIZE = 13.0
TICK_SIZE = 12.0
"""Units; with NARROW_WIDTH and WIDE_WIDTH near one CSS pixel each, so never below about 11."""

WIDE_WIDTH = 720
NARROW_BELOW = 480
"""Charts narrower than this put labels above their rows and names into a legend."""

N_SERIES = 6
N_CLASSES = 5

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1d2227",
    "muted": "#56606b",
    "grid": "#e3e7eb",
    "axis": "#7b8690",
    "series": ("#1558b8", "#cc6a00", "#159483", "#7b1d80", "#7a6a30", "#2d333b"),
    "classes": ("#d3e5f2", "#9cc3de", "#5b98c4", "#2a6a9f", "#0b3d6b"),
    "signed": ("#a34a00", "#e8a35c", "#c9d1d8", "#7fb2dc", "#1558b8"),
    "outline": "#5f7486",
}
DARK = {
    "paper": "#15181c",
    "ink": "#e9ecef",
    "muted": "#a9b3bd",
    "grid": "#2c3238",
    "axis": "#7c8791",
    "series": ("#5c9dff", "#ff8142", "#4fe0b0", "#b083cf", "#f2cf4a", "#dbe4ee"),
    "classes": ("#23415c", "#2f6491", "#4a8fc7", "#86bde8", "#d3ebff"),
    "signed": ("#ff9a52", "#a8632b", "#4a535c", "#3a74a8", "#8ec4ff"),
    "outline": "#8fa3b5",
}


def _rules(colours: dict, root: str) -> str:
    rules = [
        f"{root} .paper{{fill:{colours['paper']}}}",
        f"{root} .ink{{fill:{colours['ink']}}}",
        f"{root} .muted{{fill:{colours['muted']}}}",
        f"{root} .halo{{stroke:{colours['paper']}}}",
        f"{root} .grid{{stroke:{colours['grid']}}}",
        f"{root} .axis,{root} .reference{{stroke:{colours['axis']}}}",
        f"{root} .stripe{{fill:{colours['grid']}}}",
        f"{root} .hollow{{fill:{colours['paper']}}}",
        f"{root} .gap,{root} .whisker-edge{{stroke:{colours['paper']}}}",
        f"{root} .whisker{{stroke:{colours['ink']}}}",
        f"{root} .m0{{stroke:{colours['outline']}}}",
    ]
    for i, colour in enumerate(colours["series"]):
        rules.append(f"{root} .f{i}{{fill:{colour}}}{root} .l{i}{{stroke:{colour}}}")
    for i, colour in enumerate(colours["classes"], start=1):
        rules.append(f"{root} .m{i}{{fill:{colour};stroke:{colours['outline']}}}")
    for i, colour in enumerate(colours["signed"], start=1):
        rules.append(f"{root} .c{i}{{fill:{colour};stroke:{colours['outline']}}}")
    return "".join(rules)


def picture_css(root: str = "svg.picture") -> str:
    """Return the style sheet of a picture, light and dark; the report page carries it once."""
    fixed = (
        f"{root}{{font-family:{FONT_FAMILY};font-variant-numeric:tabular-nums}}"
        f"{root} .bold{{font-weight:600}}"
        f"{root} .halo{{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}}"
        f"{root} .grid{{stroke-width:1px}}"
        f"{root} .axis{{stroke-width:1px}}"
        f"{root} .reference{{stroke-width:1.5px;stroke-dasharray:2 3}}"
        f"{root} .stripe{{opacity:.45}}"
        f"{root} .interval{{stroke-width:2px;stroke-linecap:round}}"
        f"{root} .curve{{fill:none;stroke-width:2px;stroke-linejoin:round;stroke-linecap:round}}"
        f"{root} .leader{{fill:none;stroke-width:1px;opacity:.6}}"
        f"{root} .outline{{stroke-width:1.8px}}"
        f"{root} .band{{opacity:.17}}"
        f"{root} .gap{{stroke-width:1.6px;fill:none}}"
        f"{root} .whisker{{fill:none;stroke-width:1.6px}}"
        f"{root} .whisker-edge{{fill:none;stroke-width:4px}}"
        f"{root} .hairline{{fill:none;stroke-width:1px;opacity:.7}}"
        f"{root} .cell{{stroke-width:.6px}}"
        f"{root} .m0{{fill:none;stroke-dasharray:2 1.5}}"
    )
    dark = _rules(DARK, root)
    # Paper is white: a printed picture takes the light colours whatever the screen shows.
    return (
        f"{fixed}{_rules(LIGHT, root)}@media screen and (prefers-color-scheme:dark){{{dark}}}"
        f"@media (forced-colors:active){{{_forced(root)}}}"
    )


def _forced(root: str) -> str:
    """Where the reader's system picks the colours: ink and paper, marks told apart by shape."""
    lines = ",".join(
        f"{root} .{name}" for name in ("axis", "reference", "whisker", "interval", "curve", "cell")
    )
    return (
        f"{root} text{{fill:CanvasText}}{root} .halo{{stroke:Canvas}}"
        f"{root} .paper,{root} .hollow{{fill:Canvas}}{lines}{{stroke:CanvasText}}"
    )
