"""The two programmes in which the paper's claims are tested: its own, and ours.

The paper's: published features and actions, the settings of its Tables 3 and 4, its equity term at
every step with its own N̂, the reward as it is paid (with all that no action changes), its
baselines. Ours: what makes agents learn. Where the paper leaves a choice open, the paper's
programme makes it as `CHOICES` says.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from parity311.arrays import jax
from parity311.domains import get_domain
from parity311.errors import unknown_name
from parity311.mdp.contract import Domain, Transition
from parity311.mdp.equity import PUBLISHED_TERM, USUAL_TERM, EquityTerm
from parity311.studies.reproduction import published as paper

NO_LIMIT = 1e9
"""A gradient's norm that is never reached."""


@dataclass(frozen=True)
class Programme:
    """How everything is trained and judged; what a single job adds is in the job."""

    name: str
    term: EquityTerm
    observation_set: str = ""
    """features by name; each domain's default where empty"""
    estimator: str = ""
    """how complaints become incidents in what is learned from; the usual way where empty"""
    out_of: str = "actionable"
    """what correct escalations are divided by where a gap is judged"""

    @property
    def is_published(self) -> bool:
        """Whether it is the paper's."""
        return self.name == "paper"

    def rules_of(self, slug: str) -> tuple[str, ...]:
        """Rules that play beside a domain's agents: the paper's baselines; all of them if empty."""
        return baseline_rules(get_domain(slug)) if self.is_published else ()


def baseline_rules(domain: Domain) -> tuple[str, ...]:
    """The rules that play the paper's baselines (5.3) in a domain, each once."""
    return tuple(dict.fromkeys(one.rule for one in domain.baselines.values() if one.rule))


PROGRAMMES = {
    "ours": Programme("ours", USUAL_TERM),
    "paper": Programme(
        "paper", PUBLISHED_TERM, observation_set="published", estimator="as_published",
        out_of="incidents",
    ),
}  # fmt: skip
"""By name; ours is the default."""
OURS, PAPER = PROGRAMMES.values()


CHOICES = (
    ("how long DQN trains", "20,000 steps (small), 50,000 (nyc); one environment, an update a step",
     "Table 3 gives ε over 10,000 steps and no length",
     "fewer never reach the final ε; more was tried in the domains kept at New York's size alone"),
    ("how long REINFORCE trains", "600 episodes, 120 where a step is an office (small), 2,000 and "
     "600 (nyc); 20 in heat, as published", "5.4 gives heat's 20 episodes and no other",
     "longer was tried in the domains kept at New York's size alone: as published it still visits "
     "every boiler of the small city, so its row of the table may come closer, and what does not "
     "hold of it in boiler may turn"),
    ("REINFORCE beyond elevator and heat", "elevator's column of Table 4, the domain's horizon or "
     "168 steps an episode", "Table 4 has two domains",
     "heat's column has wider layers and a third of the step size: slower"),
    ("REINFORCE's discount", "0.99", "5.1 says 0.95 or 0.99 by domain, Table 4 has 0.99 twice",
     "0.95 looks 20 steps ahead instead of 100"),
    ("units of DQN's layers", "2×128", "Table 3; 5.1 says 64 or 128", "ours has 64 in ten domains"),
    ("exploration of TD", "ε over 10,000 steps, 16,384 rows, features rounded to tenths",
     "5.1 gives the two ends of ε alone", "coarser rounding shares more of what was learned"),
    ("the weight of equity", "α₃ = 0.5", "the paper says α₃ > 0",
     "0.1 to 0.9 were tried in boiler and heat (below): as published no verdict on parity changes, "
     "since today's gap is within τ there; with 0.1 too REINFORCE finds less in boiler"),
    ("the scale of the four terms", "1 is a typical correct escalation, in each",
     "4.4 gives weights that add up to one and no units",
     "another scale of equity is another α₃; not tried beside those weights"),
    ("how much selection is moderate", "a hidden reason of Γ = 1.5", "7.1 names no amount",
     "with less than the Γ that is found for heat, ours, its advantage would be robust"),
    ("a timestep in heat", "one of a day's four complaints: 365 days are 1,460 decisions",
     '3.3 says "up to four complaints per day", 6.1 "365 timesteps"',
     "one decision a day would leave three complaints undecided"),
    ("speed, cost and retention", "days of waiting, inspector hours, dwelling-days kept habitable",
     "4.4 points to a section that is not in the paper",
     "rewards can be compared in order, not in level"),
    ("the categories of hierarchical DQN", "the trade that is called (housing), whether anybody is "
     "sent (heat)", '5.1 says "selects complaint category and then a specific complaint", and an '
     "action of these domains is about no single complaint",
     "a category for each action is DQN with a second network"),
    ("SNAD's ecological index", "carried by the neighbourhood",
     "Appendix B lists it; 3.3 counts 128 states, 4 neighbourhoods × 4 levels × 2 × 4 seasons, "
     "which leave no room for an index that is not one number a neighbourhood",
     "an index by lot would need a map that is not in the paper"),
    ("which 87 complaints of SNAD", "those from 2024 on, or the last 87 where fewer came",
     "3.3 says 87 filed in 2024-2026, which one city in two has",
     "with fewer than 87 later ones nothing could be said of SNAD"),
    ("scaffold's validation year", "2024 is left out of training and nothing is chosen by it",
     "3.3 names it, and nothing in the paper is said to be chosen on it",
     "training on 2024 too adds a quarter more records"),
    ("ρ̂ behind N̂ at a step", "that of all the years learned from, by stratum, on the complaints "
     "of the four weeks that end with the step", "the simulated office hears complaints by "
     "stratum, not which of them repeat another in a tract-week",
     "ρ̂ of the same four weeks moves N̂ by less than a tenth in nine weeks of ten (heat, housing "
     "and elevator of a small city)"),
    ("what a policy sees of equity", "how far its stratum is behind, only where α₃ > 0",
     "the paper lists no such feature", "without it strata cannot be told apart but by accident"),
)  # fmt: skip
"""What the paper leaves open: of what, what was chosen, why, and what another choice does."""
CHOICE_TITLES = ("open in the paper", "chosen", "why", "another choice")


