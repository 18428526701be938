"""What goes on beside the requests: replay, queues made anew, systems told and asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from parity311.desk.desk import Desk
from parity311.desk.intake import read_new
from parity311.desk.partners import ask_sources, tell_partners
from parity311.desk.replay import CityReplay, feed
from parity311.errors import Parity311Error

BEAT_SECONDS = 0.5
"""How often the keeper looks round."""


class Keeper(threading.Thread):
    """Does works in turn until it is told to stop, and goes on after a database that was away."""

    def __init__(self, name: str, works: Mapping[str, Callable[[], object]]) -> None:
        super().__init__(name=f"parity311-{name}", daemon=True)
        self._works, self._stops = works, threading.Event()
        self.problems: dict[str, str] = {}
        """what failed last, by work; what succeeded since is gone"""

    def run(self) -> None:
        """Look round until the end."""
        while not self._stops.wait(BEAT_SECONDS):
            for name, work in self._works.items():
                try:
                    work()
                    self.problems.pop(name, None)
                except Parity311Error as error:
                    self.problems[name] = str(error)

    def stop(self) -> None:
        """Stop after the present work."""
        self._stops.set()
        self.join(timeout=10)


def make_keepers(desk: Desk, replay: CityReplay | None) -> list[Keeper]:
    """Who works beside the requests; other systems apart, since they may not answer."""
    inside: dict[str, Callable[[], object]] = {"queues": partial(refresh_queues, desk)}
    if replay is not None:
        inside["replay"] = lambda: feed(desk, replay, desk.clock.now())
    outside = {"told": partial(tell_partners, desk), "asked": partial(ask_sources, desk)}
    return [Keeper("inside", inside), Keeper("outside", outside)]


def refresh_queues(desk: Desk) -> None:
    """Make the queues anew that are due."""
    for office in desk.offices.values():
        if office.is_due:
            with desk.database.reading() as session:
                read = partial(read_new, session, office.domain)
                office.refresh(read, desk.clock.now())
