"""The aggregator: what it charges, refuses, replays and promises."""

import threading

import numpy as np
import pandas as pd
import pytest

from dpensemble import Aggregator, Budget
from dpensemble._spending import listen
from dpensemble.accounting import GaussianSum
from dpensemble.aggregation.drawn import Draws
from dpensemble.audit import audit_pipeline
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, SparseNoisyMax
from dpensemble.releases import answers

BUDGET = Budget(epsilon=2, delta=1e-6)
CLASSES = ["no", "yes"]


def made(law=None, classes=CLASSES, n_voters=50, **given):
    law = GaussianNoisyMax(8.0) if law is None else law
    return Aggregator(law, classes, n_voters, **{"relation": "replace-one", "budget": BUDGET} | given)


def soft(n_voters, n_classes, seed=0, queries=None):
    shape = (n_voters,) if queries is None else (queries, n_voters)
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(n_classes), shape))


def test_answers_are_counted_down_to_nothing_and_then_refused():
    votes = made()
    most = votes.remaining()
    assert votes.quote(most).fits
    assert not votes.quote(most + 1).fits
    first = votes.answer(counts=[[2, 48]] * (most - 1))
    assert set(first.labels) <= set(CLASSES)
    assert votes.remaining() == 1
    with pytest.raises(BudgetError, match="2 answers were requested, and 1 are left"):
        votes.answer(counts=[[2, 48]] * 2)
    assert votes.remaining() == 1
    votes.answer(counts=[2, 48])
    with pytest.raises(BudgetError, match="0 are left"):
        votes.answer(counts=[2, 48])


def test_named_counts_are_read_by_name():
    seeded = {"insecure_release_seed": 0, "budget": Budget(epsilon=30, delta=1e-6)}
    named = pd.DataFrame({"yes": [50] * 3, "no": [0] * 3})
    assert made(GaussianNoisyMax(3.0), **seeded).answer(counts=named).labels == ("yes",) * 3
    assert made(GaussianNoisyMax(3.0), **seeded).answer(counts=named.iloc[0]).label == "yes"
    with pytest.raises(DataError, match="ballots must hold declared classes only"):
        made().answer(counts=pd.Series([2, 48]))


def test_a_key_gives_its_answer_again_for_nothing_and_takes_no_other_votes():
    votes = made(LaplaceNoisyMax(30.0))
    asked = {f"row {i}": votes.answer(ballots=["no"] * 26 + ["yes"] * 24, key=f"row {i}") for i in range(12)}
    # Fair coins: twelve that agree have a chance of 1 in 2,048, and then the replays prove nothing.
    left = votes.remaining()
    for key, answer in asked.items():
        again = votes.answer(counts={"yes": 24, "no": 26}, key=key)
        assert again.labels == answer.labels
        assert (answer.replayed, again.replayed) == (False, True)
    assert votes.remaining() == left
    with pytest.raises(DataError, match="other votes"):
        votes.answer(counts=[25, 25], key="row 3")
    assert votes.remaining() == left


def test_the_charge_stands_before_noise_is_drawn_and_a_failed_draw_keeps_it(monkeypatch):
    votes, seen = made(), []

    def fails(*_):
        seen.append(votes.remaining())
        raise RuntimeError("power cut")

    most = votes.remaining()
    with monkeypatch.context() as patch:
        patch.setattr(answers, "sample", fails)
        with pytest.raises(DataError, match="RuntimeError was raised"):
            votes.answer(counts=[2, 48], key="once")
    assert seen == [most - 1]
    # No answer was returned by that key, so the key may still get one, at the price that was paid.
    assert votes.answer(counts=[2, 48], key="once").label in CLASSES
    assert votes.remaining() == most - 1


def test_whoever_keeps_account_is_told_of_the_whole_budget_before_the_first_answer_and_may_forbid_it():
    told = []

    def forbid(groups):
        raise BudgetError("no more.")

    votes = made()
    with listen(forbid), pytest.raises(BudgetError, match="no more"):
        votes.answer(counts=[2, 48])
    assert votes.remaining() == votes.design.most_answers
    with listen(told.append):
        with pytest.raises(BudgetError, match="are left"):
            votes.answer(counts=[[2, 48]] * (votes.remaining() + 1))
        assert told == [], "what can never fit was announced as spent"
        votes.answer(counts=[2, 48])
        votes.answer(counts=[2, 48])
    assert [[one.to_dict() for one in each] for each in told] == [[{"name": "everyone", "epsilon": 2, "delta": 1e-6}]]
    assert told[0][0].cost.epsilon(1e-6) <= 2


