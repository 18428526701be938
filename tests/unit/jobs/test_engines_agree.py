"""What holds engines against each other leaves out where and when, and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.jobs.engines_agree import compare

KEY = "0123456789abcdef"


def study(place: Path, *, of: int, value: str = "1.25", beside: bool = False) -> Path:
    """What a study leaves: results, and files that say where and when they were made."""
    decided = place / f"steps/decision-{KEY[of:]}{KEY[:of]}"
    decided.mkdir(parents=True)
    (place / "values.csv").write_text(f"n\n{value}\n")
    (place / "outcome.json").write_text(f'{{"seconds": {of}}}')
    (decided / "step.json").write_text(
        f'{{"value": {value}, "seconds": {of}.5, "out": "{place}/steps", "bytes": {of},'
        f' "made": "2026-11-0{of} 10:00:0{of} UTC", "seal": "{f"{of}" * 64}"}}'
    )
    (decided / "page.html").write_text(f"<p>{value}, made in 0.{of} s, <td>7.0</td></p>")
    with closing(sqlite3.connect(place / "registry")) as opened, opened:
        opened.execute("CREATE TABLE kept (value, folder)")
        opened.execute("INSERT INTO kept VALUES (?, ?)", (value, f"{place}/steps"))
    if beside:
        (place / "more.csv").write_text("n\n")
    return place


def test_the_same_but_for_where_and_when_is_told_apart(tmp_path: Path) -> None:
    places = {f"{of}": study(tmp_path / f"{of}", of=of) for of in (1, 2, 3)}
    found = compare(places)
    assert (found["files"], found["same"], found["differ"]) == (4, 1, [])
    assert len(found["same_but_for_time"]) == 3


@pytest.mark.parametrize(
    ("changes", "n_differ"), [({"value": "1.26"}, 4), ({"beside": True}, 1)], ids=str
)
def test_a_number_or_a_file_that_is_not_the_same_is_seen(
    tmp_path: Path, changes: dict, n_differ: int
) -> None:
    places = {"one": study(tmp_path / "one", of=1), "two": study(tmp_path / "two", of=2, **changes)}
    assert len(compare(places)["differ"]) == n_differ
