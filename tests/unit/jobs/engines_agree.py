"""Run every study on three engines and hold their files against each other, byte for byte.

    python -m tests.unit.jobs.engines_agree --folder F --out docs/results/scale-engines.json

The engines are two spawned processes, a Ray cluster of one node that the command starts itself, and
a Ray cluster of two nodes on this machine. Studies are the commands as a person types them, at
their smallest; the two whose budgets are fixed (`reproduce`, `bench quality`) are called as their
command calls them, with a smaller one. What is left in the folder is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.jobs.test_on_ray import end_processes, free_port, ray_start

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.jobs.choose import Workplace
from parity311.jobs.job import this_machine
from parity311.jobs.on_ray import make_token
from parity311.storage.strict_json import read_json

ROOT = Path(__file__).resolve().parents[3]
DOMAINS = ("snad", "crane", "elevator")
COMMANDS = {
    "sweep": "sweep snad --preferences 4 --seeds 1 --steps 500 --chunk 2 --records {city} "
    "--until 2025-01-01 --out runs/sweep",
    "frontier": "frontier snad --city {city} --agent dqn --preferences 4 --seeds 2 --steps 500 "
    "--no-sensitivity",
    "parity": "parity elevator --city {city} --years 4 --settling 2 --agent-steps 0 --factors=",
    "feedback": "feedback crane --rounds 2 --cities 2 --arms today,none",
    "evaluate": "evaluate {policy} --city {city} --years 1",
    "sla design": "sla design --records {city} --domain elevator --generations 2 --population 8 "
    "--floor 0",
    "cycle": "cycle snad,crane --records {city} --agent dual_threshold --by Tester "
    "--out runs/steps --database runs/registry",
}
"""Studies as they are typed, in a folder of their own."""
MEASURED = {
    r"(.*/)?outcome\.json": "what a job took",
    r"(.*/)?\.compiled/.*": "compiled programs",
    r"(.*/)?run\.json": "the run's identity, times and place",
    r"(.*/)?(jobs/)?\.?driver.*|(.*/)?.*\.lock": "locks",
}
"""Files that no two runs share, by why."""
KEY = re.compile(r"(?<=/decision)-[0-9a-f]{16}")
"""End of a folder's name that hangs on when what it was decided by was made."""
OF_A_RUN = (
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?( UTC)?"), "WHEN"),
    (re.compile(r'("[a-z_]*seconds"): (\{[^}]*\}|[0-9.e-]+)'), "SECONDS"),
    (re.compile(r"\b(in |\">)[0-9.]+\s(s|min)\b"), "SECONDS"),
    (re.compile(r'"(bytes|size)": [0-9]+'), "BYTES"),
    (re.compile(r"(?<![0-9a-f])([0-9a-f]{64}|[0-9a-f]{16})(?![0-9a-f])"), "DIGEST"),
)
"""What stands in the files of a run for the run itself: when it was, how long it took, and digests
of files that say so; every file that a digest is of is compared itself."""


def run_command(text: str, options: list[str], place: Path) -> None:
    """Run a command in a folder of its own."""
    command = [str(Path(sys.executable).with_name("parity311")), *text.split(), *options, "--json"]
    place.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"}
    with (place.parent / f"{place.name}.log").open("wb") as log:
        subprocess.run(command, cwd=place, env=environment, check=True, stdout=log, stderr=log)


def call_reproduce(place: Path, where: Workplace, cities: Path) -> None:
    """All stages of one domain with a budget of seconds."""
    from parity311.studies.reproduction.jobs import Budget
    from parity311.studies.reproduction.reproduce import ReproduceConfig, run_stages

    run_stages(
        ReproduceConfig(domains=("ert",), preset="small", seed=7), folder=place / "reproduction",
        cities=cities, runs=place / "runs", where=where, progress=lambda *_: None,
        budget=Budget(1, 64, 64, 2, 2, 64, 1, 4),
    )  # fmt: skip


def call_quality(place: Path, where: Workplace, cities: Path) -> None:
    """What trains nothing, of one setting, in the processes of two domains' examples."""
    del cities
    from parity311.estimation.params_file import write_params
    from parity311.studies.quality.jobs import missing_parts, params_path, run_parts

    folder = place / "quality"
    example = get_domain("crane").play.example()
    for seed in (1, 2):
        for kind in ("estimated", "true"):
            write_params(params_path(folder, "crane", "", seed, kind), example)
    parts = missing_parts(folder, ["crane"], {})
    left = run_parts(folder, parts, 1, where=where, tell=print)
    if left or len(parts) < 4:
        raise RuntimeError(f"{left} of {len(parts)} parts were not measured")


CALLS: dict[str, Callable[[Path, Workplace, Path], None]] = {
    "reproduce": call_reproduce,
    "bench quality": call_quality,
}


