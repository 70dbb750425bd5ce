"""PATE over bagged teachers: what is charged, what is drawn, what is kept secret."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from dpensemble import BaggedPATEClassifier, Guarantee, PATEClassifier
from dpensemble.allocation import BootstrapScheme
from dpensemble.design.voting import _subsampled_cost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, OptimalVote

COMMON = {"classes": [0, 1], "n_teachers": 20, "epsilon": 2.0, "random_state": 0}
SCHEMES = ["distinct", "with-replacement", "subsets"]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "optimal"])
def test_every_variant_spends_what_the_public_settings_say(blobs, aggregator, scheme, relation):
    X, y, public = blobs
    settings = COMMON | {"law": aggregator, "scheme": scheme, "subsample": 2, "max_labels": 15}
    model = BaggedPATEClassifier(**settings).fit(X, y, X_public=public)
    if relation == "add-or-remove-one":
        # Nothing may follow from the number of records, so what was found there is given.
        model = BaggedPATEClassifier(**settings | {"law": model.law_}, relation=relation).fit(X, y, X_public=public)
    assert isinstance(
        model.law_, {"gnmax": GaussianNoisyMax, "lnmax": LaplaceNoisyMax, "optimal": OptimalVote}[aggregator]
    )
    holders = BootstrapScheme(scheme, 20, 2).holders(len(X))
    cost = _subsampled_cost(model.law_, holders, n_teachers=20, n_classes=2)
    cost = cost * 15
    cost.refine(2.0, 1e-5)
    assert len(model.labels_) == 15
    # The smallest noise that pays for this number of labels, and no more.
    assert cost.epsilon(1e-5) == pytest.approx(model.guarantee_.epsilon, rel=0.02)
    assert 1.95 < model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.relation == relation
    assert "Theorem 2" in model.guarantee_.accounting
    assert any("stays secret" in text for text in model.guarantee_.assumptions)
    assert Guarantee.from_dict(json.loads(json.dumps(model.guarantee_.to_dict()))) == model.guarantee_
    assert model.predict_proba(X).shape == (len(X), 2)
    assert [count for count, _ in model.spend_][-1] == 15


def test_all_records_drawn_once_cost_what_a_partition_costs(blobs):
    X, y, public = blobs
    X, y = X[:200], y[:200]
    bagged = BaggedPATEClassifier(**COMMON, subsample=10, law=GaussianNoisyMax(6.0)).fit(X, y, X_public=public)
    plain = PATEClassifier(**COMMON, law=GaussianNoisyMax(6.0)).fit(X, y, X_public=public)
    assert len(bagged.labels_) == len(plain.labels_) > 0
    assert bagged.guarantee_.epsilon == pytest.approx(plain.guarantee_.epsilon, rel=1e-3)


def test_by_default_half_of_the_records_are_drawn_and_answer_more(blobs):
    X, y, public = blobs
    bagged = BaggedPATEClassifier(**COMMON, law=GaussianNoisyMax(6.0)).fit(X, y, X_public=public)
    plain = PATEClassifier(**COMMON, law=GaussianNoisyMax(6.0)).fit(X, y, X_public=public)
    assert bagged.design_.scheme == BootstrapScheme("distinct", 20, len(X) // 40)
    assert len(bagged.labels_) > 1.5 * len(plain.labels_)


def test_the_public_seed_does_not_move_the_draws(blobs):
    X, y, public = blobs
    drawn = []

    class Remembers(KNeighborsClassifier):
        def fit(self, X, y):
            drawn.append(np.sort(X[:, 0]).tobytes())
            return super().fit(X, y)

    settings = COMMON | {"teacher": Remembers(1), "law": GaussianNoisyMax(6.0), "n_jobs": 1}
    for _ in range(2):
        BaggedPATEClassifier(**settings).fit(X, y, X_public=public)
    assert set(drawn[: len(drawn) // 2]).isdisjoint(drawn[len(drawn) // 2 :])
    drawn.clear()
    for _ in range(2):
        model = BaggedPATEClassifier(**settings, insecure_release_seed=3).fit(X, y, X_public=public)
    assert drawn[: len(drawn) // 2] == drawn[len(drawn) // 2 :]
    assert not model.guarantee_.for_release


def test_nothing_that_is_kept_tells_what_was_drawn(blobs):
    X, y, public = blobs
    model = BaggedPATEClassifier(**COMMON, scheme="with-replacement", subsample=3, law=GaussianNoisyMax(20.0))
    model.fit(X, y, X_public=public)
    # How many teachers hold the record that most do is secret. The public figure is the possible number.
    assert model.design_.groups[0].votes == 20
    kept = pickle.loads(pickle.dumps(vars(model)))  # noqa: S301
    assert not any("Allocation" in type(value).__name__ for value in kept.values())
    assert "Allocation" not in repr(kept)


def test_units_are_drawn_as_a_whole(blobs):
    X, y, public = blobs
    units = np.arange(len(X)) // 4
    model = BaggedPATEClassifier(**COMMON, law=GaussianNoisyMax(6.0)).fit(X, y, X_public=public, units=units)
    n_units = len(set(units.tolist()))
    assert model.design_.scheme.subsample == max(1, n_units // 40)
    assert model.guarantee_.unit == "unit"
    # Mixed spellings of one unit count once, so that no unit looks rarer than it is.
    mixed = [str(u) if i % 2 else int(u) for i, u in enumerate(units)]
    again = BaggedPATEClassifier(**COMMON, law=GaussianNoisyMax(6.0)).fit(
        X, y, X_public=public, units=np.array(mixed, dtype=object)
    )
    assert again.design_.scheme == model.design_.scheme
    assert len(again.labels_) == len(model.labels_)


def test_clones_and_refits_draw_and_pay_anew(blobs):
    X, y, public = blobs
    model = BaggedPATEClassifier(**COMMON, law=GaussianNoisyMax(6.0))
    again = clone(model).fit(X, y, X_public=public)
    first = again.labels_.labels.copy()
    again.fit(X, y, X_public=public)
    assert len(first) == len(again.labels_)


BAD = {
    "too many distinct draws": ({"subsample": 10_000}, InvalidParameterError, "distinct draws"),
    "subset of more than all": (
        {"scheme": "subsets", "subsample": 10_000},
        InvalidParameterError,
        "more than the",
    ),
    "scheme": ({"scheme": "without"}, InvalidParameterError, "scheme='without'"),
    "gate": (
        {"law": "confident-gnmax"},
        InvalidParameterError,
        "law='confident-gnmax' may leave queries of bagged teachers unanswered",
    ),
    "law": ({"law": "loudest"}, InvalidParameterError, "law='loudest' is unknown"),
    "no teachers": ({"n_teachers": 0}, InvalidParameterError, "n_teachers=0"),
    "no subsample": ({"subsample": 0}, InvalidParameterError, "subsample=0"),
    "delta": ({"delta": 0.5}, BudgetError, "not below 1/N"),
    "budget": ({"epsilon": 0.01, "law": GaussianNoisyMax(0.5)}, BudgetError, "too small for one label"),
    "labels": ({"max_labels": 0}, InvalidParameterError, "max_labels=0"),
}


@pytest.mark.parametrize(("settings", "error", "text"), BAD.values(), ids=BAD)
def test_bad_settings_are_one_sentence(blobs, settings, error, text):
    X, y, public = blobs
    model = BaggedPATEClassifier(**COMMON | settings)
    with pytest.raises(error, match=text):
        model.fit(X, y, X_public=public)
    assert not hasattr(model, "student_")


def test_all_records_cannot_be_drawn_if_one_may_be_missing(blobs):
    X, y, public = blobs
    settings = COMMON | {
        "relation": "add-or-remove-one",
        "subsample": 10,
        "law": GaussianNoisyMax(6.0),
        "max_labels": 5,
    }
    with pytest.raises(InvalidParameterError, match="distinct draws"):
        BaggedPATEClassifier(**settings).fit(X[:200], y[:200], X_public=public)
    BaggedPATEClassifier(**settings).fit(X[:201], y[:201], X_public=public)


@pytest.mark.parametrize("missing", ["subsample", "max_labels", "law"])
def test_nothing_follows_from_the_number_of_records_if_one_may_be_missing(blobs, missing):
    X, y, public = blobs
    settings = COMMON | {
        "relation": "add-or-remove-one",
        "subsample": 10,
        "law": GaussianNoisyMax(6.0),
        "max_labels": 5,
    }
    del settings[missing]
    with pytest.raises(InvalidParameterError, match=f"{missing}=.* would be computed from the number of records"):
        BaggedPATEClassifier(**settings).fit(X, y, X_public=public)
    with pytest.raises(BudgetError, match="max_labels=500 exceeds what epsilon=2"):
        BaggedPATEClassifier(**settings | {"subsample": 10, "law": GaussianNoisyMax(6.0), "max_labels": 500}).fit(
            X, y, X_public=public
        )


def test_a_law_that_few_ballots_are_priced_for_still_runs(blobs):
    X, y, public = blobs
    # Only the numbers of holders that matter are priced. All of them would be too many histograms.
    model = BaggedPATEClassifier(
        classes=[0, 1, 2, 3],
        n_teachers=20,
        subsample=1,
        scheme="subsets",
        law=OptimalVote(80),
        epsilon=3.0,
    ).fit(X, y, X_public=public[:20])
    assert len(model.labels_) > 0
    assert 0 < model.guarantee_.epsilon <= 3.0


def test_assumptions_name_what_is_protected(blobs):
    X, y, public = blobs
    settings = COMMON | {
        "law": GaussianNoisyMax(8.0),
        "subsample": 5,
        "max_labels": 5,
        "relation": "add-or-remove-one",
    }
    model = BaggedPATEClassifier(**settings).fit(X, y, X_public=public, units=np.arange(len(X)) // 2)
    text = " ".join(model.guarantee_.assumptions)
    assert "The number of private units is public, although a neighbouring data set has one more or fewer." in text
    assert "list their other records in the same order" in text
