"""What a policy would do, before it decides: played in the process that the records give.

Nobody has the truth of a real city, so a cycle never asks for it: a policy is judged in the
estimated process, and what the estimate leaves open of a stratum's need widens the verdict. Every
unit that the audit resamples is a bootstrap of the episodes with its own joint draw of the need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from parity311.audit.episodes import EpisodeInputs
from parity311.evaluation.compare import hold_contender
from parity311.evaluation.frontier import settle_prices
from parity311.evaluation.rollout import Contender, Episodes, evaluate
from parity311.evaluation.titles import EQUITY_MARK
from parity311.mdp.contract import N_KNOWN_STRATA, N_STRATA, TODAYS_RULE
from parity311.mdp.harness import Harness
from parity311.reporting.calibration import Calibration
from parity311.resampling import mean_interval

EPISODES = 64
INDEPENDENT_EPISODES = 256
"""The same where steps are independent, episodes short and cheap."""
N_UNITS = 200
"""Draws of need, each with its own bootstrap of the episodes."""


@dataclass(frozen=True)
class PolicyTrial:
    """How a policy fared beside today's rule."""

    episodes: EpisodeInputs
    """of the policy: what is audited"""
    figures: dict[str, Any]
    """coverage of both and the lead, over all strata"""


def try_policy(
    harness: Harness,
    params: Any,
    calibration: Calibration,
    contender: Contender,
    *,
    setting: str,
    is_bounded: bool = True,
    n_episodes: int = 0,
    seed: int = 0,
) -> PolicyTrial:
    """Play a policy and today's rule through the same episodes of the estimated process.

    Parameters
    ----------
    calibration
        What the need of each stratum was estimated with: its joint draws are what is left open.
    is_bounded
        Whether those draws say anything; where complaints stand for incidents they do not.
    n_episodes
        Episodes that both play; the usual number if 0.
    """
    domain = harness.domain
    key_settle, key_play = jax.random.split(jax.random.key(seed))
    today = Contender(TODAYS_RULE, domain.heuristics[TODAYS_RULE](params, harness))
    cases = domain.play.cases
    table = None if cases is None else cases(params)
    both = [hold_contender(harness, table, one) for one in (contender, today)]
    equity = harness.equity_params(params)
    # Prices that nobody sees need not come to rest.
    if harness.equity_mode == "dual" and contender.is_priced:
        both = settle_prices(harness, params, both, equity, key_settle)
        both = [hold_contender(harness, table, one) for one in both]
    n_episodes = n_episodes or (EPISODES if table is None else INDEPENDENT_EPISODES)
    keys = jax.random.split(key_play, n_episodes)
    played = evaluate(harness, params, both, keys, equity=equity, with_saved=False)
    n_cases = None if table is None else len(table.stratum)
    ratios = need_ratios(calibration, seed) if is_bounded else np.ones((N_UNITS, N_STRATA))
    units = _units(harness, setting, contender.name, played, ratios, n_cases, seed)
    share = simulated_share(units.correct, units.out_of["actionable"], ratios)
    return PolicyTrial(units, {**_figures(played), "simulated_share": share})


def need_ratios(calibration: Calibration, seed: int = 0) -> np.ndarray:
    """(units, 6) draws of each stratum's need over its estimate."""
    draws, value = calibration.draws, calibration.denominators
    rows = np.random.default_rng(seed).choice(len(draws), N_UNITS, replace=len(draws) < N_UNITS)
    known = np.where(value > 0, value, 1.0)
    return np.where(value > 0, np.maximum(draws[rows], 1e-9) / known, 1.0)


def simulated_share(served: np.ndarray, need: np.ndarray, ratios: np.ndarray) -> float | None:
    """Share of what is left open between two strata that more episodes would settle.

    The two are those with the lowest and the highest rate; the rest is what the records leave open
    of their need. ``served`` and ``need`` (units, 6) are sums of a bootstrap of the episodes, need
    by its draw, whose ``ratios`` to the estimate are known. None where nobody can be compared.
    """
    known = slice(0, N_KNOWN_STRATA)
    plain = np.where(ratios > 0, need / np.maximum(ratios, 1e-12), 0.0)[:, known]
    is_there = plain.sum(axis=0) > 0
    if is_there.sum() < 2:
        return None
    found = served[:, known][:, is_there]
    drawn, fixed = (found / np.maximum(one[:, is_there], 1e-12) for one in (need[:, known], plain))
    order = np.argsort(fixed.mean(axis=0))
    spread = [float(np.var(one[:, order[-1]] - one[:, order[0]])) for one in (fixed, drawn)]
    return min(spread[0] / spread[1], 1.0) if spread[1] > 0 else None


def policy_name(agent: str, equity: float, is_agent: bool) -> str:
    """Name under which audits know a policy: a rule keeps its own."""
    return f"{agent}{EQUITY_MARK}{equity:.2f}" if is_agent and equity > 0 else agent


def _units(
    harness: Harness,
    setting: str,
    name: str,
    played: Episodes,
    ratios: np.ndarray,
    n_cases: int | None,
    seed: int,
) -> EpisodeInputs:
    """Sums by stratum of so many bootstraps of the episodes, each with its draw of the need.

    Their spread is the error itself, not that of a mean over them: hence the widening.
    """
    tally = played.tally
    n_episodes = np.shape(tally.correct)[1]
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_episodes, np.full(n_episodes, 1.0 / n_episodes), len(ratios))
    total = lambda values: counts @ np.asarray(values, np.float64)[0] / len(ratios)  # noqa: E731
    out_of = {
        "actionable": total(tally.actionable) * ratios,
        "incidents": total(tally.incidents) * ratios,
        "complaints": total(tally.complaints),
    }
    drawn = 1.0 if n_cases is None else np.sqrt(1.0 + n_episodes * played.n_steps / n_cases)
    return EpisodeInputs(
        harness.domain.slug, setting, name, total(tally.correct), out_of,
        float(np.sqrt(len(ratios)) * drawn), harness.strata,
    )  # fmt: skip


def _figures(played: Episodes) -> dict[str, Any]:
    tally = played.tally
    total = lambda values: np.asarray(values, np.float64).sum(axis=-1)  # noqa: E731
    correct, actionable = total(tally.correct), total(tally.actionable)
    rate = correct.sum(axis=1) / np.maximum(actionable.sum(axis=1), 1e-9)
    # Both meet the same incidents, so episodes are compared one by one.
    lead = (correct[0] - correct[1]) / np.maximum(actionable[1].mean(), 1e-9)
    by_stratum = _by_stratum(tally.correct, tally.actionable)
    return {
        "coverage": float(rate[0]),
        "coverage_of_today": float(rate[1]),
        "lead": float(lead.mean()),
        "lead_interval": mean_interval(lead),
        "coverage_by_stratum": by_stratum[0],
        "coverage_of_today_by_stratum": by_stratum[1],
        "visits_per_complaint": float(
            total(tally.visits)[0].sum() / max(total(tally.complaints)[0].sum(), 1e-9)
        ),
    }


def _by_stratum(correct: Any, actionable: Any) -> Sequence[list[float]]:
    served, need = (np.asarray(one, np.float64).sum(axis=1) for one in (correct, actionable))
    return np.divide(served, need, out=np.full_like(served, np.nan), where=need > 0).tolist()
