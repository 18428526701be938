"""Groups of places and of cases: income and race quintiles, majority group, language, channel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from parity311.records.schema import CHANNELS
from parity311.records.strata import INCOME, LABELS, RACE, RACE_GROUPS, RaceStrata, race_strata
from parity311.reporting.as_published import PROXY_SHARES

UNKNOWN = "unknown"
"""Tracts whose ACS value is not published, cases without a language: a group of its own, shown and
never dropped, and not compared."""
PUBLISHED_COVARIATES = ("median_income", *PROXY_SHARES)
"""Columns of a tract in the paper's proxy (Eq. 4); only the published gate reads them."""
POSITION = ("longitude", "latitude")
STRATA_OF_TRACTS = (INCOME, RACE, "race_majority")
"""Ways of grouping that say where a case is, not how it was reported: the paper's gate knows no
other."""
N_LANGUAGES = 6
"""Languages shown by name, most frequent first; the rest is one group."""


@dataclass(frozen=True)
class AuditPlaces:
    """Tracts as arrays of length n_tracts; unpublished values are NaN."""

    geoid: np.ndarray
    borough: np.ndarray
    community_board: np.ndarray
    households: np.ndarray
    dwellings: np.ndarray
    income_quintile: np.ndarray
    """1 … 5; 0 where income is not published."""
    shares: dict[str, np.ndarray]
    """Share of residents by race: white, black, hispanic, asian."""
    covariates: dict[str, np.ndarray] = field(default_factory=dict)
    """What the paper's proxy reads (`PUBLISHED_COVARIATES`); empty where it was not kept."""
    position: np.ndarray | None = None
    """(n_tracts, 2) longitude and latitude in degrees; None where they were not kept."""

    @property
    def n_tracts(self) -> int:
        """Number of tracts."""
        return len(self.geoid)


@dataclass(frozen=True)
class Grouping:
    """One way to group: labels, and the index of every tract or code among them."""

    name: str
    labels: tuple[str, ...]
    compared: np.ndarray
    """(K,) whether a stratum takes part in comparisons (`unknown` does not)."""
    of_tract: np.ndarray | None = None
    """(n_tracts,) index of each tract's stratum; None for groups of cases."""
    of_code: dict[str, int] | None = None
    """Index of each code of a case's language or channel; None for groups of tracts."""
    is_ordered: bool = False
    """Whether the strata are ordered, so that a trend across them has a meaning."""

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return len(self.labels)

    @property
    def membership(self) -> np.ndarray:
        """(n_tracts, K) one where a tract belongs to a stratum; only for groups of tracts."""
        if self.of_tract is None:
            raise ValueError(f"{self.name} groups cases, not tracts")
        return (self.of_tract[:, None] == np.arange(self.n_strata)).astype(float)

    @property
    def scores(self) -> np.ndarray:
        """(n_tracts,) position of each tract's stratum, NaN for those not compared."""
        if self.of_tract is None:
            raise ValueError(f"{self.name} groups cases, not tracts")
        return np.where(self.compared[self.of_tract], self.of_tract.astype(float), np.nan)


def places_from_tables(tracts: pa.Table, dwellings: dict[str, float]) -> AuditPlaces:
    """Read tracts in the order of their table, with the dwellings of their buildings."""
    geoid = np.asarray(tracts["geoid"].to_pylist(), dtype=object)
    return AuditPlaces(
        geoid=geoid,
        borough=np.asarray(tracts["borough"].to_pylist(), dtype=object),
        community_board=_floats(tracts, "community_board").astype(np.int64),
        households=_floats(tracts, "households"),
        dwellings=np.array([float(dwellings.get(name, 0.0)) for name in geoid]),
        income_quintile=np.nan_to_num(_floats(tracts, "income_quintile")).astype(np.int64),
        shares={race: _floats(tracts, f"share_{race}") for race in RACE_GROUPS},
        covariates={
            name: _floats(tracts, name)
            for name in PUBLISHED_COVARIATES
            if name in tracts.column_names
        },
        position=np.column_stack([_floats(tracts, name) for name in POSITION])
        if set(POSITION) <= set(tracts.column_names)
        else None,
    )


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return table[name].cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)


def make_grouping(name: str, places: AuditPlaces, languages: np.ndarray | None = None) -> Grouping:
    """The grouping of this name; ``languages`` are the codes of all cases."""
    if name == "income5":
        return income_quintiles(places)
    if name == "race5":
        return race_quintiles(places)
    if name == "race_majority":
        return race_majority(places)
    if name == "channel":
        return _of_codes("channel", CHANNELS)
    return _of_codes("language", _frequent(languages if languages is not None else np.array([])))


def income_quintiles(places: AuditPlaces) -> Grouping:
    """Tract income quintiles as the records carry them, and `unknown`."""
    quintile = places.income_quintile
    return _of_tracts(
        INCOME, LABELS[INCOME], np.where(quintile > 0, quintile - 1, 5), is_ordered=True
    )


def race_quintiles(places: AuditPlaces) -> Grouping:
    """Household-weighted quintiles of the Black and Hispanic share."""
    quintile = _race(places).black_hispanic_quintile.astype(np.int64)
    return _of_tracts(RACE, LABELS[RACE], np.where(quintile > 0, quintile - 1, 5), is_ordered=True)


def race_majority(places: AuditPlaces) -> Grouping:
    """The group that makes up half of a tract or more, else mixed."""
    names = (*RACE_GROUPS, "mixed", UNKNOWN)
    labels = tuple(f"majority {n.capitalize()}" if n in RACE_GROUPS else n for n in names)
    place = {name: i for i, name in enumerate(names)}
    index = np.array([place[str(name)] for name in _race(places).majority_group], dtype=np.int64)
    return _of_tracts("race_majority", labels, index, is_ordered=False)


def _race(places: AuditPlaces) -> RaceStrata:
    shares = {f"share_{race}": places.shares[race] for race in RACE_GROUPS}
    return race_strata(**shares, households=places.households)


def _of_tracts(
    name: str, labels: tuple[str, ...], index: np.ndarray, *, is_ordered: bool
) -> Grouping:
    compared = np.array([label != UNKNOWN for label in labels])
    return Grouping(name, labels, compared, of_tract=index.astype(np.int64), is_ordered=is_ordered)


def _of_codes(name: str, codes: tuple[str, ...]) -> Grouping:
    labels = (*codes, "other language", UNKNOWN) if name == "language" else (*codes, UNKNOWN)
    compared = np.array([label != UNKNOWN for label in labels])
    return Grouping(name, labels, compared, of_code={label: i for i, label in enumerate(labels)})


def _frequent(codes: np.ndarray) -> tuple[str, ...]:
    known = np.array([str(code) for code in codes if code not in (None, "", UNKNOWN, "other")])
    if not len(known):
        return ()
    names, counts = np.unique(known, return_counts=True)
    order = np.lexsort((names, -counts))
    return tuple(str(names[i]) for i in order[:N_LANGUAGES])


def index_of_codes(grouping: Grouping, codes: np.ndarray) -> np.ndarray:
    """Index of every case's code among the labels; a rare language is `other language`."""
    table = grouping.of_code or {}
    rest = table.get("other language", table[UNKNOWN])
    return np.array(
        [
            table[UNKNOWN] if code in (None, "", UNKNOWN) else table.get(str(code), rest)
            for code in codes
        ],
        dtype=np.int64,
    )
