"""What a domain is: one value that names its decision, its process and its pure functions.

A domain owns dynamics, the harness (`parity311.mdp.harness`) owns time and the equity term. Every
function of a domain is pure and works on arrays, so that a whole training run compiles into one
program and a frontier is a batch over preferences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parity311.arrays import jax
from parity311.errors import InputError, unknown_name

if TYPE_CHECKING:
    from parity311.city.process import Process

REWARD_NAMES = ("speed", "cost", "equity", "retention")
"""Components of the reward vector, in order; each is oriented so that more is better (the second
is minus the cost) and scaled so that one unit is what one typical correct escalation is worth."""

N_REWARDS = len(REWARD_NAMES)
EQUITY = REWARD_NAMES.index("equity")

STRATUM_NAMES = (
    "quintile_1",
    "quintile_2",
    "quintile_3",
    "quintile_4",
    "quintile_5",
    "unknown",
)
"""Income quintiles of tracts, lowest first; tracts without a published income come last."""

N_STRATA = len(STRATUM_NAMES)
N_KNOWN_STRATA = N_STRATA - 1
"""The unknown group is carried and reported, but takes no part in a gap."""

NOBODY = -1
"""Stratum where no single complaint is in hand: a step decides about the whole office."""

TODAYS_RULE = "balanced"
"""Name among a domain's heuristics of what the agency does now."""

COVERAGE_FEATURE = "coverage_price"
"""Last entry of every observation; zero where the preference gives equity no weight."""

Policy = Callable[["jax.Array", "jax.Array"], "jax.Array"]
"""decide(key, observation (n_features,)) -> action (). Rules and agents alike; policies that are
compared in one program are `jax.tree_util.Partial`, so that their numbers are data."""


@dataclass(frozen=True)
class Action:
    """One thing that can be done with a complaint."""

    name: str
    escalates: bool
    """Whether it sends somebody: only escalations count towards coverage."""
    cost_hours: float
    """Inspector hours it takes."""
    family: str = ""
    """Kind of action that the upper level of a hierarchical agent chooses among; where none is
    named, whether anybody is sent."""


BASELINES = (
    "balanced", "tail", "emerg", "actionable", "uniform", "no_dispatch", "random", "always",
    "never", "expert",
)  # fmt: skip
"""The paper's baselines (its 5.3): every domain of the paper says what each is there."""


class Baseline(NamedTuple):
    """What one of the paper's baselines is in a domain."""

    rule: str
    """name among the domain's heuristics that plays it; empty where it has no meaning"""
    words: str
    """what it does there, or why it has no meaning"""


@dataclass(frozen=True)
class Protocol:
    """How the paper trained and tested a domain, to be set beside ours."""

    split: str
    """Which dates or rows train and which test"""
    episode: str
    """What one episode is"""
    n_seeds: int = 5
    claims: str = ""
    """Figures and statements of the paper on this domain, in its own units"""


class Tally(NamedTuple):
    """What happened in one step, to be added up over an episode; never read by a policy.

    Arrays over strata have shape (6,), in the order of `STRATUM_NAMES`.
    """

    published_reward: jax.Array
    """(4,) the reward as stated to the public: backlog included, shadow prices left out."""
    correct: jax.Array
    """First visits that found an incident actionable within its service level, by stratum."""
    counted: jax.Array
    """What the agency counts as correct escalations, by stratum, and prices follow: outcomes, or
    where they are few the chances that calibrated scores gave them."""
    actionable: jax.Array
    """Actionable incidents that began, reported or not, by stratum: what coverage divides by."""
    incidents: jax.Array
    """All incidents that began, by stratum."""
    reported_actionable: jax.Array
    """Actionable incidents whose first report arrived, by stratum: what recall divides by."""
    complaints: jax.Array
    """Reports that arrived, by stratum."""
    visits: jax.Array
    """Visits made, by stratum."""
    hours: jax.Array
    """() inspector hours of those visits."""
    outcomes: jax.Array
    """(n_outcomes,) complaints closed, by the domain's `outcome_names`."""
    measures: Any = np.zeros(0, np.float32)
    """(n_measures,) what else the paper reports of the state a step leads to, by the domain's
    `measure_names`: summed like all else, so the mean over an episode is the sum over its steps."""


class Transition(NamedTuple):
    """What a domain returns for one action."""

    state: Any
    reward: jax.Array
    """(4,) what the action saved; the equity entry is zero, the harness fills it in."""
    terminated: jax.Array
    """() bool: the process itself ended. Running out of time is the harness's business."""
    credit: jax.Array
    """(6,) correct escalations this action brought about, at its own time even where the outcome
    comes later: what the coverage price pays for during training."""
    tally: Tally


