"""A PostgreSQL server of the suite's own: made in a temporary folder, stopped and removed after.

It listens on a socket in that folder alone. The server refuses to run as root, so root starts it as
another user. Where the programs are not installed, tests that need them skip and say what is
lacking.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("initdb", "postgres")
PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Where Debian keeps them, outside of the path."""
OTHERS = ("postgres", "nobody")
"""Users that root may be for the server."""
START_SECONDS = 60.0


def find_programs() -> dict[str, str]:
    """Paths of the server's programs, of those that there are."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, PLACES)])
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    return {name: where for name, where in found.items() if where}


def what_is_lacking() -> str:
    """Why there can be no server here; empty where there can."""
    lacking = [name for name in PROGRAMS if name not in find_programs()]
    if lacking:
        return (
            f"PostgreSQL's {' and '.join(lacking)} are not installed (Debian: apt-get install "
            "postgresql); the registry is tested on SQLite alone"
        )
    return "" if _user() is not None else "no user but root to run PostgreSQL as"


def _user() -> str | None:
    """The user to run as; an empty name for the present one."""
    if os.geteuid() != 0:
        return ""
    names = {one.pw_name for one in pwd.getpwall()}
    return next((name for name in OTHERS if name in names), None)


class Server:
    """A running server and how to stop and start it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs, user = folder, find_programs(), _user()
        self._as: dict[str, Any] = {"cwd": folder}
        if user:
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            self._as |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        folder.chmod(0o711)
        command = [self.programs["initdb"], "-D", str(folder / "data"), "-U", "parity311"]
        subprocess.run(
            [*command, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            check=True, capture_output=True, **self._as,
        )  # fmt: skip
        self.process: Any = None
        self.start()

    def address(self, name: str = "postgres") -> str:
        """Address of a database on it."""
        return f"postgresql://parity311@/{name}?host={self.folder}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs["postgres"], "-D", str(self.folder / "data"), "-k", str(self.folder),
                 "-c", "listen_addresses=", "-c", "fsync=off"],
                stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        ends = time.monotonic() + START_SECONDS
        while True:
            try:
                self.do("SELECT 1")
                return
            except Exception:
                if self.process.poll() is not None or time.monotonic() > ends:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT cuts connections off, SIGQUIT does not even tidy up."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=START_SECONDS)
            self.process = None

    def do(self, statement: str, name: str = "postgres") -> list[Any]:
        """Run one statement outside of any transaction; its rows."""
        import psycopg

        words = self.address(name)
        with psycopg.connect(words, autocommit=True, connect_timeout=5) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []


@contextmanager
def running_server() -> Iterator[Server]:
    """A server for a block."""
    folder = Path(tempfile.mkdtemp(prefix="parity311-pg-"))
    server = None
    try:
        server = Server(folder)
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
