"""Units as people declare them: any type is numbered, or refused in one sentence."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble._units import unit_numbers
from dpensemble.errors import DataError, DPEnsembleError, HiddenError

N = 40
DAY = datetime.date(2024, 1, 1)
UNITS = {
    "floats": [place // 2 + 0.5 for place in range(N)],
    "lists": [[place // 2] for place in range(N)],
    "lists of different lengths": [[1] * (1 + place % 3) for place in range(N)],
    "dates": [DAY + datetime.timedelta(days=place // 2) for place in range(N)],
    "times": pd.Series(pd.date_range("2024-01-01", periods=N, tz="UTC")),
    "signaling NaN": [Decimal("sNaN")] * N,
    "none": [None] * N,
}


# Label moments number the units of `raise` themselves. Lists of different lengths end there without a message.
KINDS = [(kind, bad) for kind in UNITS for bad in ("raise", "zero") if (kind[:9], bad) != ("lists of ", "raise")]


@pytest.mark.parametrize(("kind", "on_bad_record"), KINDS)
def test_units_of_other_types_raise_what_can_be_shown(kind, on_bad_record):
    X = np.random.default_rng(0).normal(size=(N, 2))
    model = LabelMomentsClassifier(epsilon=5, delta=1e-3, classes=[0, 1], on_bad_record=on_bad_record)
    with pytest.raises(DPEnsembleError) as raised:
        model.fit(X, (X[:, 0] > 0).astype(int), X_public=X, units=UNITS[kind])
    assert not isinstance(raised.value, HiddenError)


@pytest.mark.parametrize("units", [[[1], [1, 2]], [0.5, 1.5], [DAY, DAY]])
def test_a_unit_must_be_a_text_a_whole_number_or_bytes(units):
    with pytest.raises(DPEnsembleError, match="must be strings, integers or bytes"):
        unit_numbers(units, 2)


def test_a_unit_is_needed_of_one_record_at_least():
    with pytest.raises(DataError, match="missing"):
        unit_numbers([None, None], 2)
