"""What a run keeps so that it can be audited later from its folder alone.

Tables `audit_cells`, `audit_places`, `audit_incidents`, `audit_four_weeks` (recorded service) and
`audit_episodes` (policies in test episodes); each row names its domain, setting and policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parity311.audit.cells import AuditInputs, cells_from_table, table_from_cells
from parity311.audit.episodes import EPISODE_DENOMINATORS, EpisodeInputs
from parity311.audit.strata import POSITION, PUBLISHED_COVARIATES, AuditPlaces, places_from_tables
from parity311.audit.windows import Windows, table_from_windows, windows_from_table
from parity311.errors import InputError, RunError
from parity311.records.strata import INCOME, LABELS, RACE_GROUPS
from parity311.report.folder import LATEST, TABLES_FOLDER, Run, list_runs, open_run
from parity311.report.store import RunWriter

MAX_STORED_DRAWS = 200
"""Joint draws of estimated incidents that a run keeps."""
KEY = ("domain", "setting", "policy")
WINDOWS = "audit_four_weeks"


def store_inputs(
    run: RunWriter,
    inputs: Sequence[AuditInputs],
    episodes: Sequence[EpisodeInputs] = (),
) -> None:
    """Store everything an audit needs in a run that is being written; call it once a run."""
    if inputs:
        run.add_table("audit_cells", pa.concat_tables([_cells_table(one) for one in inputs]))
        settings = {one.setting: one.places for one in inputs}
        run.add_table(
            "audit_places",
            pa.concat_tables([_places_table(name, at) for name, at in settings.items()]),
        )
        with_draws = [one for one in inputs if one.incident_draws is not None]
        if with_draws:
            parts = [_incidents_table(one) for one in with_draws]
            run.add_table("audit_incidents", pa.concat_tables(parts))
        parts = [
            _keyed(one, table_from_windows(one.windows, one.places.geoid))
            for one in inputs
            if one.windows is not None
        ]
        if parts:
            run.add_table(WINDOWS, pa.concat_tables(parts))
        run.add_metrics({"audit_windows": [_window(one) for one in inputs]})
    if episodes:
        run.add_table("audit_episodes", [row for one in episodes for row in _episode_rows(one)])


def _keyed(one: AuditInputs, table: pa.Table) -> pa.Table:
    for name in reversed(KEY):
        column = pa.array([getattr(one, name)] * len(table), pa.string())
        table = table.add_column(0, name, column)
    return table


def _cells_table(one: AuditInputs) -> pa.Table:
    return _keyed(one, table_from_cells(one.cells, one.places))


def _places_table(setting: str, places: AuditPlaces) -> pa.Table:
    columns: dict[str, Any] = {
        "setting": pa.array([setting] * places.n_tracts, pa.string()),
        "geoid": pa.array(places.geoid.tolist(), pa.string()),
        "borough": pa.array(places.borough.tolist(), pa.string()),
        "community_board": places.community_board,
        "households": places.households,
        "dwellings": places.dwellings,
        "income_quintile": places.income_quintile,
    }
    shares = {f"share_{race}": places.shares[race] for race in RACE_GROUPS}
    known = {name: places.covariates.get(name) for name in PUBLISHED_COVARIATES}
    nothing = np.full(places.n_tracts, np.nan)
    kept = {name: nothing if values is None else values for name, values in known.items()}
    at = np.column_stack([nothing, nothing]) if places.position is None else places.position
    kept |= {name: at[:, i] for i, name in enumerate(POSITION)}
    return pa.table(columns | shares | kept)


def _incidents_table(one: AuditInputs) -> pa.Table:
    assert one.incident_draws is not None
    draws = one.incident_draws[:MAX_STORED_DRAWS].astype(np.float32)
    columns = {
        "tract": pa.array(one.places.geoid.tolist(), pa.string()),
        "n_incidents": pa.array(draws.mean(axis=0)),
        "draws": pa.array(draws.T.tolist(), pa.list_(pa.float32())),
    }
    return _keyed(one, pa.table(columns))


def _window(one: AuditInputs) -> dict[str, Any]:
    key = {name: getattr(one, name) for name in KEY}
    return {
        **key,
        "date_from": one.date_from.isoformat(),
        "date_to": one.date_to.isoformat(),
        "n_not_due": one.n_not_due,
    }


def _episode_rows(one: EpisodeInputs) -> list[dict[str, Any]]:
    key = {name: getattr(one, name) for name in KEY}
    rows = []
    for episode in range(len(one.correct)):
        for k, label in enumerate(LABELS[one.strata]):
            counts = {f"n_{name}": float(v[episode, k]) for name, v in one.out_of.items()}
            row = {
                "episode": episode,
                "stratum": label,
                "n_correct": float(one.correct[episode, k]),
                "widening": one.widening,
                "strata": one.strata,
            }
            rows.append({**key, **row, **counts})
    return rows


def load_inputs(run: Run) -> tuple[AuditInputs, ...]:
    """Read back what `store_inputs` kept of recorded service."""
    if "audit_cells" not in run.table_names:
        raise RunError(
            f"Run {run.id} keeps no cells to audit (made by `{run.info.get('command', '?')}`); "
            "audit a run of `parity311 run`, made with this version."
        )
    cells, places = run.table("audit_cells"), run.table("audit_places")
    incidents = run.table("audit_incidents") if "audit_incidents" in run.table_names else None
    windows = run.table(WINDOWS) if WINDOWS in run.table_names else None
    found = []
    for window in run.metrics["audit_windows"]:
        key = {name: window[name] for name in KEY}
        at = _load_places(_select(places, {"setting": key["setting"]}))
        found.append(
            AuditInputs(
                **key,
                places=at,
                cells=cells_from_table(_select(cells, key), at),
                incident_draws=None if incidents is None else _load_draws(_select(incidents, key)),
                date_from=date.fromisoformat(window["date_from"]),
                date_to=date.fromisoformat(window["date_to"]),
                n_not_due=window["n_not_due"],
                windows=None if windows is None else _load_windows(_select(windows, key), at),
            )
        )
    return tuple(found)


def load_episodes(run: Run) -> tuple[EpisodeInputs, ...]:
    """Read back the test episodes of policies; none where the run keeps none."""
    if "audit_episodes" not in run.table_names:
        return ()
    table = run.table("audit_episodes")
    keys = dict.fromkeys(zip(*(table[name].to_pylist() for name in KEY), strict=True))
    names = [name for name in EPISODE_DENOMINATORS if f"n_{name}" in table.column_names]
    found = []
    for key in keys:
        rows = _select(table, dict(zip(KEY, key, strict=True)))
        sums = {
            name: rows[f"n_{name}"].to_numpy(zero_copy_only=False).reshape(-1, len(LABELS[INCOME]))
            for name in ("correct", *names)
        }
        domain, setting, policy = key
        widening = rows["widening"][0].as_py() if "widening" in rows.column_names else 1.0
        strata = rows["strata"][0].as_py() if "strata" in rows.column_names else INCOME
        found.append(
            EpisodeInputs(domain, setting, policy, sums.pop("correct"), sums, widening, strata)
        )
    return tuple(found)


def open_run_with(table: str, given: str, root: Path) -> Run:
    """Open a run; `latest` is the newest one that keeps this table, whatever was made since."""
    if given == LATEST:
        for name in reversed(list_runs(root)):
            if (root / name / TABLES_FOLDER / f"{table}.parquet").is_file():
                return open_run(name, root)
    return open_run(given, root)


def _select(table: pa.Table, key: dict[str, str]) -> pa.Table:
    keep = np.ones(len(table), dtype=bool)
    for name, value in key.items():
        column = np.asarray(table[name].to_pylist(), dtype=object)
        keep &= column == value
    return table.filter(pa.array(keep))


def _load_places(table: pa.Table) -> AuditPlaces:
    dwellings = dict(zip(table["geoid"].to_pylist(), table["dwellings"].to_pylist(), strict=True))
    return places_from_tables(table, dwellings)


def _load_windows(table: pa.Table, places: AuditPlaces) -> Windows | None:
    return windows_from_table(table, places.geoid) if len(table) else None


def _load_draws(table: pa.Table) -> np.ndarray | None:
    if not len(table):
        return None
    return np.array(table["draws"].to_pylist(), dtype=np.float64).T


def restrict(
    inputs: Sequence[AuditInputs], domains: Sequence[str] | None
) -> tuple[AuditInputs, ...]:
    """The inputs of these domains; an error that names those there are."""
    if not domains:
        return tuple(inputs)
    chosen = tuple(one for one in inputs if one.domain in domains)
    if not chosen:
        have = ", ".join(dict.fromkeys(one.domain for one in inputs))
        raise InputError(f"The run has no domain {', '.join(domains)}; it has {have}.")
    return chosen
