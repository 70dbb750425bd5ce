"""The release that belongs to each law."""

from __future__ import annotations

from typing import Any

from dpensemble._checks import integer_between
from dpensemble.accounting import GaussianSum
from dpensemble.laws import LawChoice, SparseNoisyMax
from dpensemble.releases.base import Release
from dpensemble.releases.labels import LabelByLaw, LabelBySoftVotes
from dpensemble.releases.mean import NoisyMean
from dpensemble.releases.sparse import SparseLabel

#: Laws with a release of their own. All other laws draw labels from ballots.
RELEASES: dict[Any, Any] = {SparseNoisyMax: SparseLabel, GaussianSum: NoisyMean}


def release_of(law: Any, n_voters: int, n_classes: int, *, clip: float | None = None) -> Release:
    """Return the release that answers by a law.

    Parameters
    ----------
    law : str, ReleaseLaw, SparseNoisyMax or GaussianSum
        A law, or its short name, which then has its usual noise for that many voters.
    n_voters, n_classes : int
        Number of voters and of classes.
    clip : float, optional
        For log-probabilities under the exponential mechanism: see `Release.clip`.
    """
    if type(law) not in RELEASES:
        law = LawChoice.of(law).law(integer_between("n_voters", n_voters, 1), n_classes)
    return RELEASES.get(type(law), LabelByLaw)(law) if clip is None else LabelBySoftVotes(law, clip)
