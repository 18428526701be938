"""Every domain's cycle on one small city: the figures of `docs/results/cycle-small.json`.

    python -m docs.cycle_figures FOLDER [--domains heat,snad] [--part 1/2]   run what is not there
    python -m docs.cycle_figures FOLDER --domains heat --episodes 1024       with a longer trial
    python -m docs.cycle_figures FOLDER --keep                               keep what there is

Records are those of the synthetic city small 7 under strong participation and scarce capacity.
Each domain's thresholds are made twice: without weight on equity (α₃ = 0) and with half of it.
Episodes of the trial are as `parity311 cycle` plays them, and no cycle reads the truth. Beside what
it decided stands what the same policy does in the true process of the last year: whether the gap is
real. Where a cycle said that more episodes would settle it, a longer trial is a row of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.audit.spec import AuditSpec
from parity311.city.build import build_city
from parity311.domains import all_domains
from parity311.evaluation.compare import hold_contender
from parity311.evaluation.rollout import evaluate
from parity311.lifecycle import trial
from parity311.lifecycle.calibrating import world_of
from parity311.lifecycle.cycle import REFUSED, run_cycle
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.learning import Learner, contender_of
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.steps import DoneStep, read_step
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.records.store import open_records
from parity311.storage.strict_json import write_json

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "cycle-small.json"
SEED, RULE = 7, "dual_threshold"
WEIGHTS = (0.5, 0.0)
COLUMNS = ("outcome", "verdict", "version", "reasons", "denominators", "trial", "action_set")
SCORED_FROM = date(2025, 1, 1)
"""First day of the year whose true process the policies are played in."""
N_BOOTSTRAPS = 2_000


def run_all(folder: Path, domains: Sequence[str], part: str, n_episodes: int = 0) -> None:
    """Run each cycle that has no file yet, with so many episodes of the trial if not 0."""
    city = folder / "city"
    if not city.exists():
        processes = [one.process for one in all_domains().values()]
        build_city(processes, "small", SEED, "strong", "scarce", workers=1, out=city)
    number, of = (int(one) for one in part.split("/"))
    tasks = [(slug, weight) for weight in WEIGHTS for slug in domains]
    for slug, weight in tasks[number - 1 :: of]:
        name = f"{slug}-{weight}-{n_episodes}" if n_episodes else f"{slug}-{weight}"
        path = folder / f"{name}.json"
        if path.exists():
            continue
        database = str(folder / f"{name}.db")
        config = CycleConfig(slug, RULE, equity=weight, n_episodes=n_episodes)
        found = run_cycle(config, city, database=database, out=folder / "cycles", by="Study")
        verified = Registry(database).verify()
        plain = {name: found.get(name) for name in COLUMNS}
        seconds = {one["step"]: one["seconds"] for one in found["steps"]}
        write_json(
            path,
            {"domain": slug, "equity": weight, "episodes": n_episodes, **plain,
             "problems": verified.problems, "seconds": seconds,
             "in_truth": play_in_truth(config, city, folder, found)},
        )  # fmt: skip
        print(f"{slug}, {weight}: {found['outcome']}", flush=True)


def play_in_truth(
    config: CycleConfig, city: Path, folder: Path, found: dict[str, Any]
) -> dict[str, Any] | None:
    """Coverage by quintile in the true process, and the gap between them; None without a policy."""
    done = {
        one["step"]: folder / "cycles" / config.domain / one["folder"] for one in found["steps"]
    }
    if "train" not in done:
        return None
    records, domain = open_records(city, config.term.strata), all_domains()[config.domain]
    propensity, denominators, trained = (
        _read(done[name]) for name in ("propensity", "denominators", "train")
    )
    learner = Learner(domain, records, config, propensity)
    estimated = learner.params(denominators)
    world = replace(world_of(domain, records, propensity, config), test_from=SCORED_FROM)
    cases = domain.play.cases
    table = None if cases is None else cases(estimated)
    policy = hold_contender(learner.harness, table, contender_of(learner, denominators, trained))
    n_episodes = trial.EPISODES if table is None else trial.INDEPENDENT_EPISODES
    keys = jax.random.split(jax.random.key(1), n_episodes)
    equity = learner.harness.equity_params(estimated)
    tally = evaluate(learner.harness, world.true, [policy], keys, equity=equity).tally
    served, need = (
        np.asarray(one, np.float64)[0, :, :N_KNOWN_STRATA]
        for one in (tally.correct, tally.actionable)
    )
    counts = np.random.default_rng(0).multinomial(
        n_episodes, np.full(n_episodes, 1.0 / n_episodes), N_BOOTSTRAPS
    )
    # A quintile without any need in these episodes has no rate.
    served, need = (one[:, need.sum(axis=0) > 0] for one in (served, need))
    whole = np.ones((1, n_episodes))
    rates = [(drawn @ served) / np.maximum(drawn @ need, 1e-9) for drawn in (whole, counts)]
    gaps, ratios = zip(*((_gap(one), _ratio(one)) for one in rates), strict=True)
    return {
        "episodes": n_episodes,
        "coverage_by_quintile": rates[0][0].tolist(),
        "gap": float(gaps[0][0]),
        "gap_interval": np.percentile(gaps[1], [2.5, 97.5]).tolist(),
        "ratio": float(ratios[0][0]),
        "ratio_interval": np.percentile(ratios[1], [2.5, 97.5]).tolist(),
    }


def _read(folder: Path) -> DoneStep:
    step = read_step(folder)
    assert step is not None, folder
    return step


def _gap(rates: np.ndarray) -> np.ndarray:
    return rates.max(axis=1) - rates.min(axis=1)


def _ratio(rates: np.ndarray) -> np.ndarray:
    return rates.min(axis=1) / np.maximum(rates.max(axis=1), 1e-9)


def gather(folder: Path, kept: Path = KEPT) -> dict[str, Any]:
    """All that was run, in the domains' order; what has no file here stays as it was kept."""
    before = json.loads(kept.read_text())["cycles"] if kept.exists() else []
    known = {_name_of(row): row for row in before}
    for one in folder.glob("*.json"):
        row = json.loads(one.read_text())
        known[_name_of(row)] = row
    rows = [known[one] for one in sorted(known, key=_place)]
    return {"city": f"small {SEED}, strong, scarce", "agent": RULE, "cycles": rows}


