"""Binary reports on the neighbour graph: where an incident happened, and who would report it.

In the manner of Agostini, Pierson and Garg. Beside their binary field (`binary_field`) stands a
continuous one with the incident state summed out, which converges where theirs does not:

    η = b₀ + σ_b·c_borough + σ·(Bz),  q = logistic(η) = P(incident),
    ψ = logistic(α₀ + x·α) = P(report | incident),  P(report) = qψ.

What is identified: the slopes of reporting. What is not: the level (prevalence and mean reporting
trade off along a ridge that only the prior bounds), and whether a covariate drives incidents or
reporting: what drives incidents is put down to reporting.

Which field ranks areas, or the mean of both, is chosen by the early reports alone: by the
likelihood of those of areas that were held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from parity311.errors import EstimationError, InputError, RecordsError
from parity311.reporting.binary_field import BinaryFit, fit_binary
from parity311.reporting.convergence import Convergence, assess_convergence, import_sampler
from parity311.reporting.graph import area_under_curve, find_components, smooth_basis, spread_labels

N_BASIS = 200
"""Columns of the field's basis (prototype: enough for 2,221 tracts)."""
N_BOOTSTRAP = 400
N_FOLDS = 4
"""Parts of the areas, each held out once to choose the field."""
FIELDS = ("continuous", "binary", "average")
"""What may rank areas."""
N_EXTENSIONS = 2
"""Times that sampling goes on, by as many draws again, where it has not converged."""
LABEL_RETENTION = 0.9
"""Weight of the neighbours in the label-propagation baseline."""
COUNTY_BOROUGHS = {
    "36005": "Bronx",
    "36047": "Brooklyn",
    "36061": "Manhattan",
    "36081": "Queens",
    "36085": "Staten Island",
}
SHARES = ("population_poverty", "population_white", "population_nohighschool", "population_renter")
NOT_IDENTIFIED = (
    "Identified: which covariates go with more reporting. Not identified: how many incidents there "
    "were (only the prior bounds the level), and whether a covariate drives incidents or reporting."
)


@dataclass(frozen=True)
class Storm:
    """Binary reports per area in one event, with covariates and neighbours."""

    geoid: np.ndarray
    borough: np.ndarray
    early: np.ndarray
    """(n,) whether there was a report in the first hours: what the model sees."""
    later: np.ndarray | None
    """(n,) whether there was one afterwards: what it is scored on; None where not known (yet)."""
    covariates: np.ndarray
    """(n, p) standardised; missing values at the mean."""
    covariate_names: tuple[str, ...]
    edges: np.ndarray


@dataclass(frozen=True)
class SpatialFit:
    """Posterior means of the spatial model and how far they can be trusted."""

    score: np.ndarray
    """(n,) E[P(incident | report)·ψ], the chance of a later report."""
    incident_probability: np.ndarray
    """(n,) E[P(incident | report)]; its level is not identified."""
    report_probability: np.ndarray
    """(n,) E[ψ]."""
    report_chance: np.ndarray
    """(n,) E[qψ], without the area's own report: for areas held out."""
    slopes: dict[str, tuple[float, float, float]]
    """Slope of reporting per standard deviation of a covariate: mean, 5 % and 95 %."""
    prevalence: tuple[float, float, float]
    convergence: Convergence
    seconds: float


def read_storm(tracts: Path, edges: Path) -> Storm:
    """Read tracts (node, GEOID, T_train, T_test, counts) and edges (node_a, node_b) from CSV."""
    rows, pairs = _read_csv(tracts), _read_csv(edges)
    needed = ("node", "GEOID", "T_train", "population", "population_age", *SHARES)
    for path, table, names in ((tracts, rows, needed), (edges, pairs, ("node_a", "node_b"))):
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise RecordsError(
                f"{path} has no column {missing[0]!r}; it has {', '.join(table.column_names)}. "
                "Rename or add it."
            )
    node = _numbers(tracts, rows, "node").astype(np.int64)
    order = np.argsort(node)
    if not np.array_equal(node[order], np.arange(len(node))):
        raise RecordsError(
            f"{tracts}, column 'node': nodes must be numbered 0 to {len(node) - 1} without gaps or "
            "repeats. Renumber them."
        )
    links = np.column_stack([_numbers(edges, pairs, name) for name in ("node_a", "node_b")])
    links = links.astype(np.int64)
    outside = np.flatnonzero((links < 0).any(axis=1) | (links >= len(node)).any(axis=1))
    if len(outside):
        raise RecordsError(
            f"{edges}, row {outside[0] + 2}: node {links[outside[0]].max()} is not in {tracts}, "
            f"which has {len(node)} nodes. Remove the edge or add the node."
        )
    geoid = np.array([str(value) for value in rows["GEOID"].to_pylist()], dtype=object)[order]
    covariates, names = _covariates(tracts, rows, order)
    later = None
    if "T_test" in rows.column_names:
        later = _binary(tracts, rows, "T_test")[order]
    return Storm(
        geoid=geoid,
        borough=np.array([COUNTY_BOROUGHS.get(code[:5], code[:5]) for code in geoid], object),
        early=_binary(tracts, rows, "T_train")[order],
        later=later,
        covariates=covariates,
        covariate_names=names,
        edges=links[links[:, 0] != links[:, 1]],
    )


