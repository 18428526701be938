"""How strong a hidden reason would have to be to overturn what the decisions on record say (7.1).

The agency chose whom to visit, so what would have been found elsewhere is missing, not at random.
Agents are valued on its own decisions of the test period by weights; at which odds ratio Γ of a
reason that is not on record their advantage, and what they do for the gap between low and high
incomes, is no longer clear of zero is found after Rosenbaum.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.errors import EstimationError, InputError
from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.policies import action_chances
from parity311.evaluation.off_policy.propensity import estimate_propensities
from parity311.evaluation.off_policy.records import (
    AgencyLog,
    escalation_chances,
    last_known_day,
    read_agency_log,
)
from parity311.evaluation.off_policy.rosenbaum import bound_value, overturning_gamma
from parity311.mdp.contract import EQUITY, Domain
from parity311.mdp.harness import Harness
from parity311.records.store import Records
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import read_hashed, write_hashed

if TYPE_CHECKING:
    from parity311.studies.reproduction.protocols import Window
    from parity311.training.loop import Trained

DOMAINS = ("boiler", "heat")
"""Residential domains whose decisions, whether somebody went, are on record; housing's are not."""
MOST_DECISIONS = 20_000
"""Decisions that are looked at, drawn from the test period where it has more."""
LOW, HIGH = (0, 1), (3, 4)
"""Strata of the paper's low and high incomes, quintiles 1-2 and 4-5."""
CORRECT = -2
"""Place of violations found in time among the outcomes of an agency's log."""


@dataclass(frozen=True)
class DecisionLog:
    """Decisions on record in the test period, (n,) each; or why there are none."""

    observation: np.ndarray
    """(n, n_features + covariates) what the chance of a visit is estimated from"""
    seen: np.ndarray
    """(n, n_features + 1) what the agents of the programme see"""
    went: np.ndarray
    reward: np.ndarray
    """in units of a typical correct escalation"""
    found: np.ndarray
    """violations found in time"""
    stratum: np.ndarray
    reason: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """What agents would have changed on record, and the Γ at which it is no longer clear."""

    change: float
    """more than was earned (or a smaller gap), a decision"""
    lower: float
    upper: float
    gamma: float
    """1 where it is not clear even without a hidden reason; infinite beyond the search"""

    @property
    def is_gain(self) -> bool:
        """Whether it is clearly for the better, as long as nothing is hidden."""
        return self.lower > 0.0


def read_decisions(
    domain: Domain, records: Records, params: Any, scored: Window, observation_set: str
) -> DecisionLog:
    """The agency's decisions of the test period; empty, with the reason, where there is no log."""
    harness = Harness(domain, observation_set=observation_set)
    later = domain.sight.known_later if domain.sight is not None else ()
    leaks = [name for name in harness.observation_names if name in later]
    if leaks:
        return _nothing(f"its agents see {', '.join(leaks)}, known only after the decision")
    try:
        log = read_agency_log(
            harness, records, params, scored[0], min(scored[1], last_known_day(records)),
            np.asarray(domain.preference),
        )  # fmt: skip
    except (EstimationError, InputError) as error:
        return _nothing(" ".join(str(error).split()))
    return _take(log)


def _nothing(reason: str) -> DecisionLog:
    none = np.zeros(0)
    return DecisionLog(none[:, None], none[:, None], none, none, none, none, reason)


def _take(log: AgencyLog) -> DecisionLog:
    n = len(log.stratum)
    rows = np.arange(n)
    if n > MOST_DECISIONS:
        rows = np.sort(np.random.default_rng(0).choice(n, MOST_DECISIONS, replace=False))
    outcome = log.logs.outcome[0, rows, 0]
    return DecisionLog(
        observation=log.logs.observation[0, rows, 0],
        seen=log.seen[rows],
        went=log.logs.action[0, rows, 0],
        reward=outcome[:, 0],
        found=outcome[:, CORRECT],
        stratum=log.stratum[rows],
    )


def save_decisions(path: Path, log: DecisionLog) -> None:
    """Keep a log beside the other facts of the records."""
    buffer = io.BytesIO()
    arrays = {name: np.asarray(values) for name, values in vars(log).items()}
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    with telling_disk_errors(path):
        write_hashed(path, buffer.getvalue())


def load_decisions(path: Path) -> DecisionLog | None:
    """A log that was kept; None where it is missing or not whole."""
    content = read_hashed(path)
    if content is None:
        return None
    with np.load(io.BytesIO(content)) as kept:
        arrays = {name: kept[name] for name in kept.files}
    return DecisionLog(**{**arrays, "reason": str(arrays["reason"])})


def escalation_target(trained: Trained, seen: np.ndarray, *, is_paid: bool) -> np.ndarray:
    """Chance that an agent drawn from the seeds sends somebody, (1, n, 1, 2)."""
    own = np.flatnonzero((trained.preferences[:, EQUITY] > 0) == is_paid)
    harness = trained.harness
    chances = [
        escalation_chances(action_chances(trained.policy(int(i)), seen, harness.n_actions), harness)
        for i in own
    ]
    return np.mean(chances, axis=0)


def weigh_hidden_reasons(log: DecisionLog, target: np.ndarray) -> tuple[Sensitivity, Sensitivity]:
    """The advantage and the narrowing of the gap, with the Γ that overturns either."""
    low, high = (np.isin(log.stratum, group) for group in (LOW, HIGH))
    sides = low / max(low.mean(), 1e-9) - high / max(high.mean(), 1e-9)
    gap = log.found * sides
    # Positive is better: what brings the worse served side up.
    narrowing = gap if gap.mean() <= 0 else -gap
    outcome = np.column_stack([log.reward, narrowing])
    lay = lambda values: np.asarray(values)[None, :, None]  # noqa: E731
    logs = Logs(
        observation=lay(log.observation),
        action=lay(log.went.astype(np.int64)),
        propensity=np.full((1, len(log.went), 1), np.nan),
        outcome=lay(outcome),
        is_live=np.ones((1, len(log.went), 1), bool),
        outcome_names=("reward", "narrowing"),
        n_actions=2,
    )
    propensity = estimate_propensities(logs).of_actions(logs)
    first, second = (_sensitivity(logs, target, propensity, place) for place in range(2))
    return first, second


def _sensitivity(logs: Logs, target: np.ndarray, propensity: np.ndarray, place: int) -> Sensitivity:
    only = replace(logs, outcome=logs.outcome[..., place : place + 1])
    found = bound_value(only, target, propensity, 1.0, less_logged=True)
    gamma = overturning_gamma(logs, target, propensity, outcome=place)
    return Sensitivity(
        float(found.lowest[0]), float(found.lower[0]), float(found.upper[0]), float(gamma)
    )
