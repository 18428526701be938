"""Who works at a small desk in tests: browsers with a login, and what they find in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from fastapi.testclient import TestClient

from parity311.desk.app import make_app
from parity311.desk.desk import Desk
from parity311.desk.ledger import ledger_problems, read_log
from parity311.desk.replay import CityReplay, feed
from parity311.lifecycle.chain import LogEntry

START = datetime(2024, 3, 1)
HOST = "http://desk.test"


@dataclass
class SmallDesk:
    """A desk with its replay and the passwords that were drawn."""

    desk: Desk
    replay: CityReplay
    passwords: dict[str, str]

    @cached_property
    def app(self) -> Any:
        return make_app(self.desk)

    def browser(self, role: str = "") -> TestClient:
        """A browser, logged in as the account of a role if one is named."""
        client = TestClient(
            self.app, base_url=HOST, headers={"Origin": HOST}, raise_server_exceptions=False
        )
        if role:
            given = {"name": role, "password": self.passwords[role]}
            answer = client.post("/login", data=given, follow_redirects=False)
            assert answer.status_code == 303, answer.text
        return client

    def play(self, days: float) -> int:
        """Let the city go on for so many days from its first."""
        until = self.replay.start + timedelta(days=days)
        self.desk.clock.set(until)
        return feed(self.desk, self.replay, until)

    @property
    def log(self) -> list[LogEntry]:
        with self.desk.database.reading() as session:
            return read_log(session)

    @property
    def problems(self) -> list[str]:
        with self.desk.database.reading() as session:
            return ledger_problems(session)


def cases_of(client: TestClient, **asked: Any) -> list[dict[str, Any]]:
    """Lines of the queue."""
    answer = client.get("/queue.json", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["cases"]
