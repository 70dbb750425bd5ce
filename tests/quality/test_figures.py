"""Figures of noisy cells: exact without noise, wide where noise hides the denominator, and in order."""

import numpy as np
import pytest

from dpensemble.quality.figures import Figure, ShareSums, critical, mean, monotone, shares


def test_limits_that_hold_together_are_wider():
    assert critical(1) == pytest.approx(1.959964, abs=1e-6)
    # 0.95 ** (1 / 60) on each of 60 figures.
    assert critical(60) == pytest.approx(3.3345, abs=1e-4)
    rng = np.random.default_rng(0)
    for correlation in (0.0, 0.9):
        common, own = rng.normal(size=(20_000, 1)), rng.normal(size=(20_000, 60))
        figures = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
        # Binomial(20,000, 0.95) is below 0.9435 with probability 2e-5.
        assert (np.abs(figures).max(axis=1) <= critical(60)).mean() > 0.9435


def test_without_noise_a_share_is_the_share_and_its_band_that_of_a_binomial():
    for cases, n in ((30, 100), (1, 50), (0, 40), (40, 40), (200, 1000)):
        (share,) = shares(ShareSums.of(float(cases), float(n - cases), 3, 3), 0.0, critical(1))
        assert share.value == pytest.approx(cases / n)
        assert share.low <= cases / n <= share.high
        # Wilson's interval, which lies inside because of the allowance for skewness and for the number of units.
        z = critical(1)
        middle = (cases + z**2 / 2) / (n + z**2)
        half = z * np.sqrt(cases / n * (1 - cases / n) * n + z**2 / 4) / (n + z**2)
        assert share.low <= max(middle - half, 0) + 2e-3
        assert share.high >= min(middle + half, 1) - 2e-3
        assert share.high - share.low <= 2 * half + 0.05


@pytest.mark.parametrize(("s", "f"), [(-20.0, 12.0), (3.0, -2.0), (0.0, 0.0), (-30.0, -40.0), (4.0, 5.0)])
def test_a_denominator_that_noise_hides_is_unknown_and_has_a_wide_band(s, f):
    (share,) = shares(ShareSums.of(s, f, 4, 4), 10.0, critical(30))
    assert share.value is None
    assert (share.low, share.high) == (0.0, 1.0)


def test_negative_cells_give_shares_between_0_and_1():
    figures = shares(ShareSums.of(np.array([-9.0, 500.0]), np.array([500.0, -9.0]), 5, 5), 5.0, 3.0)
    for one in figures:
        assert 0 <= one.low <= one.value <= one.high <= 1
    assert [one.value for one in figures] == [0.0, 1.0]


def test_figures_that_cannot_fall_have_narrower_bands_in_order():
    raw = [Figure(0.3, 0.1, 0.5), Figure(0.25, 0.2, 0.9), Figure(0.6, 0.15, 0.7), Figure(0.5, 0.4, 0.95)]
    rising = monotone(raw, rising=True)
    assert [one.low for one in rising] == [0.1, 0.2, 0.2, 0.4]
    assert [one.high for one in rising] == [0.5, 0.7, 0.7, 0.95]
    values = [one.value for one in rising]
    assert values == sorted(values)
    mirrored = monotone(raw[::-1], rising=False)
    assert mirrored == rising[::-1]
    assert monotone([], rising=True) == []
    # Limits that cross were wrong before, and are kept.
    crossing = [Figure(0.8, 0.7, 0.9), Figure(0.2, 0.1, 0.3)]
    assert [(one.low, one.high) for one in monotone(crossing, rising=True)] == [(0.7, 0.9), (0.1, 0.3)]


def test_the_mean_of_values_is_that_of_units():
    cells, values = np.array([[30.0, 10.0], [5.0, 25.0]]), np.array([[0.1, 1.0], [2.0, 0.2]])
    found = mean(cells, values, 0.0)
    assert found.value == pytest.approx((cells * values).sum() / cells.sum())
    assert found.low < found.value < found.high
    assert mean(cells - 20, values, 30.0).value is None


def test_a_figure_as_plain_values_on_other_scales():
    one = Figure(0.25, 0.125, 0.5)
    assert one.to_dict() == {"value": 0.25, "low": 0.125, "high": 0.5}
    assert one.times(1000) == Figure(250.0, 125.0, 500.0)
    assert one.mirrored() == Figure(0.75, 0.5, 0.875)
    assert Figure(None, 0.0, 1.0).mirrored() == Figure(None, 0.0, 1.0) == Figure(None, 0, 1).times(1)
