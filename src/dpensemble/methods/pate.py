"""Private aggregation of teacher ensembles (PATE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpensemble.engine.params import store_params
from dpensemble.engine.voting_in_blocks import VotesInBlocks
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import PATE


class PATEClassifier(PATE, VotesInBlocks):
    """Private classifier by private aggregation of teacher ensembles (PATE).

    One partition of the private records into `n_teachers` disjoint subsets, one teacher each; public rows are labelled
    by a noisy plurality, a student is trained on those labels and is what predicts.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    law : ReleaseLaw or str, default="gnmax"
        Gaussian (``"gnmax"``) or Laplace noisy-max (``"lnmax"``); answering only where the highest noisy count passes a
        threshold (``"confident-gnmax"``), or where it exceeds what the student expects
        (``"interactive-gnmax"``); or any other of `dpensemble.laws.LAWS`, such as ``"optimal"``, which adds no noise to
        counts and errs less often at the same cost; or an object. Usual settings, as published, are a scale of
        0.08, a sigma of 0.16, a threshold of 0.8 and its noise of 0.6 times the number of teachers; see
        `SubsampleAggregateClassifier` for when the noise is another.
    analysis : {"worst-case", "data-dependent", "until-spent"}, default="worst-case"
        Data-dependent charges for the votes at hand, exactly for every query and record: many
        more labels where teachers agree, but the spend must not be published; it needs `max_labels`.
        ``"until-spent"`` answers until the budget is used up; the number of answers then depends on secret votes and
        is not protected. Neither is for laws that compare with a student.
    accounting, epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, design_, classes_
        As for `SubsampleAggregateClassifier`; ``labels_.n_asked`` counts unanswered questions too.

    References
    ----------
    N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar, "Semi-supervised knowledge
    transfer for deep learning from private training data", ICLR 2017 (LNMax);
    N. Papernot et al., "Scalable private learning with PATE", ICLR 2018 (the others, Algorithms 1 and 2).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = PATEClassifier(classes=[0, 1], law="gnmax", epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_)
    88
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "gnmax",
        analysis: str = "worst-case",
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())
