"""How often something may be tried: a bucket of tokens by name, refilled with time."""

from __future__ import annotations

import time
from threading import Lock

from parity311.desk.refusals import TooManyError

MOST_NAMES = 10_000
"""Buckets that are kept; the oldest go first."""


class Bucket:
    """So many tries at once, and so many a minute after that, for each name."""

    def __init__(self, burst: int, per_minute: float) -> None:
        self.burst, self.per_second = burst, per_minute / 60.0
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def take(self, name: str) -> None:
        """Use one try of a name up; refused where none is left."""
        now = time.monotonic()
        with self._lock:
            left, then = self._left.pop(name, (float(self.burst), now))
            left = min(left + (now - then) * self.per_second, float(self.burst))
            self._left[name] = (max(left - 1.0, 0.0), now)
            while len(self._left) > MOST_NAMES:
                self._left.pop(next(iter(self._left)))
        if left < 1.0:
            wait = (1.0 - left) / self.per_second
            raise TooManyError(f"Too many tries in a short time; wait {wait:.0f} seconds.")
