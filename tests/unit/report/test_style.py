"""Colours: contrast by the WCAG formula, distance under simulated colour blindness."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from parity311.report.pictures.style import DARK, LIGHT, picture_css

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
MIN_DISTANCE = 15.0


def to_linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(to_linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def to_lab(linear: np.ndarray) -> np.ndarray:
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = matrix @ np.clip(linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def smallest_distance(colours: tuple[str, ...]) -> float:
    return min(
        float(np.linalg.norm(to_lab(sight @ to_linear(a)) - to_lab(sight @ to_linear(b))))
        for sight in SIGHTS.values()
        for a, b in combinations(colours, 2)
    )


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_and_distance(theme: dict) -> None:
    for text in ("ink", "muted"):
        assert contrast(theme[text], theme["paper"]) >= 4.5
    for colour in (*theme["series"], theme["axis"], theme["outline"]):
        assert contrast(colour, theme["paper"]) >= 3
    assert smallest_distance(theme["series"]) >= MIN_DISTANCE
    lightness = [to_lab(to_linear(c))[0] for c in theme["classes"]]
    assert min(abs(np.diff(lightness))) >= 10
    assert len(set(np.sign(np.diff(lightness)))) == 1


def test_checks_reject_red_and_green_of_equal_lightness_and_pale_yellow() -> None:
    assert smallest_distance(("#c0504d", "#7f8b3a")) < MIN_DISTANCE
    assert contrast("#f0e442", LIGHT["paper"]) < 3


def test_dark_colours_stay_on_the_screen() -> None:
    css = picture_css()
    assert css.index(LIGHT["ink"]) < css.index("@media screen and (prefers-color-scheme:dark)")
    assert css.index(DARK["ink"]) > css.index("@media screen")
