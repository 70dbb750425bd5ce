"""The budget at which a contestant runs, so that all promise the same when a record is replaced."""

from __future__ import annotations

from math import exp

REPLACE, ADD, UNNAMED = "replace-one", "add-or-remove-one", "none named"
#: The contestant runs at the epsilon of the table, or at half of it to count as replace-one.
NOMINAL, HALVED = "nominal", "halved"


def spent(epsilon: float, delta: float, budget: str) -> tuple[float, float]:
    """Return epsilon and delta that a contestant is given.

    Replacing a record is removing one and adding another. By group privacy for two steps (Dwork and Roth 2014,
    Theorem 2.2 for pure epsilon, and Vadhan 2017, Lemma 2.2), (e, d) for adding or removing a record implies
    (2 e, (1 + exp(e)) d) for replacing one: P(A) <= exp(e) Q(A) + d <= exp(e) (exp(e) R(A) + d) + d. So the method
    gets half of epsilon, and delta / (1 + exp(epsilon / 2)).

    Examples
    --------
    >>> spent(1.0, 1e-5, "nominal")
    (1.0, 1e-05)
    >>> half, smaller = spent(1.0, 1e-5, "halved")
    >>> half, round(smaller * 1e6, 2)
    (0.5, 3.78)
    """
    if budget == NOMINAL:
        return epsilon, delta
    return epsilon / 2, delta / (1 + exp(epsilon / 2))


def budgets(relation: str | None, nominal: bool) -> tuple[str, ...]:
    """Return the budgets at which a contestant of a relation runs; `nominal` asks for the second table too."""
    if relation != ADD:
        return (NOMINAL,)
    return (HALVED, NOMINAL) if nominal else (HALVED,)
