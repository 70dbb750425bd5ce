r"""Class sums of two classes, read around the share of the second class instead of one half.

A round of class sums releases ``S_0`` and ``S_1``, the means of ``phi 1{y = c}`` with noise. The difference ``(S_1 -
S_0) / 2`` is the mean of ``phi (y - 1 / 2)``. Public rows stand for private ones in its expectation, and they do so
with an error that grows with ``(p - 1 / 2)**2``. That error is large where one class is rare. The mean of ``phi (y -
c)`` is known as well: ``(1 - c) S_1 - c S_0``. Its error by public rows grows with ``(p - c)**2``, and its noise with
``(1 - c)**2 + c**2``. The centre ``c`` between one half and the share of the class makes the sum of both least. All of
this reads released quantities and public rows only.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.moments.base_rate import within
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import Moments


def around_share(
    moments: Moments, about: tuple[Floats, Floats], public: PublicRows, n_units: float
) -> tuple[Moments, tuple[Floats, Floats]]:
    """Return moments of two classes around another centre. Rounds of residuals stay as they are.

    Parameters
    ----------
    moments : Moments
        One round, with one column.
    about : tuple of ndarray
        Centres, shape (n_rows, 1), and weights, shape (n_rows,), of public rows.
    public : PublicRows
        Public rows.
    n_units : float
        Number of private units.

    Returns
    -------
    moments, about
        Both, around the new centre.
    """
    if moments.centre is not None or moments.mean is None:
        return moments, about
    constant = public.constant
    share = within(float(moments.values[-1, 0]) / constant + 0.5, moments.spread / constant)
    centre = best_centre(share, error_of_rows(public, n_units), len(moments.values) * moments.spread**2)
    values = moments.values + (0.5 - centre) * moments.mean[:, None]
    spread = math.hypot(moments.spread, (0.5 - centre) * moments.mean_spread)
    return replace(moments, values=values, spread=spread), (np.full_like(about[0], centre), about[1])


def best_centre(share: float, of_rows: float, of_noise: float) -> float:
    """Return the centre of least error, ``of_rows (share - c)**2 + of_noise (1 + 4 (1 / 2 - c)**2)``.

    Examples
    --------
    >>> best_centre(0.1, 1.0, 0.0)
    0.1
    >>> best_centre(0.1, 0.0, 1.0)
    0.5
    """
    return (of_rows * share + 2 * of_noise) / (of_rows + 4 * of_noise)


def error_of_rows(public: PublicRows, n_units: float) -> float:
    """Return the summed variance of mean features, of a sample of units against the public rows."""
    ones: Floats = np.ones((public.features.shape[0], 1))
    return (1 / n_units + public.doubt) * float(np.trace(public.covariance(ones)))
