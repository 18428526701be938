"""Write the generated parts of README and docs: what stands between two markers.

    python -m docs.generate          write them, from the results kept in docs/results/
    python -m docs.generate --check  say which are out of date, and exit with 2
    python -m docs.generate --run    make the results anew first (minutes)

A block is `<!-- generated: NAME -->` … `<!-- end -->`; `BLOCKS` maps its name to what writes it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.house import draw_plan

from docs import scale_figures, under_reporting
from docs.audit_figures import (
    audit_block,
    desk_block,
    recommend_block,
    records_block,
    shapley_block,
)
from docs.ceilings import ceilings_block
from docs.city_years import city_years_block
from docs.cycle_figures import cycle_block
from docs.desk_figures import faults_block
from docs.drawn import FOLDER as PICTURE_FOLDER
from docs.drawn import stale_pictures
from docs.environments import environments_block
from docs.equity_term import equity_block
from docs.feedback_figures import feedback_block
from docs.file_formats import formats_block
from docs.frontier_figures import frontier_block, sensitivity_block
from docs.kill_figures import kills_block
from docs.leaderboard import leaderboard_block
from docs.metrics import metrics_block
from docs.off_policy_figures import off_policy_block
from docs.other_seeds import seeds_block
from docs.parity_figures import inspectors_block, parity_block, parity_tables_block
from docs.parity_in_city import parity_in_city_block
from docs.python_reference import python_block
from docs.quality_figures import quality_block, reached_block
from docs.readme_figures import came_out_block
from docs.reproduction import (
    apart_block,
    choices_block,
    elevator_block,
    left_block,
    prices_block,
    reproduction_block,
)
from docs.seeds import seeds_table
from docs.service_levels_figures import levels_block, speed_block
from docs.watch_figures import watch_block
from parity311.city.departures import DEFAULT, WORLDS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
FILES = (
    "README.md",
    "ARCHITECTURE.md",
    "docs/reference/command-line.md",
    "docs/reference/domains.md",
    "docs/reference/agents.md",
    "docs/how-to/add-a-domain.md",
    "docs/how-to/add-an-agent.md",
    "docs/reference/python.md",
    "docs/explanation/equity-term.md",
    "docs/explanation/synthetic-city.md",
    "docs/explanation/frontier.md",
    "docs/explanation/price-of-parity.md",
    "docs/reference/parity-figures.md",
    "docs/reference/ceilings.md",
    "docs/reference/seeds.md",
    "docs/explanation/audit.md",
    "docs/explanation/reproduction.md",
    "docs/explanation/off-policy.md",
    "docs/explanation/what-agents-reach.md",
    "docs/explanation/city-years.md",
    "docs/how-to/use-nyc-open-data.md",
    "docs/how-to/deploy.md",
    "docs/how-to/route-complaints.md",
    "docs/how-to/watch-a-policy.md",
    "docs/how-to/release-a-policy.md",
    "docs/how-to/retrain-a-policy.md",
    "docs/explanation/feedback.md",
    "docs/explanation/service-levels.md",
    "docs/explanation/scale.md",
    "docs/index.md",
    "docs/reference/leaderboard.md",
    "docs/reference/environments.md",
    "docs/reference/metrics.md",
    "docs/reference/file-formats.md",
)
MARK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def run_python(code: str, *arguments: str) -> str:
    """What a program prints, as wide as the documents are."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    )
    return result.stdout


def run_command(*arguments: str) -> str:
    """Standard output of a parity311 command, at a fixed width and without colour."""
    return strip_lines(run_python("from parity311.cli import main; main()", *arguments))


def strip_lines(text: str) -> str:
    """Text without blanks at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


PRINT_HELPS = """
import contextlib, io, json, sys
from parity311.cli import app
found = []
for path in json.loads(sys.argv[1]):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        app([*path, "--help"])
    found.append(text.getvalue())
