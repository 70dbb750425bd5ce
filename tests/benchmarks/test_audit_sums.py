"""The audit of whole fits: each case is a bad pair, honest noise passes, and half of the noise fails."""

import warnings

import pytest

from audit_sums import CASES, audit, half_of_the_noise

BY_NAME = {case.name: case for case in CASES}
# Fits to each of two tables: how far apart both are needs few, and bounds need many.
FEW, MANY = 1, 150


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", BY_NAME)
def test_a_pair_is_nearly_as_far_apart_as_is_charged(name):
    """An audit of another pair would miss a library that charges too little."""
    charged, attacked, _, _ = audit(BY_NAME[name], FEW)
    assert 0.96 * charged <= attacked <= charged * (1 + 1e-6)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_whole_fit_loses_what_is_charged_and_no_more(name):
    """Of a right library, 1 in 100 seeds is beyond the charge. Noise of twice the deviation is below the lower end."""
    charged, _, _, lower = audit(BY_NAME[name], MANY)
    assert 0.55 * charged <= lower <= charged


@pytest.mark.parametrize("name", ["two classes", "a number, opposite signs", "times"])
def test_half_of_the_noise_is_caught(name):
    """The best test then errs once in 3,000 runs. With two errors it would not be caught: 4 in 1,000 seeds."""
    with half_of_the_noise():
        charged, _, _, lower = audit(BY_NAME[name], MANY)
    assert lower > charged
