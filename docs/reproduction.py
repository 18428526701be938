"""The paper's claims beside ours: the figures of `explanation/reproduction.md`.

    python -m docs.reproduction RUN   keep what a run of `parity311 reproduce` found

    python -m docs.reproduction --rates LOG ...    keep how fast jobs trained, by processor time

RUN is the folder of the run, or an archive of it from `docs.reproduce_there`. Its claims, its
manifest and its page go to docs/results/reproduction-PRESET/, with -paper for that programme.
A LOG is what `parity311.studies.reproduction.train_stage FOLDER --workers 1` told: one line a job.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parity311.report.store import describe_device
from parity311.storage.strict_json import write_json
from parity311.studies.reproduction.jobs import make_jobs
from parity311.studies.reproduction.programme import CHOICE_TITLES, CHOICES, OURS, PAPER
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX
from parity311.studies.reproduction.reproduce import set_beside, write_csv

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
PRESETS = ("nyc", "small")
"""The fuller one first."""
PROGRAMMES = {"paper": "-paper", "ours": ""}
"""What the folder of a programme's run ends with, the paper's first."""
KEPT = ("claims.json", "claims.csv", "run.json", "report.html", "programme.json", "prices.json")
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


AGAIN = "the figures of run {earlier}, judged again by today's rules"


def keep(run: Path) -> Path:
    """Copy what a run found to docs/results, under its preset and programme."""
    config = json.loads((run / "run.json").read_text())["config"]
    end = PROGRAMMES[config.get("programme", "ours")]
    folder = RESULTS / f"reproduction-{config['preset']}{end}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        (folder / name).unlink(missing_ok=True)
        # A run that was judged again followed no price.
        if (run / name).exists():
            shutil.copyfile(run / name, folder / name)
    return folder


def set_kept_beside(preset: str) -> bool:
    """Give each kept claim of a preset the other programme's figure, verdict and what differs."""
    folders = {name: RESULTS / f"reproduction-{preset}{end}" for name, end in PROGRAMMES.items()}
    if not all((folder / "programme.json").exists() for folder in folders.values()):
        return False
    read = {
        name: {
            "programme": name, "claims": list(_claims_of(folder).values()),
            "jobs": json.loads((folder / "programme.json").read_text()),
        }
        for name, folder in folders.items()
    }  # fmt: skip
    for name, other in (("paper", "ours"), ("ours", "paper")):
        rows = set_beside(read[name]["claims"], read[other], read[name]["jobs"])
        write_json(folders[name] / "claims.json", rows)
        plain = [{**row, "interval": row.get("interval")} for row in rows]
        write_csv(folders[name] / "claims.csv", plain)
    return True


def keep_archive(archive: Path) -> Path:
    """Keep what `docs.reproduce_there` packed on another machine; other files are refused."""
    with tempfile.TemporaryDirectory() as place, tarfile.open(archive) as packed:
        odd = sorted(set(packed.getnames()) - set(KEPT))
        if odd:
            raise SystemExit(f"{archive} holds {odd[0]}, which is no part of a kept run.")
        packed.extractall(place, filter="data")
        return keep(Path(place))


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
    """Every kept run in a line, then every claim once, by what the paper's programme says of it."""
    runs = kept_runs()
    if not runs:
        return NONE_YET
    claims = {name: _claims_of(folder) for name, folder in runs.items()}
    lines = [*(_run_line(name, folder) for name, folder in runs.items()), ""]
    rows = [{name: claims[name].get(key) for name in runs} for key in next(iter(claims.values()))]
    for title, verdicts in PARTS.items():
        own = [row for row in rows if _first_told(row)["verdict"] in verdicts]
        lines += _part_lines(title, [row for row in own if not _agrees(row)], list(runs))
        agreeing = [_first_told(row)["claim"] for row in own if _agrees(row)]
        if agreeing:
            lines += [f"The paper's own figures agree in these places: {'; '.join(agreeing)}.", ""]
    return "\n".join(lines).rstrip()


PARTS = {
    "What holds": ("holds",),
    "What does not hold": ("does not hold",),
    "What cannot be said": ("cannot be tested",),
    "What the paper asks, or says of other domains": ("not claimed",),
    "Where the paper contradicts itself": ("contradicts itself", "follows from another"),
}
"""Headings, and the verdicts below each."""
Beside = dict[str, dict[str, Any] | None]
"""One claim in every run."""


def _told(row: dict[str, Any] | None) -> bool:
    """Whether a run took a claim up at all."""
    return row is not None and not any(words in row["reason"] for words in LEFT_OUT)


LEFT_OUT = ("left out of this run", "in the time there was")
"""Reasons by which a run says nothing about a claim."""


def _first_told(row: Beside) -> dict[str, Any]:
    """The claim in the first run that took it up, the paper's programme first."""
    found = [one for one in row.values() if one is not None]
    return next((one for one in found if _told(one)), found[0])


