"""All tiny votes and their neighbours, and the most that any strategy learns from their answers, in exact fractions."""

from fractions import Fraction
from functools import cache
from itertools import permutations, product

import mpmath
import numpy as np

from dpensemble.laws.sampling import integer_weights


def histograms(n_votes, n_classes):
    """Return every way to divide the votes among the classes, in ascending order."""
    return [row for row in product(range(n_votes + 1), repeat=n_classes) if sum(row) == n_votes]


def neighbours(counts):
    """Yield the votes after one voter moved to another class."""
    for giver, taker in permutations(range(len(counts)), 2):
        if counts[giver] > 0:
            moved = list(counts)
            moved[giver] -= 1
            moved[taker] += 1
            yield tuple(moved)


def sampled_pairs(law, n_votes, n_classes, votes=1, predictions=(None,)):
    """Return the laws that are drawn from, of every pair of counts between which up to `votes` voters move."""
    rows = histograms(n_votes, n_classes)
    found = []
    for expected in predictions:
        here = law if expected is None else law.against([expected] * len(rows))
        weights = integer_weights(here, np.array(rows)).tolist()
        table = {row: [Fraction(w, 2**63) for w in line] for row, line in zip(rows, weights, strict=True)}
        for one, other in product(rows, repeat=2):
            if 0 < sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= 2 * votes:
                found.append((table[one], table[other]))
    return found


def strongest_delta(pairs, n_answers, factor):
    """Return the delta of the best strategy, which chooses a pair for each answer by the answers before.

    `factor` is exp(epsilon), a fraction.
    """
    each = [list(zip(p, q, strict=True)) for p, q in pairs]

    @cache
    def best(p, q, left):
        if not left:
            return max(p - factor * q, Fraction(0))
        return max(sum(best(p * a, q * b, left - 1) for a, b in pair) for pair in each)

    return best(Fraction(1), Fraction(1), n_answers)


def strongest_gated_delta(pairs, prices, units, factor):
    """Return the same for answers behind a gate, whose last outcome is silence, where a strategy may stop at any time.

    `prices` are those of a check and of a label, and `units` is what they may take together.
    """
    check, label = prices

    @cache
    def best(p, q, left):
        stopped = max(p - factor * q, Fraction(0))
        if left < check + label:
            return stopped
        reached = [
            sum(best(p * a, q * b, left - check - label) for a, b in zip(one[:-1], other[:-1], strict=True))
            + best(p * one[-1], q * other[-1], left - check)
            for one, other in pairs
        ]
        return max(stopped, *reached)

    return best(Fraction(1), Fraction(1), units)


def gaussian_delta_in_digits(mu, epsilon):
    """Return the delta of Gaussian noise to 60 digits. `mu` is the sensitivity over the standard deviation."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        if epsilon / mu > 1e6 + mu:
            return mpmath.exp(-(mpmath.mpf(10) ** 11))  # An upper bound; ncdf itself overflows so far out.
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
