"""Bagging without noise: figures of the paper, accuracy, and the edges. tests/oracle/test_bagging.py enumerates."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting import bagging_delta, largest_subsample, published_bagging
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.errors import BudgetError, InvalidParameterError

MNIST = 60_000
# Subsample, epsilon and delta as printed in the paper's tables 2 (n = 60,000) and 3 (n = 50,000), one model.
PRINTED = [
    (MNIST, 300, 0.005, 0.005),
    (MNIST, 500, 0.0083, 0.0083),
    (MNIST, 1000, 0.017, 0.017),
    (MNIST, 5000, 0.083, 0.080),
    (MNIST, 10_000, 0.167, 0.154),
    (50_000, 1000, 0.02, 0.02),
    (50_000, 5000, 0.1, 0.095),
    (50_000, 10_000, 0.2, 0.181),
    (50_000, 20_000, 0.4, 0.33),
    (50_000, 30_000, 0.6, 0.45),
]


@pytest.mark.parametrize(("n", "size", "epsilon", "delta"), PRINTED)
def test_the_papers_tables(n, size, epsilon, delta):
    scheme = BootstrapScheme("with-replacement", 1, size)
    digits = len(str(delta)) - 2
    # Half a unit more, since the paper rounds some figures and cuts others.
    assert bagging_delta(scheme, n) == pytest.approx(delta, abs=10.0**-digits)
    assert published_bagging(scheme, n)[0] == pytest.approx(epsilon, abs=6e-4)
    assert published_bagging(scheme, n)[1] == bagging_delta(scheme, n)


def test_by_hand():
    found = [bagging_delta(BootstrapScheme("with-replacement", 1, k), MNIST) for k in (300, 500, 1000, 5000, 10_000)]
    assert [round(delta, 4) for delta in found] == [0.005, 0.0083, 0.0165, 0.08, 0.1535]
    # Only the total counts with replacement and for distinct draws. Subsets that may overlap hold slightly less.
    for scheme, delta in (("with-replacement", found[0]), ("distinct", 0.005)):
        assert bagging_delta(BootstrapScheme(scheme, 3, 100), MNIST) == delta
    assert bagging_delta(BootstrapScheme("subsets", 3, 100), MNIST) == pytest.approx(0.005 - 3 * (1 / 600) ** 2)


SCHEMES = st.tuples(
    st.sampled_from(list(Bootstrap)), st.integers(1, 3000), st.integers(1, 10**6), st.integers(1, 10**9)
)


def exact(scheme, n):
    """The probability that one unit is drawn, in 60 digits."""
    mpmath.mp.dps = 60
    total, n = mpmath.mpf(scheme.n_models) * scheme.subsample, mpmath.mpf(n)
    return {
        Bootstrap.WITH_REPLACEMENT: lambda: 1 - (1 - 1 / n) ** total,
        Bootstrap.DISTINCT: lambda: total / n,
        Bootstrap.SUBSETS: lambda: 1 - (1 - scheme.subsample / n) ** scheme.n_models,
    }[scheme.scheme]()


@given(SCHEMES)
def test_delta_is_rounded_up_and_accurate_at_any_size(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    needed = {Bootstrap.DISTINCT: scheme.n_draws, Bootstrap.SUBSETS: scheme.subsample}.get(scheme.scheme, 1)
    n = max(n, needed)
    claim, true = bagging_delta(scheme, n), exact(scheme, n)
    assert 0 < claim <= 1
    assert claim == 1 or mpmath.mpf(repr(claim)) >= true * (1 - mpmath.mpf(10) ** -40)
    assert claim <= true * (1 + 1e-14)
    assert claim >= 1 / n


@given(SCHEMES)
def test_the_published_epsilon_is_rounded_up_and_accurate(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    n = max(n, scheme.n_draws, scheme.subsample)
    published = published_bagging(scheme, n)
    if scheme.scheme is Bootstrap.SUBSETS:
        assert published is None
        return
    mpmath.mp.dps = 60
    total, size = mpmath.mpf(scheme.n_draws), mpmath.mpf(n)
    true = {
        Bootstrap.WITH_REPLACEMENT: total * mpmath.log((size + 1) / size),
        Bootstrap.DISTINCT: mpmath.log((size + 1) / (size + 1 - total)),
    }[scheme.scheme]
    assert true <= published[0] <= true * (1 + 1e-13)


@given(SCHEMES.map(lambda found: (found[0], 1 + found[1] % 300, *found[2:])))
def test_the_law_of_holders_adds_up_and_agrees_with_delta(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    n = max(n, {Bootstrap.DISTINCT: scheme.n_draws, Bootstrap.SUBSETS: scheme.subsample}.get(scheme.scheme, 1))
    law, delta = scheme.holders(n), bagging_delta(scheme, n)
    assert law.sum() == pytest.approx(1, abs=1e-11)
    assert law[1:].sum() == pytest.approx(delta, rel=1e-11)
    mean = {
        Bootstrap.WITH_REPLACEMENT: scheme.n_models * -np.expm1(scheme.subsample * np.log1p(-1 / n)) if n > 1 else 1,
    }.get(scheme.scheme, scheme.n_draws / n)
    if n > 1:
        assert law @ np.arange(len(law)) == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize(("n", "n_models", "size"), [(60_000, 50, 300), (7, 40, 6), (5000, 250, 4900)])
def test_the_law_of_holders_is_accurate_far_into_its_tails(n, n_models, size):
    mpmath.mp.dps = 60
    for scheme in (Bootstrap.WITH_REPLACEMENT, Bootstrap.SUBSETS):
        missed = {
            Bootstrap.WITH_REPLACEMENT: (1 - mpmath.mpf(1) / n) ** size,
            Bootstrap.SUBSETS: 1 - mpmath.mpf(size) / n,
        }[scheme]
        law = BootstrapScheme(scheme, n_models, size).holders(n)
        for number in range(n_models + 1):
            true = mpmath.binomial(n_models, number) * (1 - missed) ** number * missed ** (n_models - number)
            if true > 1e-290:
                assert abs(law[number] / true - 1) < 1e-11


def test_edges():
    # Everything is drawn for sure.
    for settings, n in (
        (("distinct", 2, 3), 6),
        (("subsets", 2, 6), 6),
        (("with-replacement", 1, 1), 1),
        (("subsets", 1, 1), 1),
    ):
        scheme = BootstrapScheme(*settings)
        assert bagging_delta(scheme, n) == 1
        assert scheme.holders(n)[0] == 0
    assert published_bagging(BootstrapScheme("distinct", 2, 3), 6) == pytest.approx((np.log(7), 1))
    # One record a model: nothing can repeat within one, and round figures stay round.
    for scheme in Bootstrap:
        assert bagging_delta(BootstrapScheme(scheme, 1, 1), 1000) == 0.001
    assert bagging_delta(BootstrapScheme("distinct", 3, 100), 1000) == 0.3
    assert BootstrapScheme("distinct", 1, 1).holders(4).tolist() == [0.75, 0.25]
    # Large subsamples with replacement come close to 1, not beyond.
    assert bagging_delta(BootstrapScheme("with-replacement", 1000, 10**6), 1000) == 1
    with pytest.raises(InvalidParameterError, match="use a subsample of at most 3"):
        bagging_delta(BootstrapScheme("distinct", 2, 4), 7)


@given(st.sampled_from(list(Bootstrap)), st.floats(1e-4, 0.999), st.integers(2, 10**6), st.integers(1, 50))
def test_the_inverse_is_the_largest_that_fits(scheme, delta, n, n_models):
    try:
        found = largest_subsample(delta, n, n_models, scheme)
    except (BudgetError, InvalidParameterError):
        assert n_models > n or bagging_delta(BootstrapScheme(scheme, n_models, 1), n) > delta
        return
    assert bagging_delta(BootstrapScheme(scheme, n_models, found), n) <= delta
    try:
        assert bagging_delta(BootstrapScheme(scheme, n_models, found + 1), n) > delta
    except InvalidParameterError:
        assert scheme is not Bootstrap.WITH_REPLACEMENT


def test_the_inverse_of_printed_figures_and_of_decimals():
    assert [largest_subsample(delta, MNIST) for delta in (0.005, 0.0165287, 0.5)] == [300, 1000, 41_588]
    # 0.3 is below 3/10 as a double, but it is the decimal that people mean.
    assert Fraction(0.3) < Fraction(3, 10)
    assert largest_subsample(0.3, 1000, 1, "distinct") == 300
    assert largest_subsample(0.3, 1000, 3, "distinct") == 100
    assert largest_subsample(0.999, 10, 1, "subsets") == 9


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (1e-6, MNIST),
            BudgetError,
            "where 1 model of one record each need delta=1.667e-05 at any epsilon: use at",
        ),
        ((1e-4, MNIST, 10), BudgetError, "10 models of one record each need delta=0.0001667 "),
        ((0.9, 1), BudgetError, "need delta=1 at any epsilon: use more records"),
        ((0.5, 3, 4, "distinct"), InvalidParameterError, "use at most 3 models, or scheme='subsets'"),
        ((0, 10), InvalidParameterError, "delta=0 is not a number strictly between"),
        ((1.0, 10), InvalidParameterError, r"delta=1\.0"),
        ((float("nan"), 10), InvalidParameterError, "delta=nan"),
        ((0.1, 0), InvalidParameterError, "n_units=0"),
        ((0.1, 10, 0), InvalidParameterError, "n_models=0"),
        (
            (0.1, 10, 1, "poisson"),
            InvalidParameterError,
            "scheme='poisson' is unknown: use 'with-replacement' or",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        largest_subsample(*arguments)