print(json.dumps(found))
"""


def command_reference() -> str:
    """The help of every command, all printed by one process."""
    paths = command_paths()
    helps = json.loads(run_python(PRINT_HELPS, json.dumps(paths)))
    parts = []
    for path, text in zip(paths, helps, strict=True):
        parts += [f"## parity311 {' '.join(path)}", "", "```", strip_lines(text), "```", ""]
    return "\n".join(parts)


def command_paths() -> list[tuple[str, ...]]:
    """Every command as its words."""
    import typer

    from parity311.cli import app

    paths: list[tuple[str, ...]] = []

    def visit(group: Any, words: tuple[str, ...]) -> None:
        for name, command in sorted(group.commands.items()):
            if hasattr(command, "commands"):
                visit(command, (*words, name))
            else:
                paths.append((*words, name))

    visit(typer.main.get_command(app), ())
    return paths


def domain_cards() -> str:
    """One card a domain, from its own file."""
    from parity311.cli.printing import domain_cards as cards

    parts = []
    for card in cards():
        state = "decision process" if card["is_playable"] else "incident process only"
        parts += [
            f"## {card['name']}: {card['title']}",
            "",
            f"- Decided: {card['decision']}",
            f"- Who waits: {card['who_waits']}",
            f"- Not for: {card['not_for']}",
            f"- Source: {card['source']}",
            f"- State: {state}, version {card['version']}",
        ]
        if card["is_playable"]:
            parts += [
                f"- Observes: {', '.join(card['features'])}",
                f"- Actions: {', '.join(card['actions'])}",
                f"- Rules: {', '.join(card['heuristics'])}",
                "",
                *baseline_rows(card["name"]),
                "",
                *difference_rows(card["name"]),
            ]
        parts.append("")
    return "\n".join(parts)


def baseline_rows(slug: str) -> list[str]:
    """What each of the paper's baselines is in a domain, or why it has no meaning there."""
    from parity311.domains import get_domain

    rows = ["| baseline of the paper | played by | what it does |", "| --- | --- | --- |"]
    for name, baseline in get_domain(slug).baselines.items():
        played = f"`{baseline.rule}`" if baseline.rule else "none"
        rows.append(f"| {name.upper()} | {played} | {baseline.words} |")
    return rows if len(rows) > 2 else []


def difference_rows(slug: str) -> list[str]:
    """What the paper gives for a domain beside what ours uses unless told otherwise, and why."""
    from parity311.domains import get_domain
    from parity311.studies.reproduction.programme import differences
    from parity311.studies.reproduction.protocols import parts_of

    domain = get_domain(slug)
    found = differences(domain)
    if not found:
        return []
    rows = ["| differs | published | ours | why |", "| --- | --- | --- | --- |"]
    rows += [f"| {row.what} | {row.published} | {row.ours} | {row.why} |" for row in found]
    split = domain.protocol.split if domain.protocol else ""
    rows.append(f"| split | {split} | {parts_of(slug)[0].words} | nobody is scored on what was "
                "learned from |")  # fmt: skip
    return rows


def agent_table() -> str:
    """One row an agent, from its own file."""
    from parity311.agents import all_agents

    rows = ["| agent | what it is | learns |", "| --- | --- | --- |"]
    for name, entry in all_agents().items():
        how = "by acting" if entry.acts else "from a log" if entry.needs_log else "by computing"
        rows.append(f"| `{name}` | {entry.says} | {how} |")
    return "\n".join(rows)


def skeleton(name: str) -> str:
    """A file of docs/skeletons as it is."""
    return f"```python\n{(ROOT / 'docs' / 'skeletons' / name).read_text()}```"


def run_output_block() -> str:
    """How long `make run` took where it was kept, and what it said of all tables it printed."""
    lines = (RESULTS / "run-small.txt").read_text().rstrip().splitlines()
    starts = [line.split(":")[0].split(",")[0] for line in lines]
    first, last = starts.index("Against today's rule"), starts.index("Report")
    tables = "… a table of every rule, for each domain and scenario …"
    shown = [tables, *lines[first : last + 1], "… ten recommendations of the last day …"]
    seconds = json.loads((RESULTS / "run-small.json").read_text()).get("processor_seconds")
    took = [f"({seconds:.0f} seconds of processor time, on all cores together)"] if seconds else []
    return "\n".join(["```", *shown, *took, "```"])


