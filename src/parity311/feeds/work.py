"""One import under way: its connection, its inputs, and what it has to tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from parity311.feeds.citymap import CityMap
from parity311.feeds.formats import COMPLAINT_FORMATS
from parity311.feeds.inputs import InputGroup
from parity311.feeds.staging import Unreadable
from parity311.records.sql import Connection, connect, literal

Report = Callable[[str, float, float], None]
"""(stage, completed, total): what the import calls to say how far it is."""

MEMORY_LIMIT = "3GB"
"""What DuckDB may use before it spills to disk; the rest of the process needs about 1 GB."""
COMPLAINT_KINDS = (*(known.kind for known in COMPLAINT_FORMATS), "mapped")
FIGURE_KINDS = ("acs_answer", "tract_table", "acs_table", "mapped_tracts")
"""Files with ACS figures, the best first; only one kind is used."""
PLACE_KINDS = ("lots", "hpd_violations", "address_years")
"""Files that know where lots, buildings or addresses are."""


@dataclass(frozen=True)
class ImportOptions:
    """What an import leaves to its user.

    Examples
    --------
    >>> options = parity311.ImportOptions(domains=("heat",), overwrite=True)
    >>> manifest = parity311.import_records(exports, "records/nyc", options)
    >>> list(manifest["domains"])
    ['heat']
    """

    domains: tuple[str, ...] | None = None
    """Only complaints of these domains; all when not given."""
    since: date | None = None
    """Complaints received earlier are out of scope; by default what was fetched says so."""
    keep_unlocated: bool = False
    """Keep rows whose tract is not found in a place of their own per borough, income unknown."""
    day_first: bool | None = None
    """Whether day or month comes first where dates do not tell; asked for when not given."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Name of a file -> the kind it is to be read as, where that is not what its header tells."""
    sheet: str = ""
    """Sheet of workbooks that is read; the first with a table when not given."""
    memory_limit: str = MEMORY_LIMIT
    """Memory before spilling to disk."""
    threads: int = 2
    overwrite: bool = False
    """Replace the imported records that are there."""


@dataclass
class ImportWork:
    """One import under way."""

    connection: Connection
    groups: list[InputGroup]
    aside: Path
    """The folder being written; renamed when it is whole."""
    options: ImportOptions
    report: Report
    city_map: CityMap | None = None
    out: Path | None = None
    """What the folder will be called."""
    unreadable: dict[str, list[Unreadable]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> list[InputGroup]:
        """Input groups of these kinds."""
        return [group for group in self.groups if group.kind in kinds]

    @property
    def complaint_groups(self) -> list[InputGroup]:
        """Input groups whose rows become complaints; their order numbers the files."""
        return self.of_kind(*COMPLAINT_KINDS)

    @property
    def sources(self) -> tuple[str, ...]:
        """Kinds of complaint files there are."""
        return tuple(sorted({group.kind for group in self.complaint_groups}))

    @property
    def since(self) -> date | None:
        """First day of the complaints that were asked for."""
        if self.options.since is not None:
            return self.options.since
        fetched = [
            group.provenance["since"] for group in self.groups if "since" in group.provenance
        ]
        return date.fromisoformat(min(fetched)) if fetched else None

    @property
    def stage(self) -> Path:
        """Folder of files that do not outlive the import."""
        return self.aside / ".stage"

    @property
    def placed(self) -> Path:
        """Judged rows, one folder a domain."""
        return self.stage / "placed"


def open_work(stage: Path, options: ImportOptions) -> Connection:
    """DuckDB with bounded memory that spills into the folder being written."""
    stage.mkdir(parents=True)
    connection = connect()
    # Its bar would go to standard output, into the middle of JSON.
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET memory_limit = {literal(options.memory_limit)}")
    connection.execute(f"SET threads = {literal(int(options.threads))}")
    connection.execute(f"SET temp_directory = {literal(stage / 'spill')}")
    connection.execute("SET preserve_insertion_order = true")
    return connection
