"""How often off-policy intervals hold the truth, on synthetic logs whose truth can be played.

In every setting many logs are written by a policy of known chances, the target's true value is
found by playing it, and every estimator's intervals are held against it. Where support holds, a
95 % interval must cover in 90 to 97 % of the logs; where it does not, the refusal must fire;
where a hidden reason moved the decisions, the bounds at its Γ must hold the truth. Over whole
episodes few policies are near enough to the log's: every estimator must cover or refuse.

The settings that off-policy estimates are validated in: what is logged, what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.stats import beta

from parity311.domains import get_domain
from parity311.errors import InputError, unknown_name
from parity311.evaluation.off_policy.estimate import (
    ESTIMATORS,
    ROBUST,
    WEIGHTED,
    Evaluation,
    Options,
    cells_of,
    evaluate_policy,
)
from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.policies import (
    Soft,
    SoftLinear,
    action_chances,
    soften,
)
from parity311.evaluation.off_policy.rosenbaum import bound_value
from parity311.evaluation.off_policy.simulate import true_values, write_logs
from parity311.mdp.harness import Harness, Playable
from parity311.records.store import open_records
from parity311.resampling import LEVEL, Intervals

SUPPORTED, WEAK, UNSUPPORTED, CONFOUNDED = "supported", "weak", "unsupported", "confounded"
WHOLE = "whole"
"""Episodes as long as the domain plays them."""


@dataclass(frozen=True)
class LogSetting:
    """One kind of log, and a policy to be valued on it."""

    name: str
    kind: str
    domain: str
    n_steps: int
    n_episodes: int
    """episodes in one log"""
    behaviour: str
    """rule that wrote the log, or `soft_linear`"""
    target: str
    epsilon: float
    """share of the log's decisions that were drawn at random"""
    propensities: str = "logged"
    explored: tuple[int, ...] | None = None
    """actions among which random decisions were drawn; all if None"""
    gamma: float = 1.0
    """odds ratio of the hidden reason behind the log's decisions"""
    target_epsilon: float = 0.0
    """share of the target's decisions that are drawn at random"""


# fmt: off
SETTINGS = (
    # One filing a decision; today's rule wrote the log, another is asked about.
    LogSetting("boiler", SUPPORTED, "boiler", 1, 2000, "balanced", "score", 0.3),
    LogSetting("boiler, propensities estimated", SUPPORTED, "boiler", 1, 2000, "balanced", "score",
            0.3, propensities="logistic"),
    # Five complaints in a row, each deciding what the next one finds.
    LogSetting("snad", SUPPORTED, "snad", 5, 600, "score", "score", 0.3),
    LogSetting("snad, propensities estimated", SUPPORTED, "snad", 2, 1500, "soft_linear", "score",
            0.0, propensities="logistic"),
    LogSetting("crane", SUPPORTED, "crane", 4, 600, "expert", "expert", 0.25),
    LogSetting("drainage", SUPPORTED, "drainage", 5, 600, "score", "score", 0.3),
    LogSetting("complaint_triage", SUPPORTED, "complaint_triage", 5, 600, "score", "score", 0.3),
    # A queue: decisions about the whole office.
    LogSetting("ert", SUPPORTED, "ert", 6, 600, "balanced", "balanced", 0.25),
    # Another policy over many steps: few episodes agree with it to the end.
    LogSetting("snad, far from the log", WEAK, "snad", 3, 600, "emerg", "score", 0.5),
    LogSetting("snad, long episodes", WEAK, "snad", 12, 600, "score", "score", 0.3),
    # The log never prioritises; the policy does.
    LogSetting("snad, never prioritised", UNSUPPORTED, "snad", 3, 600, "never", "score", 0.6,
            explored=(0, 1)),
    LogSetting("crane, never stopped", UNSUPPORTED, "crane", 3, 600, "never", "expert", 0.6,
            explored=(0, 1, 2)),
    LogSetting("boiler, hardly ever inspected", UNSUPPORTED, "boiler", 1, 2000, "never", "score",
            0.005),
    # Inspectors act on something that is not on record.
    LogSetting("boiler, a hidden reason", CONFOUNDED, "boiler", 1, 1000, "balanced", "score", 0.6,
            propensities="logistic", gamma=2.0),
    # Whole episodes: the log's rule with a little less chance in it, with none, and another rule.
    LogSetting("snad, a little less chance", WHOLE, "snad", 87, 100, "score", "score", 0.3,
            target_epsilon=0.27),
    LogSetting("snad, less chance", WHOLE, "snad", 87, 200, "score", "score", 0.3,
            target_epsilon=0.22),
    LogSetting("snad, no chance", WHOLE, "snad", 87, 100, "score", "score", 0.3),
    LogSetting("snad, another rule", WHOLE, "snad", 87, 100, "emerg", "score", 0.5),
    LogSetting("crane, less chance", WHOLE, "crane", 200, 60, "expert", "expert", 0.25,
            target_epsilon=0.22),
    LogSetting("crane, no chance", WHOLE, "crane", 200, 60, "expert", "expert", 0.25),
    LogSetting("drainage, less chance", WHOLE, "drainage", 365, 60, "score", "score", 0.3,
            target_epsilon=0.27),
    # Near enough to be answered.
    LogSetting("snad, somewhat less chance", WHOLE, "snad", 87, 200, "score", "score", 0.3,
            target_epsilon=0.25),
    LogSetting("crane, a little less chance", WHOLE, "crane", 200, 100, "expert", "expert", 0.25,
            target_epsilon=0.23),
    LogSetting("drainage, a little less chance", WHOLE, "drainage", 365, 80, "score", "score", 0.3,
            target_epsilon=0.285),
)
# fmt: on