def contents(place: Path) -> dict[str, Path]:
    """Every file of a study by name, less what is of the run and not of the result."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_file() and not any(re.fullmatch(one, name) for one in MEASURED):
            found[KEY.sub("-KEY", OF_A_RUN[0][0].sub("RUN", name))] = path
    return found


def in_words(path: Path) -> str:
    """What a file says: the sheets of a workbook and the rows of a database, and not their order on
    the disk.
    """
    content = path.read_bytes()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(path) as opened:
            parts = {name: opened.read(name).decode() for name in sorted(opened.namelist())}
        return "".join(f"{name}: {text}" for name, text in parts.items())
    if content.startswith(b"SQLite"):
        with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as opened:
            return "\n".join(opened.iterdump())
    return content.decode(errors="surrogateescape")


def less_the_run(path: Path, place: Path) -> bytes:
    """A file without where and when it was made and how long that took."""
    text = in_words(path).replace(str(place.resolve()), "PLACE")
    for pattern, word in OF_A_RUN:
        text = pattern.sub(word, text)
    return text.encode(errors="surrogateescape")


def compare(places: dict[str, Path]) -> dict[str, Any]:
    """How many files are the same under every engine, and the names of those that are not."""
    of = {engine: contents(place) for engine, place in places.items()}
    names = sorted({name for files in of.values() for name in files})
    same, same_but_for_time, differ = 0, [], []
    for name in names:
        there = {engine: files[name] for engine, files in of.items() if name in files}
        is_there = len(there) == len(of)
        if is_there and len({path.read_bytes() for path in there.values()}) == 1:
            same += 1
        elif is_there and len({less_the_run(path, places[e]) for e, path in there.items()}) == 1:
            same_but_for_time.append(name)
        else:
            differ.append(name)
    return {
        "files": len(names), "same": same, "same_but_for_time": same_but_for_time,
        "differ": differ,
    }  # fmt: skip


class Given(NamedTuple):
    """What the studies of an engine are given."""

    root: Path
    options: list[str]
    where: Workplace

    def policy(self) -> str:
        """A policy of the sweep, which is the first study."""
        found = sorted((self.root / "sweep" / "local").rglob("policy.json"))
        return str(found[0].parent) if found else ""


def run_study(study: str, place: Path, given: Given) -> None:
    """Run a study on one engine, unless it is there."""
    if is_done(place):
        return
    shutil.rmtree(place, ignore_errors=True)
    if study in CALLS:
        place.mkdir(parents=True)
        CALLS[study](place / "files", given.where, given.root / "cities")
    else:
        text = COMMANDS[study].format(city=given.root / "city", policy=given.policy())
        run_command(text, given.options, place / "files")
    (place / "done").write_text(this_machine().code)


def is_done(place: Path) -> bool:
    """Whether a study is there, of the code as it is now: engines are held against each other."""
    done = place / "done"
    return done.exists() and done.read_text() == this_machine().code


def engines(address: str, root: Path) -> dict[str, Given]:
    """What is given by engine."""
    one, two = ["--engine", "ray", "--workers", "2"], ["--engine", "ray", "--address", address]
    return {
        "local": Given(root, ["--workers", "2"], Workplace(n_workers=2)),
        "Ray, one node": Given(root, one, Workplace("ray", "", 2)),
        "Ray, two nodes": Given(root, two, Workplace("ray", address)),
    }


def place_of(root: Path, study: str, engine: str) -> Path:
    """Where a study of an engine is done."""
    return root / study.replace(" ", "-") / engine.replace(", ", "-").replace(" ", "-")


def start_two_nodes(root: Path, room: str, port: int) -> None:
    """Start a head and a second node on this machine."""
    own = ("--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={room}")
    ray_start(root, *own)
    ray_start(root, f"--address=127.0.0.1:{port}")


def main(arguments: list[str]) -> int:
    """Run all studies on all engines; 1 where a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="studies by name; all if not given")
    given = parser.parse_args(arguments)
    make_token()
    root = given.folder.resolve()
    if not (root / "city").exists():
        processes = [get_domain(slug).process for slug in DOMAINS]
        build_city(
            processes, "small", 7, "strong", "scarce", workers=1, out=root / "city",
            date_from=date(2023, 1, 1), date_to=date(2026, 1, 1),
        )  # fmt: skip
    stamp = this_machine()
    kept = read_json(given.out) if given.out.exists() else {}
    rows = kept.get("studies", {}) if kept.get("numerics") == stamp.numerics else {}
    room, port = tempfile.mkdtemp(prefix="p311ray"), free_port()
    studies = given.only or [*COMMANDS, *CALLS]
    all_engines = engines(f"127.0.0.1:{port}", root)
    places = {
        study: {engine: place_of(root, study, engine) for engine in all_engines}
        for study in studies
    }
    try:
        if not all(is_done(place) for of in places.values() for place in of.values()):
            start_two_nodes(root, room, port)
        for study in studies:
            for engine, one in all_engines.items():
                print(study, engine, flush=True)
                run_study(study, places[study][engine], one)
            found = compare({name: one / "files" for name, one in places[study].items()})
            rows[study] = {"code": stamp.code, **found}
            print(json.dumps(rows[study]), flush=True)
            said = {
                "numerics": stamp.numerics, "engines": list(all_engines), "left_out": MEASURED,
                "studies": {name: rows[name] for name in (*COMMANDS, *CALLS) if name in rows},
            }  # fmt: skip
            given.out.write_text(json.dumps(said, indent=1) + "\n")
    finally:
        end_processes(room)
    return int(any(row["differ"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
