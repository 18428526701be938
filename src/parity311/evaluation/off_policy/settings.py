"""The settings that off-policy estimates are validated in: what is logged, what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from parity311.domains import get_domain
from parity311.evaluation.off_policy.policies import SoftLinear, soften
from parity311.evaluation.off_policy.simulate import Office
from parity311.mdp.harness import Harness

SUPPORTED, WEAK, UNSUPPORTED, CONFOUNDED = "supported", "weak", "unsupported", "confounded"


@dataclass(frozen=True)
class Setting:
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


# fmt: off
SETTINGS = (
    # One filing a decision; today's rule wrote the log, another is asked about.
    Setting("boiler", SUPPORTED, "boiler", 1, 2000, "balanced", "score", 0.3),
    Setting("boiler, propensities estimated", SUPPORTED, "boiler", 1, 2000, "balanced", "score",
            0.3, propensities="logistic"),
    # Five complaints in a row, each deciding what the next one finds.
    Setting("snad", SUPPORTED, "snad", 5, 600, "score", "score", 0.3),
    Setting("snad, propensities estimated", SUPPORTED, "snad", 2, 1500, "soft_linear", "score",
            0.0, propensities="logistic"),
    Setting("crane", SUPPORTED, "crane", 4, 600, "expert", "expert", 0.25),
    Setting("drainage", SUPPORTED, "drainage", 5, 600, "score", "score", 0.3),
    Setting("complaint_triage", SUPPORTED, "complaint_triage", 5, 600, "score", "score", 0.3),
    # A queue: decisions about the whole office.
    Setting("ert", SUPPORTED, "ert", 6, 600, "balanced", "balanced", 0.25),
    # Another policy over many steps: few episodes agree with it to the end.
    Setting("snad, far from the log", WEAK, "snad", 3, 600, "emerg", "score", 0.5),
    Setting("snad, long episodes", WEAK, "snad", 12, 600, "score", "score", 0.3),
    # The log never prioritises; the policy does.
    Setting("snad, never prioritised", UNSUPPORTED, "snad", 3, 600, "never", "score", 0.6,
            explored=(0, 1)),
    Setting("crane, never stopped", UNSUPPORTED, "crane", 3, 600, "never", "expert", 0.6,
            explored=(0, 1, 2)),
    Setting("boiler, hardly ever inspected", UNSUPPORTED, "boiler", 1, 2000, "never", "score",
            0.005),
    # Inspectors act on something that is not on record.
    Setting("boiler, a hidden reason", CONFOUNDED, "boiler", 1, 1000, "balanced", "score", 0.6,
            propensities="logistic", gamma=2.0),
)
# fmt: on


@dataclass(frozen=True)
class Prepared:
    """A setting with its process and policies."""

    setting: Setting
    office: Office
    behaviour: Any
    """has `chances`"""
    target: Any


def prepare(setting: Setting, params_of: Callable[[Any], Any] | None = None) -> Prepared:
    """Make a setting's process (the domain's example if `params_of` is not given) and policies."""
    domain = get_domain(setting.domain)
    params = domain.play.example() if params_of is None else params_of(domain)
    harness = Harness(domain, max_steps=setting.n_steps)
    equity = harness.equity_params(params, is_visible=0.0)
    office = Office(harness, params, equity, np.asarray(domain.preference))
    target = domain.heuristics[setting.target](params, harness)
    if setting.behaviour == "soft_linear":
        behaviour: Any = _soft_linear(harness)
    else:
        rule = domain.heuristics[setting.behaviour](params, harness)
        behaviour = soften(rule, harness.n_actions, setting.epsilon, _explored(setting, harness))
    return Prepared(setting, office, behaviour, target)


def _explored(setting: Setting, harness: Harness) -> np.ndarray | None:
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