@dataclass(frozen=True)
class Prepared:
    """A setting with its process and policies."""

    setting: LogSetting
    played: Playable
    behaviour: Any
    """has `chances`"""
    target: Any


def prepare(setting: LogSetting, params_of: Callable[[Any], Any] | None = None) -> Prepared:
    """Make a setting's process (the domain's example if `params_of` is not given) and policies."""
    domain = get_domain(setting.domain)
    params = domain.play.example() if params_of is None else params_of(domain)
    harness = Harness(domain, max_steps=setting.n_steps)
    equity = harness.equity_params(params, is_visible=0.0)
    played = Playable(harness, params, equity, np.asarray(domain.preference))
    target = domain.heuristics[setting.target](params, harness)
    if setting.target_epsilon > 0:
        target = soften(target, harness.n_actions, setting.target_epsilon)
    if setting.behaviour == "soft_linear":
        behaviour: Any = _soft_linear(harness)
    else:
        rule = domain.heuristics[setting.behaviour](params, harness)
        behaviour = soften(rule, harness.n_actions, setting.epsilon, _explored(setting, harness))
    return Prepared(setting, played, behaviour, target)


def _explored(setting: LogSetting, harness: Harness) -> np.ndarray | None:
    if setting.explored is None:
        return None
    chances = np.isin(np.arange(harness.n_actions), setting.explored).astype(np.float64)
    return chances / chances.sum()


def _soft_linear(harness: Harness, seed: int = 311) -> SoftLinear:
    """A logging policy that leans this way and that with what it sees, a little."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(scale=0.6, size=(harness.n_features, harness.n_actions))
    weights[:, 0] = 0.0
    return SoftLinear(jnp.asarray(weights, jnp.float32), jnp.zeros(harness.n_actions))


N_LOGS = 200
N_TRUTH = 200_000
"""Episodes from which a true value is taken: its error is a twentieth of a log's."""
COVERAGE_RANGE = (0.90, 0.97)
"""What the coverage of a 95 % interval must lie in."""
DESIGN_BASED = (*WEIGHTED, *ROBUST)
"""Estimators that are right whenever the propensities are; the others need the right model."""
N_WHOLE, N_WHOLE_TRUTH = 100, 10_000
"""Most logs, and episodes of a true value, where episodes are whole: a decision is one of hundreds
(the value's error is then a tenth of a log's)."""
N_BOUNDED = 60
"""Logs on which bounds are computed: each needs its own resampling."""


