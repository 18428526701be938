"""The exposure rate, fully Bayesian: NUTS over rates, lifetimes and a spatial tract effect.

The same model as `exposure_rate`, with an intrinsic (ICAR) field on the neighbour graph beside the
independent area effects, all scales and the lifetime given priors and sampled. For tables of up to
some tens of thousands of incidents; `exposure_rate` is its fast counterpart.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parity311.errors import EstimationError
from parity311.reporting.areas import Areas
from parity311.reporting.cells import Cells, build_cells
from parity311.reporting.convergence import Convergence, assess_convergence, import_sampler
from parity311.reporting.exposure_rate import check_repeats
from parity311.reporting.graph import smooth_basis
from parity311.reporting.incidents import NOT_PUBLISHED, IncidentEstimate, estimate_from_shares
from parity311.reporting.inspections import inspected_cells
from parity311.reporting.model import LOG_CALLBACK, LOG_ODDS, LOGIT_SILENT
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable

N_BASIS = 200
"""Columns of the spatial field's basis."""
EFFECT_SD = 0.5
"""Scale of the half-normal priors of the spread of area effects, on the log rate: published
effects have an sd of 0.26."""
INIT_RADIUS = 0.5
"""Chains start within half a prior standard deviation, dispersed but not where rates are absurd."""
MAX_TREE_DEPTH = 8
"""Doublings of a trajectory: 255 steps reach across the ridge of level, silence and lifetime."""
MAX_ROWS = 60_000
"""More incidents than this are sampled down: NUTS passes over the rows thousands of times."""


class BayesData(NamedTuple):
    """Arrays that the model sees."""

    n_further: Any
    last_delay_days: Any
    exposure_days: Any
    found_ended: Any
    called_until_days: Any
    cell: Any
    cell_area: Any
    rate_design: Any
    closing_design: Any
    closing_offset: Any
    field: Any
    """(n_areas, n_basis)"""
    inspected_cell: Any
    n_found: Any
    n_reported: Any


@dataclass(frozen=True)
class BayesFit:
    """Posterior draws, flattened over chains, and whether they can be trusted."""

    cells: Cells
    log_odds: np.ndarray
    """(n_draws, n_cells) log(λ/γ) of every cell."""
    area_log_rate: np.ndarray
    """(n_draws, n_areas)"""
    area_log_odds: np.ndarray
    """(n_draws, n_areas)"""
    draws: dict[str, np.ndarray]
    convergence: Convergence
    seconds: float


def window_log_likelihood(jnp: Any, log_rate: Any, log_closing: Any, log_callback: Any, data: Any):
    """Log P(y, s | reported, d) before silence, and log of the window's chance in silence.

    The exponential law with calls, as in `likelihood`; arrays over rows.
    """
    rate, closing, callback = jnp.exp(log_rate), jnp.exp(log_closing), jnp.exp(log_callback)
    d, called = data.exposure_days, data.found_ended > 0

    def window(lam: Any, s: Any) -> Any:
        total = lam + closing
        until = jnp.where(called, d, jnp.maximum(data.called_until_days, s))
        x = jnp.clip((total - callback) * (until - s), -80.0, 80.0)
        small = jnp.abs(x) < 1e-3
        safe = jnp.where(small, 1.0, x)
        log_phi = jnp.where(small, -x / 2, jnp.log(-jnp.expm1(-safe) / safe))
        # In logarithms throughout: far from the mode the chances round to zero, and a flat
        # logarithm would leave a chain without a way back.
        waited = jnp.log(until - s + 1e-30) - total * s - callback * (until - s) + log_phi
        after = jnp.log(closing + lam * jnp.exp(-total * (d - until))) - jnp.log(total)
        ended = log_closing + waited
        return jnp.where(called, ended + log_callback, jnp.logaddexp(ended, after - total * until))

    speak = data.n_further * log_rate + window(rate, data.last_delay_days)
    return speak, window(jnp.zeros_like(rate), jnp.zeros_like(d))


