"""A server on 127.0.0.1 that speaks SODA over recorded rows, and can fail in the usual ways."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa


@dataclass
class Fault:
    """Something that goes wrong ``times`` times on calls whose path contains ``on``."""

    kind: str
    """429, 503, cut (connection breaks), truncated (whole answer, but rows missing), hang_up."""
    on: str = "/resource/"
    times: int = 1


@dataclass
class SodaServer:
    """Datasets by id as lists of rows (all text), and what to do wrong."""

    datasets: dict[str, list[dict[str, str | None]]]
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)
    census: list[list[str | None]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    token: str | None = None
    last_modified: str = "Thu, 16 Jul 2026 17:40:22 GMT"
    calls: list[str] = field(default_factory=list)
    address: str = ""
    on_call: Any = None
    """Called with the number of the call, before it is answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    database: Any = field(default_factory=duckdb.connect)
    loaded: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def columns(self, dataset: str) -> list[str]:
        """Names of a dataset's columns, in order."""
        names: dict[str, None] = {}
        for row in self.datasets[dataset]:
            names |= dict.fromkeys(row)
        return list(names)

    def select(
        self, dataset: str, select: str, where: str | None, limit: int | None, offset: int
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """FeedAnswer a query; SoQL of the kind we send is SQL."""
        with self.lock:
            self._load(dataset)
            condition = f"WHERE {where}" if where else ""
            order = "" if "count(*)" in select else "ORDER BY _id"
            page = "" if limit is None else f"LIMIT {limit} OFFSET {offset}"
            cursor = self.database.execute(
                f'SELECT {select} FROM "{dataset}" {condition} {order} {page}'
            )
            header = [column[0] for column in cursor.description]
            return header, cursor.fetchall()

    def _load(self, dataset: str) -> None:
        """Keep the rows in DuckDB until a test changes them."""
        rows, names = self.datasets[dataset], self.columns(dataset)
        if self.loaded.get(dataset) == (len(rows), names):
            return
        columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in names}
        table = pa.table(columns | {"_id": pa.array(range(len(rows)))})
        self.database.register("_rows", table)
        self.database.execute(f'CREATE OR REPLACE TABLE "{dataset}" AS FROM _rows')
        self.database.unregister("_rows")
        self.loaded[dataset] = (len(rows), names)

    def take_fault(self, path: str) -> str | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.on in path:
                    fault.times -= 1
                    return fault.kind
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else the body waits forty milliseconds for the client to say that it has the headers.
    disable_nagle_algorithm = True
    server_state: SodaServer

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self._answer(json.loads(self.rfile.read(length)))

    def _answer(self, body: dict[str, Any] | None) -> None:
        state, parts = self.server_state, urlsplit(self.path)
        with state.lock:
            state.calls.append(self.path)
            number = len(state.calls)
        if state.on_call is not None:
            state.on_call(number)
        fault = state.take_fault(self.path)
        if fault in ("429", "503"):
            self._send(int(fault), b'{"message": "try later"}', {"Retry-After": "0"})
            return
        if fault == "hang_up":
            self.connection.close()
            self.close_connection = True
            return
        try:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status, kind, content = self._route(parts.path, query, body)
        except duckdb.BinderException as error:
            found = re.search(r'Referenced column "?(\w+)"? not found', str(error))
            column = found.group(1) if found else "?"
            content = json.dumps(
                {
                    "message": f"Query coordinator error: query.soql.no-such-column; {column}",
                    "errorCode": "query.soql.no-such-column",
                    "data": {"column": column},
                }
            ).encode()
            status, kind = 400, "application/json"
        if fault == "truncated":
            content = content[: int(len(content) * 0.6)]
        self._send(status, content, {"Content-Type": kind}, cut=fault == "cut")

    def _send(
        self, status: int, content: bytes, headers: dict[str, str], cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("X-SODA2-Truth-Last-Modified", self.server_state.last_modified)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True

    def _route(
        self, path: str, query: dict[str, str], body: dict[str, Any] | None
    ) -> tuple[int, str, bytes]:
        state = self.server_state
        if "/acs/acs5" in path:
            if query.get("key") != "a-key":
                return 200, "text/html", b"<html><title>Missing Key</title></html>"
            return 200, "application/json", json.dumps(_census(state, query)).encode()
        if found := re.fullmatch(r"/api/v3/views/([\w-]+)/query\.json", path):
            return self._query_3(found.group(1), body or {})
        if found := re.fullmatch(r"/api/views/([\w-]+)/rows\.csv", path):
            header, rows = state.select(found.group(1), "* EXCLUDE (_id)", None, None, 0)
            return 200, "text/csv", _csv(header, rows)
        if found := re.fullmatch(r"/api/views/([\w-]+)\.json", path):
            names = (
                state.columns(found.group(1))
                if found.group(1) in state.datasets
                else ["geoid", "boro_cd"]
            )
            view = {"columns": [{"fieldName": n, "name": n, "dataTypeName": "text"} for n in names]}
            return 200, "application/json", json.dumps(view).encode()
        found = re.fullmatch(r"/resource/([\w-]+)\.(json|csv|geojson)", path)
        if found is None:
            return 404, "application/json", b'{"message": "Not found"}'
        dataset, form = found.groups()
        if form == "geojson":
            return 200, "application/json", json.dumps(state.shapes[dataset]).encode()
        if dataset in state.shapes:
            return 200, "application/json", json.dumps([{"n": "4"}]).encode()
        limit = int(query["$limit"]) if "$limit" in query else 1000
        header, rows = state.select(
            dataset,
            query.get("$select", "* EXCLUDE (_id)"),
            query.get("$where"),
            limit,
            int(query.get("$offset", 0)),
        )
        if form == "csv":
            return 200, "text/csv", _csv(header, rows)
        return 200, "application/json", _json(header, rows)

    def _query_3(self, dataset: str, body: dict[str, Any]) -> tuple[int, str, bytes]:
        if self.headers.get("X-App-Token") != self.server_state.token:
            return 403, "application/json", b'{"message": "Authentication required"}'
        found = re.fullmatch(r"SELECT (.*?)( WHERE (.*))? ORDER BY :id", body["query"])
        assert found is not None
        size, number = body["page"]["pageSize"], body["page"]["pageNumber"]
        header, rows = self.server_state.select(
            dataset, found.group(1), found.group(3), size, size * (number - 1)
        )
        return 200, "application/json", _json(header, rows)


def _census(state: SodaServer, query: dict[str, str]) -> list[list[str | None]]:
    county = query["in"].split("county:")[1]
    header = state.census[0]
    at = [header.index(name) for name in [*query["get"].split(","), "state", "county", "tract"]]
    rows = [row for row in state.census[1:] if row[header.index("county")] == county]
    return [[row[i] for i in at] for row in [header, *rows]]


def _json(header: list[str], rows: list[tuple[Any, ...]]) -> bytes:
    """Rows as the API sends them: null fields are left out, numbers are text."""
    content = [
        {name: str(value) for name, value in zip(header, row, strict=True) if value is not None}
        for row in rows
    ]
    return json.dumps(content).encode()


def _csv(header: list[str], rows: list[tuple[Any, ...]]) -> bytes:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return out.getvalue().encode()


@contextmanager
def serving(state: SodaServer) -> Iterator[SodaServer]:
    """Run the server in a thread for as long as the block lasts."""
    handler = type("Handler", (_Handler,), {"server_state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
