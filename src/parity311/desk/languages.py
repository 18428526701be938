"""Languages of what residents read: English is the source, others are catalogues beside this file.

A catalogue that nobody who speaks the language has reviewed is marked as machine-made, and so is
every page that uses it.
"""

from __future__ import annotations

import gettext
import io
from collections.abc import Callable
from functools import cache
from importlib import resources

from fastapi import Request

from parity311.explain.phrases import LANGUAGES, compile_catalogue, translation

ENGLISH = "en"
REVIEWED = frozenset({ENGLISH})
"""Languages that a speaker has looked through."""
RIGHT_TO_LEFT = frozenset({"ar", "fa", "he", "ur", "yi"})
Say = Callable[[str], str]


@cache
def speak(language: str) -> Say:
    """What turns a text into a language: the desk's catalogue, then that of the reasons."""
    if language == ENGLISH:
        return str
    text = resources.files("parity311.desk").joinpath(f"locale/{language}.po").read_text("utf-8")
    own = gettext.GNUTranslations(io.BytesIO(compile_catalogue(text)))
    own.add_fallback(translation(language))
    return own.gettext


def language_of(request: Request) -> str:
    """What a reader asked for: on the page, or by their browser; English else."""
    asked = request.query_params.get("language", "")
    if asked in LANGUAGES:
        return asked
    for part in request.headers.get("accept-language", "").split(","):
        language = part.split(";")[0].strip().split("-")[0].lower()
        if language in LANGUAGES:
            return language
    return ENGLISH


def direction(language: str) -> str:
    """Which way a language runs."""
    return "rtl" if language.split("-")[0] in RIGHT_TO_LEFT else "ltr"
