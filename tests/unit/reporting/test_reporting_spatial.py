"""Binary reports on a graph: what is read, what is refused, and a storm whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from parity311.errors import EstimationError, InputError, RecordsError
from parity311.pipelines.spatial import say_choice
from parity311.reporting import spatial
from parity311.reporting.binary_field import fit_binary
from parity311.reporting.convergence import Convergence
from parity311.reporting.graph import area_under_curve
from parity311.reporting.spatial import (
    FIELDS,
    SpatialFit,
    Storm,
    choose_field,
    describe_graph,
    fit_spatial,
    read_storm,
    score_storm,
)

pytestmark = pytest.mark.slow


HEADER = (
    "node,GEOID,T_train,T_test,population,population_poverty,population_white,population_age,"
    "population_nohighschool,population_renter"
)
SIDE = 12
ANY_CONVERGENCE = Convergence(1.0, 1_000.0, "level")


def rows_of(n: int = 4) -> list[str]:
    return [f"{i},3600500000{i},{i % 2},{1 - i % 2},100,10,20,40,5,{10 * i}" for i in range(n)]


def write(folder: Path, rows: list[str], edges: tuple[str, ...] = ("0,1", "1,2")) -> tuple:
    tracts, links = folder / "tracts.csv", folder / "edges.csv"
    tracts.write_text("\n".join([HEADER, *rows]) + "\n")
    links.write_text("\n".join(["node_a,node_b", *edges]) + "\n")
    return tracts, links


def test_read_in_the_order_of_nodes_with_an_island(tmp_path: Path) -> None:
    storm = read_storm(*write(tmp_path, rows_of()[::-1]))
    assert list(storm.geoid) == [f"3600500000{i}" for i in range(4)]
    assert list(storm.early) == [False, True, False, True]
    assert storm.later is not None
    assert list(storm.later) == [True, False, True, False]
    assert set(storm.borough) == {"Bronx"}
    np.testing.assert_allclose(storm.covariates.mean(axis=0), 0.0, atol=1e-12)
    graph = describe_graph(storm)
    assert (graph["n_components"], graph["n_islands"]) == (2, 1)


def test_a_storm_still_going_on_has_no_later_reports(tmp_path: Path) -> None:
    tracts, edges = write(tmp_path, rows_of())
    tracts.write_text(tracts.read_text().replace("T_test", "something_else"))
    assert read_storm(tracts, edges).later is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("1,36005000001,1", "1,36005000001,2", "row 3, column 'T_train'"),
        ("2,36005", "7,36005", "column 'node'"),
        (",population_renter", ",renter", "no column 'population_renter'"),
        ("100,10,20,40,5,0", "many,10,20,40,5,0", "column 'population'"),
    ],
)
def test_malformed_files_say_where(tmp_path: Path, old: str, new: str, expected: str) -> None:
    tracts, edges = write(tmp_path, rows_of())
    text = tracts.read_text()
    assert old in text
    tracts.write_text(text.replace(old, new))
    with pytest.raises(RecordsError, match=expected):
        read_storm(tracts, edges)


def test_an_edge_to_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"row 3: node 9"):
        read_storm(*write(tmp_path, rows_of(), ("0,1", "1,9")))


def make_storm(seed: int) -> tuple[Storm, np.ndarray]:
    """A grid of areas, floods in one corner, reported by those who report; and where it flooded."""
    rng = np.random.default_rng(seed)
    n = SIDE * SIDE
    x, y = np.divmod(np.arange(n), SIDE)
    flooded = rng.random(n) < 1.0 / (1.0 + np.exp(0.7 * (x + y) - 0.7 * SIDE + 2.0))
    renter = rng.standard_normal(n)
    chance = 1.0 / (1.0 + np.exp(0.5 + 1.2 * renter))
    early, later = (flooded & (rng.random(n) < chance) for _ in range(2))
    right = [(i, i + 1) for i in range(n) if y[i] < SIDE - 1]
    down = [(i, i + SIDE) for i in range(n) if x[i] < SIDE - 1]
    storm = Storm(
        geoid=np.arange(n).astype(object),
        borough=np.full(n, "one", dtype=object),
        early=early,
        later=later,
        covariates=renter[:, None],
        covariate_names=("share_renter",),
        edges=np.array(right + down),
    )
    return storm, flooded


@pytest.mark.slow
def test_the_model_finds_the_flood_and_who_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpyro")
    monkeypatch.setattr(spatial, "N_EXTENSIONS", 0)
    storm, flooded = make_storm(4)
    fit = fit_spatial(storm, seed=1, n_chains=2, n_warm=150, n_draws=100)
    assert area_under_curve(fit.incident_probability, flooded) > 0.8
    mean, lower, upper = fit.slopes["share_renter"]
    assert lower < -0.5 < upper or mean < -0.3
    scores = {row["score"]: row for row in score_storm(storm, fit)}
    assert scores["spatial"]["auc"] > scores["label_propagation"]["auc"]
    assert (
        scores["spatial"]["auc_lower"] < scores["spatial"]["auc"] < scores["spatial"]["auc_upper"]
    )
    # 400 draws, extended, are hardly 400 independent ones: it may not claim what it has not shown.
    enough = fit.convergence.effective_sample_size >= 400 and fit.convergence.r_hat < 1.05
    assert fit.convergence.has_converged is enough


def test_too_few_reports_are_refused() -> None:
    storm, _ = make_storm(4)
    quiet = Storm(**{**vars(storm), "early": np.zeros(SIDE * SIDE, dtype=bool)})
    with pytest.raises(EstimationError, match="0 of 144 areas"):
        fit_spatial(quiet)


def test_the_real_graph_has_eight_components(shared_data: Path) -> None:
    folder = shared_data / "flood_reports"
    storm = read_storm(folder / "henri_tracts.csv", folder / "tract_rook_edges.csv")
    graph = describe_graph(storm)
    assert (graph["n_areas"], graph["n_components"], graph["n_islands"]) == (2221, 8, 4)
    assert int(storm.early.sum()) == 176


def enumerate_field(
    early: np.ndarray, seen: np.ndarray, edges: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Chance of an incident and of a later report, by summing over every field and many θ and α."""
    states = np.array(list(product((-1.0, 1.0), repeat=len(early))))
    pairs = (states[:, edges[:, 0]] * states[:, edges[:, 1]]).sum(axis=1)
    sums = np.column_stack([states.sum(axis=1), pairs])
    yes = states > 0
    possible = yes[:, early & seen].all(axis=1)
    incident, later, whole = np.zeros(len(early)), np.zeros(len(early)), 0.0
    grid = product(np.linspace(-1.5, 1.5, 13), np.linspace(0.03, 0.17, 5))
    fields = []
    for level, coupling in grid:
        weight = np.exp(sums @ np.array([level, coupling]))
        drawn = np.exp(-0.5 * ((level / 0.5) ** 2 + ((coupling - 0.1) / 0.03) ** 2))
        fields.append(drawn * weight / weight.sum())
    prior = np.sum(fields, axis=0) * possible
    for intercept, slope in product(np.linspace(-3.0, 0.0, 16), np.linspace(-1.5, 1.5, 13)):
        psi = 1.0 / (1.0 + np.exp(-(intercept + slope * x)))
        told = np.where(seen, np.log(np.where(early, psi, 1.0 - psi)), 0.0)
        drawn = np.exp(-0.5 * (((intercept + 1.5) / 0.5) ** 2 + (slope / 0.5) ** 2))
        weight = prior * np.exp(yes @ told) * drawn
        incident += weight @ yes
        later += (weight @ yes) * psi
        whole += weight.sum()
    return incident / whole, later / whole


