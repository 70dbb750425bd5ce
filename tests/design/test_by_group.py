import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dpensemble import PATEClassifier, plan
from dpensemble.accounting import Accounting
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, LawChoice

KINDS = list(Personalisation)
DELTA = 1e-5


def census(epsilons=(0.7, 1.4, 2.8), shares=(0.5, 0.3, 0.2)):
    return Census(
        names=tuple(f"group {number}" for number in range(len(epsilons))),
        budgets=tuple(Budget(epsilon=epsilon, delta=DELTA) for epsilon in epsilons),
        shares=shares,
    )


def grouped(kind, law="gnmax", people=None, *, n_teachers=250, accounting="published", **rule):
    return ByGroup(
        name=f"{kind.value}-pate",
        kind=kind,
        choice=LawChoice.of(law),
        census=census() if people is None else people,
        n_teachers=n_teachers,
        accounting=Accounting(accounting),
        rule=InfluenceRule(**rule),
    )


def naive_queries(epsilon, cost_per_order):
    """The largest n with min over orders of n * order * cost + log(1/delta) / (order - 1) within epsilon."""
    n = 0
    while min((n + 1) * a * cost_per_order + math.log(1 / DELTA) / (a - 1) for a in range(2, 400)) <= epsilon:
        n += 1
    return n


@pytest.mark.parametrize("published", [False, True])
def test_queries_are_those_of_a_naive_count(published):
    people, law = census(), GaussianNoisyMax(40.0)
    designs = {kind: grouped(kind, law, people, published=published) for kind in KINDS}
    weighting, upsampling, vanishing = (
        designs[kind].seats
        for kind in (Personalisation.WEIGHTING, Personalisation.UPSAMPLING, Personalisation.VANISHING)
    )
    share = sum(pool.participants for pool in vanishing.stage.pools) / 250
    factor = np.dot(upsampling.copies, people.shares)
    expected = {
        Personalisation.WEIGHTING: [
            naive_queries(e, (w / 40) ** 2) for e, w in zip(people.epsilons, weighting.weights, strict=True)
        ],
        Personalisation.UPSAMPLING: [
            naive_queries(e, (u / 40 / factor) ** 2) for e, u in zip(people.epsilons, upsampling.copies, strict=True)
        ],
        Personalisation.VANISHING: [
            naive_queries(e, (1 / 40 / share) ** 2) * pool.n_teachers // pool.participants
            for e, pool in zip(people.epsilons, vanishing.stage.pools, strict=True)
        ],
    }
    for kind, queries in expected.items():
        assert list(designs[kind].queries_by_group()) == queries


@pytest.mark.parametrize("law", [GaussianNoisyMax(160.0), LaplaceNoisyMax(160.0), ConfidentNoisyMax(800, 600, 160)])
@pytest.mark.parametrize("kind", KINDS)
def test_solved_groups_run_out_together_and_last_longer(kind, law):
    queries = grouped(kind, law, n_teachers=1000).queries_by_group()
    by_rule = grouped(kind, law, n_teachers=1000, published=True).queries_by_group()
    assert min(queries) >= min(by_rule)
    # Copies and turns are whole numbers. Weights are as fine as necessary.
    assert max(queries) <= min(queries) * {"weighting": 1.01, "upsampling": 1.5, "vanishing": 1.05}[kind] + 1


def test_solved_for_exact_composition_too():
    people = census((0.7, 2.1), (0.5, 0.5))
    design = grouped(Personalisation.WEIGHTING, GaussianNoisyMax(40.0), people, n_teachers=60, accounting="exact")
    queries = design.queries_by_group()
    assert max(queries) - min(queries) <= 2
    same_seats = replace(design, influence=design.seats.influence, accounting=Accounting.PUBLISHED)
    assert same_seats.seats.weights == design.seats.weights
    assert min(queries) > 2 * min(same_seats.queries_by_group())


