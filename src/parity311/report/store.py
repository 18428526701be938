"""A run being written: aside first, under its own name only when everything is complete.

`<root>/.partial-<id>` becomes `<root>/<id>` by one rename, so a folder without the prefix is always
whole. A writer holds a lock on its partial folder; the system drops the lock when the process dies,
which is how the next start tells an interrupted run from one that is still being written.

Where a result comes from: configuration, software, machine.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from xml.etree import ElementTree

from parity311.errors import RunError
from parity311.report import tables
from parity311.report.folder import (
    CONFIG_VERSION,
    METRICS_FILE,
    NARROW_SUFFIX,
    PAGE_FILE,
    PARTIAL_PREFIX,
    PICTURES_FOLDER,
    REPORT_FILE,
    RUN_FILE,
    TABLES_FOLDER,
    Run,
    list_runs,
    open_run,
)
from parity311.report.page import check_report, link_siblings, write_page
from parity311.report.sections import Report
from parity311.storage import locks
from parity311.storage.disk import (
    DISK_FULL,
    disk_error,
    synchronise,
    telling_disk_errors,
    write_bytes_through,
)
from parity311.storage.hashes import describe_file, seal
from parity311.storage.strict_json import read_json, to_plain, write_json

if TYPE_CHECKING:
    import pyarrow as pa
import hashlib
import platform
import subprocess
import sys
from importlib import metadata

from parity311.storage.strict_json import canonical_json
from parity311.version import __version__

RECORDED_PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "duckdb",
    "pyarrow",
    "jinja2",
    "pydantic",
    "numpyro",
    "gymnasium",
)
"""Packages whose version can move a result or a picture; recorded where installed."""

GIT_TIMEOUT_SECONDS = 5.0
"""A repository on a slow network disk must not hold up a run."""


def hash_configuration(config: Any) -> str:
    """Return the SHA-256 of a configuration in canonical form, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(config).encode()).hexdigest()


