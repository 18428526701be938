"""The pictures of the explanations, from kept results; `python -m docs.generate` writes them.

Each says in one look what its page answers; the figures stand in the page's tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from docs import audit_figures, city_years, equity_term, frontier_figures, off_policy_figures
from parity311.report import pictures
from parity311.report.pictures import Axis, Estimate, Series
from parity311.resampling import mean_interval

FOLDER = Path(__file__).resolve().parent / "explanation"
SHOWN_SCENARIO = "strong, scarce"
VERDICTS = {"PASS": "PASS", "FAIL": "FAIL", "INSUFFICIENT": "cannot be told"}
SHOWN_ROWS = {
    "pass_at_parity": "equal service, 5,000 cases",
    "false_fail": "equal service, 2,000 cases",
    "false_fail_at_tau": "a gap just at the limit",
    "power": "a gap of twice the limit",
}


def _estimate(label: str, values: np.ndarray) -> Estimate:
    low, high = mean_interval(values) or (float("nan"), float("nan"))
    return Estimate(label, float(np.mean(values)), low, high)


def draw_arrival() -> str:
    """What a policy was expected to gain, and what it gains in the city, domain by domain."""
    rows = [row for row in city_years.read_rows() if row["scenario"] == SHOWN_SCENARIO]
    series = []
    for name in ("index", "thresholds", "dqn"):
        found = []
        for slug in city_years.DOMAINS:
            own = [row for row in rows if row["domain"] == slug]
            # Where today's rule decided most cases in its place, the lead is not the policy's.
            if city_years.not_its_own(own, name) < city_years.MOSTLY:
                found.append(_estimate(slug, city_years.leads(own, name, "coverage")[0]))
        series.append(Series(city_years.TITLES[name], found))
    return pictures.interval_plot(
        series,
        title="Coverage in the city over today's rule, where visits are scarce",
        axis=Axis("difference of coverage", includes=(0.0,)),
    )


def draw_modes() -> str:
    """Visits that agents learn to make under each way to pay for equity."""
    rows = [
        row for row in json.loads(equity_term.KEPT.read_text())["rows"] if row["domain"] == "boiler"
    ]
    series = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        found = [
            Estimate(
                f"weight {row['weight']:g}",
                float(np.mean(row["visits_as_learned"])),
                min(row["visits_as_learned"]),
                max(row["visits_as_learned"]),
            )
            for row in rows
            if row["mode"] == mode
        ]
        series.append(Series(mode, found))
    return pictures.interval_plot(
        series,
        title="Visits per filing that an agent learns to make, by weight of equity (boiler)",
        axis=Axis("visits per filing, lowest to highest seed", includes=(0.0,)),
    )


def draw_verdicts() -> str:
    """How often each verdict is given, by what is true."""
    shares = audit_figures.kept("audit")["shares"]
    series = [
        Series(words, [Estimate(label, shares[name][state]) for name, label in SHOWN_ROWS.items()])
        for state, words in VERDICTS.items()
    ]
    return pictures.bar_chart(
        series,
        title="Verdicts in simulated cities, by what is true there",
        axis=Axis("share of cities", includes=(1.0,)),
    )


def draw_coverage() -> str:
    """How often an interval of each estimator holds the truth, where the log supports it."""
    kept = json.loads(off_policy_figures.KEPT.read_text())["settings"]
    settings = [one for one in kept if one["kind"] == off_policy_figures.SUPPORTED]
    found = []
    for row in settings[0]["estimators"]:
        name = row["estimator"]
        own = [r for one in settings for r in one["estimators"] if r["estimator"] == name]
        hits = sum(round(r["coverage"] * r["n_answered"]) for r in own if r["n_answered"])
        n = sum(r["n_answered"] for r in own)
        low, high = off_policy_figures.share_interval(hits, n)
        found.append(Estimate(name, hits / n, low, high))
    return pictures.interval_plot(
        [Series("share of logs", found)],
        title="Logs whose 95 % interval holds the true value, where support holds",
        axis=Axis("share of logs", includes=(0.9, 0.95, 1.0)),
    )


def draw_prices() -> str:
    """What a gap costs in boiler, beside the least that anybody could give up for it."""
    kept = json.loads(frontier_figures.KEPT.read_text())["cities"]
    own = [one for one in kept if one["domain"] == kept[0]["domain"]]
    prices, floors = [], []
    for place, row in enumerate(own[0]["price_curve"]):
        rows = [one["price_curve"][place] for one in own]
        label = f"gap at most {row['gap']:g}"
        paid = [100 * r["price"]["value"] for r in rows if r["price"] is not None]
        least = [100 * r["floor"] for r in rows if r["floor"] is not None]
        if len(paid) > 1 and len(least) > 1:
            prices.append(_estimate(label, np.array(paid)))
            floors.append(_estimate(label, np.array(least)))
    return pictures.interval_plot(
        [Series("price of the menu", prices), Series("floor", floors)],
        title="Correct escalations given up for a gap, at about today's visits (boiler)",
        axis=Axis("per cent", includes=(0.0,)),
    )


PICTURES: dict[str, Callable[[], str]] = {
    "city-years.svg": draw_arrival,
    "equity-term.svg": draw_modes,
    "audit.svg": draw_verdicts,
    "off-policy.svg": draw_coverage,
    "frontier.svg": draw_prices,
}


def stale_pictures(folder: Path = FOLDER) -> dict[str, str]:
    """Pictures that are not as the kept results draw them, by name."""
    drawn = {name: draw() for name, draw in PICTURES.items()}
    return {
        name: text
        for name, text in drawn.items()
        if not (folder / name).exists() or (folder / name).read_text() != text
    }
