"""What sums and answers were released before one place charged for all of them: the same to the bit, charges too.

``released_sums.json`` holds every case by its name in plain words, floats in hexadecimal. Data follow from seeds.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from dpensemble import Aggregator, Budget
from dpensemble._random import SeededNoise
from dpensemble.accounting import GaussianSum, Group
from dpensemble.laws import ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, SparseNoisyMax
from dpensemble.moments import Moments, MomentsSource
from dpensemble.moments.averages import AnswerBound
from dpensemble.moments.learning import ClassSums, FeatureMean, FeatureProducts, Residuals, UnitCount
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from tests.records import records_behind

CASES = json.loads(Path(__file__).with_name("released_sums.json").read_text())
BUDGET = Budget(epsilon=2.0, delta=1e-5)
N_ROWS = 40
KINDS = ("count", "mean", "products", "first", "residuals", "later")


def hexadecimal(value):
    if isinstance(value, np.ndarray):
        return [float(one).hex() for one in value.ravel()]
    return None if value is None else float(value).hex()


def charged(meter):
    (one,) = meter.charges
    return {"sigma": one["sigma"], "variance": str(one["variance"]), "entries": one["entries"]}


def query_of(kind, source, n_classes, rng):
    centre, scale = rng.normal(size=(3, 1 if n_classes == 2 else n_classes)), np.linspace(0.5, 1, 3)
    first = source.first_query(n_classes)
    assert isinstance(first, ClassSums) is (source.nonnegative and source.sums.relation is Relation.REPLACE_ONE)
    return {
        "count": UnitCount(),
        "mean": FeatureMean(source.nonnegative),
        "products": FeatureProducts(),
        "first": first,
        "residuals": Residuals(n_classes),
        "later": Residuals(n_classes, centre, scale),
    }[kind]


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_label_moments(kind, n_classes, relation, nonnegative):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    weights = np.where(np.arange(N_ROWS) % 3, 1.0, 0.25)
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, N_ROWS)
    meter = SumsMeter([Group("everyone", BUDGET)])
    source = MomentsSource(
        blocks=records_behind(lambda rows: rows, X, y, weights),
        nonnegative=nonnegative,
        sums=SumReleaser(relation=relation, meter=meter, noise=SeededNoise(5)),
    )
    query = query_of(kind, source, n_classes, rng)
    total_weight = 1.0 if kind == "count" else float(weights.sum())
    outcome = source.noisy_sum(query, 0.1 if kind in KINDS[:3] else 0.2, total_weight)
    if isinstance(outcome, Moments):
        names = ("values", "spread", "mean", "mean_spread", "even_weight")
        released = {name: hexadecimal(getattr(outcome, name)) for name in names}
    else:
        released = {"values": hexadecimal(np.asarray(outcome[0])), "spread": hexadecimal(outcome[1])}
    signs = "nonnegative" if nonnegative else "any sign"
    case = dict(CASES[f"{kind}, {n_classes} classes, {relation.value}, {signs}"])
    assert meter.spent_epsilon == pytest.approx(case.pop("epsilon"), rel=1e-9)
    assert released | charged(meter) == case


BOUNDS = {
    "probabilities of two classes": AnswerBound.of_probabilities(3, 2, clip=1.0),
    "probabilities of three classes": AnswerBound.of_probabilities(1, 3, clip=0.5),
    "parameters": AnswerBound.of_parameters(3, clip=2.0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_averages_of_teachers(name):
    answers, weights = np.random.default_rng(1).normal(size=(5, 3)), np.array([1.0, 0.3, 1.0, 0.3, 1.0])
    meter = SumsMeter([Group("low", Budget(epsilon=0.5, delta=1e-5), weight=0.3), Group("high", BUDGET)])
    sums = SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=SeededNoise(6))
    values, spread = BOUNDS[name].noisy_average([answers[:2], answers[2:]], weights, sums)
    case = dict(CASES[f"average of {name}"])
    assert meter.spent_epsilon == pytest.approx(case.pop("epsilon"), rel=1e-9)
    assert {"values": hexadecimal(values), "spread": hexadecimal(spread)} | charged(meter) == case


LOG_PROBS = np.full((40, 3), np.log(1 / 3)) + np.array([0.4, 0, -0.2])
LOG_PROBS -= np.log(np.exp(LOG_PROBS).sum(axis=1, keepdims=True))
SPARSE = SparseNoisyMax(6.0, SparseNoisyMax.threshold_for(6.0, 1e-9))
FRESH = {"sampling": "fresh", "rate": 0.02}
AGGREGATORS = {
    "gnmax": (GaussianNoisyMax(9.0), {"counts": [[10, 25, 5], [20, 10, 10]]}, {}),
    "confident-gnmax": (ConfidentNoisyMax(25, 9, 9), {"counts": [[10, 25, 5]]}, {}),
    "fresh lnmax": (LaplaceNoisyMax(3.0), {"counts": [[10, 25, 5]]}, FRESH),
    "two votes a unit": (GaussianNoisyMax(9.0), {"ballots": [[0] * 10 + [2] * 30]}, {"votes_per_unit": 2}),
    "clipped exponential": (ExponentialVote(9.0), {"log_probs": [LOG_PROBS]}, {"clip": 10.0}),
    "fresh clipped exponential": (ExponentialVote(9.0), {"log_probs": [LOG_PROBS]}, {"clip": 10.0, **FRESH}),
    "sparse-gnmax": (SPARSE, {"counts": [[3, 36, 1], [14, 13, 13]]}, {}),
    "noisy mean": (GaussianSum(5.0), {"log_probs": [LOG_PROBS, LOG_PROBS[:, ::-1]]}, {}),
}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_answers_of_aggregators(name):
    law, votes, more = AGGREGATORS[name]
    (given,) = votes.values()
    one = Aggregator(
        law, 3, 40, relation="replace-one", budget=Budget(epsilon=3, delta=1e-6), insecure_release_seed=4, **more
    )
    drawn = [one.draw(100) for _ in given] if "rate" in more else None
    answer, case = one.answer(**votes, key="k", drawn=drawn), CASES[f"aggregator, {name}"]
    means = None if answer.means is None else [hexadecimal(np.array(row)) for row in answer.means]
    assert (list(answer.labels), means) == (case["labels"], case["means"])
    # The same to the byte: the text is what a ledger keeps.
    assert one._paid._texts["k"] == case["text"]
    assert (one.remaining() + len(given), one.guarantee().accounting) == (case["most"], case["accounting"])
    assert one.guarantee().epsilon == pytest.approx(case["epsilon"], rel=1e-9)
    assert one.quote(3).epsilon == pytest.approx(case["quote"], rel=1e-9)
    assert json.loads(json.dumps(one.design.settings())) == case["settings"]


def test_every_case_is_compared():
    assert len(CASES) == 2 * len(KINDS) * 4 + len(BOUNDS) + len(AGGREGATORS)
