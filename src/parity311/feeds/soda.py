"""A client for Socrata portals: SODA 2.1, SODA 3 where there is a token, and whole-file export.

Answers 429 and 5xx, broken connections and cut-off bodies are tried again with growing pauses. A
column that is gone is an error that names it.
"""

from __future__ import annotations

import csv
import io
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity311.errors import FetchError

MAX_ATTEMPTS = 7
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 120.0
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FeedAnswer:
    """One answer of the server."""

    body: bytes
    headers: dict[str, str]

    @property
    def last_modified(self) -> str | None:
        """When the rows behind the answer last changed, in the server's words."""
        return self.headers.get("x-soda2-truth-last-modified") or self.headers.get("last-modified")


@dataclass
class SodaClient:
    """Calls to one portal; retries are inside."""

    portal: str
    app_token: str | None = None
    max_attempts: int = MAX_ATTEMPTS
    first_pause_seconds: float = FIRST_PAUSE_SECONDS
    sleep: Callable[[float], None] = time.sleep
    on_retry: Callable[[str, float], None] = lambda reason, pause: None
    _jitter: random.Random = field(default_factory=lambda: random.Random(0))
    _client: Any = None

    def __enter__(self) -> SodaClient:
        try:
            import httpx
        except ImportError as error:
            raise FetchError(
                "Fetching needs the package httpx; install it with `pip install "
                "'parity311[fetch]'`."
            ) from error
        headers = {"X-App-Token": self.app_token} if self.app_token else {}
        self._client = httpx.Client(
            base_url=self.portal,
            timeout=TIMEOUT_SECONDS,
            follow_redirects=True,
            headers=headers,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._client.close()

    def call(
        self,
        path: str,
        parameters: dict[str, Any] | None = None,
        *,
        body: dict[str, Any] | None = None,
        check: Callable[[FeedAnswer], None] | None = None,
        into: Path | None = None,
    ) -> FeedAnswer:
        """Ask until there is a whole answer; ``check`` may raise `Incomplete` to ask again.

        With ``into`` the body goes to that file and is not held in memory.
        """
        import httpx

        reason = ""
        for attempt in range(self.max_attempts):
            try:
                answer = self._ask(path, parameters, body, into)
                if check is not None:
                    check(answer)
                return answer
            except (httpx.TransportError, Incomplete) as error:
                reason = f"{type(error).__name__}: {error}"
                pause = self._pause(attempt, None)
            except _TryAgain as error:
                reason, pause = str(error), self._pause(attempt, error.after_seconds)
            if attempt + 1 < self.max_attempts:
                self.on_retry(reason, pause)
                self.sleep(pause)
        raise FetchError(
            f"{self.portal}{path} did not answer in {self.max_attempts} attempts (last: "
            f"{reason[:200]}); what was fetched is kept: run the same command again later."
        )

    def _ask(
        self,
        path: str,
        parameters: dict[str, Any] | None,
        body: dict[str, Any] | None,
        into: Path | None,
    ) -> FeedAnswer:
        method = "GET" if body is None else "POST"
        with self._client.stream(method, path, params=parameters, json=body) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            if response.status_code in TRY_AGAIN:
                response.read()
                raise _TryAgain(response.status_code, headers.get("retry-after"))
            if response.status_code >= 400:
                raise _refusal(self.portal, path, response.status_code, response.read())
            if into is None:
                return FeedAnswer(response.read(), headers)
            with into.open("wb") as file:
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    file.write(chunk)
            return FeedAnswer(b"", headers)

    def _pause(self, attempt: int, asked_seconds: float | None) -> float:
        """Seconds to wait: what the server asks for, else doubling, with jitter."""
        if asked_seconds is not None:
            return min(asked_seconds, LONGEST_PAUSE_SECONDS)
        longest = min(self.first_pause_seconds * 2**attempt, LONGEST_PAUSE_SECONDS)
        return longest * (0.5 + 0.5 * self._jitter.random())

    def columns(self, dataset_id: str) -> dict[str, str]:
        """API name -> type of every column the dataset has now."""
        answer = self.call(f"/api/views/{dataset_id}.json", check=_whole_json)
        try:
            view = json.loads(answer.body)
            return {c["fieldName"]: c.get("dataTypeName", "") for c in view["columns"]}
        except (ValueError, KeyError, TypeError) as error:
            raise FetchError(
                f"{self.portal} describes dataset {dataset_id} in a form that cannot be read "
                f"({error}); try again later."
            ) from error

    def count(self, dataset_id: str, where: str | None) -> tuple[int, str | None]:
        """Rows that fit, and when the dataset last changed."""
        parameters = {"$select": "count(*) AS n"} | ({"$where": where} if where else {})
        answer = self.call(f"/resource/{dataset_id}.json", parameters, check=_whole_json)
        rows = json.loads(answer.body)
        try:
            return int(rows[0]["n"]) if rows else 0, answer.last_modified
        except (KeyError, TypeError, ValueError) as error:
            raise FetchError(
                f"{self.portal} counts dataset {dataset_id} in a form that cannot be read "
                f"({error}); try again later."
            ) from error

    def page(
        self,
        dataset_id: str,
        columns: list[str],
        where: str | None,
        offset: int,
        limit: int,
        n: int,
    ) -> FeedAnswer:
        """``n`` rows from ``offset`` on as CSV, in the one stable order there is."""
        parameters: dict[str, Any] = {
            "$select": ",".join(columns),
            "$order": ":id",
            "$limit": limit,
            "$offset": offset,
        }
        if where:
            parameters["$where"] = where
        return self.call(f"/resource/{dataset_id}.csv", parameters, check=_csv_check(columns, n))

    def page_3(
        self,
        dataset_id: str,
        columns: list[str],
        where: str | None,
        number: int,
        limit: int,
        n: int,
    ) -> FeedAnswer:
        """The same page through SODA 3 (POST, needs a token), as JSON rows."""
        query = "SELECT " + ", ".join(columns)
        query += (f" WHERE {where}" if where else "") + " ORDER BY :id"
        body = {
            "query": query,
            "page": {"pageNumber": number, "pageSize": limit},
            "includeSynthetic": False,
        }
        return self.call(f"/api/v3/views/{dataset_id}/query.json", body=body, check=_json_check(n))

    def whole_file(self, dataset_id: str, into: Path, n: int) -> FeedAnswer:
        """Every row and column as the portal's CSV export, written to ``into``."""

        def check(answer: FeedAnswer) -> None:
            got = count_csv_rows(into)
            if got != n:
                raise Incomplete(f"{got} rows came, the server has {n}")

        return self.call(
            f"/api/views/{dataset_id}/rows.csv",
            {"accessType": "DOWNLOAD"},
            check=check,
            into=into,
        )

    def shapes(self, dataset_id: str, limit: int) -> FeedAnswer:
        """Every area of a geographic dataset as GeoJSON."""

        def check(answer: FeedAnswer) -> None:
            try:
                json.loads(answer.body)["features"]
            except (ValueError, KeyError, TypeError) as error:
                raise Incomplete(f"GeoJSON cut off ({error})") from error

        return self.call(f"/resource/{dataset_id}.geojson", {"$limit": limit}, check=check)


class Incomplete(Exception):
    """An answer that ended early; asking again may help."""


class _TryAgain(Exception):
    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(f"HTTP {status}")
        try:
            self.after_seconds = float(retry_after) if retry_after else None
        except ValueError:
            self.after_seconds = None


class ColumnGoneError(FetchError):
    """The server no longer has a column that was asked for."""


def _refusal(portal: str, path: str, status: int, body: bytes) -> FetchError:
    try:
        answer = json.loads(body)
        message, code = str(answer.get("message", "")), str(answer.get("errorCode", ""))
        column = (answer.get("data") or {}).get("column")
    except (ValueError, AttributeError):
        message, code, column = body[:120].decode(errors="replace"), "", None
    if "no-such-column" in (code or message):
        return ColumnGoneError(
            f"{portal}{path} has no column {column or message[:80]!r} any more; update parity311, "
            "or import a CSV export with a column map."
        )
    if status in (401, 403):
        return FetchError(
            f"{portal}{path} asks for authorisation (HTTP {status}); give an app token with "
            "--app-token or SOCRATA_APP_TOKEN, or check that the dataset still exists."
        )
    return FetchError(
        f"{portal}{path} refused the query (HTTP {status}: {message[:160]}); check --since and "
        "--domains."
    )


def _csv_check(columns: list[str], n: int) -> Callable[[FeedAnswer], None]:
    def check(answer: FeedAnswer) -> None:
        reader = csv.reader(io.StringIO(answer.body.decode("utf-8", errors="replace")))
        header = next(reader, [])
        if header != columns:
            gone = [column for column in columns if column not in header]
            if gone:
                raise ColumnGoneError(
                    f"The server sent rows without the column {gone[0]!r}; update parity311, or "
                    "import a CSV export with a column map."
                )
        rows = 0
        for row in reader:
            rows += 1
            if len(row) != len(header):
                raise Incomplete(f"row {rows} has {len(row)} of {len(header)} values: cut off")
        if rows != n:
            raise Incomplete(f"{rows} rows came, {n} were expected")

    return check


def _whole_json(answer: FeedAnswer) -> None:
    try:
        json.loads(answer.body)
    except ValueError as error:
        raise Incomplete(f"JSON cut off ({error})") from error


def _json_check(n: int) -> Callable[[FeedAnswer], None]:
    def check(answer: FeedAnswer) -> None:
        _whole_json(answer)
        rows = len(json.loads(answer.body))
        if rows != n:
            raise Incomplete(f"{rows} rows came, {n} were expected")

    return check


def count_csv_rows(path: Path) -> int:
    """Rows of a CSV file without its header; quoted line breaks do not count."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return max(sum(1 for _ in csv.reader(file)) - 1, 0)
