"""Every command in README, tutorials and how-to works as printed, after `make run`.

The blocks are read from the pages and run in order in a folder that looks as `make run` leaves it:
a city under its name, a run, an environment to activate. What is substituted for the sake of time,
and what is only read and not run, is listed here with the reason; nothing else is left out.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from tests.conftest import optimizing
from tests.docs.test_python import blocks
from tests.unit.cli.bad_input import Try, call
from tests.unit.explain.stored_run import make_run

from parity311.city.build import build_city
from parity311.cli import app
from parity311.domains import all_domains, get_domain
from parity311.environments import environment_id, former_id
from parity311.evaluation import frontier
from parity311.evaluation.off_policy import backtest, rosenbaum
from parity311.lifecycle import trial
from parity311.service_levels import search

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs/tutorials").glob("*.md"),
        *(ROOT / "docs/how-to").glob("*.md"),
    ]
)
CITY = "cities/small-7-measured-calibrated"
DOMAINS = ("boiler", "complaint_triage", "drainage", "ert", "heat", "scaffold")
"""Domains of the city that the pages' commands ask for."""
FILES = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
NAMES = (environment_id, former_id)
COMMANDS = ("parity311", "make", "python", "pip", "source", "export")


class Reason(NamedTuple):
    """Why a command is only read, not run."""

    begins: str
    why: str


NOT_RUN = (
    Reason("make ", "sets up an environment; continuous integration runs both verbs"),
    Reason("pip install", "installs; the extra's name is checked"),
    Reason("parity311 reproduce", "minutes to hours; tests/unit/reproduction has its stages"),
    Reason("parity311 open", "starts the reader's browser; tests/unit/pipelines has it"),
    Reason("parity311 fetch", "the network; tests/unit/feeds fetches from a loopback server"),
    Reason("parity311 records import", "needs exports; tests/unit/feeds imports made-up ones"),
    Reason("parity311 records map", "needs an export; tests/unit/feeds/test_propose.py has one"),
    Reason("parity311 records check records/", "reads what the import before it wrote"),
    Reason("parity311 records locate records/", "reads what the import before it wrote"),
    Reason("parity311 records link records/", "reads what the import before it wrote"),
    Reason("parity311 audit areas-by-zip.csv", "reads what the line before it wrote"),
    Reason("parity311 audit records/", "reads what the import before it wrote"),
    Reason("parity311 reporting compare --records records/nyc", "reads what the import wrote"),
    Reason("parity311 sweep boiler", "trains; tests/unit/training/test_sweep_sets.py has it"),
    Reason("parity311 bench scale", "a minute; tests/unit/jobs has what it measures"),
    Reason("parity311 cycle heat,elevator --cities", "tests/unit/lifecycle/test_many_cycles.py"),
    Reason("parity311 bench off-policy --city", "as the line before it, in a city's process"),
    Reason("parity311 run --records", "minutes; tests/unit/lifecycle has it on records"),
    Reason("parity311 train graffiti", "tests/contract/test_thirteenth_domain.py runs it"),
    Reason("parity311 train boiler --example --agent sarsa", "the same"),
    Reason("parity311 train boiler --agent sarsa", "the same"),
    Reason("parity311 city build --out cities/with-graffiti", "the same"),
    Reason("python -c", "the same"),
    Reason(
        'parity311 policies shadow heat-1 --by "M. Chen"',
        "needs what a cycle proposed; tests/unit/lifecycle has it",
    ),
    Reason("parity311 recommend heat --records records/", "the same"),
    Reason("parity311 policies compare", "the same"),
    Reason("parity311 watch", "the same"),
    Reason("parity311 cycle heat --records records/", "the same"),
    Reason("parity311 weigh", "needs a frontier; tests/unit/lifecycle has it"),
    Reason("parity311 serve", "serves until it is stopped; tests/unit/desk and tests/browser"),
    Reason("parity311 backup", "needs a desk; tests/unit/desk/test_backup.py has one"),
    Reason("parity311 restore", "the same"),
    Reason("parity311 desk-export", "needs a desk; tests/unit/desk has one"),
    Reason("python -m tests.golden", "tests/golden writes one domain's figures"),
    Reason("python -m docs.reproduction", "needs a reproduction of hours"),
    Reason("python -m docs.reproduce_there", "is one"),
    Reason("python -m parity311.studies.reproduction.train_stage", "needs a prepared reproduction"),
)
QUICK = "quick.toml"
SHORTENED = {
    "parity311 audit cities/": f" --spec {QUICK}",
    "parity311 audit latest": f" --spec {QUICK}",
    "parity311 backtest complaint_triage": " --policy never",
    "parity311 backtest drainage": " --policy never",
    "parity311 train boiler": " --steps 200",
    "parity311 bench off-policy": " --logs 20 --truth-episodes 1000",
    "parity311 backtest ert --records log.parquet": " --policy always",
    "parity311 policies make": " --draws 0",
    "parity311 evaluate": " --years 1 --workers 1",
    "parity311 sla design": " --generations 2 --population 8 --floor 0 --workers 1",
    "parity311 sla promise": " --years 9 --check-years 1",
}
"""What is added to a command so that it takes seconds."""
LONG = ("parity311 sla design",)
"""Commands that run what they compile for so long that optimizing it pays."""

