"""Private aggregation of teacher ensembles (PATE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpensemble.engine.classifier import store_params
from dpensemble.engine.voting import VotesInBlocks
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import PATE


class PATEClassifier(PATE, VotesInBlocks):
    """Private classifier by private aggregation of teacher ensembles (PATE).

    The private records are partitioned into `n_teachers` disjoint subsets, with one teacher each. A noisy plurality of
    the teachers labels public rows. A student is trained on those labels, and predicts.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    law : ReleaseLaw or str, default="gnmax"
        Gaussian (``"gnmax"``) or Laplace noisy-max (``"lnmax"``), or one that answers only if the highest noisy count
        passes a threshold (``"confident-gnmax"``) or exceeds the student's expectation (``"interactive-gnmax"``). Or
        any other law of `dpensemble.laws.LAWS`: for example ``"optimal"`` adds no noise to counts and errs less often
        at the same cost. Or an object. The published settings are a scale of 0.08, a sigma of 0.16, a threshold of 0.8
        and its noise of 0.6, each times the number of teachers. `SubsampleAggregateClassifier` describes when other
        noise is used.
    analysis : {"worst-case", "data-dependent", "until-spent"}, default="worst-case"
        Data-dependent charges for the actual votes, exactly for every query and record. It gives many more labels if
        teachers agree, but the spend must not be published, and it requires `max_labels`.
        ``"until-spent"`` answers until the budget is used up. The number of answers then depends on secret votes and
        is not protected. Neither can be used with laws that compare with a student.
    accounting, epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, design_, classes_
        As for `SubsampleAggregateClassifier`. ``labels_.n_asked`` counts unanswered queries too.

    References
    ----------
    N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar, "Semi-supervised knowledge
    transfer for deep learning from private training data", ICLR 2017 (LNMax).
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
