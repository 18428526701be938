"""How often off-policy intervals hold the truth: the figures of `docs/explanation/off-policy.md`.

    python -m docs.off_policy_figures FOLDER [SETTING ...]   validate, in small cities (minutes)

FOLDER is where synthetic cities are kept or built. Seeds that nobody looked at before: 831 writes
the logs that are validated, 1501 those of whole episodes, after what is refused had been settled
elsewhere; 831 to 835 are the cities whose recorded decisions are backtested against what really
would have been found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from parity311.evaluation.off_policy.validate import (
    COVERAGE_RANGE,
    DESIGN_BASED,
    SETTINGS,
    SUPPORTED,
    WHOLE,
    choose_settings,
    judge,
    share_interval,
    true_params_of,
    validate,
)

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "off-policy.json"
PEERS = ROOT / "benchmarks" / "results" / "off_policy_peers.json"
LOG_SEED = 831
WHOLE_SEED = 1501
CITY_SEEDS = (831, 832, 833, 834, 835)
BACKTESTED = ("boiler", "complaint_triage", "drainage", "snad")
"""Domains whose records hold one decision a complaint."""
POLICIES = ("always", "random", "score", "expert")
ESTIMATED_BY = ("doubly_robust", "self_normalised", "fitted_q")
SHOWN_WHOLE = ("self_normalised", "doubly_robust", "fitted_q", "direct")
"""Estimators shown over whole episodes; the file has all of them."""
GAMMAS = (1.25, 1.5, 2.0)
"""How strong a hidden reason the recorded decisions are allowed, to see which holds the truth."""


def build(folder: Path, seed: int) -> Path:
    """The small city of a seed; built if it is not there."""
    from parity311.city.build import build_city
    from parity311.domains import all_domains

    out = folder / f"city{seed}"
    if out.is_dir():
        return out
    processes = tuple(domain.process for domain in all_domains().values())
    return build_city(
        processes,
        preset="small",
        seed=seed,
        participation="strong",
        capacity="calibrated",
        out=out,
    )


def backtest_city(city: Path, seed: int) -> list[dict[str, Any]]:
    """Rules of every backtested domain on a city's records, with the truth beside them."""
    from parity311.evaluation.off_policy.backtest import prepare_backtest, run_backtest
    from parity311.evaluation.off_policy.estimate import Options
    from parity311.evaluation.off_policy.records_truth import true_recorded_value

    rows = []
    for slug in BACKTESTED:
        test = prepare_backtest(slug, city, POLICIES)
        assert test.agency is not None
        preference = np.asarray(test.harness.domain.preference)
        found = run_backtest(test, Options(propensities="logistic", estimators=ESTIMATED_BY))
        for one, told in zip(test.candidates, found["policies"], strict=True):
            truth = true_recorded_value(city, slug, test.agency, one.target, preference)
            about = {
                "seed": seed,
                "domain": slug,
                "policy": one.name,
                "truth": truth["correct"],
                "logged": found["logged"]["correct"]["value"],
            }
            bounds = [] if told["is_refused"] else _bounds(test.logs, one.target)
            for row in told["estimators"]:
                figures = row["by_outcome"]["correct"]
                rows.append({**about, "estimator": row["estimator"], **figures, "bounds": bounds})
    return rows


def _bounds(logs: Any, target: np.ndarray) -> list[dict[str, float]]:
    """Intervals of violations found per case, by strength of a hidden reason."""
    from dataclasses import replace

    from parity311.evaluation.off_policy.propensity import estimate_propensities
    from parity311.evaluation.off_policy.rosenbaum import bound_value

    propensity = estimate_propensities(logs, "logistic").of_actions(logs)
    place = logs.outcome_names.index("correct")
    only = replace(logs, outcome=logs.outcome[..., place : place + 1])
    found = [bound_value(only, target, propensity, gamma) for gamma in GAMMAS]
    return [
        {"gamma": one.gamma, "lower": float(one.lower[0]), "upper": float(one.upper[0])}
        for one in found
    ]


def main(arguments: list[str]) -> int:
    """Validate these settings, or all, and backtest the cities; keep each at once."""
    if not arguments:
        print("error: say where cities are kept: python -m docs.off_policy_figures FOLDER")
        return 2
    folder, names = Path(arguments[0]), arguments[1:]
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"settings": [], "records": []}
    if names != ["records"]:
        order = [one.name for one in SETTINGS]
        for setting in choose_settings(names):
            number = SETTINGS.index(setting)
            city = WHOLE_SEED if setting.kind == WHOLE else LOG_SEED
            params_of = true_params_of(build(folder, city))
            record = validate([setting], seed=city + number, params_of=params_of)[0]
            others = [one for one in kept["settings"] if one["setting"] != setting.name]
            rows = [*others, {"city": city, **record}]
            # What was kept is judged as what is new.
            rows = [one | {"verdict": judge(one)} for one in rows if one["setting"] in order]
            kept["settings"] = sorted(rows, key=lambda one: order.index(one["setting"]))
            _keep(kept)
            print(setting.name, record["verdict"], flush=True)
    if not names or names == ["records"]:
        kept["records"] = []
        for seed in CITY_SEEDS:
            kept["records"] += backtest_city(build(folder, seed), seed)
            _keep(kept)
            print("city", seed, flush=True)
    return 0


