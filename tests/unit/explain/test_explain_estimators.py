"""The paper's explainers beside the exact values."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.explain.networks import make_network, make_rows

from parity311.domains import all_domains
from parity311.errors import InputError
from parity311.explain.estimators import (
    EXPLAINERS,
    compare_explainers,
    expected_gradients,
    explain,
    explain_as_named,
    explainer_of_paper,
    fit_tree,
    kernel_shapley,
    permutation_shapley,
    tree_shapley,
)
from parity311.explain.exact import exact_shapley
from parity311.explain.inputs import ExplainInputs
from parity311.explain.policy import MAX_EXACT_FEATURES, explain_policy

NETWORK = make_network(0)
ROWS, BACKGROUND = make_rows(1, 20), make_rows(2, 30)
EXACT = exact_shapley(NETWORK, ROWS, BACKGROUND)


def test_kernel_on_all_coalitions_is_exact() -> None:
    assert kernel_shapley(NETWORK, ROWS, BACKGROUND).values == pytest.approx(
        EXACT.values, abs=1e-10
    )


def test_permutations_are_within_their_error() -> None:
    found = permutation_shapley(NETWORK, ROWS, BACKGROUND, n_permutations=24)
    assert found.error is not None
    distance = np.abs(found.values - EXACT.values)
    z = distance / np.maximum(found.error, 1e-9)
    assert np.mean(z < 3) > 0.95
    assert found.values.sum(axis=1) == pytest.approx(EXACT.scores - EXACT.base)


def test_more_permutations_come_nearer() -> None:
    few, many = (
        np.abs(
            permutation_shapley(NETWORK, ROWS, BACKGROUND, n_permutations=n).values - EXACT.values
        ).mean()
        for n in (2, 32)
    )
    assert many < few


def test_gradients_are_exact_for_a_linear_policy_and_another_estimand_for_others() -> None:
    linear = make_network(3, (6, 3))
    expected = exact_shapley(linear, ROWS, BACKGROUND).values
    assert expected_gradients(linear, ROWS, BACKGROUND).values == pytest.approx(expected)
    found = expected_gradients(NETWORK, ROWS, BACKGROUND)
    assert np.abs(found.values - EXACT.values).max() > 1e-3
    # Kinks of the network between nodes leave a small error of quadrature.
    assert found.values.sum(axis=1) == pytest.approx(EXACT.scores - EXACT.base, abs=0.05)


def test_gradients_of_a_function_that_cannot_be_differentiated_are_refused() -> None:
    with pytest.raises(InputError, match="use the exact explainer"):
        expected_gradients(lambda x: np.asarray(x)[:, :2] > 0, ROWS, BACKGROUND)


def test_the_values_of_a_tree_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(5)
    rows = np.round(make_rows(4, 200), 1)
    tree = fit_tree(rows, np.column_stack([rows[:, 0] * (rows[:, 1] > 0), rng.random(200)]))
    found = tree_shapley(tree, ROWS, BACKGROUND)
    expected = exact_shapley(tree.predict, ROWS, BACKGROUND)
    assert found.values == pytest.approx(expected.values, abs=1e-12)
    assert found.base == pytest.approx(expected.base)


def test_a_tree_says_how_well_it_fits() -> None:
    steps = (ROWS[:, :1] > 0).astype(float)
    assert fit_tree(ROWS, steps).fidelity == pytest.approx(1.0)
    noise = np.random.default_rng(0).random((20, 1))
    assert fit_tree(ROWS, noise, max_depth=1).fidelity < 0.9
    assert fit_tree(ROWS, np.ones((20, 1))).fidelity == 1.0


def test_agreement_names_every_explainer() -> None:
    found = {one.explainer: one for one in compare_explainers(NETWORK, ROWS, BACKGROUND)}
    assert set(found) == set(EXPLAINERS)
    assert found["exact"].largest_difference == 0
    assert found["kernel"].largest_difference < 1e-9
    assert found["gradient"].largest_difference > found["permutation"].largest_difference / 10
    assert found["kernel"].rank_correlation == pytest.approx(1.0)


def test_every_domain_of_the_paper_has_a_known_explainer() -> None:
    named = {slug: explainer_of_paper(slug) for slug in all_domains()}
    assert {one for one in named.values() if one} == set(EXPLAINERS)
    assert (named["boiler"], named["heat"], named["snad"]) == ("kernel", "tree", "exact")
    assert explainer_of_paper("ert") == explainer_of_paper("nowhere") == ""
    with pytest.raises(InputError, match="Did you mean 'kernel'"):
        explain(NETWORK, ROWS, BACKGROUND, "kernal")


def inputs_of(slug: str, n_features: int, n_rows: int = 300) -> ExplainInputs:
    """A policy of a domain that sees so many features."""
    label = np.arange(n_rows)
    return ExplainInputs(
        domain=slug, setting="", policy="dqn", network=make_network(0, (n_features, 8, 3)),
        feature_names=tuple(f"f{i}" for i in range(n_features)), action_names=("a", "b", "c"),
        geographic=(), rows=make_rows(1, n_rows, n_features),
        background=make_rows(2, 8, n_features), tract=label, severity=label % 4,
        income_quintile=1 + label % 5, complaint_id=label, escalating=("b",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("slug", "n_features"),
    [("boiler", 6), ("crane", 6), ("snad", 6), ("heat", 6), ("drone", 6), ("housing", 20)],
)
def test_the_explainer_of_the_paper_explains_its_domains(slug: str, n_features: int) -> None:
    """Housing sees more features than have exact values: its tree explains them all the same."""
    found = explain_policy(inputs_of(slug, n_features))
    assert found.named is not None
    assert found.named.agreement.explainer == explainer_of_paper(slug)
    assert len(found.named.importance) == n_features
    for row in found.named.importance:
        assert row["apart"] == pytest.approx(row["named"] - row["ours"])
    if slug in ("boiler", "snad"):
        assert found.named.agreement.mean_difference < 1e-8
    if slug in ("crane", "heat", "housing"):
        assert found.named.agreement.mean_difference > 1e-3
    if n_features > MAX_EXACT_FEATURES:
        assert found.agreement == ()


def test_a_domain_without_a_named_explainer_has_ours_alone() -> None:
    assert explain_policy(inputs_of("ert", 6)).named is None


def test_a_tree_is_fitted_to_all_that_the_policy_met() -> None:
    few, _ = explain_as_named(NETWORK, ROWS[:4], BACKGROUND, ROWS[:4], "tree")
    many, note = explain_as_named(NETWORK, ROWS[:4], BACKGROUND, make_rows(3, 2000), "tree")
    exact = EXACT.values[:4]
    assert np.abs(many.values - exact).mean() < np.abs(few.values - exact).mean()
    assert "% of whose variation" in note
