"""Bands hold the true figures of a population as often as they state, over 200 releases."""

import pytest

from dpensemble.quality.result import Costs
from quality_bands import Study

N_RELEASES = 200
# Binomial(200, 0.95) is below 178 with probability 3e-4.
LEAST = 178


@pytest.mark.parametrize(
    ("rate", "n_units", "epsilon", "changes"),
    [
        (0.03, 1400, 1.0, {}),
        (0.03, 1400, 3.0, {}),
        (0.3, 2000, 1.0, {}),
        (0.3, 400, 8.0, {}),
        (0.3, 2000, 3.0, {"groups": True}),
        (0.3, 1000, 3.0, {"records_per_unit": 3}),
    ],
)
def test_bands_hold_together_at_the_stated_level(rate, n_units, epsilon, changes):
    study = Study(rate, n_units, epsilon, **changes)
    held = study.hits(N_RELEASES)
    if not changes.get("groups"):
        del held["groups"]
    assert min(held.values()) >= LEAST, held


@pytest.mark.parametrize(("epsilon", "flawed"), [(1.0, False), (3.0, True)])
def test_bands_hold_at_the_threshold_that_a_release_chooses(epsilon, flawed):
    """The chosen threshold is the one that looks best, and its bands still hold."""
    costs = Costs(false_negative=10, false_positive=1)
    study = Study(0.1, 3000, epsilon, costs=costs, flawed=flawed)
    truth, thresholds = study.truth(), study.edges.of_class["yes"].tolist()
    held, moved = 0, 0
    for seed in range(N_RELEASES):
        decision = study.release(seed).decision
        place = thresholds.index(decision.threshold)
        row = decision.table[0]
        holds = all(row[name].low <= 1000 * truth[name][place] <= row[name].high for name in ("missed", "false_alarms"))
        cost = 1000 * (10 * truth["missed"][place] + truth["false_alarms"][place])
        assert row["cost"].low <= cost <= row["cost"].high or not holds
        held += holds
        moved += decision.threshold != costs.threshold
    assert held >= LEAST
    # Probabilities that are right keep the formula's threshold, at most 5 % of the time another.
    assert moved <= N_RELEASES * 0.1 if not flawed else moved > N_RELEASES * 0.5


def test_bands_of_a_rare_outcome_hold_over_few_releases():
    """Binomial(40, 0.95) is below 32 with probability 5e-4."""
    held = Study(0.03, 1400, 1.0).hits(40)
    assert min(held["together"], held["accuracy"], held["auroc"]) >= 32
