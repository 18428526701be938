"""The paper's claims, by area, in the order of the report."""

from __future__ import annotations

from parity311.studies.reproduction.claims import (
    arithmetic,
    attribution,
    boiler,
    elevator,
    equity,
    learning,
    selection,
    untested,
)
from parity311.studies.reproduction.claims.claim import Claim, check_keys

AREAS = (learning, boiler, elevator, equity, attribution, selection, arithmetic, untested)


def all_claims() -> tuple[Claim, ...]:
    """Every claim, in the order of the report."""
    found = [claim for area in AREAS for claim in area.CLAIMS]
    check_keys(found)
    return tuple(found)
