"""Nothing that happened at the moment or after it is known to serving."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import table_of, tiny_tables, write_folder
from tests.served import make_package, random_network

from parity311.domains import get_domain
from parity311.mdp.harness import Harness
from parity311.records.journal_reader import read_journal
from parity311.records.store import open_records
from parity311.serving.policy import LoadedPolicy

AS_OF = datetime(2024, 5, 1, 8)
HARNESS = Harness(get_domain("heat"))
FLAGS = {"is_building_wide": pa.bool_(), "is_no_heat": pa.bool_()}
PLANTS = ("received", "received again", "visited", "closed")


def rows_of(tables: dict[str, pa.Table], name: str) -> list[dict[str, Any]]:
    return tables[name].to_pylist()


def plant(what: str, at: datetime) -> dict[str, pa.Table]:
    """The tiny tables with one row more, or a closing moved, to a moment."""
    tables = tiny_tables()
    complaints, visits = rows_of(tables, "complaints"), rows_of(tables, "visits")
    outcomes = rows_of(tables, "outcomes")
    for row in complaints:
        row |= {"is_building_wide": True, "is_no_heat": False}
    waiting = [row for row in complaints if AS_OF - timedelta(days=8) < row["received_at"] < AS_OF]
    first = waiting[0]
    # Of the first nothing is known yet, now or later.
    visits = [row for row in visits if row["complaint_id"] != first["complaint_id"]]
    own = next(row for row in outcomes if row["complaint_id"] == first["complaint_id"])
    own |= {"closed_at": None, "disposition": None, "disposition_class": "pending"}
    own |= {"first_visit_at": None, "n_visits": 0}
    if what == "received":
        complaints.append({**first, "complaint_id": "new", "incident_id": "n", "received_at": at})
        outcomes.append({**outcomes[0], "complaint_id": "new", "closed_at": None})
    if what == "received again":
        # Another report of an incident that is open.
        complaints.append({**first, "complaint_id": "new", "received_at": at})
        outcomes.append({**outcomes[0], "complaint_id": "new", "closed_at": None})
    if what == "visited":
        extra = {"visit_id": "new", "complaint_id": first["complaint_id"], "visited_at": at}
        visits.append({**visits[0], **extra})
    if what == "closed":
        own |= {"closed_at": at, "disposition": "I2", "disposition_class": "other"}
    tables["complaints"] = table_of("complaints", complaints, **FLAGS)
    tables["visits"], tables["outcomes"] = (
        table_of("visits", visits),
        table_of("outcomes", outcomes),
    )
    return tables


def known(folder: Path, tables: dict[str, pa.Table]) -> dict[str, Any]:
    """All that serving makes of these tables at the moment."""
    journal = read_journal(open_records(write_folder(folder, tables)), "heat", AS_OF)
    policy = LoadedPolicy(make_package(HARNESS, random_network(HARNESS)))
    cases = journal.take(journal.open_rows)
    found = policy.recommend(journal, capacity=2)
    return {
        "open": cases.complaint_id.tolist(),
        "observations": policy.observe(journal, cases, np.zeros(cases.n))[1].tolist(),
        "rows": found.rows(),
        "summary": found.summary(),
    }


@pytest.mark.parametrize("after", [timedelta(0), timedelta(seconds=1), timedelta(days=3)])
@pytest.mark.parametrize("what", PLANTS)
def test_what_comes_later_changes_nothing(what: str, after: timedelta, tmp_path: Path) -> None:
    plain = known(tmp_path / "plain", plant("nothing", AS_OF))
    assert len(plain["open"]) >= 2
    assert known(tmp_path / "planted", plant(what, AS_OF + after)) == plain


@pytest.mark.parametrize("what", PLANTS)
def test_what_came_a_second_before_is_known(what: str, tmp_path: Path) -> None:
    """The broken twin: a row that lies before the moment is noticed."""
    plain = known(tmp_path / "plain", plant("nothing", AS_OF))
    before = known(tmp_path / "planted", plant(what, AS_OF - timedelta(seconds=1)))
    assert before != plain
    changed = {"received": 1, "received again": 0, "visited": -1, "closed": -1}[what]
    assert len(before["open"]) == len(plain["open"]) + changed
