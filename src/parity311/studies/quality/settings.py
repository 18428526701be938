"""What the quality of learned policies is measured on: settings, their bars, and recipes.

A setting is a domain with what the policy sees and may do, and a recipe is one way to learn it. The
recipe `dqn` has the paper's hyper-parameters with the domain's settings; `dqn_steady` departs from
them (see `STEADY`) and stands beside it under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SHARE_BAR = 0.90
"""Share of the way from today's rule to the ceiling that the best agent has to reach."""
MARGIN = 0.01
"""How far below the best rule an agent may be and still count as level with it, as a share of the
head-room, from today's rule to the ceiling or the best known: a share of the reward itself would
grow with a constant that is in all rewards."""
GAIN_BAR = 0.03
"""Gain on today's rule, as a share of its reward, over the elevator's extended actions."""

OLDER = "older"
"""Regime in which records go back to 2017, as far as the paper's do."""

PROVEN = ("boiler", "complaint_triage", "crane", "drainage", "snad")
"""Domains whose ceiling is computed, with what the policy sees in these settings; elsewhere the end
of the way is the best known."""

N_SELECTING = 32
"""Episodes under the truth on which a ceiling is searched for, and then chosen."""
N_SNAPSHOTS = 5
"""Policies of one training among which the choice is made."""


SWAPS = {
    "what visits find": ("kinds",),
    "how long incidents last": ("lifetime_days",),
    "when visits can be made": ("lead_days", "access", "visits_per_step", "crew_per_step"),
    "what comes in": ("cells", "days_per_step"),
    "what comes back": ("comes_back", "goes_on"),
}
"""Groups of a stream's params that are replaced by the true ones, to see what the estimate loses by
each (fields of `StreamParams`)."""

WRITTEN_SHARES = {
    "if inspectors are taken to let nothing pass": 1.0,
    "if they are taken to let half pass": 0.5,
}
"""Shares written up that could as well be: what a visit ends stays the same, what goes on does
not."""


@dataclass(frozen=True)
class Recipe:
    """One way to learn: an agent with its settings and its budget."""

    name: str
    agent: str
    steps: int
    """steps per environment"""
    n_environments: int = 8
    settings: Mapping[str, Any] = field(default_factory=dict)
    """what departs from the domain's settings of the agent"""
    is_published: bool = False
    """whether the hyper-parameters are the paper's (with the domain's where it names them)"""


@dataclass(frozen=True)
class QualitySetting:
    """A domain with what a policy sees and may do, and the bar it is held against."""

    name: str
    domain: str
    bar: str
    """a name of `BARS`"""
    recipes: tuple[Recipe, ...]
    observation_set: str = ""
    action_set: str = "published"
    variant: str = ""
    """a name of `VARIANTS`: what is changed about the process, estimated and true alike"""
    regime: str = ""
    """empty: the last year of a city, learned from the two before; `2020`: the shifted year, from
    those before; `older`: the last year, from the eight before"""
    swaps_params: bool = False
    """whether it is measured what the estimate loses by each of `SWAPS`"""
    left_out: tuple[str, ...] = ()
    """rules that are not held to the capacity of the others"""
    n_cities: int = 0
    """how many of the prepared cities it is measured in; 0: all of them"""
    n_scored: int = 128
    """episodes every policy is scored on, under the truth; the same for all"""
    n_validating: int = 64
    """episodes of the estimated process on which snapshots, and then agents, are chosen"""
    is_binding: bool = True
    """False where a figure is shown beside one that is held against the bar"""

    @property
    def searches_in_truth(self) -> bool:
        """Whether agents that learn in the true process compete for the best known.

        They do wherever no ceiling is proven and a figure is held against a bar.
        """
        return self.domain not in PROVEN and self.is_binding and not self.variant


@dataclass(frozen=True)
class Bar:
    """What a setting has to reach."""

    says: str
    judge: Callable[[Mapping[str, Any]], str]
    """(the setting's report) -> met, missed or no head-room"""


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def _judge_share(found: Mapping[str, Any]) -> str:
    if found["share_of_way"] is None:
        return "no head-room"
    return _met(found["share_of_way"]["lower"] >= SHARE_BAR)


