"""The share of readable records is estimated from released means, within its stated error."""

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.moments.learning import _always_one, _always_one_of_cells, readable_share

N, RUNS = 3000, 5
SETTINGS = {"classes": [0, 1], "epsilon": 2.0, "delta": 1e-5, "on_bad_record": "zero"}
RNG = np.random.default_rng(0)


def table(n_rows):
    return pd.DataFrame(
        {"x": RNG.normal(size=n_rows), "z": RNG.normal(size=n_rows), "c": RNG.choice(list("abc"), n_rows)}
    )


TABLE, LABELS = table(N), RNG.integers(0, 2, N)


def spoiled(share):
    """Return labels of which a share is undeclared."""
    return np.where(np.arange(N) < share * N, 9, LABELS)


def fit(labels, seed, n_public=500, **more):
    settings = {
        "classes": [0, 1],
        "epsilon": 2.0,
        "delta": 1e-5,
        "on_bad_record": "zero",
        "insecure_release_seed": seed,
    }
    model = LabelMomentsClassifier(**settings | more)
    return model.fit(TABLE, labels, X_public=table(n_public))


@pytest.mark.filterwarnings("ignore:public rows do not look")
@pytest.mark.parametrize(
    ("n_public", "more"),
    [
        (500, {}),
        (2500, {}),
        (60, {}),
        (12, {}),
        (500, {"relation": "add-or-remove-one"}),
        (2500, {"relation": "add-or-remove-one"}),
    ],
    ids=["table map", "directions", "few rows", "very few rows", "add or remove", "directions, add or remove"],
)
@pytest.mark.parametrize("bad", [0.0, 0.3])
def test_the_estimate_is_within_its_error(bad, n_public, more):
    """Each estimate is within 4.5 standard deviations. A false alarm has chance 1e-3 in all 60 draws."""
    errors = []
    for seed in range(RUNS):
        found = fit(spoiled(bad), seed, n_public, **more).readable_share_
        if found is None:
            # Without class sums and with a map that has no mean of its own, no release could show it.
            assert (more, n_public) == ({"relation": "add-or-remove-one"}, 500)
            return
        errors.append((found.share - (1 - bad)) / found.error)
        assert 0 < found.error < 0.1
    assert np.abs(errors).max() < 4.5
    # The stated error is not a wide guess either: a chi-square of 5 is below 0.21 with chance 1e-3.
    assert np.square(errors).sum() > 0.21


@pytest.mark.filterwarnings("ignore:public rows do not look")
@pytest.mark.parametrize("n_public", [500, 2500, 60])
def test_new_categories_missing_entries_and_far_numbers_can_be_read(n_public):
    """All records are readable, so each estimate is within 4.5 standard deviations (false alarm 1e-4) of 1."""
    odd = TABLE.assign(c="d")
    odd.loc[::3, "x"], odd.loc[1::3, "x"] = np.nan, 1e6
    for seed in range(RUNS):
        model = LabelMomentsClassifier(**SETTINGS | {"insecure_release_seed": seed})
        found = model.fit(odd, LABELS, X_public=table(n_public)).readable_share_
        assert found is None or abs(found.share - 1) < 4.5 * found.error


def test_nothing_is_estimated_when_bad_records_are_refused():
    assert fit(LABELS, 0, on_bad_record="raise").readable_share_ is None


def test_a_combination_that_fits_by_chance_is_not_used():
    rows = RNG.normal(size=(40, 100))
    assert _always_one(rows) is None
    assert _always_one(rows[:1]) is None
    assert readable_share(np.zeros(100), 0.1, None) is None


def test_weights_of_cells_are_the_shortest_that_add_up_to_1():
    sizes = [2, 3, 5]
    cells = np.stack([RNG.integers(size, size=400) for size in sizes], axis=1)
    rows = np.hstack([np.eye(size)[cells[:, place]] for place, size in enumerate(sizes)]) / np.sqrt(3)
    assert _always_one_of_cells(sizes) == pytest.approx(_always_one(rows), abs=1e-6)


def test_the_error_is_that_of_the_combination():
    rows = np.eye(3)[[0, 1, 2, 0, 1, 2]] / 2
    found = readable_share(np.array([0.2, 0.1, 0.15]), 0.01, _always_one(rows), relative_error=0.03)
    assert found.share == pytest.approx(0.9)
    assert found.error == pytest.approx(np.hypot(2 * np.sqrt(3) * 0.01, 0.9 * 0.03))