def test_many_threads_never_pass_the_number():
    votes, results = made(), []
    most, start = votes.remaining(), threading.Barrier(8)

    def ask():
        start.wait()
        for _ in range(most):
            try:
                results.append(votes.answer(counts=[2, 48]).label)
            except BudgetError:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == most
    assert votes.remaining() == 0


def test_the_guarantee_is_of_all_answers_whether_taken_or_not():
    votes = made(answers=5, unit="patient")
    before = str(votes.guarantee())
    votes.answer(counts=[2, 48])
    assert str(votes.guarantee()) == before
    assert votes.guarantee().epsilon == votes.quote(5).epsilon < 2
    assert "patient" in before
    assert "5 answers" in before
    assert not made(insecure_release_seed=1).guarantee().for_release


@pytest.mark.parametrize(
    ("law", "classes", "given", "payload"),
    [
        ("lnmax", 3, {}, {"counts": [10, 20, 20]}),
        (ExponentialVote(5.0), 3, {}, {"ballots": [0] * 25 + [2] * 25}),
        (ExponentialVote(9.0), 3, {"clip": 10.0}, {"log_probs": soft(50, 3)}),
        (GaussianSum(6.0), 4, {}, {"log_probs": soft(50, 4, queries=2)}),
        (SparseNoisyMax(15.0, 90.0), 50_000, {"n_voters": 200, "answers": 2}, {"counts": {49_999: 190, 7: 10}}),
        (ConfidentNoisyMax(40, 20, 12), CLASSES, {"answers": 1}, {"counts": [1, 49]}),
        (LaplaceNoisyMax(25.0), 2, {"votes_per_unit": 3}, {"counts": [1, 49]}),
    ],
    ids=["lnmax", "exponential", "clipped", "sum", "sparse", "gate", "several votes"],
)
def test_every_law_answers_and_states_its_price(law, classes, given, payload):
    votes = made(law, classes, **given)
    answer = votes.answer(**payload)
    assert all(label is None or label in votes.classes for label in answer.labels)
    assert (answer.means is None) is not isinstance(law, GaussianSum)
    assert 0 < votes.guarantee().epsilon <= 2
    assert votes.design.settings()["law"]


def test_noise_is_that_of_the_law():
    votes = made(GaussianSum(2.0), 3, 4, budget=Budget(epsilon=500, delta=1e-6), answers=400, insecure_release_seed=0)
    given = soft(4, 3)
    means = np.array(votes.answer(log_probs=np.broadcast_to(given, (400, 4, 3))).means) - np.exp(given).mean(axis=0)
    # Replacing a voter's probabilities moves their sum by up to the root of 2. Five standard deviations.
    assert abs(means.std() / (2 * np.sqrt(2) / 4) - 1) < 5 / np.sqrt(2 * means.size)
    assert abs(means.mean()) < 5 * means.std() / np.sqrt(means.size)