@dataclass(frozen=True)
class Dynamics:
    """The pure functions of a decision process; absent while a domain only declares its process."""

    params_type: type
    initial_state: Callable[..., Any]
    """(key, params) -> state"""
    transition: Callable[..., Transition]
    """(key, params, state, action, prices (6,)) -> Transition; `prices` for priced dispatch."""
    observe: Callable[..., jax.Array]
    """(params, state) -> observation over all of the domain's `observation_names`"""
    current_stratum: Callable[..., jax.Array]
    """(params, state) -> () int32: stratum of the complaint in hand, or `NOBODY`"""
    need_per_step: Callable[..., jax.Array]
    """(params) -> (6,) actionable incidents per step: the equity term's denominators"""
    steps_per_day: Callable[..., jax.Array | np.float32]
    """(params) -> () how many steps make a day"""
    example: Callable[[], Any]
    """() -> small hand-made params: for tests, benchmarks and documentation"""
    estimate: Callable[..., Any]
    """(records, calibration, date_to, ...) -> params from what the agency can see"""
    truth: Callable[..., Any]
    """(city folder, date_from, ...) -> params of what really happened"""
    unknowns: Callable[..., Any] | None = None
    """(records, date_from, date_to) -> (seed) -> options of `estimate`: a joint draw of what these
    records leave open; None: drawing records anew is all there is to it"""
    incidents_per_step: Callable[..., jax.Array] | None = None
    """(params) -> (6,) all incidents per step, reported or not, actionable or not: the paper's
    denominators; None where nobody asked yet"""
    n_waiting: Callable[..., jax.Array] | None = None
    """(state) -> () complaints taken in and not yet closed: what conservation is checked with"""
    capacity_per_step: Callable[..., jax.Array] | None = None
    """(params) -> () most visits one step can make, saved-up time included; None = no limit"""
    scale_capacity: Callable[..., Any] | None = None
    """(params, factor) -> params with so many times the visits; None where nobody asked yet"""
    carry_on: Callable[..., Any] | None = None
    """(params, state at an episode's end) -> state in which the next begins where the line goes on;
    None where a fresh start is the usual one. What holds in the long run is measured this way"""
    solve: Callable[..., Any] | None = None
    """(params, harness, preference (4,), keep_values=False) -> the optimal policy, where it can be
    computed exactly; with `keep_values` it knows what the other actions would be worth"""
    cases: Callable[..., Any] | None = None
    """(params) -> `engines.heuristics.CaseTable` where steps are independent of each other"""
    candidates: Callable[..., Any] | None = None
    """(params, harness) -> policies among which a search looks for the best known, elsewhere"""


@dataclass(frozen=True)
class Sight:
    """How cases on record become what the domain's policies see; NumPy alone, nothing compiled.

    A view is the domain's state as far as a policy sees it. In a domain that decides about one
    case at a time it has a leading axis, one entry a case; in one that decides about the whole
    office it has none.
    """

    see: Callable[..., Any]
    """(params, journal, cases, ahead (n,)) -> view of these `records.journal.Cases`, each with so
    many cases ordered before it; or of the office with these cases in its line"""
    show: Callable[..., Any]
    """(params, view) -> features in the order of `observation_names`, (n, n_names) or (n_names,):
    what `Dynamics.observe` shows of the same state"""
    rank: Callable[..., Any] | None = None
    """(params, view, action, prices (6,), journal, cases) -> (n,) in which order the office works
    these cases under an action, the highest first, -inf: not at all; None where an action is about
    one case"""
    day_shares: tuple[float, ...] = ()
    """Shares of a working day's visits that follow one decision each, where an action is about the
    whole office: it decides so often a day"""
    concerns: Callable[..., Any] | None = None
    """(cases) -> (n,) bool: whether an open case is one the domain decides about; None: all are"""
    lasts: Callable[..., Any] | None = None
    """(params, journal, cases) -> (n,) chance that what was reported still lasts: by it a visit is
    worth less than to a complaint just in; None: a view already tells"""
    room: Callable[..., float] | None = None
    """(params, journal) -> cases that may be ahead of one as in training; None: features tell"""
    keep: Callable[..., Any] | None = None
    """(params) -> the same without what only training needs; None: all of them are served with"""
    known_later: tuple[str, ...] = ()
    """Features of its sets that are known only after the decision: a policy that sees one is not
    served"""
    unserved: tuple[str, ...] = ()
    """Actions no case on record can be given: where a policy takes one, today's rule decides"""
    comes_back: Callable[[int], float] | None = None
    """(action) -> days after which somebody comes back, infinite: nobody does; None where an action
    is about who is visited at all"""
    effort: Callable[[int], float] | None = None
    """(action) -> visits it makes, against the usual number; None: as many under every action"""
    is_repeated: bool = False
    """Whether a case is decided about hour by hour, so that no one moment stands for it"""
    shows_in_visits: bool = False
    """Whether what was decided shows in whom the office visited of those who waited: a backtest
    then reads its visits"""


