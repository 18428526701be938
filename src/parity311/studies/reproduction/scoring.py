"""Playing every policy of a part under the true process, and what was counted on the way.

Rules and agents play the same episodes. Beside what every domain tallies, the actions taken are
counted, and in the elevator domain the two backlogs the paper's table names.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.domains import get_domain
from parity311.engines.heuristics import CaseTable
from parity311.evaluation.compare import (
    DUAL,
    agent_contenders,
    hold_contender,
    later_flow,
    rule_contenders,
    settle_prices,
)
from parity311.evaluation.rollout import CHUNK, Contender, Episodes, evaluate
from parity311.mdp.contract import EQUITY, N_REWARDS, Domain, Transition
from parity311.mdp.harness import Harness
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import read_hashed, write_hashed
from parity311.training.loop import Trained

COUNTS = ("correct", "actionable", "incidents", "reported_actionable", "complaints", "visits")
STATIC = "static_thresholds"
ACTION_SETS = {"elevator": "extended"}
"""Sets in which rules play; the paper's elevator table has rules beyond the four modes. An agent
of four modes plays its own four in either."""


@cache
def counting_domain(slug: str) -> Domain:
    """A domain whose outcomes are followed by its actions, counted, and its own measures."""
    domain = get_domain(slug)
    play = domain.play
    n_actions = len(domain.actions) + len(domain.extended_actions)
    measure = _own_measures(slug)

    def transition(
        key: jax.Array, params: Any, state: Any, action: jax.Array, prices: jax.Array
    ) -> Transition:
        moved = play.transition(key, params, state, action, prices)
        taken = (jnp.arange(n_actions) == action).astype(jnp.float32)
        outcomes = jnp.concatenate([moved.tally.outcomes, taken, measure(moved.state)])
        return moved._replace(tally=moved.tally._replace(outcomes=outcomes))

    names = [action.name for action in (*domain.actions, *domain.extended_actions)]
    outcomes = (*domain.outcome_names, *(f"action_{name}" for name in names), *measure_names(slug))
    return replace(
        domain, dynamics=replace(play, transition=transition), outcome_names=tuple(outcomes)
    )


def measure_names(slug: str) -> tuple[str, ...]:
    """Backlogs of the paper's elevator table, summed over steps."""
    return ("A30", "S") if slug == "elevator" else ()


def _own_measures(slug: str) -> Callable[[Any], jax.Array]:
    if slug != "elevator":
        return lambda state: jnp.zeros(0, jnp.float32)
    from parity311.domains.elevator import measure

    return lambda state: jnp.stack(measure(state.backlog)).astype(jnp.float32)


@dataclass(frozen=True)
class Scored:
    """Totals of every episode, (policies, episodes, ...) each."""

    domain: Domain
    names: tuple[str, ...]
    """name of every row; an agent has one row a seed"""
    arrays: dict[str, np.ndarray]
    n_steps: int
    table_factor: float = 1.0
    """how much wider intervals are because episodes repeat the cases of one table"""

    def rows(self, name: str) -> list[int]:
        """Rows of one policy: its seeds, or one row for a rule."""
        return [place for place, own in enumerate(self.names) if own == name]

    def has(self, name: str) -> bool:
        """Whether a policy was played."""
        return name in self.names

    def first_of(self, *names: str) -> str:
        """The first of these policies that was played; the last of them where none was."""
        return next((name for name in names if self.has(name)), names[-1])

    def total(self, what: str, name: str) -> np.ndarray:
        """A count summed over strata, (runs, episodes)."""
        values = self.arrays[what][self.rows(name)]
        return values.sum(axis=-1) if values.ndim == 3 else values

    def by_stratum(self, what: str, name: str) -> np.ndarray:
        """A count by stratum, (runs, episodes, 6)."""
        return self.arrays[what][self.rows(name)]

    def outcome(self, outcome: str, name: str) -> np.ndarray:
        """How often an outcome, an action or a measure came up, (runs, episodes)."""
        place = self.domain.outcome_names.index(outcome)
        return self.arrays["outcomes"][self.rows(name)][..., place]

    def mistakes(self, name: str) -> np.ndarray:
        """Visits that found nothing and reported actionable cases that were not found in time."""
        correct = self.total("correct", name)
        missed = self.total("reported_actionable", name) - correct
        return self.total("visits", name) - correct + missed