def _judge_learnable(found: Mapping[str, Any]) -> str:
    if found["share_of_learnable"] is None:
        return "no head-room"
    return _met(found["share_of_learnable"]["lower"] >= SHARE_BAR)


def _judge_best_rule(found: Mapping[str, Any]) -> str:
    margin = MARGIN * max(found["head_room"]["value"], 0.0)
    return _met(found["difference_to_best_rule"]["lower"] >= -margin)


BARS: dict[str, Bar] = {
    "share": Bar(
        f"at least {SHARE_BAR:.0%} of the way from today's rule to the ceiling, lower bound",
        _judge_share,
    ),
    "learnable": Bar(
        f"at least {SHARE_BAR:.0%} of the way from today's rule to what is learnable, lower bound",
        _judge_learnable,
    ),
    "gain": Bar(
        "better than BALANCED, interval above zero",
        lambda found: _met(found["gain_on_today"]["lower"] > 0.0),
    ),
    "gain_extended": Bar(
        f"better than BALANCED by at least {GAIN_BAR:.0%}, lower bound",
        lambda found: _met(found["gain_on_today"]["lower"] >= GAIN_BAR),
    ),
    "not_worse_than_today": Bar(
        "reward less today's rule's: lower bound at least 0",
        lambda found: _met(found["difference_to_today"]["lower"] >= 0.0),
    ),
    "best_rule": Bar(
        f"at most {MARGIN:.0%} of the head-room below the best rule of thumb, lower bound",
        _judge_best_rule,
    ),
    "equals_random": Bar(
        "no different from random: the interval of the difference holds zero",
        lambda found: _met(
            found["difference_to_random"]["lower"] <= 0.0 <= found["difference_to_random"]["upper"]
        ),
    ),
    "beats_random": Bar(
        "better than random, interval above zero",
        lambda found: _met(found["difference_to_random"]["lower"] > 0.0),
    ),
}
"""Bars by name."""


def _same(params: Any) -> Any:
    return params


def _lose_on_the_way(share: float) -> Callable[[Any], Any]:
    """Elevator params in which a crew that changes its board loses this share of its visits."""

    def change(params: Any) -> Any:
        from parity311.domains.elevator import CREW_STEPS_A_WEEK, make_params

        visits_a_week = float(params.visits[0]) * CREW_STEPS_A_WEEK
        return make_params(params.backlog, visits_a_week, share)

    return change


def _heat_example(params: Any) -> Any:
    """The heat domain's example, whatever city was given: kinds differ in what they lead to."""
    from parity311.domains import heat

    del params
    return heat.example()


def _heat_alike(params: Any) -> Any:
    """The example with one kind of complaint: every visit finds something with the same chance."""
    import jax.numpy as jnp

    example = _heat_example(params)
    chance = (example.kind_shares[0] * example.actionable).sum()
    usual = int(example.kind_shares[0].argmax())
    shares = jnp.zeros_like(example.kind_shares).at[:, usual].set(1.0)
    return example._replace(
        kind_shares=shares, actionable=jnp.full_like(example.actionable, chance)
    )


VARIANTS: dict[str, Callable[[Any], Any]] = {
    "": _same,
    "heat_example": _heat_example,
    "heat_alike": _heat_alike,
    "changeover_0": _lose_on_the_way(0.0),
    "changeover_1_3": _lose_on_the_way(1.0 / 3.0),
}
"""What is changed about a process, estimated and true alike."""


STEADY: dict[str, Any] = {
    "batch_size": 256,
    "is_double": True,
    "averaging": 0.005,
    "target_every": 250,
    "hidden": (128, 128),
}
"""What `dqn_steady` changes about the paper's DQN: four times the batch, double Q-learning, a copy
of the target twice as often, and decisions by an average of the last few hundred networks."""


def _dqn(steps: int, **settings: Any) -> Recipe:
    return Recipe("dqn", "dqn", steps, settings=settings, is_published=True)


