"""The published data-dependent bounds at each group's sensitivity: for comparison only, never a charge.

Like all bounds of `dpensemble.accounting.published.pate` they hold for one order of the pair only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble.accounting.published.pate import gnmax_rdp, lnmax_rdp, threshold_rdp
from dpensemble.errors import AccountingError
from dpensemble.laws import ByLaw, ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw


@dataclass(frozen=True, eq=False, slots=True)
class PublishedRdp:
    """Published costs of each query to one group, shape (n_queries, n_orders): label and threshold check. Private."""

    label: NDArray[np.float64]
    check: NDArray[np.float64]


def published_group_rdp(law: ReleaseLaw, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    """Return the published tight bounds of each query, capped by the loose ones, for one group. Private.

    The bounds hold for one order of the pair, in nats, and are for comparison only. `sensitivity` is the weight of all
    ballots that a record of the group can change. It is 0 where the group sits out, which costs nothing.

    Papernot et al. 2018, Propositions 7, 8 and 10 and Theorem 6. Mühl and Boenisch 2022, Lemma 5.
    """
    if sensitivity == 0:
        free = np.zeros((len(np.asarray(counts)), len(np.asarray(orders))))
        return PublishedRdp(free, free)
    return _of_law(law, counts, orders, sensitivity)


@ByLaw
def _of_law(law: ReleaseLaw, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:  # noqa: ARG001
    raise AccountingError(
        f"no published data-dependent bound covers {type(law).__name__}: use LaplaceNoisyMax, GaussianNoisyMax or "
        "ConfidentNoisyMax."
    )


@_of_law.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = lnmax_rdp(counts, law.scale, orders, sensitivity)
    return PublishedRdp(label, np.zeros_like(label))


@_of_law.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = gnmax_rdp(counts, law.sigma, orders, sensitivity)
    return PublishedRdp(label, np.zeros_like(label))


@_of_law.register(ConfidentNoisyMax)
def _(law: ConfidentNoisyMax, counts: ArrayLike, orders: ArrayLike, sensitivity: float) -> PublishedRdp:
    label = gnmax_rdp(counts, law.sigma, orders, sensitivity)
    return PublishedRdp(label, threshold_rdp(counts, law.threshold, law.threshold_sigma, orders, sensitivity))
