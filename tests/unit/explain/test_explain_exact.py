"""Exact Shapley values: against their definition, against shap, and one way against another."""

from __future__ import annotations

from itertools import permutations

import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.explain.networks import make_network, make_priced, make_rows

from parity311.errors import InputError
from parity311.explain import exact
from parity311.explain.exact import exact_shapley
from parity311.explain.games import all_masks, score_rows, shapley_operator


def by_definition(policy, row: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Mean marginal contribution over all orders of the features."""
    d = len(row)
    values = []
    for order in permutations(range(d)):
        mixed = background.copy()
        before = policy(mixed).mean(axis=0)
        added = np.zeros((d, len(before)))
        for feature in order:
            mixed[:, feature] = row[feature]
            after = policy(mixed).mean(axis=0)
            added[feature], before = after - before, after
        values.append(added)
    return np.mean(values, axis=0)


def test_the_values_are_those_of_the_definition() -> None:
    network = make_network(0, (4, 8, 8, 2))
    rows, background = make_rows(1, 3, 4), make_rows(2, 7, 4)
    found = exact_shapley(network, rows, background)
    for i, row in enumerate(rows):
        expected = by_definition(lambda x: score_rows(network, x), row, background)
        assert found.values[i] == pytest.approx(expected, abs=1e-12)


def test_values_with_a_price_are_those_of_the_definition() -> None:
    priced = make_priced(0, (3, 8, 2))
    rows, background = make_rows(1, 3, 4), make_rows(2, 7, 4)
    found = exact_shapley(priced, rows, background)
    for i, row in enumerate(rows):
        expected = by_definition(lambda x: score_rows(priced, x), row, background)
        assert found.values[i] == pytest.approx(expected, abs=1e-12)


def test_a_price_taken_at_its_mean_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: outside of the coalition the price is its mean, not that of each other case."""
    priced = make_priced(0)
    rows, background = make_rows(1, 5), make_rows(2, 9)
    right = exact_shapley(priced, rows, background).values
    whole = exact._worth_of_network

    def at_the_mean(network, rows, background, weights, precision):
        level = np.full_like(weights, weights.sum() / len(weights))
        return whole(network, rows, background, level, precision)

    monkeypatch.setattr(exact, "_worth_of_network", at_the_mean)
    assert np.abs(exact_shapley(priced, rows, background).values - right).max() > 0.01


def test_a_table_of_states_gives_a_price_the_same_values() -> None:
    priced = make_priced(0)
    rows, background = (np.round(make_rows(seed, 40)) for seed in (1, 2))
    found = exact_shapley(priced, rows, background)
    other = exact_shapley(lambda x: score_rows(priced, x), rows + 1e-9, background)
    assert found.values == pytest.approx(other.values, abs=1e-6)


def is_efficient(operator: np.ndarray) -> bool:
    """Whether values of any game sum to the worth of all less that of none."""
    worth = np.random.default_rng(0).standard_normal(operator.shape[1])
    return bool(np.isclose((operator @ worth).sum(), worth[-1] - worth[0]))


def test_the_operator_is_efficient_and_a_wrong_one_is_noticed() -> None:
    assert is_efficient(shapley_operator(5))
    twin = shapley_operator(5).copy()
    twin[2] *= 1.01
    assert not is_efficient(twin)


@pytest.mark.slow
def test_equal_to_shap() -> None:
    shap = pytest.importorskip("shap", reason="shap is only the oracle of this test")
    network = make_network(0)
    rows, background = make_rows(1, 4), make_rows(2, 20)
    masker = shap.maskers.Independent(background, max_samples=len(background))
    theirs = shap.explainers.Exact(lambda x: score_rows(network, x), masker)(rows)
    ours = exact_shapley(network, rows, background)
    assert np.abs(ours.values - theirs.values).max() < 1e-6
    assert ours.base == pytest.approx(theirs.base_values[0], abs=1e-9)
    single = exact_shapley(network, rows, background, precision="float32")
    assert np.abs(single.values - theirs.values).max() < 1e-5


@pytest.mark.parametrize("sizes", [(6, 16, 16, 3), (6, 16, 3), (6, 3), (6, 8, 8, 8, 1)])
def test_network_function_and_compiled_function_agree(sizes: tuple[int, ...]) -> None:
    network = make_network(0, sizes)
    rows, background = make_rows(1, 70), make_rows(2, 9)

    def compiled(x):
        hidden = jnp.asarray(x)
        for layer in range(len(sizes) - 1):
            hidden = hidden @ network[f"weight_{layer}"] + network[f"bias_{layer}"]
            hidden = jnp.maximum(hidden, 0) if layer < len(sizes) - 2 else hidden
        return hidden

    ours = exact_shapley(network, rows, background).values
    plain = exact_shapley(lambda x: score_rows(network, x), rows[:5], background).values
    assert ours[:5] == pytest.approx(plain, abs=1e-12)
    traced = exact_shapley(compiled, rows[:5], background).values
    assert ours[:5] == pytest.approx(traced, abs=1e-5)


def test_the_table_of_states_gives_the_same_values() -> None:
    network = make_network(0)
    rng = np.random.default_rng(3)
    levels = (2, 2, 3, 4, 2, 5)
    rows, background = (
        np.column_stack([rng.integers(0, level, n) for level in levels]).astype(float)
        for n in (60, 40)
    )
    assert exact._states(np.unique(rows, axis=0), np.unique(background, axis=0)) is not None
    looked_up = exact_shapley(network, rows, background)
    weights = np.full(len(background), 1 / len(background))
    worth = exact._worth_of_network(network, rows, background, weights, "float64")
    assert looked_up.values == pytest.approx(
        np.einsum("im,mna->nia", shapley_operator(6), worth), abs=1e-12
    )


def test_continuous_rows_are_not_tabulated() -> None:
    assert exact._states(make_rows(0, 50), make_rows(1, 50)) is None


def test_repeated_rows_cost_nothing_and_background_repeats_count() -> None:
    network = make_network(0)
    rows, background = make_rows(1, 2), make_rows(2, 3)
    once = exact_shapley(network, rows[[0, 1, 0]], background[[0, 0, 1, 2]])
    weighted = exact._worth_of_network(
        network, rows, background, np.array([0.5, 0.25, 0.25]), "float64"
    )
    expected = np.einsum("im,mna->nia", shapley_operator(6), weighted)
    assert once.values[[0, 1]] == pytest.approx(expected, abs=1e-12)
    assert (once.values[0] == once.values[2]).all()


def test_a_feature_the_policy_ignores_gets_nothing() -> None:
    network = make_network(0)
    network["weight_0"][2] = 0.0
    found = exact_shapley(network, make_rows(1, 10), make_rows(2, 10))
    assert np.abs(found.values[:, 2]).max() < 1e-14


def test_margins_and_centred_scores_add_up() -> None:
    found = exact_shapley(make_network(0), make_rows(1, 10), make_rows(2, 10))
    margin = found.of_margin(0, 2).sum(axis=1)
    scores, base = found.scores, found.base
    assert margin == pytest.approx(scores[:, 0] - scores[:, 2] - base[0] + base[2])
    centred = found.centred()
    assert centred.values.sum(axis=1) == pytest.approx(centred.scores - centred.base)


@pytest.mark.parametrize(
    ("rows", "background", "words"),
    [
        (np.zeros((0, 6)), np.zeros((3, 6)), "at least one row"),
        (np.zeros((2, 6)), np.zeros((3, 5)), "must be the same"),
        (np.full((2, 6), np.nan), np.zeros((3, 6)), "not finite"),
        (np.zeros(6), np.zeros((3, 6)), "give a matrix"),
        (np.zeros((2, 17)), np.zeros((3, 17)), "Use the permutation explainer"),
    ],
)
def test_bad_rows_get_one_clear_line(rows, background, words: str) -> None:
    with pytest.raises(InputError, match=words):
        exact_shapley(lambda x: x[:, :2], rows, background)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(InputError, match="allowed: float32, float64"):
        exact_shapley(make_network(0), make_rows(1, 2), make_rows(2, 2), precision="float16")


def test_masks_count_in_binary() -> None:
    assert all_masks(3)[5].tolist() == [True, False, True]
