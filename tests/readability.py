"""How hard a text is to read, as a school grade: no dictionary, so that it works offline."""

from __future__ import annotations

import re

_SENTENCE_END = re.compile(r"[.!?:;](?:\s|$)|\n")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\d.,]*")
_VOWELS = re.compile(r"[aeiouy]+")


def count_syllables(word: str) -> int:
    """Groups of vowels, less a silent e at the end; a number counts as one."""
    lowered = word.lower()
    groups = len(_VOWELS.findall(lowered))
    if lowered.endswith("e") and not lowered.endswith(("le", "ee")) and groups > 1:
        groups -= 1
    return max(groups, 1)


def grade(text: str) -> float:
    """The grade by Flesch and Kincaid (1975): .39 words a sentence + 11.8 syllables a word − 15.59.

    A colon or semicolon that ends a clause ends a sentence, as a full stop does.
    """
    sentences = [part for part in _SENTENCE_END.split(text) if _WORD.search(part)]
    words = _WORD.findall(text)
    if not words:
        return 0.0
    syllables = sum(count_syllables(word) for word in words)
    return 0.39 * len(words) / len(sentences) + 11.8 * syllables / len(words) - 15.59
