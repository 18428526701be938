"""Records with tracts drawn anew: whole tracts, each as often as it was drawn."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

import jax
import numpy as np
import pytest

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.estimation.world import make_world
from parity311.records.resampled import resample
from parity311.records.store import Records, open_records


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Half a year of a small city's heat and snad."""
    processes = [get_domain(slug).process for slug in ("heat", "snad")]
    out = tmp_path_factory.mktemp("resampled") / "city"
    period = {"date_from": date(2024, 1, 1), "date_to": date(2024, 7, 1)}
    return open_records(build_city(processes, "small", 5, out=out, workers=1, **period))


def counts(records: Records, query: str) -> dict[str, int]:
    return {row["name"]: row["n"] for row in records.sql(query).to_pylist()}  # type: ignore[arg-type]


BY_TRACT = "SELECT tract AS name, count(*) AS n FROM complaints WHERE domain = 'heat' GROUP BY 1"


def times_drawn(records: Records, drawn: Records) -> dict[str, float]:
    """How often each tract appears, by its complaints."""
    before, after = counts(records, BY_TRACT), counts(drawn, BY_TRACT)
    assert set(after) <= set(before)
    return {tract: after.get(tract, 0) / n for tract, n in before.items()}


def test_every_tract_counts_as_often_as_it_was_drawn(records: Records) -> None:
    times = times_drawn(records, resample(records, "heat", 3))
    assert all(value == int(value) for value in times.values())
    shares = Counter(int(value) for value in times.values())
    # A third of the tracts is not drawn at all, some are drawn three times.
    assert 0.25 < shares[0] / len(times) < 0.5
    assert shares[1] > 0
    assert max(shares) >= 3
    # Buildings and visits of a tract come as often as its complaints.
    for query in (
        "SELECT tract AS name, count(*) AS n FROM buildings GROUP BY 1",
        "SELECT c.tract AS name, count(*) AS n FROM visits v JOIN complaints c USING (complaint_id)"
        " WHERE c.domain = 'heat' GROUP BY 1",
        "SELECT c.tract AS name, count(*) AS n FROM outcomes o JOIN complaints c"
        " USING (complaint_id) WHERE c.domain = 'heat' GROUP BY 1",
    ):
        before, after = counts(records, query), counts(resample(records, "heat", 3), query)
        wanted = {tract: n * times[tract] for tract, n in before.items() if tract in times}
        assert {t: n for t, n in after.items() if t in times} == {
            t: n for t, n in wanted.items() if n
        }


def test_ids_are_unique_and_joins_hold(records: Records) -> None:
    drawn = resample(records, "heat", 3)
    for table, name in (
        ("complaints", "complaint_id"), ("buildings", "building_id"), ("visits", "visit_id"),
        ("outcomes", "complaint_id"),
    ):  # fmt: skip
        row = drawn.sql(
            f"SELECT count(*) AS n, count(DISTINCT {name}) AS different FROM {table}"  # type: ignore[arg-type]
        ).to_pylist()[0]
        assert row["n"] == row["different"] > 0, table
    lost = drawn.sql(
        "SELECT (SELECT count(*) FROM visits ANTI JOIN complaints USING (complaint_id)) AS visits,"
        " (SELECT count(*) FROM outcomes ANTI JOIN complaints USING (complaint_id)) AS outcomes,"
        " (SELECT count(*) FROM complaints c ANTI JOIN buildings b USING (building_id)"
        " WHERE c.building_id IS NOT NULL) AS buildings,"
        " (SELECT count(*) FROM complaints c JOIN buildings b USING (building_id)"
        " WHERE b.tract <> c.tract) AS moved"
    ).to_pylist()[0]
    assert lost == {"visits": 0, "outcomes": 0, "buildings": 0, "moved": 0}
    # Reports of one incident stay one incident in every copy, and copies are apart.
    query = "SELECT incident_id AS name, count(DISTINCT tract) AS n FROM complaints GROUP BY 1"
    assert set(counts(drawn, query).values()) == {1}


def test_the_same_for_one_seed_and_others_for_another(records: Records) -> None:
    once, again, other = (times_drawn(records, resample(records, "heat", s)) for s in (3, 3, 4))
    assert once == again
    assert once != other


def test_no_other_domain_is_left_to_be_read(records: Records) -> None:
    drawn = resample(records, "heat", 3)
    query = "SELECT domain AS name, count(*) AS n FROM complaints GROUP BY 1"
    assert set(counts(records, query)) == {"heat", "snad"}
    assert set(counts(drawn, query)) == {"heat"}


@pytest.mark.slow
def test_estimates_differ_between_draws_and_not_within(records: Records, tmp_path: Path) -> None:
    world = make_world(get_domain("snad"), records, date_to=date(2024, 7, 1))
    first, second = world.draws(2, seed=0)
    (again,) = world.draws(1, seed=0)
    leaves = lambda params: [np.asarray(x) for x in jax.tree.leaves(params)]  # noqa: E731
    same = [np.array_equal(a, b) for a, b in zip(leaves(first), leaves(again), strict=True)]
    assert all(same)
    assert not np.array_equal(np.asarray(first.kinds), np.asarray(second.kinds))
    assert not np.array_equal(np.asarray(first.kinds), np.asarray(world.estimated.kinds))
