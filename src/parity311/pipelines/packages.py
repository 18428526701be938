"""Policies kept as packages: rules and plans made from records, and what a run learned."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.domains import get_domain
from parity311.errors import InputError, RunError, TrainingError, unknown_name
from parity311.estimation.world import ESTIMATOR, World, open_world
from parity311.evaluation.frontier import settle_prices
from parity311.evaluation.rollout import Contender
from parity311.mdp.contract import EQUITY
from parity311.mdp.harness import Harness
from parity311.pipelines.progress import Report as Progress
from parity311.report.store import RunWriter
from parity311.serving.policy import load_policy
from parity311.serving.writing import write_recommendations
from parity311.storage.folders import holds_own
from parity311.training import with_equity
from parity311.training.loop import Trained
from parity311.training.saving import (
    PACKAGE_FILES,
    PLAN,
    Origin,
    origin_of,
    rule_maker,
    save_policy,
    save_rule,
)

POLICIES, RECOMMENDATIONS = "policies", "recommendations.csv"
"""Where a run keeps its packages, and what they recommend for the last day."""
N_ROUTED = 10
"""Recommendations that a run prints."""


def make_package(
    slug: str,
    rule: str,
    *,
    records: Path,
    out: Path,
    until: date | None = None,
    estimator: str = ESTIMATOR,
    equity: float = 0.0,
    n_draws: int = 20,
    observation_set: str = "",
    action_set: str = "published",
    progress: Progress,
) -> Path:
    """Estimate a domain's process, make a rule or a plan in it, and save it as a package."""
    domain = get_domain(slug)
    names = [*domain.heuristics, *([PLAN] if domain.play.solve else [])]
    if rule not in names:
        raise unknown_name(f"rule of {slug}", rule, names)
    if domain.sight is None:
        raise InputError(f"Domain {slug!r} cannot be served yet: it declares no `sight`.")
    harness = Harness(domain, observation_set=observation_set, action_set=action_set)
    holds_own(out, PACKAGE_FILES, "a policy", TrainingError)
    world = open_world(domain, records, until, estimator)
    params = world.estimated
    drawn = []
    for number in range(n_draws):
        progress("draws of the estimate", number, n_draws)
        drawn += world.draws(1, seed=number)
    progress("draws of the estimate", max(n_draws, 1), max(n_draws, 1))
    return pack_rule(out, harness, rule, params, equity, draws=drawn, origin=origin_of(world))


def pack_rule(
    out: Path,
    harness: Harness,
    rule: str,
    params: Any,
    equity: float,
    *,
    draws: Sequence[Any] = (),
    origin: Origin | None = None,
) -> Path:
    """Save a rule or a plan; with a weight on equity its prices rest where its process lets them.

    They are found by the online rule in the estimated process.
    """
    domain = harness.domain
    preference, prices = domain.preference, None
    if equity > 0:
        preference = with_equity(domain.preference, equity)
        policy = rule_maker(harness, rule, np.asarray(preference))(params, harness)
        priced = Contender(rule, policy, is_priced=True)
        shown = harness.equity_params(params)
        settled = settle_prices(harness, params, [priced], shown, jax.random.key(0))
        prices = np.asarray(settled[0].prices, np.float64)
    return save_rule(
        out, harness, rule, params,
        preference=preference, prices=prices, draws=draws, origin=origin,
    )  # fmt: skip


def keep_packages(run: RunWriter, trained: Trained, world: World) -> dict[float, Path]:
    """Keep the policies as packages, by their weight on equity; of each the first seed's agent."""
    words = f"{world.domain.slug} {world.scenario.words}"
    where = run.path / POLICIES / words.replace(",", "").replace(" ", "-")
    kept = {}
    for index in np.flatnonzero(trained.seeds == trained.seeds[0]).tolist():
        weight = float(trained.preferences[index, EQUITY])
        name = f"{trained.agent.name}_equity_{weight:.2f}" if weight else trained.agent.name
        kept[weight] = save_policy(
            where / name, trained, index, params=world.estimated, origin=origin_of(world, run.id)
        )
    return kept


def route_last_day(
    run: RunWriter, packages: Sequence[tuple[World, dict[float, Path]]]
) -> dict[str, Any]:
    """Route the open cases of one domain's last day.

    It is the last domain that has any, in the first scenario, under the agent that is paid for
    coverage.
    """
    found: dict[str, Any] = {}
    first = packages[0][0].scenario
    for world, kept in packages:
        for weight, folder in kept.items():
            if weight > 0 and world.scenario == first:
                # Nothing is open, or the policy sees what serving does not know.
                with suppress(InputError, RunError):
                    routed = load_policy(folder).recommend(world.records)
                    write_recommendations(run.path / RECOMMENDATIONS, routed)
                    found = {
                        "file": str(run.final_path / RECOMMENDATIONS),
                        "policy": str(run.final_path / folder.relative_to(run.path)),
                        "records": str(world.records.folder),
                        "summary": routed.summary(),
                        "first": routed.rows(N_ROUTED),
                    }
    return found
