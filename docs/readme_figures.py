"""What README says came out, and its one picture: from results that are kept.

    python -m docs.readme_figures    draw the picture; the words are written by docs.generate

Twenty cities nobody had looked at (docs/results/parity.json): the learned rule with prices, as
validation chose it, beside today's rule, scored under the truth on the same simulated years. What
holds where areas call about alike is read from docs/results/city-years.json; what the learned rule
came to in the city itself from docs/results/parity-in-city.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from docs.parity_figures import KEPT, LEARNED, ROOT, over_cities, pick, read
from docs.parity_in_city import DUAL, FEWEST, of_domain, pairs
from docs.parity_in_city import LEARNED as PRICED
from parity311.domains import get_domain
from parity311.report import pictures
from parity311.report.pictures import Axis, Estimate, Series

PICTURE = ROOT / "docs" / "what-came-out.svg"
CITY_YEARS = ROOT / "docs" / "results" / "city-years.json"
PICTURE_WIDTH = 480
"""Units across: few, so that its words can be read on a phone."""
DOMAINS = ("heat", "elevator", "housing", "boiler")
"""In the order of the table: complaints first, filings last."""
FAR_OFF = 1.5
"""Factor between what today's rule covers in the process and in the city from which on the process
is no picture of the city: what it says of that domain is no headline."""
ALIKE = "measured, calibrated"
UNEQUAL = "strong, scarce"
PAID = "dqn_equity"
"""The learned rule of city-years.json that is paid for coverage: trained without settled prices."""


def figures(slug: str) -> dict[str, Any]:
    """One domain over its cities: mean and 95 % interval between cities of every figure."""
    found = [one for one in read(KEPT) if one["domain"] == slug]
    today, learned = pick(found, policy="balanced"), pick(found, policy=LEARNED)
    pairs = list(zip(today, learned, strict=True))

    def change(name: str) -> tuple[float, float, float]:
        return over_cities([own[name] / other[name] - 1.0 for other, own in pairs])

    return {
        "n": len(pairs),
        "years": found[0]["config"]["n_years"],
        "today": over_cities([row["gap"]["value"] for row in today]),
        "learned": over_cities([row["gap"]["value"] for row in learned]),
        "found": change("correct_a_year"),
        "visits": change("visits_per_complaint"),
        "narrower": sum(own["gap"]["value"] < other["gap"]["value"] for other, own in pairs),
        "covers": float(np.mean([np.mean(row["coverage"]) for row in today])),
        "covers_in_city": _today_in_city(slug),
    }


def _today_in_city(slug: str) -> float | None:
    """What today's rule covers in the city itself where visits are scarce; None if not played."""
    rows = [
        one["coverage"]
        for row in json.loads(CITY_YEARS.read_text())["rows"]
        if row["domain"] == slug and row["scenario"] == UNEQUAL
        for one in row["policies"]
        if one["policy"] == "today's rule"
    ]
    return float(np.mean(rows)) if rows else None


def is_far_off(one: dict[str, Any]) -> bool:
    """Whether the process covers under today's rule what the city by no means does."""
    there = one["covers_in_city"]
    return there is not None and not 1.0 / FAR_OFF <= one["covers"] / there <= FAR_OFF


def came_out_block(docs: str = "docs/", has_table: bool = True) -> str:
    """Sentences, picture and table of README; `docs` is the way from the page to the docs."""
    of = {slug: figures(slug) for slug in DOMAINS}
    believed = {slug: one for slug, one in of.items() if not is_far_off(one)}
    played = [slug for slug, one in believed.items() if one["covers_in_city"] is not None]
    n = min(one["n"] for one in of.values())
    years = min(one["years"] for one in of.values())
    shown, bounds = ("table", "in brackets") if has_table else ("picture", "bars are")
    lines = [
        "Tried in made-up cities nobody had looked at, where rich areas call far more often and "
        "visits are few. Of 100 problems, a visit finds more in some areas than in others. The "
        "*gap* is how many more, in the best served fifth by income than in the worst.",
        "",
        *(f"- {_say_domain(slug, of[slug])}" for slug in played),
        *(f"- {_say_far_off(slug, one, shown)}" for slug, one in of.items() if is_far_off(one)),
        f"- {_say_alike()}",
        "",
        f"![Gap under today's rule and under the learned rule]({docs}{PICTURE.name})",
        "",
    ]
    if has_table:
        lines += [*_table(of), ""]
    lines.append(
        f"The {shown} has more cities ({n}), {years} years or more of each, in a simpler process "
        f"that runs on the city's true figures; {bounds} 95 % intervals between cities. "
        f"[How it was measured, and where the two differ]({docs}explanation/price-of-parity.md)."
    )
    return "\n".join(lines)


def _say_far_off(slug: str, one: dict[str, Any], shown: str) -> str:
    """Why a domain's figures are no headline."""
    return (
        f"**{get_domain(slug).title}**: do not rely on what the {shown} says. Under today's rule "
        f"its process finds {100 * one['covers']:.1f} of 100 problems, the made-up city itself "
        f"{100 * one['covers_in_city']:.1f}."
    )