def validate(
    settings: Sequence[LogSetting] = SETTINGS,
    *,
    n_logs: int = N_LOGS,
    n_truth: int = N_TRUTH,
    seed: int = 0,
    params_of: Callable[[Any], Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """One record a setting: coverage, bias, error, effective size and refusals by estimator.

    Parameters
    ----------
    params_of
        (domain) -> params of the process to log in; the domain's example if not given.
    """
    found = []
    for number, setting in enumerate(settings):
        if progress is not None:
            progress(setting.name)
        found.append(
            validate_setting(
                setting,
                n_logs=n_logs,
                n_truth=n_truth,
                seed=seed * 1000 + 2 * number,
                params_of=params_of,
            )
        )
    return found


def validate_setting(
    setting: LogSetting,
    *,
    n_logs: int,
    n_truth: int,
    seed: int,
    params_of: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """Write the logs of one setting, play the truth, and compare."""
    if setting.kind == WHOLE:
        n_logs, n_truth = min(n_logs, N_WHOLE), min(n_truth, N_WHOLE_TRUTH)
    prepared = prepare(setting, params_of)
    played, n_actions = prepared.played, prepared.played.harness.n_actions
    logs = write_logs(
        played,
        prepared.behaviour,
        n_logs=n_logs,
        n_episodes=setting.n_episodes,
        seed=seed,
        gamma=setting.gamma,
    )
    target = action_chances(prepared.target, logs.observation, n_actions)
    asked = prepared.target
    if not isinstance(asked, Soft):
        asked = soften(asked, n_actions, 0.0)
    truth, truth_error = true_values(played, asked, n_episodes=n_truth, seed=seed + 1)
    if setting.kind == WHOLE:
        # By stratum a whole episode has seven outcomes of every decision: more than is needed.
        logs = replace(logs, outcome=logs.outcome[..., :1], outcome_names=logs.outcome_names[:1])
        truth, truth_error = truth[:1], truth_error[:1]
    options = Options(propensities=setting.propensities)
    cells = cells_of(logs, target, options.support_min_count)
    evaluation = evaluate_policy(logs, target, options, cells)
    record = {
        "setting": setting.name,
        "kind": setting.kind,
        "domain": setting.domain,
        "n_steps": setting.n_steps,
        "n_episodes": setting.n_episodes,
        "n_logs": n_logs,
        "propensities": setting.propensities,
        "truth": float(truth[0]),
        "truth_error": float(truth_error[0]),
        "supported_share": float(evaluation.support.share.mean()),
        "support_refused": float(evaluation.support.is_refused.mean()),
        "estimators": [
            score_estimator(evaluation, name, truth, logs.outcome_names) for name in ESTIMATORS
        ],
    }
    if setting.kind == CONFOUNDED:
        record["bounds"] = _score_bounds(logs, target, evaluation, truth, setting.gamma)
    record["verdict"] = judge(record)
    return record


def score_estimator(
    evaluation: Evaluation, name: str, truth: np.ndarray, outcome_names: Sequence[str]
) -> dict[str, Any]:
    """Coverage among the logs that were answered, overall and by stratum.

    `coverage_unrefused` is that of an estimator which never refuses, and of a model alone.
    """
    estimate = evaluation.estimates[name]
    is_answered = ~estimate.is_refused
    found = estimate.intervals
    held = covers(found, truth)
    first = is_answered[:, 0]
    n = int(first.sum())
    error = (found.value - truth)[first, 0]
    strata = [
        {
            "stratum": outcome_names[k],
            "n_answered": int(is_answered[:, k].sum()),
            "coverage": float(held[is_answered[:, k], k].mean())
            if is_answered[:, k].any()
            else None,
        }
        for k in range(1, len(truth))
    ]
    low, high = share_interval(int(held[first, 0].sum()), n)
    return {
        "estimator": name,
        "n_answered": n,
        "refused": 1.0 - n / len(first),
        "effective_size": float(estimate.effective_size[:, 0].mean()),
        "effective_episodes": float(evaluation.n_effective[:, 0].mean()),
        "spread_episodes": float(evaluation.n_spread[:, 0].mean()),
        "coverage_unrefused": _mean(covers(estimate.alone, truth)[:, 0]),
        "coverage": _mean(held[first, 0]),
        "coverage_interval": [low, high],
        "bias": _mean(error),
        "rmse": float(np.sqrt((error**2).mean())) if n else None,
        "mean_width": float((found.upper - found.lower)[first, 0].mean()) if n else None,
        "strata": strata,
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def covers(found: Intervals, truth: np.ndarray) -> np.ndarray:
    """Whether each interval (L, K) holds the truth (K,)."""
    return (found.lower <= truth) & (truth <= found.upper)


def share_interval(n_hits: int, n: int, level: float = 0.95) -> tuple[float | None, float | None]:
    """Exact binomial interval of a share (Clopper and Pearson 1934)."""
    if n == 0:
        return None, None
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, n_hits, n - n_hits + 1)) if n_hits else 0.0
    high = float(beta.ppf(1 - tail, n_hits + 1, n - n_hits)) if n_hits < n else 1.0
    return low, high


def is_well_covered(coverage: float | None) -> bool:
    """Whether the coverage of 95 % intervals lies where it must."""
    return coverage is not None and COVERAGE_RANGE[0] <= coverage <= COVERAGE_RANGE[1]


def judge(record: dict[str, Any]) -> str:
    """Whether a setting shows what it must: 'holds' or what does not."""
    rows = {row["estimator"]: row for row in record["estimators"]}
    if record["kind"] == SUPPORTED:
        wrong = [name for name in DESIGN_BASED if not is_well_covered(rows[name]["coverage"])]
        return "holds" if not wrong else f"coverage outside the range: {', '.join(wrong)}"
    if record["kind"] == UNSUPPORTED:
        silent = [name for name in rows if rows[name]["refused"] < 1.0]
        return "holds" if not silent else f"answered without support: {', '.join(silent)}"
    if record["kind"] == CONFOUNDED:
        held = record["bounds"]["at_true_gamma"]
        return "holds" if held >= COVERAGE_RANGE[0] else "the bounds miss the truth"
    asked = rows if record["kind"] == WHOLE else DESIGN_BASED
    missed = [name for name in asked if not _answers_well(rows[name])]
    return "holds" if not missed else f"answered, and missed: {', '.join(missed)}"


def _answers_well(row: dict[str, Any]) -> bool:
    """Where overlap is weak: what is answered may cover as it says, as far as answers can tell."""
    highest = row["coverage_interval"][1]
    return highest is None or highest >= LEVEL


def _score_bounds(
    logs: Logs, target: np.ndarray, evaluation: Evaluation, truth: np.ndarray, gamma: float
) -> dict[str, Any]:
    """Share of logs whose bounds hold the truth: at the true Γ, and as if nothing were hidden."""
    n = min(N_BOUNDED, logs.shape[0])
    logs = replace(logs, outcome=logs.outcome[..., :1])
    held = {1.0: 0, gamma: 0}
    widths = {1.0: 0.0, gamma: 0.0}
    for log in range(n):
        for one in held:
            found = bound_value(
                logs.pick(log),
                target[log : log + 1],
                evaluation.propensity[log : log + 1],
                one,
                seed=log,
            )
            held[one] += int(found.lower[0] <= truth[0] <= found.upper[0])
            widths[one] += float(found.upper[0] - found.lower[0]) / n
    return {
        "gamma": gamma,
        "n_logs": n,
        "at_true_gamma": held[gamma] / n,
        "without": held[1.0] / n,
        "mean_width": widths[gamma],
        "mean_width_without": widths[1.0],
    }


def choose_settings(names: Sequence[str]) -> tuple[LogSetting, ...]:
    """Settings whose name begins with one of these; all if none is given."""
    if not names:
        return SETTINGS
    found = tuple(one for one in SETTINGS if one.name.startswith(tuple(names)))
    if not found:
        raise unknown_name("setting", names[0], [one.name for one in SETTINGS])
    return found


def true_params_of(city: Path) -> Callable[[Any], Any]:
    """(domain) -> params of what really happened in a synthetic city, its first year left out."""
    window = open_records(city).window
    later = window[0] + timedelta(days=365)
    if later >= window[1]:
        raise InputError(
            f"{city} has records from {window[0]} to {window[1]}; more than a year is needed, "
            "because the first one only fills the features' history."
        )
    return lambda domain: domain.truth(city, later)
