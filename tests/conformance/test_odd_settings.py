"""Settings that are numbers of odd kinds: each is refused by a typed error, which names the parameter."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpensemble import (
    Aggregator,
    Budget,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    SoftVotesClassifier,
    plan,
)
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import ExponentialVote, GaussianNoisyMax

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

ODD = {
    "complex": 1 + 0j,
    "numpy-complex": np.complex128(1),
    "huge": 10**400,
    "unwritable": 10**5000,
    "negative": -(10**400),
    "fraction": Fraction(10**5000, 3),
    "signaling": Decimal("sNaN"),
    "decimal-nan": Decimal("NaN"),
    "nan": float("nan"),
    "masked": np.ma.masked,
}
AGGREGATOR = {
    "law": GaussianNoisyMax(8.0),
    "classes": 2,
    "n_voters": 50,
    "relation": "replace-one",
    "budget": Budget(epsilon=2, delta=1e-6),
}
ODD_SETTINGS = ("law", "classes", "n_voters", "relation", "budget", "sampling", "rate", "clip", "answers", "votes_per_unit")


@pytest.mark.parametrize("odd", ODD)
class TestOddNumbers:
    def test_in_a_budget(self, odd):
        with pytest.raises(InvalidParameterError, match="epsilon="):
            Budget(epsilon=ODD[odd], delta=1e-6)
        with pytest.raises(InvalidParameterError, match="delta="):
            Budget(epsilon=1, delta=ODD[odd])

    @pytest.mark.parametrize("name", ["epsilon", "labels", "delta"])
    def test_in_a_plan(self, odd, name):
        given = {"labels": ODD[odd]} if name == "labels" else {"epsilon": 1} | {name: ODD[odd]}
        with pytest.raises(InvalidParameterError, match=f"{name}="):
            plan(PATEClassifier(n_teachers=100).design(n_classes=2), **given)

    @pytest.mark.parametrize("name", ODD_SETTINGS)
    def test_in_an_aggregator(self, odd, name):
        more = {"sampling": "fresh"} if name == "rate" else {"law": ExponentialVote(9.0)} if name == "clip" else {}
        with pytest.raises(InvalidParameterError, match=name):
            Aggregator(**AGGREGATOR | more | {name: ODD[odd]})

    def test_in_what_an_aggregator_is_asked(self, odd):
        with pytest.raises(InvalidParameterError, match="n="):
            Aggregator(**AGGREGATOR).quote(ODD[odd])
        with pytest.raises(DataError, match="key="):
            Aggregator(**AGGREGATOR).answer(counts=[20, 30], key=ODD[odd])
        fresh = Aggregator(**AGGREGATOR, sampling="fresh", rate=0.1)
        with pytest.raises(InvalidParameterError, match="n_records="):
            fresh.draw(ODD[odd])
        with pytest.raises(DataError, match="drawn must be"):
            fresh.answer(counts=[20, 30], drawn=ODD[odd])

    def test_in_classes(self, odd):
        for classes in ([0, ODD[odd]], np.array([0, ODD[odd]], dtype=object)):
            with pytest.raises(InvalidParameterError, match="classes="):
                Aggregator(**AGGREGATOR | {"classes": classes})

    @pytest.mark.parametrize("method", [PATEClassifier, LabelMomentsClassifier, SoftVotesClassifier])
    def test_in_the_budget_of_a_method(self, odd, method):
        for name in ("epsilon", "delta"):
            with pytest.raises(InvalidParameterError, match=f"{name}="):
                method(**{name: ODD[odd]}).design(n_classes=2).groups[0].budget  # noqa: B018
        with pytest.raises(InvalidParameterError, match="n_classes="):
            method().design(n_classes=ODD[odd])

    def test_in_the_privacy_of_a_teacher(self, odd):
        with pytest.raises(InvalidParameterError, match=r"epsilon|teacher_privacy"):
            PrivateMajorityClassifier(teacher_privacy=ODD[odd]).design(n_classes=2)


def test_masked_classes_are_refused():
    with pytest.raises(InvalidParameterError, match="classes="):
        Aggregator(**AGGREGATOR | {"classes": np.ma.masked_array([0, 1], mask=[False, True])})
