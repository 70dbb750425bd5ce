import json
import math
from itertools import pairwise

import numpy as np
import pytest

from dpensemble.accounting import Accounting
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.planning import (
    Census,
    Ensemble,
    Personalisation,
    Rule,
    personalise,
    plan_labels,
    plan_personalised,
    queries_of_groups,
)

KINDS = list(Personalisation)
DELTA = 1e-5


def census(epsilons=(0.7, 1.4, 2.8), shares=(0.5, 0.3, 0.2)):
    return Census(
        names=tuple(f"group {number}" for number in range(len(epsilons))),
        budgets=tuple(Budget(epsilon=epsilon, delta=DELTA) for epsilon in epsilons),
        shares=shares,
    )


def naive_queries(epsilon, cost_per_order):
    """The largest n with min over orders of n * order * cost + log(1/delta) / (order - 1) within epsilon."""
    n = 0
    while min((n + 1) * a * cost_per_order + math.log(1 / DELTA) / (a - 1) for a in range(2, 400)) <= epsilon:
        n += 1
    return n


@pytest.mark.parametrize("rule", list(Rule))
def test_queries_are_those_of_a_naive_count(rule):
    settings = {"n_classes": 2, "accounting": Accounting.PUBLISHED, "rule": rule}
    people, law = census(), GaussianNoisyMax(40.0)
    weighting = personalise(Personalisation.WEIGHTING, law, 250, people, **settings)
    upsampling = personalise(Personalisation.UPSAMPLING, law, 250, people, **settings)
    vanishing = personalise(Personalisation.VANISHING, law, 250, people, **settings)
    share = sum(pool.participants for pool in vanishing.stage.pools) / 250
    factor = np.dot(upsampling.copies, people.shares)
    expected = {
        weighting: [
            naive_queries(e, (w / 40) ** 2) for e, w in zip(people.epsilons, weighting.weights, strict=True)
        ],
        upsampling: [
            naive_queries(e, (u / 40 / factor) ** 2)
            for e, u in zip(people.epsilons, upsampling.copies, strict=True)
        ],
        vanishing: [
            naive_queries(e, (1 / 40 / share) ** 2) * pool.n_teachers // pool.participants
            for e, pool in zip(people.epsilons, vanishing.stage.pools, strict=True)
        ],
    }
    for design, queries in expected.items():
        assert list(queries_of_groups(design, 2, Accounting.PUBLISHED)) == queries


