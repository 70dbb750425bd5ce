"""Units drawn for every answer: over all that the draw itself can give, answers reveal no more than is charged."""

from itertools import product

import numpy as np
import pytest

from dpensemble._random import NOISE_BITS
from dpensemble.accounting import Change, fresh_cost
from dpensemble.aggregation.aggregator import _FreshRecords
from dpensemble.audit import sampled_probabilities
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.relations import Relation

EPSILONS = (0.0, 0.02, 0.1, 0.3, 1.0)
# Voters, classes, rate, law. Rates are exact in bits.
SETTINGS = [
    (2, 2, 0.25, LaplaceNoisyMax(1.0)),
    (3, 2, 0.125, LaplaceNoisyMax(2.0)),
    (2, 2, 0.5, GaussianNoisyMax(1.0)),
    (2, 3, 0.25, LaplaceNoisyMax(1.5)),
    (2, 3, 0.5, ExponentialVote(1.5)),
]
# The unit of each record. x and y are the patients that differ, with two and three records.
PAIRS = {
    Relation.ADD_OR_REMOVE_ONE: [("axbx", "ab"), ("ab", "axbx"), ("xx", ""), ("", "yyy")],
    Relation.REPLACE_ONE: [("axbx", "ayby"), ("xax", "yayy"), ("xx", "yyy")],
}


class Scripted:
    """Bits that draw the units of a script, for the voters of the script."""

    def __init__(self, script, rate):
        self._drawn = [0 if place >= 0 else int(rate * 2**NOISE_BITS) for place in script]
        self._rounds = iter([self._drawn, [place for place in script if place >= 0]])

    def uniform_bits(self, size):
        found = next(self._rounds)
        assert len(found) == size
        return np.array(found, dtype=np.uint64)


def what_voters_see(data, by_unit, voters, rate):
    """Yield the chance of each outcome of a draw, and the records that each voter sees in it."""
    units = list(data) if by_unit else list(range(len(data)))
    for script in product(range(-1, voters), repeat=len(set(units))):
        chance = np.prod([1 - rate if place < 0 else rate / voters for place in script])
        drawn = _FreshRecords(voters, rate, Scripted(script, rate)).draw(len(data), units if by_unit else None)
        yield chance, [tuple(data[place] for place in positions) for positions in drawn.voters]


def law_of_answer(data, by_unit, setting, rule):
    voters, classes, rate, law = setting
    total, chances = np.zeros(classes), 0.0
    for chance, seen in what_voters_see(data, by_unit, voters, rate):
        counts = np.bincount([rule(voter, records) for voter, records in enumerate(seen)], minlength=classes)
        total += chance * sampled_probabilities(law, counts[None])[0]
        chances += chance
    assert chances == pytest.approx(1)
    return total


def rules(rng, classes):
    """Return ways to vote: to single out a patient, against a rival, or at random from the records seen."""
    yield lambda _, seen: 1 if "x" in seen else 0
    yield lambda _, seen: 1 if "x" in seen else (classes - 1 if "y" in seen else 0)
    yield lambda _, seen: 1 if seen.count("x") > 1 or seen.count("y") > 2 else 0
    for _ in range(4):
        memory = {}
        yield lambda v, seen, memory=memory: memory.setdefault((v, seen), int(rng.integers(classes)))


def most_revealed(by_unit, setting, relation):
    """Return the largest ratio of what an answer reveals to what is charged, over data, rules and epsilons."""
    voters, classes, rate, law = setting
    pairs = fresh_cost(law, Change(ballots=voters, classes=classes), rate, relation).parts[0].pairs
    found = 0.0
    for data, other in PAIRS[relation]:
        for rule in rules(np.random.default_rng(voters + classes), classes):
            p, q = (law_of_answer(records, by_unit, setting, rule) for records in (data, other))
            for epsilon in EPSILONS:
                revealed, charged = np.maximum(p - np.exp(epsilon) * q, 0).sum(), pairs.hockey_stick(epsilon)
                # Rounding may leave something when nothing is charged.
                if revealed > 1e-13:
                    found = max(found, float(revealed / max(charged, 1e-300)))
    return found


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_draws_of_units_reveal_no_more_than_is_charged(setting, relation):
    ratio = most_revealed(True, setting, relation)
    assert ratio <= 1 + 1e-9
    # Some voters come near the bound, so it is not idle.
    assert ratio > 0.5


@pytest.mark.parametrize("relation", Relation)
def test_draws_of_records_reveal_more_of_a_patient_than_is_charged(relation):
    assert most_revealed(False, SETTINGS[0], relation) > 1.3
