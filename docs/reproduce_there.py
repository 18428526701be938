"""Both programmes of a reproduction on a machine with many cores and a GPU, in so many minutes.

    python -m docs.reproduce_there small --out DIR --minutes 9
    python -m docs.reproduce_there nyc --domains boiler,elevator,heat,snad --out DIR --minutes 14

How the kept runs were made. What was prepared before is used; batches of many agents train on the
GPU, the rest on the cores; the reports of both programmes are written twice, so that each has the
other beside it. A domain whose agents are not all trained when the time is up is left out, and the
page says so. DIR gets one small archive a programme, which `python -m docs.reproduction` keeps; it
is written after the first reports and again after the second.

What it takes: small's 88 jobs were trained in 228 s on one GPU and 16 cores. All twelve domains of
nyc are 4.5 times as many agent-steps, so about 20 minutes; cities and reports come on top. With ten
minutes a call:

    python -m docs.reproduce_there nyc --stages prepare --out DIR --minutes 9
    python -m docs.reproduce_there nyc --stages train --out DIR --minutes 9     # three times
    python -m docs.reproduce_there nyc --stages report --out DIR --minutes 9
    python -m docs.reproduction DIR/reproduction-nyc-*.tar.gz && make docs

A city is built with the domains that are asked for alone; ask for the same in every call.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docs.reproduction import KEPT
from parity311.city.build import build_city
from parity311.domains import all_domains
from parity311.studies.reproduction.jobs import read_plan, write_plan
from parity311.studies.reproduction.prepare import FACTS, SCORE, city_folder
from parity311.studies.reproduction.programme import PROGRAMMES
from parity311.studies.reproduction.protocols import RECORDS_TO, SCENARIOS, TRAIN_FROM
from parity311.studies.reproduction.reproduce import STAGES, ReproduceConfig
from parity311.studies.reproduction.train_stage import TRAINED, is_trained

SEEDS = {"small": 841, "nyc": 842}
ON_GPU = "*/grid,strong/boiler/*,strong/heat/*"
"""Jobs of 30 agents and more: a core would need minutes for each."""
REPORT_SHARE = 0.4
"""Share of the time that is left for playing and judging."""
TRAIN_STAGE = "parity311.studies.reproduction.train_stage"
LEAST_S = 40.0
"""A round of training is not begun with less."""
CPU, GPU = {"JAX_PLATFORMS": "cpu"}, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
LATE = "not all its agents were trained in the time there was."


def start(arguments: list[str], extra: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start one command of ours; what it says goes to a log."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments], env={**os.environ, **extra}, stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip


def wait(running: dict[str, subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for all of them so long, then end those that still run; say how each ended."""
    until = time.monotonic() + seconds
    for name, process in running.items():
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        print(f"{name}: exit {process.returncode}", flush=True)