@pytest.mark.parametrize(
    "law", [GaussianNoisyMax(160.0), LaplaceNoisyMax(160.0), ConfidentNoisyMax(800, 600, 160)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_solved_groups_run_out_together_and_last_longer(kind, law):
    settings = {"n_classes": 2, "accounting": Accounting.PUBLISHED}
    found = personalise(kind, law, 1000, census(), **settings)
    queries = queries_of_groups(found, 2, Accounting.PUBLISHED)
    by_rule = queries_of_groups(
        personalise(kind, law, 1000, census(), rule=Rule.PUBLISHED, **settings), 2, Accounting.PUBLISHED
    )
    assert min(queries) >= min(by_rule)
    # Copies and turns are whole numbers; weights are as fine as they need to be.
    assert max(queries) <= min(queries) * {"weighting": 1.01, "upsampling": 1.5, "vanishing": 1.05}[kind] + 1


def test_solved_for_exact_composition_too():
    found = personalise(
        Personalisation.WEIGHTING,
        GaussianNoisyMax(40.0),
        250,
        census((0.7, 2.1), (0.5, 0.5)),
        n_classes=2,
        accounting=Accounting.EXACT,
    )
    queries = queries_of_groups(found, 2, Accounting.EXACT)
    assert max(queries) - min(queries) <= 2
    assert min(queries) > 2 * min(queries_of_groups(found, 2, Accounting.PUBLISHED))


def test_finer_copies_take_more_teachers_and_run_out_closer_together():
    people = census((0.7, 1.1), (0.5, 0.5))
    settings = {"n_classes": 2, "accounting": Accounting.PUBLISHED, "rule": Rule.PUBLISHED}
    coarse, fine = (
        personalise(Personalisation.UPSAMPLING, GaussianNoisyMax(40.0), 250, people, precision=p, **settings)
        for p in (0.3, 0.01)
    )
    assert coarse.copies == (1, 2)
    assert fine.copies == (7, 11)
    assert (coarse.n_teachers, fine.n_teachers) == (375, 2250)
    assert fine.stage.law == GaussianNoisyMax(360.0)


def test_the_plan_agrees_with_its_parts():
    ensemble = Ensemble(method="gnmax", accounting="published")
    for kind in KINDS:
        found = plan_personalised(kind, ensemble, census())
        assert found.labels == min(group.queries for group in found.groups)
        assert all(0 < group.epsilon <= group.budget for group in found.groups)
        assert found.spend[-1] == (found.labels, tuple(group.epsilon for group in found.groups))
        assert sum(group.share for group in found.groups) == pytest.approx(1)
        assert json.loads(json.dumps(found.to_dict()))["labels"] == found.labels
    average = 0.5 * 0.7 + 0.3 * 1.4 + 0.2 * 2.8
    for name, epsilon in (("minimum", 0.7), ("average", average), ("maximum", 2.8)):
        plain = plan_labels(epsilon=epsilon, delta=DELTA, method="gnmax", accounting="published")
        assert found.baselines[name] == plain.labels


@pytest.mark.parametrize("kind", KINDS)
def test_equal_budgets_plan_what_plain_pate_does(kind):
    ensemble = Ensemble(method="gnmax", accounting="published")
    found = plan_personalised(kind, ensemble, census((1.0,), (1.0,)))
    assert found.labels == found.baselines["minimum"] == found.baselines["maximum"]
    assert found.n_teachers == 250


@pytest.mark.parametrize("method", ["gnmax", "lnmax", "confident-gnmax"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_for_a_number_of_labels_is_enough_and_hardly_more(kind, method):
    ensemble = Ensemble(method=method, accounting="published")
    found = plan_personalised(kind, ensemble, census(), labels=200)
    assert found.labels >= 200
    noise = found.noise.get("sigma", found.noise.get("scale"))
    less = plan_personalised(kind, ensemble.with_noise(noise * 0.97), census())
    assert less.labels < found.labels
    assert less.labels < 204


def test_spent_groups_drop_out_by_schedule():
    ensemble = Ensemble(method="gnmax", accounting="published")
    settings = {"rule": Rule.PUBLISHED}
    ends = plan_personalised(Personalisation.VANISHING, ensemble, census(), **settings)
    goes_on = plan_personalised(Personalisation.VANISHING, ensemble, census(), vanish_at_end=True, **settings)
    assert goes_on.labels > ends.labels == goes_on.stages[0][0]
    assert sum(length for length, _ in goes_on.stages) == goes_on.labels
    voting = [set(names) for _, names in goes_on.stages]
    assert all(later < earlier for earlier, later in pairwise(voting))
    assert all(group.epsilon <= group.budget for group in goes_on.groups)


def test_plans_that_cannot_be_are_refused():
    noisy = Ensemble(method="gnmax", sigma=40.0, accounting="published")
    with pytest.raises(InvalidParameterError, match="labels=5 and the noise 40"):
        plan_personalised(Personalisation.WEIGHTING, noisy, census(), labels=5)
    with pytest.raises(BudgetError, match=r"'group 0'.*too small for one label"):
        plan_personalised(Personalisation.WEIGHTING, Ensemble(method="gnmax", sigma=0.5), census())
    with pytest.raises(InvalidParameterError, match="pool each"):
        plan_personalised(Personalisation.UPSAMPLING, noisy, census(), vanish_at_end=True)
    gated = Ensemble(method="confident-gnmax", accounting="published")
    with pytest.raises(InvalidParameterError, match="gate"):
        plan_personalised(Personalisation.WEIGHTING, gated, census(), vanish_at_end=True)


def test_weights_of_many_teachers_are_coarser_rather_than_refused():
    many = census((0.1, 0.37, 0.9, 1.43, 2.1, 2.9), (1, 1, 1, 1, 1, 1))
    settings = {"n_classes": 2, "accounting": Accounting.PUBLISHED}
    found = personalise(Personalisation.WEIGHTING, GaussianNoisyMax(6400.0), 40_000, many, **settings)
    assert found.stage.total <= 800_000
    with pytest.raises(InvalidParameterError, match=r"precision=0\.002 needs weights that add up to"):
        personalise(
            Personalisation.WEIGHTING, GaussianNoisyMax(6400.0), 40_000, many, precision=0.002, **settings
        )


def test_the_reach_of_the_optimal_vote_is_found_for_a_number_of_labels():
    people, kind = census((0.5, 1.0), (0.5, 0.5)), Personalisation.WEIGHTING
    found = plan_personalised(kind, Ensemble(method="optimal", n_teachers=60), people, labels=8)
    assert found.labels >= 8
    less = Ensemble(method="optimal", n_teachers=60, reach=0.9 * found.noise["reach"])
    assert plan_personalised(kind, less, people).labels < found.labels
