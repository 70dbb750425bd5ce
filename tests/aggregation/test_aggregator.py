"""The aggregator: what it charges, refuses, replays and promises.

Votes that cannot be used are refused before anything is charged.

Records drawn for an answer: what is drawn is what the guarantee protects.
"""

import threading
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpensemble import Aggregator, Budget
from dpensemble._random import SystemNoise
from dpensemble._spending import listen
from dpensemble.accounting import GaussianSum
from dpensemble.aggregation.aggregator import _FreshRecords, _PaidInMemory
from dpensemble.audit import audit_pipeline
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, SparseNoisyMax
from dpensemble.releases import NoisyMean
from dpensemble.releases import answers as labels
from dpensemble.releases.answers import _ProbabilitiesSum

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
        patch.setattr(labels, "sample", fails)
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
    assert votes.remaining() == votes.design.promised_answers
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
    assert np.allclose(votes._votes.read(None, None, given)[0] / 2**20, [[2.0, 1.5, 0.0]], atol=1e-5)


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

        assert sum(map(len, _FreshRecords(1, 0.5, Edge()).draw(2).voters)) == 1

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


PAYLOAD_BUDGET = Budget(epsilon=4, delta=1e-6)
EVEN = np.log(np.full((10, 3), 1 / 3))
MADE = {
    "named": lambda: Aggregator(
        GaussianNoisyMax(4.0), ["a", "b", 3], 10, relation="replace-one", budget=PAYLOAD_BUDGET, answers=2
    ),
    "numbered": lambda: Aggregator(
        GaussianNoisyMax(4.0), 3, 10, relation="replace-one", budget=PAYLOAD_BUDGET, answers=2
    ),
    "sparse": lambda: Aggregator(
        SparseNoisyMax(4.0, 30.0), 50_000, 10, relation="replace-one", budget=PAYLOAD_BUDGET, answers=2
    ),
    "clipped": lambda: Aggregator(
        ExponentialVote(9.0), 3, 10, relation="replace-one", budget=PAYLOAD_BUDGET, answers=2, clip=5.0
    ),
    "mean": lambda: Aggregator(GaussianSum(5.0), 3, 10, relation="replace-one", budget=PAYLOAD_BUDGET, answers=2),
}


def edited(entry):
    changed = EVEN.copy()
    changed[4, 1] = entry
    return changed


