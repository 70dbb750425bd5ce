"""The price of votes between 0 and 1, against neighbours of tiny worlds, and settings of the design."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dpensemble.accounting import GaussianSum
from dpensemble.audit import sampled_probabilities
from dpensemble.audit.exact import hockey_stick
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, SparseNoisyMax
from dpensemble.relations import Relation
from dpensemble.releases import LabelByLaw, LabelBySoftVotes, NoisyMean, SparseLabel

EPSILONS = (0.0, 0.1, 0.5, 1.0, 1.9)
BUDGET = Budget(epsilon=3, delta=1e-5)
SOFT = GivenVotes(
    release=LabelBySoftVotes(ExponentialVote(1.0), 5.0),
    n_classes=3,
    n_voters=2,
    relation=Relation.ADD_OR_REMOVE_ONE,
    budget=BUDGET,
)


def soft_ballots():
    """Corners of the cube of votes, each voter's largest being 1, and some inner points."""
    corners = [np.array(one, dtype=float) for one in product((0, 1), repeat=3) if any(one)]
    return [*corners, np.array([1, 0.5, 0.25]), np.array([0.75, 1, 0])]


def rows(law):
    return [
        [sampled_probabilities(law, (mine + other)[None])[0] for mine in soft_ballots()] for other in soft_ballots()
    ]


@pytest.mark.parametrize("scale", [0.7, 1.0, 5.0])
def test_no_soft_ballot_reveals_more_than_is_charged(scale):
    design = replace(SOFT, release=LabelBySoftVotes(ExponentialVote(scale), 5.0))
    pairs = design.cost.parts[0].pairs
    closest = 0.0
    for row in rows(design.release.law):
        for p, q in product(row, repeat=2):
            for epsilon in EPSILONS:
                assert hockey_stick(p, q, epsilon) <= pairs.hockey_stick(epsilon)
            closest = max(closest, hockey_stick(p, q, 0.0) / pairs.hockey_stick(0.0))
    # Two opposite ballots come close to it, so the price of ballots of 0 and 1 alone would be no bound.
    assert closest > 0.9


@pytest.mark.parametrize("relation", Relation)
def test_soft_ballots_of_fresh_records_reveal_no_more_than_is_charged(relation):
    rate = 0.2
    fresh = replace(SOFT, relation=relation, sampling=Sampling.FRESH, rate=rate)
    pairs = fresh.cost.parts[0].pairs
    charged = {epsilon: pairs.hockey_stick(epsilon) + 1e-14 for epsilon in EPSILONS}
    for row in rows(fresh.release.law):
        nobody, p, q = np.array(list(product(row, repeat=3))).swapaxes(0, 1)
        here = (1 - rate) * nobody + rate * p
        there = nobody if relation is Relation.ADD_OR_REMOVE_ONE else (1 - rate) * nobody + rate * q
        for epsilon, most in charged.items():
            for one, other in ((here, there), (there, here)):
                assert np.maximum(one - np.exp(epsilon) * other, 0.0).sum(axis=1).max() <= most


def test_the_design_says_everything_public():
    design = GivenVotes(
        release=LabelByLaw(GaussianNoisyMax(5.0)),
        n_classes=4,
        n_voters=60,
        relation=Relation.REPLACE_ONE,
        answers=2,
        budget=BUDGET,
    )
    found = design.settings()
    assert (found["n_voters"], found["answers"], found["sampling"], found["sigma"]) == (60, 2, "fixed", 5.0)
    assert design.release.analysis(design.voters) == "exact worst case of the released labels over all votes"
    assert design.with_noise(9.0).release == LabelByLaw(GaussianNoisyMax(9.0))
    assert design.with_noise(9.0).spent < design.spent <= 3
    assert design.with_budget(Budget(epsilon=2.5, delta=1e-5)).groups[0].budget.epsilon == 2.5
    assert replace(design, release=NoisyMean(GaussianSum(5.0))).with_noise(7.0).release.law == GaussianSum(7.0)
    sparse = replace(design, release=SparseLabel(SparseNoisyMax(5.0, 40.0)))
    assert sparse.with_noise(7.0).release.law == SparseNoisyMax(7.0, 40.0)


def test_more_answers_than_the_budget_covers_are_refused():
    with pytest.raises(BudgetError, match=r"1,000 answers need epsilon .*ask for fewer"):
        _ = replace(SOFT, answers=1000).promised_answers
    with pytest.raises(InvalidParameterError, match="budget=None"):
        _ = replace(SOFT, budget=None).promised_answers