def test_finer_copies_take_more_teachers_and_run_out_closer_together():
    people, law = census((0.7, 1.1), (0.5, 0.5)), GaussianNoisyMax(40.0)
    coarse, fine = (
        grouped(Personalisation.UPSAMPLING, law, people, precision=p, published=True).seats for p in (0.3, 0.01)
    )
    assert coarse.copies == (1, 2)
    assert fine.copies == (7, 11)
    assert (coarse.n_teachers, fine.n_teachers) == (375, 2250)
    assert fine.stage.law == GaussianNoisyMax(360.0)


def test_the_plan_agrees_with_its_parts():
    for kind in KINDS:
        found = plan(grouped(kind))
        assert found.labels == min(found.design.queries_by_group())
        assert all(0 < group.epsilon <= group.budget for group in found.groups)
        curve = found.design.spend_curve(found.labels)
        assert curve[-1] == (found.labels, tuple(group.epsilon for group in found.groups))
        assert sum(group.settings["share"] for group in found.groups) == pytest.approx(1)
        assert json.loads(json.dumps(found.to_dict()))["labels"] == found.labels
    average = 0.5 * 0.7 + 0.3 * 1.4 + 0.2 * 2.8
    for name, epsilon in (("minimum", 0.7), ("average", average), ("maximum", 2.8)):
        plain = plan(PATEClassifier(accounting="published").design(), epsilon=epsilon, delta=DELTA)
        assert found.extras["baselines"][name] == plain.labels


@pytest.mark.parametrize("kind", KINDS)
def test_equal_budgets_plan_what_plain_pate_does(kind):
    found = plan(grouped(kind, people=census((1.0,), (1.0,))))
    assert found.labels == found.extras["baselines"]["minimum"] == found.extras["baselines"]["maximum"]
    assert found.design.seats.n_teachers == 250


@pytest.mark.parametrize("law", ["gnmax", "lnmax", "confident-gnmax"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_for_a_number_of_labels_is_enough_and_hardly_more(kind, law):
    found = plan(grouped(kind, law), labels=200)
    assert found.labels >= 200
    less = plan(grouped(kind, found.design.law.with_noise(0.97 * found.design.law.noise)))
    assert less.labels < found.labels
    assert less.labels < 204


def test_spent_groups_drop_out_by_schedule():
    ends, goes_on = (
        plan(grouped(Personalisation.VANISHING, published=True, vanish_at_end=at_end)) for at_end in (False, True)
    )
    stages = goes_on.extras["stages"]
    assert goes_on.labels > ends.labels == stages[0][0]
    assert sum(length for length, _ in stages) == goes_on.labels
    voting = [set(names) for _, names in stages]
    assert all(later < earlier for earlier, later in pairwise(voting))
    assert all(group.epsilon <= group.budget for group in goes_on.groups)


def test_plans_that_cannot_be_are_refused():
    law, kind = GaussianNoisyMax(40), Personalisation.WEIGHTING
    with pytest.raises(InvalidParameterError, match=r"^labels=5 and sigma=40\.0 cannot both be given: leave one out"):
        plan(grouped(kind, law), labels=5)
    with pytest.raises(InvalidParameterError, match="one budget for all"):
        plan(grouped(kind, law), epsilon=1.0)
    with pytest.raises(BudgetError, match=r"'group 0'.*too small for one label"):
        plan(grouped(kind, GaussianNoisyMax(0.5), accounting="exact"))
    with pytest.raises(InvalidParameterError, match="pool each"):
        plan(grouped(Personalisation.UPSAMPLING, law, vanish_at_end=True))
    with pytest.raises(InvalidParameterError, match="gate"):
        plan(grouped(kind, "confident-gnmax", vanish_at_end=True))


def test_the_reach_of_the_optimal_vote_is_found_for_a_number_of_labels():
    people, how = census((0.5, 1.0), (0.5, 0.5)), {"n_teachers": 30, "accounting": "exact"}
    found = plan(grouped(Personalisation.WEIGHTING, "optimal", people, **how), labels=4)
    assert found.labels >= 4
    less = found.design.law.with_noise(0.9 * found.design.law.reach)
    assert plan(grouped(Personalisation.WEIGHTING, less, people, **how)).labels < found.labels