@pytest.mark.parametrize(
    ("which", "given", "match"),
    [
        ("named", {"counts": [11, 0, 0]}, "from 0 to n_voters=10"),
        ("named", {"counts": [5, 5, 1]}, "add up to n_voters=10"),
        ("named", {"counts": [5, 4, 0]}, "declare a class for abstaining"),
        ("named", {"counts": [11, -1, 0]}, "whole numbers"),
        ("named", {"counts": [9.5, 0.5, 0]}, "whole numbers"),
        ("named", {"counts": [np.nan, 5, 5]}, "whole numbers"),
        ("named", {"counts": [np.inf, 0, 0]}, "whole numbers"),
        ("named", {"counts": [2.0**70, 0, 0]}, "whole numbers"),
        ("named", {"counts": ["5", "5", "0"]}, "whole numbers"),
        ("named", {"counts": [True, False, False]}, "whole numbers"),
        ("named", {"counts": [5, 5]}, "3 values, one a class"),
        ("named", {"counts": [[5, 5, 0], [5, 5]]}, "3 values"),
        ("named", {"counts": []}, "3 values"),
        ("named", {"counts": {"a": 5, "c": 5}}, "must hold declared classes only"),
        ("named", {"counts": {}}, "add up"),
        ("named", {"ballots": ["a"] * 9}, "10 values, one a voter"),
        ("named", {"ballots": ["a"] * 9 + ["c"]}, "must hold declared classes only"),
        ("named", {"ballots": ["a"] * 9 + [["b"]]}, "must hold declared classes only|10 values"),
        ("named", {"ballots": ["a"] * 9 + [None]}, "must hold declared classes only"),
        ("numbered", {"ballots": [0] * 9 + [3]}, "from 0 to 2"),
        ("numbered", {"ballots": [0] * 9 + [-1]}, "from 0 to 2"),
        ("numbered", {"ballots": [0.0] * 10}, "from 0 to 2"),
        ("numbered", {"ballots": [[[0] * 10]]}, "10 values"),
        ("numbered", {"ballots": None}, "takes ballots or counts"),
        ("numbered", {"ballots": [0] * 10, "counts": [10, 0, 0]}, "give exactly one, by name"),
        ("numbered", {"log_probs": EVEN}, "takes ballots or counts"),
        ("sparse", {"counts": {50_000: 10}}, "from 0 to 49999"),
        ("sparse", {"counts": {1: 11}}, "from 0 to n_voters"),
        ("sparse", {"counts": {1: 10, 2: -1}}, "from 0 to n_voters"),
        ("sparse", {"counts": {"1": 10}}, "from 0 to 49999"),
        ("clipped", {"counts": [10, 0, 0]}, "takes log_probs"),
        ("clipped", {"log_probs": edited(np.nan)}, "no NaN"),
        ("clipped", {"log_probs": edited(np.inf)}, "none above 0"),
        ("clipped", {"log_probs": edited(0.5)}, "none above 0"),
        ("clipped", {"log_probs": np.full((10, 3), -np.inf)}, "one finite a voter"),
        ("clipped", {"log_probs": EVEN[:9]}, "shape"),
        ("clipped", {"log_probs": "none"}, "array of numbers"),
        ("mean", {"log_probs": edited(np.nan)}, "no NaN"),
        ("mean", {"log_probs": EVEN[:, :2]}, "shape"),
        ("numbered", {"counts": [10, 0, 0], "key": ""}, "key=''"),
        ("numbered", {"counts": [10, 0, 0], "key": "x" * 201}, "key='xxx"),
        ("numbered", {"counts": [10, 0, 0], "key": 7}, "key=7"),
        ("numbered", {"counts": [10, 0, 0], "key": "a\nb"}, "printable"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
def test_bad_votes_are_refused_and_cost_nothing(which, given, match):
    votes = MADE[which]()
    most = votes.remaining()
    with pytest.raises(DataError, match=match):
        votes.answer(**given)
    assert votes.remaining() == most


def test_ballots_counts_and_mappings_are_the_same_votes():
    votes = MADE["named"]()
    ways = [
        {"ballots": [3, "b"] * 5},
        {"ballots": np.array([3, "b"] * 5, dtype=object)},
        {"counts": [0, 5, 5]},
        {"counts": np.array([0.0, 5.0, 5.0])},
        {"counts": {3: 5, "b": 5}},
        {"counts": {3: 5, "a": 0, "b": 5}},
    ]
    answers = [votes.answer(**way, key="same") for way in ways]
    assert len({answer.labels for answer in answers}) == 1
    assert all(answer.replayed for answer in answers[1:])


def test_no_voter_can_move_a_sum_of_probabilities_further_than_is_charged():
    rng = np.random.default_rng(0)
    rows = np.log(rng.dirichlet(np.full(6, 0.3), 200))
    hostile = np.array([[0.0] * 6, [1e-7] * 6, [-np.inf] * 5 + [0.0], [-700.0] * 6])
    found = NoisyMean(GaussianSum(5.0)).whole(np.concatenate([rows, hostile])[None])[0].astype(object)
    lengths = [sum(entry**2 for entry in row) for row in found]
    assert max(lengths) <= _ProbabilitiesSum.unit**2
    assert found.min() >= 0
    apart = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in found[-4:] for y in found]
    assert max(apart) <= _ProbabilitiesSum.replacing**2


# What NumPy reads as a number that it is not, and what it raises errors of its own for.
ODD = {
    "huge": 10**400,
    "unwritable": 10**5000,
    "negative": -(10**400),
    "fraction": Fraction(10**5000, 3),
    "signaling": Decimal("sNaN"),
    "decimal": Decimal("NaN"),
    "complex": 0j,
    "masked": np.ma.masked,
}


def objects(values, entry):
    found = np.asarray(values).astype(object)
    found.reshape(-1)[1] = entry
    return found


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("which", MADE)
def test_odd_numbers_among_votes_are_refused(which, odd):
    votes = MADE[which]()
    most, n_classes = votes.remaining(), len(votes.classes)
    if which in ("clipped", "mean"):
        given = [{"log_probs": objects(EVEN, ODD[odd])}, {"log_probs": objects(EVEN, ODD[odd]).tolist()}]
        # Old releases of pandas make no table of a number that no float can hold.
        with suppress(OverflowError):
            given.append({"log_probs": pd.DataFrame(objects(EVEN, ODD[odd]))} if odd != "masked" else given[0])
    else:
        ballots = objects([votes.classes[0]] * 10, ODD[odd])
        given = [{"ballots": ballots}, {"ballots": list(ballots)}, {"counts": {votes.classes[0]: 10, 1: ODD[odd]}}]
        if n_classes < 10:
            given += [{"counts": objects([10, 0, 0], ODD[odd])}, {"counts": [10, ODD[odd], 0]}]
    for one in given:
        with pytest.raises(DataError) as caught:
            votes.answer(**one)
        assert "000000" not in str(caught.value)
    assert votes.remaining() == most


@pytest.mark.parametrize(
    ("which", "given", "match"),
    [
        ("numbered", {"ballots": np.ma.masked_array([0] * 10, mask=[1] + [0] * 9)}, "ballots is a numpy masked array"),
        ("named", {"ballots": np.ma.masked_array(["a"] * 10, mask=[1] + [0] * 9)}, "ballots is a numpy masked array"),
        ("numbered", {"counts": np.ma.masked_array([10, 0, 0], mask=[0, 0, 1])}, "counts is a numpy masked array"),
        ("clipped", {"log_probs": np.ma.masked_array(EVEN, mask=EVEN > 0)}, "log_probs is a numpy masked array"),
        ("mean", {"log_probs": EVEN + 0j}, "Complex data not supported: log_probs"),
        ("numbered", {"ballots": np.zeros(10) + 0j}, "Complex data not supported: ballots"),
        ("named", {"ballots": np.full(10, 3 + 0j)}, "Complex data not supported: ballots"),
        ("numbered", {"counts": np.array([10, 0, 0]) + 0j}, "Complex data not supported: counts"),
        ("numbered", {"counts": {0: np.array([5, 5]), 1: 5}}, "counts must be"),
    ],
)
def test_masked_and_complex_votes_are_refused(which, given, match):
    votes = MADE[which]()
    most = votes.remaining()
    with pytest.raises(DataError, match=match):
        votes.answer(**given)
    assert votes.remaining() == most


PATIENTS = np.repeat(np.arange(4000), 5)


def drawing(**given):
    settings = {"unit": "patient", "rate": 0.05, "answers": 20} | given
    budget = Budget(epsilon=2, delta=1e-6)
    return Aggregator("lnmax", 2, 10, relation="replace-one", budget=budget, sampling="fresh", **settings)


class TestUnits:
    @pytest.mark.parametrize("units", [PATIENTS, [f"patient {one}" for one in PATIENTS]], ids=["numbers", "texts"])
    def test_all_records_of_a_unit_go_to_one_voter_or_to_nobody(self, units):
        voters = drawing().draw(units=units).voters
        seen = np.concatenate(voters)
        assert len(seen) == len(set(seen.tolist()))
        whom = [set(PATIENTS[positions].tolist()) for positions in voters]
        assert sum(map(len, whom)) == len(set().union(*whom))
        assert len(seen) == 5 * sum(map(len, whom))
        assert all(np.all(np.diff(positions) > 0) for positions in voters)

    def test_units_are_drawn_at_the_rate_however_many_records_they_have(self):
        sizes = np.random.default_rng(0).integers(1, 9, 20_000)
        units = np.random.default_rng(1).permutation(np.repeat(np.arange(20_000), sizes))
        drawn = {one for positions in drawing().draw(units=units).voters for one in units[positions].tolist()}
        # Five standard deviations: a false alarm in a million.
        assert abs(len(drawn) - 1000) < 5 * np.sqrt(1000)

    def test_a_draw_without_units_is_refused_where_units_are_protected(self):
        with pytest.raises(InvalidParameterError, match=r"unit='patient' needs units in draw\(\)") as caught:
            drawing().draw(1000)
        assert caught.value.parameter == "units"
        assert len(drawing().draw(units=range(1000)).voters) == 10

    def test_units_are_refused_where_records_are_protected(self):
        with pytest.raises(InvalidParameterError, match="this one protects records"):
            drawing(unit="record").draw(units=PATIENTS)

    def test_a_number_of_records_must_be_that_of_the_units(self):
        assert drawing().draw(3, units=["a", "b", "a"]).n_records == 3
        with pytest.raises(DataError, match="n_records=4 must match units, which has 3 entries"):
            drawing().draw(4, units=["a", "b", "a"])

    @pytest.mark.parametrize("missing", [None, float("nan"), np.ma.masked, 1j, 10**400])
    def test_a_record_without_a_unit_is_refused(self, missing):
        with pytest.raises(DataError, match="units"):
            drawing().draw(units=["a", "b", missing])

    def test_no_records_are_drawn_from_none(self):
        assert sum(map(len, drawing().draw(units=[]).voters)) == 0

    def test_an_answer_is_given_and_its_guarantee_names_the_unit(self):
        votes = drawing()
        assert votes.answer(ballots=[1] * 10, drawn=votes.draw(units=PATIENTS)).label in (0, 1)
        told = str(votes.guarantee())
        assert "drew each patient independently, with all its records" in told
        assert "records of each drawn patient were seen by one voter only" in told

    def test_the_rate_of_units_is_never_exceeded(self):
        class Edge:
            def uniform_bits(self, size):
                return np.array([2**62 - 1, 2**62], dtype=np.uint64)[:size]

        drawn = _FreshRecords(1, 0.5, Edge()).draw(4, ["a", "b", "a", "b"])
        assert drawn.voters[0].tolist() == [0, 2]


@pytest.mark.parametrize("drawn", [7, np.array([1, 2]), "drawn", [None], [object], np.ma.masked, {}], ids=repr)
def test_other_objects_than_draws_are_refused(drawn):
    with pytest.raises(DataError, match=r"drawn must be 1 results of this aggregator's draw\(\)"):
        drawing().answer(ballots=[1] * 10, drawn=drawn)


def test_records_by_themselves_are_drawn_as_before():
    class Scripted:
        def __init__(self):
            self.given = iter([np.array([0, 2**62, 1, 5], dtype=np.uint64), np.array([1, 0, 1], dtype=np.uint64)])

        def uniform_bits(self, size):
            found = next(self.given)
            assert len(found) == size
            return found

    assert [one.tolist() for one in _FreshRecords(2, 0.25, Scripted()).draw(4).voters] == [[2], [0, 3]]
    assert len(_FreshRecords(2, 0.25, SystemNoise()).draw(0).voters) == 2


def test_a_listener_that_asks_during_the_charge_is_refused_and_buys_no_answers():
    """Otherwise both requests would pay for all answers, and each would have its own count of them."""
    votes, refused = made(), []
    most = votes.remaining()

    class Asks:
        def hear(self, spending):
            with pytest.raises(BudgetError, match="asked again by a thread that it is charging for"):
                votes.answer(counts=[2, 48], key="inner")
            refused.append(spending)

    with listen(Asks().hear):
        votes.answer(counts=[48, 2], key="outer")
    assert len(refused) == 1
    assert votes.remaining() == most - 1
    votes.answer(counts=[[2, 48]] * (most - 1))
    with pytest.raises(BudgetError, match="0 are left"):
        votes.answer(counts=[2, 48])


def test_a_request_within_a_request_uses_no_draw_of_records_twice(monkeypatch):
    votes = drawing()
    drawn = votes.draw(units=range(40))
    real = _PaidInMemory.take

    def take(self, key, request, answers):
        if key == "outer":
            with pytest.raises(BudgetError, match="asked again by a thread that it is charging for"):
                votes.answer(ballots=[1] * 10, key="inner", drawn=drawn)
        return real(self, key, request, answers)

    monkeypatch.setattr(_PaidInMemory, "take", take)
    votes.answer(ballots=[0] * 10, key="outer", drawn=drawn)
    with pytest.raises(DataError, match="drawn"):
        votes.answer(ballots=[1] * 10, key="inner", drawn=drawn)