def _agrees(row: Beside) -> bool:
    """Whether a claim is one of the paper's own figures against each other, and they agree."""
    first = _first_told(row)
    return first.get("kind") in ("arithmetic", "text") and first["verdict"] == "holds"


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def _head(titles: Sequence[str]) -> list[str]:
    return [_row(titles), "| --- " * len(titles) + "|"]


def _part_lines(title: str, rows: list[Beside], runs: list[str]) -> list[str]:
    """One table: a claim a row, its figure and its verdict in every run."""
    if not rows:
        return []
    says_why = title == "What cannot be said"
    titles = ["the paper says", "published", "found", *runs, *(["why"] if says_why else [])]
    lines = [f"### {title}", "", *_head(titles)]
    for row in rows:
        first = _first_told(row)
        cells = [first["claim"], first["published"], first["ours"]]
        cells += [_mark(row[name]) for name in runs]
        cells += [first["reason"]] if says_why else []
        lines.append(_row(cells))
    return [*lines, ""]


def _claims_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads((folder / "claims.json").read_text())}


def _mark(claim: dict[str, Any] | None) -> str:
    if claim is None or not _told(claim):
        return "–"
    if claim["verdict"] == "not claimed":
        return next(mark for words, mark in ANSWERS.items() if words in claim["reason"])
    return MARKS[claim["verdict"]]


ANSWERS = {
    "yes here": "yes",
    "not here": "no",
    "cannot tell": "open",
    "good as equal": "no",
    "here it holds": "yes",
    "here it does not hold": "no",
    "here it cannot be tested": "open",
}
"""What was found where nothing is claimed, by words of the reason."""


def _run_line(name: str, folder: Path) -> str:
    manifest = json.loads((folder / "run.json").read_text())
    counted = Counter(claim["verdict"] for claim in _claims_of(folder).values())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counted.most_common())
    earlier = manifest["config"].get("judged_again")
    domains = manifest["config"]["domains"]
    n_all = len(DOMAINS_IN_APPENDIX)
    part = f" Only {', '.join(domains)} of {n_all} domains." if len(domains) < n_all else ""
    again = f"; {AGAIN.format(earlier=earlier)}" if earlier else ""
    anew = manifest["config"].get("anew", {})
    again += f"; {', '.join(anew)} measured in {', '.join({*anew.values()})}" if anew else ""
    return (
        f"- **{name}** (seed {manifest['config']['seed']}): {verdicts}. "
        f"[Page with every reason](../results/{folder.name}/report.html), "
        f"[spreadsheet](../results/{folder.name}/claims.csv){again}.{part}"
    )


def apart_block() -> str:
    """Claims on which the two programmes come to opposite verdicts, and what differs."""
    lines, n_open = [], 0
    for preset in PRESETS:
        theirs, ours = (
            RESULTS / f"reproduction-{preset}{PROGRAMMES[name]}" for name in ("paper", "ours")
        )
        if not all((folder / "claims.json").exists() for folder in (theirs, ours)):
            continue
        own = _claims_of(ours)
        for key, row in _claims_of(theirs).items():
            pair = (row["verdict"], own[key]["verdict"])
            if set(pair) == {"holds", "does not hold"}:
                told = [f"{r['ours']}: {MARKS[r['verdict']]}" for r in (row, own[key])]
                lines.append(_row([preset, row["claim"], *told, row.get("why_apart") or "–"]))
            elif pair[0] != pair[1]:
                n_open += 1
    if not lines and not n_open:
        return "The two programmes were not run in the same cities yet."
    titles = ["city", "the paper says", "as published", "ours", "what could make it"]
    head = _head(titles) if lines else []
    more = f"On {n_open} more claims one of the two decides nothing; the spreadsheets say why."
    return "\n".join([*head, *lines, *([""] if lines else []), more])


def choices_block() -> str:
    """What the paper leaves open, what was chosen, why, and what another choice does."""
    return "\n".join([*_head(CHOICE_TITLES), *map(_row, CHOICES)])


def prices_block() -> str:
    """Gap, price and visits by α₃ in every kept run that followed them."""
    lines = []
    for name, folder in kept_runs().items():
        path = folder / "prices.json"
        rows = json.loads(path.read_text()) if path.exists() else []
        weights = sorted({row["weight"] for row in rows})
        if not rows:
            continue
        titles = [name, "today's gap", *(f"α₃ = {weight:g}" for weight in weights)]
        lines += _head(titles)
        for slug, agent in dict.fromkeys((row["domain"], row["agent"]) for row in rows):
            own = [r for r in rows if (r["domain"], r["agent"]) == (slug, agent)]
            cells = [f"{slug}, {agent.upper()}", f"{100 * own[0]['gap_today']:.1f}"]
            lines.append(_row([*cells, *map(_price_cell, own)]))
        lines.append("")
    return "\n".join(lines).rstrip() or NONE_YET