@dataclass(frozen=True, eq=False)
class Domain:
    """A decision process of the paper, or only its incident process where that is all there is.

    Two domains are equal only if they are the same object, so that a domain can be a static
    argument of a compiled function.

    Examples
    --------
    >>> [action.name for action in boiler.actions], boiler.preference
    (['defer', 'inspect'], (0.5, 0.5, 0.0, 0.0))
    >>> params = boiler.play.example()  # a small process made by hand, for a first try
    """

    slug: str
    title: str
    version: int
    """Rises whenever results change."""
    decision: str
    who_waits: str
    not_for: str
    source: str
    process: Process
    actions: tuple[Action, ...] = ()
    """The paper's actions."""
    extended_actions: tuple[Action, ...] = ()
    """Actions beyond the paper's, numbered after them: the action set 'extended' has both."""
    observation_names: tuple[str, ...] = ()
    """Every feature the domain can observe; the observation sets choose among them."""
    observation_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Named choices of features; 'published' is the paper's."""
    default_observation_set: str = "published"
    """The set a policy may honestly use, where the published one leaks."""
    geographic_features: tuple[str, ...] = ()
    """Observations that encode where a complaint comes from, hence equity-sensitive."""
    outcome_names: tuple[str, ...] = ()
    measure_names: tuple[str, ...] = ()
    """Figures of its own that the paper reports beside the reward, as means over the steps."""
    max_steps: int = 0
    protocol: Protocol | None = None
    ceiling: str = ""
    """How the best reachable is found: starts with 'exact' or 'best known'."""
    agents: tuple[str, ...] = ()
    """Agents the paper names for this domain."""
    agent_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Hyper-parameters in which this domain departs from an agent's defaults."""
    preference: tuple[float, float, float, float] = (0.5, 0.5, 0.0, 0.0)
    """Weights of the reward without equity that stand for what the agency wants today."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """Why our default is not what the paper gives: 'features', 'discount' or 'step size' -> reason;
    empty in a domain the paper does not have."""
    price_step: float = 0.01
    """η of the coverage prices, per step (facts on what learns parity: 0.01 to 0.03)."""
    explainer: str = ""
    """Explainer the paper names for this domain (its section on SHAP-based auditing), if any."""
    heuristics: Mapping[str, Callable[..., Policy]] = field(default_factory=dict)
    """Name -> maker(params, harness) -> policy: rules of thumb, built from estimated params."""
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    """What each of the paper's `BASELINES` is here; empty in a domain the paper does not have."""
    dynamics: Dynamics | None = None
    sight: Sight | None = None
    """How cases on record are seen; None: its policies cannot be served yet."""

    @property
    def is_playable(self) -> bool:
        """Whether the domain has its decision process, not only its incident process."""
        return self.dynamics is not None

    @property
    def play(self) -> Dynamics:
        """The decision process; an error where the domain only declares its incidents."""
        if self.dynamics is None:
            raise InputError(
                f"Domain {self.slug!r} has no decision process yet, only its incident process; "
                "choose one that `parity311 domains` marks as playable."
            )
        return self.dynamics

    def estimate(self, records: Any, calibration: Any, date_to: Any, **options: Any) -> Any:
        """Params from what the agency could see before `date_to`."""
        return self.play.estimate(records, calibration, date_to, **options)

    def truth(self, city: Any, date_from: Any, **options: Any) -> Any:
        """Params of what really happened from `date_from` on; only for a synthetic city."""
        return self.play.truth(city, date_from, **options)

    def actions_of(self, action_set: str) -> tuple[Action, ...]:
        """Actions of the set 'published' or 'extended'."""
        sets = {"published": self.actions, "extended": self.actions + self.extended_actions}
        if action_set not in sets:
            raise unknown_name("action set", action_set, sets)
        return sets[action_set]

    def observation_indices(self, observation_set: str) -> tuple[int, ...]:
        """Positions of a named set's features among `observation_names`."""
        if observation_set not in self.observation_sets:
            raise unknown_name("observation set", observation_set, self.observation_sets)
        names = self.observation_sets[observation_set]
        return tuple(self.observation_names.index(name) for name in names)