def _keep(kept: dict[str, Any]) -> None:
    from parity311.storage.strict_json import to_json

    KEPT.write_text(to_json(kept))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def off_policy_block() -> str:
    """Coverage by setting and estimator, refusals, bounds, and the backtests beside the truth."""
    kept = json.loads(KEPT.read_text())
    settings = [one for one in kept["settings"] if one["kind"] == SUPPORTED]
    names = [row["estimator"] for row in settings[0]["estimators"]]
    lines = ["Where support holds, share of logs whose 95 % interval holds the true value:", ""]
    lines.append("| estimator | " + " | ".join(one["setting"] for one in settings) + " | all |")
    lines.append("| --- | " + "---: | " * (len(settings) + 1))
    for name in names:
        rows = [_row(one, name) for one in settings]
        n = sum(row["n_answered"] for row in rows)
        hits = sum(round(row["coverage"] * row["n_answered"]) for row in rows if row["n_answered"])
        low, high = share_interval(hits, n)
        cells = [_share(row["coverage"]) for row in rows]
        whole = f"{_share(hits / n if n else None)} ({_share(low)} to {_share(high)})"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {whole} |")
    lines += ["", _sizes_line(settings), "", _outside_line(settings)]
    lines += ["", *_strata_lines(settings), "", *_other_lines(kept)]
    lines += ["", *_whole_lines(kept)]
    lines += ["", *_records_lines(kept), "", *_peer_lines()]
    return "\n".join(line.rstrip() for line in lines)


def _row(record: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in record["estimators"] if row["estimator"] == name)


def _sizes_line(settings: list[dict[str, Any]]) -> str:
    parts = [
        f"{one['setting']} {one['n_logs']} logs of {one['n_episodes']:,} × {one['n_steps']}"
        for one in settings
    ]
    return "Logs, episodes and decisions an episode: " + "; ".join(parts) + "."


def _outside_line(settings: list[dict[str, Any]]) -> str:
    """Cells of the table that are not in the range asked for."""
    low, high = COVERAGE_RANGE
    out = [
        f"{one['setting']}, {name} ({_share(_row(one, name)['coverage'])})"
        for one in settings
        for name in DESIGN_BASED
        if not low <= _row(one, name)["coverage"] <= high
    ]
    n = len(settings) * len(DESIGN_BASED)
    told = ": " + "; ".join(out) if out else ""
    return (
        f"Of {n} cells of estimators that rest on logged chances, {len(out)} lie outside "
        f"{low:.0%} to {high:.0%}{told}."
    )


def _strata_lines(settings: list[dict[str, Any]]) -> list[str]:
    """Coverage by stratum, over settings, of the estimators that need only propensities."""
    lines = ["The same by income quintile, over all these settings, where it was answered:", ""]
    lines += ["| stratum | answered | covered |", "| --- | ---: | ---: |"]
    found: dict[str, list[tuple[int, float]]] = {}
    for one in settings:
        for name in DESIGN_BASED:
            for stratum in _row(one, name)["strata"]:
                if stratum["n_answered"]:
                    place = found.setdefault(stratum["stratum"], [])
                    place.append((stratum["n_answered"], stratum["coverage"]))
    for stratum, pairs in sorted(found.items()):
        n = sum(count for count, _ in pairs)
        covered = sum(count * share for count, share in pairs) / n
        lines.append(f"| {stratum} | {n:,} | {_share(covered)} |")
    return lines