def software_versions() -> dict[str, str]:
    """Return the versions of parity311, Python and the installed packages that matter."""
    versions = {"parity311": __version__, "python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state() -> dict[str, Any] | None:
    """Return commit and cleanliness of the checkout parity311 runs from; None outside of one."""
    source = Path(__file__).resolve()
    # An installed copy may lie inside somebody else's repository: only a tracked file counts.
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None
    commit = _git(source.parent, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(source.parent, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_clean": changes == ""}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def describe_device() -> dict[str, Any]:
    """Return processor, cores and, where JAX was used, its backend and devices."""
    device: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "n_cores": os.cpu_count(),
    }
    jax = sys.modules.get("jax")  # asking would start a backend that the run never used
    if jax is not None:
        device["jax_backend"] = jax.default_backend()
        device["jax_devices"] = [str(d.device_kind) for d in jax.devices()]
    return device


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


__all__ = ["Run", "RunWriter", "list_runs", "open_run", "start_run"]

NARROW_WIDTH = 320
"""Units across a picture for narrow screens: about one CSS pixel each on a phone."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*(-[a-z0-9_]+)*")
_PARTIAL = re.compile(rf"{re.escape(PARTIAL_PREFIX)}\d{{8}}-\d{{6}}-[0-9a-f]{{6}}(-\d+)?")
_log = logging.getLogger(__name__)


class RunWriter:
    """Collects the parts of a run; a context manager that completes it or leaves nothing."""

    def __init__(self, root: Path, run_id: str, command: str, config: Any, lock: int) -> None:
        self.id = run_id
        self.path = root / f"{PARTIAL_PREFIX}{run_id}"
        """Where parts are written until the run is complete."""
        self.final_path = root / run_id
        self.removed: tuple[str, ...] = ()
        """Interrupted runs that were removed when this one started."""
        plain = to_plain(config, "config")
        self._config: dict[str, Any] = plain if isinstance(plain, dict) else {"value": plain}
        self._command = command
        self._created_at = datetime.now(UTC)
        self._started = time.perf_counter()
        self._lock: int | None = lock
        self._data: list[dict[str, Any]] = []
        self._seeds: dict[str, Any] = {}
        self._stages: list[dict[str, Any]] = []
        self._metrics: dict[str, Any] = {}
        self._tables: dict[str, list[str]] = {}
        self._pictures: list[str] = []
        self._report: Report | None = None
        self._page_names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._complete()
            elif isinstance(error, OSError) and self._is_own(error):
                raise disk_error(error, self.path) from error
        finally:
            self._discard()

    def add_data(
        self,
        name: str,
        fingerprint: str,
        *,
        is_synthetic: bool,
        statement: str = "",
        **details: Any,
    ) -> None:
        """Record which data the run used; the report states it at its top.

        `statement` says in a sentence what the data are and what they are not.
        """
        entry = {"name": name, "is_synthetic": is_synthetic, "fingerprint": fingerprint}
        self._data.append({**entry, "statement": statement, **to_plain(details, f"data.{name}")})

    @property
    def is_synthetic(self) -> bool:
        """Whether all data recorded so far come from generated cities."""
        return bool(self._data) and all(entry["is_synthetic"] for entry in self._data)

    def set_seeds(self, **seeds: Any) -> None:
        """Record seeds by what they are for."""
        self._seeds.update(to_plain(seeds, "seeds"))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the wall-clock seconds of a stage."""
        begun = time.perf_counter()
        yield
        self._stages.append({"name": name, "seconds": round(time.perf_counter() - begun, 3)})

    def add_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add entries to metrics.json; nested mappings are merged, nothing is overwritten."""
        _merge(self._metrics, to_plain(metrics, "metrics"), "metrics")

    def add_table(
        self, name: str, table: pa.Table | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    ) -> None:
        """Store a table as Parquet and CSV; given as Arrow, as columns, or as rows."""
        self._check_name("table", name, self._tables)
        arrow = tables.to_arrow(name, table)
        with telling_disk_errors(self.path):
            tables.write_table(self.path / TABLES_FOLDER, name, arrow)
        self._tables[name] = list(arrow.column_names)

    def add_picture(self, name: str, svg: str, narrow: str | None = None) -> None:
        """Store a picture, and its version for narrow screens where there is one."""
        self._check_name("picture", name, self._pictures)
        versions = {"": svg} if narrow is None else {"": svg, NARROW_SUFFIX: narrow}
        for suffix, content in versions.items():
            _check_svg(name, content)
            with telling_disk_errors(self.path):
                path = self.path / PICTURES_FOLDER / f"{name}{suffix}.svg"
                write_bytes_through(path, content.encode())
        self._pictures.append(name)

    def draw(self, name: str, chart: Callable[..., str], *arguments: Any, **options: Any) -> None:
        """Draw a chart of `report.pictures` for wide and narrow screens and store both."""
        wide = chart(*arguments, **options)
        self.add_picture(name, wide, chart(*arguments, **{**options, "width": NARROW_WIDTH}))

    def set_report(self, report: Report) -> None:
        """Say what the report page shows; its tables and pictures must be stored already."""
        check_report(report, self._tables, self._pictures)
        self._report = report

    def name_page(self, name: str) -> Path:
        """Put the page beside itself under the name people look for; where it will lie."""
        self._page_names.append(name)
        return self.final_path / name

    def _check_name(self, kind: str, name: str, taken: Collection[str]) -> None:
        if not _NAME.fullmatch(name) or name.endswith(NARROW_SUFFIX):
            raise RunError(
                f"Cannot store {kind} {name!r}; names are lower-case letters, digits, _ and -, "
                f"not ending in {NARROW_SUFFIX}. Rename it."
            )
        if name in taken:
            raise RunError(f"The run already holds a {kind} {name!r}; rename the second one.")

    def _is_own(self, error: OSError) -> bool:
        """Whether writing this run failed; a full disk is often told without a name."""
        where = str(error.filename or "")
        return error.errno in DISK_FULL or where.startswith(str(self.path))

    def _complete(self) -> None:
        """Write what is left, then give the folder its name: the rename is the last step."""
        with telling_disk_errors(self.path):
            write_json(self.path / METRICS_FILE, self._metrics)
            if self._report is not None:
                write_json(self.path / REPORT_FILE, self._report)
            write_json(self.path / RUN_FILE, seal(to_plain(self._describe())))
            if self._report is not None:
                page = write_page(Run(self.path, read_json(self.path / RUN_FILE)))
                for name in self._page_names:
                    write_bytes_through(self.path / name, page.read_bytes())
            for folder in (self.path / TABLES_FOLDER, self.path / PICTURES_FOLDER, self.path):
                synchronise(folder)
            self.path.rename(self.final_path)
        with suppress(OSError):  # the run is complete; only a power cut could still undo the name
            synchronise(self.final_path.parent)
        if self._report is not None:
            with suppress(OSError, ValueError):  # another page keeps the links it had
                link_siblings(self.final_path)

    def _describe(self) -> dict[str, Any]:
        files = sorted(p for p in self.path.rglob("*") if p.is_file() and p.name != PAGE_FILE)
        return {
            "id": self.id,
            "created_at": self._created_at.isoformat(timespec="seconds"),
            "command": self._command,
            "config_version": self._config.get("config_version", CONFIG_VERSION),
            "config": self._config,
            "config_sha256": hash_configuration(self._config),
            "data": self._data,
            "seeds": self._seeds,
            "versions": software_versions(),
            "git": git_state(),
            "device": describe_device(),
            "stages": self._stages,
            "seconds": round(time.perf_counter() - self._started, 3),
            "files": {p.relative_to(self.path).as_posix(): describe_file(p) for p in files},
        }

    def _discard(self) -> None:
        """Remove what is left aside and release the lock; a second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def start_run(root: str | Path, command: str, config: Any) -> RunWriter:
    """Start a run below `root`, after removing what interrupted runs have left there.

    `config` is the resolved configuration: a mapping, a dataclass or a pydantic model.
    """
    folder = Path(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.hold(folder):
            removed = remove_interrupted(folder)
            run_id = _free_id(folder, hash_configuration(config))
            partial = folder / f"{PARTIAL_PREFIX}{run_id}"
            partial.mkdir()
            lock = locks.take(partial)
            (partial / TABLES_FOLDER).mkdir()
            (partial / PICTURES_FOLDER).mkdir()
    except OSError as error:
        raise disk_error(error, folder) from error
    writer = RunWriter(folder, run_id, command, config, lock)
    writer.removed = removed
    return writer


def remove_interrupted(root: Path) -> tuple[str, ...]:
    """Remove partial folders whose writer is gone, say so, and return their ids."""
    removed: list[str] = []
    for partial in sorted(root.glob(f"{PARTIAL_PREFIX}*")):
        is_ours = _PARTIAL.fullmatch(partial.name) and not partial.is_symlink()
        if is_ours and partial.is_dir() and not locks.is_held(partial):
            shutil.rmtree(partial, ignore_errors=True)
            removed.append(partial.name.removeprefix(PARTIAL_PREFIX))
    if removed:
        _log.warning(
            "Removed %d interrupted run(s) from %s: %s.", len(removed), root, ", ".join(removed)
        )
    return tuple(removed)


def _free_id(root: Path, config_sha256: str) -> str:
    """Return a sortable timestamp (UTC) plus a short hash of the configuration, not yet taken."""
    stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{config_sha256[:6]}"
    candidate, count = stem, 1
    # The partial name first: it becomes the other, never the reverse.
    while (root / f"{PARTIAL_PREFIX}{candidate}").exists() or (root / candidate).exists():
        count += 1
        candidate = f"{stem}-{count}"
    return candidate


def _merge(target: dict[str, Any], new: dict[str, Any], where: str) -> None:
    for key, value in new.items():
        present = target.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            _merge(present, value, f"{where}.{key}")
        elif key in target:
            raise RunError(f"{where}.{key} was given twice; give every figure its own key.")
        else:
            target[key] = value


def _check_svg(name: str, svg: str) -> None:
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise RunError(f"Picture {name!r} is not well-formed SVG ({error}); mend it.") from error
    has_title = any(child.tag.endswith("}title") for child in root)
    if not root.tag.endswith("}svg") or not has_title:
        raise RunError(f"Picture {name!r} is no SVG with a title; draw it with report.pictures.")
