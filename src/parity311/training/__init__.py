"""The only training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.errors import TrainingError
from parity311.mdp.contract import Action
from parity311.mdp.equity import USUAL_TERM, EquityTerm

if TYPE_CHECKING:
    from parity311.agents.base import Agent
    from parity311.mdp.contract import Domain
    from parity311.mdp.harness import Harness
    from parity311.training.checkpoint import Checkpoints
    from parity311.training.loop import Progress, Trained

N_ENVIRONMENTS = 8
"""Episodes an agent plays side by side: one update then sees eight new steps."""

DISCOUNT_OF = "dqn"
"""Agent for which domains say how far ahead to look (`discount`); every other shares that."""


def train(
    domain: Domain,
    params: Any,
    agent: str,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    steps: int,
    *,
    observation_set: str = "",
    action_set: str = "published",
    term: EquityTerm = USUAL_TERM,
    n_environments: int = N_ENVIRONMENTS,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    stop_after_s: float = float("inf"),
    n_snapshots: int = 0,
    keep_values: bool = False,
) -> Trained:
    """Train agents of this name in a domain's (estimated) process, with the domain's settings.

    Exploration and, where the agent has it, the step size fall over the steps there are;
    ``settings`` override everything.

    Parameters
    ----------
    params
        The process to learn in: estimated from records, or ``domain.play.example()``.
    agent
        Its name, as in `parity311 train --help`: dqn, plan …
    preferences, seeds
        One agent learns for each preference (4,) with each seed, all in one program.
    steps
        Updates of every agent.
    term
        Which equity term is paid. Its strata must be those that params were estimated with.
    n_environments
        Episodes an agent plays side by side.
    n_snapshots
        Policies to keep on the way.
    keep_values
        Whether a planner keeps what every action is worth, for a margin in service.

    Examples
    --------
    >>> trained = parity311.train(boiler, params, "dqn", [boiler.preference], [0], 8)
    >>> trained.n_agents, trained.is_whole
    (1, True)
    """
    from parity311.agents import get_entry
    from parity311.mdp.harness import Harness
    from parity311.training.frontier import cover, train_menu
    from parity311.training.loop import plan, train_agents

    harness = Harness(
        domain, observation_set=observation_set, action_set=action_set, **asdict(term)
    )
    if get_entry(agent).is_planner:
        return plan(harness, params, preferences, seeds, keep_values=keep_values)
    learn = train_agents
    if get_entry(agent).covers_preferences:
        # One agent covers all preferences; what is asked for is read off it.
        learn, settings = train_menu, {"corners": cover(domain, preferences), **(settings or {})}
    made = agent_for(harness, agent, steps, settings)
    discount = getattr(made.config, "discount", None)
    # What a window's disparity is worth depends on how far the agent looks ahead.
    scaled = term.equity_mode in ("potential", "windowed") and discount is not None
    return learn(
        harness,
        params,
        made,
        preferences,
        seeds,
        steps,
        n_environments=n_environments,
        equity_options={"discount": discount} if scaled else None,
        progress=progress,
        checkpoints=checkpoints,
        stop_after_s=stop_after_s,
        n_snapshots=n_snapshots,
    )


def agent_for(
    harness: Harness, agent: str, steps: int, settings: Mapping[str, Any] | None = None
) -> Agent:
    """Agent of this name with a domain's settings, made for this many steps.

    Of what domain and training know, an agent is told what its hyper-parameters have a name for.
    """
    from parity311.agents import agent_config, get_entry, make_agent, setting_names
    from parity311.training.frontier import hull_of

    if get_entry(agent).needs_prices and harness.equity_mode != "dual":
        raise TrainingError(
            f"Agent {agent!r} learns from coverage prices, which equity mode "
            f"{harness.equity_mode!r} has none of; choose mode 'dual', or another agent."
        )
    domain, allowed = harness.domain, setting_names(agent)
    shared = domain.agent_settings.get(DISCOUNT_OF, {})
    actions = domain.actions_of(harness.action_set)
    known = {
        **({"discount": shared["discount"]} if "discount" in shared else {}),
        **domain.agent_settings.get(get_entry(agent).inherits, {}),
        "epsilon_steps": max(steps // 2, 1),
        "anneal_steps": steps,
        "episode_length": harness.horizon if 0 < harness.horizon <= 400 else 168,
        "n_coverage_features": len(harness.observation_names) - len(harness.columns),
        "corners": hull_of(domain) if "corners" in allowed else (),
        "categories": _categories(actions),
    }
    chosen = {name: value for name, value in known.items() if name in allowed}
    chosen |= {**domain.agent_settings.get(agent, {}), **(settings or {})}
    return make_agent(agent, agent_config(agent, chosen))


def _categories(actions: Sequence[Action]) -> tuple[int, ...]:
    """Category of each action: its family where families are named, else whether it sends."""
    families = list(dict.fromkeys(action.family for action in actions))
    if len(families) > 1:
        return tuple(families.index(action.family) for action in actions)
    sends = [action.escalates for action in actions]
    return tuple(int(one and not all(sends)) for one in sends)


def with_equity(preference: Sequence[float], weight: float) -> tuple[float, ...]:
    """A preference that gives equity this weight and keeps the proportions of the rest.

    Examples
    --------
    >>> parity311.with_equity((0.5, 0.5, 0.0, 0.0), 0.5)
    (0.25, 0.25, 0.5, 0.0)
    """
    rest = np.asarray(preference, np.float64) * (1.0 - weight)
    rest[2] = weight
    return tuple(float(x) for x in rest)
