r"""Answers whose records are drawn again for every query: Poisson sampling, accounted query by query.

For every query each unit is drawn with probability ``r``, independently, and goes to one voter. Draws stay secret and
are independent between queries. Fix the draws of all other units. Let ``n`` be the votes without unit ``x``, ``n1``
those with ``x`` drawn, and ``L`` the law that is sampled, mixing and rounding included. ``n1`` differs from ``n`` in
one ballot, so the pair ``(L(n1), L(n))`` is among those that dominate one answer.

*Adding or removing x.* With ``x`` in the data the answer has the law ``(1 - r) L(n) + r L(n1)``, averaged over the
other draws. Without ``x`` it has the law ``L(n)``, averaged over the same draws. Divergences are jointly convex, so
some one pair ``((1 - r) Q + r P, Q)`` is at least as bad, in either direction, where ``(P, Q) = (L(n1), L(n))``. Any
channel that turns a dominating pair into ``(P, Q)`` turns its mixture into this mixture.
So the pairs of the law itself, mixed in this way, dominate. When all pairs of votes are listed and a drawn unit always
goes to the same voter, no smaller cost is true. Privacy that may come from dealing units to voters at random is not
counted.

*Replacing x by y.* The laws are ``(1 - r) L(n) + r L(n1)`` and ``(1 - r) L(n) + r L(n2)``. Here ``n``, ``n1`` and
``n2`` differ in the ballot of one voter. With two classes that ballot takes two values, so ``n`` equals ``n1`` or
``n2``, and the pairs are those above. With more, advanced joint convexity (B. Balle, G. Barthe and M. Gaboardi,
"Privacy amplification by subsampling", NeurIPS 2018, Theorem 2) bounds the hockey-stick divergence at ``log(1 + r
(exp(e) - 1))`` by ``r`` times the largest that the law has at ``e >= 0``, since all of ``L(n)``, ``L(n1)``, ``L(n2)``
are neighbours in one ballot. That is what ``((1 - r) Q + r P, Q)`` has there, and ``(Q, (1 - r) Q + r P)`` has the
matching value where the likelihood ratio is below 1. The divergence of a concave hull of curves is the largest of
theirs, so the one pair whose curve is that hull dominates.

Draws of different queries are independent, so each query is an answer of its own and answers compose as usual, also
when queries are chosen by earlier answers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpensemble._checks import real_between
from dpensemble.accounting.change import Change
from dpensemble.accounting.price import price
from dpensemble.cost import DominatingPairs, PrivacyCost
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Relation


def fresh_cost(law: ReleaseLaw, change: Change, rate: float, relation: Relation) -> PrivacyCost:
    """Return the most that one answer can cost when its units are drawn for it alone, each with probability `rate`.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers, without a gate.
    change : Change
        What one drawn unit can do to the votes.
    rate : float
        Probability that a unit is drawn, from 1e-6 to 1, at most the rate of the draw itself. Public.
    relation : Relation
        Neighbouring relation.

    Returns
    -------
    PrivacyCost
        Public. Contains the finite outcomes that exact composition needs.

    Raises
    ------
    AccountingError
        If the law has a gate, or only a Renyi curve is available for it.

    Examples
    --------
    Ten voters, Laplace noise of three votes:

    >>> from dpensemble.budget import Budget
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> law, change = LaplaceNoisyMax(3.0), Change(ballots=10, classes=2)
    >>> fixed = price(law, change).label
    >>> fresh = fresh_cost(law, change, 0.02, Relation.ADD_OR_REMOVE_ONE)
    >>> [round(float(cost.rdp[0]), 6) for cost in (fixed, fresh)]
    [0.10481, 4.4e-05]
    >>> fixed.most(Budget(epsilon=3, delta=1e-5))
    6
    """
    rate = real_between("rate", rate, 1e-6, 1.0)
    if law.gated:
        raise AccountingError(
            f"law={law.name or type(law).__name__!r} has a gate, and fresh sampling is for laws that always answer: "
            "use 'gnmax', or sampling='fixed'."
        )
    return amplified(price(law, change).label, rate, relation, two_values=change.classes == 2 and change.votes == 1)


@lru_cache(maxsize=64)
def amplified(one: PrivacyCost, rate: float, relation: Relation, *, two_values: bool) -> PrivacyCost:
    """Return the cost of an answer whose units are drawn by chance, from one that holds for both orders of a pair."""
    # `two_values`: a unit can make only two different rows of votes, one of them its absence (see above).
    if one.parts is None or len(one.parts) != 1 or one.parts[0].count != 1:
        raise AccountingError(
            "fresh sampling needs the finite outcomes of an answer, and this law has only a Renyi curve with "
            "these settings: use less noise, one vote a unit, or sampling='fixed'."
        )
    pairs = one.parts[0].pairs
    # The set also holds a pair for the reverse, which may be tighter than this pair reversed.
    mixed_q, mixed_p = (1 - rate) * pairs.q + rate * pairs.p, (1 - rate) * pairs.p + rate * pairs.q
    both = DominatingPairs(np.concatenate([mixed_q, pairs.p]), np.concatenate([pairs.q, mixed_p]))
    if relation is Relation.REPLACE_ONE and not two_values:
        both = both.single()
    return PrivacyCost.of(both)
