"""Noise that sites draw in parts: brute force against the bound, and the variances of draws."""

import math

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.cost import gaussian_epsilon
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation
from dpensemble.releases.parts import SiteNoise, SiteSumsMeter, epsilon_at
from dpensemble.releases.sums import SumQuery, SumReleaser


class Whole(SumQuery):
    """A sum of numbers that one unit moves by at most 2**34."""

    description, unit, replacing, removing = "numbers", 2**34, 2**34, 2**34

    def read(self, sums, spread):
        return sums, spread


def releaser(noise, seed=0):
    return SumReleaser(
        relation=Relation.REPLACE_ONE,
        meter=SiteSumsMeter(Budget(epsilon=1, delta=1e-5), 2),
        noise=SeededNoise(seed),
        parts=noise,
    )


def law(variance, width):
    """Return the discrete Gaussian on -width .. width."""
    places = np.arange(-width, width + 1)
    chances = np.exp(-(places**2) / (2 * variance))
    return chances / chances.sum()


@pytest.mark.parametrize("variance", [0.25, 0.4, 0.7, 1.0])
@pytest.mark.parametrize("parts", [2, 3, 5, 8])
def test_the_bound_on_sums_of_parts_holds_by_brute_force(variance, parts):
    width = 40
    one = summed = law(variance, width)
    for _ in range(parts - 1):
        summed = np.convolve(summed, one)
    single = law(parts * variance, (len(summed) - 1) // 2)
    # Far tails of truncated laws are rounding.
    near = single > 1e-12
    distance = np.abs(np.log(summed[near] / single[near])).max()
    bound = 5 * sum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, parts))
    assert distance <= bound
    # A tenth of the constant would be too little for two parts, so that the comparison can fail.
    assert parts > 2 or distance > bound / 10


@pytest.mark.parametrize("parts", [2, 1000])
def test_the_bound_is_covered_by_what_the_slack_leaves(parts):
    smallest = 2**20
    log_bound = math.log(5 * parts) - math.pi**2 * smallest
    assert log_bound < math.log(0.3 / (parts * smallest)) - 10**6
    # The largest logarithm of a ratio at 38 standard deviations, and the constant that is charged.
    assert 38**2 / 8 + 1 / 8 + 0.3 < 181


@pytest.mark.parametrize(("sites", "colluding"), [(3, 1), (5, 1), (5, 3), (20, 1), (20, 18)])
def test_parts_of_all_but_colluding_sites_have_the_charged_variance(sites, colluding):
    noise = SiteNoise(sites, colluding)
    for charged in (2**60 + 1, 2**69 - 3):
        part = noise.drawn(charged, 0)
        assert (sites - colluding) * part == noise.charged(charged) >= charged
        assert noise.charged(charged) - charged < sites
        assert noise.opened(charged) == sites * part
    assert noise.factor(sites - colluding) == 1.0
    assert noise.factor(sites) == pytest.approx(math.sqrt((sites - colluding) / sites))


def test_a_site_may_insist_on_a_part_of_its_own():
    noise = SiteNoise(3, 1, (0.0, 0.75, 1.0))
    charged = 2**60 + 1
    assert noise.drawn(charged, 2) == charged
    assert noise.drawn(charged, 1) == -(-3 * charged // 4)
    assert noise.opened(charged) == sum(noise.drawn(charged, site) for site in range(3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2, 1), "at least 3"),
        ((5, 4), "at least 6"),
        ((5, 0), "colluding"),
        ((1001, 1), "n_sites"),
        ((3, 1, (0.0, 1.5, 0.0)), "least share"),
        ((3, 1, (0.0,)), "one each"),
    ],
)
def test_impossible_divisions_are_refused(arguments, words):
    with pytest.raises(InvalidParameterError, match=words):
        SiteNoise(*arguments)


def drawn_parts(sites, colluding, entries):
    """Return what each site sends without masks, in units of the charged deviation."""
    noise, parts = SiteNoise(sites, colluding), []
    for site in range(sites):
        one = releaser(noise, seed=site)
        query, total = Whole(), np.zeros(entries, dtype=object)
        parts.append(one.charge_and_draw_part(query, total, 1.0, site=site))
        charged = one.meter.charges[0]["variance"]
    return np.array(parts, dtype=np.float64) / math.sqrt(charged)


@pytest.mark.parametrize(("sites", "colluding"), [(3, 1), (5, 3)])
def test_variances_of_opened_sums_and_of_parts(sites, colluding):
    # A variance of N draws, over the true one, has the standard deviation sqrt(2 / N). Six of them leave a false-alarm
    # rate of 2e-9 a comparison. The test also fails if noise is 20 % too small or too large.
    entries = 3000
    parts = drawn_parts(sites, colluding, entries)
    tolerance = 6 * math.sqrt(2 / entries)
    assert tolerance < 0.2
    opened, honest = parts.sum(axis=0), parts[: sites - colluding].sum(axis=0)
    assert np.mean(opened**2) == pytest.approx(sites / (sites - colluding), rel=tolerance)
    assert np.mean(honest**2) == pytest.approx(1.0, rel=tolerance)
    # One site's noise does not repeat another's: six standard deviations of a mean of products.
    alike = np.mean(parts[0] * parts[1]) * (sites - colluding)
    assert abs(alike) < 6 / math.sqrt(entries)


def test_a_part_is_charged_before_it_is_drawn_and_a_refused_one_is_not_drawn():
    class Silent(SeededNoise):
        def uniform_bits(self, size):
            raise AssertionError("noise was drawn")

    noise = SiteNoise(3, 1)
    meter = SiteSumsMeter(Budget(epsilon=1, delta=1e-5), 1)
    one = SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=SeededNoise(0), parts=noise)
    total = np.arange(4).astype(object)
    one.charge_and_draw_part(Whole(), total, 1.0, site=0)
    refused = SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=Silent(0), parts=noise)
    with pytest.raises(BudgetError):
        refused.charge_and_draw_part(Whole(), total, 1.0, site=0)
    with pytest.raises(InvalidParameterError, match="charge_and_draw_part"):
        refused.charge_and_draw(Whole(), total, 1.0)


def test_attempts_that_are_lost_cost_a_sum_more_each():
    budget = Budget(epsilon=1, delta=1e-5)
    meter = SiteSumsMeter(budget, 3)
    for _ in range(3):
        meter.charge(meter.sigma(1.0), variance=2**60, entries=10)
    assert meter.spent_epsilon == pytest.approx(gaussian_epsilon(meter.mu * math.sqrt(3), 1e-5), rel=1e-5)
    with pytest.raises(BudgetError):
        meter.charge(meter.sigma(1.0), variance=2**60, entries=10)
    again = SiteSumsMeter(budget, 3)
    again.charge_again(meter.charges)
    assert again.spent_epsilon == meter.spent_epsilon


def test_a_unit_at_several_sites_and_more_honest_sites():
    meter = SiteSumsMeter(Budget(epsilon=1, delta=1e-5), 1)
    meter.charge(meter.sigma(1.0), variance=2**60, entries=10)
    cost = meter.cost()
    assert epsilon_at(cost, 1e-5) == pytest.approx(1.0, rel=1e-5)
    assert epsilon_at(cost, 1e-5, sites=3) == pytest.approx(gaussian_epsilon(3 * meter.mu, 1e-5), rel=1e-5)
    factor = SiteNoise(5, 1).factor(5)
    assert epsilon_at(cost, 1e-5, factor=factor) == pytest.approx(
        gaussian_epsilon(meter.mu * math.sqrt(4 / 5), 1e-5), rel=1e-5
    )
