"""The words of the glossary that pages use, with what they mean; pages link to them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup

WORDS = {
    "coverage": "the share of problems found in time, out of all there were: reported or not",
    "gap": "the difference between the best and the worst served group, in points: 30 % against "
    "20 % is a gap of 10 points",
    "recall": "the share of the reported problems that were found in time",
    "today's rule": "the graver code first, then who called first",
    "incident": "something is wrong in a building or street, whether anybody called or not",
    "complaint": "one call about it; several may be about one problem",
    "case": "what the office made of a complaint and of the calls that repeat it",
    "actionable": "a visit would find a violation while the problem lasts",
    "quintile": "a fifth of the city: its areas sorted by income, with as many homes in each part",
    "tract": "an area of a few thousand people, as the Census draws it",
    "interval": "the range in which the true figure lies in 95 of 100 such studies",
    "price of equity": "what is no longer found because the gap is made smaller",
    "participation": "how readily people call when something is wrong",
    "capacity": "how many visits there are for the calls",
}
"""Words that docs/glossary.md defines for everybody, said here for who reads a page."""
_ANY = "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True))
_WORD = re.compile(rf"(?<![\w#-])(?P<word>{_ANY})s?(?![\w-])", re.IGNORECASE)
_TAGS = re.compile(r"(<[^>]*>)")


def word_anchor(word: str) -> str:
    """Where the page explains a word."""
    return "word-" + re.sub(r"[^a-z]+", "-", word.lower()).strip("-")


def link_words(marked: Markup) -> Markup:
    """Link the first use of each word in a piece of text to its meaning; code stays as it is."""
    seen: set[str] = set()

    def link(match: re.Match[str]) -> str:
        word = match["word"].lower().replace("&#39;", "'")
        if word in seen:
            return match[0]
        seen.add(word)
        return f'<a class="word" href="#{word_anchor(word)}">{match[0]}</a>'

    parts, inside_code = [], False
    for part in _TAGS.split(str(marked)):
        if part.startswith("<"):
            inside_code = part == "<code>" or (inside_code and part != "</code>")
            parts.append(part)
        else:
            parts.append(part if inside_code else _WORD.sub(link, part))
    return Markup("".join(parts))


def used_words(texts: Iterable[str]) -> dict[str, str]:
    """The words that occur in these texts, with their meaning, in the glossary's order."""
    found = {match["word"].lower() for text in texts for match in _WORD.finditer(text)}
    return {word: meaning for word, meaning in WORDS.items() if word in found}
