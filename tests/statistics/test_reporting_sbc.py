"""Simulation-based calibration of the Bayesian path: truths drawn from the prior rank uniformly.

Talts, Betancourt, Simpson, Vehtari and Gelman (2018). Parameters are drawn from the model's prior,
reports from the parameters, and the posterior is sampled; over many repetitions the rank of the
truth among its draws must be uniform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parity311.reporting.bayes import EFFECT_SD, BayesData, reporting_model
from parity311.reporting.convergence import import_sampler
from parity311.reporting.model import LOG_ODDS, LOGIT_SILENT

# Chains run for long: what is compiled is worth optimizing.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]

N_AREAS, N_ROWS, N_REPEATS, N_RANKS = 10, 150, 20, 10
N_WARM, N_DRAWS = 100, 80
LOG_CLOSING = float(-np.log(14.0))
SLOPE_SD = 0.4
LEVEL_SD = 1.0
LIMIT = 3.7
"""Standard errors of a mean rank that no parameter may miss: 1 in 1,000 by chance for all four."""


def draw_truth(rng: np.random.Generator) -> dict[str, Any]:
    """One draw of everything from the prior of the model as set up below."""
    precision = LEVEL_SD**-2 + LOG_ODDS[1] ** -2
    mean = (LOG_CLOSING / LEVEL_SD**2 + (LOG_ODDS[0] + LOG_CLOSING) / LOG_ODDS[1] ** 2) / precision
    own_sd = abs(rng.normal(0.0, EFFECT_SD))
    return {
        "level": rng.normal(mean, precision**-0.5),
        "slope": rng.normal(0.0, SLOPE_SD),
        "own_sd": own_sd,
        "own": own_sd * rng.standard_normal(N_AREAS),
        "logit_silent": rng.normal(*LOGIT_SILENT),
    }


def draw_data(rng: np.random.Generator, truth: dict[str, Any], *, rate_factor: float) -> BayesData:
    """Reports of incidents that were reported once, from the truth."""
    income = np.linspace(-1.5, 1.5, N_AREAS)
    area = np.arange(N_ROWS) % N_AREAS
    log_rate = truth["level"] + truth["slope"] * income + truth["own"]
    rate = rate_factor * np.exp(log_rate)[area]
    exposure = rng.gamma(2.0, 10.0, N_ROWS)
    is_open = np.minimum(exposure, rng.exponential(np.exp(-LOG_CLOSING), N_ROWS))
    speaks = rng.random(N_ROWS) > 1.0 / (1.0 + np.exp(-truth["logit_silent"]))
    further = np.where(speaks, rng.poisson(rate * is_open), 0)
    last = np.where(further > 0, is_open * rng.random(N_ROWS) ** (1.0 / np.maximum(further, 1)), 0)
    ones = np.ones(N_AREAS)
    none = np.zeros(0)
    return BayesData(
        n_further=further.astype(np.float32),
        last_delay_days=last.astype(np.float32),
        exposure_days=exposure.astype(np.float32),
        found_ended=np.zeros(N_ROWS, dtype=bool),
        called_until_days=exposure.astype(np.float32),
        cell=area,
        cell_area=np.arange(N_AREAS),
        rate_design=np.column_stack([ones, income]).astype(np.float32),
        closing_design=ones[:, None].astype(np.float32),
        closing_offset=np.zeros(N_AREAS, dtype=np.float32),
        field=np.zeros((N_AREAS, 0), dtype=np.float32),
        inspected_cell=none.astype(np.int64),
        n_found=none.astype(np.float32),
        n_reported=none.astype(np.float32),
    )


PRIORS = {
    "rate_mean": np.array([LOG_CLOSING, 0.0], dtype=np.float32),
    "rate_sd": np.array([LEVEL_SD, SLOPE_SD], dtype=np.float32),
    "closing_mean": np.array([LOG_CLOSING], dtype=np.float32),
    "closing_sd": np.zeros(1, dtype=np.float32),
    "has_calls": False,
}


def sample_all(data: list[BayesData]) -> dict[str, np.ndarray]:
    """Unconstrained NUTS draws (n_repeats, n_draws, …) for many data sets in one program."""
    jax, numpyro, infer = import_sampler()
    from numpyro.infer.hmc import hmc

    stacked = BayesData(*(jax.numpy.stack(parts) for parts in zip(*data, strict=True)))
    first = BayesData(*(part[0] for part in stacked))

    def model(given: BayesData) -> None:
        reporting_model(jax, numpyro, given, PRIORS)

    made = infer.util.initialize_model(
        jax.random.PRNGKey(0), model, model_args=(first,), dynamic_args=True
    )
    init_kernel, sample_kernel = hmc(potential_fn_gen=made.potential_fn, algo="NUTS")

    def run(key: Any, given: BayesData) -> Any:
        state = init_kernel(
            made.param_info.z,
            num_warmup=N_WARM,
            max_tree_depth=6,
            target_accept_prob=0.9,
            model_args=(given,),
            rng_key=key,
        )

        def step(state: Any, _: None) -> tuple[Any, Any]:
            state = sample_kernel(state, (given,), {})
            return state, state.z

        return jax.lax.scan(step, state, None, length=N_WARM + N_DRAWS)[1]

    keys = jax.random.split(jax.random.PRNGKey(1), len(data))
    draws = jax.jit(jax.vmap(run))(keys, stacked)
    return {name: np.asarray(part)[:, N_WARM:] for name, part in draws.items()}


@pytest.fixture(scope="module")
def worst_ranks() -> tuple[float, float]:
    """Largest distance of a mean rank from the middle, in standard errors, over parameters.

    For data from the model, and for data at twice its rate.
    """
    pytest.importorskip("numpyro")
    truths, data = [], []
    for factor in (1.0, 2.0):
        for repeat in range(N_REPEATS):
            rng = np.random.default_rng(repeat)
            truths.append(draw_truth(rng))
            data.append(draw_data(rng, truths[-1], rate_factor=factor))
    draws = sample_all(data)
    thin = np.linspace(0, N_DRAWS - 1, N_RANKS).astype(int)
    rate = PRIORS["rate_mean"] + PRIORS["rate_sd"] * draws["rate_raw"]
    drawn = {
        "level": rate[..., 0],
        "slope": rate[..., 1],
        "own_sd": np.exp(draws["own_sd"]),
        "logit_silent": draws["logit_silent"],
    }
    ranks = np.array(
        [
            [int((drawn[name][i, thin] < truth[name]).sum()) for name in drawn]
            for i, truth in enumerate(truths)
        ]
    )
    sd = np.sqrt(((N_RANKS + 1) ** 2 - 1) / 12.0 / N_REPEATS)
    halves = ranks.reshape(2, N_REPEATS, -1).mean(axis=1)
    worst = np.abs((halves - N_RANKS / 2.0) / sd).max(axis=1)
    return float(worst[0]), float(worst[1])


def test_truths_from_the_prior_rank_uniformly(worst_ranks: tuple[float, float]) -> None:
    assert worst_ranks[0] < LIMIT


def test_a_wrong_model_is_noticed(worst_ranks: tuple[float, float]) -> None:
    """The broken twin: reports at twice the rate that the truth says."""
    assert worst_ranks[1] > LIMIT