def test_clipped_log_probabilities_are_votes_from_0_to_1():
    votes = made(ExponentialVote(0.5), 3, 2, clip=4.0, budget=Budget(epsilon=1e3, delta=1e-6), answers=1)
    given = np.array([[[0.0, -2.0, -np.inf], [-1.0, -1.0, -7.0]]])
    assert np.allclose(votes._votes(None, None, given) / 2**20, [[2.0, 1.5, 0.0]], atol=1e-5)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"law": "gnmaxx"}, "law='gnmaxx' is unknown"),
        ({"law": "interactive-gnmax"}, "student"),
        ({"classes": 1}, "classes=1"),
        ({"classes": ["a", "a"]}, "distinct"),
        ({"n_voters": 0}, "n_voters=0"),
        ({"relation": "swap"}, "relation='swap'"),
        ({"budget": 1.0}, "must be a Budget"),
        ({"sampling": "daily"}, "sampling='daily'"),
        ({"sampling": "fresh"}, "rate=None"),
        ({"rate": 0.1}, "fixed sampling takes none"),
        ({"clip": 2.0}, "clip=2"),
        ({"answers": 0}, "answers=0"),
        ({"votes_per_unit": 51}, "votes_per_unit=51"),
        ({"law": SparseNoisyMax(5.0, 40.0), "sampling": "fresh", "rate": 0.1}, "sampling='fixed'"),
        ({"law": GaussianSum(5.0), "classes": 5000}, "n_classes=5000"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(given, match):
    with pytest.raises(InvalidParameterError, match=match):
        made(**given)


@pytest.mark.parametrize("law", [GaussianNoisyMax(0.5), SparseNoisyMax(15.0, 20.0)])
def test_a_budget_that_is_too_small_is_refused_with_what_is_needed(law):
    with pytest.raises(BudgetError, match=r"5 answers need .*use more noise"):
        made(law, answers=5, budget=Budget(epsilon=0.1, delta=1e-6))


def test_a_law_without_a_price_is_refused():
    with pytest.raises(AccountingError, match="cannot be accounted for"):
        made("optimal", 10, n_voters=200)


class TestFreshSampling:
    def made(self, **given):
        return made("lnmax", 2, 10, sampling="fresh", rate=0.05, answers=20, **given)

    def test_every_answer_has_records_of_its_own(self):
        votes = self.made()
        drawn = votes.draw(1000)
        assert len(drawn.voters) == 10
        assert votes.answer(ballots=[1] * 10, drawn=drawn, key="a").label in (0, 1)
        assert votes.answer(ballots=[1] * 10, drawn=drawn, key="a").replayed
        with pytest.raises(DataError, match="used for an earlier answer"):
            votes.answer(ballots=[1] * 10, drawn=drawn, key="b")
        for bad in (None, [drawn, drawn]):
            with pytest.raises(DataError, match="one for each query"):
                votes.answer(ballots=[[1] * 10] * 2, drawn=bad)
        assert votes.remaining() == 19
        assert len(votes.answer(ballots=[[1] * 10] * 2, drawn=[votes.draw(10), votes.draw(10)]).labels) == 2

    def test_a_draw_of_the_same_number_by_another_aggregator_is_refused(self):
        one, other = self.made(), self.made()
        drawn, _ = one.draw(50), other.draw(50)
        assert one.answer(ballots=[1] * 10, drawn=drawn).label in (0, 1)
        with pytest.raises(DataError, match="this aggregator's"):
            other.answer(ballots=[1] * 10, drawn=drawn)

    def test_draws_of_others_are_refused(self):
        with pytest.raises(DataError, match="this aggregator's"):
            self.made().answer(ballots=[1] * 10, drawn=self.made().draw(50))
        with pytest.raises(DataError, match="leave it out"):
            made().answer(counts=[2, 48], drawn=self.made().draw(50))
        with pytest.raises(InvalidParameterError, match="sampling='fresh'"):
            made().draw(5)

    def test_records_are_drawn_at_the_rate_and_dealt_evenly(self):
        votes, n, voters = self.made(), 40_000, 10
        sizes = np.array([len(seen) for seen in votes.draw(n).voters])
        # Five standard deviations: a false alarm in a million.
        assert abs(sizes.sum() - 0.05 * n) < 5 * np.sqrt(0.05 * n)
        assert np.all(np.abs(sizes - 0.05 * n / voters) < 5 * np.sqrt(0.05 * n / voters))

    def test_the_rate_is_never_exceeded(self):
        class Edge:
            def uniform_bits(self, size):
                return np.array([2**62 - 1, 2**62], dtype=np.uint64)[:size]

        assert sum(map(len, Draws(1, 0.5, Edge()).draw(2).voters)) == 1

    def test_nothing_secret_is_shown(self):
        drawn = self.made().draw(100)
        assert repr(drawn) == "DrawnRecords(n_voters=10)"
        assert "secret" in str(self.made().guarantee())


def test_an_audit_from_outside_finds_most_of_the_loss_and_not_more():
    budget = Budget(epsilon=2, delta=1e-6)

    def run(counts, _):
        votes = Aggregator(LaplaceNoisyMax(3.0), 2, 10, relation="replace-one", budget=budget, answers=3)
        return sum(votes.answer(counts=[counts] * 3).labels)

    claimed = Aggregator(LaplaceNoisyMax(3.0), 2, 10, relation="replace-one", budget=budget, answers=3)
    result = audit_pipeline(run, [5, 5], [4, 6], n_runs=1500, delta=1e-6)
    assert not result.caught(claimed.guarantee().epsilon)
    assert result.epsilon_lower > 0.2 * claimed.guarantee().epsilon