def get_programme(name: str) -> Programme:
    """Look up a programme, or say which there are."""
    if name not in PROGRAMMES:
        raise unknown_name("programme", name, PROGRAMMES)
    return PROGRAMMES[name]


def published_settings(agent: str, domain: str) -> dict[str, Any]:
    """What the paper gives for an agent in a domain; what it does not give is left out."""
    if agent == "reinforce":
        return dict(paper.REINFORCE_SETTINGS.get(domain, {"entropy": 0}))
    if agent == "td":
        return dict(paper.TD_SETTINGS)
    given = dict(paper.DQN_SETTINGS)
    if agent == "cql":
        given["conservatism"] = paper.CQL_PENALTY
    if agent == "hdqn":
        given["hidden"] = paper.HDQN_HIDDEN
    return given


def paper_settings(agent: str, domain: str) -> dict[str, Any]:
    """Every hyper-parameter of an agent in the paper's programme, as a plan keeps them.

    Where the paper gives none, `CHOICES` does; what it does not name (limits on gradients, scaled
    advantages) is switched off.
    """
    found = published_settings(agent, domain)
    if agent == "reinforce":
        found = {**paper.REINFORCE_SETTINGS["elevator"], **found, "scales_advantages": False}
    if agent == "td":
        found |= {"epsilon_steps": paper.DQN_SETTINGS["epsilon_steps"], "n_rows": 16_384}
    else:
        found |= {"max_gradient_norm": NO_LIMIT}
    return {key: list(x) if isinstance(x, tuple) else x for key, x in found.items()}


@cache
def paid_as_published(slug: str) -> Domain:
    """A domain that pays the whole reward, with what no action can change."""
    domain = get_domain(slug)
    play = domain.play

    def transition(
        key: jax.Array, params: Any, state: Any, action: jax.Array, prices: jax.Array
    ) -> Transition:
        moved = play.transition(key, params, state, action, prices)
        return moved._replace(reward=moved.tally.published_reward)

    return replace(domain, dynamics=replace(play, transition=transition))


PAPER_AGENT = "dqn"
"""Agent whose settings are compared: every domain has it, and the others inherit from it."""


@dataclass(frozen=True)
class Difference:
    """One thing in which our default departs from the paper in a domain, and why."""

    what: str
    published: str
    ours: str
    why: str


def differences(domain: Domain) -> tuple[Difference, ...]:
    """What differs between the paper's programme and ours in a domain; none if not the paper's."""
    if not domain.baselines:
        return ()
    published = set(domain.observation_sets["published"])
    ours = set(domain.observation_sets[domain.default_observation_set])
    settings = domain.agent_settings.get(PAPER_AGENT, {})
    given, rate = paper.DQN_SETTINGS, paper.DQN_SETTINGS["learning_rate"]
    found = [
        ("features", _features(published, published - ours, "left out"),
         _features(ours, ours - published, "added")),
        ("discount", f"{given['discount']}", f"{settings.get('discount', given['discount'])}"),
        ("layers", _layers(given["hidden"]), _layers(settings.get("hidden", given["hidden"]))),
        ("step size", f"{rate:g}, constant", f"{settings.get('learning_rate', rate):g}, falling"),
        ("equity", "a term at every step", "a coverage price"),
    ]  # fmt: skip
    return tuple(
        Difference(what, theirs, own, domain.differs.get(what, SHARED_REASONS.get(what, "")))
        for what, theirs, own in found
        if theirs != own
    )


SHARED_REASONS = {
    "layers": "half the work; wider ones were not tried in every domain",
    "step size": "a step that falls ends where it stands still; one that does not keeps wandering",
    "equity": "the term pays for escalating nobody (explanation/equity-term.md)",
}
"""Why ours differs, wherever a domain has no reason of its own."""


def _features(names: set[str], changed: set[str], words: str) -> str:
    shown = sorted(changed)
    listed = ", ".join(shown[:MOST_SHOWN]) + (", …" if len(shown) > MOST_SHOWN else "")
    return f"{len(names)}" + (f"; {words}: {listed}" if shown else "")


MOST_SHOWN = 8


def _layers(hidden: tuple[int, ...]) -> str:
    return "×".join(str(units) for units in hidden)


def plain_term(term: EquityTerm) -> dict[str, str]:
    """A term as a plan keeps it: nothing where it is the usual one."""
    return {} if term == USUAL_TERM else asdict(term)
