"""How often a released label is wrong, as a function of how clear the vote is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw, mixed_probabilities


def wrong_label_rate(law: ReleaseLaw, n_teachers: int, margins: ArrayLike, n_classes: int = 2) -> NDArray[np.float64]:
    """Return the probability that a released label is not the plurality's.

    With three or more classes the runner-up has all votes that the winner does not have. The other classes have no
    votes, but their noise takes part.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers. For a gated law the rate is among answered queries.
    n_teachers : int
        Number of ballots. Public.
    margins : array-like of shape (n_margins,)
        Votes by which the winner leads the runner-up, from 0 to `n_teachers`. Need not be whole.
    n_classes : int, default=2
        Declared classes.

    Returns
    -------
    ndarray of shape (n_margins,)
        At margin 0 one of the two counts as the winner.

    Raises
    ------
    InvalidParameterError
        If a margin is out of range.

    Examples
    --------
    Subsample-and-aggregate at its published scale, when 125, 200 and all of 250 teachers agree:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> wrong_label_rate(LaplaceNoisyMax(125), 250, [0, 150, 250]).round(3)
    array([0.5  , 0.241, 0.135])
    """
    answer = law.answer if law.gated else law  # type: ignore[attr-defined]
    # The check's noise is independent of the label's, so among answered queries the label has its own law.
    right: NDArray[np.float64] = mixed_probabilities(answer, _counts(n_teachers, margins, n_classes))[:, 0]
    return 1 - right


def answer_rate(law: ReleaseLaw, n_teachers: int, margins: ArrayLike, n_classes: int = 2) -> NDArray[np.float64]:
    """Return the probability that a query is answered.

    Parameters
    ----------
    law, n_teachers, margins, n_classes
        As for `wrong_label_rate`.

    Returns
    -------
    ndarray of shape (n_margins,)
        1 for laws that always answer. For the interactive law, the rate with a student that knows nothing yet.

    Examples
    --------
    >>> from dpensemble.laws import ConfidentNoisyMax
    >>> law = ConfidentNoisyMax(threshold=200, threshold_sigma=50, sigma=40)
    >>> answer_rate(law, 250, [50, 150, 250]).round(3)
    array([0.159, 0.5  , 0.841])
    """
    counts = _counts(n_teachers, margins, n_classes)
    if law.gated:
        passing: NDArray[np.float64] = law.gate.passing(counts[:, 0])  # type: ignore[attr-defined]
        return passing
    return np.ones(len(counts))


def _counts(n_teachers: int, margins: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    n_teachers, n_classes = integer_between("n_teachers", n_teachers, 1), integer_between("n_classes", n_classes, 2)
    leads = np.atleast_1d(np.asarray(margins, dtype=np.float64))
    if not np.all((leads >= 0) & (leads <= n_teachers)):
        raise InvalidParameterError(f"margins must be votes from 0 to n_teachers={n_teachers}.")
    counts = np.zeros((len(leads), n_classes))
    counts[:, 0], counts[:, 1] = (n_teachers + leads) / 2, (n_teachers - leads) / 2
    return counts


def quality_table(law: ReleaseLaw, ballots: int, n_classes: int, agreements: Sequence[float]) -> list[dict[str, float]]:
    """Return the quality of labels, one row for each share of agreeing teachers.

    Each row has ``agreement``, ``margin`` in votes, ``wrong_label_rate`` and ``answer_rate``. Public.
    """
    margins = [round((2 * share - 1) * ballots, 9) for share in agreements]
    wrong = wrong_label_rate(law, ballots, margins, n_classes).tolist()
    answered = answer_rate(law, ballots, margins, n_classes).tolist()
    names = ("agreement", "margin", "wrong_label_rate", "answer_rate")
    return [dict(zip(names, row, strict=True)) for row in zip(agreements, margins, wrong, answered, strict=True)]
