"""A city with every domain, for the contracts of what is served."""

from __future__ import annotations

from datetime import date

import pytest

from parity311.city.build import build_city
from parity311.domains import all_domains
from parity311.records.store import Records, open_records


@pytest.fixture(scope="session")
def served_records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Four months of a small city with every domain, reporting uneven and visits scarce."""
    processes = [domain.process for domain in all_domains().values()]
    return open_records(
        build_city(
            processes, "small", 5, "strong", "scarce", workers=1,
            date_from=date(2024, 1, 1), date_to=date(2024, 5, 1),
            out=tmp_path_factory.mktemp("serving") / "city",
        )
    )  # fmt: skip