def _table(of: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| domain | gap, today's rule | gap, learned rule | found, against today's rule | visits | "
        "smaller gap in | today's rule finds, of 100: here, in the city |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for slug, one in of.items():
        cells = [
            get_domain(slug).title,
            _points(one["today"], True),
            _points(one["learned"], True),
            _percent(one["found"]),
            _percent(one["visits"]),
            f"{one['narrower']} of {one['n']} cities",
            f"{100 * one['covers']:.1f}, {_of_hundred(one['covers_in_city'])}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _of_hundred(share: float | None) -> str:
    return "not played" if share is None else f"{100 * share:.1f}"


def _say_domain(slug: str, one: dict[str, Any]) -> str:
    """What came out in a domain: in the city itself where it was played, else in the process."""
    title, found = get_domain(slug).title, of_domain(slug)
    if len(found) < FEWEST:
        return (
            f"**{title}**: the gap falls from **{_points(one['today'])} to "
            f"{_points(one['learned'])} points**, {_found(one['found'])}, {_visits(one)}. It was "
            "not played day by day."
        )
    before, after, unlearned = (
        over_cities([one["in_city"][name]["gap"] for one in found])
        for name in ("today's rule", PRICED, DUAL)
    )
    noise = 100 * np.mean([one["in_city"][PRICED]["noise"] for one in found])
    mean, low, high = (
        100 * end for end in over_cities(list(pairs(found, PRICED, "overall", "in_city")))
    )
    more = f"finding {abs(mean):.1f} of 100 problems {'more' if mean > 0 else 'fewer'}"
    return (
        f"**{title}**: the learned rule cuts the gap from **{_points(before)} to {_points(after)} "
        f"points**, {'finding as much' if low <= 0.0 <= high else more} ({len(found)} cities, "
        f"played day by day; chance alone shows a gap of {noise:.1f}). A plain rule that pays for "
        f"coverage in the same way, without learning, comes to {_points(unlearned)}."
    )


def _paid_against_today(slug: str, scenario: str) -> tuple[list[float], list[float]]:
    """Gap and coverage of the paid rule less today's, city by city, played in the city."""
    rows = [
        {one["policy"]: one for one in row["policies"]}
        for row in json.loads(CITY_YEARS.read_text())["rows"]
        if row["domain"] == slug and row["scenario"] == scenario
    ]
    pairs = [(of[PAID], of["today's rule"]) for of in rows]
    gaps = [paid["gap"] - today["gap"] for paid, today in pairs]
    return gaps, [paid["coverage"] - today["coverage"] for paid, today in pairs]


def _say_alike() -> str:
    """What came out where areas call about alike: the coverage the learned rule loses there."""
    gaps, covers = _paid_against_today("heat", ALIKE)
    _, low, high = over_cities(gaps)
    _, least, most = over_cities(covers)
    gap = "leaves" if low <= 0.0 <= high else "widens" if low > 0.0 else "narrows"
    cover = "covers less" if most < 0.0 else "covers more" if least > 0.0 else "covers as much"
    return (
        "Where areas call about alike and there are visits for nearly all, there is nothing to "
        f"cut: in {len(gaps)} cities a learned rule {gap} heat's gap and {cover}. Keep today's "
        "rule there."
    )


def _points(figure: Sequence[float], with_interval: bool = False) -> str:
    value, lower, upper = (100 * end for end in figure)
    return f"{value:.1f} ({lower:.1f} to {upper:.1f})" if with_interval else f"{value:.1f}"


def _percent(figure: Sequence[float]) -> str:
    value, lower, upper = (100 * end for end in figure)
    return f"{value:+.1f} % ({lower:+.1f} to {upper:+.1f})".replace("-", "−")


def _found(figure: Sequence[float]) -> str:
    value, lower, upper = (100 * end for end in figure)
    if lower <= 0.0 <= upper:
        return "finding as much"
    return f"finding {abs(value):.0f} % {'more' if value > 0 else 'less'}"


def _visits(one: dict[str, Any]) -> str:
    value, lower, upper = (100 * end for end in one["visits"])
    if lower <= 0.0 <= upper:
        return "with as many visits"
    return f"with {abs(value):.0f} % {'more' if value > 0 else 'fewer'} visits"


def draw() -> str:
    """The picture of README: the gap of both rules in every domain, with intervals."""
    of = {slug: figures(slug) for slug in DOMAINS}
    series = [
        Series(title, [Estimate(get_domain(slug).title, *of[slug][name]) for slug in DOMAINS])
        for title, name in (("today's rule", "today"), ("learned rule", "learned"))
    ]
    return pictures.interval_plot(
        series,
        title="The gap between income groups, today and learned",
        axis=Axis("gap between income groups, in points; less is more equal", "points",
                  includes=(0.0,)),
        width=PICTURE_WIDTH,
    )  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