def test_the_binary_field_agrees_with_every_field_counted() -> None:
    """Nine areas have 512 fields; one area is held out, and its report changes nothing."""
    edges = np.array([(i, i + 1) for i in range(9) if i % 3 < 2] + [(i, i + 3) for i in range(6)])
    x = np.random.default_rng(1).standard_normal(9)
    early = np.isin(np.arange(9), (0, 3))
    seen = np.arange(9) != 8
    incident, later = enumerate_field(early, seen, edges, x)
    found = fit_binary(early, x[:, None], edges, seen=seen, n_warm=400, n_draws=2_500, n_chains=8)
    np.testing.assert_allclose(found.incident_probability, incident, atol=0.04)
    np.testing.assert_allclose(found.score, later, atol=0.015)
    # Without the reports of the others it would be another answer: the check can fail.
    blind = enumerate_field(np.zeros(9, bool), np.zeros(9, bool), edges, x)[0]
    assert np.abs(blind - incident)[early].min() > 0.3
    early[8] = True
    again = fit_binary(early, x[:, None], edges, seen=seen, n_warm=50, n_draws=50)
    early[8] = False
    same = fit_binary(early, x[:, None], edges, seen=seen, n_warm=50, n_draws=50)
    np.testing.assert_array_equal(again.report_chance, same.report_chance)


def test_the_field_is_chosen_by_early_reports_alone() -> None:
    """Later reports are not even there while it is chosen; then both fields rank by them."""
    pytest.importorskip("numpyro")
    storm, _ = make_storm(4)
    choice = choose_field(
        replace(storm, later=None), seed=1, n_folds=2, n_chains=2, n_warm=60, n_draws=60
    )
    values = choice.log_likelihood
    assert values[choice.chosen] == max(values.values())
    chance = storm.early.mean()
    blind = chance * np.log(chance) + (1 - chance) * np.log(1 - chance)
    assert values["average"] > blind - 0.02
    # What ranks areas is the field that was chosen, whichever that is.
    fit = SpatialFit(*[storm.early.astype(np.float64)] * 4, {}, (0.0,) * 3, ANY_CONVERGENCE, 0.0)
    for name in FIELDS:
        chosen = replace(choice, chosen=name)
        rows = {row["score"]: row["auc"] for row in score_storm(storm, fit, chosen)}
        assert rows["spatial"] == rows[f"{name}_field"]
        assert say_choice(chosen).startswith("Areas are ranked by")
    with pytest.raises(InputError, match="2 or more"):
        choose_field(storm, n_folds=1)
