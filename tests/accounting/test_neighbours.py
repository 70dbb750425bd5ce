"""What one unit can do to the votes, and that doing more never costs less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Change, price
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, OptimalVote, TableLaw

GOOD = {"ballots": 9, "classes": 3, "votes": 2, "weight": 2}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("bad", [0, -1, 2.5, np.nan, np.inf, None, "2", True])
def test_what_is_no_number_of_ballots_is_refused(name, bad):
    with pytest.raises(InvalidParameterError, match=f"{name}="):
        Change(**(GOOD | {name: bad}))


@pytest.mark.parametrize(("name", "bad"), [("classes", 1), ("ballots", 1_000_001)])
def test_one_class_and_too_many_ballots_are_refused(name, bad):
    with pytest.raises(InvalidParameterError, match=f"{name}={bad}"):
        Change(**(GOOD | {name: bad}))


def test_it_is_a_value_and_no_more_ballots_can_change_than_fit():
    change = Change(ballots=9, classes=3, votes=7, weight=2)
    assert change == Change(ballots=9, classes=3, votes=4, weight=2)
    assert hash(change) == hash(Change(ballots=9, classes=3, votes=4, weight=2))
    assert change.moved == 8
    # One ballot may be all that is declared, and still weigh more.
    assert Change(ballots=4, classes=2, votes=3, weight=9).votes == 1
    with pytest.raises(AttributeError):
        change.votes = 1


laws = st.one_of(
    st.floats(0.8, 60.0).map(LaplaceNoisyMax),
    st.floats(0.8, 60.0).map(GaussianNoisyMax),
    st.floats(2.0, 60.0).map(OptimalVote),
    st.floats(0.8, 60.0).map(lambda sigma: ConfidentNoisyMax(10.0, sigma, sigma)),
)


@settings(max_examples=60)
@given(laws, st.integers(2, 40), st.integers(1, 6), st.integers(1, 6), st.data())
def test_changing_more_or_heavier_ballots_never_costs_less(law, ballots, votes, weight, data):
    votes = min(votes, ballots)
    weight = min(weight, ballots // votes)
    fewer, lighter = data.draw(st.integers(1, votes)), data.draw(st.integers(1, weight))
    kinds = Accounting if isinstance(law, LaplaceNoisyMax | GaussianNoisyMax) else [Accounting.EXACT]
    for accounting in kinds:
        whole = price(law, Change(ballots=ballots, classes=2, votes=votes, weight=weight), accounting)
        for v, w in ((fewer, weight), (votes, lighter), (fewer, lighter)):
            less = price(law, Change(ballots=ballots, classes=2, votes=v, weight=w), accounting)
            assert np.all(less.answered.rdp <= whole.answered.rdp * (1 + 1e-9) + 1e-14)


@settings(max_examples=40)
@given(st.lists(st.floats(0.05, 0.95), min_size=4, max_size=12), st.integers(2, 5), st.integers(1, 3))
def test_more_votes_never_cost_less_even_under_a_law_that_does_not_rise(chances, votes, weight):
    law = TableLaw(tuple((1 - p, p) for p in chances))
    ballots = len(chances) - 1
    costs = [
        price(law, Change(ballots=ballots, classes=2, votes=v, weight=weight)).label.rdp for v in (votes - 1, votes)
    ]
    assert np.all(costs[0] <= costs[1] * (1 + 1e-9) + 1e-14)
