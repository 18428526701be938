"""What README says came out, and its one picture: from results that are kept.

    python -m docs.readme_figures    draw the picture; the words are written by docs.generate

Twenty cities nobody had looked at (docs/results/parity.json): the learned rule with prices, as
validation chose it, beside today's rule, scored under the truth on the same simulated years. What
holds where areas call about alike is read from docs/results/city-years.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from docs.parity_figures import KEPT, LEARNED, ROOT, over_cities, pick, read
from parity311.domains import get_domain
from parity311.report import pictures
from parity311.report.pictures import Axis, Estimate, Series

PICTURE = ROOT / "docs" / "what-came-out.svg"
CITY_YEARS = ROOT / "docs" / "results" / "city-years.json"
PICTURE_WIDTH = 480
"""Units across: few, so that its words can be read on a phone."""
DOMAINS = ("heat", "housing", "elevator", "boiler")
"""In the order of the table: complaints first, filings last."""
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
    }


def came_out_block(docs: str = "docs/", has_table: bool = True) -> str:
    """Sentences, picture and table of README; `docs` is the way from the page to the docs."""
    of = {slug: figures(slug) for slug in DOMAINS}
    heat, housing = of["heat"], of["housing"]
    years = min(one["years"] for one in of.values())
    lines = [
        f"Tried in {heat['n']} made-up cities nobody had looked at, where rich areas call far more "
        "often and visits are few. The *gap* is how many more of 100 problems a visit finds in the "
        "best served fifth by income than in the worst.",
        "",
        f"- **Housing**: the learned rule cuts the gap from **{_points(housing['today'])} to "
        f"{_points(housing['learned'])} points**, {_found(housing['found'])}.",
        f"- **Heat**: from **{_points(heat['today'])} to {_points(heat['learned'])} points**, "
        f"{_found(heat['found'])}, {_visits(heat)}.",
        f"- {_say_alike()}",
        "",
        f"![Gap under today's rule and under the learned rule]({docs}{PICTURE.name})",
        "",
    ]
    if has_table:
        lines += [*_table(of), ""]
    lines.append(
        f"{years} simulated years a city or more; in brackets 95 % intervals between cities. "
        if has_table
        else f"{years} simulated years a city or more; bars are 95 % intervals between cities. "
    )
    lines[-1] += f"[How it was measured]({docs}explanation/price-of-parity.md)."
    lines += ["", f"{say_in_the_city()} [In the city]({docs}explanation/city-years.md)."]
    return "\n".join(lines)


def _table(of: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| domain | gap, today's rule | gap, learned rule | found, against today's rule | visits | "
        "smaller gap in |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for slug, one in of.items():
        cells = [
            get_domain(slug).title,
            _points(one["today"], True),
            _points(one["learned"], True),
            _percent(one["found"]),
            _percent(one["visits"]),
            f"{one['narrower']} of {one['n']} cities",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def say_in_the_city() -> str:
    """That the years above are a simpler process's, and what came out in the fuller city."""
    parts = []
    for slug in ("heat", "housing"):
        gaps, _ = _paid_against_today(slug, UNEQUAL)
        value, low, high = (100 * end for end in over_cities(gaps))
        change = f"{abs(value):.1f} points"
        way = f"wider by {change}" if low > 0.0 else f"narrower by {change}"
        parts.append(f"{slug}'s gap {'as it was' if low <= 0.0 <= high else way}")
    return (
        "Those years are of a simpler process with the city's true figures. In the made-up city "
        f"itself, day by day, another learned rule, paid for coverage, left {' and '.join(parts)}; "
        "the learned rule above was not played there."
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