def build_cities(preset: str, domains: list[str], n_workers: int) -> None:
    """Build both cities at once, each with a process a domain; one that is there is left alone."""
    processes = [one.process for slug, one in all_domains().items() if slug in domains]

    def build(scenario: str) -> None:
        participation, capacity = SCENARIOS[scenario]
        folder = city_folder(Path("cities"), preset, SEEDS[preset], scenario)
        if not folder.exists():
            build_city(
                processes, preset, SEEDS[preset], participation, capacity, TRAIN_FROM, RECORDS_TO,
                folder, workers=max(n_workers // len(SCENARIOS), 1),
            )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        list(pool.map(build, SCENARIOS))


def prepare(configs: list[ReproduceConfig], runs: Path, n_workers: int, seconds: float) -> None:
    """Prepare every programme that has no plan yet; what records say is the same for all."""
    for config in configs:
        share_facts(configs[0].folder(runs), config.folder(runs))
        if not (config.folder(runs) / "learn" / "plan.json").exists():
            call = [*command(config, "prepare", runs), "--workers", str(n_workers)]
            name = f"prepare {config.programme}"
            wait({name: start(call, CPU, runs / f"{config.programme}.log")}, seconds)


def share_facts(prepared: Path, folder: Path) -> None:
    """Give a programme the facts of the records that another one has read."""
    for path in (prepared / SCORE / FACTS).glob("*.json"):
        target = folder / SCORE / FACTS / path.name
        if not path.name.startswith("split-") and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def command(config: ReproduceConfig, stage: str, runs: Path) -> list[str]:
    """The command of a stage."""
    return [
        "parity311", "reproduce", "--preset", config.preset, "--seed", str(config.seed),
        "--programme", config.programme, "--stage", stage, "--runs", str(runs), "--json",
        *(["--domains", ",".join(config.domains)] if config.domains else []),
    ]  # fmt: skip


def train(configs: list[ReproduceConfig], runs: Path, n_workers: int, seconds: float) -> None:
    """Train all programmes at once, the large batches on the GPU, and bring them together.

    What a GPU did not finish (it may be full) is left to the cores, if there is time.
    """
    until = time.monotonic() + seconds
    each = str(max(n_workers // len(configs), 1))
    for round_ in (("cores", "gpu"), ("cores alone",)):
        running = {}
        for config in configs:
            learn, log = config.folder(runs) / "learn", runs / f"{config.programme}.log"
            left = until - time.monotonic()
            own = [TRAIN_STAGE, str(learn), "--slice-s", f"{left:.0f}"]
            there = ["--out", str(learn / "there"), "--checkpoints", str(learn / "checkpoints-gpu")]
            calls = {
                "cores": ([*own, "--skip", ON_GPU, "--workers", each], CPU),
                "cores alone": ([*own, "--workers", each], CPU),
                "gpu": ([*own, "--only", ON_GPU, "--workers", "3", *there], GPU),
            }
            for place in round_ if left > LEAST_S and untrained(learn) else ():
                name = f"train {config.programme} on {place}"
                running[name] = start(*calls[place], log)
        wait(running, max(until - time.monotonic(), 0.0) + LEAST_S)
        for config in configs:
            gather(config.folder(runs) / "learn")


def gather(learn: Path) -> None:
    """Bring together what was trained in two places."""
    (learn / TRAINED).mkdir(exist_ok=True)
    for path in (learn / "there").glob("*.safetensors"):
        shutil.move(path, learn / TRAINED / path.name)


def untrained(learn: Path) -> set[str]:
    """Domains of which some agent is not trained."""
    _, jobs = read_plan(learn)
    return {job.domain for job in jobs if not is_trained(job, learn, learn / TRAINED)}


def leave_out_untrained(learn: Path) -> list[str]:
    """Take domains that are not whole out of the plan, with the reason; their names."""
    about, jobs = read_plan(learn)
    late = untrained(learn)
    if late:
        untested = {**about.get("untested", {}), **dict.fromkeys(sorted(late), LATE)}
        rest = {k: v for k, v in about.items() if k not in ("plan_version", "untested")}
        kept = [job for job in jobs if job.domain not in late]
        write_plan(learn, kept, **rest, untested=untested)
    return sorted(late)


def report(
    configs: list[ReproduceConfig], runs: Path, out: Path, n_workers: int, seconds: float
) -> None:
    """Write the reports of all programmes at once, and pack the newest run of each."""
    running = {}
    for config in configs:
        each = str(max(n_workers // len(configs), 1))
        call = [*command(config, "report", runs), "--workers", each]
        running[f"report {config.programme}"] = start(call, CPU, runs / f"{config.programme}.log")
    wait(running, seconds)
    for run in newest_runs(runs).values():
        pack(run, out)


def newest_runs(runs: Path) -> dict[tuple[str, str], Path]:
    """The last run of each preset and programme."""
    found = {}
    for path in sorted(runs.glob("*/run.json"), key=lambda one: one.stat().st_mtime):
        config = json.loads(path.read_text())["config"]
        if "programme" in config:
            found[config["preset"], config["programme"]] = path.parent
    return found


def pack(run: Path, out: Path) -> Path:
    """What is kept of a run, as one archive."""
    config = json.loads((run / "run.json").read_text())["config"]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"reproduction-{config['preset']}-{config['programme']}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in KEPT:
            archive.add(run / name, name)
    return path


def main(arguments: list[str]) -> int:
    """Prepare what is not prepared, train, report twice; or some of it, and go on later."""
    parser = argparse.ArgumentParser(description="Run both programmes on a machine with a GPU.")
    parser.add_argument("preset", choices=sorted(SEEDS))
    parser.add_argument("--domains", default="")
    parser.add_argument("--programmes", default=",".join(PROGRAMMES))
    parser.add_argument("--stages", default=",".join(STAGES), help="what to do in this call")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    began, runs = time.monotonic(), Path("runs")
    left = lambda: max(60.0 * given.minutes - (time.monotonic() - began), 1.0)  # noqa: E731
    runs.mkdir(exist_ok=True)
    domains = tuple(slug for slug in given.domains.split(",") if slug)
    configs = [
        ReproduceConfig(given.preset, SEEDS[given.preset], domains, programme)
        for programme in given.programmes.split(",")
    ]
    stages = given.stages.split(",")
    tell = lambda what: print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)  # noqa: E731
    plans = [config.folder(runs) / "learn" / "plan.json" for config in configs]
    if "prepare" in stages and not all(plan.exists() for plan in plans):
        build_cities(given.preset, [*(domains or all_domains())], given.workers)
        tell("cities")
        prepare(configs, runs, given.workers, left())
        tell("prepared")
    if "train" in stages:
        share = 1.0 - REPORT_SHARE if "report" in stages else 0.9
        train(configs, runs, given.workers, share * left())
        tell("trained")
    # What a call did not train the next one may; it is left out only where the report is written.
    for config in configs if "report" in stages else ():
        leave_out_untrained(config.folder(runs) / "learn")
    for _ in configs if "report" in stages else ():
        report(configs, runs, given.out, given.workers, left())
        tell("reported")
    given.out.mkdir(parents=True, exist_ok=True)
    for config in configs:
        log = runs / f"{config.programme}.log"
        if log.exists():
            shutil.copyfile(log, given.out / f"{given.preset}-{log.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
