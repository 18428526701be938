"""What goes on beside the requests: replay, queues made anew, systems told and asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from parity311.desk.desk import Desk
from parity311.desk.intake import read_new
from parity311.desk.partners import tell_partners
from parity311.desk.replay import CityReplay, feed
from parity311.desk.sources import ask_sources
from parity311.desk.telling import tell_failure
from parity311.errors import Parity311Error

BEAT_SECONDS = 0.5
"""How often the keeper looks round."""


class Keeper(threading.Thread):
    """Does works in turn until it is told to stop, and goes on whatever failed.

    A database may have been away, another system may have answered what nobody foresaw: the rest
    must not stand still for it. `teller` is told once of each failure.
    """

    def __init__(
        self, name: str, works: Mapping[str, Callable[[], object]], teller: Any = None
    ) -> None:
        super().__init__(name=f"parity311-{name}", daemon=True)
        self._works, self._stops, self._teller = works, threading.Event(), teller
        self.problems: dict[str, str] = {}
        """what failed last, by work; what succeeded since is gone"""

    def run(self) -> None:
        """Look round until the end."""
        while not self._stops.wait(BEAT_SECONDS):
            self.look_round()

    def look_round(self) -> None:
        """Do each work once."""
        for name, work in self._works.items():
            try:
                work()
                self.problems.pop(name, None)
            except Exception as error:
                is_ours = isinstance(error, Parity311Error)
                problem = str(error) if is_ours else type(error).__name__
                if self.problems.get(name) != problem and self._teller is not None:
                    self._teller.error("work failed", work=name, **tell_failure(error))
                self.problems[name] = problem

    @property
    def works(self) -> tuple[str, ...]:
        """What it does, by name."""
        return tuple(self._works)

    def stop(self) -> None:
        """Stop after the present work."""
        self._stops.set()
        self.join(timeout=10)


def make_keepers(desk: Desk, replay: CityReplay | None, teller: Any = None) -> list[Keeper]:
    """Who works beside the requests; other systems apart, since they may not answer."""
    inside: dict[str, Callable[[], object]] = {"queues": partial(refresh_queues, desk)}
    if replay is not None:
        inside["replay"] = lambda: feed(desk, replay, desk.clock.now())
    outside = {"told": partial(tell_partners, desk), "asked": partial(ask_sources, desk)}
    return [Keeper("inside", inside, teller), Keeper("outside", outside, teller)]


def refresh_queues(desk: Desk) -> None:
    """Make the queues anew that are due."""
    for office in desk.offices.values():
        if office.is_due:
            with desk.database.reading() as session:
                read = partial(read_new, session, office.domain)
                office.refresh(read, desk.clock.now())
