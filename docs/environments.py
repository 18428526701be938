"""The reference of environments: names, spaces and rewards of every domain, from the domains."""

from __future__ import annotations

from parity311.domains import all_domains
from parity311.environments import environment_id
from parity311.mdp.contract import REWARD_NAMES, Action, Domain
from parity311.mdp.harness import Harness


def environments_block() -> str:
    """A table of all, then what each shows, allows and pays."""
    lines = [
        "| name | observation | actions | steps an episode | a decision is about |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    playable = {slug: one for slug, one in all_domains().items() if one.is_playable}
    for slug, domain in playable.items():
        harness = Harness(domain)
        lines.append(
            f"| `{environment_id(slug)}` | {harness.n_features} | {harness.n_actions} | "
            f"{harness.horizon or 'no end'} | {domain.decision} |"
        )
    for slug, domain in playable.items():
        lines += ["", f"## {slug}", "", *_card(domain)]
    return "\n".join(lines)


def _card(domain: Domain) -> list[str]:
    weights = ", ".join(
        f"{name} {weight:g}"
        for name, weight in zip(REWARD_NAMES, domain.preference, strict=True)
        if weight
    )
    lines = [
        f"`{environment_id(domain.slug)}`, `{environment_id(domain.slug, is_vector=True)}`: "
        f"{domain.title}. Weights of the reward: {weights}.",
        "",
        "| observation set | shape | features, in order |",
        "| --- | --- | --- |",
    ]
    for name in domain.observation_sets:
        shown = Harness(domain, observation_set=name)
        told = f"`{name}`" + (" (default)" if name == domain.default_observation_set else "")
        lines.append(f"| {told} | ({shown.n_features},) | {_short(shown.observation_names)} |")
    lines += ["", f"Actions: {_actions(domain.actions)}."]
    if domain.extended_actions:
        first = len(domain.actions)
        lines += [
            "",
            f"Further ones of the set `extended`: {_actions(domain.extended_actions, first)}.",
        ]
    return lines


def _actions(actions: tuple[Action, ...], first: int = 0) -> str:
    return ", ".join(f"{number} {one.name}" for number, one in enumerate(actions, first))


MOST_NAMES = 30
"""Features beyond which a row names the first and the last few."""


def _short(names: tuple[str, ...]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:6])}, … {', '.join(names[-3:])} ({len(names)} in all)"
