"""What came out, in two sentences for the front page of the site, from the kept results."""

from __future__ import annotations

import numpy as np

from docs.parity_figures import KEPT, LEARNED, pick, read
from docs.readme_figures import say_in_the_city

SHOWN = "heat"
"""The domain whose figures are told: the city's largest, where participation matters."""


def findings_block() -> str:
    """Gap and what is found, of today's rule and of the policy we recommend; and where it fails."""
    kept = read(KEPT)
    found = [one for one in kept if one["domain"] == SHOWN]
    today, ours = (pick(found, policy=name) for name in ("balanced", LEARNED))
    before, after = (100 * np.mean([row["gap"]["value"] for row in rows]) for rows in (today, ours))
    ratios = [
        b["correct_a_year"] / a["correct_a_year"] - 1 for a, b in zip(today, ours, strict=True)
    ]
    change = 100 * float(np.mean(ratios))
    words = "more" if change > 0 else "fewer"
    missed = [
        slug
        for slug in dict.fromkeys(one["domain"] for one in kept)
        if np.mean(_within([one for one in kept if one["domain"] == slug])) < 0.9
    ]
    lines = [
        f"In {len(found)} made-up cities where well-off neighbourhoods report three times as "
        "readily and visits are scarce, "
        f"today's rule for {SHOWN} complaints leaves {before:.1f} points between the best and the "
        f"worst covered fifth of the city. The policy we recommend leaves {after:.1f} points and "
        f"finds {abs(change):.0f} % {words} defects with the same inspectors.",
    ]
    if missed:
        lines.append(
            f"It does not work everywhere: in {', '.join(missed)} the gap stays beyond the limit "
            "in many cities. Where people report alike there is little to close."
        )
    return "\n\n".join([*lines, say_in_the_city()])


def _within(found: list[dict]) -> list[bool]:
    return [row["limit_used"] <= 1.0 for row in pick(found, policy=LEARNED)]
