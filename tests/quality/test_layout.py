"""The cells that a budget supports, chosen and stated before anything is charged."""

import pytest

from dpensemble.errors import BudgetError
from dpensemble.quality.layout import MOST_BINS, plan_layout
from dpensemble.relations import Relation

TWO, THREE = ("no", "yes"), ("a", "b", "c")


@pytest.mark.parametrize("n_units", [100, 500, 1400, 20_000])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_more_units_and_more_budget_buy_more_bins(n_units, epsilon):
    layout = plan_layout(TWO, n_units, epsilon, 1e-5)
    more = plan_layout(TWO, 2 * n_units, 2 * epsilon, 1e-5)
    assert 4 <= layout.bins <= more.bins <= MOST_BINS
    assert layout.n_cells == 2 * layout.bins
    # A bin more than four is added only while an average bin holds as many times the noise as there are bins.
    assert layout.bins == 4 or layout.sigma * layout.bins**2 <= n_units


def test_each_group_column_is_a_histogram_of_its_own_and_adds_noise():
    plain = plan_layout(TWO, 5000, 1.0, 1e-5)
    by_sex = plan_layout(TWO, 5000, 1.0, 1e-5, groups={"sex": ("f", "m")})
    by_both = plan_layout(TWO, 5000, 1.0, 1e-5, groups={"sex": ("f", "m"), "ward": ("a", "b", "c")})
    assert [len(one.histograms) for one in (plain, by_sex, by_both)] == [1, 2, 3]
    for more, one in enumerate((plain, by_sex, by_both), start=1):
        assert one.sigma == pytest.approx(plain.sigma * more**0.5)
    # Two values and all others.
    assert by_sex.histograms[1].shape == (3, 2, by_sex.group_bins)
    assert by_sex.group_bins <= by_sex.bins
    added = plan_layout(TWO, 5000, 1.0, 1e-5, relation=Relation.ADD_OR_REMOVE_ONE)
    assert added.sigma == pytest.approx(plain.sigma / 2**0.5)


def test_more_than_two_classes_have_decisions_and_each_class_against_the_rest_while_noise_allows():
    many = plan_layout(THREE, 3000, 1.0, 1e-5, groups={"sex": ("f",)})
    assert [one.kind for one in many.histograms] == ["decisions", *["bins"] * 3, "decisions by group"]
    assert many.histograms[-1].shape == (2, 3, 2)
    few = plan_layout(THREE, 140, 1.0, 1e-5)
    assert [one.kind for one in few.histograms] == ["decisions"]
    assert "no bins" in few.sentence()
    # Left-out histograms take their noise with them.
    assert few.sigma == pytest.approx(plan_layout(TWO, 140, 1.0, 1e-5).sigma)


def test_a_student_that_expects_few_cases_gets_fewer_bins_within_groups_and_keeps_required_edges():
    layout = plan_layout(TWO, 6000, 3.0, 1e-5, required=3, groups={"sex": ("f", "m")})
    assert layout.for_shares([0.5, 0.5], 3) == layout
    rare = layout.for_shares([0.99, 0.01], 3)
    assert 4 <= rare.group_bins < layout.group_bins
    assert layout.for_shares([1.0, 0.0], 3).group_bins == 4
    assert (rare.sigma, rare.bins) == (layout.sigma, layout.bins)


@pytest.mark.parametrize(
    ("n_units", "epsilon", "changes", "text"),
    [
        (50, 1.0, {}, "50 held-back units are too few for any cell at epsilon=1"),
        (1000, 0.05, {}, "too few for any cell at epsilon=0.05"),
        (100, 1.0, {"groups": {"sex": ("f", "m")}}, "hold back more"),
        (400, 0.7, {"groups": {"ward": tuple("abcdefgh")}}, "'ward' has 9 groups of about 44 held-back units"),
    ],
)
def test_too_few_units_for_any_cell_are_refused(n_units, epsilon, changes, text):
    with pytest.raises(BudgetError, match=text):
        plan_layout(TWO, n_units, epsilon, 1e-5, **changes)


def test_the_cells_are_stated_in_a_sentence():
    layout = plan_layout(TWO, 1400, 1.0, 1e-5, groups={"sex": ("f", "m")})
    sentence = layout.sentence("record")
    assert "1,400 records are held back" in sentence
    assert f"at most {layout.n_cells} cells" in sentence
    assert "by sex" in sentence
