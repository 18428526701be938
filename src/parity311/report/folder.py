"""A complete run on disk: find it, check it, read it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.errors import RunError
from parity311.storage.hashes import describe_file, is_of_size, is_seal_broken, is_unchanged
from parity311.storage.strict_json import read_json
from parity311.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG_VERSION = 1
"""Version of the configuration and of the folder's layout; rises when an old run cannot be read."""

RUN_FILE = "run.json"
METRICS_FILE = "metrics.json"
REPORT_FILE = "report.json"
PAGE_FILE = "report.html"
TABLES_FOLDER = "tables"
PICTURES_FOLDER = "pictures"
PARTIAL_PREFIX = ".partial-"
NARROW_SUFFIX = "-narrow"
"""A picture drawn for a narrow screen lies beside the wide one under this suffix."""
LATEST = "latest"
"""Stands for the newest run wherever an id is asked for."""


@dataclass(frozen=True)
class Run:
    """A complete run; everything is read from its folder when asked for.

    Examples
    --------
    >>> first.config["preset"], first.changed_files()
    ('small', ())
    >>> [row["policy"] for row in first.metrics["comparisons"][0]["policies"]]
    ['balanced']
    """

    path: Path
    info: dict[str, Any]
    """What run.json holds: id, command, configuration, data, versions, seeds, device, stages."""

    @property
    def id(self) -> str:
        """Sortable name of the run."""
        return str(self.info["id"])

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(self.info["config"])

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What metrics.json holds."""
        return dict(read_json(self.path / METRICS_FILE))

    @property
    def page_path(self) -> Path:
        """Where the report page lies."""
        return self.path / PAGE_FILE

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of the stored tables, sorted."""
        return tuple(sorted(p.stem for p in (self.path / TABLES_FOLDER).glob("*.parquet")))

    @property
    def picture_names(self) -> tuple[str, ...]:
        """Names of the stored pictures, sorted, without their narrow versions."""
        stems = (p.stem for p in (self.path / PICTURES_FOLDER).glob("*.svg"))
        return tuple(sorted(stem for stem in stems if not stem.endswith(NARROW_SUFFIX)))

    def changed_files(self) -> tuple[str, ...]:
        """Return the files whose content is no longer what the run wrote."""
        listed = self.info["files"].items()
        return tuple(name for name, entry in listed if describe_file(self.path / name) != entry)

    def table(self, name: str) -> pa.Table:
        """Read a table."""
        import pyarrow.parquet as parquet

        if name not in self.table_names:
            raise _unknown_part("table", name, self.id, self.table_names)
        return parquet.read_table(self.path / TABLES_FOLDER / f"{name}.parquet")

    def picture(self, name: str, *, is_narrow: bool = False) -> str | None:
        """Read a picture as SVG text; None where no narrow version was drawn."""
        if name not in self.picture_names:
            raise _unknown_part("picture", name, self.id, self.picture_names)
        suffix = NARROW_SUFFIX if is_narrow else ""
        path = self.path / PICTURES_FOLDER / f"{name}{suffix}.svg"
        return path.read_text(encoding="utf-8") if path.is_file() else None


def open_run(path_or_id: str | Path, root: str | Path = "runs") -> Run:
    """Open a complete run by its folder, its id, the beginning of its id, or `latest`.

    Examples
    --------
    >>> first = parity311.open_run("latest", "kept")
    >>> first.info["command"]
    'run'
    """
    return read_run_folder(_find_folder(str(path_or_id), Path(root)))


def list_runs(root: str | Path = "runs") -> tuple[str, ...]:
    """Return the ids of all complete runs, oldest first.

    Examples
    --------
    >>> parity311.list_runs("kept") == (first.id,)
    True
    """
    folder = Path(root)
    if not folder.is_dir():
        return ()
    found = [path for path in folder.glob(f"*/{RUN_FILE}") if path.parent.name[0] != "."]
    # An id begins with its second; runs of the same second are told apart by when they ended.
    found.sort(key=lambda path: (path.parent.name.rsplit("-", 1)[0], path.stat().st_mtime_ns))
    return tuple(path.parent.name for path in found)


def read_run_folder(path: Path) -> Run:
    """Read run.json and check that every file it lists is there as it was written."""
    if path.name.startswith(PARTIAL_PREFIX) or not (path / RUN_FILE).is_file():
        raise RunError(
            f"Run folder {path} is half-written; open a complete run, or make this one again."
        )
    info = read_json(path / RUN_FILE)
    version = info.get("config_version") if isinstance(info, dict) else None
    if version != CONFIG_VERSION:
        writer = info.get("versions", {}).get("parity311", "?") if isinstance(info, dict) else "?"
        raise RunError(
            f"Run {path.name} has config_version {version!r}, parity311 {__version__} reads "
            f"{CONFIG_VERSION}; make the run again, or open it with parity311 {writer}."
        )
    if is_seal_broken(info) or not isinstance(info.get("files"), dict):
        raise RunError(f"{path / RUN_FILE} was changed since the run was made; make the run again.")
    damaged = [name for name, entry in info["files"].items() if _differs(path / name, entry)]
    if damaged:
        raise RunError(
            f"Run {path.name} is incomplete: {', '.join(damaged[:3])} missing or changed since the "
            "run was made; make the run again."
        )
    return Run(path, info)


def _differs(path: Path, entry: dict[str, Any]) -> bool:
    return not is_of_size(path, entry) or not is_unchanged(path, entry)


def _find_folder(given: str, root: Path) -> Path:
    if Path(given).is_dir() and given not in ("", "."):
        return Path(given)
    if (root / given).is_dir() and given not in ("", ".", ".."):
        return root / given
    ids = list_runs(root)
    if given == LATEST and ids:
        return root / ids[-1]
    matches = [name for name in ids if given and name.startswith(given)]
    if len(matches) == 1:
        return root / matches[0]
    raise _unknown_run(given, root, ids, matches)


def _unknown_run(given: str, root: Path, ids: tuple[str, ...], matches: list[str]) -> RunError:
    if not ids:
        return RunError(f"No run {given!r}: {root} holds no complete run; make one first.")
    near = matches[-3:] or get_close_matches(given, ids, n=3, cutoff=0.3) or list(ids[-3:])
    what = "is the beginning of several" if matches else "does not exist"
    return RunError(f"Run {given!r} {what}; nearest in {root}: {', '.join(near)}.")


def _unknown_part(kind: str, name: str, run_id: str, allowed: tuple[str, ...]) -> RunError:
    return RunError(
        f"Run {run_id} has no {kind} {name!r}; it has {', '.join(allowed) or 'none'}. Name one."
    )