def _read_csv(path: Path) -> pa.Table:
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; give the path of a CSV.")
    try:
        options = pacsv.ConvertOptions(column_types={"GEOID": pa.string()})
        return pacsv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid as error:
        raise RecordsError(
            f"{path} cannot be read as CSV ({str(error).splitlines()[0]}); write one header row."
        ) from error


def _numbers(path: Path, rows: pa.Table, name: str) -> np.ndarray:
    try:
        return rows[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordsError(
            f"{path}, column {name!r}: not all values are numbers ({str(error).splitlines()[0]}). "
            "Correct them or leave them empty."
        ) from error


def _binary(path: Path, rows: pa.Table, name: str) -> np.ndarray:
    """A column of 0 and 1."""
    values = _numbers(path, rows, name)
    bad = np.flatnonzero(~np.isin(values, (0.0, 1.0)))
    if len(bad):
        raise RecordsError(
            f"{path}, row {bad[0] + 2}, column {name!r}: {rows[name][int(bad[0])].as_py()!r} is "
            "not 0 or 1. Write 1 where there was a report, 0 where there was none."
        )
    return values > 0


def _covariates(
    path: Path, rows: pa.Table, order: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Log population, shares of it and age, standardised."""
    population = _numbers(path, rows, "population")[order]
    known = population > 0
    columns = {"log_population": np.log(np.where(known, population, np.nan))}
    for name in SHARES:
        count = _numbers(path, rows, name)[order]
        share = np.divide(count, population, out=np.full(len(count), np.nan), where=known)
        columns[name.replace("population_", "share_")] = share
    columns["median_age"] = _numbers(path, rows, "population_age")[order]
    out = []
    for values in columns.values():
        seen = np.isfinite(values)
        mean, spread = values[seen].mean(), values[seen].std()
        out.append(np.where(seen, (values - mean) / max(spread, 1e-9), 0.0))
    return np.column_stack(out), tuple(columns)


@dataclass(frozen=True)
class FieldChoice:
    """Which field foretells early reports of areas that were held out, and the scores of both."""

    chosen: str
    log_likelihood: dict[str, float]
    """Field -> mean log likelihood of a held-out area's early report."""
    above_continuous: dict[str, tuple[float, float]]
    """Field -> 90 % interval of its mean log likelihood over the continuous one's."""
    n_folds: int
    binary: BinaryFit
    """The binary field of all early reports."""

    def rank(self, fit: SpatialFit) -> dict[str, np.ndarray]:
        """Chance of a later report by each field."""
        scores = (fit.score, self.binary.score, (fit.score + self.binary.score) / 2.0)
        return dict(zip(FIELDS, scores, strict=True))


def choose_field(
    storm: Storm,
    *,
    seed: int = 0,
    n_folds: int = N_FOLDS,
    n_chains: int = 2,
    n_warm: int = 250,
    n_draws: int = 250,
    tell: Callable[[int, int], None] | None = None,
) -> FieldChoice:
    """Fit both fields without the reports of each fold; take what foretells those best."""
    if n_folds < 2:
        raise InputError(f"The areas were to be held out in {n_folds} part; give 2 or more.")
    n = len(storm.early)
    fold = np.random.default_rng(seed).permutation(n) % n_folds
    graph = (storm.early, storm.covariates, storm.edges)
    chances = {name: np.empty(n) for name in FIELDS}
    for number in range(n_folds):
        seen = fold != number
        fit = fit_spatial(
            storm, seed=seed, n_chains=n_chains, n_warm=n_warm, n_draws=n_draws, seen=seen,
            n_extensions=0,
        )  # fmt: skip
        binary = fit_binary(
            *graph, seen=seen, seed=seed, n_chains=n_chains, n_warm=2 * n_warm, n_draws=4 * n_draws
        )
        found = fit.report_chance, binary.report_chance
        for name, chance in zip(FIELDS, (*found, (found[0] + found[1]) / 2.0), strict=True):
            chances[name][~seen] = chance[~seen]
        if tell is not None:
            tell(number + 1, n_folds)
    each = {
        name: np.where(storm.early, np.log(chance), np.log1p(-chance))
        for name, chance in chances.items()
    }
    above = {}
    for name in FIELDS[1:]:
        gap = each[name] - each[FIELDS[0]]
        half = 1.645 * float(gap.std(ddof=1)) / np.sqrt(n)
        above[name] = float(gap.mean()) - half, float(gap.mean()) + half
    means = {name: float(values.mean()) for name, values in each.items()}
    whole = fit_binary(*graph, seed=seed, n_warm=2 * n_warm, n_draws=4 * n_draws)
    return FieldChoice(max(means, key=lambda name: means[name]), means, above, n_folds, whole)


def fit_spatial(
    storm: Storm,
    *,
    seed: int = 0,
    n_chains: int = 4,
    n_warm: int = 500,
    n_draws: int = 500,
    seen: np.ndarray | None = None,
    n_extensions: int | None = None,
) -> SpatialFit:
    """Sample the posterior with NUTS; raises where there is nothing to learn from.

    Reports of areas that are not ``seen`` are left out.
    """
    if storm.early.sum() < 5 or storm.early.all():
        raise EstimationError(
            f"{int(storm.early.sum())} of {len(storm.early)} areas have an early report; the model "
            "needs at least five with one and some without."
        )
    jax, numpyro, infer = import_sampler()
    begun = time.perf_counter()
    basis = smooth_basis(len(storm.geoid), storm.edges, N_BASIS)
    boroughs, borough = np.unique(storm.borough.astype(str), return_inverse=True)
    jnp = jax.numpy

    known = jnp.asarray(np.ones(len(storm.early), bool) if seen is None else seen)

    def model(field, place, covariates, early):
        normal, half = numpyro.distributions.Normal, numpyro.distributions.HalfNormal
        level = numpyro.sample("level", normal(0.0, 1.0))
        spread = numpyro.sample("field_sd", half(1.5))
        borough_sd = numpyro.sample("borough_sd", half(1.0))
        of_borough = numpyro.sample("borough", normal(0.0, 1.0).expand([len(boroughs)]))
        z = numpyro.sample("field", normal(0.0, 1.0).expand([field.shape[1]]))
        intercept = numpyro.sample("reporting_level", normal(-1.5, 0.5))
        slopes = numpyro.sample("slopes", normal(0.0, 0.5).expand([covariates.shape[1]]))
        eta = level + borough_sd * of_borough[place] + spread * (field @ z)
        log_q = jax.nn.log_sigmoid(eta)
        log_psi = jax.nn.log_sigmoid(intercept + covariates @ slopes)
        log_yes = log_q + log_psi
        log_no = jnp.log1p(-jnp.exp(jnp.minimum(log_yes, -1e-6)))
        told = jnp.where(early, log_yes, log_no)
        numpyro.factor("reports", jnp.where(known, told, 0.0).sum())
        numpyro.deterministic("q", jnp.exp(log_q))
        numpyro.deterministic("psi", jnp.exp(log_psi))

    sampler = infer.MCMC(
        infer.NUTS(model),
        num_warmup=n_warm,
        num_samples=n_draws,
        num_chains=n_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    arrays = (jnp.asarray(basis), jnp.asarray(borough), jnp.asarray(storm.covariates))
    sampler.run(jax.random.PRNGKey(seed), *arrays, jnp.asarray(storm.early))
    draws = {name: np.asarray(value) for name, value in sampler.get_samples(True).items()}
    for _ in range(N_EXTENSIONS if n_extensions is None else n_extensions):
        if _assess(draws).has_converged:
            break
        sampler.post_warmup_state = sampler.last_state
        sampler.run(sampler.last_state.rng_key, *arrays, jnp.asarray(storm.early))
        more = {name: np.asarray(value) for name, value in sampler.get_samples(True).items()}
        draws = {name: np.concatenate([draws[name], more[name]], axis=1) for name in draws}
    return _summarise(storm, draws, time.perf_counter() - begun)


def _assess(draws: dict[str, np.ndarray]) -> Convergence:
    """Convergence of what was sampled; q and ψ follow from it."""
    return assess_convergence({k: part for k, part in draws.items() if k not in ("q", "psi")})


def _summarise(storm: Storm, draws: dict[str, np.ndarray], seconds: float) -> SpatialFit:
    q, psi = (draws[name].reshape(-1, len(storm.geoid)) for name in ("q", "psi"))
    given_none = q * (1.0 - psi) / (1.0 - q * psi)
    incident = np.where(storm.early, 1.0, given_none)
    slopes = draws["slopes"].reshape(-1, storm.covariates.shape[1])
    ends = np.percentile(slopes, (5, 95), axis=0)
    prevalence = q.mean(axis=1)
    return SpatialFit(
        score=(incident * psi).mean(axis=0),
        incident_probability=incident.mean(axis=0),
        report_probability=psi.mean(axis=0),
        report_chance=(q * psi).mean(axis=0),
        slopes={
            name: (float(slopes[:, k].mean()), float(ends[0, k]), float(ends[1, k]))
            for k, name in enumerate(storm.covariate_names)
        },
        prevalence=(
            float(prevalence.mean()),
            float(np.percentile(prevalence, 5)),
            float(np.percentile(prevalence, 95)),
        ),
        convergence=_assess(draws),
        seconds=seconds,
    )


def rank_areas(
    storm: Storm, fit: SpatialFit, choice: FieldChoice | None = None
) -> dict[str, np.ndarray]:
    """Scores of every area by the model and by what it is to be compared with.

    The model is the field that was chosen; the others stand beside it.
    """
    early = storm.early.astype(np.float64)
    _, borough = np.unique(storm.borough.astype(str), return_inverse=True)
    rate = np.bincount(borough, early) / np.bincount(borough)
    both = np.concatenate([storm.edges, storm.edges[:, ::-1]])
    degree = np.bincount(both[:, 0], minlength=len(early))
    around = early + np.bincount(both[:, 0], early[both[:, 1]], minlength=len(early))
    fields = choice.rank(fit) if choice else {}
    return {
        "spatial": fields[choice.chosen] if choice else fit.score,
        "label_propagation": spread_labels(early, storm.edges, LABEL_RETENTION),
        "borough_rate": rate[borough],
        "neighbour_mean": around / (degree + 1.0),
        **{f"{name}_field": score for name, score in fields.items()},
    }


def score_storm(
    storm: Storm, fit: SpatialFit, choice: FieldChoice | None = None, *, seed: int = 0
) -> list[dict[str, Any]]:
    """Area under the curve of later reports, on all areas and on those without an early one.

    Intervals (90 %) are bootstrapped over areas, the same areas for every score, so that the
    difference from label propagation has an interval too.
    """
    if storm.later is None:
        return []
    scores, later = rank_areas(storm, fit, choice), storm.later
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(later), (N_BOOTSTRAP, len(later)))
    rows = []
    draws = {
        name: np.array([area_under_curve(score[at], later[at]) for at in chosen])
        for name, score in scores.items()
    }
    quiet = ~storm.early
    for name, score in scores.items():
        lower, upper = np.nanpercentile(draws[name], (5, 95))
        gap = np.nanpercentile(draws[name] - draws["label_propagation"], (5, 95))
        rows.append(
            {
                "score": name,
                "auc": area_under_curve(score, later),
                "auc_lower": float(lower),
                "auc_upper": float(upper),
                "above_label_propagation": [float(value) for value in gap],
                "auc_without_early_report": area_under_curve(score[quiet], later[quiet]),
            }
        )
    return rows


def describe_graph(storm: Storm) -> dict[str, int]:
    """Size of the graph and its components."""
    n_components, label = find_components(len(storm.geoid), storm.edges)
    sizes = np.bincount(label)
    return {
        "n_areas": len(storm.geoid),
        "n_edges": len(storm.edges),
        "n_components": n_components,
        "n_islands": int((sizes == 1).sum()),
    }
