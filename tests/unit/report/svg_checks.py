"""Checks that every picture must pass; each returns what is wrong, so that twins can be caught."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

from parity311.report.pictures.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float, str]


def find_structure_faults(svg: str) -> list[str]:
    """Not well-formed, no title or description, no role, no view box, fixed size."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        return [f"not well-formed: {error}"]
    faults = []
    for name in ("title", "desc"):
        element = root.find(f"{SVG}{name}")
        if element is None or not (element.text or "").strip():
            faults.append(f"no {name}")
    if root.get("role") != "img" or root.get("viewBox") is None:
        faults.append("no role or view box")
    if root.get("width") or root.get("height"):
        faults.append("fixed size")
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    if len(ids) != len(set(ids)):
        faults.append("an id occurs twice")
    for reference in re.findall(r"url\(#([^)]+)\)", svg):
        if reference not in ids:
            faults.append(f"no element {reference}")
    return faults


def find_undefined_coordinates(svg: str) -> list[str]:
    """Attributes of drawn elements that hold a NaN or an infinity."""
    root = ElementTree.fromstring(svg)
    return [
        f"{element.tag}.{name}={value}"
        for element in root.iter()
        for name, value in element.attrib.items()
        if name not in ("class", "id") and re.search(r"(?i)\b(nan|-?inf(inity)?)\b", value)
    ]


def text_boxes(svg: str) -> list[Box]:
    """Estimated boxes (left, top, right, bottom, text) of all drawn texts."""
    boxes: list[Box] = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        size = float(element.attrib["font-size"])
        content = element.text or ""
        width = text_width(content, size, is_bold="bold" in element.get("class", ""))
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        shift = {"start": 0.0, "middle": width / 2, "end": width}
        left = x - shift[element.get("text-anchor", "start")]
        boxes.append((left, y - 0.75 * size, left + width, y + 0.22 * size, content))
    return boxes


def find_cut_texts(svg: str) -> list[str]:
    """Texts that leave the view box."""
    view = ElementTree.fromstring(svg).attrib["viewBox"].split()
    width, height = float(view[2]), float(view[3])
    return [
        text
        for left, top, right, bottom, text in text_boxes(svg)
        if left < -0.5 or top < -0.5 or right > width + 0.5 or bottom > height + 0.5
    ]


def find_overlapping_texts(svg: str) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap by more than a hair."""
    return [
        (a[4], b[4])
        for a, b in combinations(text_boxes(svg), 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 0.5
    ]


def find_faults(svg: str) -> list[str]:
    """Everything that is wrong with a picture."""
    faults = find_structure_faults(svg)
    if faults:
        return faults
    faults += [f"undefined: {name}" for name in find_undefined_coordinates(svg)]
    faults += [f"cut off: {text!r}" for text in find_cut_texts(svg)]
    faults += [f"overlap: {pair}" for pair in find_overlapping_texts(svg)]
    return faults
