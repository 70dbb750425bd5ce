"""Designs of noisy sums: what a run spends where, before any record is touched."""

import math

import pytest

from dpensemble.accounting import Group
from dpensemble.cost import gaussian_mu
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.methods.label_moments import _noisy_sums
from dpensemble.relations import Relation

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def design(**changes):
    settings = {
        "name": "label-moments",
        "title": "Label moments",
        "groups": (Group("everyone", BUDGET),),
        "n_classes": 2,
        "rounds": 3,
        "relation": "replace-one",
    }
    return _noisy_sums(**{**settings, **changes})


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 10, 100])
def test_shares_are_all_of_the_budget(rounds, relation):
    one = design(rounds=rounds, relation=relation.value)
    assert len(one.shares) == rounds
    assert min(one.shares) > 0
    assert math.fsum(one.shares) + one.count_share == pytest.approx(1, rel=1e-12)
    assert (one.count_share > 0) == (relation is Relation.ADD_OR_REMOVE_ONE)
    assert one.shares[-1] == max(one.shares)
    meter = one.meter()
    for share in (*([one.count_share] if one.count_share else []), *one.shares):
        meter.charge(meter.sigma(share), variance=2**70, entries=500)
    assert 1 - 1e-6 < meter.spent_epsilon <= 1


def test_noise_follows_from_the_budget():
    one = design(rounds=1)
    assert one.law.sigma == pytest.approx(1 / gaussian_mu(1.0, 1e-5), rel=1e-6)
    stricter = one.with_budget(Budget(epsilon=0.5, delta=1e-5))
    assert stricter.law.sigma > 1.8 * one.law.sigma
    assert stricter.groups[0].budget.epsilon == 0.5
    with pytest.raises(InvalidParameterError, match="cannot be given"):
        one.with_noise(3.0)
    assert not one.ordinary


def test_personal_budgets_stay():
    groups = (Group("a", BUDGET, weight=0.5), Group("b", Budget(epsilon=2.0, delta=1e-5)))
    with pytest.raises(InvalidParameterError, match="budgets of their own"):
        design(groups=groups).with_budget(BUDGET)


def test_settings_are_plain_values():
    settings = design(relation="add-or-remove-one").settings()
    assert settings["rounds"] == 3
    assert settings["relation"] == "add-or-remove-one"
    assert settings["law_name"] == "gaussian-sum"


@pytest.mark.parametrize("change", [{"rounds": 0}, {"rounds": 101}, {"n_classes": 1}, {"relation": "swap"}])
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(InvalidParameterError):
        design(**change)
