"""Private units that are held back from training, to score the student on with noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._checks import real_between
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import about_to_spend
from dpensemble.allocation.partition import number_units
from dpensemble.errors import InvalidParameterError
from dpensemble.methods.score import BINS, ReleasedScore, bin_edges, release_score, unit_vectors
from dpensemble.relations import Relation
from dpensemble.workflow.tables import Tables

_FEWEST = 20
# More units are not needed for a figure, and each is read by itself.
_MOST_UNITS = 5_000
ASSUMPTIONS = (
    "Which units (or records) are held back follows from their places in the private table and a public seed; they "
    "teach nothing, and only a noisy score of the released student on them is published.",
    "Neighbouring data sets list their units in the same order, each by its first record.",
)


@dataclass(frozen=True, eq=False)
class HeldBack:
    """Private records that teach nothing; never publish them."""

    X: pd.DataFrame
    y: pd.Series
    unit_of: Any
    n_units: int
    by_unit: bool


def hold_back(tables: Tables, model: Any, share: float, ledger: Any = None) -> tuple[Tables, HeldBack]:
    """Part the private records into those that teach and those that score.

    Parameters
    ----------
    tables : Tables
        Of one run.
    model : estimator
        Whose neighbouring relation must be replace-one, and budget one for all.
    share : float
        Share of the units to hold back, at most a half.
    ledger : LedgerAccount, optional
        Must be None: the score's charge could be refused after the model was paid for.

    Raises
    ------
    InvalidParameterError
        If the score would not be covered by what is proved, or there are too few units.
    """
    share = real_between("holdout_score", share, 0.0, 0.5)
    if ledger is not None:
        raise InvalidParameterError("holdout_score is not charged to a ledger yet; leave out one of the two.")
    if model.relation != Relation.REPLACE_ONE:
        raise InvalidParameterError("holdout_score needs relation='replace-one', under which places are public.")
    if getattr(model, "analysis", "worst-case") != "worst-case":
        raise InvalidParameterError("holdout_score needs analysis='worst-case', whose epsilon is public.")
    if tables.budgets is not None or tables.stream is not None:
        what = "records have budgets of their own" if tables.stream is None else "private records are read in blocks"
        raise InvalidParameterError(f"holdout_score is not for runs where {what}; give test rows (--test) instead.")
    unit_of = np.arange(tables.n_records) if tables.units is None else number_units(tables.units.tolist())[1]
    n_units = int(unit_of.max()) + 1
    n_held = int(share * n_units) if tables.units is None else min(int(share * n_units), _MOST_UNITS)
    if n_held < _FEWEST:
        raise InvalidParameterError(
            f"holdout_score={share:g} of {n_units:,} would hold back {n_held}, which is too few to say anything; hold "
            f"back at least {_FEWEST}."
        )
    seed = seed_sequence(public_entropy(model.random_state), Stream.SPLIT)
    chosen = np.zeros(n_units, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(n_units)[:n_held]] = True
    held = chosen[unit_of]
    kept = replace(
        tables,
        X_private=tables.X_private[~held].reset_index(drop=True),
        y_private=tables.y_private[~held].reset_index(drop=True),
        units=None if tables.units is None else tables.units[~held],
    )
    numbers = np.unique(unit_of[held], return_inverse=True)[1]
    return kept, HeldBack(tables.X_private[held], tables.y_private[held], numbers, n_held, tables.units is not None)


def scored(model: Any, held: HeldBack, encode: Any, public: Any) -> ReleasedScore:
    """Release how a fitted model does on held-back records, at the epsilon and delta that it states itself.

    Parameters
    ----------
    model : estimator
        Fitted on other units; what it says may be published.
    held : HeldBack
        Private.
    encode : callable
        Turns rows into what the model takes.
    public : array, DataFrame or None
        Encoded public rows, by which bins are chosen.
    """
    classes = model.classes_
    probable = _probabilities(model, held, encode)
    truth = np.searchsorted(classes, held.y.to_numpy())
    # A label that was not declared is wrong whatever is said.
    known = np.isin(held.y.to_numpy(), classes)
    right = ((probable.argmax(axis=1) == truth) & known).astype(np.int64)
    cells = None
    if len(classes) == 2:
        # Without public rows, even bins.
        edges = bin_edges(np.linspace(0, 1, 1001) if public is None else model.predict_proba(public)[:, 1])
        cells = np.searchsorted(edges, probable[:, 1], side="right") + BINS * (truth == 1)
    vectors = unit_vectors(right, cells, held.unit_of, held.n_units)
    seed = model.insecure_release_seed
    noise = noise_source(None if seed is None else seed_integer(seed, Stream.SPLIT))
    about_to_spend(model.design_.groups)
    return release_score(vectors, model.guarantee_.epsilon, model.guarantee_.delta, noise)


def _probabilities(model: Any, held: HeldBack, encode: Any) -> Any:
    if not held.by_unit:
        return model.predict_proba(encode(held.X))
    # With more or fewer rows before them, other units' rows could come out otherwise in the last digit.
    found = np.empty((len(held.X), len(model.classes_)))
    order = np.argsort(held.unit_of, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(held.unit_of[order])) + 1):
        found[rows] = model.predict_proba(encode(held.X.iloc[rows]))
    return found
