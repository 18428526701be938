"""The paper's text by section, read from its source where that lies beside the repository."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "paper"
COMMANDS = ("textbf", "textsc", "textit", "emph", "texttt", "text", "mathcal", "operatorname")
SYMBOLS = {
    r"\approx": "≈", r"\times": "×", r"\rho": "ρ", r"\alpha": "α", r"\%": "%", r"\$": "$",
    r"\_": "_", r"\ ": " ", "---": "—", "--": "–", "{,}": ",", "~": " ", "$-": "$−",
}  # fmt: skip
CAPTION = re.compile(r"\\caption\{((?:[^{}]|\{[^{}]*\})*)\}")


def source() -> str:
    """The paper's source, or nothing where it is not there."""
    return "".join(path.read_text() for path in sorted(FOLDER.glob("*.txt")))


def headings(text: str) -> dict[str, tuple[str, int]]:
    """Title and place of every numbered heading, appendices by letter."""
    found, section, sub, letter = {}, 0, 0, 0
    is_appendix = False
    for match in re.finditer(r"\\appendix|\\(sub)?section\{([^{}]*)\}", text):
        if match.group(0) == r"\appendix":
            is_appendix = True
        elif match.group(1) is None and is_appendix:
            letter += 1
            found["ABCDEF"[letter - 1]] = (" ".join(match.group(2).split()), match.start())
        elif match.group(1) is None:
            section, sub = section + 1, 0
            found[str(section)] = (" ".join(match.group(2).split()), match.start())
        else:
            sub += 1
            found[f"{section}.{sub}"] = (" ".join(match.group(2).split()), match.start())
    return found


def plain(latex: str) -> str:
    """Source as a reader sees it, as far as quotations need it."""
    text = re.sub(r"~?\s*\\cite[pt]?\{[^{}]*\}", "", latex)
    for command in COMMANDS:
        text = re.sub(rf"\\{command}\{{([^{{}}]*)\}}", r"\1", text)
    for mark, symbol in SYMBOLS.items():
        text = text.replace(mark, symbol)
    # What is left of mathematics: dollars around it, braces, spaces.
    text = re.sub(r"(?<!\\)\$([^$\n]{0,60}?)\$", r"\1", text.replace("$1.28M", "DOLLARS1.28M"))
    text = text.replace("DOLLARS", "$")
    return " ".join(text.replace("{", "").replace("}", "").replace("\\", "").split())


def sections(text: str) -> dict[str, str]:
    """Plain text of every section with its subsections, and of the abstract."""
    places = headings(text)
    order = sorted(places, key=lambda number: places[number][1])
    found = {}
    for index, number in enumerate(order):
        last = next(
            (other for other in order[index + 1 :] if not other.startswith(f"{number}.")), None
        )
        end = places[last][1] if last else len(text)
        found[number] = plain(text[places[number][1] : end])
    abstract = re.search(r"\\begin\{abstract\}(.*?)\\end\{abstract\}", text, re.S)
    found["Abstract"] = plain(abstract.group(1)) if abstract else ""
    for number, match in enumerate(CAPTION.finditer(text), 1):
        end = text.index(r"\end{table", match.start())
        found[f"Table {number}"] = plain(text[match.start() : end])
    return found


def cited(citation: str) -> list[str]:
    """Sections and tables that the source of a claim names, as keys of `sections`."""
    found = []
    for part in citation.split(";"):
        word = part.strip()
        table, appendix = re.match(r"Table \d", word), re.match(r"Appendix ([A-F])", word)
        number = re.match(r"\d+(\.\d+)?|[A-F]$|Abstract", word)
        match = table or number
        found.append(appendix.group(1) if appendix else match.group(0) if match else word)
    return found
