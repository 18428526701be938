"""A few months of a small city, and journals of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pytest

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.records.journal import Journal
from parity311.records.journal_reader import read_journal
from parity311.records.store import Records, open_records

MOMENT = datetime(2024, 3, 12, 9)


@pytest.fixture(scope="session")
def served_city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heat, snad and ert from January to March 2024; reporting uneven, visits scarce."""
    return build_city(
        [get_domain(slug).process for slug in ("ert", "heat", "snad")],
        "small", 5, "strong", "scarce", workers=1,
        date_from=date(2024, 1, 1), date_to=date(2024, 4, 1),
        out=tmp_path_factory.mktemp("served") / "city",
    )  # fmt: skip


@pytest.fixture(scope="session")
def served_records(served_city: Path) -> Records:
    return open_records(served_city)


@pytest.fixture(scope="session")
def journal_of(served_records: Records) -> Callable[[str], Journal]:
    """Give a domain's journal on a morning in March."""
    return lambda slug: read_journal(served_records, slug, MOMENT)
