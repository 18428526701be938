"""What the page on city years says comes from whole cities, and from the sign of an interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.city_years import TODAY, city_years_block, gather, read_rows, say_arrival

from docs import city_years
from parity311.domains import get_domain


def row(
    seed: int, slug: str, scenario: str, lead: float, gap: float, fallback: float = 0.1
) -> dict[str, Any]:
    """A setting of a city in which the index leads by so much and moves the gap by so much."""

    def figures(name: str, more: float, wider: float) -> dict[str, Any]:
        return {
            "policy": name,
            "coverage": 0.2 + more,
            "gap": 0.1 + wider,
            "n_visits": 100.0 * (1.0 + more),
            "fallback_share": fallback,
            "expected": {"coverage": 0.2 + 2 * more, "gap": 0.1},
        }

    policies = [figures(TODAY, 0.0, 0.0), figures("index", lead, gap)]
    return {"seed": seed, "domain": slug, "scenario": scenario, "policies": policies}


def test_only_whole_cities_are_gathered_and_none_is_lost(tmp_path: Path) -> None:
    kept = tmp_path / "years.json"
    parts = tmp_path / "years"
    parts.mkdir()
    names = [
        (slug, ", ".join(scenario))
        for slug in city_years.DOMAINS
        for scenario in city_years.SCENARIOS
    ]
    for seed, n in ((1, len(names)), (2, len(names) - 1)):
        for number, (slug, scenario) in enumerate(names[:n]):
            path = parts / f"{seed}-{number}.json"
            path.write_text(json.dumps(row(seed, slug, scenario, 0.1, 0.0)))
    gather(kept)
    assert {one["seed"] for one in read_rows(kept)} == {1}
    # The files may go; what was gathered stays, and the missing one completes the other.
    for path in parts.glob("1-*.json"):
        path.unlink()
    slug, scenario = names[-1]
    (parts / "2-last.json").write_text(json.dumps(row(2, slug, scenario, 0.1, 0.0)))
    gather(kept)
    assert len(read_rows(kept)) == 2 * len(names)


def test_nothing_kept_says_what_to_run(tmp_path: Path) -> None:
    assert "python -m docs.city_years" in city_years_block(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("lead", "spread", "said"),
    [
        (0.05, 0.01, "in the city it does in 1 (crane, strong, scarce) and covers less in none"),
        (-0.05, 0.01, "in the city it does in none and covers less in 1 (crane, strong, scarce)"),
        (0.05, 0.5, "in the city it does in none and covers less in none"),
    ],
)
def test_a_lead_counts_where_the_interval_leaves_no_doubt(
    lead: float, spread: float, said: str
) -> None:
    values = lead + spread * np.array([-1.0, 0.0, 1.0])
    rows = [row(n, "crane", "strong, scarce", value, -0.03) for n, value in enumerate(values)]
    (line,) = say_arrival(rows)
    assert said in line
    # The gap is .03 narrower in every city, without any doubt.
    assert "narrower in 1 (crane, strong, scarce) and wider in none" in line
    hoped = 1 if lead > 0 else 0
    assert f"today's rule in {hoped} settings" in line


def test_the_table_has_a_row_a_policy(tmp_path: Path) -> None:
    rows = [row(n, "crane", "strong, scarce", 0.04 + 0.01 * n, 0.0) for n in range(3)]
    kept = tmp_path / "years.json"
    kept.write_text(json.dumps({"rows": rows}))
    (line,) = [one for one in city_years_block(kept).splitlines() if "| index |" in one]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    # Leads .04, .05, .06; twice as much was expected; 5 % more visits.
    assert cells[3].startswith("0.050 [0.025, 0.075]")
    assert cells[4:6] == ["+0.100", "0.5"]
    assert cells[-2:] == ["1.05", "10%"]


def test_a_lead_that_todays_rule_made_is_not_the_policys(tmp_path: Path) -> None:
    rows = [row(n, "crane", "strong, scarce", 0.04 + 0.01 * n, 0.0, 0.97) for n in range(3)]
    (told,) = say_arrival(rows)
    assert "expected to cover more than today's rule in 0 settings" in told
    assert "today's rule decided most cases: 1 (crane, strong, scarce)" in told
    kept = tmp_path / "years.json"
    kept.write_text(json.dumps({"rows": rows}))
    (line,) = [one for one in city_years_block(kept).splitlines() if "| index |" in one]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[5] == "–"
    assert cells[-1] == "97%"


def test_rows_of_an_earlier_version_say_so(tmp_path: Path) -> None:
    kept = tmp_path / "years.json"
    rows = [row(n, "crane", "strong, scarce", 0.04, 0.0) for n in range(3)]
    now = get_domain("crane").version
    kept.write_text(json.dumps({"versions": {"crane": now - 1}, "rows": rows}))
    assert f"and not since: crane ({now - 1}, now {now})." in city_years_block(kept)
    kept.write_text(json.dumps({"versions": {"crane": now}, "rows": rows}))
    assert "not since" not in city_years_block(kept)
