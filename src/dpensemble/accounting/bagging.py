"""Privacy of bagging without noise: the law of the subsamples hardly depends on any one record.

Let ``S`` be all subsamples together, ``D`` a data set of ``n`` units, ``u`` one of them, and ``delta`` the
probability that ``u`` is drawn at all (`BootstrapScheme.inclusion_probability`). All units are equally likely,
so given that ``u`` is not drawn, ``S`` follows its law on ``D - u``::

    P(D) = (1 - delta) P(D - u) + delta R(u),      where every outcome of R(u) holds u.

- *Removal*: ``P(D - u)`` never holds ``u``, so the two parts are disjoint, and the mass of ``P(D)`` beyond
  ``e**epsilon P(D - u)`` is ``delta`` at every ``epsilon >= 0``. In the other direction that mass is
  ``max(0, 1 - e**epsilon (1 - delta))``, which is ``delta`` at epsilon 0 and less above.
- *Replacement* of ``u`` by ``v``: both laws share ``(1 - delta) P(D - u)`` and the rest is disjoint, which is
  ``delta`` in both directions at every epsilon.
- *Addition*: the pair of ``n`` and ``n + 1`` units has the delta of ``n + 1``, which is smaller. So with ``n``
  public the pair of ``n`` and ``n - 1`` is worst.

So ``(0, delta)`` holds under either relation. At epsilon 0 delta is the total variation distance. For a base
learner that distinguishes its records, no smaller delta holds at any epsilon (Theorems 5 and 6). Models, their
votes, and everything computed from them are post-processing of ``S``.

References
----------
"On the Intrinsic Differential Privacy of Bagging" (Liu, Jia and Gong), Theorems 3 to 6. The case of epsilon 0 and
independent subsets are the project's own.
"""

from __future__ import annotations

import math

from dpensemble._checks import delta_of, integer_between, member
from dpensemble._rounding import round_up
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.cost.searching import last_between
from dpensemble.errors import BudgetError, InvalidParameterError

# Sixteen units in the last place; the formulas' rounding errors come to about four.
_SLACK = 2.0**-48
_MOST = 2**31 - 1


def bagging_delta(scheme: BootstrapScheme, n_units: int) -> float:
    """Return the smallest delta at which bagging is (0, delta)-differentially private for every base learner.

    Replacing, adding or removing one unit changes the probability of any event computed from the models by at most
    delta. When the base learner distinguishes its records, as nearest neighbours do, no smaller delta holds at any
    epsilon, against replacement and removal.

    Parameters
    ----------
    scheme : BootstrapScheme
        How the subsamples are drawn.
    n_units : int
        Number of private records (or units). Public, under add-or-remove-one too.

    Returns
    -------
    float
        From ``1 / n_units`` to 1, rounded up.

    Raises
    ------
    InvalidParameterError
        If the scheme needs more units.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorems 3 to 6. The proof at epsilon 0 is in this module.

    Examples
    --------
    >>> bagging_delta(BootstrapScheme("with-replacement", n_models=1, subsample=10_000), 60_000)
    0.1535...
    """
    return scheme.inclusion_probability(n_units)


def bagging_delta_below_one(scheme: BootstrapScheme, n_units: int) -> float:
    """Return `bagging_delta`, refusing a scheme that draws every unit with certainty, which gives no privacy."""
    delta = bagging_delta(scheme, n_units)
    if delta >= 1:
        raise BudgetError(
            f"subsample={scheme.subsample} for {scheme.n_models} {_models(scheme.n_models)} draws each of the "
            f"{n_units} private records (or units) with certainty, so delta would be 1: use a smaller subsample."
        )
    return delta


def published_bagging(scheme: BootstrapScheme, n_units: int) -> tuple[float, float] | None:
    """Return the paper's pair of epsilon and delta, which is implied by epsilon 0 at the same delta.

    Parameters
    ----------
    scheme : BootstrapScheme
        How the subsamples are drawn.
    n_units : int
        Number of private records (or units). Public.

    Returns
    -------
    (float, float) or None
        Epsilon, rounded up, and `bagging_delta`; None for independent subsets, which the paper does not cover.

    Raises
    ------
    InvalidParameterError
        If the scheme needs more units.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorem 3 with replacement, Theorem 4 for distinct draws
    (its abstract has a stray factor in the latter).

    Examples
    --------
    >>> published_bagging(BootstrapScheme("distinct", n_models=3, subsample=100), 60_000)
    (0.00501..., 0.005)
    """
    delta = bagging_delta(scheme, n_units)
    if scheme.scheme is Bootstrap.SUBSETS:
        return None
    draws, more = scheme.n_draws, n_units + 1
    if scheme.scheme is Bootstrap.WITH_REPLACEMENT:
        epsilon = draws * math.log1p(1 / n_units)
    else:
        # Accurate at both ends: a quotient near 1, and one that subtraction would spoil.
        epsilon = -math.log1p(-draws / more) if 2 * draws <= more else math.log(more / (more - draws))
    return epsilon * (1 + _SLACK), delta


def largest_subsample(
    delta: float, n_units: int, n_models: int = 1, scheme: Bootstrap | str = Bootstrap.WITH_REPLACEMENT
) -> int:
    """Return the largest subsample of each model whose `bagging_delta` is at most `delta`.

    The size depends on the number of units, which neighbouring data sets share under replace-one only. Under
    add-or-remove-one, choose the size beforehand.

    Parameters
    ----------
    delta : float
        Allowed; strictly between 0 and 1, and at least about ``n_models / n_units``.
    n_units : int
        Number of private records (or units). Public.
    n_models : int, default=1
        Number of models.
    scheme : Bootstrap or str, default="with-replacement"
        How subsamples are drawn.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    BudgetError
        If one unit a model is too many. The message names the smallest delta.
    InvalidParameterError
        If a setting is out of range.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Theorems 3 and 4, solved for the size of the subsample.

    Examples
    --------
    >>> largest_subsample(0.005, 60_000)
    300
    """
    delta, scheme = delta_of(delta), member("scheme", scheme, Bootstrap)
    n_units, n_models = integer_between("n_units", n_units, 1), integer_between("n_models", n_models, 1)

    def fits(subsample: int) -> bool:
        return bagging_delta(BootstrapScheme(scheme, n_models, subsample), n_units) <= delta

    most = {
        Bootstrap.WITH_REPLACEMENT: _MOST,
        Bootstrap.DISTINCT: n_units // n_models,
        Bootstrap.SUBSETS: min(n_units, _MOST),
    }[scheme]
    if most < 1 or not fits(1):
        raise _too_small(delta, n_units, n_models, scheme)
    return last_between(fits, 1, most + 1)


def _too_small(delta: float, n_units: int, n_models: int, scheme: Bootstrap) -> BudgetError | InvalidParameterError:
    """Return the error for a delta that one unit a model exceeds, with the remedy."""
    one = BootstrapScheme(scheme, n_models, 1)
    try:
        smallest = bagging_delta(one, n_units)
    except InvalidParameterError as error:
        return error
    models = f"{n_models} {_models(n_models)}"
    remedy = "more records" if smallest >= 1 else "at least that, or more records"
    return BudgetError(
        f"delta={delta:g} is too small for bagging {n_units} private records (or units), where {models} of one "
        f"record each need delta={round_up(smallest, 4):g} at any epsilon: use {remedy}."
    )


def _models(number: int) -> str:
    return "model" if number == 1 else "models"