def reporting_model(jax: Any, numpyro: Any, data: BayesData, priors: dict[str, Any]) -> None:
    """NumPyro model; ``priors`` holds means and sds of the coefficients."""
    jnp, dist = jax.numpy, numpyro.distributions
    unit = dist.Normal(0.0, 1.0)

    def coefficients(name: str) -> Any:
        mean, sd = priors[f"{name}_mean"], priors[f"{name}_sd"]
        raw = numpyro.sample(f"{name}_raw", unit.expand([len(mean)]).to_event(1))
        return mean + sd * raw

    rate, closing = coefficients("rate"), coefficients("closing")
    own_sd = numpyro.sample("own_sd", dist.HalfNormal(EFFECT_SD))
    own = numpyro.sample("own", unit.expand([data.field.shape[0]]).to_event(1))
    effects = own_sd * own
    if data.field.shape[1]:
        field_sd = numpyro.sample("field_sd", dist.HalfNormal(EFFECT_SD))
        field = numpyro.sample("field", unit.expand([data.field.shape[1]]).to_event(1))
        effects = effects + field_sd * (data.field @ field)
    silent = numpyro.sample("logit_silent", dist.Normal(*LOGIT_SILENT))
    log_callback = -30.0
    if priors["has_calls"]:
        log_callback = numpyro.sample("log_callback", dist.Normal(*LOG_CALLBACK))
    log_rate = data.rate_design @ rate + effects[data.cell_area]
    log_closing = data.closing_design @ closing + data.closing_offset
    speak, quiet = window_log_likelihood(
        jnp, log_rate[data.cell], log_closing[data.cell], jnp.asarray(log_callback), data
    )
    log_silent, log_speaks = jax.nn.log_sigmoid(silent), jax.nn.log_sigmoid(-silent)
    either = jnp.logaddexp(log_silent + quiet, log_speaks + speak)
    rows = jnp.where(data.n_further == 0, either, log_speaks + speak)
    numpyro.factor("reports", rows.sum())
    average = (rate[0] - closing[0] - LOG_ODDS[0]) / LOG_ODDS[1]
    numpyro.factor("level", -0.5 * average**2)
    log_odds = log_rate - log_closing
    if data.inspected_cell.shape[0]:
        at = log_odds[data.inspected_cell]
        found = data.n_reported * jax.nn.log_sigmoid(at)
        missed = (data.n_found - data.n_reported) * jax.nn.log_sigmoid(-at)
        numpyro.factor("inspections", (found + missed).sum())
    numpyro.deterministic("log_odds", log_odds)
    numpyro.deterministic("effects", effects)


