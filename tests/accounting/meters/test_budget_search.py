import numpy as np

from dpensemble.accounting import Accounting, Change, Group, price
from dpensemble.accounting.meters.scheduled import Payers, affordable_queries, leading_fit
from dpensemble.accounting.neighbours import FEW_ORDERS
from dpensemble.budget import Budget
from dpensemble.cost import Conversion
from dpensemble.laws import GaussianNoisyMax
from dpensemble.voting_schedule import Pool, Stage, VotingSchedule

BUDGET = Budget(epsilon=1, delta=1e-5)


def test_teachers_who_take_turns_last_for_more_queries():
    # Two of three vote on each query, so 33 votings of each last for 49 queries.
    stage = Stage(GaussianNoisyMax(40.0), (Pool(3, 2),))
    one = price(stage.law, Change(ballots=2, classes=2), Accounting.PUBLISHED).label
    assert one.most(Budget(epsilon=1.0, delta=1e-5), Conversion.CLASSICAL) == 33
    assert affordable_queries([stage], [one], 0, BUDGET, Conversion.CLASSICAL) == 49


def test_only_records_of_teachers_who_take_turns_are_told_apart():
    schedule = VotingSchedule((Stage(GaussianNoisyMax(9.0), (Pool(4, 4), Pool(3, 2))),))
    found = Payers.of(schedule, (Group("all", BUDGET, 0), Group("turns", BUDGET, 1)))
    assert found.group.tolist() == [0, 1, 1, 1]
    assert found.teacher.tolist() == [0, 4, 5, 6]


def test_the_leading_queries_that_fit_are_as_many_as_one_by_one():
    rng, spent = np.random.default_rng(0), np.zeros((3, len(FEW_ORDERS)))
    costs = rng.random((20, 3, 1)) * 0.002 * FEW_ORDERS
    epsilons = np.array([0.5, 0.7, 0.9])
    one_by_one = [leading_fit(spent, lambda _, n=n: costs[:n].sum(axis=0), 1, epsilons, 1e-5)[0] for n in range(1, 21)]
    fitting, after = leading_fit(spent, lambda n: costs[:n].sum(axis=0), 20, epsilons, 1e-5)
    assert 0 < fitting < 20
    assert fitting == sum(one_by_one)
    np.testing.assert_array_equal(after, costs[:fitting].sum(axis=0))
