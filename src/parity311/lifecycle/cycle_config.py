"""What a retraining cycle depends on beside the records, and what of it is refused at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date

from parity311.agents import all_agents, get_entry
from parity311.audit.spec import AuditSpec
from parity311.domains import get_domain
from parity311.engines.backlog.rules import check_takes_its_action, stands_in
from parity311.errors import InputError, unknown_name
from parity311.estimation.world import ESTIMATOR
from parity311.lifecycle.gates import check_words
from parity311.mdp.contract import Domain
from parity311.mdp.equity import USUAL_TERM, EquityTerm
from parity311.mdp.harness import Harness
from parity311.service_levels.levels import ServiceLevels
from parity311.serving.served import SERVED_MODE
from parity311.training import with_equity
from parity311.training.loop import check_preferences
from parity311.training.saving import PLAN

USUAL_SPEC = AuditSpec()


@dataclass(frozen=True)
class CycleConfig:
    """What a cycle depends on, beside the records."""

    domain: str
    agent: str = "dqn"
    """an agent that learns, or a rule of the domain such as dual_threshold"""
    n_steps: int = 8_000
    """updates of each agent"""
    n_seeds: int = 2
    """agents trained; the first is packed, the others vote in service"""
    seed: int = 0
    equity: float = 0.5
    """α₃, where no weights are given"""
    weights: tuple[float, ...] | None = None
    """(4,) speed, cost, equity and retention, as `parity311 weigh` writes them"""
    action_set: str = ""
    """published or extended; if empty the published ones, or what a rule needs to be itself"""
    n_episodes: int = 0
    """episodes of the trial that is audited; the usual number if 0"""
    estimator: str = ESTIMATOR
    until: date | None = None
    """learn from records before this day; all of them if not given"""
    term: EquityTerm = USUAL_TERM
    spec: AuditSpec = USUAL_SPEC
    levels: ServiceLevels | None = None
    """service levels that it learns by and is held to"""

    @property
    def preference(self) -> tuple[float, ...]:
        """(4,) what the policy is paid for."""
        if self.weights is not None:
            return self.weights
        return with_equity(get_domain(self.domain).preference, self.equity)

    @property
    def harness(self) -> Harness:
        """The domain as the policy sees it."""
        domain = get_domain(self.domain)
        usual = Harness(domain, **asdict(self.term))
        rule = domain.heuristics.get(self.agent)
        needs_more = rule is not None and stands_in(rule, usual)
        return replace(
            usual, action_set=self.action_set or ("extended" if needs_more else usual.action_set)
        )


def check_cycle(config: CycleConfig, *, by: str, reason: str) -> Domain:
    """Refuse what cannot be run, before anything is estimated; the domain."""
    domain = get_domain(config.domain)
    check_words(by, reason)
    if not 0.0 <= config.equity <= 1.0:
        raise InputError(f"Equity has weight {config.equity}; allowed is 0 to 1. Change it.")
    check_preferences([config.preference])
    rules = [*domain.heuristics, *([PLAN] if domain.play.solve else [])]
    acting = [name for name, one in all_agents().items() if one.acts]
    if config.agent not in rules and config.agent not in acting:
        raise unknown_name(f"agent or rule of {domain.slug}", config.agent, [*acting, *rules])
    is_rule = config.agent in rules
    domain.actions_of(config.harness.action_set)
    if config.agent in domain.heuristics:
        check_takes_its_action(config.agent, domain.heuristics[config.agent], config.harness)
    if is_rule and config.term.equity_mode != SERVED_MODE:
        raise InputError(
            f"Equity mode {config.term.equity_mode!r} was asked for with the rule "
            f"{config.agent!r}, which follows coverage prices; choose mode {SERVED_MODE!r}, or an "
            f"agent: {', '.join(acting)}."
        )
    is_priced = not is_rule and get_entry(config.agent).needs_prices
    if is_priced and config.term.equity_mode != SERVED_MODE:
        raise InputError(
            f"Agent {config.agent!r} learns from coverage prices, which equity mode "
            f"{config.term.equity_mode!r} has none of; choose another."
        )
    return domain