def _other_lines(kept: dict[str, Any]) -> list[str]:
    lines = ["Where it does not hold, or hardly, and where something is hidden:", ""]
    lines += [
        "| setting | kind | supported | refused | doubly robust covers, where answered | verdict |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for one in kept["settings"]:
        if one["kind"] in (SUPPORTED, WHOLE):
            continue
        row = _row(one, "doubly_robust")
        lines.append(
            f"| {one['setting']} | {one['kind']} | {_share(one['supported_share'])} | "
            f"{_share(row['refused'])} | {_share(row['coverage'])} | {one['verdict']} |"
        )
        if "bounds" in one:
            bounds = one["bounds"]
            lines += [
                f"| {one['setting']}: bounds at Γ = {bounds['gamma']:g} | {one['kind']} | | | "
                f"{_share(bounds['at_true_gamma'])} (Γ = 1: {_share(bounds['without'])}) | |"
            ]
    return lines


def _whole_lines(kept: dict[str, Any]) -> list[str]:
    """Whole episodes: how often each estimator answers and covers, with and without refusals."""
    whole = [one for one in kept["settings"] if one["kind"] == WHOLE]
    if not whole:
        return []
    lines = [
        "Over whole episodes; covered where answered, then, in brackets, by the same estimator "
        "if it never refused:",
        "",
        "| setting | city | decisions | effective episodes | spread rests on | "
        + " | ".join(f"{name}: answered, covered" for name in SHOWN_WHOLE)
        + " | verdict |",
        "| --- | ---: | ---: | ---: | ---: | " + "---: | " * len(SHOWN_WHOLE) + "--- |",
    ]
    for one in whole:
        rows = [_row(one, name) for name in SHOWN_WHOLE]
        cells = [
            f"{1 - row['refused']:.0%}, {_share(row['coverage'])} "
            f"({_share(row['coverage_unrefused'])})"
            for row in rows
        ]
        row = _row(one, "doubly_robust")
        spread = row.get("spread_episodes")
        lines.append(
            f"| {one['setting']} | {one.get('city', LOG_SEED)} | {one['n_steps']} | "
            f"{row['effective_size']:.0f} of {one['n_episodes']} | "
            f"{'–' if spread is None else f'{spread:.0f}'} | "
            + " | ".join(cells)
            + f" | {one['verdict']} |"
        )
    n_logs = sorted({one["n_logs"] for one in whole})
    lines += ["", f"{' and '.join(str(n) for n in n_logs)} logs of each setting."]
    return lines


def _records_lines(kept: dict[str, Any]) -> list[str]:
    """Backtests on the recorded decisions of synthetic cities, against what was there to find."""
    if not kept["records"]:
        return []
    n_cities = len({x["seed"] for x in kept["records"]})
    wide = " | ".join(f"bounds at Γ {gamma:g} hold it" for gamma in GAMMAS)
    lines = [
        f"Four rules ({', '.join(POLICIES)}) backtested on the recorded decisions of {n_cities} "
        "synthetic cities; violations found in time per case, propensities estimated:",
        "",
        "| domain | estimator | answered | refused | covered if nothing were hidden | error, "
        f"relative | {wide} |",
        "| --- | --- | ---: | ---: | ---: | ---: | " + "---: | " * len(GAMMAS),
    ]
    for slug in BACKTESTED:
        for name in ESTIMATED_BY:
            mine = [x for x in kept["records"] if (x["domain"], x["estimator"]) == (slug, name)]
            told = [x for x in mine if x["value"] is not None and x["bounds"]]
            held = [_alone(x, "lower") <= x["truth"] <= _alone(x, "upper") for x in told]
            error = sum(x["value"] - x["truth"] for x in told)
            relative = error / max(sum(x["truth"] for x in told), 1e-9)
            lines.append(
                f"| {slug} | {name} | {len(told)} | {len(mine) - len(told)} | "
                f"{_share(sum(held) / len(held) if held else None)} | "
                f"{f'{100 * relative:+.1f} %' if told else '–'} | "
                + " | ".join(_share(_held_at(told, i)) for i in range(len(GAMMAS)))
                + " |"
            )
    return lines


def _alone(row: dict[str, Any], end: str) -> float:
    """An end of the interval that allows for nothing hidden."""
    return row.get(f"{end}_at_gamma_1", row[end])


def _held_at(told: list[dict[str, Any]], place: int) -> float | None:
    """Share of backtests whose bounds at one Γ hold the truth."""
    inside = [
        x["bounds"][place]["lower"] <= x["truth"] <= x["bounds"][place]["upper"] for x in told
    ]
    return sum(inside) / len(inside) if inside else None


def _peer_lines() -> list[str]:
    """Largest difference from scope-rl, by estimator."""
    rows = json.loads(PEERS.read_text())
    parts = []
    for name in dict.fromkeys(row["estimator"] for row in rows):
        mine = [row for row in rows if row["estimator"] == name]
        worst = max(row["relative_difference"] for row in mine)
        parts.append(f"{name} {worst:.1e} ({mine[0]['peer'].split('.')[-1]})")
    logs = len(rows) // len(parts)
    return [
        f"Largest relative difference from scope-rl's estimators on the same {logs} logs: "
        f"{', '.join(parts)}."
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
