"""Private units that are held back from training, to score the student on them with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._checks import real_between
from dpensemble._guard import guard_private_rows
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import Spending, announce
from dpensemble.allocation.partition import number_units
from dpensemble.datasets.bad_records import BAD, class_ids_or_bad, units_or_none, zeroes_bad
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.moments.score import BINS, ReleasedScore, bin_edges, release_score, score_cost, unit_vectors
from dpensemble.relations import Relation
from dpensemble.workflow.tables import Tables

_FEWEST = 20
# A figure needs no more units than this, and each is read separately.
_MOST_UNITS = 5_000
ASSUMPTIONS = (
    "Which units (or records) are held back follows from their places in the private table and a public seed. The "
    "model learns nothing from them, and only a noisy score of the released student on them is published.",
    "Neighbouring data sets list their units in the same order, each by its first record.",
)


@dataclass(frozen=True, eq=False)
class HeldBack:
    """Private records that are not used for training. Never publish them."""

    X: pd.DataFrame
    y: pd.Series
    unit_of: Any
    n_units: int
    by_unit: bool


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
    return replace(fit, find_cost=lambda: score_cost(fit.epsilon, fit.delta))


def hold_back(tables: Tables, model: Any, share: float) -> tuple[Tables, HeldBack]:
    """Divide the private records into training and scoring records."""
    share = real_between("holdout_score", share, 0.0, 0.5)
    if model.relation != Relation.REPLACE_ONE:
        raise InvalidParameterError(
            "holdout_score requires relation='replace-one', in which places are public: set it."
        )
    if model.analysis != "worst-case":
        raise InvalidParameterError("holdout_score requires analysis='worst-case', whose epsilon is public: set it.")
    if tables.budgets is not None or tables.stream is not None:
        what = "records have their own budgets" if tables.stream is None else "private records are read in blocks"
        raise InvalidParameterError(f"holdout_score cannot be used when {what}: give test rows (--test) instead.")
    names = tables.units
    if names is not None and zeroes_bad(model):
        # A record without a unit is not part of the data, as in `fit`.
        names, present = units_or_none(names)
        tables = replace(
            tables,
            X_private=tables.X_private[present].reset_index(drop=True),
            y_private=tables.y_private[present].reset_index(drop=True),
            units=names[present],
        )
        names = tables.units
    unit_of = np.arange(tables.n_records) if names is None else number_units(names.tolist())[1]
    n_units = int(unit_of.max()) + 1
    n_held = int(share * n_units) if tables.units is None else min(int(share * n_units), _MOST_UNITS)
    if n_held < _FEWEST:
        raise InvalidParameterError(
            f"holdout_score={share:g} of {n_units:,} would hold back {n_held}, which is too few for a score; hold "
            f"back at least {_FEWEST}."
        )
    seed = seed_sequence(public_entropy(model.random_state), Stream.SPLIT)
    chosen = np.zeros(n_units, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(n_units)[:n_held]] = True
    held = chosen[unit_of]
    training = replace(
        tables,
        X_private=tables.X_private[~held].reset_index(drop=True),
        y_private=tables.y_private[~held].reset_index(drop=True),
        units=None if tables.units is None else tables.units[~held],
    )
    numbers = np.unique(unit_of[held], return_inverse=True)[1]
    by_unit = tables.units is not None
    return training, HeldBack(tables.X_private[held], tables.y_private[held], numbers, n_held, by_unit)


@guard_private_rows()
def scored(model: Any, held: HeldBack, read: Any, public: Any, paid: WithScore | None = None) -> ReleasedScore:
    """Release a score of a fitted model on held-back records, at the epsilon and delta of the model's guarantee."""
    stated, classes = model.result_.guarantee, model.result_.classes
    if paid is not None:
        paid.require_paid(stated.epsilon, stated.delta)
    probable, readable = _probabilities(model, held, read)
    ids = class_ids_or_bad(classes, held.y.to_numpy())
    # A record with an undeclared label always counts as wrong.
    truth, has_class = np.maximum(ids, 0), ids != BAD
    right = ((probable.argmax(axis=1) == truth) & has_class).astype(np.int64)
    usable = readable & has_class if zeroes_bad(model) else np.ones(len(has_class), dtype=bool)
    cells = None
    if len(classes) == 2:
        # Without public rows, bins of equal width.
        edges = bin_edges(np.linspace(0, 1, 1001) if public is None else model.predict_proba(public)[:, 1])
        cells = np.searchsorted(edges, probable[:, 1], side="right") + BINS * (truth == 1)
    vectors = unit_vectors(right, cells, held.unit_of, held.n_units, usable)
    seed = model.insecure_release_seed
    noise = noise_source(None if seed is None else seed_integer(seed, Stream.SPLIT))
    announce(model.result_.design.groups)
    return release_score(vectors, stated.epsilon, stated.delta, noise)


def _probabilities(model: Any, held: HeldBack, read: Any) -> tuple[Any, Any]:
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
