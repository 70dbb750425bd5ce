"""The requirements of every meter. Add a new meter to METERS."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Group
from dpensemble.accounting.meters import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.data_dependent import PerRecordMeter
from dpensemble.accounting.published import PublishedPerRecordMeter
from dpensemble.accounting.schedule import Pool, Stage, VotingSchedule
from dpensemble.allocation import BootstrapScheme, partitions
from dpensemble.design.private_majority import PrivateModelsMeter, _pure_answers_meter
from dpensemble.design.voting import _subsampled_cost, _subsampled_meter
from dpensemble.errors import BudgetError
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.relations import Basis, Relation
from dpensemble.votes import Votes

N, SUBSETS, K = 60, 6, 3


def allocation(relation=Relation.REPLACE_ONE):
    return partitions(range(N), SUBSETS, K, relation=relation, entropy=1)


KEYED = Relation.ADD_OR_REMOVE_ONE


def gate_of(law):
    return ConfidentNoisyMax(0.6 * SUBSETS * K, 2 * law.scale, law.scale)


# Pools of a plain run and of the three variants, and (pool, votes) of each group.
VARIANTS = {
    "everyone": ((Pool(18, 18),), ((0, K),)),
    "upsampling": ((Pool(18, 18),), ((0, 1), (0, 3))),
    "weighting": ((Pool(12, 12), Pool(6, 6, 3)), ((0, 1), (1, 1))),
    "vanishing": ((Pool(12, 5), Pool(6, 6)), ((0, 1), (1, 1))),
}


def grouped(make, variant, law, budget, **options):
    pools, groups = VARIANTS[variant]
    groups = [Group(f"group {i}", budget, *group) for i, group in enumerate(groups)]
    return make(VotingSchedule((Stage(law, pools),)), groups, n_classes=2, **options)


plain = partial(grouped, worst_case_meter, "everyone")
METERS = {
    "everyone, Gaussian": lambda law, budget: plain(GaussianNoisyMax(law.scale), budget),
    "everyone, gated and published": lambda law, budget: plain(gate_of(law), budget, accounting=Accounting.PUBLISHED),
} | {
    f"{kind.__name__}, {relation}": lambda law, budget, kind=kind, relation=relation: kind(
        law, allocation(relation), budget, 2, stop_when_spent=True
    )
    for kind in (PublishedPerRecordMeter, PerRecordMeter)
    for relation in Relation
}
for variant in VARIANTS:
    METERS |= {
        f"{variant}, worst-case": partial(grouped, worst_case_meter, variant),
        f"{variant}, published": partial(grouped, worst_case_meter, variant, accounting=Accounting.PUBLISHED),
        f"{variant}, data-dependent": partial(
            grouped, data_dependent_meter, variant, allocation=allocation(), stop_when_spent=True
        ),
        f"{variant}, gated": lambda law, budget, variant=variant: grouped(
            worst_case_meter, variant, gate_of(law), budget
        ),
    }
METERS["pure answers"] = lambda law, budget: _pure_answers_meter(
    VotingSchedule.everyone(law, SUBSETS * K), Group("everyone", budget), 0.1 / law.scale, 7, "for tests"
)
# Paid for before anything is asked, for any number of queries.
PREPAID = {
    "pure models": lambda law, budget: PrivateModelsMeter([[(0.2, 0.0)] * 3], budget),
    "models of a partition": lambda law, budget: PrivateModelsMeter([[(0.1, 1e-9)], [(0.2, 0.0)]], budget),
    "zero-concentrated models": lambda law, budget: PrivateModelsMeter(
        [[(0.9, budget.delta)] * 3], budget, zcdp=[[0.003] * 3]
    ),
}
ONCE = [*PREPAID, "pure answers"]
# Composed separately for every law and budget, so tests/accounting/test_subsampling.py searches their spend.
SLOW = {
    scheme: lambda law, budget, scheme=scheme: _subsampled_meter(
        VotingSchedule.everyone(law, SUBSETS * K),
        Group("everyone", budget),
        _subsampled_cost(law, BootstrapScheme(scheme, SUBSETS * K, 3).holders(N), n_teachers=SUBSETS * K, n_classes=2),
    )
    for scheme in ("distinct", "subsets")
}
searched = pytest.mark.parametrize("make", (METERS | PREPAID).values(), ids=METERS | PREPAID)
METERS |= SLOW
every = pytest.mark.parametrize("make", (METERS | PREPAID).values(), ids=METERS | PREPAID)
by_query = pytest.mark.parametrize("make", METERS.values(), ids=METERS)
at_once = pytest.mark.parametrize("make", [(METERS | PREPAID)[name] for name in ONCE], ids=ONCE)
as_fits = pytest.mark.parametrize(
    "make", [make for name, make in METERS.items() if name not in ONCE], ids=[n for n in METERS if n not in ONCE]
)


def votes(n_queries, seed=0):
    rng = np.random.default_rng(seed)
    return Votes((rng.random((n_queries, SUBSETS * K)) < rng.random((n_queries, 1))).astype(np.uint8), 2)


@searched
@settings(max_examples=15)
@given(st.floats(1.0, 6.0), st.floats(1e-8, 1e-2), st.floats(2.0, 25.0), st.lists(st.integers(0, 40), max_size=6))
def test_spend_stays_within_the_budget_and_admissions_within_public_limits(make, epsilon, delta, scale, chunks):
    budget = Budget(epsilon=epsilon, delta=delta)
    meter = make(LaplaceNoisyMax(scale), budget)
    assert 0 <= meter.sure_queries <= meter.most_queries
    prepaid = isinstance(meter, PrivateModelsMeter)
    assert (meter.spent_epsilon > 0) == prepaid
    total, asked, spent, closed = 0, 0, 0.0, False
    if not prepaid:
        assert not any(meter.group_epsilons)
        assert not meter.spend_curve()
    for i, size in enumerate(chunks):
        admitted = meter.admit(votes(size, i))
        assert 0 <= admitted <= size
        assert not (closed and admitted)
        closed = closed or admitted < size
        total, asked = total + admitted, asked + size
        assert spent <= meter.spent_epsilon <= epsilon
        assert meter.cost.fits(budget, meter.conversion)
        assert not prepaid or spent in (0, meter.spent_epsilon)
        spent = meter.spent_epsilon
        assert prepaid or total > 0 or spent == 0
        assert max(meter.group_epsilons) == spent
    assert min(asked, meter.sure_queries) <= total <= meter.most_queries


@every
def test_the_public_spend_rises_to_what_was_charged_and_a_private_one_is_not_told(make):
    meter = make(LaplaceNoisyMax(10.0), Budget(epsilon=30, delta=1e-5))
    admitted = meter.admit(votes(12))
    meter.settle(np.arange(admitted) % 3, 2)
    curve = meter.spend_curve(5)
    assert (curve is None) == (meter.basis is Basis.DATA_DEPENDENT)
    if curve is not None:
        counts, epsilons = np.array([n for n, _ in curve]), np.array([each for _, each in curve])
        assert len(curve) <= 5
        assert np.all(np.diff(counts) > 0)
        assert counts[-1] == admitted
        assert epsilons.shape == (len(curve), len(meter.group_epsilons))
        assert np.all(np.diff(epsilons, axis=0) >= 0)
        assert epsilons[-1].max() == pytest.approx(meter.charged_epsilon, rel=1e-9)


@by_query
def test_one_query_is_the_most_that_one_query_costs(make):
    budget = Budget(epsilon=1e6, delta=1e-5)
    for seed in range(8):
        meter = make(LaplaceNoisyMax(10.0), budget)
        meter.admit(votes(1, seed))
        if meter.one_query.renyi is None:
            for delta in (1e-2, 1e-5, 1e-9):
                assert meter.cost.epsilon(delta) <= meter.one_query.epsilon(delta) * (1 + 1e-12)
        else:
            assert np.all(meter.cost.renyi.rdp <= meter.one_query.renyi.rdp * (1 + 1e-12))


@at_once
def test_a_charge_fixed_beforehand_is_refused_at_once_where_it_does_not_fit(make):
    law = LaplaceNoisyMax(10.0)
    with pytest.raises(BudgetError, match=r"(use|ask for) fewer"):
        make(law, Budget(epsilon=1e-3, delta=1e-5))
    meter = make(law, Budget(epsilon=1, delta=1e-5))
    meter.require_one_query()
    most = min(meter.most_queries, 50)
    assert meter.admit(votes(50)) == most
    # What was charged is a budget that does, and nothing below it does.
    make(law, Budget(epsilon=meter.spent_epsilon, delta=1e-5))
    with pytest.raises(BudgetError):
        make(law, Budget(epsilon=meter.spent_epsilon * (1 - 1e-6), delta=1e-5))


@as_fits
def test_a_budget_for_nothing_is_refused_with_one_that_works(make):
    law = LaplaceNoisyMax(10.0)
    with pytest.raises(BudgetError, match="the smallest epsilon that would do is"):
        make(law, Budget(epsilon=1e-3, delta=1e-5)).require_one_query()
    enough = make(law, Budget(epsilon=1e-3, delta=1e-5)).smallest_epsilon()
    meter = make(law, Budget(epsilon=enough, delta=1e-5))
    meter.require_one_query()
    assert meter.admit(votes(1)) == 1


@every
def test_the_basis_is_stated(make):
    meter = make(LaplaceNoisyMax(10.0), Budget(epsilon=1, delta=1e-5))
    assert meter.basis in Basis
    assert ("data-dependent" in meter.accounting) == (meter.basis is Basis.DATA_DEPENDENT)
