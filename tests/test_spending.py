"""What spends a budget or holds secret bits works in one process, and only as the original."""

import copy
import importlib
import os
import pickle
import pkgutil

import numpy as np
import pytest

import dpensemble
from dpensemble import Aggregator, Budget
from dpensemble._random import SystemNoise
from dpensemble._spending import Original
from dpensemble.accounting.base import Group
from dpensemble.aggregation.aggregator import _FreshRecords, _PaidInMemory
from dpensemble.errors import DuplicateError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.methods.pate import PATEClassifier
from dpensemble.releases.sums import DiscreteNoise, SumsMeter
from dpensemble.votes import Votes

# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
BUDGET = Budget(epsilon=2, delta=1e-6)


def aggregator(**rest):
    return Aggregator(GaussianNoisyMax(20.0), 2, 50, relation="replace-one", budget=BUDGET, **rest)


def meter():
    return PATEClassifier(n_teachers=20, max_labels=5, epsilon=1.0).design(n_classes=2).meter()


def in_forks(number, work):
    """Run `work` in a number of forks one after the other, and return what each wrote."""
    results = []
    for _ in range(number):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(theirs, str(work()).encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as pipe:
            results.append(pipe.read())
        os.waitpid(child, 0)
    return results


def answers_until_spent(votes):
    answers = 0
    try:
        while True:
            votes.answer(counts=[20, 30])
            answers += 1
    except Exception as error:
        return f"{answers} {type(error).__name__}"


def test_four_forked_workers_answer_no_more_than_was_promised():
    votes = aggregator()
    assert in_forks(4, lambda: answers_until_spent(votes)) == ["0 DuplicateError"] * 4
    promised = votes.remaining()
    assert answers_until_spent(votes) == f"{promised} BudgetError"
    # The forks of a fork are forks.
    assert in_forks(1, lambda: in_forks(1, lambda: answers_until_spent(votes))) == ["['0 DuplicateError']"]


def test_an_aggregator_that_is_made_in_a_fork_answers_there():
    assert in_forks(1, lambda: aggregator(answers=3).answer(counts=[20, 30]).replayed) == ["False"]


SPENDERS = {
    "aggregator": (aggregator, lambda it: it.answer(counts=[20, 30])),
    "answer to": (aggregator, lambda it: it.answer_to(b"row", 1, ask=lambda: [[1] * 50])),
    "fresh draws": (lambda: aggregator(sampling="fresh", rate=0.5), lambda it: it.draw(10)),
    "draws": (lambda: _FreshRecords(5, 0.5, SystemNoise()), lambda it: it.draw(10)),
    "paid answers": (lambda: _PaidInMemory(5), lambda it: it.take("key", b"votes", 1)),
    "meter": (meter, lambda it: it.admit(Votes(np.zeros((1, 20), dtype=np.uint8), 2))),
    "sums": (
        lambda: SumsMeter([Group("everyone", BUDGET)]),
        lambda it: it.charge(it.sigma(share=0.5), variance=2**54, entries=5),
    ),
    "laplace": (lambda: DiscreteNoise(SystemNoise()), lambda it: it.laplace(5)),
    "gaussian": (lambda: DiscreteNoise(SystemNoise()), lambda it: it.gaussian(5)),
    "below": (lambda: DiscreteNoise(SystemNoise()), lambda it: it.below(5)),
}


@pytest.mark.parametrize("name", SPENDERS)
def test_neither_a_copy_nor_a_fork_spends(name):
    make, spend = SPENDERS[name]
    original = make()

    def refused():
        with pytest.raises(DuplicateError, match="before the process forked"):
            spend(original)
        return "refused"

    assert in_forks(1, refused) == ["refused"]
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(DuplicateError, match="use the original"):
            duplicate(original)
    # Not even a copy that avoids the protocols spends.
    forged = object.__new__(type(original))
    vars(forged).update(vars(original))
    with pytest.raises(DuplicateError, match="use the original"):
        spend(forged)
    spend(original)


def test_a_process_number_that_changed_without_a_hook_is_noticed(plant):
    votes = aggregator()
    number = os.getpid() + 1
    plant(os, "getpid", lambda: number)
    with pytest.raises(DuplicateError):
        votes.answer(counts=[20, 30])


def every_subclass(cls):
    return {cls, *(deeper for one in cls.__subclasses__() for deeper in every_subclass(one))}


def test_every_spending_method_of_the_library_is_protected():
    for module in pkgutil.walk_packages(dpensemble.__path__, "dpensemble."):
        if not module.name.startswith(("dpensemble.neural", "dpensemble.clusters", "dpensemble.__main__")):
            importlib.import_module(module.name)
    ours = [cls for cls in every_subclass(Original) if cls.__module__.startswith("dpensemble.")]
    methods = [(cls.__name__, name, vars(cls)[name]) for cls in ours for name in cls._spends if name in vars(cls)]
    assert [(owner, name) for owner, name, method in methods if not getattr(method, "is_guarded", False)] == []
    assert {"ScheduledMeter", "FilterMeter", "SumsMeter", "Aggregator", "DiscreteNoise"} < {one for one, *_ in methods}
