import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.allocation.budget_groups import personal_budgets
from dpensemble.design.by_group import _whole_number_ratios
from dpensemble.errors import BudgetError, DataError, InvalidParameterError


def test_records_with_equal_epsilons_form_a_group_and_the_strictest_comes_first():
    found = personal_budgets([1, 0.5, 2, 0.5], delta=1e-5)
    assert found.epsilons.tolist() == [0.5, 1, 2]
    assert found.group_of_record.tolist() == [1, 0, 2, 0]
    assert {budget.delta for budget in found.budgets} == {1e-5}
    assert found.names == ("0.5", "1", "2")


def test_levels_of_one_epsilon_are_one_group():
    levels = {"low": 2.0, "medium": 1.0, "default": 1.0}
    found = personal_budgets(["low", "default", "medium"], delta=1e-5, levels=levels)
    assert found.group_of_record.tolist() == [1, 0, 0]
    assert found.names == ("medium, default", "low")


def test_declared_budgets_are_groups_even_without_a_record():
    found = personal_budgets([1, 1], delta=1e-5, declared=[0.5, 1, 2])
    assert found.n_groups == 3
    assert found.group_of_record.tolist() == [1, 1]
    with pytest.raises(BudgetError, match=r"not one of the declared ones in row 1\b"):
        personal_budgets([1, 3], delta=1e-5, declared=[0.5, 1, 2])


@pytest.mark.parametrize("bad", [None, math.nan, 0, -1.0, math.inf, "high", True, 1e13])
def test_a_budget_that_is_none_is_refused_with_its_row(bad):
    with pytest.raises(BudgetError, match=r"in row 1, counting from 0"):
        personal_budgets([1.0, bad], delta=1e-5)


@pytest.mark.parametrize("bad", [None, math.nan, "typo"])
def test_a_level_that_is_none_is_refused_with_its_row(bad):
    with pytest.raises(BudgetError, match=r"in row 1, .*'low'"):
        personal_budgets(["low", bad], delta=1e-5, levels={"low": 1.0})


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, "1"])
def test_a_level_must_stand_for_an_epsilon(bad):
    with pytest.raises(InvalidParameterError, match=r"levels\['low'\]"):
        personal_budgets(["low"], delta=1e-5, levels={"low": bad})


def test_other_shapes_and_too_many_groups_are_refused():
    with pytest.raises(DataError, match=r"shape \(1, 2\)"):
        personal_budgets([[1, 2]], delta=1e-5)
    with pytest.raises(BudgetError, match="budgets has 1001 values, but at most 1000 are allowed"):
        personal_budgets(np.linspace(1, 2, 1001), delta=1e-5)


def test_records_of_a_unit_must_agree():
    found = personal_budgets([1, 2, 2], delta=1e-5)
    assert found.group_of_unit(np.array([0, 1, 1])).tolist() == [0, 1]
    with pytest.raises(DataError, match="strictest"):
        found.group_of_unit(np.array([0, 0, 1]))


@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=5),
    st.floats(0.001, 0.3),
)
def test_ratios_are_the_smallest_whole_numbers_within_the_precision(ratios, precision):
    found = _whole_number_ratios(ratios, precision, largest=1_000_000)
    relative = np.array(ratios) / min(ratios)

    def error(least):
        exact = relative * least
        return np.abs(np.floor(exact + 0.5) / exact - 1).max()

    least = found[int(np.argmin(ratios))]
    assert error(least) <= precision * (1 + 1e-6)
    assert all(error(smaller) > precision * (1 - 1e-6) for smaller in range(1, least))


def test_equal_ratios_are_ones():
    assert _whole_number_ratios([0.3, 0.3, 0.3], 1e-6, largest=1) == (1, 1, 1)


def test_a_precision_out_of_reach_names_one_that_works():
    with pytest.raises(
        InvalidParameterError, match=r"precision=1e-06 .* precision=(\S+) would do with (\d+)"
    ) as caught:
        _whole_number_ratios([1, math.pi], 1e-6, largest=50)
    words = str(caught.value).rstrip(".").split()
    assert max(_whole_number_ratios([1, math.pi], float(words[-5].split("=")[1]), largest=50)) == int(words[-1])


def test_ratios_out_of_reach_name_the_teachers_that_would_do():
    with pytest.raises(InvalidParameterError, match="n_teachers=1000"):
        _whole_number_ratios([1, 1000], 0.1, largest=250)
