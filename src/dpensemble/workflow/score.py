"""The released quality of a student on held-back units, and one charge for the fit and the score together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._announce import Spending, announce
from dpensemble._arrays import Floats, Rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import Stream, noise_source, seed_integer
from dpensemble.errors import BudgetError, DataError
from dpensemble.quality.release import (
    HeldRecords,
    NoisyHistograms,
    exact_total,
    public_edges,
    quality_cost,
    release_histograms,
)
from dpensemble.rows.bad_records import BAD, class_ids_or_bad
from dpensemble.rows.labels_and_units import sorted_classes
from dpensemble.workflow.holdout import HeldBack


class WithScore:
    """An account that is charged for a fit and its score together, before either is drawn.

    The place of a unit decides whether the unit is used for the fit or for the score. So a replaced unit changes either
    the fit, whose score is then computed as before, or only the score. Together they cost the larger of both, for each
    Renyi order and as a trade-off (parallel composition: F. McSherry, SIGMOD 2009, Theorem 4).
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._paid: list[Spending] = []

    def one_release(self, what: str) -> Callable[[Sequence[Spending]], None]:
        """Return the function that charges one fit and its score."""
        charge = self._ledger.one_release(f"{what} and its score")

        def both(spendings: Sequence[Spending]) -> None:
            # Of several spendings on one account, the ledger takes the largest.
            charge([*spendings, *(_score_of(one) for one in spendings)])
            self._paid.extend(spendings)

        return both

    def require_paid(self, epsilon: float, delta: float) -> None:
        """Raise unless a single charge of the fit covers the score. Charges of parts are not added up."""
        if not any(epsilon <= one.epsilon and delta <= one.delta for one in self._paid):
            raise BudgetError(
                f"holdout_score: a score at epsilon={epsilon:g}, delta={delta:g} was not charged to the ledger, "
                "because the fit was charged in parts; leave it out."
            )


def _score_of(fit: Spending) -> Spending:
    return replace(fit, find_cost=lambda: quality_cost(fit.epsilon, fit.delta))


# What `Reader.held_back` does: rows for the student, and which of them are readable.
_Read = Callable[[pd.DataFrame], tuple[Rows, NDArray[np.bool_]]]


@guard_private_rows()
def require_scorable(held: HeldBack, read: _Read, classes: Sequence[object]) -> None:
    """Raise for a held-back record that a fit would refuse, because the score comes after the charge.

    For runs whose bad records raise errors.
    """
    known = sorted_classes(classes)
    if (class_ids_or_bad(known, held.y.to_numpy()) == BAD).any():
        raise DataError("a held-back record has a label that is not among classes: declare every possible label.")
    try:
        read(held.X)
    except DataError as error:
        raise DataError(f"among the held-back records, {error}") from None


@guard_private_rows()
def scored(model: Any, held: HeldBack, read: Any, public: Any, paid: WithScore | None = None) -> NoisyHistograms:
    """Release histograms of a fitted model on held-back records, at the epsilon and delta of the model's guarantee."""
    stated, classes = model.result_.guarantee, model.result_.classes
    if paid is not None:
        paid.require_paid(stated.epsilon, stated.delta)
    # Without public rows, bins do not depend on the model.
    expected = None if public is None else model.predict_proba(public)
    layout = replace(held.layout, epsilon=stated.epsilon, delta=stated.delta)
    if expected is not None and len(expected):
        layout = layout.for_shares(expected.mean(axis=0).tolist(), len(set(held.required)))
    edges = public_edges(layout, expected, held.required)
    layout = edges.fitted(layout)
    probable, readable = _probabilities(model, held, read)
    ids = class_ids_or_bad(classes, held.y.to_numpy())
    records = HeldRecords(
        probabilities=probable,
        truth=np.maximum(ids, 0),
        groups=held.groups,
        unit_of=held.unit_of,
        n_units=held.n_units,
        # A record with an undeclared label adds nothing, or was refused by `require_scorable`.
        usable=(ids != BAD) & readable,
    )
    total = exact_total(layout, edges, records)
    seed = model.insecure_release_seed
    noise = noise_source(None if seed is None else seed_integer(seed, Stream.SPLIT))
    announce(model.result_.design.groups)
    return release_histograms(layout, edges, total, noise)


def _probabilities(model: Any, held: HeldBack, read: Any) -> tuple[Floats, Any]:
    if not held.by_unit:
        rows, readable = read(held.X)
        return model.predict_proba(rows), readable
    # With more or fewer rows before them, the results of other units' rows could differ in the last digit.
    probabilities, readable = np.empty((len(held.X), len(model.result_.classes))), np.empty(len(held.X), dtype=bool)
    order = np.argsort(held.unit_of, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(held.unit_of[order])) + 1):
        rows, readable[places] = read(held.X.iloc[places])
        probabilities[places] = model.predict_proba(rows)
    return probabilities, readable