def worlds_block() -> str:
    """The cities in which estimators' assumptions are false."""
    return "\n".join(
        f"- `{world.name}`: {world.says}" for world in WORLDS.values() if world != DEFAULT
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "worlds": worlds_block,
    "run-output": run_output_block,
    "came-out": came_out_block,
    "commands": command_reference,
    "plan": draw_plan,
    "domains": domain_cards,
    "agents": agent_table,
    "skeleton-agent": lambda: skeleton("agent.py"),
    "skeleton-domain": lambda: skeleton("domain.py"),
    "python": python_block,
    "other-seeds": seeds_block,
    "seeds": seeds_table,
    "equity-term": equity_block,
    "frontier": frontier_block,
    "frontier-sensitivity": sensitivity_block,
    "ceilings": ceilings_block,
    "city-years": city_years_block,
    "parity-in-city": parity_in_city_block,
    "reproduction": reproduction_block,
    "reproduction-apart": apart_block,
    "reproduction-choices": choices_block,
    "reproduction-prices": prices_block,
    "reproduction-elevator": elevator_block,
    "reproduction-left": left_block,
    "off-policy": off_policy_block,
    "parity": parity_block,
    "parity-tables": parity_tables_block,
    "parity-inspectors": inspectors_block,
    "quality": quality_block,
    "reached": reached_block,
    "came-out-here": lambda: came_out_block("", has_table=False),
    "leaderboard": leaderboard_block,
    "environments": environments_block,
    "metrics": metrics_block,
    "file-formats": formats_block,
    "bench-audit": audit_block,
    "bench-shapley": shapley_block,
    "bench-records": records_block,
    "bench-recommend": recommend_block,
    "bench-desk": desk_block,
    "desk-faults": faults_block,
    "cycles": cycle_block,
    "feedback": feedback_block,
    "kills": kills_block,
    "service-levels": levels_block,
    "service-levels-speed": speed_block,
    "watch": watch_block,
    "scale-engines": scale_figures.engines_block,
    "scale-kills": scale_figures.kills_block,
    "scale-bench": scale_figures.bench_block,
    "scale-rows": scale_figures.rows_block,
    "scale-paper": scale_figures.paper_block,
    "scale-gpu": scale_figures.gpu_block,
}


def fill(text: str) -> str:
    """Replace what stands between the markers by what the blocks' writers give."""
    return MARK.sub(lambda match: f"{match[1]}{BLOCKS[match['name']]()}\n{match[3]}", text)


def make_results() -> None:
    """Run the small preset and keep what it printed."""
    from parity311.report.store import open_run

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = run_command("run", "--preset", "small")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1)
    (RESULTS / "run-small.txt").write_text(printed + "\n")
    run = open_run("latest", ROOT / "runs")
    kept = {"run": run.id, "config": run.config, "processor_seconds": seconds, **run.metrics}
    (RESULTS / "run-small.json").write_text(json.dumps(kept, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    """Write, or only check, every file with generated blocks."""
    if "--run" in arguments:
        make_results()
    stale = []
    for name in FILES:
        path = ROOT / name
        text = path.read_text()
        filled = fill(text)
        if filled == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(filled)
            print(f"wrote {name}")
    # This page is written whole, from a template of its own.
    if under_reporting.PAGE.read_text() != under_reporting.render():
        stale.append(under_reporting.PAGE.relative_to(ROOT).as_posix())
        if "--check" not in arguments:
            under_reporting.write()
            print(f"wrote {stale[-1]}")
    for name, text in stale_pictures().items():
        stale.append(f"docs/explanation/{name}")
        if "--check" not in arguments:
            (PICTURE_FOLDER / name).write_text(text)
            print(f"wrote {stale[-1]}")
    if "--check" in arguments and stale:
        print(f"error: out of date: {', '.join(stale)}; run `make docs`.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