def score_part(
    slug: str,
    estimated: Any,
    true: Any,
    trained: Sequence[Trained],
    *,
    n_episodes: int,
    seed: int,
    n_cases: int | None = None,
    rules: Sequence[str] = (),
) -> Scored:
    """Play a domain's rules and these agents, which see the domain's default features.

    ``n_cases`` is how many cases the process was drawn up from where they are few; ``rules`` play,
    all of the domain's where none is named.
    """
    domain = counting_domain(slug)
    harness = Harness(domain, action_set=ACTION_SETS.get(slug, "published"))
    own = [replace(one, harness=harness) for one in trained if not one.harness.observation_set]
    key_settle, key_score = jax.random.split(jax.random.key(seed))
    contenders = rule_contenders(harness, estimated) + agent_contenders(harness, own)
    dual = next(one for one in contenders if one.name == DUAL)
    contenders.append(replace(dual, name=STATIC))
    flow = later_flow(harness, estimated, true)
    n_settling = CHUNK if flow is None else 8 * CHUNK
    keys_settle = jax.random.split(key_settle, n_settling)
    settled = settle_prices(harness, estimated, contenders, keys_settle)
    held = [
        hold_contender(harness, flow, one)
        for one in settled
        if not rules or one.name in rules or one.name not in {*domain.heuristics, STATIC}
    ]
    keys = jax.random.split(key_score, n_episodes)
    equity = harness.equity_params(estimated)
    episodes = evaluate(harness, true, held, keys, equity=equity, with_saved=False)
    found = _scored(domain, held, episodes, n_cases if flow is None else len(flow.stratum))
    for one in trained:
        if one.harness.observation_set:
            found = _add(found, one, estimated, true, flow, keys)
    return found


def play_rules(
    slug: str, params: Any, rules: Sequence[str], *, n_episodes: int, seed: int
) -> Scored:
    """Play some rules of a domain in a process, and nothing else: no agent, no settled price."""
    domain = counting_domain(slug)
    harness = Harness(domain, action_set=ACTION_SETS.get(slug, "published"))
    contenders = [one for one in rule_contenders(harness, params) if one.name in rules]
    keys = jax.random.split(jax.random.key(seed), n_episodes)
    episodes = evaluate(harness, params, contenders, keys, with_saved=False)
    return _scored(domain, contenders, episodes, None)


def _add(
    found: Scored,
    trained: Trained,
    estimated: Any,
    true: Any,
    flow: CaseTable | None,
    keys: jax.Array,
) -> Scored:
    """Agents that see other features play the same episodes in a program of their own.

    They are shown what they were trained to see of the equity term, with the need as estimated.
    """
    harness = replace(
        trained.harness,
        domain=found.domain,
        action_set=ACTION_SETS.get(found.domain.slug, "published"),
    )
    contenders = [
        hold_contender(harness, flow, one)
        for one in agent_contenders(harness, [replace(trained, harness=harness)])
    ]
    equity = harness.equity_params(estimated)
    episodes = evaluate(harness, true, contenders, keys, equity=equity, with_saved=False)
    more = _scored(found.domain, contenders, episodes, None)
    arrays = {
        name: np.concatenate([values, more.arrays[name]]) for name, values in found.arrays.items()
    }
    return replace(found, names=found.names + more.names, arrays=arrays)


def _scored(
    domain: Domain, contenders: Sequence[Contender], episodes: Episodes, n_cases: int | None
) -> Scored:
    tally = episodes.tally
    plain = np.where(np.arange(N_REWARDS) == EQUITY, 0.0, np.asarray(domain.preference))
    arrays = {name: np.asarray(getattr(tally, name), np.float64) for name in COUNTS}
    arrays["outcomes"] = np.asarray(tally.outcomes, np.float64)
    arrays["hours"] = np.asarray(tally.hours, np.float64)
    arrays["speed"] = np.asarray(tally.published_reward, np.float64)[..., 0]
    arrays["reward"] = np.asarray(tally.published_reward, np.float64) @ plain
    n_drawn = arrays["reward"].shape[1] * episodes.n_steps
    factor = 1.0 if n_cases is None else float(np.sqrt(1.0 + n_drawn / n_cases))
    names = tuple(one.name for one in contenders)
    return Scored(domain, names, arrays, episodes.n_steps, factor)


def save_scored(path: Path, scored: Scored, identity: str) -> None:
    """Keep what was played, so that a report that was cut off goes on where it was."""
    about = {
        "domain": scored.domain.slug,
        "names": list(scored.names),
        "n_steps": scored.n_steps,
        "table_factor": scored.table_factor,
        "identity": identity,
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(json.dumps(about)), **_as_float32(scored.arrays))
    with telling_disk_errors(path):
        write_hashed(path, buffer.getvalue())


def _as_float32(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.astype(np.float32) for name, values in arrays.items()}


def load_scored(path: Path, identity: str) -> Scored | None:
    """What was played with the same policies and params; None where there is nothing like it."""
    content = read_hashed(path)
    if content is None:
        return None
    with np.load(io.BytesIO(content)) as kept:
        about = json.loads(str(kept["about"]))
        if about.pop("identity") != identity:
            return None
        arrays = {name: kept[name].astype(np.float64) for name in kept.files if name != "about"}
    domain = counting_domain(about.pop("domain"))
    return Scored(domain, tuple(about["names"]), arrays, about["n_steps"], about["table_factor"])
