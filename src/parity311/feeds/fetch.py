"""Download what domains need: page by page, verified, and resumable at any point.

A state file beside the pages records the query and, page by page, how many rows it has and its
hash. A run that was killed goes on at the first page that is missing or does not match. If the
dataset changed on the server meanwhile, offsets no longer mean the same rows, so its pages are
fetched again. The folder counts as fetched when ``fetched.json`` is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from parity311.errors import FetchError, InputError, unknown_name
from parity311.feeds.census import (
    CENSUS_ADDRESS,
    NYC_COUNTIES,
    census_queries,
    check_answer,
)
from parity311.feeds.datasets import (
    CENSUS_TERMS,
    NYC_PORTAL,
    NYC_TERMS,
    Request,
    plan_requests,
)
from parity311.feeds.inputs import FETCHED
from parity311.feeds.soda import FeedAnswer, Incomplete, SodaClient
from parity311.storage.aside import write_bytes_aside, write_text_aside, writing_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import hash_file, is_seal_broken, seal
from parity311.storage.locks import one_writer

STATE = "state.json"
PAGE_ROWS = 50_000
MAX_RESTARTS = 3
MAX_SHAPES = 10_000
"""More areas than any city has tracts."""
PROTOCOLS = ("soda2", "soda3", "file")
Report = Callable[[str, float, float], None]


@dataclass(frozen=True)
class FetchOptions:
    """What a user can choose."""

    domains: tuple[str, ...]
    since: date
    app_token: str | None = None
    census_key: str | None = None
    with_census: bool = True
    acs_year: int = 2023
    """Last year of the five-year ACS tables."""
    protocol: str = "soda2"
    page_rows: int = PAGE_ROWS
    portal: str = NYC_PORTAL
    census_address: str = CENSUS_ADDRESS

    def query(self) -> dict[str, Any]:
        """What decides which rows come; a folder holds the answer to one query."""
        return {
            "domains": sorted(self.domains),
            "since": str(self.since),
            "acs_year": self.acs_year if self.with_census else None,
            "protocol": self.protocol,
            "page_rows": self.page_rows,
        }


@dataclass
class DatasetState:
    """How far the fetch of one dataset is."""

    total: int = -1
    last_modified: str | None = None
    columns: list[str] = field(default_factory=list)
    missing_columns: list[str] = field(default_factory=list)
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """File name -> {rows, sha256}."""
    retrieved_at: str | None = None
    """When the last page was verified; None while the fetch is under way."""


@dataclass
class Fetch:
    """One fetch under way."""

    options: FetchOptions
    folder: Path
    client: SodaClient
    report: Report
    datasets: dict[str, DatasetState]

    def save(self) -> None:
        """Write the state so that a reader never sees half of it."""
        content = {
            "query": self.options.query(),
            "datasets": {name: asdict(state) for name, state in self.datasets.items()},
        }
        write_text_aside(self.folder / STATE, json.dumps(seal(content), indent=1))

    def has_page(self, state: DatasetState, name: str) -> bool:
        """Whether a page is there as it was fetched."""
        path = self.folder / name
        recorded = state.pages.get(name)
        return bool(recorded) and path.is_file() and hash_file(path) == recorded["sha256"]

    def keep_page(self, state: DatasetState, name: str, body: bytes, rows: int) -> None:
        """Write a verified page, then the state that knows it."""
        path = self.folder / name
        write_bytes_aside(path, body)
        state.pages[name] = {"rows": rows, "sha256": hash_file(path)}
        self.save()


def fetch_nyc(
    options: FetchOptions,
    out: Path,
    report: Report | None = None,
    client: SodaClient | None = None,
) -> dict[str, Any]:
    """Fetch everything the domains need into ``out``; give the contents of fetched.json."""
    if options.protocol not in PROTOCOLS:
        raise unknown_name("protocol", options.protocol, PROTOCOLS)
    if options.protocol == "soda3" and not options.app_token:
        raise InputError(
            "Protocol 'soda3' needs an app token; give --app-token or SOCRATA_APP_TOKEN, or use "
            "--protocol soda2."
        )
    if options.with_census and not options.census_key:
        raise InputError(
            "The Census API needs a key; give --census-key or CENSUS_API_KEY (free at "
            "api.census.gov/data/key_signup.html), or leave the figures out with --no-census and "
            "import a table of your own."
        )
    requests = plan_requests(options.domains, options.since, datetime.now(UTC).date())
    client = client or SodaClient(options.portal, options.app_token)
    with telling_disk_errors(out, FetchError), one_writer(out):
        out.mkdir(parents=True, exist_ok=True)
        state = _open_state(out, options)
        with client:
            work = Fetch(options, out, client, report or (lambda *_: None), state)
            for request in requests:
                _fetch_dataset(work, request)
        if options.with_census:
            _fetch_census(work)
        return _finish(work, requests)


def _open_state(folder: Path, options: FetchOptions) -> dict[str, DatasetState]:
    path = folder / STATE
    if not path.is_file():
        others = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
        if others:
            raise InputError(
                f"{folder} holds other files ({others[0]} …); choose an empty folder with --out."
            )
        return {}
    try:
        content = json.loads(path.read_bytes())
        query = content["query"]
        if is_seal_broken(content):
            raise ValueError("it was changed since it was written")
        found = {name: DatasetState(**state) for name, state in content["datasets"].items()}
        for name in [name for state in found.values() for name in state.pages]:
            if Path(name).name != name:
                raise ValueError(f"{name!r} is no page of it")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); fetch into a new folder with --out."
        ) from error
    if query != options.query():
        raise InputError(
            f"{folder} holds the fetch of another query ({query}); choose another "
            "folder with --out, or repeat that query."
        )
    return found


def _fetch_dataset(work: Fetch, request: Request) -> None:
    dataset = request.dataset
    state = work.datasets.setdefault(dataset.name, DatasetState())
    if state.retrieved_at and all(work.has_page(state, name) for name in state.pages):
        work.report(dataset.name, state.total, max(state.total, 1))
        return
    for _ in range(MAX_RESTARTS):
        total, last_modified = work.client.count(dataset.id, request.where)
        if (state.total, state.last_modified) != (total, last_modified):
            state = _start_over(work, request, total, last_modified)
        _fetch_pages(work, request, state)
        after, modified_after = work.client.count(dataset.id, request.where)
        if (after, modified_after) == (total, last_modified):
            state.retrieved_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            work.save()
            return
    raise FetchError(
        f"{dataset.title} ({dataset.id}) changed on the server during each of {MAX_RESTARTS} "
        "fetches; run the same command again at another hour."
    )


def _start_over(
    work: Fetch, request: Request, total: int, last_modified: str | None
) -> DatasetState:
    """A new state for a dataset: which of the wanted columns it has now."""
    dataset = request.dataset
    have = work.client.columns(dataset.id)
    gone = [column for column in dataset.columns if column not in have]
    for column in gone:
        if column in dataset.required and not dataset.is_geographic:
            near = get_close_matches(column, have, n=1, cutoff=0.5)
            hint = f"; perhaps it is called {near[0]!r} now" if near else ""
            raise FetchError(
                f"{dataset.title} ({dataset.id}) has no column {column!r} any more{hint}. Update "
                "parity311, or import a CSV export with a column map."
            )
    for name in work.datasets[dataset.name].pages:
        (work.folder / name).unlink(missing_ok=True)
    kept = [column for column in dataset.columns if column in have]
    state = DatasetState(total, last_modified, kept, gone)
    work.datasets[dataset.name] = state
    work.save()
    return state


def _fetch_pages(work: Fetch, request: Request, state: DatasetState) -> None:
    dataset, options = request.dataset, work.options
    if dataset.is_geographic:
        name = f"{dataset.name}.geojson"
        if not work.has_page(state, name):
            answer = work.client.shapes(dataset.id, MAX_SHAPES)
            work.keep_page(state, name, answer.body, state.total)
        work.report(dataset.name, 1, 1)
        return
    if options.protocol == "file" and not dataset.names_people and request.where is None:
        _fetch_whole(work, request, state)
        return
    suffix = "json" if options.protocol == "soda3" else "csv"
    for number, offset in enumerate(range(0, state.total, options.page_rows)):
        name = f"{dataset.name}-{number:05d}.{suffix}"
        expected = min(options.page_rows, state.total - offset)
        if not work.has_page(state, name):
            answer = _ask_page(work, request, state, number, offset, expected)
            work.keep_page(state, name, answer.body, expected)
        work.report(dataset.name, offset + expected, max(state.total, 1))


def _ask_page(
    work: Fetch, request: Request, state: DatasetState, number: int, offset: int, expected: int
) -> FeedAnswer:
    id_, size = request.dataset.id, work.options.page_rows
    if work.options.protocol == "soda3":
        return work.client.page_3(id_, state.columns, request.where, number + 1, size, expected)
    return work.client.page(id_, state.columns, request.where, offset, size, expected)


def _fetch_whole(work: Fetch, request: Request, state: DatasetState) -> None:
    name = f"{request.dataset.name}.csv"
    if work.has_page(state, name):
        return
    path = work.folder / name
    with writing_aside(path) as aside:
        work.client.whole_file(request.dataset.id, aside, state.total)
    state.pages[name] = {"rows": state.total, "sha256": hash_file(path)}
    work.save()
    work.report(request.dataset.name, state.total, max(state.total, 1))


def _fetch_census(work: Fetch) -> None:
    """Fetch the ACS answers; the key is in no file."""
    options = work.options
    state = work.datasets.setdefault("acs", DatasetState())
    client = replace(work.client, portal=options.census_address, app_token=None)
    queries = census_queries(str(options.census_key))
    with client:
        for number, query in enumerate(queries):
            name = f"acs-{number:02d}.json"
            if not work.has_page(state, name):

                def check(answer: FeedAnswer) -> None:
                    _parse_census(answer, options.acs_year)

                answer = client.call(f"/{options.acs_year}/acs/acs5", query, check=check)
                rows = len(_parse_census(answer, options.acs_year)) - 1
                work.keep_page(state, name, answer.body, rows)
            work.report("ACS figures", number + 1, len(queries))
    state.total = sum(page["rows"] for page in state.pages.values())
    state.retrieved_at = state.retrieved_at or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    work.save()


def _parse_census(answer: FeedAnswer, year: int) -> list[list[str | None]]:
    text = answer.body.decode(errors="replace")
    if text.lstrip().startswith("<"):
        raise FetchError(
            f"The Census answered for {year} with a page instead of rows: the key is missing or "
            "not valid; check --census-key (CENSUS_API_KEY)."
        )
    try:
        return check_answer(json.loads(text), year)
    except ValueError as error:
        raise Incomplete(f"JSON cut off ({error})") from error


def _finish(work: Fetch, requests: Sequence[Request]) -> dict[str, Any]:
    """Write fetched.json: source, terms, time, rows and hash of every file."""
    entries = []
    for request in requests:
        dataset = request.dataset
        state = work.datasets[dataset.name]
        entries.append(
            {
                "name": dataset.name,
                "title": dataset.title,
                "source": f"{work.options.portal}/d/{dataset.id}",
                "terms": NYC_TERMS,
                "where": request.where,
                "retrieved_at": state.retrieved_at,
                "server_rows": state.total,
                "server_changed": state.last_modified,
                "missing_columns": state.missing_columns,
                "files": dict(sorted(state.pages.items())),
            }
        )
    if work.options.with_census:
        state = work.datasets["acs"]
        entries.append(
            {
                "name": "acs",
                "title": f"ACS five-year tables, {work.options.acs_year}",
                "source": f"{work.options.census_address}/{work.options.acs_year}/acs/acs5",
                "terms": CENSUS_TERMS,
                "where": f"tracts of New York counties {', '.join(NYC_COUNTIES)}",
                "retrieved_at": state.retrieved_at,
                "server_rows": state.total,
                "server_changed": None,
                "missing_columns": [],
                "files": dict(sorted(state.pages.items())),
            }
        )
    content = {"query": work.options.query(), "datasets": entries}
    write_text_aside(work.folder / FETCHED, json.dumps(seal(content), indent=1))
    return content
