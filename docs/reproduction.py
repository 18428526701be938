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
PROGRAMMES = {"paper": "-paper", "ours": ""}
"""What the folder of a programme's run ends with, the paper's first."""
KEPT = ("claims.json", "claims.csv", "run.json", "report.html", "programme.json")
NONE_YET = (
    "No run is kept yet: `parity311 reproduce`, then `python -m docs.reproduction runs/ID` and "
    "`make docs`."
)
MARKS = {
    "holds": "holds",
    "does not hold": "**not**",
    "cannot be tested": "open",
    "contradicts itself": "contradicts",
    "follows from another": "follows",
}
"""Verdicts as short as a table of several runs needs them."""


AGAIN = (
    "the figures of run {earlier}, judged again by today's rules; what it did not measure, or not "
    "soundly, is withdrawn until it is run again"
)


def keep(run: Path) -> Path:
    """Copy what a run found to docs/results, under its preset and programme."""
    config = json.loads((run / "run.json").read_text())["config"]
    end = PROGRAMMES[config.get("programme", "ours")]
    folder = RESULTS / f"reproduction-{config['preset']}{end}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(run / name, folder / name)
    return folder


def kept_runs() -> dict[str, Path]:
    """Folders of kept runs by what a table calls them, the paper's programme first."""
    found = {
        f"{preset}, {'as published' if programme == 'paper' else 'ours'}": RESULTS
        / f"reproduction-{preset}{end}"
        for programme, end in PROGRAMMES.items()
        for preset in PRESETS
    }
    return {name: folder for name, folder in found.items() if (folder / "claims.json").exists()}


def reproduction_block() -> str:
    """Every kept run in a line, then every claim with its figure and the verdict of each run."""
    runs = kept_runs()
    if not runs:
        return NONE_YET
    claims = {name: _claims_of(folder) for name, folder in runs.items()}
    first = next(iter(runs))
    titles = ["the paper says", "published", first, *runs]
    lines = [*(_run_line(name, folder) for name, folder in runs.items()), ""]
    lines += ["| " + " | ".join(titles) + " |", "| " + " | ".join("---" for _ in titles) + " |"]
    area = ""
    for key, claim in claims[first].items():
        if claim["area"] != area:
            area = claim["area"]
            lines.append(f"| **{area}** |" + " |" * (len(titles) - 1))
        verdicts = [_mark(claims[name].get(key)) for name in runs]
        cells = (claim["claim"], claim["published"], claim["ours"], *verdicts)
        lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def _claims_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads((folder / "claims.json").read_text())}


def _mark(claim: dict[str, Any] | None) -> str:
    if claim is None:
        return "–"
    return "withdrawn" if "withdrawn" in claim["reason"] else MARKS[claim["verdict"]]


def _run_line(name: str, folder: Path) -> str:
    manifest = json.loads((folder / "run.json").read_text())
    counted = Counter(claim["verdict"] for claim in _claims_of(folder).values())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counted.most_common())
    earlier = manifest["config"].get("judged_again")
    again = f"; {AGAIN.format(earlier=earlier)}" if earlier else ""
    return (
        f"- **{name}** (seed {manifest['config']['seed']}): {verdicts}. "
        f"[Page with every reason](../results/{folder.name}/report.html), "
        f"[spreadsheet](../results/{folder.name}/claims.csv){again}."
    )


def programme_block() -> str:
    """How our jobs differ from what the paper gives, one row a domain."""
    for preset in PRESETS:
        path = RESULTS / f"reproduction-{preset}" / "programme.json"
        if path.exists():
            rows: dict[str, Counter[str]] = {}
            for job in json.loads(path.read_text()):
                found = rows.setdefault(_domain_of(job["part"]), Counter())
                found.update(str(job["differs"]).split("; "))
            lines = ["| domain | our jobs differ by (how many of them) |", "| --- | --- |"]
            for slug, found in rows.items():
                phrases = (f"{phrase} ({n})" for phrase, n in found.most_common())
                lines.append(f"| {slug} | {'; '.join(phrases)} |")
            return "\n".join(lines)
    return NONE_YET


def _domain_of(part: str) -> str:
    """The domain a part is a split of: boiler_random is one of boiler."""
    return next((end for end in ("boiler", "complaint_triage") if part.startswith(end)), part)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(keep(Path(given)))