def _steady(steps: int, n_environments: int = 32, **settings: Any) -> Recipe:
    return Recipe("dqn_steady", "dqn", steps, n_environments, {**STEADY, **settings})


def _reinforce(steps: int, n_environments: int = 16, **settings: Any) -> Recipe:
    return Recipe("reinforce", "reinforce", steps, n_environments, settings)


HDQN = Recipe("hdqn", "hdqn", 6_000, is_published=True)
PLAN = Recipe("plan", "plan", 1)

_PLANNED = (_dqn(8_000), PLAN)
_SMALL = _steady(5_000, hidden=(16,), averaging=0.001)
_SLOW = _steady(40_000, 16, averaging=0.001, target_every=500, learning_rate=3e-4)
_YEAR: dict[str, Any] = {"n_scored": 64, "n_validating": 16}
"""Where an episode is a year of four decisions a day."""


def _elevators() -> Iterator[QualitySetting]:
    """Both action sets; what is lost on the way is one sixth, with none and a third beside it."""
    changes = {"": "", "_0": "changeover_0", "_1_3": "changeover_1_3"}
    for stem, action_set, recipes in (
        ("", "published", (_dqn(14_000), _steady(15_000, 16))),
        ("_extended", "extended", (_dqn(14_000), _reinforce(33_600, learning_rate=1e-3))),
    ):
        for end, variant in changes.items():
            yield QualitySetting(
                f"elevator{stem}{end}",
                "elevator",
                f"gain{stem}",
                recipes[1:] if variant else recipes,
                action_set=action_set,
                variant=variant,
                is_binding=not variant,
                n_cities=2 if variant else 0,
            )


SETTINGS: dict[str, QualitySetting] = {
    one.name: one
    for one in (
        QualitySetting(
            "snad",
            "snad",
            "share",
            (_dqn(8_000), _steady(20_000, discount=0.98), PLAN),
            swaps_params=True,
        ),
        # Few filings were looked into: a small network overfits their outcomes less.
        QualitySetting(
            "boiler", "boiler", "learnable", (_dqn(8_000), _SMALL, PLAN), left_out=("always",)
        ),
        QualitySetting(
            "electrical_revisit",
            "electrical_revisit",
            "share",
            (_dqn(8_000), _steady(20_000), _reinforce(60_000, learning_rate=1e-3)),
        ),
        QualitySetting("drainage", "drainage", "share", _PLANNED, swaps_params=True),
        QualitySetting("crane", "crane", "share", _PLANNED, swaps_params=True),
        # What older records would change, where lifetimes are estimated too noisily from two years.
        QualitySetting(
            "drainage_older", "drainage", "share", (PLAN,), regime=OLDER, is_binding=False
        ),
        QualitySetting("crane_older", "crane", "share", (PLAN,), regime=OLDER, is_binding=False),
        QualitySetting("ert", "ert", "share", (_dqn(8_000), _steady(15_000))),
        *_elevators(),
        QualitySetting(
            "complaint_triage_2020",
            "complaint_triage",
            "not_worse_than_today",
            _PLANNED,
            regime="2020",
        ),
        QualitySetting("heat", "heat", "best_rule", (_dqn(8_000), _steady(12_000, 16)), **_YEAR),
        QualitySetting(
            "heat_alike",
            "heat",
            "equals_random",
            (HDQN,),
            variant="heat_alike",
            n_cities=2,
            **_YEAR,
        ),
        QualitySetting(
            "heat_different",
            "heat",
            "beats_random",
            (HDQN,),
            variant="heat_example",
            n_cities=2,
            **_YEAR,
        ),
        QualitySetting("housing", "housing", "best_rule", (_dqn(8_000), _steady(10_000, 16))),
        QualitySetting("scaffold", "scaffold", "best_rule", (_dqn(8_000), _steady(20_000))),
        QualitySetting("drone", "drone", "best_rule", (_dqn(8_000), _SLOW)),
    )
}
"""Settings by name."""
