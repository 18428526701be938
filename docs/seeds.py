"""The register of city seeds: which were looked at, for what, and which are still fresh.

`docs/seeds.toml` is the register; `python -m docs.generate` writes its page.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REGISTER = Path(__file__).resolve().parent / "seeds.toml"
STATUS = {
    "reserved": "reserved",
    "tuning": "for tuning",
    "looked_at": "looked at once",
    "reused": "looked at more than once",
}


def read_register(path: Path = REGISTER) -> list[dict[str, str]]:
    """Entries of the register, in its order."""
    return tomllib.loads(path.read_text())["seeds"]


def registered_seeds(path: Path = REGISTER) -> set[int]:
    """Every seed that somebody has looked at: no figure of ours may rest on a reserved one."""
    found: set[int] = set()
    for entry in [one for one in read_register(path) if one["status"] != "reserved"]:
        for first, last in re.findall(r"(\d+)(?:–(\d+))?", entry["cities"]):
            found.update(range(int(first), int(last or first) + 1))
    return found


def seeds_table() -> str:
    """The register as a table."""
    lines = ["| cities | status | used for |", "| --- | --- | --- |"]
    for entry in read_register():
        lines.append(f"| {entry['cities']} | {STATUS[entry['status']]} | {entry['used_for']} |")
    return "\n".join(lines)
