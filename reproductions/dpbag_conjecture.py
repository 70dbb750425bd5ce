"""Why DPBag's tables have more labels at epsilon 1 than its theorems allow: they use a conjecture of its supplement.

The supplement, section 1, equation (3), bounds a record's moments by the gap between the votes, as PATE does. It states
that this is not proved. The smaller of this bound and of Theorem 4's gives the printed labels of table 6 at epsilon 1.
At higher epsilons lower orders matter, at which Theorem 4 has the smaller bound, so its counts come out.

Run ``python -m reproductions.dpbag_conjecture``. Never use these counts for a release: they are not proved private.
"""

from __future__ import annotations

import numpy as np
import typer
from numpy.typing import NDArray

from dpensemble.accounting.published import changeable_votes
from dpensemble.allocation import partitions
from dpensemble.teachers import TeacherEnsemble
from reproductions.catalogue import chosen
from reproductions.dpbag import PUBLISHED_DELTA, table_rows, teacher_of

_ORDERS = np.arange(1.0, 101.0)
_TABLE, _RUNS, _QUERIES = "dpbag-6", 3, 120


def moments(gap: float, n: int, share: NDArray[np.float64], *, conjecture: bool) -> NDArray[np.float64]:
    """Return moments of one answer, shape (n_shares, n_orders).

    Parameters
    ----------
    gap : float
        Votes between the two classes, as a number of the `n` teachers of a partition.
    n : int
        Teachers of a partition. The noise has scale ``n / 2`` for votes averaged over partitions.
    share : ndarray of shape (n_shares,)
        Shares of its partitions in which a record can change the vote, from 0 to 1.
    conjecture : bool
        Take the smaller of Theorem 4's bound and of the supplement's equation (3).
    """
    size = 2 / n * share[:, None]
    proved: NDArray[np.float64] = 2 * size**2 * _ORDERS * (_ORDERS + 1)
    if not conjecture:
        return proved
    # The chance that noise changes the answer, equation (2), in which the noise is not scaled by the share.
    q = (2 + 2 / n * gap) / (4 * np.exp(2 / n * gap))
    with np.errstate(divide="ignore", invalid="ignore"):
        applies = q < np.expm1(2 * size) / np.expm1(4 * size)
        stays = (1 - q) * ((1 - q) / (1 - np.exp(2 * size) * q)) ** _ORDERS
        conjectured = np.log(stays + q * np.exp(2 * size * _ORDERS))
    return np.where(applies, np.minimum(conjectured, proved), proved)


def labels(
    ballots: NDArray[np.unsignedinteger], members: NDArray[np.int64], epsilon: float, *, conjecture: bool
) -> int:
    """Return how many answers the paper counts: those within the budget, and the one that breaches it.

    Parameters
    ----------
    ballots : ndarray of shape (n_queries, n_teachers)
        Votes for two classes, partition after partition.
    members : ndarray of shape (n_records, n_partitions)
        Teachers that learned from a record.
    epsilon : float
        Budget, at the delta that belongs to the printed counts.
    conjecture : bool
        As in `moments`.
    """
    k = members.shape[1]
    n = ballots.shape[1] // k
    shares = np.arange(k + 1) / k
    by_teacher = np.ascontiguousarray(ballots.T)
    votes = changeable_votes(by_teacher, members, 2)
    spent = np.zeros((len(members), len(_ORDERS)))
    for query, ballot in enumerate(ballots):
        gap = abs(n - 2 * float(ballot.sum()) / k)
        spent += moments(gap, n, shares, conjecture=conjecture)[votes[:, query]]
        if np.max(np.min((spent - np.log(PUBLISHED_DELTA)) / _ORDERS, axis=1)) > epsilon:
            return query + 1
    return len(ballots)


def main() -> None:
    """Print labels at epsilon 1 by the theorems and with the conjecture, beside the printed ones."""
    (table,) = chosen([_TABLE])[0]
    settings = table.experiment.settings
    for n in (50, 100):
        for k in settings["sizes"][str(n)]:
            counts: dict[bool, list[int]] = {False: [], True: []}
            for repeat in range(_RUNS):
                rows = table_rows(settings, repeat)
                order = np.random.default_rng([repeat, n]).permutation(len(rows.X_public))[:_QUERIES]
                allocation = partitions(range(len(rows.X)), n, k, entropy=repeat)
                teachers = TeacherEnsemble(
                    teacher_of(settings, rows.X_public), allocation, np.array([0, 1]), entropy=repeat
                ).fit(rows.X, rows.y, lambda _: None)
                ballots = teachers.vote(rows.X_public[order]).ballots
                for conjecture, found in counts.items():
                    found.append(labels(ballots, allocation.memberships, 1.0, conjecture=conjecture))
            printed = table.published[f"DPBag n={n} k={k}"]["Labels", "epsilon 1"]
            typer.echo(
                f"n={n} k={k}: printed {printed:.0f}, theorems {counts[False]}, with the conjecture {counts[True]}"
            )


if __name__ == "__main__":
    main()
