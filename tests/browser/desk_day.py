"""A clerk works a whole day through the browser; then the records are audited, and the city's own.

    python -m tests.browser.desk_day CITY        a day of a city, heat alone

The last day of the city's records is replayed hour by hour. Every hour the clerk reads the queue,
opens what sends somebody and accepts it or decides otherwise, and accepts the rest together. In the
evening the administrator downloads the export, `records import` puts it onto the records of the day
before, and both are audited. Prints one JSON object; the exit code is 1 where the audits differ.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from tests.unit.desk.staff import SmallDesk

from parity311.audit.spec import AuditSpec
from parity311.desk.app import make_app
from parity311.desk.serve import ServeConfig, open_desk
from parity311.feeds.desk_export import import_desk_export
from parity311.pipelines.audit_records import audit_records
from parity311.records.store import open_records

OPENED_AN_HOUR = 3
"""Cases that the clerk opens and decides on their own every hour."""


@contextmanager
def serving(small: SmallDesk) -> Iterator[str]:
    """The desk at a real address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        server = uvicorn.Server(uvicorn.Config(make_app(small.desk), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=20)


def log_in(page: Any, base: str, small: SmallDesk, role: str) -> None:
    page.goto(f"{base}/login")
    page.fill("[name=name]", role)
    page.fill("[name=password]", small.passwords[role])
    page.press("[name=password]", "Enter")
    page.wait_for_url(lambda url: "/login" not in url)


def open_last_days(records: Path, folder: Path, days: int) -> SmallDesk:
    """A desk on the last days of a city's records, heat alone, a tenth of its cases blind."""
    last = datetime.combine(open_records(records).window[1], datetime.min.time())
    config = ServeConfig(
        records=records, folder=folder / "desk", database=str(folder / "desk.db"),
        domains=("heat",), day=last - timedelta(days=days), days=days, speed=0.001, blind_share=0.1,
    )  # fmt: skip
    desk, replay, made = open_desk(config)
    assert replay is not None
    return SmallDesk(desk, replay, dict(made))


def work_days(
    small: SmallDesk, browser: Any, export: Path, days: int, every_hours: int = 1
) -> None:
    """Work the days hour by hour, then download the export."""
    rng = random.Random(0)
    with serving(small) as base:
        page = browser.new_context().new_page()
        log_in(page, base, small, "intake")
        for hour in range(every_hours, 24 * days + 1, every_hours):
            small.play(hour / 24)
            work_hour(page, base, rng)
        context = browser.new_context(accept_downloads=True)
        page = context.new_page()
        log_in(page, base, small, "administrator")
        page.goto(f"{base}/partners")
        with page.expect_download() as coming:
            page.click("a[href='/export']")
        coming.value.save_as(export)
        context.close()


def work_hour(page: Any, base: str, rng: random.Random) -> None:
    """Decide a few cases on their own, and accept what sends nobody together."""
    for _ in range(OPENED_AN_HOUR):
        page.goto(f"{base}/queue")
        links = page.locator("tbody th a")
        if not links.count():
            return
        links.first.click()
        page.wait_for_load_state()
        if page.locator("#accept").count() and rng.random() < 0.7:
            page.click("#accept")
        else:
            if page.locator("#override [name=reason]").count():
                page.select_option("#override [name=reason]", "knows_more")
            page.click("#override button, form[action$='/decide'] button")
        page.wait_for_url("**said=**")
    page.goto(f"{base}/queue")
    boxes = page.locator("tbody input[type=checkbox]")
    actions = page.locator("tr:has(input[type=checkbox]) td[data-name=Recommended] strong")
    if boxes.count():
        wanted = actions.first.inner_text()
        for at in range(boxes.count()):
            if actions.nth(at).inner_text() == wanted:
                boxes.nth(at).check()
        page.click("text=Accept what is recommended for the chosen")
        page.wait_for_url("**said=accepted_many")


def audit_of(folder: Path, root: Path) -> Any:
    """What an audit of a records folder measured, without where and when it was made."""
    found = audit_records(folder, AuditSpec(n_draws=200), root=root, domains=("heat",))
    return found["domains"]


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two results differ; a number that is none equals one that is none."""
    one, other = (x.tolist() if isinstance(x, np.ndarray) else x for x in (one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(name, one.get(name), other.get(name)) for name in sorted(one.keys() | other)]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} entries"]
        pairs = [(str(at), *pair) for at, pair in enumerate(zip(one, other, strict=True))]
    else:
        is_same = one == other or (one != one and other != other)
        return [] if is_same else [f"{where}: {one!r} and {other!r}"]
    return [x for name, a, b in pairs for x in differences(a, b, f"{where}.{name}")]


def main() -> int:
    """Work a city's last day; 1 where the audits differ."""
    from playwright.sync_api import sync_playwright
    from tests.browser.test_desk_browser import CHROMIUM

    records = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        small = open_last_days(records, folder, 1)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        work_days(small, browser, folder / "desk.zip", 1)
        browser.close()
        import_desk_export(records, folder / "desk.zip", folder / "after")
        found = [audit_of(one, folder / "runs") for one in (records, folder / "after")]
        differ, problems = differences(*found), small.problems
        print(json.dumps({
            "decisions": len(small.log),
            "overrides": sum(one.action == "override" for one in small.log),
            "verdicts": [one["verdict"] for one in found[0][0]["verdicts"]],
            "chain": problems,
            "differ": differ[:20],
        }))  # fmt: skip
    return 1 if differ or problems else 0


if __name__ == "__main__":
    sys.exit(main())
