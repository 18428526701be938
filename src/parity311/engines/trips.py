"""Joint trips: what it saves to see several cases on one way."""

from __future__ import annotations

POOL_SIZE = 4
"""Complaints that share one trip (assumed: one inspector's half day)."""
TRAVEL_SHARE = 1.0 / 3.0
"""Share of a visit's time that is the way there (assumed; no source found)."""
SHARED_TIME = 1.0 - TRAVEL_SHARE * (1.0 - 1.0 / POOL_SIZE)
"""Time a visit takes on a shared trip, in visits of its own: the way is shared by the pool."""