def _price_cell(row: dict[str, Any]) -> str:
    """Gap with its interval; price with its interval; visits against the agent without a weight."""
    gap = f"{100 * row['gap']:.1f} ({100 * row['gap_lower']:.1f} to {100 * row['gap_upper']:.1f})"
    if row["weight"] == 0:
        return gap
    # An agent that finds next to nothing without a weight has nothing to give up.
    if row["price"] is None or row["price"] < -1:
        return f"{gap}; no price"
    price = [100 * row[name] for name in ("price", "price_lower", "price_upper")]
    visits = "–" if row["visits"] is None else f"{row['visits']:.2f}"
    return f"{gap}; {price[0]:.1f} ({price[1]:.1f} to {price[2]:.1f}); {visits}"


def elevator_block() -> str:
    """What the table's own rows imply, and our offices with it put in, by kept run."""
    lines = []
    for name, folder in kept_runs().items():
        row = _claims_of(folder)["elevator_level"]
        offices = row["ours"].partition("BALANCED played, ")[2]
        if not offices:
            continue
        if not lines:
            why = row["reason"].partition("; ")[2]
            lines += [f"Of the table it can be computed that {why}.", ""]
        published = f"published: {row['published']}"
        lines.append(f"- **{name}**, scaled to the paper's arrivals; {published}; {offices}.")
    return "\n".join(lines) or NONE_YET


RATES = "reproduction-rates.json"
"""What a core trains in a second of its time, by kind of agent; kept beside the runs."""
LEAST_TRAINED_S = 15.0
"""A job that took less is mostly its compilation."""


def keep_rates(logs: Sequence[Path]) -> Path:
    """Keep agent-steps a second of processor time of every job in logs of the training stage.

    Processor time, because other work on the machine would make a second on the wall mean anything.
    """
    rows = []
    for line in (line for log in logs for line in log.read_text().splitlines()):
        told = json.loads(line) if line.startswith('{"job"') else {}
        if told.get("steps") and told["cpu_seconds"] >= LEAST_TRAINED_S:
            rate = told["agents"] * told["steps"] / told["cpu_seconds"]
            kind = kind_of(told["job"].rpartition("/")[2])
            rows.append({"job": told["job"], "kind": kind, "agent_steps_per_s": round(rate, 1)})
    about = {"processor": describe_device()["processor"], "seconds": "of processor time"}
    path = RESULTS / RATES
    write_json(path, {**about, "jobs": sorted(rows, key=lambda row: row["agent_steps_per_s"])})
    return path


def kind_of(label: str) -> str:
    """Whether an agent learns at every step of its own (DQN and its kin) or once a rollout."""
    return "REINFORCE" if label.startswith("reinforce") else "DQN"


def left_block() -> str:
    """What of New York's size is not kept, and how long a core would take by the rates measured."""
    config = json.loads((RESULTS / "reproduction-nyc-paper" / "run.json").read_text())["config"]
    left = [slug for slug in sorted(DOMAINS_IN_APPENDIX) if slug not in config["domains"]]
    work = Counter[str]()
    for programme in (OURS, PAPER):
        for job in make_jobs(left, "nyc", config["seed"], programme=programme):
            n_agents = len(job.preferences) * len(job.seeds)
            work[kind_of(job.label)] += n_agents * job.steps
    if not left:
        return "At New York's size all twelve domains are kept."
    words = [
        f"At New York's size {', '.join(left)} are not run in either programme: "
        f"{sum(work.values()) / 1e6:.0f} million agent-steps."
    ]
    if (RESULTS / RATES).exists():
        kept = json.loads((RESULTS / RATES).read_text())
        by_kind = {
            kind: [row["agent_steps_per_s"] for row in kept["jobs"] if row["kind"] == kind]
            for kind in work
        }
        if all(by_kind.values()):
            hours = [
                sum(work[kind] / pick(rates) for kind, rates in by_kind.items()) / 3600
                for pick in (max, min)
            ]
            told = ", ".join(
                f"{kind} {min(rates):,.0f} to {max(rates):,.0f}" for kind, rates in by_kind.items()
            )
            measured = sorted({row["job"].split("/")[1] for row in kept["jobs"]})
            words.append(
                f"One core ({kept['processor']}) made so many a second of its time, in jobs of "
                f"{', '.join(measured)}: {told}; by that they take it {hours[0]:.1f} to "
                f"{hours[1]:.1f} hours, without cities and reports."
            )
    return " ".join(words)


def main(arguments: Sequence[str]) -> None:
    """Keep runs, or rates, and set the two programmes beside each other."""
    if arguments[:1] == ["--rates"]:
        print(keep_rates([Path(one) for one in arguments[1:]]))
        return
    for given in arguments:
        found = Path(given)
        print(keep(found) if found.is_dir() else keep_archive(found))
    for preset in PRESETS:
        set_kept_beside(preset)


if __name__ == "__main__":
    main(sys.argv[1:])