SHORTER_EPISODES = {
    'gymnasium.make("parity311/heat-v2")': 'gymnasium.make("parity311/heat-v2", max_steps=240)'
}
"""What is put in place of a page's own: what is compared there holds for episodes of any length."""


class Printed(NamedTuple):
    """A command as a page prints it."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def shell_blocks(text: str) -> Iterator[str]:
    """Fenced blocks without a language: what is typed, or printed."""
    fenced, lines = None, []
    for line in text.splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif fenced is None:
            fenced, lines = line[3:], []
        else:
            if not fenced:
                yield "\n".join(lines)
            fenced = None


def commands_of(page: Path) -> Iterator[Printed]:
    """The commands of a page's shell blocks, without prompts and comments, variables filled in."""
    variables: dict[str, str] = {}
    for block in shell_blocks(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            text = re.sub(r"\s+#.*$", "", line).strip()
            named = re.fullmatch(r"([A-Z]+)=(\S+)", text)
            if named:
                variables[named[1]] = named[2]
                continue
            for name, value in variables.items():
                text = text.replace(f"${name}", value)
            for part in text.split(" && "):
                plain = re.sub(r"^(\w+=\S+ )+", "", part).removeprefix(".venv/bin/")
                if plain.split(" ")[0] in COMMANDS:
                    yield Printed(page.name, plain)


PRINTED = [one for page in PAGES for one in commands_of(page)]


def why_not_run(text: str) -> str:
    """The reason why a command is only read; empty where it is run."""
    return next((reason.why for reason in NOT_RUN if text.startswith(reason.begins)), "")


def read_command(text: str) -> None:
    """Refuse a command of ours whose name, arguments or options do not exist."""
    words = shlex.split(text)[1:]
    group: Any = typer.main.get_command(app)
    path = ["parity311"]
    while hasattr(group, "commands") and words and words[0] in group.commands:
        path.append(words.pop(0))
        group = group.commands[path[-1]]
    says_something = words[:1] == ["--help"] or getattr(group, "invoke_without_command", False)
    if hasattr(group, "commands") and not says_something:
        raise LookupError(f"No such command: {text}")
    if words != ["--help"]:
        group.make_context(" ".join(path), words)


@pytest.mark.parametrize("printed", PRINTED, ids=str)
def test_a_printed_command_exists(
    printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(printed.text)
    if words[0] == "parity311":
        # A folder that a command before it on the page wrote.
        monkeypatch.chdir(tmp_path)
        for option, folder in pairwise(words):
            if option == "--records":
                Path(folder).mkdir(parents=True)
        read_command(printed.text)
    elif words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    elif words[0] == "pip":
        extra = re.search(r"'\.\[(\w+)\]'", printed.text)
        assert extra is not None
        assert f"\n{extra[1]} = [" in (ROOT / "pyproject.toml").read_text()
    elif words[0] == "source":
        assert words[1] == ".venv/bin/activate"


@pytest.mark.parametrize(
    "text", ["parity311 audti latest", "parity311 audit latest --strat all", "parity311 train"]
)
def test_a_command_that_does_not_exist_is_noticed(text: str) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|no_args|Usage|audti"):
        read_command(text)


def test_every_page_activates_before_it_commands() -> None:
    for page in PAGES:
        ours = [one.text for one in commands_of(page)]
        first = next((i for i, text in enumerate(ours) if text.startswith("parity311 ")), None)
        if first is not None:
            assert "source .venv/bin/activate" in ours[:first], page.name


def test_nothing_is_left_out_in_vain() -> None:
    for reason in NOT_RUN:
        assert any(one.text.startswith(reason.begins) for one in PRINTED), reason
    pages = "".join(page.read_text() for page in PAGES)
    assert all(written in pages for written in SHORTER_EPISODES)
    for begins in SHORTENED:
        assert any(one.text.startswith(begins) for one in PRINTED), begins


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make run` leaves it: a city and a run, both small, and the pages' own files."""
    root = tmp_path_factory.mktemp("workplace")
    processes = [get_domain(slug).process for slug in DOMAINS]
    build_city(processes, "small", 7, out=root / CITY, workers=1, date_from=date(2023, 1, 1))
    make_run(root / "runs")
    (root / QUICK).write_text("n_draws = 100\n")
    for page in PAGES:
        for name, text in FILES.findall(page.read_text()):
            (root / name).write_text(text)
    write_reports(root)
    return root


def write_reports(root: Path) -> None:
    """The tables of a reader's own that a page asks for: reports of 300 incidents in 12 areas."""
    rng = np.random.default_rng(0)
    areas, reports = ["area,borough,households,income_quintile,density"], [
        "incident_id,report_id,reported_at,ended_at,area,borough,category,density"
    ]  # fmt: skip
    start = datetime(2025, 3, 1)
    for area in range(12):
        borough = ("Queens", "Bronx")[area % 2]
        areas.append(f"{area},{borough},1000,{1 + area % 5},{10 + area}")
    for number in range(300):
        area, category = number % 12, ("hazard", "pruning")[number % 7 % 2]
        first = start + timedelta(hours=float(rng.uniform(0, 24 * 60)))
        ended = first + timedelta(days=float(rng.exponential(14)))
        times = [first, *(first + rng.uniform() * (ended - first) for _ in range(rng.poisson(0.8)))]
        for index, at in enumerate(times):
            reports.append(
                f"i{number},r{number}-{index},{at:%Y-%m-%d %H:%M:%S},{ended:%Y-%m-%d %H:%M:%S},"
                f"{area},{('Queens', 'Bronx')[area % 2]},{category},{10 + area}"
            )
    (root / "areas.csv").write_text("\n".join(areas) + "\n")
    (root / "reports.csv").write_text("\n".join(reports) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["use-the-environments.md", "backtest-a-policy.md"])
def test_python_of_the_pages_runs(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The environments' page, whose last line scores under the truth, and the log of a backtest."""
    monkeypatch.chdir(workplace)
    code = blocks((ROOT / "docs/how-to" / name).read_text())
    for written, shorter in SHORTER_EPISODES.items():
        code = code.replace(written, shorter)
    exec(code, {"__name__": "__main__"})
    assert (workplace / "log.parquet").is_file() == ("write_parquet" in code)


WALKED = ("analyst.md", "auditor.md", "researcher.md")
"""Pages that tests/docs/test_tutorials.py walks whole, each in a place of its own."""
RUN = [
    one
    for one in PRINTED
    if one.text.startswith("parity311 ") and one.page not in WALKED and not why_not_run(one.text)
]
FIRST = [one for place, one in enumerate(RUN) if one.text not in {r.text for r in RUN[:place]}]
"""Each command once, where a reader meets it first: what it wrote may be there the second time."""


@pytest.mark.slow
@pytest.mark.parametrize("printed", FIRST, ids=str)
def test_a_printed_command_works(
    printed: Printed,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Prices that have not come to rest are prices, and figures of few years, weights and grades of
    # a hidden reason are figures: all of them are checked where they are made.
    monkeypatch.setattr(frontier, "EPISODES_SETTLING", 2)
    monkeypatch.setattr(frontier, "SETTLING_GAINS", frontier.SETTLING_GAINS[:1])
    monkeypatch.setattr(trial, "EPISODES", 8)
    monkeypatch.setattr(trial, "INDEPENDENT_EPISODES", 16)
    monkeypatch.setattr(search, "N_WEIGHTS", 2)
    monkeypatch.setattr(backtest, "GAMMAS", backtest.GAMMAS[:2])
    monkeypatch.setattr(rosenbaum, "GAMMA_TOLERANCE", 5.0)
    more = next((add for start, add in SHORTENED.items() if printed.text.startswith(start)), "")
    first, *rest = shlex.split(printed.text + more)[1:]
    with optimizing() if printed.text.startswith(LONG) else nullcontext():
        code = call(Try(first, tuple(rest)), monkeypatch, workplace)
    said = capsys.readouterr()
    assert code == 0, said.err[-2000:]
    if "--json" in printed.text:
        json.loads(said.out)


def test_all_fields_of_an_agency_are_documented() -> None:
    from parity311.pipelines.documents import HUMAN_FIELDS

    page = (ROOT / "docs/how-to/audit-a-run.md").read_text()
    given = dict(FILES.findall(page))["agency.toml"]
    assert re.findall(r"^(\w+) ", given, re.MULTILINE) == list(HUMAN_FIELDS)


def test_environments_are_named_for_domains_that_exist() -> None:
    page = (ROOT / "docs/how-to/use-the-environments.md").read_text()
    names = set(re.findall(r"parity311/[\w-]+-v\d+", page))
    known = {name(slug, v) for slug in all_domains() for v in (0, 1) for name in NAMES}
    assert names <= known
    assert {"parity311/heat-v2", "parity311/Heat-v0"} <= names
