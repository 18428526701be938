"""What a parity study chooses, plays and refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from parity311.domains import boiler, elevator, get_domain, housing
from parity311.engines import heuristics
from parity311.errors import InputError
from parity311.estimation.params_file import write_params
from parity311.evaluation.rollout import Contender, evaluate, evaluate_each
from parity311.mdp.harness import Harness
from parity311.studies.parity import world as parity_world
from parity311.studies.parity.band_prices import PlayedPolicy, Span, counted_coverage, settle_band
from parity311.studies.parity.learned import choose_learned
from parity311.studies.parity.long_run import (
    Years,
    gap_of,
    limit_used,
    measure_gap,
    resample_years,
)
from parity311.studies.parity.policies import (
    AGENT,
    DUAL,
    FOLLOWING,
    LEARNED,
    NEWS_DAYS,
    OURS,
    PACES,
    STATIC,
    TARGET,
    Policy,
    choose,
    choose_families,
    entry_in_estimate,
    go_online,
    hear_usual_reports,
    largest_price,
    mix_canvass,
    promise_from_afar,
    promise_of,
    spans_of,
)
from parity311.studies.parity.study import parse_factors

pytestmark = pytest.mark.slow

HARNESS = Harness(boiler.DOMAIN, max_steps=400)
PARAMS = boiler.example()


def promised(upper: float, correct: float, gap: float) -> Policy:
    contender = Contender("static", heuristics.always(0))
    found = {"gap": gap, "upper": upper, "correct": correct}
    return Policy("static", contender, target_gap=gap, validation=found)


def test_choice_takes_most_correct_within_the_bar_and_the_most_level_else() -> None:
    within, cheap, beyond = promised(0.4, 9, 0.0), promised(0.69, 10, 0.02), promised(1.2, 11, 1)
    assert choose([within, cheap, beyond]) is cheap
    assert choose([beyond, promised(1.4, 20, 0.0)]) is beyond
    # To promise just under the limit is not enough: the estimate errs.
    assert choose([within, promised(0.98, 10, 0.03)]) is within


def test_rules_go_online_at_every_pace_and_denominators_of_old_are_no_candidates() -> None:
    level, wide = promised(0.8, 9, 0.0), promised(0.6, 8, 0.02)
    settled = [replace(one, family=STATIC) for one in (level, wide)]
    online = go_online(settled, price_step=0.01)
    following = [one for one in online if one.follows]
    assert {one.pace for one in following} == set(PACES)
    assert {one.contender.price_step for one in following} == {0.01, 0.04}
    assert [one.family for one in online if not one.follows] == [DUAL, DUAL]
    best = {"gap": 0.0, "upper": 0.2, "correct": 99.0}
    checked = [replace(one, validation=best if one.family == DUAL else one.validation)
               for one in (*settled, *online)]  # fmt: skip
    chosen = {one.family: one for one in choose_families(checked, OURS, 1.0)}
    assert chosen[TARGET].target_gap == 0.02
    assert chosen[DUAL].validation == best
    without = [one for one in checked if not one.follows]
    assert choose_families(without, OURS, 1.0)[-1].validation == best


def test_a_pace_must_also_hold_from_no_prices_at_all() -> None:
    def moving(pace: tuple[float, float], upper: float) -> Policy:
        return replace(promised(upper, 9, 0.0), family=FOLLOWING, pace=pace, follows=True)

    slow, quick = (1.0, 0.0), (4.0, 0.0)
    tried = [moving(slow, 0.8), moving(slow, 1.8), moving(quick, 1.0), moving(quick, 1.2)]
    assert choose(tried).pace == slow
    seen = promise_from_afar(tried)
    assert [(one.validation or {})["upper"] for one in seen] == [1.8, 1.8, 1.2, 1.2]
    assert choose_families(tried, OURS, 1.0)[0].contender is tried[2].contender
    assert choose(seen).pace == quick


def test_learned_policies_are_chosen_as_thresholds_are() -> None:
    def agent(upper: float, correct: float, *, follows: bool, weight: float = 0.5) -> Policy:
        pace = (4.0, 0.0)
        one = replace(promised(upper, correct, 0.0), family=AGENT, follows=follows, pace=pace)
        return replace(one, weight=weight)

    fixed, loose = agent(0.6, 9, follows=False), agent(0.9, 99, follows=False)
    moving, weak = agent(0.65, 10, follows=True), agent(3.0, 50, follows=False, weight=0.1)
    chosen = choose_learned([fixed, loose, moving, weak])
    assert [one.family for one in chosen] == [LEARNED, AGENT, AGENT]
    # Fixed prices that promise too little are no candidates, whatever they find.
    assert chosen[0].validation == moving.validation
    assert [one.weight for one in chosen] == [0.5, 0.1, 0.5]
    # Where nothing promises enough, the most level of those whose prices move.
    slow = agent(1.4, 20, follows=True)
    assert choose_learned([loose, slow, weak])[0].validation == slow.validation
    assert choose_learned([]) == []


def test_a_smaller_weight_is_a_smaller_largest_price() -> None:
    prices = [largest_price(weight) for weight in (0.0, 0.1, 0.2, 0.5)]
    np.testing.assert_allclose(prices, [0.0, 1.5 / 9, 1.5 / 4, 1.5])


@pytest.mark.parametrize(
    ("coverage", "used"),
    [
        ([0.40, 0.42, 0.45], 1.0),  # a gap of 0.05 where coverage is not small
        ([0.07, 0.08, 0.09], 1.0),  # a ratio of 0.778 where it is
        ([0.10, 0.10, 0.10], 0.0),
    ],
)
def test_the_limit_is_the_audits(coverage: list[float], used: float) -> None:
    assert limit_used(np.array(coverage)) == pytest.approx(used, abs=0.01)


def test_where_nobody_is_served_there_is_no_gap_and_no_noise() -> None:
    nobody, some = np.zeros((4, 5)), np.ones((4, 5))
    years = Years(correct=nobody, actionable=some, reported=some, visits=nobody, complaints=some)
    found = measure_gap(years, resample_years(4))
    assert (found["value"], found["noise_floor"], found["corrected"]) == (0.0, 0.0, 0.0)


def test_usual_reports_are_those_of_the_estimated_process() -> None:
    domain = boiler.DOMAIN
    estimated: dict[str, Any] = {name: PARAMS for name in parity_world.ESTIMATORS}
    world = parity_world.ParityWorld(domain, domain, "by hand", estimated, PARAMS, np.ones((1, 5)))
    assert entry_in_estimate(world, HARNESS, promised(0.0, 0, 0.0)).equity.news_weight == 0.0
    heard = hear_usual_reports(world, HARNESS, Span(400, 0, 4), jax.random.key(0))
    assert heard.usual_reports is not None
    # A step is one filing, so that strata share one complaint a step.
    assert heard.usual_reports.sum() == pytest.approx(1.0, abs=1e-6)
    per_day = float(domain.play.steps_per_day(PARAMS))
    posted = replace(promised(0.0, 0, 0.0), pace=(1.0, 28.0), follows=True)
    equity = entry_in_estimate(heard, HARNESS, posted).equity
    assert float(equity.posting_steps) == pytest.approx(28.0 * per_day)
    assert float(equity.news_weight) == pytest.approx(1.0 / (NEWS_DAYS * per_day))


def test_uncertain_denominators_widen_the_promise() -> None:
    years = Years(*(np.full((20, 6), value) for value in (20.0, 100.0, 50.0, 30.0, 100.0)))
    sure = promise_of(years, np.ones((50, 5)))
    unsure = promise_of(years, np.random.default_rng(0).normal(1.0, 0.1, (50, 5)))
    assert sure["upper"] == pytest.approx(0.0)
    assert unsure["upper"] > 0.03


def test_each_in_its_own_process_equals_all_in_one() -> None:
    rule = boiler.DOMAIN.heuristics["score"](PARAMS, HARNESS)
    contenders = [Contender("a", rule), Contender("b", heuristics.always(1))]
    keys = jax.random.split(jax.random.key(0), 4)
    together = evaluate(HARNESS, PARAMS, contenders, keys)
    equity = HARNESS.equity_params(PARAMS)
    apart = evaluate_each(HARNESS, contenders, [PARAMS] * 2, [equity] * 2, keys)
    assert np.asarray(apart.tally.correct) == pytest.approx(np.asarray(together.tally.correct))
    half = evaluate(HARNESS, PARAMS, contenders, keys, n_steps=200, n_warm=200)
    assert 0 < half.tally.visits[1].sum() < together.tally.visits[1].sum()


def test_settled_prices_close_the_gap_and_a_wide_band_leaves_it() -> None:
    rule = boiler.DOMAIN.heuristics["dual_threshold"](PARAMS, HARNESS)
    entry = PlayedPolicy(Contender("dual", rule), PARAMS, HARNESS.equity_params(PARAMS))
    span = Span(n_steps=400, n_warm=0, n_plays=16, n_rounds=4)
    key = jax.random.key(1)
    settled = settle_band(HARNESS, [entry, entry], [0.0, 1.0], span, key)
    played = span.play(HARNESS, [replace(entry, contender=one) for one in settled], key)
    level, free = gap_of(counted_coverage(played))
    assert level < 0.3 * free
    assert np.abs(np.asarray(settled[1].prices)).max() == 0.0


@pytest.mark.parametrize("module", [elevator, housing])
def test_the_line_goes_on_where_an_episode_ends(module) -> None:
    params, play = module.example(), module.DOMAIN.play
    state = play.initial_state(jax.random.key(0), params)
    ended = state._replace(backlog=state.backlog._replace(n_steps=jnp.int32(99)))
    begun = play.carry_on(params, ended)
    assert int(begun.backlog.n_steps) == 0
    assert (begun.backlog.waiting == ended.backlog.waiting).all()
    doubled = play.scale_capacity(params, 2.0)
    assert float(play.capacity_per_step(doubled)) > float(play.capacity_per_step(params))


def test_a_year_is_whole_episodes() -> None:
    years, rounds = spans_of(elevator.DOMAIN, elevator.example(), 64, 8)
    assert (years.n_steps, years.n_warm) == (13 * 168, 4 * 168)
    assert rounds.n_plays == 8
    assert spans_of(get_domain("heat"), get_domain("heat").play.example(), 64, 8)[0].n_warm == 0


@pytest.mark.parametrize("slug", parity_world.DOMAINS)
def test_canvass_is_the_last_action_or_not_there(slug: str) -> None:
    without, canvassing = parity_world.split_canvass(slug)
    if canvassing is None:
        assert without is get_domain(slug)
        assert "canvass" not in [a.name.lower() for a in without.actions_of("extended")]
        return
    actions = [action.name.lower() for action in canvassing.actions_of("extended")]
    assert actions[-1] == "canvass"
    assert [a.name.lower() for a in without.actions_of("extended")] == actions[:-1]
    every = get_domain(slug).actions_of("extended")
    assert canvassing.actions_of("extended") == every[: len(actions)]


def test_a_mixture_takes_its_share() -> None:
    keys = jax.random.split(jax.random.key(0), 400)
    mixed = mix_canvass(heuristics.always(0), 4, 0.25)
    taken = np.asarray(jax.vmap(lambda key: mixed(key, jnp.zeros(3)))(keys))
    assert set(taken.tolist()) == {0, 3}
    assert (taken == 3).mean() == pytest.approx(0.25, abs=0.07)


def test_a_world_comes_back_as_it_was_written_and_a_stale_one_is_refused(tmp_path: Path) -> None:
    domain = get_domain("heat")
    for name in (*parity_world.ESTIMATORS, parity_world.TRUE):
        write_params(tmp_path / f"{name}.safetensors", domain.play.example())
    about = {"domain": "heat", "domain_version": domain.version, "city": "small-1"}
    about["denominator_draws"] = [[1.0] * 5]
    (tmp_path / parity_world.WORLD).write_text(json.dumps(about))
    world = parity_world.read_world(tmp_path)
    assert (world.true.report_rate == domain.play.example().report_rate).all()
    (tmp_path / parity_world.WORLD).write_text(json.dumps({**about, "domain_version": 0}))
    with pytest.raises(InputError, match="prepare it again"):
        parity_world.read_world(tmp_path)
    with pytest.raises(InputError, match="no prepared world"):
        parity_world.read_world(tmp_path / "nowhere")


def test_command_refuses_what_it_cannot_do() -> None:
    from parity311.cli import app

    result = CliRunner().invoke(app, ["parity", "snad", "--city", "nowhere"])
    assert isinstance(result.exception, InputError)
    assert "heat, housing, elevator, boiler" in str(result.exception)
    assert parse_factors("") == ()
    assert parse_factors("0.5, 2") == (0.5, 2.0)
    with pytest.raises(InputError, match="above 0"):
        parse_factors("0.5,x")