def _name_of(row: dict[str, Any]) -> tuple[str, float, int]:
    """Domain, weight on equity and episodes of the trial, 0 for as many as usual."""
    return row["domain"], row["equity"], row.get("episodes", 0)


def _place(name: tuple[str, float, int]) -> tuple[int, int, int]:
    slug, weight, n_episodes = name
    return list(all_domains()).index(slug), WEIGHTS.index(weight), n_episodes


def cycle_block(kept: Path = KEPT) -> str:
    """How each cycle ended, and why."""
    if not kept.exists():
        return "Not run yet: `python -m docs.cycle_figures FOLDER`, then `--keep`."
    rows = json.loads(kept.read_text())["cycles"]
    n_all = len(WEIGHTS) * len(all_domains())
    lines = [
        "| domain | weight on equity | ended | least of most covered quintile in truth | why |",
        "| --- | ---: | --- | ---: | --- |",
    ]
    n_usual = sum(not row.get("episodes") for row in rows)
    if n_usual < n_all:
        lines = [f"Kept so far: {n_usual} of {n_all} cycles.", "", *lines]
    for row in rows:
        why = "; ".join(row["reasons"]).replace("|", "/")
        longer = f" ({row['episodes']:,} episodes)" if row.get("episodes") else ""
        lines.append(
            f"| {row['domain']} | {row['equity']:g}{longer} | {row['outcome']} | {_in_truth(row)} "
            f"| {why} |"
        )
    return "\n".join([*lines, *say_refusals(rows)])


def say_refusals(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Of cycles without weight on equity: how many were refused, and where the gap is real."""
    played = [row for row in rows if row["equity"] == 0 and row.get("in_truth")]
    if not played:
        return []
    real = [row for row in played if is_real(row["in_truth"])]
    let_by = [row["domain"] for row in real if row["outcome"] != REFUSED]
    others = [row["domain"] for row in played if row["outcome"] == REFUSED and row not in real]
    return [
        "",
        f"{len(played)} domains without weight on equity were played in the truth too. In "
        f"{len(real)} the gap is real, the whole interval beyond what an audit lets pass: "
        f"{len(real) - len(let_by)} of these were refused (not refused: "
        f"{', '.join(let_by) or 'none'}), and {len(others)} of the others "
        f"({', '.join(others) or 'none'}).",
    ]


def is_real(played: dict[str, Any], spec: AuditSpec = AuditSpec()) -> bool:
    """Whether the true gap is beyond what an audit lets pass, for the whole of its interval."""
    rates = played["coverage_by_quintile"]
    if sum(rates) / len(rates) < spec.ratio_below:
        return played["ratio_interval"][1] < spec.smallest_ratio
    return played["gap_interval"][0] > spec.tau


def _in_truth(row: dict[str, Any]) -> str:
    """The true ratio of the lowest to the highest coverage, where it was played."""
    played = row.get("in_truth")
    if not played:
        return "not played"
    if not max(played["coverage_by_quintile"]):
        return "none is covered"
    low, high = (100 * one for one in played["ratio_interval"])
    return f"{100 * played['ratio']:.0f} % [{low:.0f}, {high:.0f}]"


def main(arguments: Sequence[str]) -> None:
    """Run, or keep what was run."""
    folder, *rest = arguments
    if "--keep" in rest:
        write_json(KEPT, gather(Path(folder)))
        return
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    domains = given["--domains"].split(",") if "--domains" in given else list(all_domains())
    run_all(Path(folder), domains, given.get("--part", "1/1"), int(given.get("--episodes", "0")))


if __name__ == "__main__":
    main(sys.argv[1:])
