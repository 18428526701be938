"""The paper's claims beside ours: the figures of `explanation/reproduction.md`.

    python -m docs.reproduction RUN   keep what a run of `parity311 reproduce` found

RUN is the folder of the run. Its claims, its manifest and its page go to
docs/results/reproduction-PRESET/.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
PRESETS = ("nyc", "small")
"""The fuller one first."""
KEPT = ("claims.json", "claims.csv", "run.json", "report.html", "programme.json")
NONE_YET = (
    "No run is kept yet: `parity311 reproduce`, then `python -m docs.reproduction runs/ID` and "
    "`make docs`."
)


AGAIN = (
    "The figures are those of run {earlier}, judged again by today's rules (`python -m "
    "docs.reproduction_again`); nothing was retrained, and what that run did not measure, or not "
    "soundly, is withdrawn until it is run again."
)


def keep(run: Path) -> Path:
    """Copy what a run found to docs/results, under its preset."""
    preset = json.loads((run / "run.json").read_text())["config"]["preset"]
    folder = RESULTS / f"reproduction-{preset}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(run / name, folder / name)
    return folder


def reproduction_block() -> str:
    """Every kept run: how many claims of which verdict, and each claim beside ours."""
    parts = [
        _of_preset(preset, RESULTS / f"reproduction-{preset}")
        for preset in PRESETS
        if (RESULTS / f"reproduction-{preset}" / "claims.json").exists()
    ]
    return "\n\n".join(parts) or NONE_YET


def _of_preset(preset: str, folder: Path) -> str:
    claims = json.loads((folder / "claims.json").read_text())
    manifest = json.loads((folder / "run.json").read_text())
    counted = Counter(claim["verdict"] for claim in claims)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counted.most_common())
    lines = [
        f"### Preset {preset}, seed {manifest['config']['seed']}",
        "",
        f"{len(claims)} claims: {verdicts}. Run {manifest['id']}; its page with every definition "
        f"and reason is [report.html](../results/{folder.name}/report.html), the same for a "
        f"spreadsheet [claims.csv](../results/{folder.name}/claims.csv).",
    ]
    earlier = manifest["config"].get("judged_again")
    if earlier:
        lines += ["", AGAIN.format(earlier=earlier)]
    for area in dict.fromkeys(claim["area"] for claim in claims):
        lines += ["", f"**{area}**", "", "| the paper says | published | ours | verdict |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [_row(claim) for claim in claims if claim["area"] == area]
    return "\n".join(lines)


def programme_block() -> str:
    """How each job of the fullest kept run differs from what the paper gives, one row an agent."""
    for preset in PRESETS:
        path = RESULTS / f"reproduction-{preset}" / "programme.json"
        if path.exists():
            jobs = json.loads(path.read_text())
            lines = ["| part | agent | differs from the paper |", "| --- | --- | --- |"]
            rows = dict.fromkeys((job["part"], job["agent"], job["differs"]) for job in jobs)
            return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
    return NONE_YET


def _row(claim: dict[str, Any]) -> str:
    verdict = claim["verdict"]
    if "withdrawn" in claim["reason"]:
        verdict += f": {claim['reason']}"
    cells = (claim["claim"], claim["published"], claim["ours"], verdict)
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(keep(Path(given)))