def make_data(
    table: ReportTable, areas: Areas, settings: Settings
) -> tuple[BayesData, Cells, dict[str, Any]]:
    """Arrays and priors of the model."""
    cells = build_cells(table, areas, settings)
    inspected, found, reported = (np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    if settings.inspections is not None:
        cells, sample = inspected_cells(cells, settings.inspections)
        inspected, found, reported = sample.cell, sample.n_found, sample.n_reported
    use = np.flatnonzero(table.informs_rate)
    if len(use) > MAX_ROWS:
        use = np.sort(np.random.default_rng(settings.seed).choice(use, MAX_ROWS, replace=False))
    data = BayesData(
        n_further=table.n_further[use].astype(np.float32),
        last_delay_days=table.last_delay_days[use].astype(np.float32),
        exposure_days=table.exposure_days[use].astype(np.float32),
        found_ended=table.found_ended[use],
        called_until_days=table.called_until_days[use].astype(np.float32),
        cell=cells.row_cell[use],
        cell_area=cells.area,
        rate_design=cells.rate.cells.astype(np.float32),
        closing_design=cells.closing.cells.astype(np.float32),
        closing_offset=cells.closing_offset.astype(np.float32),
        field=smooth_basis(areas.n_areas, areas.edges, N_BASIS).astype(np.float32),
        inspected_cell=inspected,
        n_found=found.astype(np.float32),
        n_reported=reported.astype(np.float32),
    )
    priors = {
        "rate_mean": cells.rate.prior_mean.astype(np.float32),
        "rate_sd": cells.rate.prior_sd.astype(np.float32),
        "closing_mean": cells.closing.prior_mean.astype(np.float32),
        "closing_sd": cells.closing.prior_sd.astype(np.float32),
        "has_calls": bool(data.found_ended.any()),
    }
    return data, cells, priors


def make_sampler(priors: dict[str, Any], *, n_chains: int, n_warm: int, n_draws: int) -> Any:
    """NUTS for the model; its ``run`` takes a key and `BayesData`, compiled once per shape."""
    jax, numpyro, infer = import_sampler()
    return infer.MCMC(
        infer.NUTS(
            lambda data: reporting_model(jax, numpyro, data, priors),
            target_accept_prob=0.9,
            max_tree_depth=MAX_TREE_DEPTH,
            init_strategy=infer.init_to_uniform(radius=INIT_RADIUS),
        ),
        num_warmup=n_warm,
        num_samples=n_draws,
        num_chains=n_chains,
        chain_method="vectorized",
        progress_bar=False,
        jit_model_args=True,
    )


def fit_bayes(
    table: ReportTable,
    areas: Areas,
    settings: Settings,
    *,
    n_chains: int = 4,
    n_warm: int = 500,
    n_draws: int = 500,
) -> BayesFit:
    """Sample the posterior. Only the exponential lifetime law is supported."""
    if settings.lifetime.law != "exponential":
        raise EstimationError(
            f"The Bayesian path knows exponential lifetimes only, {settings.lifetime.law!r} was "
            "given; use exponential:DAYS, or the estimator exposure_rate."
        )
    jax = import_sampler()[0]
    begun = time.perf_counter()
    data, cells, priors = make_data(table, areas, settings)
    check_repeats(table, table.informs_rate)
    sampler = make_sampler(priors, n_chains=n_chains, n_warm=n_warm, n_draws=n_draws)
    sampler.run(
        jax.random.PRNGKey(settings.seed), BayesData(*(jax.numpy.asarray(part) for part in data))
    )
    draws = {name: np.asarray(part) for name, part in sampler.get_samples(True).items()}
    return _collect(cells, priors, draws, time.perf_counter() - begun)


def _collect(
    cells: Cells, priors: dict[str, Any], draws: dict[str, np.ndarray], seconds: float
) -> BayesFit:
    flat = {name: part.reshape(-1, *part.shape[2:]) for name, part in draws.items()}
    rate = priors["rate_mean"] + priors["rate_sd"] * flat["rate_raw"]
    closing = priors["closing_mean"] + priors["closing_sd"] * flat["closing_raw"]
    area_log_rate = rate @ cells.rate.areas.T + flat["effects"]
    sampled = {k: v for k, v in draws.items() if k not in ("log_odds", "effects")}
    # A coefficient with prior sd 0 is not estimated: its raw draws are the prior's.
    for name in ("rate", "closing"):
        sampled[f"{name}_raw"] = sampled[f"{name}_raw"][..., priors[f"{name}_sd"] > 0]
    return BayesFit(
        cells=cells,
        log_odds=flat["log_odds"],
        area_log_rate=area_log_rate,
        area_log_odds=area_log_rate - closing @ cells.closing.areas.T,
        draws={**flat, "rate": rate, "closing": closing},
        convergence=assess_convergence({k: v for k, v in sampled.items() if v.size}),
        seconds=seconds,
    )


def exposure_rate_bayes(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Estimate incidents from the full posterior; the text says whether it converged."""
    fitted = fit_bayes(table, areas, settings)
    keep = np.linspace(0, len(fitted.log_odds) - 1, settings.n_draws).astype(int)
    cells = fitted.cells
    counts = np.bincount(cells.row_cell, table.weight, minlength=len(cells.area))

    def factors(draw: int) -> np.ndarray:
        inverse = np.where(cells.is_certain, 1.0, 1.0 + np.exp(-fitted.log_odds[draw]))
        total = np.bincount(cells.area, counts * inverse, minlength=areas.n_areas)
        reported = np.bincount(cells.area, counts, minlength=areas.n_areas)
        average = 1.0 + np.exp(-fitted.area_log_odds[draw])
        return np.divide(total, reported, out=average, where=reported > 0)

    factor_draws = np.array([factors(draw) for draw in keep])
    rates = np.exp(fitted.area_log_rate)
    mean_days = float(np.exp(-(fitted.area_log_rate - fitted.area_log_odds)).mean())
    text = settings.lifetime.describe(mean_days)
    return estimate_from_shares(
        "exposure_rate_bayes",
        f"{text} {fitted.convergence.describe()}",
        table,
        areas,
        rate=(rates.mean(axis=0), rates.std(axis=0)),
        factors=np.median(factor_draws, axis=0),
        factor_draws=factor_draws,
        reason=np.where(cells.n_missing > 0, NOT_PUBLISHED, "").astype(object),
        details={
            "mean_lifetime_days": mean_days,
            "r_hat": fitted.convergence.r_hat,
            "effective_sample_size": fitted.convergence.effective_sample_size,
        },
    )
