"""Hyper-parameters outside what their configuration declares are refused; ours are within."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, get_origin, get_type_hints

import pytest

from parity311.agents import _load, agent_config, all_agents
from parity311.agents.settings import check_settings
from parity311.domains import all_domains
from parity311.errors import InputError
from parity311.training.train_run import parse_settings


@pytest.mark.parametrize(
    ("agent", "text", "allowed"),
    [
        ("dqn", "discount=2", "a number from 0 to 1"),
        ("dqn", "discount=-0.1", "a number from 0 to 1"),
        ("dqn", "discount=NaN", "a number from 0 to 1"),
        ("dqn", "discount=true", "a number from 0 to 1"),
        ("dqn", "discount=much", "a number from 0 to 1"),
        ("dqn", "learning_rate=0", "a number above 0, at most 10"),
        ("dqn", "batch_size=0", "a whole number from 1 to 1,000,000,000"),
        ("dqn", "batch_size=1.5", "a whole number"),
        ("dqn", "hidden=[64,0]", "a list of whole numbers"),
        ("dqn", "hidden=64", "a list of whole numbers"),
        ("dqn", "is_double=1", "true or false"),
        ("dqn", "dtype=float8", "float32 or bfloat16"),
        ("td", "bin_width=0", "a number above 0"),
        ("conditioned", "corners=[[1,1,0,0]]", "sum to 1"),
        ("hdqn", "categories=[-1]", "a list of whole numbers"),
    ],
)
def test_a_setting_out_of_range_is_refused(agent: str, text: str, allowed: str) -> None:
    with pytest.raises(InputError, match=f"was given as .*; allowed is .*{allowed}"):
        agent_config(agent, parse_settings([text]))


@pytest.mark.parametrize("text", ["discount=0", "discount=1", "hidden=[64]", "dtype=bfloat16"])
def test_a_setting_at_the_edge_is_accepted(text: str) -> None:
    ((name, value),) = parse_settings([text]).items()
    assert getattr(agent_config("dqn", {name: value}), name) == value


@pytest.mark.parametrize("agent", all_agents())
def test_every_setting_declares_what_it_may_be(agent: str) -> None:
    config_type = _load(agent)[0]
    hints = get_type_hints(config_type, include_extras=True)
    for field in fields(config_type):
        assert hints[field.name] is bool or get_origin(hints[field.name]) is Annotated, field.name
    own: dict[str, Any] = {f.name: f.default for f in fields(config_type) if f.default != MISSING}
    check_settings(agent, config_type, own)


def test_the_settings_of_every_domain_are_within() -> None:
    for domain in all_domains().values():
        for agent, settings in domain.agent_settings.items():
            agent_config(agent, settings)
